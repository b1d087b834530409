// The tensors that `out` variants write to: `torch.add(x, y, out=z)`.
#pragma once

#include "ir/operators/op_registry.h"
#include "ir/values/ivalue.h"

#include <vector>

namespace tscompile {

// The arguments of a sum or product that goes into a tensor: where none is given, its dtype is that of the tensor.
class IntoArguments {
 public:
  IntoArguments(const Operator& op, const IValue* const* arguments, size_t count);
  const IValue* const* orGiven(const IValue* const* arguments) const {
    return changed_.empty() ? arguments : changed_.data();
  }

 private:
  IValue dtype_;
  std::vector<const IValue*> changed_;
};

// Refuses, as PyTorch does, a target whose dtype or sizes an `out` variant cannot give it.
void checkOut(const Operator& op, const IValue* const* arguments, size_t count, const IValue& target,
              const IValue& value);

enum class OutSizes : uint8_t {
  Given,    // of an `out` variant, before it has those of the result
  Resized,  // ... after
  Final,    // of an in-place variant
};

// Refuses a target of an `out` or in-place variant that shares memory with what the operator reads, where PyTorch does.
void checkOverlaps(const Operator& op, const IValue* const* arguments, size_t count, const IValue& target,
                   OutSizes sizes);

}  // namespace tscompile
