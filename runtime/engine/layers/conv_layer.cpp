#include "runtime/engine/layers/conv_layer.h"

#include "ir/values/encoded.h"
#include "runtime/call/thread_pool.h"
#include "runtime/engine/layers/input_conv_layer.h"
#include "runtime/engine/layers/operands.h"
#include "runtime/engine/layers/row_layers.h"
#include "runtime/kernels/layout.h"
#include "runtime/reference/loops/copy.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>
#include <vector>

namespace tscompile {

void ConvLayer::run(Frame& frame) const {
  Epilogue epilogue = epilogueOf(frame);
  epilogue.resultType = result_;
  epilogue.residualType = residual_;
  tactic_->run(shape_, frame.blocks(inputs[0]), packed_.raw(), storage_, frame.blocks(outputs[0]), epilogue,
               frame.workspace(), frame.threads());
}

bool ConvLayer::takesLines(const Network&, const ProductPrecision& precision, TensorId tensor, DType dtype) const {
  if (holdsIntegers() || factors.defined()) return false;
  const WeightStorage storage = kernelStorage(precision.weights);
  const bool makes = tactic_->makesLines && tactic_->makesLines(shape_, storage, dtype);
  const bool reads = tensor == inputs[0], adds = residual != kNoResidual && tensor == inputs[residual];
  return (!reads || (tactic_->takesLines && tactic_->takesLines(shape_, storage, dtype))) &&
         (!(adds || tensor == outputs[0]) || makes);
}

void ConvLayer::settle(const Network& network) {
  shape_.input = network[inputs[0]].elements;
  result_ = network[outputs[0]].elements;
  if (residual != kNoResidual) residual_ = network[inputs[residual]].elements;
}

Tensor ConvLayer::scaled() const {
  Tensor weight = decodedOnce(weight_);
  if (form_.make) weight = form_.make(weight);
  if (!scale_.defined()) return weight;
  Tensor scaled = Tensor::empty(DType::Float32, weight.sizes());
  const int64_t inner = weight.numel() / weight.size(0);
  for (int64_t c = 0; c < weight.size(0); ++c)
    for (int64_t i = c * inner; i < (c + 1) * inner; ++i)
      scaled.data<float>()[i] = weight.data<float>()[i] * scale_.data<float>()[c];
  return scaled;
}

void ConvLayer::takeMargin(const Dims& before, const Dims& behind) {
  shape_.inWidth -= before.back() + behind.back();
  shape_.padLeft += before.back();
  shape_.padRight += behind.back();
  if (before.size() < 2) return;
  const int64_t above = before[before.size() - 2], below = behind[behind.size() - 2];
  shape_.inHeight -= above + below;
  shape_.padTop += above;
  shape_.padBottom += below;
  if (before.size() < 3) return;
  shape_.frames.in -= before.front() + behind.front();
  shape_.frames.padFront += before.front();
  shape_.frames.padBack += behind.front();
}

namespace {

// One dimension of a convolution.
struct Line {
  int64_t in, out, &kernel, stride, &dilation, &padBefore, &padBehind;

  // Whether the tap sees the input for some output.
  bool sees(int64_t tap) const {
    for (int64_t o = 0; o < out; ++o)
      if (const int64_t at = o * stride + tap * dilation - padBefore; at >= 0 && at < in) return true;
    return false;
  }
  int64_t idleBefore() const {
    int64_t taps = 0;
    while (taps + 1 < kernel && (taps + 1) * dilation <= padBefore && !sees(taps)) ++taps;
    return taps;
  }
  int64_t idleBehind(int64_t before) const {
    int64_t taps = 0;
    while (before + taps + 1 < kernel && (taps + 1) * dilation <= padBehind && !sees(kernel - 1 - taps)) ++taps;
    return taps;
  }
  void crop(int64_t before, int64_t behind) {
    kernel -= before + behind;
    padBefore -= before * dilation;
    padBehind -= behind * dilation;
    if (kernel == 1) dilation = 1;
  }
  // Leaves out so many results before and behind, or fewer.
  void trim(int64_t& before, int64_t& behind) {
    before = std::min(before, padBefore / stride);
    padBefore -= before * stride;
    const int64_t span = dilation * (kernel - 1) + 1;
    padBehind = std::max<int64_t>(0, (out - before - behind - 1) * stride + span - in - padBefore);
    behind = out - before - ((in + padBefore + padBehind - span) / stride + 1);
  }
};

// From the outermost dimension on.
std::array<Line, 3> linesOf(ConvShape& s) {
  ConvFrames& f = s.frames;
  return {{{f.in, f.out(), f.kernel, f.stride, f.dilation, f.padFront, f.padBack},
           {s.inHeight, s.outHeight(), s.kernelHeight, s.strideHeight, s.dilationHeight, s.padTop, s.padBottom},
           {s.inWidth, s.outWidth(), s.kernelWidth, s.strideWidth, s.dilationWidth, s.padLeft, s.padRight}}};
}

// The elements of `weight`, [outChannels][..][sizes], without as many before and behind in the last three dimensions.
Tensor cropped(const Tensor& weight, const Dims& sizes, const Dims& before, const Dims& behind) {
  const int64_t channels = weight.size(0), inner = weight.numel() / (channels * sizes[0] * sizes[1] * sizes[2]);
  Dims whole{channels, inner}, left{channels, inner};
  int64_t offset = weight.offset();
  for (size_t d = 0; d < 3; ++d) {
    whole.push_back(sizes[d]);
    left.push_back(sizes[d] - before[d] - behind[d]);
  }
  const Dims strides = contiguousStrides(whole);
  for (size_t d = 0; d < 3; ++d) offset += before[d] * strides[d + 2];
  return contiguous(weight.withGeometry(left, strides, offset));
}

}  // namespace

ConvShape ConvLayer::trimmed(Dims& before, Dims& behind) const {
  ConvShape shape = shape_;
  std::array<Line, 3> lines = linesOf(shape);
  for (size_t d = 0; d < before.size(); ++d) lines[lines.size() - before.size() + d].trim(before[d], behind[d]);
  return shape;
}

void ConvLayer::dropIdleTaps() {
  std::array<Line, 3> lines = linesOf(shape_);
  const Dims sizes{lines[0].kernel, lines[1].kernel, lines[2].kernel};
  Dims before, behind;
  for (Line& line : lines) {
    before.push_back(line.idleBefore());
    behind.push_back(line.idleBehind(before.back()));
  }
  const Dims none{0, 0, 0};
  if (before == none && behind == none) return;
  for (size_t d = 0; d < 3; ++d) lines[d].crop(before[d], behind[d]);
  form_ = {fmt::format("{}, without taps {},{},{} and {},{},{}", form_.name, before[0], before[1], before[2], behind[0],
                       behind[1], behind[2]),
           [=, make = form_.make](const Tensor& t) { return cropped(make ? make(t) : t, sizes, before, behind); }};
}

void ConvLayer::prepare(WeightStore& store, const ProductPrecision& precision) {
  const WeightStorage wanted = kernelStorage(precision.weights);
  const WeightStorage storage = storage_ =
      holdsIntegers() ? wanted : fitting(wanted, [&] { return scale_.defined() ? scaled() : weight_; });
  if (storage == WeightStorage::Bytes) {
    shape_.least = exactArithmetic().least;
    const Tensor weight = scaled();
    const int64_t inner = weight.numel() / weight.size(0);
    integerBias = biasOfBytes(shape_.least, [&](int64_t channel) {
      const float* first = weight.data<float>() + channel * inner;
      return std::accumulate(first, first + inner, 0.0);
    });
  }
  // All that packing asks of a shape.
  std::string name = keyOf(fmt::format(
      "{} in {} groups, {}x{}, dilated {}x{}, {} rows beside{}{}{}", tactic_->name, shape_.groups, shape_.strideHeight,
      shape_.strideWidth, shape_.dilationHeight, shape_.dilationWidth, shape_.padTop + shape_.padBottom,
      shape_.isVolume() ? ", in frames" : "", form_.name, storage == WeightStorage::Bytes ? ", bytes" : ""));
  if (scale_.defined()) name = WeightStore::nameWith(name + " scaled by ", scale_);
  packed_ = store.get(name, sourceOf(weight_), [&] {
    Tensor packed = store.buffer(tactic_->packedBytes(shape_, storage));
    tactic_->pack(shape_, scaled().data<float>(), storage, packed.raw());
    return packed;
  });
  if (holdsIntegers()) weight_ = Tensor();
  bias = inWholeBlocks(bias);
}

namespace {

// What a call says: spatial dimensions from the outermost on.
struct Convolution {
  bool transposed = false;
  int64_t groups = 1;
  Dims kernel, stride, before, after, dilation, outputPadding;  // padding before and after

  size_t rank() const { return kernel.size(); }
};

// A list of integers, repeated to `rank` if it is one number.
Dims spatial(const ConvertCall& call, size_t i, size_t rank) {
  Dims values = call.integers(i);
  return values.size() == 1 ? Dims(rank, values[0]) : values;
}

Convolution describe(ConvertCall& call, ConvForm form) {
  Tensor w = call.tensor(1);
  const auto rank = static_cast<size_t>(w.rank()) - 2;
  const bool transposes = form == ConvForm::Transposed;
  Convolution c;
  c.kernel = Dims(w.sizes().subspan(2));
  c.transposed = transposes || (form == ConvForm::General && call.flag(6));
  c.stride = spatial(call, 3, rank);
  c.dilation = spatial(call, transposes ? 7 : 5, rank);
  c.groups = call.integer(form == ConvForm::General ? 8 : 6);
  c.outputPadding = c.transposed ? spatial(call, transposes ? 5 : 7, rank) : Dims(rank, 0);
  if (!call.argument(4).isString()) {
    c.before = c.after = spatial(call, 4, rank);
    return c;
  }
  // "same" has one more after where the sum is odd; "valid" has none.
  const bool same = call.argument(4).toString() == "same";
  for (size_t d = 0; d < rank; ++d) {
    const int64_t total = same ? c.dilation[d] * (c.kernel[d] - 1) : 0;
    c.before.push_back(total / 2);
    c.after.push_back(total - total / 2);
  }
  return c;
}

// One dimension is a second of size 1.
ConvShape shapeOf(const Convolution& c, const Tensor& x, int64_t batch, int64_t inChannels, int64_t outChannels) {
  const size_t last = c.rank() - 1;
  ConvShape s;
  s.batch = batch;
  s.groups = c.groups;
  s.inChannels = inChannels;
  s.outChannels = outChannels;
  s.inWidth = x.size(x.rank() - 1);
  s.kernelWidth = c.kernel[last];
  s.strideWidth = c.stride[last];
  s.dilationWidth = c.dilation[last];
  s.padLeft = c.before[last];
  s.padRight = c.after[last];
  s.inHeight = s.kernelHeight = 1;
  if (last == 0) return s;
  s.inHeight = x.size(x.rank() - 2);
  s.kernelHeight = c.kernel[last - 1];
  s.strideHeight = c.stride[last - 1];
  s.dilationHeight = c.dilation[last - 1];
  s.padTop = c.before[last - 1];
  s.padBottom = c.after[last - 1];
  if (last == 1) return s;
  s.frames = {x.size(2), c.kernel[0], c.stride[0], c.dilation[0], c.before[0], c.after[0]};
  return s;
}

Tensor biasOf(ConvertCall& call) { return call.isNone(2) ? Tensor() : contiguous(call.tensor(2)); }

ConvLayer& addConvolution(ConvertCall& call, const ConvShape& shape, const Tensor& weight, const WeightForm& form,
                          const Tensor& bias, TensorId input, TensorId output) {
  auto& layer = call.add<ConvLayer>(shape, weight, form);
  layer.bias = bias;
  layer.inputs = {input};
  layer.outputs = {output};
  return layer;
}

// ---- volumes in groups: as one frame for each of the result ----

void addFrames(ConvertCall& call, const Convolution& c) {
  Tensor x = call.tensor(0), w = contiguous(call.tensor(1));
  TensorId input = contiguousOperand(call, 0);
  TensorId output = call.makeResult();
  Network& n = call.network();
  const Dims out = n[output].sizes;
  const int64_t images = out[0] * out[2], channels = x.size(1) * c.kernel[0], area = out[3] * out[4];
  TensorId frames = n.addTensor(DType::Float32, Dims{images, channels, x.size(3), x.size(4)});
  auto& gather = call.add<FramesLayer>();
  gather.outDepth = out[2];
  gather.kernelDepth = c.kernel[0];
  gather.stride = c.stride[0];
  gather.dilation = c.dilation[0];
  gather.padding = c.before[0];
  gather.inputs = {input};
  gather.outputs = {frames};
  ConvShape shape = shapeOf(c, x, images, channels, out[1]);
  shape.frames = {};
  // The depths of the kernel lie after the channels in the weights as they are.
  const Dims flat{w.size(0), w.size(1) * w.size(2), w.size(3), w.size(4)};
  TensorId made = n.addTensor(DType::Float32, Dims{images, out[1], out[3], out[4]});
  addConvolution(call, shape, w.withGeometry(flat, contiguousStrides(flat), w.offset()), {}, biasOf(call), frames,
                 made);
  const Dims strides{out[2] * out[1] * area, area, out[1] * area, out[4], 1};
  TensorId view = n.addView(n[made].buffer, DType::Float32, out, strides, 0);
  auto& copy = call.add<PointwiseLayer>();
  copy.program.output(copy.program.step(PointwiseOp::Copy, copy.program.input()));
  copy.inputs = {view};
  copy.outputs = {output};
}

// ---- transposed ----

// A kernel [in][out / groups][KD][KH][KW] that is laid down every `step` elements is, for each of the places that an
// element can have among them, a kernel of its own over the input: [groups][out / groups][place] channels of sizes that
// are divided by `step`, turned around. One group may have its channels [place][out].
Tensor kernelsOfPlaces(const Tensor& w, int64_t groups, const Dims& kernel, const Dims& step, bool placesFirst) {
  const int64_t in = w.size(0) / groups, out = w.size(1), places = step[0] * step[1] * step[2];
  Dims sizes{groups * out * places, in};
  for (size_t d = 0; d < 3; ++d) sizes.push_back((kernel[d] + step[d] - 1) / step[d]);
  const int64_t depth = sizes[2], height = sizes[3], width = sizes[4], taps = kernel[0] * kernel[1] * kernel[2];
  Tensor made = Tensor::zeros(DType::Float32, sizes);
  for (int64_t kernels = 0; kernels < groups * in * out; ++kernels) {
    const int64_t g = kernels / out / in, i = kernels / out % in, o = kernels % out;
    for (int64_t tap = 0; tap < taps; ++tap) {
      const int64_t z = tap / kernel[2] / kernel[1], y = tap / kernel[2] % kernel[1], x = tap % kernel[2];
      const int64_t place = (z % step[0] * step[1] + y % step[1]) * step[2] + x % step[2];
      const int64_t channel = placesFirst ? place * out + o : (g * out + o) * places + place;
      const int64_t frame = depth - 1 - z / step[0], row = height - 1 - y / step[1], column = width - 1 - x / step[2];
      made.data<float>()[(((channel * in + i) * depth + frame) * height + row) * width + column] =
          w.data<float>()[kernels * taps + tap];
    }
  }
  return made;
}

// Each channel's bias for each place.
Tensor biasOfPlaces(const Tensor& bias, int64_t places, bool placesFirst) {
  if (!bias.defined() || places == 1) return bias;
  const int64_t channels = bias.numel();
  Tensor repeated = Tensor::empty(DType::Float32, Dims{channels * places});
  for (int64_t i = 0; i < repeated.numel(); ++i)
    repeated.data<float>()[i] = bias.data<float>()[placesFirst ? i % channels : i / places];
  return repeated;
}

// Of three dimensions, the first of which may be missing.
Dims threeOf(const Dims& d, int64_t missing) {
  Dims all(3 - d.size(), missing);
  for (int64_t each : d) all.push_back(each);
  return all;
}

// What `out` pixels of one place see along a dimension: every `step`th tap of the kernel from `first` on, turned
// around, of an input with such padding.
struct Taps {
  int64_t first, count, before, after;
};
Taps tapsOf(int64_t kernel, int64_t step, int64_t dilation, int64_t cut, int64_t in, int64_t out, int64_t place) {
  const int64_t first = (place + cut) % step, shift = (place + cut) / step, count = (kernel - first + step - 1) / step;
  return {first, count, dilation * (count - 1) - shift, out + shift - in};
}

Tensor kernelOfPlace(const Tensor& w, bool depthwise, const Dims& step, const Taps& rows, const Taps& columns) {
  const int64_t in = w.size(0), out = w.size(1), width = w.size(w.rank() - 1), taps = w.numel() / (in * out);
  // One channel a group: the only one of its output.
  Tensor made = Tensor::empty(
      DType::Float32, depthwise ? Dims{in, 1, rows.count, columns.count} : Dims{out, in, rows.count, columns.count});
  auto* to = made.data<float>();
  for (int64_t o = 0; o < out; ++o)
    for (int64_t i = 0; i < in; ++i)
      for (int64_t a = rows.count; a-- > 0;)
        for (int64_t b = columns.count; b-- > 0;)
          *to++ =
              w.data<float>()[(i * out + o) * taps + (rows.first + a * step[1]) * width + columns.first + b * step[2]];
  return made;
}

// Images whose places see kernels of different sizes, or are so small that what is cut off makes a part of them, and
// those of one channel a group: a convolution for each place, whose channels in whole blocks lie one behind the other.
// False for others.
bool addPlaces(ConvertCall& call, const Convolution& c, ConvShape s, const Dims& kernel, const Dims& step,
               const Dims& cut, const Dims& out) {
  constexpr double kWorth = 1.1;
  const Tensor w = contiguous(call.tensor(1));
  const bool depthwise = c.groups > 1 && c.groups == w.size(0) && w.size(1) == 1;
  const int64_t channels = w.size(1) * c.groups, places = step[1] * step[2];
  if (c.rank() == 3 || (c.groups > 1 && !depthwise) || places == 1 || channels % kBlock != 0) return false;
  const int64_t height = (out[1] + step[1] - 1) / step[1], width = (out[2] + step[2] - 1) / step[2];
  const double together = s.flops();
  s.outChannels = channels;
  std::vector<std::pair<ConvShape, WeightForm>> parts;
  double apart = 0;
  for (int64_t place = 0; place < places; ++place) {
    const Taps rows = tapsOf(kernel[1], step[1], s.dilationHeight, cut[1], s.inHeight, height, place / step[2]),
               columns = tapsOf(kernel[2], step[2], s.dilationWidth, cut[2], s.inWidth, width, place % step[2]);
    if (std::min({rows.count - 1, rows.before, rows.after}) < 0) return false;
    if (std::min({columns.count - 1, columns.before, columns.after}) < 0) return false;
    s.kernelHeight = rows.count, s.padTop = rows.before, s.padBottom = rows.after;
    s.kernelWidth = columns.count, s.padLeft = columns.before, s.padRight = columns.after;
    apart += s.flops();
    parts.push_back({s,
                     {fmt::format(", transposed by {}x{}, place {},{}", step[1], step[2], rows.first, columns.first),
                      [=](const Tensor& t) { return kernelOfPlace(t, depthwise, step, rows, columns); }}});
  }
  if (!depthwise && together < kWorth * apart) return false;
  const TensorId input = contiguousOperand(call, 0), result = call.makeResult();
  Network& n = call.network();
  std::vector<TensorId> made;
  for (const auto& [shape, form] : parts) {
    made.push_back(n.addTensor(DType::Float32, Dims{s.batch, channels, height, width}));
    addConvolution(call, shape, w, form, biasOf(call), input, made.back());
  }
  auto& cat = call.add<CatLayer>(int64_t{1});
  cat.inputs = made;
  cat.outputs = {n.addTensor(DType::Float32, Dims{s.batch, channels * places, height, width})};
  const Dims sizes{s.batch, channels, out[1], out[2]};
  const TensorId joined = cat.outputs[0];
  auto& shuffle = call.add<ChannelsToPixelsLayer>();
  shuffle.stepY = step[1];
  shuffle.stepX = step[2];
  shuffle.placesFirst = true;
  shuffle.inputs = {joined};
  shuffle.outputs = {n.addView(n[result].buffer, DType::Float32, sizes, contiguousStrides(sizes), 0)};
  return true;
}

// False for what has no layer: dilation with steps.
bool addTransposed(ConvertCall& call, const Convolution& c) {
  Tensor x = call.tensor(0), w = contiguous(call.tensor(1));
  const Dims step = threeOf(c.stride, 1), dilation = threeOf(c.dilation, 1), kernel = threeOf(c.kernel, 1),
             cut = threeOf(c.before, 0);
  for (size_t d = 0; d < 3; ++d)
    if (step[d] > 1 && dilation[d] > 1) return false;
  const int64_t groups = c.groups, places = step[0] * step[1] * step[2], outChannels = w.size(1) * groups;
  ConvShape s = shapeOf(c, x, x.size(0), x.size(1), outChannels * places);
  const Dims& sizes = call.spec().sizes;
  const Dims out = threeOf(Dims(sizes.begin() + 2, sizes.end()), 1);
  auto side = [&](size_t d, int64_t in, int64_t& kernelSize, int64_t& stride, int64_t& before, int64_t& after) {
    kernelSize = (kernel[d] + step[d] - 1) / step[d];
    stride = 1;
    before = dilation[d] * (kernelSize - 1);
    // So that every pixel that is wanted has a place; what is in front of them is cut off.
    const int64_t wanted = (out[d] + cut[d] + step[d] - 1) / step[d];
    after = std::max<int64_t>(0, wanted - in);
  };
  side(0, s.frames.in, s.frames.kernel, s.frames.stride, s.frames.padFront, s.frames.padBack);
  side(1, s.inHeight, s.kernelHeight, s.strideHeight, s.padTop, s.padBottom);
  side(2, s.inWidth, s.kernelWidth, s.strideWidth, s.padLeft, s.padRight);
  if (addPlaces(call, c, s, kernel, step, cut, out)) return true;
  const bool placesFirst = columnsArePlacesFirst(groups, outChannels);
  WeightForm form{fmt::format(", transposed by {}x{}x{}", step[0], step[1], step[2]),
                  [=](const Tensor& t) { return kernelsOfPlaces(t, groups, kernel, step, placesFirst); }};
  TensorId input = contiguousOperand(call, 0);
  TensorId result = call.makeResult();
  Network& n = call.network();
  // Images have no depth.
  auto tensorSizes = [&](int64_t channels, int64_t depth, int64_t height, int64_t width) {
    return c.rank() == 3 ? Dims{s.batch, channels, depth, height, width} : Dims{s.batch, channels, height, width};
  };
  const Dims pixelSizes = tensorSizes(outChannels, out[0], out[1], out[2]);
  TensorId pixels = n.addView(n[result].buffer, DType::Float32, pixelSizes, contiguousStrides(pixelSizes), 0);
  const Dims madeSizes = tensorSizes(s.outChannels, s.frames.out(), s.outHeight(), s.outWidth());
  const bool whole = places == 1 && cut == Dims{0, 0, 0} && madeSizes == pixelSizes;
  TensorId made = whole ? pixels : n.addTensor(DType::Float32, madeSizes);
  addConvolution(call, s, w, form, biasOfPlaces(biasOf(call), places, placesFirst), input, made);
  if (whole) return true;
  auto& shuffle = call.add<ChannelsToPixelsLayer>();
  shuffle.stepZ = step[0];
  shuffle.stepY = step[1];
  shuffle.stepX = step[2];
  shuffle.front = cut[0];
  shuffle.top = cut[1];
  shuffle.left = cut[2];
  shuffle.placesFirst = placesFirst;
  shuffle.inputs = {made};
  shuffle.outputs = {pixels};
  return true;
}

// ---- made of other calls ----

IValue rowsTimes(const ConvertCall& call, const IValue& rows, const IValue& weights, const IValue& bias) {
  return call.compute("aten::linear", {rows, weights, bias});
}

// With the bias of the call.
IValue convolved(const ConvertCall& call, const IValue& x, const IValue& weights, const Dims& stride,
                 const Dims& padding, const Dims& dilation, int64_t groups) {
  return call.compute("aten::convolution", {x, weights, call.argument(2), intList(stride), intList(padding),
                                            intList(dilation), false, intList(Dims(stride.size(), 0)), groups});
}

// A transposed convolution of one pixel lays down its kernels once: rows of channels times a matrix.
bool makesOneKernel(const ConvertCall& call, const Convolution& c) {
  const Dims& out = call.spec().sizes;
  return c.groups == 1 && call.tensor(0).numel() == out[0] * call.tensor(0).size(1) &&
         Dims(out.begin() + 2, out.end()) == c.kernel && c.before == Dims(c.rank(), 0);
}

void addOneKernel(ConvertCall& call) {
  const Tensor x = call.tensor(0), w = call.tensor(1);
  const int64_t channels = w.size(1), columns = w.numel() / w.size(0);
  IValue bias;
  if (!call.isNone(2)) {
    const Dims each{channels, columns / channels};
    bias = call.compute("aten::expand", {reshaped(call, call.argument(2), Dims{channels, 1}), intList(each), false});
    bias = reshaped(call, bias, Dims{columns});
  }
  const IValue weights = call.compute("aten::t", {reshaped(call, w, Dims{w.size(0), columns})});
  const IValue rows = rowsTimes(call, reshaped(call, x, Dims{x.size(0), x.size(1)}), weights, bias);
  call.setResult(0, reshaped(call, rows, Dims(call.spec().sizes)));
}

// ---- of computed weights and biases ----

void addOfInputs(ConvertCall& call, const ConvShape& shape, TensorId input) {
  TensorId weights = contiguousOperand(call, InputConvLayer::kWeights);
  TensorId output = call.makeResult();
  auto& layer = call.add<InputConvLayer>(shape);
  layer.bias = biasOf(call);
  layer.inputs = {input, weights};
  layer.outputs = {output};
}

// With weights that only a run knows: turned around those of a convolution where steps are one, else of columns, which
// are added up where they lie in the image. False for what is dilated or a volume with steps, and what cuts off more
// than a kernel reaches.
bool addTransposedOfInputs(ConvertCall& call, const Convolution& c) {
  const Tensor x = call.tensor(0), w = call.tensor(1);
  const int64_t groups = c.groups, in = w.size(0) / groups, out = w.size(1);
  if (std::ranges::count(c.stride, 1) == std::ssize(c.stride)) {
    Dims padding, turned, grouped{groups, in, out}, sizes{groups * out, in};
    for (size_t d = 0; d < c.rank(); ++d) {
      padding.push_back(c.dilation[d] * (c.kernel[d] - 1) - c.before[d]);
      if (padding[d] < 0 || c.outputPadding[d]) return false;
      turned.push_back(static_cast<int64_t>(d) + 2);
      for (Dims* dims : {&grouped, &sizes}) dims->push_back(c.kernel[d]);
    }
    if (c.rank() == 3 && groups > 1) return false;
    Dims order{0, 2, 1};
    for (int64_t d : turned) order.push_back(d + 1);
    IValue kernels = permuted(call, reshaped(call, w, grouped), order);
    kernels = call.compute("aten::flip", {reshaped(call, kernels, sizes), intList(turned)});
    call.setResult(0, convolved(call, x, kernels, c.stride, padding, c.dilation, groups));
    return true;
  }
  if (c.rank() > 2) return false;
  // One dimension is a second of size 1.
  auto two = [](const Dims& values, int64_t first) {
    return values.size() == 1 ? intList(Dims{first, values[0]}) : intList(values);
  };
  const Dims& sizes = call.spec().sizes;
  const int64_t places = x.numel() / (x.size(0) * x.size(1));
  const IValue kernels = permuted(call, reshaped(call, w, Dims{groups, in, w.numel() / (groups * in)}), Dims{0, 2, 1});
  const IValue columns =
      call.compute("aten::matmul", {kernels, reshaped(call, x, Dims{x.size(0), groups, in, places})});
  IValue image = call.compute("aten::col2im", {reshaped(call, columns, Dims{x.size(0), w.numel() / in, places}),
                                               two(Dims(sizes.begin() + 2, sizes.end()), 1), two(c.kernel, 1),
                                               two(c.dilation, 1), two(c.before, 0), two(c.stride, 1)});
  image = reshaped(call, image, sizes);
  if (!call.isNone(2)) {
    Dims each(c.rank() + 1, 1);
    each[0] = groups * out;
    image = call.compute("aten::add.Tensor", {image, reshaped(call, call.argument(2), each), int64_t{1}});
  }
  call.setResult(0, image);
  return true;
}

// ---- whose kernel is as large as the image ----

// The spatial dimensions that the kernel spans, so that the result has one element there.
std::vector<size_t> spannedBy(const Convolution& c, const Tensor& x) {
  std::vector<size_t> dimensions;
  for (size_t d = 0; d < c.rank(); ++d)
    if (c.kernel[d] > 1 && c.kernel[d] == x.size(static_cast<int>(d) + 2) && c.dilation[d] == 1 &&
        c.before[d] + c.after[d] == 0)
      dimensions.push_back(d);
  return dimensions;
}

// What is summed up over a dimension whatever the place are channels: so windows of words, and rows of electrodes,
// become a convolution of fewer dimensions and more channels, or a product.
void addSpanned(ConvertCall& call, const Convolution& c, const std::vector<size_t>& spanned) {
  const Tensor x = call.tensor(0), w = call.tensor(1);
  Dims order{0, 1}, image{x.size(0), x.size(1)}, kernels{w.size(0), w.size(1)}, stride, padding, dilation;
  for (size_t d : spanned) {
    order.push_back(static_cast<int64_t>(d) + 2);
    image[1] *= c.kernel[d];
    kernels[1] *= c.kernel[d];
  }
  for (size_t d = 0; d < c.rank(); ++d) {
    if (std::ranges::find(spanned, d) != spanned.end()) continue;
    order.push_back(static_cast<int64_t>(d) + 2);
    image.push_back(x.size(static_cast<int>(d) + 2));
    kernels.push_back(c.kernel[d]);
    stride.push_back(c.stride[d]);
    padding.push_back(c.before[d]);
    dilation.push_back(c.dilation[d]);
  }
  auto folded = [&](const IValue& value, const Dims& sizes) {
    return reshaped(call, std::ranges::is_sorted(order) ? value : permuted(call, value, order), sizes);
  };
  const IValue channels = folded(x, image), weights = folded(w, kernels);
  const IValue result = stride.empty() ? rowsTimes(call, channels, weights, call.argument(2))
                                       : convolved(call, channels, weights, stride, padding, dilation, c.groups);
  call.setResult(0, reshaped(call, result, Dims(call.spec().sizes)));
}

std::vector<IValue> argumentsOf(const ConvertCall& call) {
  std::vector<IValue> arguments;
  for (size_t i = 0; i < call.size(); ++i) arguments.push_back(call.argument(i));
  return arguments;
}

void addBiasBehind(ConvertCall& call) {
  std::vector<IValue> arguments = argumentsOf(call);
  Dims sizes(static_cast<size_t>(call.tensor(1).rank()) - 1, 1);
  sizes[0] = call.tensor(2).numel();
  IValue bias = reshaped(call, std::exchange(arguments[2], IValue()), sizes);
  IValue result = call.compute(call.op().fullName(), arguments);
  call.setResult(0, call.compute("aten::add.Tensor", {result, bias, int64_t{1}}));
}

}  // namespace

template <ConvForm kForm>
void convertConvolution(ConvertCall& call) {
  Tensor x = call.tensor(0), w = call.tensor(1);
  if (call.isNetworkTensor(2)) return addBiasBehind(call);
  if (!isF32(x) || !isF32(w)) return convertToKernel(call, kNotF32);
  if (checkedNumel(call.spec().sizes) == 0 || x.numel() == 0) return convertToKernel(call, kEmpty);
  if (x.rank() + 1 == w.rank()) {
    std::vector<IValue> arguments = argumentsOf(call);
    arguments[0] = call.compute("aten::unsqueeze", {x, int64_t{0}});
    IValue result = call.compute(call.op().fullName(), arguments);
    return call.setResult(0, call.compute("aten::squeeze.dim", {result, int64_t{0}}));
  }
  const Convolution c = describe(call, kForm);
  const bool readsWeights = call.isNetworkTensor(1);
  if (readsWeights && c.transposed && addTransposedOfInputs(call, c)) return;
  if (readsWeights && (c.transposed || (c.rank() == 3 && c.groups > 1)))
    return convertToKernel(call, "the weight is an input");
  if (c.transposed) {
    if (makesOneKernel(call, c)) return addOneKernel(call);
    if (c.rank() == 3 && x.size(2) == 1) return convertToKernel(call, "it is transposed, of volumes of one frame");
    if (!addTransposed(call, c) && !addTransposedOfInputs(call, c))
      convertToKernel(call, "it is of volumes, transposed with steps and dilation");
    return;
  }
  const ConvShape shape = shapeOf(c, x, x.size(0), x.size(1), w.size(0));
  // Whole blocks of channels are as fast as they are, and need no other order; one result a group needs no more
  // channels.
  const std::vector<size_t> spanned = spannedBy(c, x);
  const bool folds =
      spanned.size() == c.rank() ? c.groups == 1 : w.size(1) < kBlock && (c.groups == 1 || w.size(0) > c.groups);
  const bool evenPadding = c.before == c.after;  // as the operators say it
  if (folds && !spanned.empty() && evenPadding && !readsWeights) return addSpanned(call, c, spanned);
  if (shape.isVolume() && c.groups > 1 && !kDepthwiseConv.accepts(shape) && !kGroupedConv.accepts(shape))
    return addFrames(call, c);
  TensorId input = contiguousOperand(call, 0);
  if (readsWeights) return addOfInputs(call, shape, input);
  TensorId output = call.makeResult();
  addConvolution(call, shape, contiguous(w), {}, biasOf(call), input, output);
}

template void convertConvolution<ConvForm::Forward>(ConvertCall& call);
template void convertConvolution<ConvForm::General>(ConvertCall& call);
template void convertConvolution<ConvForm::Transposed>(ConvertCall& call);

}  // namespace tscompile
