#include "runtime/ops/layers/reduced_loss.h"

namespace tscompile {
namespace {

LossReduction fromNumber(int64_t number) {
  return number == 1 || number == 2 ? static_cast<LossReduction>(number) : LossReduction::None;
}

}  // namespace

LossReduction lossReduction(const InferCall& call, size_t i) { return fromNumber(call.integer(i)); }
LossReduction lossReduction(const KernelCall& call, size_t i) { return fromNumber(call.integer(i)); }

void resultLoss(InferCall& call, DType dtype, LossReduction reduction, DimSpan sizes) {
  call.result(dtype, reduction == LossReduction::None ? sizes : DimSpan());
}

Tensor reducedLoss(const KernelCall& call, const Tensor& losses, LossReduction reduction) {
  if (reduction == LossReduction::None) return losses;
  return invokeTensor(call, reduction == LossReduction::Mean ? "aten::mean" : "aten::sum", {losses, IValue()});
}

}  // namespace tscompile
