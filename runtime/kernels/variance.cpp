#include "runtime/kernels/variance.h"

#include "runtime/call/thread_pool.h"

#include <algorithm>
#include <cmath>
#include <limits>

// Included once per instruction set, in this order.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/kernels/variance.cpp"
#include <hwy/foreach_target.h>
#include "runtime/kernels/vectors-inl.h"
#include "runtime/kernels/simd.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace tscompile {
namespace HWY_NAMESPACE {

// The sum of each(d, x) over a row.
template <class Each>
HWY_INLINE double sumInF64(const float* row, int64_t count, Each&& each) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<float, decltype(d)> df;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  auto at = [&](int64_t i) HWY_ATTR { return each(d, hn::PromoteTo(d, hn::LoadU(df, row + i))); };
  // Four at a time, as each waits for the one before.
  auto a = hn::Zero(d), b = a, e = a, f = a;
  int64_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    a = hn::Add(a, at(i)), b = hn::Add(b, at(i + lanes));
    e = hn::Add(e, at(i + 2 * lanes)), f = hn::Add(f, at(i + 3 * lanes));
  }
  for (; i + lanes <= count; i += lanes) a = hn::Add(a, at(i));
  double sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(a, b), hn::Add(e, f))));
  const hn::CappedTag<double, 1> one;
  for (; i < count; ++i) sum += hn::GetLane(each(one, hn::Set(one, static_cast<double>(row[i]))));
  return sum;
}

// The mean of a row, and the sum of squared deviations from it.
void momentsOfRow(const float* row, int64_t count, double* mean, double* squares) {
  const double middle = sumInF64(row, count, [](auto, auto x) HWY_ATTR { return x; }) / static_cast<double>(count);
  *mean = middle;
  *squares = sumInF64(row, count, [middle](auto d, auto x) HWY_ATTR {
    const auto apart = hn::Sub(x, hn::Set(d, middle));
    return hn::Mul(apart, apart);
  });
}

// The same of `width` columns of `count` rows, which are `stride` apart.
void momentsOfColumns(const float* rows, int64_t stride, int64_t count, int64_t width, double* means, double* squares) {
  std::fill_n(means, width, 0.0);
  std::fill_n(squares, width, 0.0);
  for (int64_t i = 0; i < count; ++i)
    for (int64_t c = 0; c < width; ++c) means[c] += static_cast<double>(rows[i * stride + c]);
  for (int64_t c = 0; c < width; ++c) means[c] /= static_cast<double>(count);
  for (int64_t i = 0; i < count; ++i)
    for (int64_t c = 0; c < width; ++c) {
      const double apart = static_cast<double>(rows[i * stride + c]) - means[c];
      squares[c] += apart * apart;
    }
}

}  // namespace HWY_NAMESPACE
}  // namespace tscompile
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace tscompile {

HWY_EXPORT(momentsOfRow);
HWY_EXPORT(momentsOfColumns);

void variances(const VarianceShape& shape, const float* input, float* output, float* means, int threads) {
  constexpr int64_t kColumns = 64;  // whose moments stay in the first level of cache
  const double divisor = std::max(static_cast<double>(shape.count) - static_cast<double>(shape.correction), 0.0);
  auto store = [&](int64_t at, double mean, double squares) {
    const double variance = squares / divisor;
    output[at] = static_cast<float>(shape.isRoot ? std::sqrt(variance) : variance);
    if (!means) return;
    // PyTorch updates a mean with each element: once it is infinite, its next difference to an element is NaN.
    const bool isLost = shape.count > 1 && !std::isfinite(mean);
    means[at] = isLost ? std::numeric_limits<float>::quiet_NaN() : static_cast<float>(mean);
  };
  const double cost = 5e-4 * static_cast<double>(shape.outer * shape.count) * static_cast<double>(shape.inner);
  if (cost < 20) threads = 1;  // microseconds
  if (shape.inner == 1) {
    const auto moments = TS_SIMD(momentsOfRow);
    const int64_t pieces = std::clamp<int64_t>(static_cast<int64_t>(cost / 10), 1, std::min<int64_t>(shape.outer, 64));
    return parallelFor(pieces, threads, [&](int64_t p) {
      const Piece piece = pieceOf(shape.outer, pieces, p);
      for (int64_t o = piece.begin; o < piece.end; ++o) {
        double mean, squares;
        moments(input + o * shape.count, shape.count, &mean, &squares);
        store(o, mean, squares);
      }
    });
  }
  const auto moments = TS_SIMD(momentsOfColumns);
  const int64_t blocks = (shape.inner + kColumns - 1) / kColumns;
  parallelFor(shape.outer * blocks, threads, [&](int64_t i) {
    const int64_t o = i / blocks, first = i % blocks * kColumns, width = std::min(kColumns, shape.inner - first);
    double middles[kColumns], squares[kColumns];
    moments(input + o * shape.count * shape.inner + first, shape.inner, shape.count, width, middles, squares);
    for (int64_t c = 0; c < width; ++c) store(o * shape.inner + first + c, middles[c], squares[c]);
  });
}

}  // namespace tscompile
#endif
