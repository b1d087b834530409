#include "runtime/trtllm/builtin/float_rows.h"

#include <type_traits>

// Included once per instruction set, in this order.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/trtllm/builtin/float_rows.cpp"
#include <hwy/foreach_target.h>
#include "runtime/kernels/rows-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace tscompile {
namespace HWY_NAMESPACE {

// kRows x kColumns sums, each with one vector of partial sums: the same for every size of tiles.
template <int kRows, int kColumns>
HWY_INLINE void productTile(const float* const* rows, const float* weights, int64_t weightStride, int64_t k, float* out,
                            int64_t outStride) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  hn::Vec<decltype(d)> sums[kRows][kColumns], x[kRows];
  for (auto& row : sums)
    for (auto& s : row) s = hn::Zero(d);
  int64_t i = 0;
  for (; i + lanes <= k; i += lanes) {
    for (int r = 0; r < kRows; ++r) x[r] = hn::LoadU(d, rows[r] + i);
    for (int c = 0; c < kColumns; ++c) {
      auto w = hn::LoadU(d, weights + c * weightStride + i);
      for (int r = 0; r < kRows; ++r) sums[r][c] = hn::MulAdd(x[r], w, sums[r][c]);
    }
  }
  if (i < k) {
    auto mask = hn::FirstN(d, static_cast<size_t>(k - i));
    for (int r = 0; r < kRows; ++r) x[r] = hn::MaskedLoad(mask, d, rows[r] + i);
    for (int c = 0; c < kColumns; ++c) {
      auto w = hn::MaskedLoad(mask, d, weights + c * weightStride + i);
      for (int r = 0; r < kRows; ++r) sums[r][c] = hn::MulAdd(x[r], w, sums[r][c]);
    }
  }
  for (int r = 0; r < kRows; ++r)
    for (int c = 0; c < kColumns; ++c) out[r * outStride + c] = hn::GetLane(hn::SumOfLanes(d, sums[r][c]));
}

template <int kRows>
HWY_INLINE void productBand(const float* const* rows, const float* weights, int64_t n, int64_t weightStride, int64_t k,
                            float* out, int64_t outStride) {
  int64_t c = 0;
  for (; c + 4 <= n; c += 4)
    productTile<kRows, 4>(rows, weights + c * weightStride, weightStride, k, out + c, outStride);
  for (; c < n; ++c) productTile<kRows, 1>(rows, weights + c * weightStride, weightStride, k, out + c, outStride);
}

void productKernel(const float* const* rows, int64_t m, const float* weights, int64_t n, int64_t weightStride,
                   int64_t k, float* out, int64_t outStride) {
  int64_t r = 0;
  for (; r + 3 <= m; r += 3) productBand<3>(rows + r, weights, n, weightStride, k, out + r * outStride, outStride);
  for (; r < m; ++r) productBand<1>(rows + r, weights, n, weightStride, k, out + r * outStride, outStride);
}

void activateKernel(Activation activation, const float* in, float* out, int64_t count) {
  auto map = [&](auto f) HWY_ATTR { mapRow(in, out, count, [&](auto d, auto x, auto&&) HWY_ATTR { return f(d, x); }); };
  switch (activation) {
    case Activation::Relu:
      return map([](auto d, auto x) HWY_ATTR { return atLeast(d, 0.0f, x); });
    case Activation::Gelu:
      return map([](auto d, auto x) HWY_ATTR { return gelu(d, x); });
    case Activation::GeluTanh:
      return map([](auto d, auto x) HWY_ATTR { return geluTanh(d, x); });
    case Activation::Silu:
      return map([](auto d, auto x) HWY_ATTR { return hn::Mul(x, sigmoid(d, x)); });
    case Activation::Softplus:
      return map([](auto d, auto x) HWY_ATTR { return softplus(d, x); });
    default:
      return map([](auto, auto x) HWY_ATTR { return x; });
  }
}

void scanKernel(const ScanStep& s) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < s.width; i += lanes) {
    const auto dt = hn::LoadU(d, s.dt + i), dx = hn::LoadU(d, s.dx + i);
    auto decay = hn::Zero(d), y = hn::Zero(d);
    if (s.sameDecay) decay = exp(d, hn::Mul(dt, hn::LoadU(d, s.a + i)));
    for (int64_t n = 0; n < s.states; ++n) {
      if (!s.sameDecay) decay = exp(d, hn::Mul(dt, hn::LoadU(d, s.a + n * s.width + i)));
      float* at = s.h + n * s.width + i;
      auto h = hn::MulAdd(decay, hn::LoadU(d, at), hn::Mul(hn::Set(d, s.b[n]), dx));
      hn::StoreU(h, d, at);
      y = hn::MulAdd(hn::Set(d, s.c[n]), h, y);
    }
    hn::StoreU(y, d, s.y + i);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tscompile
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tscompile {

void productOfRows(const float* const* rows, int64_t m, const float* weights, int64_t n, int64_t weightStride,
                   int64_t k, float* out, int64_t outStride) {
  TS_SIMD(productKernel)(rows, m, weights, n, weightStride, k, out, outStride);
}

void activateRow(Activation activation, const float* in, float* out, int64_t count) {
  TS_SIMD(activateKernel)(activation, in, out, count);
}

void scanStep(const ScanStep& step) { TS_SIMD(scanKernel)(step); }

}  // namespace tscompile
#endif  // HWY_ONCE
