// What converters ask of their arguments, and the reasons to call a kernel that many of them share.
#pragma once

#include "runtime/engine/layers/half_tensors.h"
#include "runtime/engine/layers/pointwise_layer.h"
#include "runtime/reference/loops/copy.h"

#include <algorithm>
#include <optional>
#include <string_view>

namespace tscompile {

inline constexpr std::string_view kNotF32 = "an argument is not float32", kEmpty = "a tensor has no elements",
                                  kWeightUnknown = "the weight or the bias is an input, or not float32";

inline bool isF32(const Tensor& t) { return t.dtype() == DType::Float32; }
// Of operators that are made of others, whose layers compute in f32: halves are rounded between them.
inline bool isF32OrHalf(const Tensor& t) { return isF32(t) || isHalf(t.dtype()); }

// Argument i as an operand whose elements lie in row-major order.
inline TensorId contiguousOperand(ConvertCall& call, size_t i) {
  TensorId id = call.operand(i);
  return call.network()[id].contiguous ? id : addCopy(call, id);
}

// The dimensions of a tensor in the order in which it lies in memory.
inline Dims orderInMemory(const Tensor& t) {
  Dims order;
  for (int d = 0; d < t.rank(); ++d) order.push_back(d);
  if (!t.isContiguous())
    std::ranges::stable_sort(
        order, [&](int64_t a, int64_t b) { return t.stride(static_cast<int>(a)) > t.stride(static_cast<int>(b)); });
  return order;
}

// The value, a tensor of the network or not, with other sizes.
inline IValue reshaped(const ConvertCall& call, const IValue& value, const Dims& sizes) {
  return call.compute("aten::reshape", {value, intList(sizes)});
}

// With its dimensions in another order.
inline IValue permuted(const ConvertCall& call, const IValue& value, const Dims& order) {
  return call.compute("aten::permute", {value, intList(order)});
}

// A constant vector of f32, or nothing; None is an undefined tensor.
inline std::optional<Tensor> constantVector(ConvertCall& call, size_t i) {
  if (call.isNone(i)) return Tensor();
  if (call.isNetworkTensor(i) || !isF32(call.tensor(i))) return std::nullopt;
  return contiguous(call.tensor(i));
}
// Bytes of so many floats in a workspace, what follows them being aligned.
inline size_t floatBytes(int64_t floats) {
  constexpr size_t kAlignment = 64;
  return (static_cast<size_t>(floats) * sizeof(float) + kAlignment - 1) / kAlignment * kAlignment;
}
inline const float* dataOrNull(const Tensor& t) { return t.defined() ? t.data<float>() : nullptr; }

}  // namespace tscompile
