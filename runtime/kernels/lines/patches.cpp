#include "runtime/kernels/lines/patches.h"

#include <algorithm>

#if defined(__x86_64__)

#include <immintrin.h>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw"))), apply_to = function)
#else
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw")
#endif

namespace tscompile {
namespace {

// One line of each patch. Masks and distances stay in registers.
template <size_t kLoads>
void fillLines(const std::byte* from, int64_t distance, int64_t count, const PatchLoad* loads, CacheLine* to,
               int64_t toDistance) {
  for (int64_t i = 0; i < count; ++i, from += distance, to += toDistance) {
    __m512i bytes = _mm512_setzero_si512();
#pragma GCC unroll 4
    for (size_t k = 0; k < kLoads; ++k) bytes = _mm512_mask_loadu_epi8(bytes, loads[k].mask, from + loads[k].from);
    _mm512_store_si512(to, bytes);
  }
}

}  // namespace

void patchesToLines(const std::byte* from, int64_t distance, int64_t count,
                    const std::vector<std::vector<PatchLoad>>& loads, CacheLine* to) {
  const auto lines = static_cast<int64_t>(loads.size());
  for (const std::vector<PatchLoad>& line : loads) {
    if (line.size() == 1) {
      fillLines<1>(from, distance, count, line.data(), to, lines);
    } else if (line.size() == 2) {
      fillLines<2>(from, distance, count, line.data(), to, lines);
    } else if (line.size() == 3) {
      fillLines<3>(from, distance, count, line.data(), to, lines);
    } else {
      for (int64_t i = 0; i < count; ++i) {
        __m512i bytes = _mm512_setzero_si512();
        for (const PatchLoad& load : line)
          bytes = _mm512_mask_loadu_epi8(bytes, load.mask, from + i * distance + load.from);
        _mm512_store_si512(to + i * lines, bytes);
      }
    }
    ++to;
  }
}

}  // namespace tscompile

#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#pragma GCC diagnostic pop

#else

namespace tscompile {

void patchesToLines(const std::byte*, int64_t, int64_t, const std::vector<std::vector<PatchLoad>>&, CacheLine*) {}

}  // namespace tscompile

#endif

namespace tscompile {

std::vector<std::vector<PatchLoad>> patchLoads(const LinePatch& patch, int64_t lines) {
  constexpr auto kLine = static_cast<int64_t>(sizeof(CacheLine));
  std::vector<std::vector<PatchLoad>> loads(static_cast<size_t>(lines));
  for (int64_t i = 0; i < patch.rows * patch.columns; ++i) {
    const int64_t begin = i * patch.bytes, end = begin + patch.bytes;
    const int64_t from = i / patch.columns * patch.rowDistance + i % patch.columns * patch.columnDistance;
    for (int64_t line = begin / kLine; line * kLine < end; ++line) {
      const int64_t start = line * kLine, low = std::max(begin, start) - start, high = std::min(end - start, kLine);
      const uint64_t mask = (high == kLine ? ~uint64_t{0} : (uint64_t{1} << high) - 1) & ~((uint64_t{1} << low) - 1);
      loads[static_cast<size_t>(line)].push_back({from + start - begin, mask});
    }
  }
  return loads;
}

}  // namespace tscompile
