// conv1d to conv3d, their transposes, the _convolution that traces record, and the operators that PyTorch's own kernels
// go by.
#include "runtime/reference/convolution.h"

#include "ir/values/size_expression.h"
#include "runtime/call/kernel_call.h"
#include "runtime/engine/layers/conv_layer.h"
#include "runtime/ops/ops.h"
#include "runtime/reference/kept_format.h"
#include "runtime/reference/linalg.h"
#include "runtime/reference/loops/copy.h"
#include "runtime/reference/pytorch_words.h"
#include "runtime/reference/views.h"

namespace tscompile {
namespace {

constexpr DTypeSet kTypes =
    kFloatingTypes | kComplexTypes | DTypeSet{DType::UInt8, DType::Int8, DType::Int16, DType::Int32, DType::Int64};

// Where the arguments of an overload stand; -1: it has none.
struct Layout {
  int bias = 2, stride = 3, padding = 4, dilation = -1, groups = -1, transposed = -1, outputPadding = -1,
      kernelSize = -1;
  bool isTransposed = false;
  bool isDepthwise = false;  // as many groups as channels
  bool takesUnbatched = true;
};
constexpr Layout kForward{.dilation = 5, .groups = 6};
constexpr Layout kMode{.dilation = 5, .groups = 6, .takesUnbatched = false};
constexpr Layout kTranspose{.dilation = 7, .groups = 6, .outputPadding = 5, .isTransposed = true};
constexpr Layout kGeneral{.dilation = 5, .groups = 8, .transposed = 6, .outputPadding = 7, .takesUnbatched = false};
constexpr Layout kMkldnn{.stride = 4, .padding = 3, .dilation = 5, .groups = 6, .takesUnbatched = false};
constexpr Layout kSlow{.bias = 3, .stride = 4, .padding = 5, .kernelSize = 2};
constexpr Layout kSlowDilated{.bias = 3, .stride = 4, .padding = 5, .dilation = 6, .kernelSize = 2};
constexpr Layout kSlowTranspose{
    .bias = 3, .stride = 4, .padding = 5, .dilation = 7, .outputPadding = 6, .kernelSize = 2, .isTransposed = true};
constexpr Layout kDepthwise{.bias = 3, .stride = 4, .padding = 5, .dilation = 6, .kernelSize = 2, .isDepthwise = true};

// A list of one number stands for all spatial dimensions.
Dims convolutionSizes(const InferCall& call, const Dims& list, size_t spatial, const char* what) {
  call.require(list.size() == spatial || list.size() == 1,
               "expected {} to be a single integer value or a list of {} values to match "
               "the convolution dimensions, but got {}",
               what, spatial, dimsText(list));
  return list.size() == spatial ? list : Dims(spatial, list[0]);
}

// "same" pads so that the output is as large as the input; an odd number has one more after.
Dims samePadding(DimSpan weight, const Dims& dilation, Dims& after) {
  Dims front;
  for (size_t i = 2; i < weight.size(); ++i) {
    int64_t total = dilation[i - 2] * (weight[i] - 1);
    front.push_back(total / 2);
    after.push_back(total - total / 2);
  }
  return front;
}

struct Convolution {
  ConvolutionShape shape;
  bool transposed = false;
  bool batched = true;
  Dims extra;  // padding after the input that exceeds that in front, for "same"
  Dims input;  // sizes with a batch dimension
};

void requirePadding(const InferCall& call, int64_t padding) {
  call.require(padding >= 0, "negative padding is not supported");
  call.require(padding < INT32_MAX, "the padding {} is too large", padding);
}

Dims spatialArgument(const InferCall& call, int at, size_t spatial, int64_t otherwise, const char* what) {
  return at < 0 ? Dims(spatial, otherwise)
                : convolutionSizes(call, call.integers(static_cast<size_t>(at)), spatial, what);
}

void describePadding(const InferCall& call, size_t at, const TensorInfo& weight, Convolution& c) {
  size_t spatial = weight.rank() - 2;
  c.extra = Dims(spatial, 0);
  const IValue* padding = call.constant(at);
  if (!padding || !padding->isString()) {
    c.shape.padding = convolutionSizes(call, call.integers(at), spatial, "padding");
    return;
  }
  c.shape.padding = Dims(spatial, 0);
  if (padding->toString() != "same")
    return call.require(padding->toString() == "valid", "invalid padding string: '{}'", padding->toString());
  for (int64_t s : c.shape.stride) call.require(s == 1, "padding='same' is not supported for strided convolutions");
  if (!allKnown(weight.sizes)) throw InferCall::NotKnown{};
  Dims after;
  c.shape.padding = samePadding(weight.sizes, c.shape.dilation, after);
  for (size_t i = 0; i < spatial; ++i) c.extra[i] = after[i] - c.shape.padding[i];
}

Convolution describe(const InferCall& call, const Layout& at) {
  TensorInfo x = call.rankedTensor(0), w = call.rankedTensor(1);
  call.require(w.rank() >= 3, "weight should have at least three dimensions");
  call.require(w.rank() <= 5, "expected a weight of 3 to 5 dimensions, but got {}", w.rank());
  size_t spatial = w.rank() - 2;
  Convolution c;
  c.batched = x.rank() == spatial + 2;
  call.require(c.batched || (at.takesUnbatched && x.rank() == spatial + 1),
               "expected {}{}D (batched) input to {}, but got input of size: {}",
               at.takesUnbatched ? std::to_string(spatial + 1) + "D (unbatched) or " : "", spatial + 2,
               call.op().kind().name(), dimsText(x.sizes));
  requireSameScalarType(call, x, w);
  c.input = x.sizes;
  if (!c.batched) c.input.insert(0, 1);
  c.transposed = at.isTransposed || (at.transposed >= 0 && call.flag(static_cast<size_t>(at.transposed)));
  c.shape.stride = spatialArgument(call, at.stride, spatial, 1, "stride");
  c.shape.dilation = spatialArgument(call, at.dilation, spatial, 1, "dilation");
  c.shape.outputPadding = spatialArgument(call, c.transposed ? at.outputPadding : -1, spatial, 0, "output_padding");
  c.shape.groups = at.groups >= 0 ? call.integer(static_cast<size_t>(at.groups)) : at.isDepthwise ? c.input[1] : 1;
  if (!isKnownSize(c.shape.groups) && !call.isRun()) throw InferCall::NotKnown{};
  call.require(c.shape.groups > 0, "non-positive groups is not supported");
  Dims kernel =
      at.kernelSize < 0 ? Dims(w.sizes.subspan(2)) : spatialArgument(call, at.kernelSize, spatial, 1, "kernel_size");
  for (size_t i = 0; i < spatial; ++i) {
    call.require(c.shape.stride[i] > 0, "non-positive stride is not supported");
    call.require(c.shape.dilation[i] > 0, "dilation should be greater than zero");
    call.require(std::max(c.shape.stride[i], c.shape.dilation[i]) < INT32_MAX, "stride or dilation is too large");
    call.require(w.sizes[i + 2] != 0, "the kernel of the convolution is empty");
    call.require(kernel[i] == w.sizes[i + 2] || !isKnownSize(w.sizes[i + 2]),
                 "the kernel size {} does not fit a weight of size {}", dimsText(kernel), dimsText(w.sizes));
  }
  describePadding(call, static_cast<size_t>(at.padding), w, c);
  for (int64_t p : c.shape.padding) requirePadding(call, p);
  return c;
}

bool known(std::initializer_list<int64_t> sizes) {
  for (int64_t s : sizes)
    if (!isKnownSize(s)) return false;
  return true;
}

constexpr int64_t kMaxSize = int64_t{1} << 30;  // so that no product overflows

// For messages: 4 x 4.
std::string paddedSizes(const Convolution& c) {
  std::string text;
  for (size_t d = 0; d + 2 < c.input.size(); ++d)
    text += (d ? " x " : "") + std::to_string(c.input[d + 2] + c.extra[d] + 2 * c.shape.padding[d]);
  return text;
}
std::string reachedSizes(const Convolution& c, const TensorInfo& weight) {
  std::string text;
  for (size_t d = 0; d + 2 < weight.rank(); ++d)
    text += (d ? " x " : "") + std::to_string(c.shape.dilation[d] * (weight.sizes[d + 2] - 1) + 1);
  return text;
}

// The size of spatial dimension d of the output.
int64_t forwardSize(const InferCall& call, const Convolution& c, const TensorInfo& weight, size_t d) {
  int64_t in = c.input[d + 2], kernel = weight.sizes[d + 2], padding = c.shape.padding[d],
          dilation = c.shape.dilation[d];
  if (!known({in, kernel})) {
    SizeExpression reach = (SizeExpression::ofSize(kernel) - 1) * SizeExpression(dilation) + 1;
    SizeExpression room = SizeExpression::ofSize(in) + c.extra[d] + 2 * padding - reach;
    return (floorDiv(room, c.shape.stride[d]) + 1).size();
  }
  call.require(kernel < kMaxSize, "the kernel of the convolution is too large");
  int64_t out = convolvedSize(in + c.extra[d], kernel, c.shape.stride[d], padding, dilation);
  if (out < 0)
    call.fail(
        "calculated padded input size per channel: ({}). Kernel size: ({}). Kernel size can't be greater than actual "
        "input "
        "size",
        paddedSizes(c), reachedSizes(c, weight));
  return out;
}

int64_t transposedSize(const InferCall& call, const Convolution& c, const TensorInfo& weight, size_t d) {
  int64_t in = c.input[d + 2], kernel = weight.sizes[d + 2], add = c.shape.outputPadding[d];
  int64_t stride = c.shape.stride[d], dilation = c.shape.dilation[d];
  if (!known({in, kernel})) {
    SizeExpression reach = (SizeExpression::ofSize(kernel) - 1) * SizeExpression(dilation) + 1;
    return ((SizeExpression::ofSize(in) - 1) * SizeExpression(stride) - 2 * c.shape.padding[d] + reach + add).size();
  }
  bool noSamples = c.input[0] == 0;
  call.require(
      noSamples || (add >= 0 && (add < stride || add < dilation)),
      "output padding must be smaller than either stride or dilation, but got {} with stride {} and dilation {}", add,
      stride, dilation);
  call.require(std::max({in, kernel, std::abs(add)}) < kMaxSize, "the input of the convolution is too large");
  int64_t out = (in - 1) * stride - 2 * c.shape.padding[d] + dilation * (kernel - 1) + add + 1;
  call.require(out > 0 || (noSamples && out == 0), "the output size of the transposed convolution would be {}", out);
  return out;
}

// With a weight of which nothing is known the rank is still that of the input.
bool inferWithoutWeight(InferCall& call, const Layout& at) {
  TensorInfo x = call.rankedTensor(0);
  std::optional<int32_t> spatial = call.op().schema().arguments[at.stride].fixedSize;
  if (call.tensor(1).hasRank || (at.takesUnbatched && !spatial) || x.rank() == 0) return false;
  Dims sizes(x.rank(), kUnknownSize);
  if (!at.takesUnbatched || x.rank() == static_cast<size_t>(*spatial) + 2) sizes[0] = x.sizes[0];
  call.result(x.dtype, sizes);
  return true;
}

// PyTorch convolves narrow integers only as they come: its kernels for what is dilated or transposed have none.
void requireKernel(InferCall& call, const Convolution& c, DType dtype) {
  const bool isPlain =
      !c.transposed && std::all_of(c.shape.dilation.begin(), c.shape.dilation.end(), [](int64_t d) { return d == 1; });
  if (call.isRun() && isIntegral(dtype, false) && dtype != DType::Int64 && !isPlain) throw DTypeRefused(dtype);
}

void inferConvolution(InferCall& call, const Layout& at) {
  if (!call.isRun() && inferWithoutWeight(call, at)) return;
  Convolution c = describe(call, at);
  TensorInfo x = call.tensor(0), w = call.tensor(1);
  requireKernel(call, c, x.dtype);
  int64_t channels = c.input[1], groups = c.shape.groups;
  if (known({channels, w.sizes[0], w.sizes[1]})) {
    if (c.transposed) {
      call.require(
          channels == w.sizes[0] && channels % groups == 0,
          "given transposed=1, weight of size {}, expected input{} to have {} channels, but got {} channels instead",
          dimsText(w.sizes), dimsText(x.sizes), w.sizes[0], channels);
    } else {
      call.require(w.sizes[0] % groups == 0,
                   "given groups={}, expected weight to be divisible by {} at dimension 0, but got weight of size [{}] "
                   "instead",
                   groups, groups, dimsText(w.sizes));
      call.require(
          channels == w.sizes[1] * groups,
          "given groups={}, weight of size {}, expected input{} to have {} channels, but got {} channels instead",
          groups, dimsText(w.sizes), dimsText(x.sizes), w.sizes[1] * groups, channels);
    }
  }
  call.require(w.sizes[0] != 0 && (w.sizes[1] != 0 || channels == 0),
               "expected a weight with elements, but got one of size {}", dimsText(w.sizes));
  const bool mayBeWithout = !isKnownSize(c.input[0]) || !isKnownSize(channels) || c.input[0] == 0 || channels == 0;
  call.require(mayBeWithout || std::ranges::find(c.input, 0) == c.input.end(),
               "Only zero batch or zero channel inputs are supported, but got input shape: {}", dimsText(c.input));
  int64_t outputs = c.transposed ? elementCount(Dims{w.sizes[1], groups}).size() : w.sizes[0];
  if (!call.isNone(at.bias)) {
    TensorInfo bias = call.rankedTensor(at.bias);
    call.require(
        bias.rank() == 1 && (!known({bias.sizes[0], outputs}) || bias.sizes[0] == outputs),
        "given weight of size {}, expected bias to be 1-dimensional with {} elements, but got bias of size {} instead",
        dimsText(w.sizes), outputs, dimsText(bias.sizes));
    call.require(bias.dtype == x.dtype || x.dtype == DType::Undefined || bias.dtype == DType::Undefined,
                 "input type ({}) and bias type ({}) should be the same", pythonName(x.dtype), pythonName(bias.dtype));
  }
  Dims sizes;
  if (c.batched) sizes.push_back(c.input[0]);
  // Without channels there are none in the result either, as PyTorch has it.
  bool mayBeEmpty = !isKnownSize(channels) && (!isKnownSize(w.sizes[1]) || w.sizes[1] == 0);
  SizeExpression some = mayBeEmpty ? least(SizeExpression::ofSize(channels), 1) : channels == 0 ? 0 : 1;
  sizes.push_back((SizeExpression::ofSize(outputs) * some).size());
  for (size_t d = 0; d + 2 < c.input.size(); ++d)
    sizes.push_back(c.transposed ? transposedSize(call, c, w, d) : forwardSize(call, c, w, d));
  call.result(x.dtype, sizes);
}

// The input with zeros after each spatial dimension.
Tensor padAfter(const Tensor& x, const Dims& extra) {
  Dims sizes(x.sizes());
  for (size_t i = 0; i < extra.size(); ++i) sizes[i + 2] += extra[i];
  Tensor padded = Tensor::zeros(x.dtype(), sizes), inside = padded;
  for (size_t i = 0; i < extra.size(); ++i)
    inside = narrowed(inside, static_cast<int64_t>(i) + 2, 0, x.size(static_cast<int>(i) + 2));
  copyTensor(inside, x);
  return padded;
}

void runConvolution(KernelCall& call, const Layout& at) {
  InferCall infer(call.op(), call.arguments(), call.size());
  Convolution c = describe(infer, at);
  Tensor x = contiguous(call.tensor(0)), w = contiguous(call.tensor(1)), bias = call.tensor(at.bias), out = call.out();
  if (bias.defined()) bias = contiguous(bias);
  Tensor target = out;
  if (!c.batched) {
    x = unsqueezed(x, 0);
    target = unsqueezed(out, 0);
  }
  if (std::any_of(c.extra.begin(), c.extra.end(), [](int64_t e) { return e != 0; })) x = padAfter(x, c.extra);
  if (c.transposed)
    convolveTransposed(target, x, w, bias, c.shape);
  else
    convolve(target, x, w, bias, c.shape);
}

template <const Layout& kLayout>
void inferConvolution(InferCall& call) {
  inferConvolution(call, kLayout);
}
template <const Layout& kLayout>
void convolutionKernel(KernelCall& call) {
  runConvolution(call, kLayout);
}

// ---- conv_tbc: time, batch, channels; weight: kernel, input channels, output channels ----

void inferTbc(InferCall& call) {
  TensorInfo x = call.rankedTensor(0), w = call.rankedTensor(1), b = call.rankedTensor(2);
  call.require(x.rank() == 3 && w.rank() == 3 && b.rank() == 1,
               "expected an input and a weight of 3 dimensions and a bias of 1, but got {}, {} and {}", x.rank(),
               w.rank(), b.rank());
  call.require((x.dtype == w.dtype && x.dtype == b.dtype) || !call.isRun(),
               "input, weight and bias should be of one type");
  int64_t pad = call.integer(3);
  requirePadding(call, pad);
  call.require(!known({x.sizes[2], w.sizes[1]}) || x.sizes[2] == w.sizes[1], "expected {} input channels, but got {}",
               w.sizes[1], x.sizes[2]);
  call.require(!known({b.sizes[0], w.sizes[2]}) || b.sizes[0] == w.sizes[2],
               "expected a bias of {} elements, but got {}", w.sizes[2], b.sizes[0]);
  int64_t length = (SizeExpression::ofSize(x.sizes[0]) + 2 * pad - SizeExpression::ofSize(w.sizes[0]) + 1).size();
  if (known({x.sizes[0], w.sizes[0]})) {
    length = x.sizes[0] + 2 * pad - w.sizes[0] + 1;
    call.require(length >= 0 && w.sizes[0] > 0, "the kernel of {} elements does not fit an input of {} with padding {}",
                 w.sizes[0], x.sizes[0], pad);
  }
  call.result(x.dtype, Dims{length, x.sizes[1], w.sizes[2]});
}

void tbcKernel(KernelCall& call) {
  Tensor x = call.tensor(0), w = call.tensor(1), out = call.out();
  ConvolutionShape shape{.stride = {1}, .padding = {call.integer(3)}, .dilation = {1}, .outputPadding = {0}};
  Tensor aside = Tensor::empty(out.dtype(), Dims{out.size(1), out.size(2), out.size(0)});
  convolve(aside, contiguous(x.permuted(Dims{1, 2, 0})), contiguous(w.permuted(Dims{2, 1, 0})),
           contiguous(call.tensor(2)), shape);
  copyTensor(out, aside.permuted(Dims{2, 0, 1}));
}

}  // namespace

void registerConvolutionOps(OpRegistry& ops) {
  auto add = [&](const char* schema, const auto& infer, const auto& kernel, ConvertFunction convert = nullptr) {
    ops.add({.schema = schema,
             .infer = infer,
             .kernel = kernel,
             .convert = convert,
             .dtypes = kTypes,
             .traits = {Trait::RoundsOnce},
             .cost = Cost::Convolution});
  };
  for (const char* name : {"aten::conv1d", "aten::conv2d", "aten::conv3d", "aten::conv1d.padding",
                           "aten::conv2d.padding", "aten::conv3d.padding"})
    add(name, inferConvolution<kForward>, keepingFormat<convolutionKernel<kForward>, 1, 2>,
        convertConvolution<ConvForm::Forward>);
  add("aten::_convolution_mode", inferConvolution<kMode>, keepingFormat<convolutionKernel<kMode>, 1, 2>,
      convertConvolution<ConvForm::Forward>);
  for (const char* name : {"aten::conv_transpose1d", "aten::conv_transpose2d.input", "aten::conv_transpose3d.input"})
    add(name, inferConvolution<kTranspose>, keepingFormat<convolutionKernel<kTranspose>, 1, 2>,
        convertConvolution<ConvForm::Transposed>);
  for (const char* name :
       {"aten::_convolution", "aten::_convolution.deprecated", "aten::convolution", "aten::convolution_overrideable"})
    add(name, inferConvolution<kGeneral>, keepingFormat<convolutionKernel<kGeneral>, 1, 2>,
        convertConvolution<ConvForm::General>);
  add("aten::mkldnn_convolution", inferConvolution<kMkldnn>, keepingFormat<convolutionKernel<kMkldnn>, 1, 2>);
  for (const char* name :
       {"aten::thnn_conv2d", "aten::_slow_conv2d_forward", "aten::slow_conv3d", "aten::slow_conv3d_forward"})
    add(name, inferConvolution<kSlow>, keepingFormat<convolutionKernel<kSlow>, 1, 2>);
  for (const char* name : {"aten::slow_conv_dilated2d", "aten::slow_conv_dilated3d"})
    add(name, inferConvolution<kSlowDilated>, keepingFormat<convolutionKernel<kSlowDilated>, 1, 2>);
  for (const char* name : {"aten::slow_conv_transpose2d", "aten::slow_conv_transpose3d"})
    add(name, inferConvolution<kSlowTranspose>, keepingFormat<convolutionKernel<kSlowTranspose>, 1, 2>);
  for (const char* name : {"aten::_conv_depthwise2d", "aten::conv_depthwise3d"})
    add(name, inferConvolution<kDepthwise>, keepingFormat<convolutionKernel<kDepthwise>, 1, 2>);
  add("aten::conv_tbc", inferTbc, tbcKernel);
}

}  // namespace tscompile
