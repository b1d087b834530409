#include "runtime/kernels/lanes.h"

#include "runtime/call/thread_pool.h"
#include "runtime/kernels/reductions.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>
#include <utility>

namespace tscompile {
namespace {

constexpr int64_t kLaneBlock = 1024;     // elements whose extreme is found first
constexpr int64_t kTopBlock = 128;       // the same for the first few of a lane
constexpr int64_t kParallel = 32 << 10;  // elements; less is done by one thread
constexpr int64_t kMostPieces = 16;      // each with a workspace of its own
constexpr int64_t kMostDistinct = 32;    // first of a lane that are kept in order while it is read
constexpr int64_t kColumns = 256;        // neighbours that are taken together

int64_t blocksOf(int64_t count) { return (count + kLaneBlock - 1) / kLaneBlock; }
int64_t topBlocksOf(int64_t count) { return count / kTopBlock; }
int64_t piecesOf(const LaneShape& s) { return std::clamp<int64_t>(s.lanes(), 1, kMostPieces); }
int threadsFor(const LaneShape& s, int threads) { return s.lanes() * s.count < kParallel ? 1 : threads; }
size_t aligned(size_t bytes) { return (bytes + 63) / 64 * 64; }

// body(lane, workspace of the piece) for each lane.
template <class Body>
void forEachLaneOf(const LaneShape& s, size_t bytes, void* workspace, int threads, Body&& body) {
  const int64_t pieces = piecesOf(s);
  parallelFor(pieces, threadsFor(s, threads), [&](int64_t p) {
    const Piece piece = pieceOf(s.lanes(), pieces, p);
    std::byte* own = static_cast<std::byte*>(workspace) + static_cast<size_t>(p) * bytes;
    for (int64_t lane = piece.begin; lane < piece.end; ++lane) body(lane, own);
  });
}

// Where a lane begins in a tensor with `count` elements along the dimension.
int64_t startOf(const LaneShape& s, int64_t lane, int64_t count) {
  return lane / s.inner * count * s.inner + lane % s.inner;
}

// The lane as a run: where it lies, or in `buffer`.
const float* runOf(const LaneShape& s, const float* in, int64_t lane, float* buffer) {
  const float* from = in + startOf(s, lane, s.count);
  if (s.inner == 1) return from;
  for (int64_t i = 0; i < s.count; ++i) buffer[i] = from[i * s.inner];
  return buffer;
}

// Of each whole block.
void bestOfBlocks(RowReduction kind, const float* run, int64_t n, int64_t block, float* best) {
  if (n >= block) reduceMiddle(kind, n / block, block, 1, 1, run, best, 1);
}

// ---- running totals ----

// Columns [begin, end) of one [count][inner].
template <bool kProduct, class Acc, class In, class Out>
void totalColumns(const LaneShape& s, int64_t begin, int64_t end, const In* in, Out* out) {
  auto join = [](Acc acc, In x) { return kProduct ? acc * static_cast<Acc>(x) : acc + static_cast<Acc>(x); };
  if (s.inner == 1) {
    Acc acc = kProduct;
    for (int64_t i = 0; i < s.count; ++i) out[i] = static_cast<Out>(acc = join(acc, in[i]));
    return;
  }
  Acc acc[kColumns];
  std::fill_n(acc, end - begin, static_cast<Acc>(kProduct));
  for (int64_t i = 0; i < s.count; ++i)
    for (int64_t c = begin; c < end; ++c)
      out[i * s.inner + c] = static_cast<Out>(acc[c - begin] = join(acc[c - begin], in[i * s.inner + c]));
}

// ---- the first of each lane ----

// A key in the order of the values, and a place.
uint64_t keyed(float v, bool isDescending, int64_t place) {
  const auto bits = std::bit_cast<uint32_t>(v + 0.0f);  // -0 becomes 0
  constexpr uint32_t kSign = uint32_t{1} << 31;
  const uint32_t key = v != v ? ~uint32_t{0} : bits & kSign ? ~bits : bits | kSign;
  return uint64_t{isDescending ? ~key : key} << 32 | static_cast<uint64_t>(place);
}

struct Item {
  float value;
  int32_t place;
};

template <bool kLargest>
bool before(const Item& a, const Item& b) {
  if (kLargest) return (a.value != a.value && b.value == b.value) || a.value > b.value;
  return (a.value == a.value && b.value != b.value) || a.value < b.value;
}

// Puts `item` in the place of a heap's top, by the steps of libstdc++'s std::partial_sort: equal values come out in its
// order.
template <bool kLargest>
void replaceTop(Item* heap, int64_t k, Item item) {
  int64_t hole = 0, child = 0;
  while (child < (k - 1) / 2) {
    child = 2 * (child + 1);
    if (before<kLargest>(heap[child], heap[child - 1])) --child;
    heap[hole] = heap[child];
    hole = child;
  }
  if (k % 2 == 0 && child == (k - 2) / 2) {
    child = 2 * (child + 1);
    heap[hole] = heap[child - 1];
    hole = child - 1;
  }
  for (int64_t parent = (hole - 1) / 2; hole > 0 && before<kLargest>(heap[parent], item); parent = (hole - 1) / 2) {
    heap[hole] = heap[parent];
    hole = parent;
  }
  heap[hole] = item;
}

// The same as std::partial_sort of all of them, which only looks at values that beat the worst of the first k so far:
// blocks without such a value are passed over.
template <bool kLargest>
void selectFew(const float* run, int64_t n, int64_t k, Item* heap, float* best) {
  for (int64_t i = 0; i < k; ++i) heap[i] = {run[i], static_cast<int32_t>(i)};
  std::make_heap(heap, heap + k, before<kLargest>);
  const int64_t whole = topBlocksOf(n);
  bestOfBlocks(kLargest ? RowReduction::Max : RowReduction::Min, run, n, kTopBlock, best);
  for (int64_t b = 0, i = k; i < n; ++b) {
    const int64_t end = std::min(n, (b + 1) * kTopBlock);
    // Of a block with NaN the best is NaN, whatever that is worth.
    const bool counts = b >= whole || best[b] != best[b] || before<kLargest>({best[b], 0}, heap[0]);
    for (; counts && i < end; ++i)
      if (Item item{run[i], static_cast<int32_t>(i)}; before<kLargest>(item, heap[0]))
        replaceTop<kLargest>(heap, k, item);
    i = std::max(i, end);
  }
  std::sort_heap(heap, heap + k, before<kLargest>);
}

template <bool kLargest>
void selectMany(const float* run, int64_t n, int64_t k, bool isSorted, Item* items) {
  if (isSorted && k > 0 && k < n && k <= kMostDistinct && selectDistinct<kLargest>(run, n, k, items)) return;
  for (int64_t i = 0; i < n; ++i) items[i] = {run[i], static_cast<int32_t>(i)};
  std::nth_element(items, items + k - 1, items + n, before<kLargest>);
  if (isSorted) std::sort(items, items + k - 1, before<kLargest>);
}

// The first of a lane in order, if no two of them and the next one are equal: then there is one answer, whoever finds
// it. `best` is the k + 1 first so far.
template <bool kLargest>
bool selectDistinct(const float* run, int64_t n, int64_t k, Item* items) {
  constexpr int64_t kStep = 16;  // values that are passed over together
  uint64_t best[kMostDistinct + 2];
  std::fill_n(best, k + 2, ~uint64_t{0});
  best[0] = 0;  // not after any item
  float worst = 0;
  // Also true of NaN, which `keyed` puts in its place.
  auto counts = [&](float v) { return kLargest ? !(v <= worst) : !(v >= worst); };
  for (int64_t i = 0; i < n; i += kStep) {
    const int64_t end = std::min(n, i + kStep);
    int any = i <= k;
    for (int64_t j = i; j < end; ++j) any |= counts(run[j]);
    if (!any) continue;
    for (int64_t j = i; j < end; ++j) {
      if (j > k && !counts(run[j])) continue;
      const uint64_t item = keyed(run[j], kLargest, j);
      if (item >= best[k + 1]) continue;
      int64_t at = k + 1;
      for (; best[at - 1] > item; --at) best[at] = best[at - 1];
      best[at] = item;
      if (j >= k) worst = run[best[k + 1] & UINT32_MAX];
    }
  }
  for (int64_t i = 1; i <= k; ++i) {
    if (best[i] >> 32 == best[i + 1] >> 32) return false;
    const auto place = static_cast<int32_t>(best[i] & UINT32_MAX);
    items[i - 1] = {run[place], place};
  }
  return true;
}

bool isFew(int64_t k, int64_t count) { return k * 64 <= count; }

size_t bytesToSelect(const LaneShape& s, int64_t k) {
  const int64_t items = isFew(k, s.count) ? k : s.count;
  return aligned(static_cast<size_t>(items) * sizeof(Item)) +
         aligned(static_cast<size_t>(topBlocksOf(s.count) + (s.inner == 1 ? 0 : s.count)) * sizeof(float));
}

// ---- orders ----

// By the keys, from the lowest byte to the highest; where the result is: `items` or `other`.
uint64_t* radixSorted(uint64_t* items, uint64_t* other, int64_t n) {
  constexpr int kBytes = 4, kShift = 32;
  uint32_t counts[kBytes][256] = {};
  for (int64_t i = 0; i < n; ++i)
    for (int b = 0; b < kBytes; ++b) ++counts[b][items[i] >> (kShift + 8 * b) & 0xff];
  for (int b = 0; b < kBytes; ++b) {
    if (counts[b][items[0] >> (kShift + 8 * b) & 0xff] == n) continue;  // all share this byte
    uint32_t start = 0;
    for (uint32_t& count : counts[b]) start += std::exchange(count, start);
    for (int64_t i = 0; i < n; ++i) other[counts[b][items[i] >> (kShift + 8 * b) & 0xff]++] = items[i];
    std::swap(items, other);
  }
  return items;
}

bool hasEqualKeys(const uint64_t* sorted, int64_t n) {
  return std::adjacent_find(sorted, sorted + n, [](uint64_t a, uint64_t b) { return a >> 32 == b >> 32; }) !=
         sorted + n;
}

}  // namespace

template <class In, class Out>
void runningTotal(bool isProduct, const LaneShape& s, const In* in, Out* out, int threads) {
  using Acc = std::conditional_t<std::is_same_v<Out, float>, double, uint64_t>;
  const int64_t columns = (s.inner + kColumns - 1) / kColumns, all = s.outer * columns;
  const int64_t pieces = std::clamp<int64_t>(all, 1, kMostPieces);
  parallelFor(pieces, threadsFor(s, threads), [&](int64_t p) {
    const Piece piece = pieceOf(all, pieces, p);
    for (int64_t i = piece.begin; i < piece.end; ++i) {
      const int64_t at = i / columns * s.count * s.inner;
      const Piece part = pieceOf(s.inner, columns, i % columns);
      isProduct ? totalColumns<true, Acc>(s, part.begin, part.end, in + at, out + at)
                : totalColumns<false, Acc>(s, part.begin, part.end, in + at, out + at);
    }
  });
}
template void runningTotal(bool, const LaneShape&, const float*, float*, int);
template void runningTotal(bool, const LaneShape&, const int64_t*, int64_t*, int);
template void runningTotal(bool, const LaneShape&, const int32_t*, int64_t*, int);
template void runningTotal(bool, const LaneShape&, const bool*, int64_t*, int);

size_t extremesWorkspace(const LaneShape& s) {
  return s.inner > 1
             ? 0
             : static_cast<size_t>(piecesOf(s)) * aligned(static_cast<size_t>(blocksOf(s.count)) * sizeof(float));
}

void extremes(bool isLargest, const LaneShape& s, const float* in, float* values, int64_t* places, void* workspace,
              int threads) {
  if (s.inner > 1) {
    const int64_t parts = (s.inner + kColumns - 1) / kColumns;
    return parallelFor(s.outer * parts, threadsFor(s, threads), [&](int64_t i) {
      const Piece part = pieceOf(s.inner, parts, i % parts);
      const int64_t from = i / parts * s.count * s.inner, to = i / parts * s.inner + part.begin;
      const int64_t n = part.end - part.begin;
      float best[kColumns];
      int32_t place[kColumns];
      extremesOfColumns(isLargest, in + from + part.begin, s.inner, s.count, n, best, place);
      std::copy_n(place, n, places + to);
      if (values) std::copy_n(best, n, values + to);
    });
  }
  // Long ones block by block, so that the extreme is looked for where it was just read.
  const int64_t blocks = blocksOf(s.count);
  forEachLaneOf(
      s, aligned(static_cast<size_t>(blocks) * sizeof(float)), workspace, threads, [&](int64_t lane, std::byte* own) {
        const float* run = in + lane * s.count;
        int64_t place = 0;
        if (blocks > 1) {
          auto* best = reinterpret_cast<float*>(own);
          const int64_t whole = s.count / kLaneBlock;
          const RowReduction kind = isLargest ? RowReduction::Max : RowReduction::Min;
          bestOfBlocks(kind, run, s.count, kLaneBlock, best);
          if (whole < blocks)
            reduceMiddle(kind, 1, s.count - whole * kLaneBlock, 1, 1, run + whole * kLaneBlock, best + whole, 1);
          place = extremeOfRow(isLargest, best, blocks) * kLaneBlock;
        }
        place += extremeOfRow(isLargest, run + place, std::min(kLaneBlock, s.count - place));
        places[lane] = place;
        if (values) values[lane] = run[place];
      });
}

size_t firstOfLanesWorkspace(const LaneShape& s, int64_t k) {
  return static_cast<size_t>(piecesOf(s)) * bytesToSelect(s, k);
}

void firstOfLanes(bool isLargest, bool isSorted, int64_t k, const LaneShape& s, const float* in, float* values,
                  int64_t* places, void* workspace, int threads) {
  const bool few = isFew(k, s.count);
  const size_t items = aligned(static_cast<size_t>(few ? k : s.count) * sizeof(Item));
  forEachLaneOf(s, bytesToSelect(s, k), workspace, threads, [&](int64_t lane, std::byte* own) {
    auto* first = reinterpret_cast<Item*>(own);
    auto* best = reinterpret_cast<float*>(own + items);
    const float* run = runOf(s, in, lane, best + topBlocksOf(s.count));
    if (few)
      isLargest ? selectFew<true>(run, s.count, k, first, best) : selectFew<false>(run, s.count, k, first, best);
    else
      isLargest ? selectMany<true>(run, s.count, k, isSorted, first)
                : selectMany<false>(run, s.count, k, isSorted, first);
    const int64_t to = startOf(s, lane, k);
    for (int64_t i = 0; i < k; ++i) {
      values[to + i * s.inner] = first[i].value;
      places[to + i * s.inner] = first[i].place;
    }
  });
}

size_t sortedLanesWorkspace(const LaneShape& s) {
  return static_cast<size_t>(piecesOf(s)) * aligned(static_cast<size_t>(2 * s.count) * sizeof(uint64_t));
}

void sortedLanes(bool isDescending, bool isStable, const LaneShape& s, const float* in, float* values, int64_t* places,
                 void* workspace, int threads) {
  constexpr int64_t kRadixFrom = 256;  // shorter lanes are sorted by comparing
  const size_t bytes = aligned(static_cast<size_t>(2 * s.count) * sizeof(uint64_t));
  forEachLaneOf(s, bytes, workspace, threads, [&](int64_t lane, std::byte* own) {
    auto* items = reinterpret_cast<uint64_t*>(own);
    const int64_t start = startOf(s, lane, s.count);
    auto read = [&] {
      for (int64_t i = 0; i < s.count; ++i) items[i] = keyed(in[start + i * s.inner], isDescending, i);
    };
    auto sortUnstable = [&] {
      std::sort(items, items + s.count, [](uint64_t a, uint64_t b) { return a >> 32 < b >> 32; });
    };
    read();
    if (s.count < kRadixFrom) {
      isStable ? std::sort(items, items + s.count) : sortUnstable();
    } else {
      uint64_t* sorted = radixSorted(items, items + s.count, s.count);
      // Where no two values are equal, all orders are one.
      if (!isStable && hasEqualKeys(sorted, s.count))
        read(), sortUnstable();
      else
        items = sorted;
    }
    for (int64_t i = 0; i < s.count; ++i) {
      const auto place = static_cast<int64_t>(items[i] & UINT32_MAX);
      places[start + i * s.inner] = place;
      if (values) values[start + i * s.inner] = in[start + place * s.inner];
    }
  });
}

}  // namespace tscompile
