// Channels and patches rearranged: pixel_shuffle, pixel_unshuffle, channel_shuffle, im2col, col2im.
#include "ir/values/size_expression.h"
#include "runtime/call/kernel_call.h"
#include "runtime/engine/layers/operands.h"
#include "runtime/engine/layers/pixel_layers.h"
#include "runtime/ops/ops.h"
#include "runtime/reference/convolution.h"
#include "runtime/reference/dense.h"
#include "runtime/reference/kept_format.h"
#include "runtime/reference/loops/copy.h"
#include "runtime/reference/loops/item_bits.h"
#include "runtime/reference/views.h"

#include <cstring>

namespace tscompile {
namespace {

// ---- pixel_shuffle: r * r channels become pixels; channel_shuffle: channels change places ----

void requireFactor(const InferCall& call, int64_t factor) {
  call.require(factor > 0 && factor < INT32_MAX, "expected a positive factor, but got {}", factor);
}

void inferPixelShuffle(InferCall& call) {
  TensorInfo x = call.rankedTensor(0);
  int64_t r = call.integer(1);
  call.require(x.rank() >= 3, "expected an input with at least 3 dimensions, but got size {}", dimsText(x.sizes));
  requireFactor(call, r);
  Dims sizes(x.sizes);
  int64_t& channels = sizes[x.rank() - 3];
  call.require(
      !isKnownSize(channels) || channels % (r * r) == 0,
      "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of upscale_factor, but "
      "input.size(-3)={} is not divisible by {}",
      channels, r * r);
  channels = floorDiv(SizeExpression::ofSize(channels), r * r).size();
  for (size_t d = x.rank() - 2; d < x.rank(); ++d) sizes[d] = elementCount(Dims{sizes[d], r}).size();
  call.result(x.dtype, sizes);
}

void inferPixelUnshuffle(InferCall& call) {
  TensorInfo x = call.rankedTensor(0);
  int64_t r = call.integer(1);
  call.require(x.rank() >= 3, "expected an input with at least 3 dimensions, but got size {}", dimsText(x.sizes));
  requireFactor(call, r);
  Dims sizes(x.sizes);
  for (size_t d = x.rank() - 2; d < x.rank(); ++d) {
    call.require(
        !isKnownSize(sizes[d]) || sizes[d] % r == 0,
        "pixel_unshuffle expects {} to be divisible by downscale_factor, but input.size({})={} is not divisible "
        "by {}",
        d + 1 == x.rank() ? "width" : "height", d + 1 == x.rank() ? -1 : -2, sizes[d], r);
    sizes[d] = floorDiv(SizeExpression::ofSize(sizes[d]), r).size();
  }
  sizes[x.rank() - 3] = elementCount(Dims{sizes[x.rank() - 3], r * r}).size();
  if (knownNumel(x.sizes) == 0) {
    sizes = x.sizes;  // as PyTorch has it
  } else if (elementCount(x.sizes).range().least <= 0) {
    for (size_t d = x.rank() - 3; d < x.rank(); ++d) sizes[d] = kUnknownSize;
  }
  call.result(x.dtype, sizes);
}

// Copies between an image, whose last two dimensions are multiples of r, and channels that are a multiple of r * r.
void copyPixels(const Tensor& image, const Tensor& channels, int64_t r, bool toImage) {
  if (image.numel() == 0) return;
  int n = image.rank();
  int64_t h = image.size(n - 2) / r, w = image.size(n - 1) / r, planes = image.numel() / (h * w * r * r);
  Tensor wide = reshaped(image, Dims{planes, h, r, w, r}), deep = reshaped(channels, Dims{planes, r, r, h, w});
  for (int64_t y = 0; y < r; ++y)
    for (int64_t x = 0; x < r; ++x) {
      Tensor a = selected(selected(wide, 4, x), 2, y), b = selected(selected(deep, 2, x), 1, y);
      copyTensor(toImage ? a : b, toImage ? b : a);
    }
}

void pixelShuffleKernel(KernelCall& call) { copyPixels(call.out(), contiguous(call.tensor(0)), call.integer(1), true); }
void pixelUnshuffleKernel(KernelCall& call) {
  copyPixels(contiguous(call.tensor(0)), call.out(), call.integer(1), false);
}

void inferChannelShuffle(InferCall& call) {
  TensorInfo x = call.rankedTensor(0);
  int64_t groups = call.integer(1);
  call.require(x.rank() > 2, "expected an input with more than 2 dimensions, but got size {}", dimsText(x.sizes));
  call.require(groups > 0, "the number of groups should be larger than 0, but got {}", groups);
  call.require(!isKnownSize(x.sizes[1]) || x.sizes[1] % groups == 0,
               "Number of channels must be divisible by groups. Got {} channels and {} groups.", x.sizes[1], groups);
  call.result(x);
}

void channelShuffleKernel(KernelCall& call) {
  Tensor x = call.tensor(0);
  int64_t groups = call.integer(1), inner = 1;
  for (int d = 2; d < x.rank(); ++d) inner *= x.size(d);
  Tensor out = call.out(), seen = transposed(reshaped(x, Dims{x.size(0), groups, x.size(1) / groups, inner}), 1, 2);
  copyTensor(reshaped(out, seen.sizes()), seen);
}

// ---- im2col, col2im: an image as the columns that a sliding kernel meets, and back ----

struct Patches {
  int64_t kernel[2], dilation[2], padding[2], stride[2], image[2], blocks[2];
  int64_t taps() const { return kernel[0] * kernel[1]; }
  int64_t blockCount() const { return blocks[0] * blocks[1]; }
};

// `at`: where kernel_size stands; dilation, padding and stride follow. Sizes of the image may be unknown.
Patches readPatches(const InferCall& call, size_t at, int64_t height, int64_t width) {
  Patches p;
  const char* names[] = {"kernel_size", "dilation", "padding", "stride"};
  int64_t* targets[] = {p.kernel, p.dilation, p.padding, p.stride};
  for (size_t k = 0; k < 4; ++k) {
    Dims list = call.integers(at + k);
    call.require(list.size() == 2, "It is expected {} equals to 2, but got size {}", names[k], list.size());
    for (size_t i = 0; i < 2; ++i) {
      targets[k][i] = list[i];
      call.require(targets[k][i] >= (k == 2 ? 0 : 1) && targets[k][i] < INT32_MAX, "{} should be {}, but got {}",
                   names[k], k == 2 ? "non-negative" : "greater than zero", dimsText(list));
    }
  }
  p.image[0] = height;
  p.image[1] = width;
  for (size_t i = 0; i < 2; ++i) {
    p.blocks[i] =
        isKnownSize(p.image[i])
            ? convolvedSize(p.image[i], p.kernel[i], p.stride[i], p.padding[i], p.dilation[i])
            : (floorDiv(SizeExpression::ofSize(p.image[i]) + 2 * p.padding[i] - (p.dilation[i] * (p.kernel[i] - 1) + 1),
                        p.stride[i]) +
               1)
                  .size();
    call.require(!isKnownSize(p.image[i]) || p.blocks[i] > 0,
                 "a kernel of size {} with dilation {} does not fit an image of size {} with padding {}", p.kernel[i],
                 p.dilation[i], p.image[i], p.padding[i]);
  }
  return p;
}

void inferIm2col(InferCall& call) {
  TensorInfo x = call.rankedTensor(0);
  call.require(x.rank() == 3 || x.rank() == 4,
               "expected 3D or 4D (batch mode) input with possibly 0 batch size, but got size {}", dimsText(x.sizes));
  for (size_t d = x.rank() - 3; d < x.rank(); ++d)
    call.require(x.sizes[d] != 0, "expected 3D or 4D (batch mode) input with possibly 0 batch size, but got size {}",
                 dimsText(x.sizes));
  Patches p = readPatches(call, 1, x.sizes[x.rank() - 2], x.sizes[x.rank() - 1]);
  Dims sizes(x.sizes.first(x.rank() - 3));
  sizes.push_back(elementCount(Dims{x.sizes[x.rank() - 3], p.kernel[0], p.kernel[1]}).size());
  sizes.push_back(elementCount(p.blocks).size());
  call.require(!call.isRun() || (isKnownSize(sizes.back()) && isKnownSize(sizes[sizes.size() - 2])),
               "the columns are too large");
  call.result(x.dtype, sizes);
}

// Calls visit(image index, column index) for all places inside one channel's image.
template <class Visit>
void walkPatches(const Patches& p, Visit&& visit) {
  int64_t column = 0;
  for (int64_t ky = 0; ky < p.kernel[0]; ++ky)
    for (int64_t kx = 0; kx < p.kernel[1]; ++kx)
      for (int64_t by = 0; by < p.blocks[0]; ++by) {
        int64_t y = by * p.stride[0] - p.padding[0] + ky * p.dilation[0], x = kx * p.dilation[1] - p.padding[1];
        RunContext::current().checkInterrupt(p.blocks[1]);
        if (y < 0 || y >= p.image[0]) {
          column += p.blocks[1];
          continue;
        }
        for (int64_t bx = 0; bx < p.blocks[1]; ++bx, ++column, x += p.stride[1])
          if (x >= 0 && x < p.image[1]) visit(y * p.image[1] + x, column);
      }
}

template <class Bits>
void moveIm2col(const Patches& p, int64_t channels, const std::byte* from, std::byte* to) {
  auto* image = reinterpret_cast<const Bits*>(from);
  auto* columns = reinterpret_cast<Bits*>(to);
  for (int64_t c = 0; c < channels; ++c) {
    walkPatches(p, [&](int64_t i, int64_t column) { columns[column] = image[i]; });
    image += p.image[0] * p.image[1];
    columns += p.taps() * p.blockCount();
  }
}

void im2colKernel(KernelCall& call) {
  InferCall infer(call.op(), call.arguments(), call.size());
  Tensor x = contiguous(call.tensor(0));
  Patches p = readPatches(infer, 1, x.size(x.rank() - 2), x.size(x.rank() - 1));
  call.setResult(Tensor::zeros(call.spec().dtype, call.spec().sizes));
  Tensor out = call.out();
  int64_t channels = x.numel() / (p.image[0] * p.image[1]);  // of all samples
  withItemBits(x.dtype(), [&]<class Bits>() { moveIm2col<Bits>(p, channels, x.raw(), out.raw()); });
}

Dims imageSize(const InferCall& call) {
  Dims size = call.sizes(1);
  call.require(size.size() == 2 || size.size() == 1, "expected output_size to be two numbers, but got {}",
               dimsText(size));
  if (size.size() == 1) size.push_back(size[0]);
  for (int64_t s : size)
    call.require(s > 0 || (!call.isRun() && s < 0), "output_size should be greater than zero, but got {}",
                 dimsText(size));
  return size;
}

void inferCol2im(InferCall& call) {
  TensorInfo x = call.rankedTensor(0);
  call.require(x.rank() == 2 || x.rank() == 3, "expected 2D or 3D (batch mode) columns, but got size {}",
               dimsText(x.sizes));
  Dims size = imageSize(call);
  for (int64_t& s : size) s = integerAsSize(s);
  Patches p = readPatches(call, 2, size[0], size[1]);
  int64_t rows = x.sizes[x.rank() - 2], columns = x.sizes[x.rank() - 1],
          blocks = multiplySizes(p.blocks[0], p.blocks[1]);
  int64_t taps = multiplySizes(p.kernel[0], p.kernel[1]);
  call.require(rows != 0 && columns != 0, "expected columns with elements, but got size {}", dimsText(x.sizes));
  call.require(!isKnownSize(rows) || (isKnownSize(taps) && rows % taps == 0),
               "expected a number of rows that is divisible by the {}x{} elements of the kernel, but got size {}",
               p.kernel[0], p.kernel[1], dimsText(x.sizes));
  call.require(!isKnownSize(columns) || columns == blocks || (!call.isRun() && !isKnownSize(blocks)),
               "expected {} columns, one for each block, but got size {}", blocks, dimsText(x.sizes));
  Dims sizes(x.sizes.first(x.rank() - 2));
  sizes.push_back(floorDiv(SizeExpression::ofSize(rows), SizeExpression::ofSize(taps)).size());
  sizes.push_back(size[0]);
  sizes.push_back(size[1]);
  call.result(x.dtype, sizes);
}

void col2imKernel(KernelCall& call) {
  InferCall infer(call.op(), call.arguments(), call.size());
  Tensor x = denseTensor(call.tensor(0));
  Dims size = imageSize(infer);
  Patches p = readPatches(infer, 2, size[0], size[1]);
  DenseResult out(call.out());
  std::memset(out.tensor().raw(), 0, static_cast<size_t>(out.tensor().numel()) * itemSize(out.tensor().dtype()));
  auto run = [&](auto sample) {
    using T = decltype(sample);
    const T* columns = x.data<T>();
    T* image = out.data<T>();
    for (int64_t c = x.numel() / (p.taps() * p.blockCount()); c > 0; --c) {
      walkPatches(p, [&](int64_t i, int64_t column) { image[i] = static_cast<T>(image[i] + columns[column]); });
      columns += p.taps() * p.blockCount();
      image += size[0] * size[1];
    }
  };
  if (x.dtype() == DType::Int64)  // of bools
    run(int64_t{});
  else
    withFloatingOrComplex(x.dtype(), run);
  out.store();
}

// ---- in engines: views, copies and sums ----

bool isMovable(const ConvertCall& call) {
  const Tensor x = call.tensor(0);
  return x.dtype() == DType::Float32 && x.numel() > 0;
}

void convertPixelUnshuffle(ConvertCall& call) {
  if (!isMovable(call)) return convertToKernel(call, "the elements are not float32, or there are none");
  const Tensor x = call.tensor(0);
  const int64_t r = call.integer(1), h = x.size(x.rank() - 2) / r, w = x.size(x.rank() - 1) / r;
  const IValue cut = call.compute("aten::reshape", {x, intList(Dims{-1, h, r, w, r})});
  const IValue turned = call.compute("aten::permute", {cut, intList(Dims{0, 2, 4, 1, 3})});
  call.setResult(0, call.compute("aten::reshape", {turned, intList(call.spec().sizes)}));
}

void convertChannelShuffle(ConvertCall& call) {
  if (!isMovable(call)) return convertToKernel(call, "the elements are not float32, or there are none");
  const Tensor x = call.tensor(0);
  const int64_t groups = call.integer(1);
  const IValue cut = call.compute("aten::reshape", {x, intList(Dims{x.size(0), groups, x.size(1) / groups, -1})});
  const IValue turned = call.compute("aten::transpose.int", {cut, int64_t{1}, int64_t{2}});
  call.setResult(0, call.compute("aten::reshape", {turned, intList(Dims(x.sizes()))}));
}

// Windows of the padded image, whose elements are moved before the places of the windows.
void convertIm2col(ConvertCall& call) {
  if (!isMovable(call)) return convertToKernel(call, "the elements are not float32, or there are none");
  const Tensor x = call.tensor(0);
  const Patches p =
      readPatches(InferCall(call.op(), call.arguments(), call.size()), 1, x.size(x.rank() - 2), x.size(x.rank() - 1));
  IValue image = call.compute("aten::reshape", {x, intList(Dims{-1, x.size(x.rank() - 3), p.image[0], p.image[1]})});
  if (p.padding[0] || p.padding[1]) {
    const Dims by{p.padding[1], p.padding[1], p.padding[0], p.padding[0]};
    image = call.compute("aten::constant_pad_nd", {image, intList(by), 0.0});
  }
  for (int64_t i : {0, 1}) {
    image = call.compute("aten::unfold", {image, i + 2, p.dilation[i] * (p.kernel[i] - 1) + 1, p.stride[i]});
    if (p.dilation[i] != 1)
      image = call.compute("aten::slice.Tensor", {image, int64_t{-1}, IValue(), IValue(), p.dilation[i]});
  }
  image = call.compute("aten::permute", {image, intList(Dims{0, 1, 4, 5, 2, 3})});
  call.setResult(0, call.compute("aten::reshape", {image, intList(call.spec().sizes)}));
}

void convertCol2im(ConvertCall& call) {
  if (!isMovable(call)) return convertToKernel(call, "the elements are not float32, or there are none");
  const InferCall infer(call.op(), call.arguments(), call.size());
  const Dims size = imageSize(infer);
  const Patches p = readPatches(infer, 2, size[0], size[1]);
  const TensorId columns = contiguousOperand(call, 0), image = call.makeResult();
  auto& layer = call.add<ColumnsToImageLayer>();
  for (size_t i : {0, 1})
    (i ? layer.width : layer.height) = {p.kernel[i], p.dilation[i], p.padding[i], p.stride[i], p.blocks[i]};
  layer.inputs = {columns};
  layer.outputs = {image};
}

}  // namespace

void registerPatchesOps(OpRegistry& ops) {
  auto add = [&](const char* schema, InferFunction infer, KernelFunction kernel, DTypeSet dtypes = kAllTypes,
                 ConvertFunction convert = nullptr) {
    ops.add({.schema = schema, .infer = infer, .kernel = kernel, .convert = convert, .dtypes = dtypes});
  };
  add("aten::pixel_shuffle", inferPixelShuffle, keepingFormat<pixelShuffleKernel>, kAllTypes, convertPixelShuffle);
  add("aten::pixel_unshuffle", inferPixelUnshuffle, keepingFormat<pixelUnshuffleKernel>, kAllTypes,
      convertPixelUnshuffle);
  for (const char* name : {"aten::channel_shuffle", "aten::native_channel_shuffle"})
    add(name, inferChannelShuffle, keepingFormat<channelShuffleKernel>, kAllTypes, convertChannelShuffle);
  constexpr DTypeSet kColumns = kFloatingTypes | kComplexTypes | kBoolType;
  add("aten::im2col", inferIm2col, im2colKernel, kColumns, convertIm2col);
  add("aten::col2im", inferCol2im, col2imKernel, kColumns, convertCol2im);
}

}  // namespace tscompile
