// conv1d to conv3d, their transposes, and the _convolution that traces record.
#include "runtime/kernel_call.h"
#include "runtime/ops/ops.h"
#include "runtime/reference/convolution.h"
#include "runtime/reference/copy.h"
#include "runtime/reference/views.h"

namespace tscompile {
namespace {

constexpr DTypeSet kTypes = kFloatingTypes | kComplexTypes | DTypeSet{DType::Int64};

// Where the arguments of an overload stand.
struct Layout {
  int stride = 3, padding = 4, dilation = -1, groups = -1, transposed = -1, outputPadding = -1;
  bool isTransposed = false;
};
constexpr Layout kForward{.dilation = 5, .groups = 6};
constexpr Layout kTranspose{.dilation = 7, .groups = 6, .outputPadding = 5, .isTransposed = true};
constexpr Layout kGeneral{.dilation = 5, .groups = 8, .transposed = 6, .outputPadding = 7};

// A list of one number stands for all spatial dimensions.
Dims spread(const InferCall& call, const Dims& list, size_t spatial, const char* what) {
  call.require(list.size() == spatial || list.size() == 1, "expected {} to be a single integer value or a list of {} values to match "
               "the convolution dimensions, but got {}", what, spatial, dimsText(list));
  return list.size() == spatial ? list : Dims(spatial, list[0]);
}

// "same" pads so that the output is as large as the input; an odd number has one more behind.
Dims samePadding(DimSpan weight, const Dims& dilation, Dims& behind) {
  Dims front;
  for (size_t i = 2; i < weight.size(); ++i) {
    int64_t total = dilation[i - 2] * (weight[i] - 1);
    front.push_back(total / 2);
    behind.push_back(total - total / 2);
  }
  return front;
}

struct Convolution {
  ConvolutionShape shape;
  bool transposed = false;
  bool batched = true;
  Dims extra;  // padding behind the input that exceeds that in front, for "same"
  Dims input;  // sizes with a batch dimension
};

Convolution describe(const InferCall& call, const Layout& at) {
  TensorInfo x = call.rankedTensor(0), w = call.rankedTensor(1);
  call.require(w.rank() >= 3 && w.rank() <= 5, "expected a weight of 3 to 5 dimensions, but got {}", w.rank());
  size_t spatial = w.rank() - 2;
  call.require(x.rank() == spatial + 2 || x.rank() == spatial + 1, "expected {}D (unbatched) or {}D (batched) input, but got input of size {}",
               spatial + 1, spatial + 2, dimsText(x.sizes));
  call.require(x.dtype == w.dtype || x.dtype == DType::Undefined || w.dtype == DType::Undefined,
               "input type ({}) and weight type ({}) should be the same", pythonName(x.dtype), pythonName(w.dtype));
  Convolution c;
  c.batched = x.rank() == spatial + 2;
  c.input = x.sizes;
  if (!c.batched) c.input.insert(0, 1);
  c.transposed = at.isTransposed || (at.transposed >= 0 && call.flag(static_cast<size_t>(at.transposed)));
  c.shape.stride = spread(call, call.integers(static_cast<size_t>(at.stride)), spatial, "stride");
  c.shape.dilation = spread(call, call.integers(static_cast<size_t>(at.dilation)), spatial, "dilation");
  c.shape.groups = call.integer(static_cast<size_t>(at.groups));
  c.shape.outputPadding = at.outputPadding >= 0 && c.transposed
                              ? spread(call, call.integers(static_cast<size_t>(at.outputPadding)), spatial, "output_padding")
                              : Dims(spatial, 0);
  for (size_t i = 0; i < spatial; ++i) {
    call.require(c.shape.stride[i] > 0, "non-positive stride is not supported");
    call.require(c.shape.dilation[i] > 0, "dilation should be greater than zero");
    call.require(std::max(c.shape.stride[i], c.shape.dilation[i]) < INT32_MAX, "stride or dilation is too large");
    call.require(w.sizes[i + 2] != 0, "the kernel of the convolution is empty");
  }
  call.require(c.shape.groups > 0, "non-positive groups is not supported");
  c.extra = Dims(spatial, 0);
  const IValue* padding = call.constant(static_cast<size_t>(at.padding));
  if (padding && padding->isString()) {
    c.shape.padding = Dims(spatial, 0);
    if (padding->toString() == "same") {
      for (int64_t s : c.shape.stride) call.require(s == 1, "padding='same' is not supported for strided convolutions");
      Dims behind;
      c.shape.padding = samePadding(w.sizes, c.shape.dilation, behind);
      for (size_t i = 0; i < spatial; ++i) c.extra[i] = behind[i] - c.shape.padding[i];
    } else {
      call.require(padding->toString() == "valid", "invalid padding string: '{}'", padding->toString());
    }
  } else {
    c.shape.padding = spread(call, call.integers(static_cast<size_t>(at.padding)), spatial, "padding");
  }
  for (int64_t p : c.shape.padding) call.require(p >= 0 && p < INT32_MAX, "negative padding is not supported");
  return c;
}

bool known(std::initializer_list<int64_t> sizes) {
  for (int64_t s : sizes)
    if (!isKnownSize(s)) return false;
  return true;
}

template <const Layout& kLayout>
void inferConvolution(InferCall& call) {
  Convolution c = describe(call, kLayout);
  TensorInfo x = call.tensor(0), w = call.tensor(1);
  int64_t channels = c.input[1], groups = c.shape.groups;
  if (known({channels, w.sizes[0], w.sizes[1]})) {
    if (c.transposed) {
      call.require(channels == w.sizes[0] && channels % groups == 0,
                   "given transposed=1, weight of size {}, expected input {} to have {} channels, but got {} channels instead",
                   dimsText(w.sizes), dimsText(x.sizes), w.sizes[0], channels);
    } else {
      call.require(channels == w.sizes[1] * groups,
                   "given groups={}, weight of size {}, expected input{} to have {} channels, but got {} channels instead",
                   groups, dimsText(w.sizes), dimsText(x.sizes), w.sizes[1] * groups, channels);
      call.require(w.sizes[0] % groups == 0, "expected the {} output channels to be divisible by the {} groups", w.sizes[0], groups);
    }
  }
  int64_t outputs = c.transposed ? multiplySizes(w.sizes[1], groups) : w.sizes[0];
  if (!call.isNone(2)) {
    TensorInfo bias = call.rankedTensor(2);
    call.require(bias.rank() == 1 && (!known({bias.sizes[0], outputs}) || bias.sizes[0] == outputs),
                 "given weight of size {}, expected bias to be 1-dimensional with {} elements, but got bias of size {} instead",
                 dimsText(w.sizes), outputs, dimsText(bias.sizes));
    call.require(bias.dtype == x.dtype || x.dtype == DType::Undefined || bias.dtype == DType::Undefined,
                 "input type ({}) and bias type ({}) should be the same", pythonName(x.dtype), pythonName(bias.dtype));
  }
  Dims sizes;
  if (c.batched) sizes.push_back(c.input[0]);
  sizes.push_back(outputs);
  for (size_t i = 2; i < c.input.size(); ++i) {
    int64_t in = c.input[i], k = w.sizes[i];
    if (!known({in, k})) {
      sizes.push_back(kUnknownSize);
      continue;
    }
    size_t d = i - 2;
    int64_t stride = c.shape.stride[d], padding = c.shape.padding[d], dilation = c.shape.dilation[d];
    int64_t out;
    if (c.transposed) {
      int64_t add = c.shape.outputPadding[d];
      call.require(add >= 0 && (add < stride || add < dilation), "output padding must be smaller than either stride or dilation");
      call.require(in < (int64_t{1} << 30) && k < (int64_t{1} << 30), "the input of the convolution is too large");
      out = (in - 1) * stride - 2 * padding + dilation * (k - 1) + add + 1;
      call.require(out > 0, "the output size of the transposed convolution would be {}", out);
    } else {
      call.require(k < (int64_t{1} << 30), "the kernel of the convolution is too large");
      out = convolvedSize(in + c.extra[d], k, stride, padding, dilation);
      call.require(out >= 0, "calculated padded input size {} is smaller than the kernel size {}; the kernel can't be greater than the input",
                   in + 2 * padding, dilation * (k - 1) + 1);
    }
    sizes.push_back(out);
  }
  call.result(x.dtype, sizes);
}

// The input with zeros behind each spatial dimension.
Tensor padBehind(const Tensor& x, const Dims& extra) {
  Dims sizes(x.sizes());
  for (size_t i = 0; i < extra.size(); ++i) sizes[i + 2] += extra[i];
  Tensor padded = Tensor::zeros(x.dtype(), sizes), inside = padded;
  for (size_t i = 0; i < extra.size(); ++i) inside = narrowed(inside, static_cast<int64_t>(i) + 2, 0, x.size(static_cast<int>(i) + 2));
  copyTensor(inside, x);
  return padded;
}

template <const Layout& kLayout>
void convolutionKernel(KernelCall& call) {
  InferCall infer(call.op(), call.arguments(), call.size());
  Convolution c = describe(infer, kLayout);
  Tensor x = contiguous(call.tensor(0)), w = contiguous(call.tensor(1)), bias = call.tensor(2), out = call.out();
  if (bias.defined()) bias = contiguous(bias);
  Tensor target = out;
  if (!c.batched) {
    x = unsqueezed(x, 0);
    target = unsqueezed(out, 0);
  }
  if (std::any_of(c.extra.begin(), c.extra.end(), [](int64_t e) { return e != 0; })) x = padBehind(x, c.extra);
  if (c.transposed)
    convolveTransposed(target, x, w, bias, c.shape);
  else
    convolve(target, x, w, bias, c.shape);
}

}  // namespace

void registerConvolutionOps(OpRegistry& ops) {
  auto add = [&](const char* schema, const auto& infer, const auto& kernel) {
    ops.add({.schema = schema, .infer = infer, .kernel = kernel, .dtypes = kTypes});
  };
  for (const char* name : {"aten::conv1d", "aten::conv2d", "aten::conv3d", "aten::conv1d.padding", "aten::conv2d.padding", "aten::conv3d.padding",
                           "aten::_convolution_mode"})
    add(name, inferConvolution<kForward>, convolutionKernel<kForward>);
  for (const char* name : {"aten::conv_transpose1d", "aten::conv_transpose2d.input", "aten::conv_transpose3d.input"})
    add(name, inferConvolution<kTranspose>, convolutionKernel<kTranspose>);
  for (const char* name : {"aten::_convolution", "aten::_convolution.deprecated", "aten::convolution"})
    add(name, inferConvolution<kGeneral>, convolutionKernel<kGeneral>);
}

}  // namespace tscompile
