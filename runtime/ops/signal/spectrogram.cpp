// Short-time Fourier transforms and the way back.
#include "ir/values/size_expression.h"
#include "runtime/engine/network/convert_call.h"
#include "runtime/ops/call_op.h"
#include "runtime/ops/ops.h"
#include "runtime/ops/signal/recursive_filter.h"
#include "runtime/reference/elementwise.h"
#include "runtime/reference/loops/copy.h"
#include "runtime/reference/views.h"

namespace tscompile {
namespace {

// ---- what both take: n_fft, hop_length, win_length, window at positions 1 to 4 ----

struct Frames {
  int64_t points, hop, windowLength;
};

Frames framesOf(const InferCall& call) {
  Frames f{call.integer(1), 0, 0};
  call.require(f.points > 0, "n_fft must be greater than 0, not {}", f.points);
  f.hop = call.isNone(2) ? f.points / 4 : call.integer(2);
  f.windowLength = call.isNone(3) ? f.points : call.integer(3);
  call.require(f.hop > 0, "expected hop_length > 0, but got {}", f.hop);
  call.require(f.windowLength > 0 && f.windowLength <= f.points,
               "expected 0 < win_length <= n_fft, but got win_length={}", f.windowLength);
  if (!call.isNone(4)) {
    TensorInfo window = call.rankedTensor(4);
    call.require(window.rank() == 1 && (!isKnownSize(window.sizes[0]) || window.sizes[0] == f.windowLength),
                 "expected a 1D window of size equal to win_length={}, but got a window of sizes {}", f.windowLength,
                 dimsText(window.sizes));
  }
  return f;
}

// The window in the middle of n_fft points; a rectangle for None.
Tensor fullWindow(const KernelCall& call, const Frames& f, DType dtype) {
  Tensor given = call.tensor(4);
  if (given.defined() && f.windowLength == f.points) return given;
  if (given.defined()) dtype = given.dtype();
  Tensor window = Tensor::zeros(dtype, Dims{f.points});
  Tensor inside = narrowed(window, 0, (f.points - f.windowLength) / 2, f.windowLength);
  given.defined() ? copyTensor(inside, given) : fillTensor(inside, 1);
  return window;
}

bool hasComplexWindow(const InferCall& call) { return !call.isNone(4) && isComplex(call.tensor(4).dtype); }

bool flagOr(const InferCall& call, size_t i, bool otherwise) { return call.isNone(i) ? otherwise : call.flag(i); }

// ---- stft ----

// Positions of what comes after the window, which differ: (center, pad_mode, normalized, onesided, return_complex) or
// the last three alone.
struct Options {
  bool center = false, normalized, onesided, asComplex;
  size_t mode = 0;
};

template <bool kCenter>
Options stftOptions(const InferCall& call) {
  size_t at = kCenter ? 7 : 5;
  bool complexFrames = isComplex(call.tensor(0).dtype) || hasComplexWindow(call);
  Options o{kCenter && call.flag(5), call.flag(at), flagOr(call, at + 1, !complexFrames),
            flagOr(call, at + 2, complexFrames), 6};
  call.require(!complexFrames || !o.onesided, "cannot have onesided output if window or input is complex");
  return o;
}

template <bool kCenter>
void inferStft(InferCall& call) {
  TensorInfo t = call.rankedTensor(0);
  call.require(t.rank() == 1 || t.rank() == 2, "expected a 1D or 2D tensor, but got {} dimensions", t.rank());
  Frames f = framesOf(call);
  Options o = stftOptions<kCenter>(call);
  ResultType type;
  type.add(t);
  if (!call.isNone(4)) type.add(call.tensor(4));
  const DType framed = toFloating(type.get());
  // Frames of half precision are for wider windows.
  call.require(framed != DType::Float16 && framed != DType::BFloat16, "not implemented for '{}'",
               framed == DType::Float16 ? "Half" : "BFloat16");
  DType dtype = complexOf(framed);

  Dims sizes(t.sizes.first(t.rank() - 1));
  sizes.push_back(o.onesided ? f.points / 2 + 1 : f.points);
  int64_t length = t.sizes.back(), frames = kUnknownSize;
  if (isKnownSize(length)) {
    int64_t padded;
    bool fits = !__builtin_add_overflow(length, o.center ? f.points / 2 * 2 : 0, &padded);
    call.require(fits && f.points <= padded, "expected 0 < n_fft <= {}, but got n_fft={}", fits ? padded : length,
                 f.points);
    frames = 1 + (padded - f.points) / f.hop;
  }
  if (!isKnownSize(length)) {
    SizeExpression padded = SizeExpression::ofSize(length) + (o.center ? f.points / 2 * 2 : 0);
    frames = (floorDiv(padded - f.points, f.hop) + 1).size();
  }
  sizes.push_back(frames);
  if (!o.asComplex) sizes.push_back(2);
  call.result(o.asComplex ? dtype : realPart(dtype), sizes);
}

template <bool kCenter>
void stftKernel(KernelCall& call) {
  InferCall infer(call.op(), call.arguments(), call.size());
  Frames f = framesOf(infer);
  Options o = stftOptions<kCenter>(infer);
  Tensor in = call.tensor(0);
  bool batched = in.rank() == 2;
  if (!batched) in = unsqueezed(in, 0);
  if (o.center) {
    IValue padded = invoke(call, "aten::pad",
                           {unsqueezed(in, 0), intList(Dims{f.points / 2, f.points / 2}), call.argument(o.mode), {}});
    in = squeezedAt(padded.toTensor(), 0);
  }
  Tensor frames = unfolded(in, 1, f.points, f.hop);
  if (!call.isNone(4) || f.windowLength < f.points)
    frames = invokeTensor(call, "aten::mul.Tensor", {frames, fullWindow(call, f, in.dtype())});
  IValue normalization = o.normalized ? 1 : 0, lastDim = intList(Dims{2});
  Tensor out = isComplex(frames.dtype())
                   ? invokeTensor(call, "aten::_fft_c2c", {frames, lastDim, normalization, true})
                   : invokeTensor(call, "aten::_fft_r2c", {frames, lastDim, normalization, o.onesided});
  out = transposed(out, 1, 2);
  if (!batched) out = squeezedAt(out, 0);
  call.setResult(o.asComplex ? IValue(out) : invoke(call, "aten::view_as_real", {out}));
}

// As the kernel does it.
template <bool kCenter>
void convertStft(ConvertCall& call) {
  InferCall infer(call.op(), call.arguments(), call.size());
  const Frames f = framesOf(infer);
  const Options o = stftOptions<kCenter>(infer);
  Tensor x = call.tensor(0);
  const bool isFloat = x.dtype() == DType::Float32 && (call.isNone(4) || call.tensor(4).dtype() == DType::Float32);
  if (!isFloat) return convertToKernel(call, "an argument is not float32");
  if (x.numel() == 0) return convertToKernel(call, "a tensor has no elements");
  if (call.isNetworkTensor(4)) return convertToKernel(call, "the window is an input");
  IValue in = call.compute("aten::reshape", {x, intList(Dims{1, -1, x.size(x.rank() - 1)})});
  if (o.center)
    in = call.compute("aten::pad", {in, intList(Dims{f.points / 2, f.points / 2}), call.argument(o.mode), IValue()});
  IValue frames = call.compute("aten::unfold", {in, int64_t{2}, f.points, f.hop});
  if (!call.isNone(4) || f.windowLength < f.points)
    frames = call.compute("aten::mul.Tensor", {frames, fullWindow(call, f, DType::Float32)});
  IValue out = call.compute("aten::_fft_r2c", {frames, intList(Dims{3}), o.normalized ? 1 : 0, o.onesided});
  out = call.compute("aten::squeeze.dim", {call.compute("aten::transpose.int", {out, 2, 3}), 0});
  if (x.rank() == 1) out = call.compute("aten::squeeze.dim", {out, 0});
  call.setResult(0, o.asComplex ? out : call.compute("aten::view_as_real", {out}));
}

template <bool kCenter>
void alignedStft(KernelCall& call) {
  size_t last = call.size() - 1;
  if (!call.isNone(last) && call.flag(last)) call.unsupported("stft with align_to_window is not supported");
  stftKernel<kCenter>(call);
}

template <bool kCenter>
void convertAlignedStft(ConvertCall& call) {
  const size_t last = call.size() - 1;
  if (!call.isNone(last) && call.flag(last)) return convertToKernel(call, "align_to_window is set");
  convertStft<kCenter>(call);
}

// ---- istft: (..., center, normalized, onesided, length, return_complex) at positions 5 to 9 ----

// Adds up frames that lie `hop` apart, each times the window, and divides by what the squares of the windows add up to.
template <class T, class W>
void overlapAdd(const Tensor& frames, const Tensor& windowTensor, const Tensor& out, int64_t hop, int64_t start) {
  int64_t batch = frames.size(0), count = frames.size(1), n = frames.size(2), length = out.size(1),
          total = n + hop * (count - 1);
  const W* window = windowTensor.data<W>();
  Tensor sumTensor = Tensor::empty(frames.dtype(), Dims{total}),
         weightTensor = Tensor::zeros(windowTensor.dtype(), Dims{total});
  T* sum = sumTensor.data<T>();
  W* weight = weightTensor.data<W>();
  for (int64_t k = 0; k < count; ++k)
    for (int64_t i = 0; i < n; ++i) weight[k * hop + i] += window[i] * window[i];
  int64_t used = std::min(length, total - start);
  for (int64_t i = 0; i < used; ++i)
    if (std::abs(weight[start + i]) < 1e-11)
      throw ExecutionError(ErrorKind::Model,
                           fmt::format("the windows do not overlap everywhere: their sum is 0 at element {}", i));
  for (int64_t b = 0; b < batch; ++b) {
    RunContext::current().checkInterrupt(count * n);
    std::fill(sum, sum + total, T());
    for (int64_t k = 0; k < count; ++k) {
      const T* frame = frames.data<T>() + (b * count + k) * n;
      for (int64_t i = 0; i < n; ++i) sum[k * hop + i] += frame[i] * window[i];
    }
    T* to = out.data<T>() + b * length;
    for (int64_t i = 0; i < used; ++i) to[i] = sum[start + i] / weight[start + i];
    std::fill(to + used, to + length, T());
  }
}

struct Inverse {
  Frames frames;
  bool batched, onesided;
  int64_t count;          // of frames
  int64_t start, length;  // of the result, within what the frames cover; the length may go beyond
};

Inverse inverseOf(const InferCall& call) {
  TensorInfo t = call.rankedTensor(0);
  size_t complexDims = isComplex(t.dtype) ? 0 : 1, rank = t.rank() - std::min(t.rank(), complexDims);
  call.require(rank == 2 || rank == 3, "expected a tensor of 2 or 3 dimensions of complex numbers, but got sizes {}",
               dimsText(t.sizes));
  for (int64_t s : t.sizes) {
    if (!isKnownSize(s)) throw InferCall::NotKnown{};
    call.require(s > 0, "the input tensor cannot be empty");
  }
  call.require(complexDims == 0 || t.sizes.back() == 2,
               "expected the last dimension to be of size 2, for real and imaginary parts, not {}", t.sizes.back());
  Inverse v{framesOf(call), rank == 3, false, t.sizes[rank - 1], 0, 0};
  const Frames& f = v.frames;
  call.require(f.hop <= f.windowLength, "expected hop_length <= win_length, but got hop_length={}, win_length={}",
               f.hop, f.windowLength);
  int64_t points = t.sizes[rank - 2];
  v.onesided = flagOr(call, 7, points != f.points);
  int64_t expected = v.onesided ? f.points / 2 + 1 : f.points;
  call.require(points == expected, "expected the frequency dimension to be of size {} for n_fft={}, but got {}",
               expected, f.points, points);
  call.require(!call.flag(9) || !v.onesided, "cannot have onesided output if window or input is complex");
  call.require(call.flag(9) || !hasComplexWindow(call), "complex windows are incompatible with return_complex=False");

  int64_t total;
  bool fits = !__builtin_mul_overflow(f.hop, v.count - 1, &total) && !__builtin_add_overflow(total, f.points, &total);
  call.require(fits, "the frames would cover too many elements");
  v.start = call.flag(5) ? f.points / 2 : 0;
  v.length = call.isNone(8) ? total - 2 * v.start : call.integer(8);
  call.require(v.length > 0 && total > v.start, "nothing would be left of the {} elements that the frames cover",
               total);
  return v;
}

void inferIstft(InferCall& call) {
  Inverse v = inverseOf(call);
  TensorInfo t = call.tensor(0);
  ResultType type;
  type.addNumber(DType::Bool);
  type.add({call.flag(9) ? complexOf(t.dtype) : realPart(t.dtype), true, t.sizes});
  if (!call.isNone(4)) type.add(call.tensor(4));
  Dims sizes;
  if (v.batched) sizes.push_back(t.sizes[0]);
  sizes.push_back(v.length);
  call.result(type.get(), sizes);
}

void istftKernel(KernelCall& call) {
  Inverse v = inverseOf(InferCall(call.op(), call.arguments(), call.size()));
  const Frames& f = v.frames;
  Tensor in = call.tensor(0);
  if (!isComplex(in.dtype())) in = invokeTensor(call, "aten::view_as_complex", {contiguous(in)});
  if (!v.batched) in = unsqueezed(in, 0);
  in = transposed(in, 1, 2);
  IValue normalization = call.flag(6) ? 1 : 2, lastDim = intList(Dims{2});
  Tensor frames;
  if (call.flag(9)) {
    frames = invokeTensor(call, "aten::_fft_c2c", {in, lastDim, normalization, false});
  } else {
    Tensor half = v.onesided ? in : narrowed(in, 2, 0, f.points / 2 + 1);
    frames = invokeTensor(call, "aten::_fft_c2r", {half, lastDim, normalization, f.points});
  }
  DType dtype = call.spec().dtype;
  Tensor window = convertTensor(contiguous(fullWindow(call, f, realPart(dtype))), dtype);
  Tensor out = Tensor::empty(dtype, Dims{in.size(0), v.length});
  frames = convertTensor(contiguous(frames), dtype);
  switch (dtype) {
    case DType::Float32:
      overlapAdd<float, float>(frames, window, out, f.hop, v.start);
      break;
    case DType::Float64:
      overlapAdd<double, double>(frames, window, out, f.hop, v.start);
      break;
    case DType::Complex64:
      overlapAdd<std::complex<float>, std::complex<float>>(frames, window, out, f.hop, v.start);
      break;
    case DType::Complex128:
      overlapAdd<std::complex<double>, std::complex<double>>(frames, window, out, f.hop, v.start);
      break;
    default:
      refuseDType(dtype);
  }
  call.setResult(v.batched ? out : squeezedAt(out, 0));
}

// What the squares of the windows add up to, as overlapAdd has it, in [start, start + used); nothing where they leave
// a gap.
Tensor overlappedWeights(const Tensor& windowTensor, const Inverse& v, int64_t used) {
  const int64_t n = v.frames.points, hop = v.frames.hop;
  Tensor weights = Tensor::zeros(DType::Float32, Dims{n + hop * (v.count - 1)});
  const float* window = windowTensor.data<float>();
  float* sum = weights.data<float>();
  for (int64_t k = 0; k < v.count; ++k)
    for (int64_t i = 0; i < n; ++i) sum[k * hop + i] += window[i] * window[i];
  for (int64_t i = v.start; i < v.start + used; ++i)
    if (std::abs(sum[i]) < 1e-11) return {};
  return contiguous(narrowed(weights, 0, v.start, used));
}

// [batch, count, n] frames that lie `hop` apart, added up: as many sums as a frame has pieces of that length, the last
// pieces first, which is the order of the frames.
IValue overlapped(const ConvertCall& call, IValue frames, const Inverse& v) {
  const int64_t n = v.frames.points, hop = v.frames.hop, pieces = (n + hop - 1) / hop;
  auto padded = [&](const IValue& x, const Dims& by) {
    return call.compute("aten::constant_pad_nd", {x, intList(by), 0.0});
  };
  if (pieces * hop != n) frames = padded(frames, Dims{0, pieces * hop - n});
  const IValue cut = call.compute("aten::reshape", {frames, intList(Dims{-1, v.count, pieces, hop})});
  IValue sum;
  for (int64_t i = pieces - 1; i >= 0; --i) {
    IValue piece = call.compute("aten::select.int", {cut, int64_t{2}, i});
    if (pieces > 1) piece = padded(piece, Dims{0, 0, i, pieces - 1 - i});
    sum = sum.isNone() ? piece : call.compute("aten::add.Tensor", {sum, piece, int64_t{1}});
  }
  return call.compute("aten::reshape", {sum, intList(Dims{-1, (v.count + pieces - 1) * hop})});
}

void convertIstft(ConvertCall& call) {
  const Inverse v = inverseOf(InferCall(call.op(), call.arguments(), call.size()));
  const Frames& f = v.frames;
  if (call.flag(9)) return convertToKernel(call, "the result is complex");
  if (call.isNetworkTensor(4)) return convertToKernel(call, "the window is an input");
  if (call.spec().dtype != DType::Float32) return convertToKernel(call, "the result is not float32");
  const Tensor window = contiguous(fullWindow(call, f, DType::Float32));
  const int64_t used = std::min(v.length, f.points + f.hop * (v.count - 1) - v.start);
  const Tensor weights = window.dtype() == DType::Float32 ? overlappedWeights(window, v, used) : Tensor();
  constexpr int64_t kMostPieces = 64;
  if (!weights.defined() || f.points > kMostPieces * f.hop)
    return convertToKernel(call, "the windows do not overlap everywhere, or too many do");

  IValue in = call.argument(0);
  if (!isComplex(call.tensor(0).dtype()))
    in = call.compute("aten::view_as_complex", {call.compute("aten::contiguous", {in, int64_t{0}})});
  if (!v.batched) in = call.compute("aten::unsqueeze", {in, int64_t{0}});
  in = call.compute("aten::transpose.int", {in, int64_t{1}, int64_t{2}});
  if (!v.onesided) in = call.compute("aten::slice.Tensor", {in, int64_t{2}, int64_t{0}, f.points / 2 + 1, int64_t{1}});
  const IValue normalization = call.flag(6) ? int64_t{1} : int64_t{2};
  IValue frames = call.compute("aten::_fft_c2r", {in, intList(Dims{2}), normalization, f.points});
  frames = call.compute("aten::mul.Tensor", {frames, window});
  IValue sum = overlapped(call, frames, v);
  sum = call.compute("aten::slice.Tensor", {sum, int64_t{1}, v.start, v.start + used, int64_t{1}});
  IValue out = call.compute("aten::div.Tensor", {sum, weights});
  if (used < v.length) out = call.compute("aten::constant_pad_nd", {out, intList(Dims{0, v.length - used}), 0.0});
  call.setResult(0, call.compute("aten::reshape", {out, intList(call.spec().sizes)}));
}

}  // namespace

void registerSpectrogramOps(OpRegistry& ops) {
  constexpr DTypeSet kTypes = kComplexTypes | DTypeSet{DType::Float32, DType::Float64};
  constexpr DTypeSet kFramed = kTypes | DTypeSet{DType::Float16, DType::BFloat16};
  constexpr TraitSet kColumns{Trait::OwnStrides};
  ops.add({.schema = "aten::stft",
           .infer = inferStft<false>,
           .kernel = stftKernel<false>,
           .convert = convertStft<false>,
           .dtypes = kFramed,
           .traits = kColumns});
  ops.add({.schema = "aten::stft.center",
           .infer = inferStft<true>,
           .kernel = stftKernel<true>,
           .convert = convertStft<true>,
           .dtypes = kFramed,
           .traits = kColumns});
  // PyTorch 2.
  ops.add({.schema = "aten::stft.aligned(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, "
                     "Tensor? window=None, bool normalized=False, bool? onesided=None, bool? return_complex=None, "
                     "bool? align_to_window=None) -> Tensor",
           .infer = inferStft<false>,
           .kernel = alignedStft<false>,
           .convert = convertAlignedStft<false>,
           .dtypes = kFramed,
           .traits = kColumns});
  ops.add({.schema = "aten::stft.center_aligned(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, "
                     "Tensor? window=None, bool center=True, str pad_mode=\"reflect\", bool normalized=False, "
                     "bool? onesided=None, bool? return_complex=None, bool? align_to_window=None) -> Tensor",
           .infer = inferStft<true>,
           .kernel = alignedStft<true>,
           .convert = convertAlignedStft<true>,
           .dtypes = kFramed,
           .traits = kColumns});
  ops.add(
      {.schema = "aten::istft", .infer = inferIstft, .kernel = istftKernel, .convert = convertIstft, .dtypes = kTypes});
  registerRecursiveFilterOps(ops);
}

}  // namespace tscompile
