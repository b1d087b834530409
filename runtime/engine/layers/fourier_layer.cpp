#include "runtime/engine/layers/fourier_layer.h"

#include "runtime/call/thread_pool.h"
#include "runtime/engine/layers/complex_layer.h"
#include "runtime/engine/layers/operands.h"

#include <algorithm>
#include <utility>

namespace tscompile {

namespace {

// Zeros for what no element of `lines` lines is put into, of which `taken` are.
void clearRest(float* part, int64_t taken, int64_t all, int64_t lines) {
  std::fill(part + (lines == kFourierLines ? taken * kFourierLines : 0), part + all * kFourierLines, 0.0f);
}

}  // namespace

// Calls move(lines, the place of the first float, how many lines were before) for lines whose elements, `length` of
// which lie between those of an outer index and the next, are neighbours: `count` of each.
template <class Move>
void FourierLayer::overNeighbours(bool complex, int64_t length, int64_t first, int64_t lines, int64_t count,
                                  Move&& move) const {
  const int64_t unit = complex ? 2 : 1;
  for (int64_t l = 0; l < lines;) {
    const int64_t o = (first + l) / inner, i = (first + l) % inner;
    const int64_t some = inner == 1 ? lines - l : std::min(lines - l, inner - i);
    move(FourierLines{some, count, (inner == 1 ? length : inner) * unit, complex, inner != 1},
         (o * length * inner + i) * unit, l);
    l += some;
  }
}

// Elements of lines first, first + 1, ... side by side; of complex ones real and imaginary parts apart.
void FourierLayer::gather(const float* from, bool complex, int64_t given, int64_t first, int64_t lines, float* re,
                          float* im) const {
  const int64_t n = plan_.length(), half = n / 2 + 1;
  const int64_t taken = std::min(given, isHermitian ? half : n);
  clearRest(re, taken, n, lines);
  clearRest(im, complex ? taken : 0, n, lines);
  overNeighbours(complex, given, first, lines, taken, [&](const FourierLines& some, int64_t at, int64_t l) {
    gatherFourier(some, from + at, re + l, im + l);
  });
  if (isHermitian) mirror(re, im);
}

// The spectrum of real elements is real at its ends.
void FourierLayer::makeEndsReal(float* im) const {
  const int64_t n = plan_.length();
  const float none = plan_.isForward() ? 0.0f : -0.0f;
  std::fill_n(im, kFourierLines, none);
  if (n % 2 == 0) std::fill_n(im + n / 2 * kFourierLines, kFourierLines, none);
}

// It is its own mirror image to the bit, as transformedReal has it.
void FourierLayer::mirror(float* re, float* im) const {
  const int64_t n = plan_.length();
  makeEndsReal(im);
  for (int64_t k = n / 2 + 1; k < n; ++k)
    for (int64_t l = 0; l < kFourierLines; ++l) {
      re[k * kFourierLines + l] = re[(n - k) * kFourierLines + l];
      im[k * kFourierLines + l] = -im[(n - k) * kFourierLines + l];
    }
}

void FourierLayer::scatter(const float* re, const float* im, bool complex, int64_t made, int64_t first, int64_t lines,
                           float* to) const {
  overNeighbours(complex, made, first, lines, made, [&](const FourierLines& some, int64_t at, int64_t l) {
    scatterFourier(some, re + l, im + l, scale, to + at);
  });
}

void FourierLayer::runPairs(const float* from, int64_t given, int64_t made, int64_t first, int64_t lines,
                            float* scratch, float* to) const {
  const int64_t size = room() * kFourierLines;
  float *pairRe = scratch, *pairIm = pairRe + size, *re = pairIm + size, *im = re + size;
  auto transform = [&] {
    if (half_->run(pairRe, pairIm, re, im)) std::swap(pairRe, re), std::swap(pairIm, im);
  };
  if (isHermitian) {
    const int64_t taken = std::min(given, half_->length() + 1);
    for (float* part : {re, im}) clearRest(part, taken, half_->length() + 1, lines);
    gatherFourier({lines, taken, given * 2, true, false}, from + first * given * 2, re, im);
    makeEndsReal(im);
    plan_.pairsOfParts(re, im, pairRe, pairIm);
    transform();
    return scatterFourier({lines, half_->length(), made, true, false}, pairRe, pairIm, scale, to + first * made);
  }
  const int64_t taken = std::min(given, plan_.length()) / 2;
  for (float* part : {pairRe, pairIm}) clearRest(part, taken, half_->length(), lines);
  gatherFourier({lines, taken, given, true, false}, from + first * given, pairRe, pairIm);
  transform();
  plan_.partsOfPairs(pairRe, pairIm, re, im);
  made > half_->length() + 1 ? mirror(re, im) : makeEndsReal(im);
  scatter(re, im, true, made, first, lines, to);
}

int64_t FourierLayer::pieces() const {
  constexpr int64_t kMost = 16;
  return std::min(groups(), kMost);
}

size_t FourierLayer::workspace() const { return static_cast<size_t>(pieces() * pieceFloats()) * sizeof(float); }

void FourierLayer::run(Frame& frame) const {
  const NetTensor &in = frame.network()[inputs[0]], &out = frame.network()[outputs[0]];
  const int64_t lines = outer * inner, given = in.numel / lines, made = out.numel / lines, n = plan_.length();
  const auto* from = reinterpret_cast<const float*>(frame.raw(inputs[0]));
  auto* to = reinterpret_cast<float*>(frame.raw(outputs[0]));
  const int64_t count = pieces();
  constexpr int64_t kParallel = 16 << 10;  // elements
  parallelFor(count, lines * n < kParallel ? 1 : frame.threads(), [&](int64_t p) {
    auto* scratch = reinterpret_cast<float*>(frame.workspace()) + p * pieceFloats();
    const int64_t size = room() * kFourierLines;
    const Piece piece = pieceOf(groups(), count, p);
    for (int64_t g = piece.begin; g < piece.end; ++g) {
      const int64_t first = g * kFourierLines, some = std::min(kFourierLines, lines - first);
      if (half_) {
        runPairs(from, given, made, first, some, scratch, to);
        continue;
      }
      float* part = scratch;
      gather(from, in.dtype == DType::Complex64, given, first, some, part, part + size);
      if (plan_.run(part, part + size, part + 2 * size, part + 3 * size)) part += 2 * size;
      if (in.dtype != DType::Complex64 && out.dtype == DType::Complex64) mirror(part, part + size);
      scatter(part, part + size, out.dtype == DType::Complex64, made, first, some, to);
    }
  });
}

std::string_view fourierProblem(int64_t points, int64_t lines) {
  // Sixteen lines are computed in less time than kernels take for one while a cache holds them.
  constexpr int64_t kFewestLines = 3, kCached = int64_t{1} << 15;
  if (points < 1) return "there are no points";
  return lines < kFewestLines && points > kCached ? "it transforms few long lines" : std::string_view();
}

Tensor addFourier(ConvertCall& call, const Tensor& x, const FourierStep& step) {
  TensorId input = call.idOf(x);
  if (x.dtype() == DType::Complex64)
    input = contiguousComplex(call, input);
  else if (!call.network()[input].contiguous)
    input = addCopy(call, input);
  Dims sizes(x.sizes());
  sizes[static_cast<size_t>(step.dim)] = step.made;
  Tensor made = call.makeTensor(step.dtype, sizes);
  auto& layer = call.add<FourierLayer>(step.points, step.forward);
  for (int64_t d = 0; d < x.rank(); ++d)
    if (d != step.dim) (d < step.dim ? layer.outer : layer.inner) *= x.size(static_cast<int>(d));
  layer.isHermitian = step.dtype == DType::Float32;
  const bool isReal = x.dtype() == DType::Float32, isEven = step.points % 2 == 0;
  const int64_t given = std::min(x.size(static_cast<int>(step.dim)), step.points);
  if (isEven && layer.inner == 1 && (layer.isHermitian ? step.made == step.points : isReal && given % 2 == 0))
    layer.takePairs();
  layer.scale = static_cast<float>(step.scale);
  layer.inputs = {input};
  layer.outputs = {call.idOf(made)};
  return made;
}

}  // namespace tscompile
