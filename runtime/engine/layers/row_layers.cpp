#include "runtime/engine/layers/row_layers.h"

#include "runtime/call/thread_pool.h"
#include "runtime/engine/layers/operands.h"
#include "runtime/engine/layers/resize_layer.h"
#include "runtime/kernels/layout.h"
#include "runtime/kernels/pool2d.h"
#include "runtime/kernels/rows.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

namespace tscompile {
namespace {

constexpr int64_t kParallelBytes = 256 << 10;  // copies of less are done by one thread

// Why a kernel runs instead of a layer.
constexpr std::string_view kDiffer = "a tensor has another dtype or rank than the result";

}  // namespace

// ---- softmax ----

void SoftmaxLayer::run(Frame& frame) const {
  const int64_t rows = frame.network()[inputs[0]].numel / count;
  const float* from = frame.data<float>(inputs[0]);
  auto* to = frame.data<float>(outputs[0]);
  if (inner > 1) return softmaxMiddle(rows / inner, count, inner, logarithm, from, to, frame.threads());
  (logarithm ? logSoftmaxRows : softmaxRows)(rows, count, from, to, frame.threads());
}

template <bool kLogarithm>
void convertSoftmax(ConvertCall& call) {
  Tensor x = call.tensor(0);
  const int64_t dim = x.rank() > 0 ? call.dim(1, x.rank()) : 0;
  if (!isF32(x) || call.spec().dtype != DType::Float32) return convertToKernel(call, kNotF32);
  if (x.numel() == 0) return convertToKernel(call, kEmpty);
  if (x.rank() == 0) return convertToKernel(call, "it has no dimensions");
  TensorId input = contiguousOperand(call, 0);
  TensorId output = call.makeResult();
  auto& layer = call.add<SoftmaxLayer>(kLogarithm);
  layer.count = x.size(static_cast<int>(dim));
  for (int d = static_cast<int>(dim) + 1; d < x.rank(); ++d) layer.inner *= x.size(d);
  layer.inputs = {input};
  layer.outputs = {output};
}

template void convertSoftmax<false>(ConvertCall& call);
template void convertSoftmax<true>(ConvertCall& call);

// ---- normalisation ----

void LayerNormLayer::run(Frame& frame) const {
  const NetTensor& t = frame.network()[inputs[0]];
  layerNormRows(t.numel / count, count, frame.data<float>(inputs[0]), dataOrNull(weight), dataOrNull(bias), epsilon,
                frame.data<float>(outputs[0]), frame.threads());
}

void convertLayerNorm(ConvertCall& call) {
  Tensor x = call.tensor(0);
  std::optional<Tensor> weight = constantVector(call, 2), bias = constantVector(call, 3);
  if (!isF32(x)) return convertToKernel(call, kNotF32);
  if (!weight || !bias) return convertToKernel(call, kWeightUnknown);
  if (x.numel() == 0) return convertToKernel(call, kEmpty);
  int64_t count = 1;
  for (int64_t s : call.integers(1)) count *= s;
  TensorId input = contiguousOperand(call, 0);
  TensorId output = call.makeResult();
  auto& layer = call.add<LayerNormLayer>();
  layer.count = count;
  layer.weight = *weight;
  layer.bias = *bias;
  layer.epsilon = call.number(4);
  layer.inputs = {input};
  layer.outputs = {output};
}

// With known statistics it is a scale and a shift of each channel: (x - mean) / sqrt(var + eps) * weight + bias.
void convertBatchNorm(ConvertCall& call) {
  Tensor x = call.tensor(0);
  std::optional<Tensor> weight = constantVector(call, 1), bias = constantVector(call, 2),
                        mean = constantVector(call, 3), variance = constantVector(call, 4);
  if (!isF32(x)) return convertToKernel(call, kNotF32);
  if (call.flag(5) || !mean || !variance || !mean->defined() || !variance->defined())
    return convertToKernel(call, "the statistics are those of the batch, or inputs");
  if (!weight || !bias) return convertToKernel(call, kWeightUnknown);
  if (x.rank() < 2 || x.numel() == 0) return convertToKernel(call, kEmpty);
  int64_t channels = x.size(1);
  double epsilon = call.number(7);
  Tensor scale = Tensor::empty(DType::Float32, Dims{channels}), shift = Tensor::empty(DType::Float32, Dims{channels});
  for (int64_t c = 0; c < channels; ++c) {
    double s = 1.0 / std::sqrt(static_cast<double>(variance->data<float>()[c]) + epsilon);
    if (weight->defined()) s *= weight->data<float>()[c];
    scale.data<float>()[c] = static_cast<float>(s);
    double b = bias->defined() ? bias->data<float>()[c] : 0.0;
    shift.data<float>()[c] = static_cast<float>(b - mean->data<float>()[c] * s);
  }
  addChannelAffine(call, scale, shift);
}

// ---- pooling ----

std::string Pool2dLayer::name() const {
  return mode == Mode::Max ? "max_pool2d" : mode == Mode::Average ? "avg_pool2d" : "global_avg_pool";
}

void Pool2dLayer::runOfLines(Frame& frame) const {
  const float* from = frame.blocks(inputs[0]);
  float* to = frame.blocks(outputs[0]);
  switch (mode) {
    case Mode::Max:
      return maxPoolOfLines(shape, elements_, from, to, frame.threads());
    case Mode::Average:
      return averagePoolOfLines(shape, elements_, countPadding, divisor, from, to, frame.threads());
    case Mode::Global:
      return globalAveragePoolOfLines(shape.batch, shape.channels, shape.inHeight * shape.inWidth, elements_, from, to,
                                      frame.threads());
  }
}

void Pool2dLayer::run(Frame& frame) const {
  if (elements_.isLines()) return runOfLines(frame);
  const float* from = frame.data<float>(inputs[0]);
  auto* to = frame.data<float>(outputs[0]);
  ActivationLayout layout = blocked ? ActivationLayout::Blocked : ActivationLayout::Plain;
  switch (mode) {
    case Mode::Max:
      return maxPool2d(shape, layout, from, to, frame.threads());
    case Mode::Average:
      return averagePool2d(shape, layout, countPadding, divisor, from, to, frame.threads());
    case Mode::Global:
      return globalAveragePool(shape.batch, shape.channels, shape.inHeight * shape.inWidth, layout, from, to,
                               frame.threads());
  }
}

namespace {

// The layer for a tensor of batch, channels and `spatial` dimensions, one or two, with the sizes that are known from it
// and from the result.
Pool2dLayer* addPool(ConvertCall& call, Pool2dLayer::Mode mode, size_t spatial) {
  TensorId input = contiguousOperand(call, 0);
  TensorId output = call.makeResult();
  auto& layer = call.add<Pool2dLayer>();
  layer.mode = mode;
  const Dims &in = call.network()[input].sizes, &out = call.network()[output].sizes;
  const bool flat = spatial == 1;
  layer.shape = {.batch = in[0],
                 .channels = in[1],
                 .inHeight = flat ? 1 : in[2],
                 .inWidth = in.back(),
                 .outHeight = flat ? 1 : out[2],
                 .outWidth = out.back()};
  layer.inputs = {input};
  layer.outputs = {output};
  return &layer;
}

// A list of one number stands for both dimensions; the height of a sequence has `flat`.
Dims pair(const ConvertCall& call, size_t i, size_t spatial, int64_t flat) {
  Dims v = call.integers(i);
  if (v.size() != 1) return v;
  return Dims{spatial == 1 ? flat : v[0], v[0]};
}

void setWindow(Pool2dLayer& layer, const Dims& kernel, const Dims& stride, const Dims& padding) {
  PoolShape& s = layer.shape;
  s.kernelHeight = kernel[0];
  s.kernelWidth = kernel[1];
  s.strideHeight = stride.empty() ? kernel[0] : stride[0];
  s.strideWidth = stride.empty() ? kernel[1] : stride[1];
  s.padTop = s.padBottom = padding[0];
  s.padLeft = s.padRight = padding[1];
}

// Means over windows that begin and end anywhere: a few values of each dimension with equal weights.
ResizeTaps windowsOf(int64_t in, int64_t out) {
  auto first = [=](int64_t o) { return o * in / out; };
  auto end = [=](int64_t o) { return ((o + 1) * in + out - 1) / out; };
  ResizeTaps taps{0, {}, {}};
  for (int64_t o = 0; o < out; ++o) taps.width = std::max(taps.width, end(o) - first(o));
  for (int64_t o = 0; o < out; ++o)
    for (int64_t k = 0; k < taps.width; ++k) {
      const bool inside = first(o) + k < end(o);
      taps.index.push_back(inside ? first(o) + k : -1);
      taps.weights.push_back(inside ? 1.0f / static_cast<float>(end(o) - first(o)) : 0.0f);
    }
  return taps;
}

// A batch of one.
void computeInBatch(ConvertCall& call) {
  std::vector<IValue> arguments;
  for (size_t i = 0; i < call.size(); ++i) arguments.push_back(call.argument(i));
  arguments[0] = call.compute("aten::unsqueeze", {call.tensor(0), int64_t{0}});
  call.setResult(0, call.compute("aten::squeeze.dim", {call.compute(call.op().fullName(), arguments), int64_t{0}}));
}

// Why pooling of so many dimensions has no layers, or nothing. What has no batch is computed in one: then `done`.
std::string_view poolProblem(ConvertCall& call, int spatial, bool& done) {
  Tensor x = call.tensor(0);
  if (!isF32(x)) return kNotF32;
  if (x.numel() == 0 || checkedNumel(call.spec().sizes) == 0) return kEmpty;
  done = x.rank() == spatial + 1;
  if (done) computeInBatch(call);
  return {};
}

// Pooling of volumes is pooling of their images, and then over the depth. `pool` is given the tensor and whether it is
// the depth's turn.
template <class Pool>
void poolVolume(ConvertCall& call, Pool&& pool) {
  Tensor x = call.tensor(0);
  const Dims out = call.spec().sizes;
  const Dims images{x.size(0), x.size(1) * x.size(2), x.size(3), x.size(4)};
  auto shaped = [&](const IValue& v, const Dims& sizes) { return call.compute("aten::reshape", {v, intList(sizes)}); };
  IValue made = pool(shaped(x, images), false);
  const Dims columns{x.size(0) * x.size(1), 1, x.size(2), out[3] * out[4]};
  made = pool(shaped(made, columns), true);
  call.setResult(0, shaped(made, out));
}

// Of a list for three dimensions, or one number: those of the images, or the depth beside `flat`.
IValue partOf(const ConvertCall& call, size_t i, bool depth, int64_t flat) {
  Dims v = call.integers(i);
  if (v.empty()) return intList(v);
  if (v.size() == 1) v = Dims(3, v[0]);
  return intList(depth ? Dims{v[0], flat} : Dims{v[1], v[2]});
}

}  // namespace

void convertMaxPoolVolume(ConvertCall& call) {
  bool done = false;
  if (std::string_view why = poolProblem(call, 3, done); !why.empty()) return convertToKernel(call, why);
  if (done) return;
  poolVolume(call, [&](const IValue& t, bool depth) {
    return call.compute("aten::max_pool2d", {t, partOf(call, 1, depth, 1), partOf(call, 2, depth, 1),
                                             partOf(call, 3, depth, 0), partOf(call, 4, depth, 1), call.argument(5)});
  });
}

void convertAveragePoolVolume(ConvertCall& call) {
  bool done = false;
  if (std::string_view why = poolProblem(call, 3, done); !why.empty()) return convertToKernel(call, why);
  if (done) return;
  poolVolume(call, [&](const IValue& t, bool depth) {
    // What a sum is divided by is the product of what the two are; a divisor that is given counts once.
    const IValue divisor = call.isNone(6) || depth ? call.argument(6) : IValue(1);
    return call.compute("aten::avg_pool2d", {t, partOf(call, 1, depth, 1), partOf(call, 2, depth, 1),
                                             partOf(call, 3, depth, 0), call.argument(4), call.argument(5), divisor});
  });
}

template <size_t kSpatial>
void convertMaxPool(ConvertCall& call) {
  bool done = false;
  if (std::string_view why = poolProblem(call, kSpatial, done); !why.empty()) return convertToKernel(call, why);
  if (done) return;
  Pool2dLayer* layer = addPool(call, Pool2dLayer::Mode::Max, kSpatial);
  setWindow(*layer, pair(call, 1, kSpatial, 1), pair(call, 2, kSpatial, 1), pair(call, 3, kSpatial, 0));
  Dims dilation = pair(call, 4, kSpatial, 1);
  layer->shape.dilationHeight = dilation[0];
  layer->shape.dilationWidth = dilation[1];
}

template <size_t kSpatial>
void convertAveragePool(ConvertCall& call) {
  bool done = false;
  if (std::string_view why = poolProblem(call, kSpatial, done); !why.empty()) return convertToKernel(call, why);
  if (done) return;
  Pool2dLayer* layer = addPool(call, Pool2dLayer::Mode::Average, kSpatial);
  setWindow(*layer, pair(call, 1, kSpatial, 1), pair(call, 2, kSpatial, 1), pair(call, 3, kSpatial, 0));
  layer->countPadding = call.flag(5);
  layer->divisor = call.size() < 7 || call.isNone(6) ? 0 : call.integer(6);
}

template <size_t kSpatial>
void convertAdaptiveAveragePool(ConvertCall& call) {
  Tensor x = call.tensor(0);
  bool done = false;
  if (const int beside = x.rank() - static_cast<int>(kSpatial); beside != 1 && beside != 2)
    return convertToKernel(call, "it has another rank");
  if (std::string_view why = poolProblem(call, kSpatial, done); !why.empty()) return convertToKernel(call, why);
  if (done) return;
  const Dims out = call.spec().sizes;
  bool whole = true, divides = kSpatial == 2;
  for (size_t d = 2; d < out.size(); ++d) {
    whole &= out[d] == 1;
    divides &= x.size(static_cast<int>(d)) % out[d] == 0;
  }
  if (divides && !whole) {
    Pool2dLayer* layer = addPool(call, Pool2dLayer::Mode::Average, kSpatial);
    Dims kernel{x.size(2) / out[2], x.size(3) / out[3]};
    return setWindow(*layer, kernel, kernel, Dims{0, 0});
  }
  TensorId input = contiguousOperand(call, 0);
  TensorId output = call.makeResult();
  Layer* layer;
  if (whole) {
    auto& pool = call.add<Pool2dLayer>();
    pool.mode = Pool2dLayer::Mode::Global;
    pool.shape = {
        .batch = x.size(0), .channels = x.size(1), .inHeight = 1, .inWidth = x.numel() / (x.size(0) * x.size(1))};
    layer = &pool;
  } else {
    auto& windows = call.add<ResizeLayer>();
    for (size_t d = 2; d < out.size(); ++d) windows.taps.push_back(windowsOf(x.size(static_cast<int>(d)), out[d]));
    layer = &windows;
  }
  layer->inputs = {input};
  layer->outputs = {output};
}

template void convertMaxPool<1>(ConvertCall& call);
template void convertMaxPool<2>(ConvertCall& call);
template void convertAveragePool<1>(ConvertCall& call);
template void convertAveragePool<2>(ConvertCall& call);
template void convertAdaptiveAveragePool<1>(ConvertCall& call);
template void convertAdaptiveAveragePool<2>(ConvertCall& call);
template void convertAdaptiveAveragePool<3>(ConvertCall& call);

// ---- joining ----

int64_t CatLayer::outer(const Network& network) const {
  const Dims& sizes = network[outputs[0]].sizes;
  return std::accumulate(sizes.begin(), sizes.begin() + dim, int64_t{1}, std::multiplies<>());
}

namespace {

// Pieces of so many words each, `step` bytes apart where they go to. The count is known as it is compiled, so that each
// is a few moves and no call.
template <size_t kWords>
void copyWords(std::byte* to, int64_t step, const std::byte* from, int64_t count) {
  for (int64_t i = 0; i < count; ++i) std::memcpy(to + i * step, from + i * int64_t{4 * kWords}, 4 * kWords);
}

void copyPieces(std::byte* to, int64_t step, const std::byte* from, int64_t bytes, int64_t count) {
  using Copy = void (*)(std::byte*, int64_t, const std::byte*, int64_t);
  static constexpr Copy kCopies[] = {copyWords<1>, copyWords<2>, copyWords<3>, copyWords<4>,
                                     copyWords<5>, copyWords<6>, copyWords<7>, copyWords<8>};
  if (bytes % 4 == 0 && bytes > 0 && bytes / 4 <= static_cast<int64_t>(std::size(kCopies)))
    return kCopies[bytes / 4 - 1](to, step, from, count);
  for (int64_t i = 0; i < count; ++i) std::memcpy(to + i * step, from + i * bytes, static_cast<size_t>(bytes));
}

// Channels of blocked inputs one behind the other, from `to` on; first(i), count(i): those of input i.
template <class First, class Count>
void joinChannels(Frame& frame, const Layer& layer, int64_t to, First&& first, Count&& count) {
  const Network& network = frame.network();
  const NetTensor& out = network[layer.outputs[0]];
  SmallVector<ChannelMove, 16> moves;
  for (size_t i = 0; i < layer.inputs.size(); to += count(i++))
    moves.push_back({frame.blocks(layer.inputs[i]), network[layer.inputs[i]].sizes[1], first(i), count(i), to});
  moveChannels(moves, out.sizes[0], out.sizes[1], out.numel / (out.sizes[0] * out.sizes[1]), out.elements,
               frame.blocks(layer.outputs[0]), frame.threads());
}

}  // namespace

void CatLayer::settle(const Network& network) {
  const ElementType& type = network[outputs[0]].elements;
  for (TensorId id : inputs) splitsLines_ |= type.isLines() && network[id].sizes[1] % type.channels() != 0;
}

void CatLayer::findViews(const Network& network) {
  const int64_t count = outer(network), step = network[outputs[0]].numel / count;
  int64_t to = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const NetTensor& in = network[inputs[i]];
    NetTensor part = in;
    int64_t stride = 1;
    for (size_t d = part.sizes.size(); d-- > 0; stride *= part.sizes[d]) {
      if (static_cast<int64_t>(d) + 1 == dim) stride = step;
      part.strides[d] = stride;
    }
    const auto item = static_cast<int64_t>(itemSize(in.dtype));
    if (!in.contiguous) views_.push_back({i, StridedCopy(in, part), to * item});
    to += in.numel / count;
  }
}

void CatLayer::run(Frame& frame) const {
  if (splitsLines_)
    return joinChannels(
        frame, *this, 0, [](size_t) { return int64_t{0}; },
        [&](size_t i) { return frame.network()[inputs[i]].sizes[1]; });
  constexpr int64_t kBytesAtOnce = 1 << 15;
  const Network& network = frame.network();
  const auto item = static_cast<int64_t>(itemSize(network[outputs[0]].dtype));
  const int64_t count = outer(network), step = network[outputs[0]].numel / count * item;
  struct Part {
    const std::byte* from;
    std::byte* to;
    int64_t bytes;  // at a time
  };
  SmallVector<Part, 16> parts;
  std::byte* to = frame.raw(outputs[0]);
  int64_t all = 0;
  for (const View& view : views_)
    view.copy.run(frame.raw(inputs[view.input]), frame.raw(outputs[0]) + view.to, frame.threads());
  for (TensorId id : inputs) {
    // Of blocked activations, whole blocks of channels are joined.
    Part part{frame.raw(id), to, network[id].numel / count * item};
    to += part.bytes;
    if (part.from == part.to || !network[id].contiguous) continue;  // made there, or copied
    parts.push_back(part);
    all += part.bytes * count;
  }
  if (parts.empty()) return;
  // Of long pieces one at a time, of short ones a part's for some rows.
  const int64_t rows = std::clamp<int64_t>(kBytesAtOnce / step, 1, count);
  const auto some = static_cast<int64_t>(parts.size()), chunks = (count + rows - 1) / rows;
  parallelFor(some * chunks, all < kParallelBytes ? 1 : frame.threads(), [&](int64_t i) {
    const Part& part = parts[static_cast<size_t>(i % some)];
    const int64_t first = i / some * rows;
    copyPieces(part.to + first * step, step, part.from + first * part.bytes, part.bytes, std::min(rows, count - first));
  });
}

void convertCat(ConvertCall& call) {
  const IValue& list = call.argument(0);
  const TensorSpec& spec = call.spec();
  if (spec.sizes.empty() || checkedNumel(spec.sizes) == 0) return convertToKernel(call, kEmpty);
  int64_t dim = call.dim(1, static_cast<int>(spec.sizes.size()));
  std::vector<TensorId> inputs;
  for (const IValue& item : list.toList().items) {
    Tensor t = item.toTensor();
    if (t.dtype() != spec.dtype || t.rank() != static_cast<int>(spec.sizes.size()))
      return convertToKernel(call, kDiffer);
    TensorId id = call.idOf(t);
    if (!call.network()[id].contiguous) {
      if (t.numel() == 0) return convertToKernel(call, kEmpty);
      id = addCopy(call, id);
    }
    inputs.push_back(id);
  }
  TensorId output = call.makeResult();
  auto& layer = call.add<CatLayer>(dim);
  layer.inputs = std::move(inputs);
  layer.outputs = {output};
}

// The same as joining tensors that have a dimension of one more.
void convertStack(ConvertCall& call) {
  const TensorSpec& spec = call.spec();
  if (checkedNumel(spec.sizes) == 0) return convertToKernel(call, kEmpty);
  std::vector<TensorId> inputs;
  for (const IValue& item : call.argument(0).toList().items) {
    Tensor t = item.toTensor();
    if (t.dtype() != spec.dtype) return convertToKernel(call, kDiffer);
    TensorId id = call.idOf(t);
    if (!call.network()[id].contiguous) id = addCopy(call, id);
    inputs.push_back(id);
  }
  int64_t dim = call.dim(1, static_cast<int>(spec.sizes.size()));
  TensorId output = call.makeResult();
  auto& layer = call.add<CatLayer>(dim);
  layer.inputs = std::move(inputs);
  layer.outputs = {output};
}

// ---- layouts ----

void ReorderLayer::run(Frame& frame) const {
  const NetTensor &from = frame.network()[inputs[0]], &to = frame.network()[outputs[0]];
  const NetTensor& t = from.blocked ? from : to;  // the sizes of the other may be any
  int64_t area = t.numel / (t.sizes[0] * t.sizes[1]);
  if (from.elements.isLines())
    return fromLines(t.sizes[0], t.sizes[1], area, from.elements, frame.blocks(inputs[0]),
                     frame.data<float>(outputs[0]), frame.threads());
  auto* opens = byPixels ? blockedToChannelsLast : fromBlocked;
  auto* reorder = from.blocked ? opens : byPixels ? channelsLastToBlocked : toBlocked;
  reorder(t.sizes[0], t.sizes[1], area, frame.data<float>(inputs[0]), frame.data<float>(outputs[0]), frame.threads());
}

void ChannelsLayer::run(Frame& frame) const {
  const NetTensor& out = frame.network()[outputs[0]];
  const int64_t area = out.numel / (out.sizes[0] * out.sizes[1]);
  if (fills)
    std::fill_n(frame.blocks(outputs[0]), blockedSize(out.sizes[0], out.sizes[1], area, out.elements),
                wordOf(out.elements, 0));
  joinChannels(
      frame, *this, zerosBefore, [&](size_t i) { return parts[i].first; }, [&](size_t i) { return parts[i].count; });
}

}  // namespace tscompile
