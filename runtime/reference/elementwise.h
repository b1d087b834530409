// Element-wise operators as tables: a functor gives the loop for each compute type, shape functions and kernels are
// shared.
#pragma once

#include <Eigen/Core>

#include "ir/op_def.h"
#include "runtime/kernel_call.h"
#include "runtime/reference/copy.h"
#include "runtime/reference/loop.h"
#include "runtime/reference/promotion.h"

namespace tscompile {

// The loops of one operator, by compute type. Null: not defined for it.
struct TileSet {
  TileFunction f32 = nullptr, f64 = nullptr, i64 = nullptr, c128 = nullptr;
  TileFunction of(Compute c) const {
    switch (c) {
      case Compute::F32: return f32;
      case Compute::F64: return f64;
      case Compute::C128: return c128;
      default: return i64;
    }
  }
};

template <class T>
using ConstRun = Eigen::Map<const Eigen::Array<T, Eigen::Dynamic, 1>>;
template <class T>
using Run = Eigen::Map<Eigen::Array<T, Eigen::Dynamic, 1>>;
template <class T>
ConstRun<T> input(const Tile& t, int k) {
  return {static_cast<const T*>(t.operand[k]), t.n};
}
template <class T>
Run<T> output(const Tile& t, int k = 0) {
  return {static_cast<T*>(t.operand[k]), t.n};
}

// ---- loops from functors ----
//
// `struct Square { template <class A> static auto apply(const A& a) { return a * a; } };` works on Eigen arrays, so its
// loops are vectorised; what Eigen has no word for works on single elements with `ofElement`.

template <class Op, class In, class Out = In>
void unaryTile(const Tile& t) {
  output<Out>(t) = Op::apply(input<In>(t, 1)).template cast<Out>();
}
template <class Op, class In, class Out = In>
void binaryTile(const Tile& t) {
  output<Out>(t) = Op::apply(input<In>(t, 1), input<In>(t, 2)).template cast<Out>();
}
// Op::apply(T) -> T on single elements.
template <class Op, class In, class Out = In>
void unaryElements(const Tile& t) {
  auto* out = static_cast<Out*>(t.operand[0]);
  auto* in = static_cast<const In*>(t.operand[1]);
  for (int64_t i = 0; i < t.n; ++i) out[i] = Op::apply(in[i]);
}
template <class Op, class In, class Out = In>
void binaryElements(const Tile& t) {
  auto* out = static_cast<Out*>(t.operand[0]);
  auto* a = static_cast<const In*>(t.operand[1]);
  auto* b = static_cast<const In*>(t.operand[2]);
  for (int64_t i = 0; i < t.n; ++i) out[i] = Op::apply(a[i], b[i]);
}

// ---- shape functions ----

void inferSameAsSelf(InferCall& call);
// float32 for integers.
void inferFloatUnary(InferCall& call);
// bool.
void inferPredicate(InferCall& call);
// The first two arguments, tensors or numbers, promoted and broadcast.
void inferBinary(InferCall& call);
void inferFloatBinary(InferCall& call);
void inferComparison(InferCall& call);

// ---- kernels ----

// Argument i as a tensor; a number becomes one without dimensions.
Tensor operandTensor(const KernelCall& call, size_t i);
// The output of an element-wise operator: the first argument of in-place variants, else a tensor with the strides that
// PyTorch would give it.
Tensor elementwiseOutput(KernelCall& call, std::initializer_list<const Tensor*> inputs);
// Runs `tiles` in the compute type of `dtype` on operands of a call; the output holds bool if `predicate`.
void runUnary(KernelCall& call, const TileSet& tiles, DType dtype, bool predicate = false, const void* parameters = nullptr);
void runBinary(KernelCall& call, const TileSet& tiles, DType dtype, bool predicate = false, const void* parameters = nullptr);
// The common dtype of the first two arguments.
DType commonDType(const KernelCall& call);

// A unary operator computed in its argument's dtype, or for inferFloatUnary in the result's.
template <const TileSet& kTiles>
void unaryKernel(KernelCall& call) {
  runUnary(call, kTiles, call.spec().dtype);
}
template <const TileSet& kTiles>
void predicateKernel(KernelCall& call) {
  runUnary(call, kTiles, call.tensor(0).dtype(), true);
}
template <const TileSet& kTiles>
void binaryKernel(KernelCall& call) {
  runBinary(call, kTiles, call.spec().dtype);
}
template <const TileSet& kTiles>
void comparisonKernel(KernelCall& call) {
  runBinary(call, kTiles, commonDType(call), true);
}

}  // namespace tscompile
