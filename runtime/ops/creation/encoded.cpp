// Weights that are stored smaller than they are computed with.
#include "ir/values/encoded.h"

#include "ir/operators/infer_call.h"
#include "runtime/call/kernel_call.h"
#include "runtime/ops/ops.h"
#include "runtime/reference/loops/copy.h"

namespace tscompile {
namespace {

// tscompile::decode(values, scales, axis)
void inferDecode(InferCall& call) {
  TensorInfo values = call.tensor(0);
  const bool isInt8 = values.dtype == DType::Int8;
  call.require(isInt8 == !call.isNone(1), "decode: int8 has scales, and nothing else has them");
  if (isInt8) {
    const int64_t axis = call.integer(2);
    TensorInfo scales = call.tensor(1);
    call.require(scales.dtype == DType::Float32 || scales.dtype == DType::Undefined, "decode: scales are of float32");
    call.require(axis >= 0 && (!values.hasRank || axis < static_cast<int64_t>(values.rank())),
                 "decode: there is no dimension {}", axis);
    const bool isKnown = values.hasRank && scales.hasRank && scales.rank() == 1;
    const int64_t channels = isKnown ? values.sizes[static_cast<size_t>(axis)] : -1;
    call.require(!scales.hasRank || scales.rank() == 1, "decode: scales are a row");
    call.require(channels < 0 || scales.sizes[0] < 0 || scales.sizes[0] == channels,
                 "decode: {} channels have {} scales", channels, isKnown ? scales.sizes[0] : 0);
  }
  if (values.hasRank)
    call.result(DType::Float32, Dims(values.sizes));
  else
    call.resultOfUnknownRank(DType::Float32);
}

void decodeKernel(KernelCall& call) {
  const Tensor values = contiguous(call.tensor(0));
  const Tensor scales = call.isNone(1) ? Tensor() : contiguous(call.tensor(1));
  const Tensor made = encodedTensor(values, scales, static_cast<int>(call.integer(2)));
  // What somebody may still write is decoded now.
  const bool isFixed = values.storage()->readOnly() && (!scales.defined() || scales.storage()->readOnly());
  call.setResult(isFixed ? made : decodedOnce(made));
}

}  // namespace

void registerEncodedOps(OpRegistry& ops) {
  ops.add({.schema = "tscompile::decode(Tensor values, Tensor? scales, int axis) -> Tensor",
           .infer = inferDecode,
           .kernel = decodeKernel,
           .dtypes = {DType::Float16, DType::BFloat16, DType::Int8}});
}

}  // namespace tscompile
