// The first argument of the operator that the interpreter runs, where nothing reads that value afterwards.
#pragma once

#include "ir/values/ivalue.h"

#include <utility>

namespace tscompile {

// While it lives, `value` is that argument of this thread.
class OwnedArgument {
 public:
  explicit OwnedArgument(const IValue& value) : before_(std::exchange(current_, &value)) {}
  OwnedArgument(const OwnedArgument&) = delete;
  OwnedArgument& operator=(const OwnedArgument&) = delete;
  ~OwnedArgument() { current_ = before_; }

  // Whether its memory can become that of the result: it is all of the argument's own, and nobody else sees it, as
  // callers see what they lend, and conjugates what they are shown of.
  static bool canBecomeResult(const IValue& value) {
    if (&value != current_ || !value.isTensor() || !value.tensorImpl()) return false;
    const TensorImpl& t = *value.tensorImpl();
    const Storage& memory = *t.storage();
    return t.unique() && memory.unique() && !memory.readOnly() && !memory.isSymbolic() && !memory.isBorrowed() &&
           t.isContiguous() && t.offset() == 0;
  }

 private:
  static inline thread_local const IValue* current_ = nullptr;
  const IValue* before_;
};

}  // namespace tscompile
