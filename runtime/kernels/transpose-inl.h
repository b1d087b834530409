// Rows and columns of float32 change places in registers. Included once per instruction set.
#if defined(TSCOMPILE_TRANSPOSE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TSCOMPILE_TRANSPOSE_INL_H_
#undef TSCOMPILE_TRANSPOSE_INL_H_
#else
#define TSCOMPILE_TRANSPOSE_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace tscompile {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Squares of four in each block of 128 bits: take(i, v) for i < 4, of which element 4 b + j is element 4 b + i of rj.
template <class D, class V, class Take>
HWY_INLINE void transposedBlocks(D d, V r0, V r1, V r2, V r3, Take&& take) {
  const hn::RepartitionToWide<D> wide;
  auto pairs = [&](auto a, auto b, auto&& interleave)
                   HWY_ATTR { return hn::BitCast(d, interleave(hn::BitCast(wide, a), hn::BitCast(wide, b))); };
  auto lower = [&](auto a, auto b) HWY_ATTR { return hn::InterleaveLower(wide, a, b); };
  auto upper = [&](auto a, auto b) HWY_ATTR { return hn::InterleaveUpper(wide, a, b); };
  const auto a = hn::InterleaveLower(d, r0, r1), b = hn::InterleaveUpper(d, r0, r1);
  const auto c = hn::InterleaveLower(d, r2, r3), e = hn::InterleaveUpper(d, r2, r3);
  take(0, pairs(a, c, lower)), take(1, pairs(a, c, upper));
  take(2, pairs(b, e, lower)), take(3, pairs(b, e, upper));
}

// Calls take(i, vector of the four rows[j][i]) for i < 4.
template <class Take>
HWY_INLINE void transposedSquare(const float* const (&rows)[4], Take&& take) {
  const hn::FixedTag<float, 4> d;
  transposedBlocks(d, hn::LoadU(d, rows[0]), hn::LoadU(d, rows[1]), hn::LoadU(d, rows[2]), hn::LoadU(d, rows[3]), take);
}

// Four rows of four columns: to[i * row + j] = from[i + j * column], which `change` sees as vectors of four.
template <class Change>
HWY_INLINE void transposeSquare(const float* from, int64_t column, float* to, int64_t row, Change&& change) {
  const hn::FixedTag<float, 4> d;
  transposedSquare({from, from + column, from + 2 * column, from + 3 * column},
                   [&](int64_t i, auto v) HWY_ATTR { hn::StoreU(change(v), d, to + i * row); });
}

// The same for i < k and j < n.
template <class Change>
HWY_INLINE void transpose(const float* from, int64_t column, int64_t k, int64_t n, float* to, int64_t row,
                          Change&& change) {
  const hn::FixedTag<float, 4> d;
  auto one = [&](int64_t i, int64_t j)
                 HWY_ATTR { to[i * row + j] = hn::GetLane(change(hn::Set(d, from[i + j * column]))); };
  const int64_t whole = n / 4 * 4;
  int64_t i = 0;
  for (; i + 4 <= k; i += 4) {
    for (int64_t j = 0; j < whole; j += 4)
      transposeSquare(from + i + j * column, column, to + i * row + j, row, change);
    for (int64_t j = whole; j < n; ++j)
      for (int64_t r = i; r < i + 4; ++r) one(r, j);
  }
  for (; i < k; ++i)
    for (int64_t j = 0; j < n; ++j) one(i, j);
}

inline void transpose(const float* from, int64_t column, int64_t k, int64_t n, float* to, int64_t row) {
  transpose(from, column, k, n, to, row, [](auto v) HWY_ATTR { return v; });
}

}  // namespace HWY_NAMESPACE
}  // namespace tscompile
HWY_AFTER_NAMESPACE();

#endif
