#include "runtime/reference/loops/strided_copy.h"

#include "runtime/call/run_context.h"
#include "runtime/kernels/spaced.h"

#include <algorithm>
#include <cstring>

namespace tscompile {
namespace {

struct Axis {
  int64_t size, to, from;
};
using Axes = SmallVector<Axis, 6>;

// The axes that matter, outermost first in the memory that is written; those that continue each other are one.
Axes makeAxes(DimSpan sizes, DimSpan toStrides, DimSpan fromStrides) {
  Axes axes;
  for (size_t d = 0; d < sizes.size(); ++d)
    if (sizes[d] != 1) axes.push_back({sizes[d], toStrides[d], fromStrides[d]});
  std::stable_sort(axes.begin(), axes.end(), [](const Axis& a, const Axis& b) {
    return a.to != b.to ? std::abs(a.to) > std::abs(b.to) : std::abs(a.from) > std::abs(b.from);
  });
  Axes merged;
  for (const Axis& a : axes) {
    if (!merged.empty() && merged.back().to == a.to * a.size && merged.back().from == a.from * a.size)
      merged.back() = {merged.back().size * a.size, a.to, a.from};
    else
      merged.push_back(a);
  }
  return merged;
}

template <class T>
T loadElement(const std::byte* p) {
  T v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

template <class T>
void copyRow(const Axis& row, std::byte* to, const std::byte* from) {
  constexpr auto kItem = static_cast<int64_t>(sizeof(T));
  if (row.to == kItem && row.from == kItem) {
    std::memcpy(to, from, static_cast<size_t>(row.size) * sizeof(T));
  } else if (row.to == kItem && row.from == 0) {
    std::fill_n(reinterpret_cast<T*>(to), row.size, loadElement<T>(from));
  } else if (row.to == kItem && row.from % kItem == 0) {
    bringTogether<T>(from, row.from / kItem, row.size, to);
  } else {
    for (int64_t i = 0; i < row.size; ++i) std::memcpy(to + i * row.to, from + i * row.from, sizeof(T));
  }
}

// `along` is contiguous where it is written, `across` where it is read. A block of a few cache lines is read row by row
// and written column by column, so that no line is fetched twice.
template <class T>
void copyTurned(const Axis& across, const Axis& along, std::byte* to, const std::byte* from) {
  constexpr int64_t kBlock = std::max<int64_t>(8, 64 / static_cast<int64_t>(sizeof(T)));
  T block[kBlock][kBlock], line[kBlock];
  for (int64_t i = 0; i < across.size; i += kBlock) {
    int64_t rows = std::min(kBlock, across.size - i);
    for (int64_t j = 0; j < along.size; j += kBlock) {
      int64_t columns = std::min(kBlock, along.size - j);
      const std::byte* read = from + i * across.from + j * along.from;
      std::byte* write = to + i * across.to + j * along.to;
      if (rows == kBlock && columns == kBlock) {
        for (int64_t c = 0; c < kBlock; ++c) std::memcpy(block[c], read + c * along.from, sizeof block[c]);
        for (int64_t r = 0; r < kBlock; ++r) {
          for (int64_t c = 0; c < kBlock; ++c) line[c] = block[c][r];
          std::memcpy(write + r * across.to, line, sizeof line);
        }
        continue;
      }
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < columns; ++c)
          std::memcpy(write + r * across.to + c * along.to, read + r * across.from + c * along.from, sizeof(T));
    }
  }
}

template <class T>
void copyAxes(Axes axes, std::byte* to, const std::byte* from) {
  constexpr auto kItem = static_cast<int64_t>(sizeof(T));
  // The two innermost axes are one step; a turned one brings the axis next to it along which memory is read.
  bool turned = false;
  if (axes.size() > 1 && axes.back().to == kItem && axes.back().from != kItem && axes.back().from != 0) {
    auto across = std::find_if(axes.begin(), axes.end() - 1, [&](const Axis& a) { return a.from == kItem; });
    if (across != axes.end() - 1) {
      std::rotate(across, across + 1, axes.end() - 1);
      turned = true;
    }
  }
  while (axes.size() < 2) axes.insert(0, {1, 0, 0});
  const Axis& outer = axes[axes.size() - 2];
  const Axis& inner = axes[axes.size() - 1];
  size_t loops = axes.size() - 2;
  int64_t index[kMaxRank] = {};
  RunContext& context = RunContext::current();
  while (true) {
    if (turned)
      copyTurned<T>(outer, inner, to, from);
    else
      for (int64_t i = 0; i < outer.size; ++i) copyRow<T>(inner, to + i * outer.to, from + i * outer.from);
    context.checkInterrupt(outer.size * inner.size);
    size_t d = loops;
    for (; d > 0; --d) {
      const Axis& a = axes[d - 1];
      to += a.to;
      from += a.from;
      if (++index[d - 1] < a.size) break;
      to -= a.to * a.size;
      from -= a.from * a.size;
      index[d - 1] = 0;
    }
    if (d == 0) return;
  }
}

struct Pair {
  uint64_t low, high;
};

}  // namespace

void copyStrided(size_t item, DimSpan sizes, std::byte* to, DimSpan toStrides, const std::byte* from,
                 DimSpan fromStrides) {
  for (int64_t s : sizes)
    if (s == 0) return;
  Axes axes = makeAxes(sizes, toStrides, fromStrides);
  switch (item) {
    case 1:
      return copyAxes<uint8_t>(std::move(axes), to, from);
    case 2:
      return copyAxes<uint16_t>(std::move(axes), to, from);
    case 4:
      return copyAxes<uint32_t>(std::move(axes), to, from);
    case 8:
      return copyAxes<uint64_t>(std::move(axes), to, from);
    case 16:
      return copyAxes<Pair>(std::move(axes), to, from);
    default:
      TS_UNREACHABLE();
  }
}

}  // namespace tscompile
