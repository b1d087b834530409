#include "runtime/engine/layers/reduction_layer.h"

#include "runtime/call/thread_pool.h"
#include "runtime/engine/layers/operands.h"
#include "runtime/engine/layers/row_layers.h"
#include "runtime/kernels/layout.h"

#include <algorithm>

namespace tscompile {

std::string ReductionLayer::name() const {
  const std::string name = isMean                          ? "mean"
                           : kind == RowReduction::Sum     ? "sum"
                           : kind == RowReduction::Product ? "product"
                           : kind == RowReduction::Max     ? "max"
                           : kind == RowReduction::Min     ? "min"
                                                           : "logsumexp";
  return steps.empty() ? name : loopName(program) + "+" + name;
}

bool ReductionLayer::takeBlocks(const NetTensor& blocked) {
  const bool isAmongChannels = kind != RowReduction::Product && kind != RowReduction::LogSumExp;
  if (!steps.empty() || !isAmongChannels || blocked.rank() < 3 || blocked.numel == 0) return false;
  const int64_t batch = blocked.sizes[0], channels = blocked.sizes[1], area = blocked.numel / (batch * channels);
  if (outer * count * inner != blocked.numel) return false;
  if (outer == batch && count == channels && channels > 1)
    blocks_ = Blocks::Channels;
  else if (outer % (batch * channels) == 0 && area % (outer / (batch * channels)) == 0)
    blocks_ = Blocks::Pixels;
  batch_ = batch;
  channels_ = channels;
  return blocks_ != Blocks::None;
}

// Of one pixel's channels, where the last block is not full.
size_t ReductionLayer::workspace() const {
  const bool trims = blocks_ == Blocks::Pixels && outer == batch_ * channels_ && inner == 1 && channels_ % kBlock != 0;
  return trims ? static_cast<size_t>(blockedSize(batch_, channels_, 1)) * sizeof(float) : 0;
}

void ReductionLayer::runOnBlocks(Frame& frame, float divisor) const {
  const float* from = frame.data<float>(inputs[0]);
  auto* to = frame.data<float>(outputs[0]);
  if (blocks_ == Blocks::Channels)
    return reduceChannels(kind, batch_, channels_, inner, divisor, from, to, frame.threads());
  const int64_t planes = batch_ * channelBlocks(channels_), parts = outer / (batch_ * channels_);
  const bool trims = workspace() > 0;
  auto* made = trims ? reinterpret_cast<float*>(frame.workspace()) : to;
  reduceMiddle(kind, planes * parts, count, inner * kBlock, divisor, from, made, frame.threads());
  if (trims) fromBlocked(batch_, channels_, 1, made, to, 1);
}

void ReductionLayer::run(Frame& frame) const {
  const float divisor = isMean ? static_cast<float>(count) : 1.0f;
  if (blocks_ != Blocks::None) return runOnBlocks(frame, divisor);
  auto* to = frame.data<float>(outputs[0]);
  if (steps.empty())
    return reduceMiddle(kind, outer, count, inner, divisor, frame.data<float>(inputs[0]), to, frame.threads());
  const int64_t rows = std::max<int64_t>(kMostFused / count, 1), blocks = (innerRows + rows - 1) / rows;
  constexpr int64_t kParallel = 32 << 10;  // elements
  parallelFor(outer / innerRows * blocks, outer * count < kParallel ? 1 : frame.threads(), [&](int64_t piece) {
    const int64_t block = piece / blocks, first = piece % blocks * rows, some = std::min(rows, innerRows - first);
    alignas(64) float made[kMostFused];
    SmallVector<PointwiseOperand, 8> operands;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const auto item = static_cast<int64_t>(itemSize(frame.network()[inputs[i]].dtype));
      const Steps& s = steps[i];
      operands.push_back({frame.raw(inputs[i]) + (block * s[0] + first * s[1]) * item, std::span(s).subspan(1)});
    }
    const int64_t dims[] = {some, count / innerCount, innerCount};
    void* result = made;
    runPointwise(program, dims, operands, std::span(&result, 1), 1);
    reduceMiddle(kind, some, count, 1, divisor, made, to + block * innerRows + first, 1);
  });
}

std::string WideReductionLayer::name() const {
  static constexpr std::string_view kNames[] = {"sum", "mean", "product", "max", "min", "any", "all", "count"};
  return std::string(kNames[static_cast<size_t>(kind_)]);
}

void WideReductionLayer::run(Frame& frame) const {
  reduce_(outer, count, inner, frame.raw(inputs[0]), frame.raw(outputs[0]), frame.threads());
}

namespace {

// Over these dimensions, counted from the front, none of which stays.
IValue reduced(const ConvertCall& call, WideReduction of, const IValue& x, const Dims& dims) {
  std::vector<IValue> arguments{x, intList(dims), false};
  const bool isSum = of == WideReduction::Sum;
  if (!isSum && of != WideReduction::Mean) return call.compute(call.op().fullName(), std::move(arguments));
  arguments.push_back(IValue());
  return call.compute(isSum ? "aten::sum.dim_IntList" : "aten::mean.dim", std::move(arguments));
}
IValue shaped(const ConvertCall& call, const IValue& x) { return reshaped(call, x, Dims(call.spec().sizes)); }

// Of dimensions that do not lie next to each other, those of the last group first, then the others.
IValue reducedApart(const ConvertCall& call, WideReduction of, const Tensor& x, const Dims& dims) {
  size_t first = dims.size() - 1;
  while (first > 0 && dims[first - 1] + 1 == dims[first]) --first;
  const Dims last(DimSpan(dims.data() + first, dims.size() - first)), others(DimSpan(dims.data(), first));
  return shaped(call, reduced(call, of, reduced(call, of, x, last), others));
}

// Of integers, bools and f64: the dimensions group by group, from the last on.
void addWide(ConvertCall& call, WideReduction of, const Tensor& x, Dims dims) {
  TensorId input = contiguousOperand(call, 0);
  Dims sizes(x.sizes());
  do {
    size_t first = dims.size();
    if (first > 0) --first;
    while (first > 0 && dims[first - 1] + 1 == dims[first]) --first;
    const size_t begin = dims.empty() ? 0 : static_cast<size_t>(dims[first]), end = begin + dims.size() - first;
    const DType from = call.network()[input].dtype;
    auto layer = std::make_unique<WideReductionLayer>(call.node(), of, wideReducer(of, from, call.spec().dtype));
    for (size_t d = 0; d < sizes.size(); ++d)
      (d < begin ? layer->outer : d < end ? layer->count : layer->inner) *= sizes[d];
    for (size_t d = begin; d < end; ++d) sizes[d] = 1;
    layer->inputs = {input};
    input = first == 0 ? call.makeResult() : call.network().addTensor(call.spec().dtype, sizes);
    layer->outputs = {input};
    call.network().layers.push_back(std::move(layer));
    dims.resize(first);
    if (of == WideReduction::Count) of = WideReduction::Sum;
  } while (!dims.empty());
}

// Of complex numbers, the parts.
IValue reducedParts(const ConvertCall& call, WideReduction of, const Tensor& x, const Dims& dims) {
  const IValue pairs = reduced(call, of, call.compute("aten::view_as_real", {x}), dims);
  return shaped(call, call.compute("aten::view_as_complex", {pairs}));
}

}  // namespace

template <WideReduction kOf>
void convertReduction(ConvertCall& call) {
  Tensor x = call.tensor(0);
  constexpr bool kAdds = kOf == WideReduction::Sum || kOf == WideReduction::Mean;
  const bool isComplex = kAdds && x.dtype() == DType::Complex64 && call.spec().dtype == x.dtype() && x.rank() > 0;
  const bool isNarrow = isF32(x) && call.spec().dtype == DType::Float32;
  const WideReducer wide = isNarrow ? nullptr : wideReducer(kOf, x.dtype(), call.spec().dtype);
  if (!isComplex && !isNarrow && !wide) return convertToKernel(call, "no layer reduces this dtype");
  if (x.numel() == 0) return convertToKernel(call, kEmpty);
  const bool hasDims = (call.size() > 2 || kOf == WideReduction::Count) && call.size() > 1 && x.rank() > 0;
  Dims dims;
  if (hasDims && !call.isNone(1)) dims = call.dims(1, x.rank(), true);
  if (dims.empty())
    for (int d = 0; d < x.rank(); ++d) dims.push_back(d);
  std::sort(dims.begin(), dims.end());
  if (isComplex) return call.setResult(0, reducedParts(call, kOf, x, dims));
  int64_t reduced = 1;
  for (int64_t d : dims) reduced *= x.size(static_cast<int>(d));
  if (x.numel() / reduced != checkedNumel(call.spec().sizes)) return convertToKernel(call, "no dimensions are named");
  if (wide) return addWide(call, kOf, x, dims);
  auto layer = std::make_unique<ReductionLayer>(call.node());
  layer->kind = kOf == WideReduction::Max         ? RowReduction::Max
                : kOf == WideReduction::Min       ? RowReduction::Min
                : kOf == WideReduction::Product   ? RowReduction::Product
                : kOf == WideReduction::LogSumExp ? RowReduction::LogSumExp
                                                  : RowReduction::Sum;
  layer->isMean = kOf == WideReduction::Mean;
  const int first = dims.empty() ? 0 : static_cast<int>(dims.front()),
            end = dims.empty() ? 0 : static_cast<int>(dims.back()) + 1;
  for (int d = 0; d < x.rank(); ++d) (d < first ? layer->outer : d < end ? layer->count : layer->inner) *= x.size(d);
  if (layer->count != reduced) return call.setResult(0, reducedApart(call, kOf, x, dims));
  TensorId input = contiguousOperand(call, 0);
  TensorId output = call.makeResult();
  if (kOf == WideReduction::Mean && x.rank() == 4 && first == 2 && end == 4) {
    // Images in blocks of channels are read as they are.
    auto& pool = call.add<Pool2dLayer>();
    pool.mode = Pool2dLayer::Mode::Global;
    pool.shape = {.batch = x.size(0), .channels = x.size(1), .inHeight = x.size(2), .inWidth = x.size(3)};
    pool.inputs = {input};
    pool.outputs = {output};
    return;
  }
  layer->inputs = {input};
  layer->outputs = {output};
  call.network().layers.push_back(std::move(layer));
}

template void convertReduction<WideReduction::Sum>(ConvertCall& call);
template void convertReduction<WideReduction::Mean>(ConvertCall& call);
template void convertReduction<WideReduction::Max>(ConvertCall& call);
template void convertReduction<WideReduction::Min>(ConvertCall& call);
template void convertReduction<WideReduction::Product>(ConvertCall& call);
template void convertReduction<WideReduction::Any>(ConvertCall& call);
template void convertReduction<WideReduction::All>(ConvertCall& call);
template void convertReduction<WideReduction::Count>(ConvertCall& call);
template void convertReduction<WideReduction::LogSumExp>(ConvertCall& call);

}  // namespace tscompile
