// Elements of one tensor or another, by a condition.
#include "runtime/engine/layers/pointwise_steps.h"
#include "runtime/ops/ops.h"
#include "runtime/reference/elementwise.h"

namespace tscompile {
namespace {

// A number beside a tensor takes the dtype of the tensor, but for its category; two numbers promote as numbers do.
void inferWhere(InferCall& call) {
  DType condition = call.tensor(0).dtype;
  call.require(condition == DType::Bool || condition == DType::UInt8 || condition == DType::Undefined,
               "where expected condition to be a boolean tensor, but got a tensor with dtype {}", graphName(condition));
  resultBroadcast(call, promotedDType(call, 2, 1), 3);
}

template <class T>
void whereTile(const Tile& t) {
  auto* out = static_cast<T*>(t.operand[0]);
  auto* condition = static_cast<const bool*>(t.operand[1]);
  auto *a = static_cast<const T*>(t.operand[2]), *b = static_cast<const T*>(t.operand[3]);
#pragma GCC ivdep
  for (int64_t i = 0; i < t.n; ++i) out[i] = condition[i] ? a[i] : b[i];
}

TileFunction whereTileOf(Compute c) {
  switch (c) {
    case Compute::F32:
      return whereTile<float>;
    case Compute::F64:
      return whereTile<double>;
    case Compute::C128:
      return whereTile<std::complex<double>>;
    default:
      return whereTile<int64_t>;
  }
}

// A number is checked for the range of the dtype, but for halves.
Tensor choice(const KernelCall& call, size_t i, DType dtype) {
  const IValue& v = call.argument(i);
  if (v.isTensor()) return convertedFor(v.toTensor(), dtype);
  const bool isHalf = dtype == DType::Float16 || dtype == DType::BFloat16;
  return convertedFor(scalarTensor(isHalf ? v : numberFor(v, dtype)), dtype);
}

void whereKernel(KernelCall& call) {
  DType dtype = call.spec().dtype;
  Tensor condition = call.tensor(0), a = choice(call, 1, dtype), b = choice(call, 2, dtype);
  Tensor out = elementwiseOutput(call, {&condition, &a, &b});
  Compute c = computeTypeOf(dtype);
  Operand operands[] = {{out, c}, {condition, Compute::Bool}, {a, c}, {b, c}};
  loopTiles(out.sizes(), operands, 1, whereTileOf(c));
}

}  // namespace

void registerWhereOps(OpRegistry& ops) {
  addAliases(ops, {"aten::where.self", "aten::where.ScalarSelf", "aten::where.ScalarOther", "aten::where.Scalar"},
             {.infer = inferWhere,
              .kernel = whereKernel,
              .convert = convertPointwise<PointwiseOp::Where>,
              .dtypes = kAllTypes,
              .traits = {Trait::RoundsOnce}});
}

}  // namespace tscompile
