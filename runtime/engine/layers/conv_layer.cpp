#include "runtime/engine/layers/conv_layer.h"

#include "runtime/engine/layers/operands.h"
#include "runtime/kernels/layout.h"
#include "runtime/reference/loops/copy.h"

#include <fmt/core.h>

namespace tscompile {

void ConvLayer::run(Frame& frame) const {
  tactic_->run(shape_, frame.data<float>(inputs[0]), packed_.raw(), storage_, frame.data<float>(outputs[0]),
               epilogueOf(frame), frame.workspace(), frame.threads());
}

Tensor ConvLayer::scaled() const {
  if (!scale_.defined()) return weight_;
  Tensor scaled = Tensor::empty(DType::Float32, weight_.sizes());
  const int64_t inner = weight_.numel() / weight_.size(0);
  for (int64_t c = 0; c < weight_.size(0); ++c)
    for (int64_t i = c * inner; i < (c + 1) * inner; ++i)
      scaled.data<float>()[i] = weight_.data<float>()[i] * scale_.data<float>()[c];
  return scaled;
}

void ConvLayer::prepare(WeightStore& store, WeightStorage storage) {
  storage_ = storage;
  std::string name =
      fmt::format("{} in {} groups, {}x{}", tactic_->name, shape_.groups, shape_.strideHeight, shape_.strideWidth);
  if (scale_.defined()) name = WeightStore::nameWith(name + " scaled by ", scale_);
  packed_ = store.get(name, weight_, [&] {
    Tensor packed = packedBuffer(tactic_->packedBytes(shape_, storage));
    tactic_->pack(shape_, scaled().data<float>(), storage, packed.raw());
    return packed;
  });
  // Kernels read the bias of blocked channels in whole blocks.
  if (!bias.defined() || bias.numel() % kBlock == 0) return;
  Tensor padded = Tensor::zeros(DType::Float32, Dims{channelBlocks(bias.numel()) * kBlock});
  std::copy_n(bias.data<float>(), bias.numel(), padded.data<float>());
  bias = padded;
}

namespace {

// An argument that is a list of integers, repeated to `rank` if it is one number; nothing if it is a text ("same").
std::optional<Dims> spatial(const ConvertCall& call, size_t i, size_t rank) {
  if (call.argument(i).isString()) return std::nullopt;
  Dims values = call.integers(i);
  if (values.size() == 1) values = Dims(rank, values[0]);
  return values.size() == rank ? std::optional(values) : std::nullopt;
}

std::optional<ConvShape> shapeOf(ConvertCall& call, bool general) {
  Tensor x = call.tensor(0), w = call.tensor(1);
  size_t rank = static_cast<size_t>(w.rank()) - 2;
  if ((rank != 1 && rank != 2) || x.rank() != w.rank()) return std::nullopt;
  if (general && call.flag(6)) return std::nullopt;  // transposed
  std::optional<Dims> stride = spatial(call, 3, rank), padding = spatial(call, 4, rank),
                      dilation = spatial(call, 5, rank);
  if (!stride || !padding || !dilation) return std::nullopt;
  ConvShape s;
  s.batch = x.size(0);
  s.groups = call.integer(general ? 8 : 6);
  s.inChannels = x.size(1);
  s.outChannels = w.size(0);
  int last = static_cast<int>(rank) + 1;
  s.inWidth = x.size(last);
  s.kernelWidth = w.size(last);
  s.strideWidth = stride->back();
  s.dilationWidth = dilation->back();
  s.padLeft = s.padRight = padding->back();
  bool flat = rank == 1;
  s.inHeight = flat ? 1 : x.size(2);
  s.kernelHeight = flat ? 1 : w.size(2);
  s.strideHeight = flat ? 1 : stride->front();
  s.dilationHeight = flat ? 1 : dilation->front();
  s.padTop = s.padBottom = flat ? 0 : padding->front();
  return s;
}

}  // namespace

template <bool kGeneral>
void convertConvolution(ConvertCall& call) {
  Tensor x = call.tensor(0);
  if (call.isNetworkTensor(1)) return convertToKernel(call, "the weight is an input");
  if (call.isNetworkTensor(2)) return convertToKernel(call, "the bias is an input");
  if (x.dtype() != DType::Float32 || call.tensor(1).dtype() != DType::Float32) return convertToKernel(call, kNotF32);
  if (checkedNumel(call.spec().sizes) == 0 || x.numel() == 0) return convertToKernel(call, kEmpty);
  std::optional<ConvShape> shape = shapeOf(call, kGeneral);
  if (!shape) return convertToKernel(call, "it is transposed, padded by a word, or not of one or two dimensions");
  TensorId input = contiguousOperand(call, 0);
  TensorId output = call.makeResult();
  auto& layer = call.add<ConvLayer>(*shape, contiguous(call.tensor(1)));
  if (!call.isNone(2)) layer.bias = contiguous(call.tensor(2));
  layer.inputs = {input};
  layer.outputs = {output};
}

template void convertConvolution<false>(ConvertCall& call);
template void convertConvolution<true>(ConvertCall& call);

}  // namespace tscompile
