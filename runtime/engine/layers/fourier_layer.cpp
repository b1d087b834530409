#include "runtime/engine/layers/fourier_layer.h"

#include "runtime/call/thread_pool.h"
#include "runtime/engine/layers/operands.h"

#include <algorithm>

namespace tscompile {

// Elements of lines first, first + 1, ... side by side; of complex ones real and imaginary parts apart.
void FourierLayer::gather(const float* from, bool complex, int64_t given, int64_t first, int64_t lines, float* re,
                          float* im) const {
  const int64_t n = plan_.length(), unit = complex ? 2 : 1, half = n / 2 + 1;
  const int64_t taken = std::min(given, isHermitian ? half : n);
  std::fill_n(re, n * kFourierLines, 0.0f);
  std::fill_n(im, n * kFourierLines, 0.0f);
  for (int64_t l = 0; l < lines; ++l) {
    const int64_t line = first + l;
    const float* x = from + (line / inner * given * inner + line % inner) * unit;
    for (int64_t k = 0; k < taken; ++k) {
      re[k * kFourierLines + l] = x[k * inner * unit];
      if (complex) im[k * kFourierLines + l] = x[k * inner * unit + 1];
    }
  }
  if (isHermitian) mirror(re, im);
}

// The spectrum of real elements is its own mirror image to the bit, as transformedReal has it.
void FourierLayer::mirror(float* re, float* im) const {
  const int64_t n = plan_.length();
  const float none = plan_.isForward() ? 0.0f : -0.0f;
  std::fill_n(im, kFourierLines, none);
  if (n % 2 == 0) std::fill_n(im + n / 2 * kFourierLines, kFourierLines, none);
  for (int64_t k = n / 2 + 1; k < n; ++k)
    for (int64_t l = 0; l < kFourierLines; ++l) {
      re[k * kFourierLines + l] = re[(n - k) * kFourierLines + l];
      im[k * kFourierLines + l] = -im[(n - k) * kFourierLines + l];
    }
}

void FourierLayer::scatter(const float* re, const float* im, bool complex, int64_t made, int64_t first, int64_t lines,
                           float* to) const {
  const int64_t unit = complex ? 2 : 1;
  for (int64_t l = 0; l < lines; ++l) {
    const int64_t line = first + l;
    float* y = to + (line / inner * made * inner + line % inner) * unit;
    for (int64_t k = 0; k < made; ++k) {
      y[k * inner * unit] = re[k * kFourierLines + l] * scale;
      if (complex) y[k * inner * unit + 1] = im[k * kFourierLines + l] * scale;
    }
  }
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
    const int64_t size = n * kFourierLines;
    const Piece piece = pieceOf(groups(), count, p);
    for (int64_t g = piece.begin; g < piece.end; ++g) {
      const int64_t first = g * kFourierLines, some = std::min(kFourierLines, lines - first);
      float* part = scratch;
      gather(from, in.dtype == DType::Complex64, given, first, some, part, part + size);
      if (plan_.run(part, part + size, part + 2 * size, part + 3 * size)) part += 2 * size;
      if (in.dtype != DType::Complex64 && out.dtype == DType::Complex64) mirror(part, part + size);
      scatter(part, part + size, out.dtype == DType::Complex64, made, first, some, to);
    }
  });
}

std::string_view fourierProblem(int64_t points, int64_t lines) {
  constexpr int64_t kFewestLines = 3;  // of sixteen that are computed
  if (!FourierPlan::accepts(points)) return "the number of points has a large prime factor";
  return lines < kFewestLines ? "it transforms few lines" : std::string_view();
}

namespace {

// Complex elements in row-major order: as pairs of f32.
TensorId contiguousComplex(ConvertCall& call, TensorId id) {
  Network& n = call.network();
  const NetTensor t = n[id];
  if (t.contiguous) return id;
  Dims sizes = t.sizes, strides = t.strides;
  for (int64_t& s : strides) s *= 2;
  sizes.push_back(2);
  strides.push_back(1);
  TensorId pairs = addCopy(call, n.addView(t.buffer, DType::Float32, sizes, strides, t.offset * 2));
  return n.addView(n[pairs].buffer, t.dtype, t.sizes, contiguousStrides(t.sizes), 0);
}

}  // namespace

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
  layer.scale = static_cast<float>(step.scale);
  layer.inputs = {input};
  layer.outputs = {call.idOf(made)};
  return made;
}

}  // namespace tscompile
