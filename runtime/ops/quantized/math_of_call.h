// Operators that are computed as others, by their kernels and in engines alike.
#pragma once

#include "runtime/engine/network/convert_call.h"
#include "runtime/ops/call_op.h"

#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace tscompile {

// Other operators on values of a call.
template <class Call>
class MathOfCall {
 public:
  explicit MathOfCall(const Call& call) : call_(call) {}

  IValue operator()(std::string_view op, std::vector<IValue> arguments) const {
    if constexpr (std::is_same_v<Call, KernelCall>)
      return invoke(call_, op, std::span<const IValue>(arguments));
    else
      return call_.compute(op, std::move(arguments));
  }
  IValue to(const IValue& x, DType dtype) const { return to(x, IValue(static_cast<int64_t>(dtype))); }
  IValue to(const IValue& x, const IValue& dtype) const {
    return (*this)("aten::to.dtype", {x, dtype, false, false, IValue()});
  }
  IValue mul(const IValue& x, const IValue& y) const { return byKind("aten::mul", {x, y}); }
  IValue add(const IValue& x, const IValue& y) const { return byKind("aten::add", {x, y, 1}); }
  IValue sub(const IValue& x, const IValue& y) const { return byKind("aten::sub", {x, y, 1}); }
  IValue reshape(const IValue& x, const Dims& sizes) const { return (*this)("aten::reshape", {x, intList(sizes)}); }
  IValue one(std::string_view op, const IValue& x) const { return (*this)(op, {x}); }
  IValue clamped(const IValue& x, const IValue& least, const IValue& most) const {
    return (*this)("aten::clamp", {x, least, most});
  }

 private:
  IValue byKind(std::string op, std::vector<IValue> arguments) const {
    op += arguments[1].isTensor() ? ".Tensor" : ".Scalar";
    return (*this)(op, std::move(arguments));
  }
  const Call& call_;
};

}  // namespace tscompile
