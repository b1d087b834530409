#include "runtime/engine/layers/grouped_matmul_layer.h"

#include "ir/values/encoded.h"
#include "ir/values/error.h"
#include "runtime/engine/layers/operands.h"

#include <fmt/core.h>

#include <algorithm>

namespace tscompile {

size_t GroupedMatmulLayer::workspace() const {
  int64_t bytes = 0;
  for (const PackedMatrix& m : packed_) bytes = std::max(bytes, gemmWorkspace(rows_, m));
  return static_cast<size_t>(bytes);
}

double GroupedMatmulLayer::flops() const {
  return 2.0 * static_cast<double>(rows_) * static_cast<double>(depth()) * static_cast<double>(columns());
}

void GroupedMatmulLayer::run(Frame& frame) const {
  const bool isLong = frame.network()[inputs[1]].dtype == DType::Int64;
  auto endOf = [&](size_t g) {
    return isLong ? frame.data<int64_t>(inputs[1])[g] : int64_t{frame.data<int32_t>(inputs[1])[g]};
  };
  const float* rows = frame.data<float>(inputs[0]);
  auto* to = frame.data<float>(outputs[0]);
  int64_t begin = 0;
  for (size_t g = 0; g < packed_.size(); ++g) {
    const int64_t end = endOf(g);
    if (end < begin || end > rows_)
      throw ExecutionError(ErrorKind::Model, fmt::format("the ends of groups must rise to {} at most", rows_));
    if (end > begin)
      gemm(end - begin, rows + begin * lda_, lda_, packed_[g], to + begin * columns(), columns(), {}, frame.workspace(),
           frame.threads());
    begin = end;
  }
  std::fill(to + begin * columns(), to + rows_ * columns(), 0.0f);
}

void GroupedMatmulLayer::prepare(WeightStore& store, const ProductPrecision& precision) {
  const WeightStorage storage = fitting(precision.weights, [&] { return weight_; });
  const int64_t bytes = (packedBytes(depth(), columns(), storage) + 63) / 64 * 64;
  data_ = store.get(fmt::format("groups of {}x{}", depth(), columns()), weight_, [&] {
    Tensor packed = store.buffer(weight_.size(0) * bytes);
    const Tensor weight = decodedOnce(weight_);
    for (int64_t g = 0; g < weight_.size(0); ++g)
      packMatrix(depth(), columns(), weight.data<float>() + g * weight_.stride(0), weight_.stride(1), weight_.stride(2),
                 storage, packed.raw() + g * bytes);
    return packed;
  });
  packed_.clear();
  for (int64_t g = 0; g < weight_.size(0); ++g)
    packed_.push_back({.k = depth(),
                       .n = columns(),
                       .storage = storage,
                       .data = data_.raw() + g * bytes,
                       .roundsRows = precision.roundsRows});
}

void convertGroupedMatmul(ConvertCall& call) {
  Tensor x = call.tensor(0), w = call.tensor(1);
  if (!isF32(x) || !isF32(w) || call.spec().dtype != DType::Float32) return convertToKernel(call, kNotF32);
  if (x.rank() == 3 && w.rank() == 3) return call.setResult(0, call.compute("aten::bmm", {x, w}));
  if (x.rank() != 2 || w.rank() != 3) return convertToKernel(call, "the groups are not of rows");
  if (call.isNetworkTensor(1)) return convertToKernel(call, "the weight is an input");
  Tensor ends = call.tensor(2);
  const bool isList = ends.rank() == 1 && ends.isContiguous() && ends.numel() == w.size(0) &&
                      (ends.dtype() == DType::Int32 || ends.dtype() == DType::Int64);
  if (!isList) return convertToKernel(call, "the ends of groups are no list of integers, one for each matrix");
  if (x.numel() == 0 || w.numel() == 0) return convertToKernel(call, kEmpty);
  TensorId input = contiguousOperand(call, 0), at = call.operand(2);
  TensorId output = call.makeResult();
  auto& layer = call.add<GroupedMatmulLayer>(w, x.size(0), x.size(1));
  layer.inputs = {input, at};
  layer.outputs = {output};
}

}  // namespace tscompile
