// Operators that are functions of Python.
#pragma once

#include <nanobind/nanobind.h>

namespace tscompile::python {

// What functions of operators raise in runs of this thread, while it lives: the reason that a run's error is given.
class OperatorFailures {
 public:
  OperatorFailures();
  ~OperatorFailures();
  OperatorFailures(const OperatorFailures&) = delete;

  // The exception that was raised last; invalid if there was none. One that is no Exception (KeyboardInterrupt) is
  // raised again.
  nanobind::object take();
  // In a function of an operator.
  static void note(nanobind::object raised);

 private:
  OperatorFailures* before_;
  nanobind::object raised_;
};

void addOperators(nanobind::module_& m);

}  // namespace tscompile::python
