#include "python/core/operators.h"

#include "api/binding/foreign_operators.h"
#include "ir/values/error.h"
#include "python/core/values.h"

#include <nanobind/stl/string.h>

namespace nb = nanobind;

namespace tscompile::python {
namespace {
thread_local OperatorFailures* tFailures = nullptr;
}  // namespace

OperatorFailures::OperatorFailures() : before_(tFailures) { tFailures = this; }
OperatorFailures::~OperatorFailures() { tFailures = before_; }

nb::object OperatorFailures::take() {
  if (raised_.is_valid() && !PyObject_IsInstance(raised_.ptr(), PyExc_Exception)) {
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(raised_.ptr())), raised_.ptr());
    throw nb::python_error();
  }
  return std::move(raised_);
}

void OperatorFailures::note(nb::object raised) {
  if (tFailures) tFailures->raised_ = std::move(raised);
}

namespace {

// A function, let go with the interpreter's lock wherever that is.
std::shared_ptr<PyObject> held(nb::object function) {
  return {function.release().ptr(), [](PyObject* object) {
            if (!Py_IsInitialized()) return;  // the process ends, and its memory with it
            nb::gil_scoped_acquire lock;
            Py_DECREF(object);
          }};
}

// "ValueError: no such thing"
std::string wordsOf(nb::handle raised) {
  const nb::str type(nb::handle(reinterpret_cast<PyObject*>(Py_TYPE(raised.ptr()))).attr("__name__"));
  const std::string text = nb::cast<std::string>(nb::str(raised));
  return type.c_str() + (text.empty() ? "" : ": " + text);
}

std::vector<IValue> call(PyObject* function, std::span<const IValue* const> arguments,
                         std::span<const Argument> results) {
  nb::gil_scoped_acquire lock;
  try {
    nb::list given;
    for (const IValue* v : arguments) given.append(toPython(*v));
    nb::object result = nb::borrow(function)(*given);
    if (results.empty()) return {};
    if (results.size() == 1) return {fromPython(result, results[0].type)};
    std::vector<IValue> out;
    if (!PyTuple_Check(result.ptr()) && !PyList_Check(result.ptr())) return {IValue()};  // too few
    for (nb::handle item : result)
      out.push_back(fromPython(item, out.size() < results.size() ? results[out.size()].type : nullptr));
    return out;
  } catch (nb::python_error& e) {
    nb::object raised = nb::borrow(e.value());
    const bool isError = PyObject_IsInstance(raised.ptr(), PyExc_Exception) == 1;
    const std::string words = wordsOf(raised);
    OperatorFailures::note(std::move(raised));
    throw ExecutionError(isError ? ErrorKind::Model : ErrorKind::Interrupted, words);
  } catch (const nb::builtin_exception& e) {
    throw ExecutionError(ErrorKind::Model, std::string("a result: ") + e.what());
  }
}

void registerFunction(const std::string& schema, nb::object function) {
  Diagnostics diagnostics;
  auto compute = [kept = held(std::move(function))](std::span<const IValue* const> arguments,
                                                    std::span<const Argument> results) {
    return call(kept.get(), arguments, results);
  };
  if (!registerOperator({schema, std::move(compute)}, diagnostics)) raise(diagnostics, {});
}

}  // namespace

void addOperators(nb::module_& m) { m.def("register_operator", registerFunction); }

}  // namespace tscompile::python
