// Element-wise operators. A kernel is a function of one element of each input, made for a few compute types; the loops,
// the conversions, the shape functions and the promotion of dtypes around it are shared.
#pragma once

#include "ir/operators/op_def.h"
#include "runtime/call/kernel_call.h"
#include "runtime/kernels/wide/vector_math.h"
#include "runtime/reference/loops/copy.h"
#include "runtime/reference/loops/loop.h"
#include "runtime/reference/promotion.h"

#include <span>

namespace tscompile {

// ---- shape functions ----

void inferSameAsSelf(InferCall& call);
// float32 for integers.
void inferFloatUnary(InferCall& call);
// bool.
void inferPredicate(InferCall& call);
// The first two or three arguments, tensors or numbers, promoted and broadcast.
void inferBinary(InferCall& call);
void inferFloatBinary(InferCall& call);
void inferComparison(InferCall& call);
void inferTernary(InferCall& call);

// The dtype that `count` arguments from `first` on promote to.
DType promotedDType(const InferCall& call, size_t count, size_t first = 0);
DType promotedDType(const KernelCall& call, size_t count, size_t first = 0);
// The result of a dtype whose sizes are those of `count` arguments from `first` on, broadcast.
void resultBroadcast(InferCall& call, DType dtype, size_t count, size_t first = 0);

// ---- kernels ----

// The compute types that a function is made for. Integer tensors are computed in float32 by functions without kI64.
// With kVectors, floats come as F32x8 and F64x4.
using TypeSet = unsigned;
inline constexpr TypeSet kF32 = 1, kF64 = 2, kI64 = 4, kC128 = 8, kVectorLanes = 16;
inline constexpr TypeSet kFloats = kF32 | kF64;
inline constexpr TypeSet kVectors = kFloats | kVectorLanes;
inline constexpr TypeSet kReals = kFloats | kI64;
inline constexpr TypeSet kNumbers = kReals | kC128;

// Argument i as a tensor; a number becomes one without dimensions.
Tensor operandTensor(const KernelCall& call, size_t i);
// The output of an element-wise operator: the first argument of in-place variants, what call.out() has made before,
// else a tensor with the strides that PyTorch would give it.
Tensor elementwiseOutput(KernelCall& call, std::span<const Tensor* const> inputs);
inline Tensor elementwiseOutput(KernelCall& call, std::initializer_list<const Tensor*> inputs) {
  return elementwiseOutput(call, std::span(inputs.begin(), inputs.size()));
}

// Calls `f` on every element of a tile. It is copied so that the compiler sees that no store changes it.
template <class F, class T, class Out, size_t... k>
void elementTile(const Tile& t) {
  const F f = *static_cast<const F*>(t.parameters);
  auto* out = static_cast<Out*>(t.operand[0]);
  const T* const in[] = {static_cast<const T*>(t.operand[1 + k])...};
#pragma GCC ivdep
  for (int64_t i = 0; i < t.n; ++i) out[i] = f(in[k][i]...);
}

// The same for functions of vectors. The last vector is filled up with its first element.
template <class F, class V, size_t... k>
void vectorTile(const Tile& t) {
  const F f = *static_cast<const F*>(t.parameters);
  constexpr size_t kBytes = sizeof(V), kWidth = sizeof(Lane<V>);
  auto* out = static_cast<std::byte*>(t.operand[0]);
  const std::byte* const in[] = {static_cast<const std::byte*>(t.operand[1 + k])...};
  auto apply = [&](size_t at, size_t bytes) {
    auto load = [&](const std::byte* p) {
      V v;
      if (bytes < kBytes) v = splat<V>(*reinterpret_cast<const Lane<V>*>(p + at));
      std::memcpy(&v, p + at, bytes);
      return v;
    };
    V result = f(load(in[k])...);
    std::memcpy(out + at, &result, bytes);
  };
  size_t end = static_cast<size_t>(t.n) * kWidth, at = 0;
  for (; at + kBytes <= end; at += kBytes) apply(at, kBytes);
  if (at < end) apply(at, end - at);
}

// A number that an operator takes beside its tensors, converted to their dtype; fails if it does not fit.
class ScalarArgument {
 public:
  ScalarArgument(const KernelCall& call, size_t i, DType dtype);
  template <class T>
  T as() const {
    if constexpr (std::is_same_v<T, int64_t>)
      return integer_;
    else
      return static_cast<T>(real_);
  }

 private:
  int64_t integer_ = 0;
  double real_ = 0;
};

// The loop of a function for one compute type; null if it is not made for it.
struct TypedTile {
  TileFunction tile = nullptr;
  Compute in = Compute::F32, out = Compute::F32;
};

template <class F, class T, size_t... k>
TypedTile typedTile(std::index_sequence<k...>) {
  using Out = Lane<std::invoke_result_t<F, std::enable_if_t<(k + 1 > 0), T>...>>;
  if constexpr (Vector<T>)
    return {vectorTile<F, T, k...>, kComputeOf<Lane<T>>, kComputeOf<Out>};
  else
    return {elementTile<F, T, Out, k...>, kComputeOf<T>, kComputeOf<Out>};
}

template <TypeSet kTypes, size_t kInputs, class F>
TypedTile typedTile(Compute c) {
  constexpr std::make_index_sequence<kInputs> kIndices;
  constexpr bool kVector = (kTypes & kVectorLanes) != 0;
  if constexpr (kTypes & kF32)
    if (c == Compute::F32) return typedTile<F, std::conditional_t<kVector, F32x8, float>>(kIndices);
  if constexpr (kTypes & kF64)
    if (c == Compute::F64) return typedTile<F, std::conditional_t<kVector, F64x4, double>>(kIndices);
  if constexpr (kTypes & kI64)
    if (c == Compute::I64) return typedTile<F, int64_t>(kIndices);
  if constexpr (kTypes & kC128)
    if (c == Compute::C128) return typedTile<F, std::complex<double>>(kIndices);
  return {};
}

// A loop over operands of a call: arguments `first` and following, converted to `dtype`, give the result.
struct ElementLoop {
  size_t first, count;
  DType dtype;
  TypedTile typed;
  const void* function;
  void run(KernelCall& call) const;
};

[[noreturn]] void refuseDType(DType dtype);
// Of sizes that cannot be broadcast together.
[[noreturn]] void refuseBroadcast(DimSpan a, DimSpan b);

// Runs `f` over kInputs arguments from `first` on, converted to `dtype`, and makes the result.
template <TypeSet kTypes, size_t kInputs, class F>
void mapElements(KernelCall& call, DType dtype, const F& f, size_t first = 0) {
  if (!(kTypes & kI64)) dtype = toFloating(dtype);
  TypedTile typed = typedTile<kTypes, kInputs, F>(computeTypeOf(dtype));
  if (!typed.tile) refuseDType(dtype);
  ElementLoop{first, kInputs, dtype, typed, &f}.run(call);
}

// Runs `f` over tensors, which broadcast to the sizes of `out`, in the compute type of `dtype`.
template <TypeSet kTypes, class F, std::same_as<Tensor>... In>
void mapTensors(DType dtype, const F& f, const Tensor& out, const In&... in) {
  TypedTile typed = typedTile<kTypes, sizeof...(In), F>(computeTypeOf(dtype));
  if (!typed.tile) refuseDType(dtype);
  Operand operands[] = {{out, typed.out}, {convertedFor(in, dtype), typed.in}...};
  loopTiles(out.sizes(), operands, 1, typed.tile, &f);
}

// Kernels of operators whose inputs are the first arguments: `kernel = unaryKernel<kVectors, [](auto x) { return
// exp(x); }>`.
template <TypeSet kTypes, size_t kInputs, class F>
void mapInputs(KernelCall& call, const F& f) {
  mapElements<kTypes, kInputs>(call, promotedDType(call, kInputs), f);
}
template <TypeSet kTypes, auto kF>
void unaryKernel(KernelCall& call) {
  mapInputs<kTypes, 1>(call, kF);
}
template <TypeSet kTypes, auto kF>
void binaryKernel(KernelCall& call) {
  mapInputs<kTypes, 2>(call, kF);
}

// ---- records ----

// One record for each name of an operator. PyTorch has no in-place variants under the names aten::special_*.
void addAliases(OpRegistry& ops, std::initializer_list<std::string_view> names, OpDef def);

}  // namespace tscompile
