#include "runtime/kernels/order/lanes.h"

#include "runtime/call/thread_pool.h"
#include "runtime/kernels/order/ranks.h"
#include "runtime/kernels/reductions.h"
#include "runtime/kernels/wide/vector_math.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <type_traits>
#include <utility>
#include <vector>

namespace tscompile {
namespace {

constexpr int64_t kLaneBlock = 1024;     // elements whose extreme is found first
constexpr int64_t kTopBlock = 128;       // the same for the first few of a lane
constexpr int64_t kParallel = 32 << 10;  // elements; less is done by one thread
constexpr int64_t kMostPieces = 16;      // each with a workspace of its own
constexpr int64_t kRadixFrom = 128;      // fewer elements are sorted by comparing
constexpr int64_t kFewestRanked = 4;     // lanes; fewer are not looked at side by side
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

// ---- orders ----

// A key in the order of the values, and a place.
uint32_t keyOf(float v, bool isDescending) {
  const auto bits = std::bit_cast<uint32_t>(v + 0.0f);  // -0 becomes 0
  constexpr uint32_t kSign = uint32_t{1} << 31;
  const uint32_t key = v != v ? ~uint32_t{0} : bits & kSign ? ~bits : bits | kSign;
  return isDescending ? ~key : key;
}
uint64_t keyed(float v, bool isDescending, int64_t place) {
  return uint64_t{keyOf(v, isDescending)} << 32 | static_cast<uint64_t>(place);
}

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

// ---- the first of each lane ----

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

// The first k + 1 of a lane and few others, unordered: all whose highest bits are not behind those of the last of them.
// `keys` is scratch for n of them.
int64_t keepFirst(bool isLargest, const float* run, int64_t n, int64_t k, uint64_t* kept, uint32_t* keys) {
  constexpr int kDigits = 2048, kShift = 21, kGroup = 32;
  uint32_t counts[kDigits] = {};
  for (int64_t i = 0; i < n; ++i) keys[i] = keyOf(run[i], isLargest);
  for (int64_t i = 0; i < n; ++i) ++counts[keys[i] >> kShift];
  uint32_t last = 0;
  for (int64_t before = 0, more = 0;; before += more, last += kGroup) {
    more = std::accumulate(counts + last, counts + last + kGroup, uint32_t{0});
    if (before + more < std::min(k + 1, n)) continue;
    while ((before += counts[last]) < std::min(k + 1, n)) ++last;
    break;
  }
  int64_t m = 0;
  for (int64_t i = 0; i < n; ++i) {
    kept[m] = uint64_t{keys[i]} << 32 | static_cast<uint64_t>(i);
    m += keys[i] >> kShift <= last;
  }
  return m;
}

// The first of a lane in order, if no two of them and the next one are equal: then there is one answer, whoever finds
// it. There is room for all of the lane in `kept` and in `other`.
bool selectDistinct(bool isLargest, const float* run, int64_t n, int64_t k, uint64_t* kept, uint64_t* other,
                    Item* items) {
  const int64_t count = keepFirst(isLargest, run, n, k, kept, reinterpret_cast<uint32_t*>(other));
  const uint64_t* sorted = kept;
  if (count < kRadixFrom)
    std::sort(kept, kept + count);
  else
    sorted = radixSorted(kept, other, count);
  if (hasEqualKeys(sorted, std::min(k + 1, n))) return false;
  for (int64_t i = 0; i < k; ++i) {
    const auto place = static_cast<int32_t>(sorted[i] & UINT32_MAX);
    items[i] = {run[place], place};
  }
  return true;
}

// std::nth_element by keys, which leaves equal ones where libstdc++'s does: the same pivots, and the same exchanges.
// What each side of a pivot has to give away is listed first, without branches that nobody could foretell.
class Selection {
 public:
  // `lists` is scratch for 2 n numbers.
  Selection(uint64_t* items, int64_t n, uint32_t* lists) : items_(items), end_(n), low_(lists), high_(lists + n) {}

  // False if pivots were so bad that libstdc++ would go another way; the items are in any order then.
  bool bring(int64_t nth) {
    for (int depth = 2 * static_cast<int>(std::bit_width(static_cast<uint64_t>(end_)) - 1); end_ - begin_ > 3;
         --depth) {
      if (depth == 0) return false;
      const int64_t cut = partition();
      (cut <= nth ? begin_ : end_) = cut;
    }
    for (int64_t i = begin_ + 1; i < end_; ++i)
      for (int64_t j = i; j > begin_ && isBefore(j, j - 1); --j) std::swap(items_[j], items_[j - 1]);
    return true;
  }

 private:
  uint32_t key(int64_t i) const { return static_cast<uint32_t>(items_[i] >> 32); }
  bool isBefore(int64_t a, int64_t b) const { return key(a) < key(b); }

  int64_t median(int64_t a, int64_t b, int64_t c) const {
    if (isBefore(a, b)) return isBefore(b, c) ? b : isBefore(a, c) ? c : a;
    return isBefore(a, c) ? a : isBefore(b, c) ? c : b;
  }

  int64_t partition() {
    const int64_t first = begin_ + 1;
    std::swap(items_[begin_], items_[median(first, begin_ + (end_ - begin_) / 2, end_ - 1)]);
    const uint32_t pivot = key(begin_);
    int64_t lows = 0, highs = 0;  // how many are not before the pivot, from the front, and not behind it, from the back
    for (int64_t i = first; i < end_; ++i) {
      low_[lows] = static_cast<uint32_t>(i);
      lows += key(i) >= pivot;
    }
    for (int64_t i = end_; i-- > first;) {
      high_[highs] = static_cast<uint32_t>(i);
      highs += key(i) <= pivot;
    }
    int64_t pairs = 0;
    for (; pairs < lows && pairs < highs && low_[pairs] < high_[pairs]; ++pairs)
      std::swap(items_[low_[pairs]], items_[high_[pairs]]);
    const int64_t next = pairs < lows ? low_[pairs] : end_;
    return pairs > 0 ? std::min<int64_t>(next, high_[pairs - 1]) : next;
  }

  uint64_t* items_;
  int64_t begin_ = 0, end_;
  uint32_t *low_, *high_;
};

// There is room for 2 n keys.
void selectMany(bool isLargest, const float* run, int64_t n, int64_t k, bool isSorted, uint64_t* keys, Item* items) {
  if (isSorted && selectDistinct(isLargest, run, n, k, keys, keys + n, items)) return;
  auto read = [&] {
    for (int64_t i = 0; i < n; ++i) keys[i] = keyed(run[i], isLargest, i);
  };
  auto isBefore = [](uint64_t a, uint64_t b) { return a >> 32 < b >> 32; };
  read();
  if (!Selection(keys, n, reinterpret_cast<uint32_t*>(keys + n)).bring(k - 1)) {
    read();
    std::nth_element(keys, keys + k - 1, keys + n, isBefore);
  }
  if (isSorted) std::sort(keys, keys + k - 1, isBefore);
  for (int64_t i = 0; i < k; ++i) {
    const auto place = static_cast<int32_t>(keys[i] & UINT32_MAX);
    items[i] = {run[place], place};
  }
}

bool isFew(int64_t k, int64_t count) { return k * 64 <= count; }

size_t bytesToSelect(const LaneShape& s, int64_t k) {
  const int64_t items = isFew(k, s.count) ? k : s.count;
  const int64_t kept = isFew(k, s.count) ? 0 : 2 * s.count;
  return aligned(static_cast<size_t>(items) * sizeof(Item)) + aligned(static_cast<size_t>(kept) * sizeof(uint64_t)) +
         aligned(static_cast<size_t>(topBlocksOf(s.count) + (s.inner == 1 ? 0 : s.count)) * sizeof(float));
}

// Runs one(start, columns) for pieces of columns of each [count][inner], which begins at `start`.
template <class One>
void forColumns(const LaneShape& s, int threads, const One& one) {
  const int64_t columns = (s.inner + kColumns - 1) / kColumns, all = s.outer * columns;
  const int64_t pieces = std::clamp<int64_t>(all, 1, kMostPieces);
  parallelFor(pieces, threadsFor(s, threads), [&](int64_t p) {
    const Piece piece = pieceOf(all, pieces, p);
    for (int64_t i = piece.begin; i < piece.end; ++i)
      one(i / columns * s.count * s.inner, pieceOf(s.inner, columns, i % columns));
  });
}

}  // namespace

template <class In, class Out>
void runningTotal(bool isProduct, const LaneShape& s, const In* in, Out* out, int threads) {
  using Acc = std::conditional_t<std::is_floating_point_v<Out>, double, uint64_t>;
  forColumns(s, threads, [&](int64_t at, Piece part) {
    isProduct ? totalColumns<true, Acc>(s, part.begin, part.end, in + at, out + at)
              : totalColumns<false, Acc>(s, part.begin, part.end, in + at, out + at);
  });
}
template void runningTotal(bool, const LaneShape&, const float*, float*, int);
template void runningTotal(bool, const LaneShape&, const double*, double*, int);
template void runningTotal(bool, const LaneShape&, const int64_t*, int64_t*, int);
template void runningTotal(bool, const LaneShape&, const int32_t*, int64_t*, int);
template void runningTotal(bool, const LaneShape&, const bool*, int64_t*, int);

namespace {

// Columns [begin, end) of one [count][inner].
template <bool kLargest, class T>
void extremeColumns(const LaneShape& s, int64_t begin, int64_t end, const T* in, T* values, int64_t* places) {
  auto follows = [](T x, T best) { return (kLargest ? x >= best : x <= best) | (x != x); };
  if (s.inner == 1) {
    T best = in[0];
    int64_t place = 0;
    for (int64_t i = 0; i < s.count; ++i) {
      if (follows(in[i], best)) best = in[i], place = i;
      values[i] = best;
      places[i] = place;
    }
    return;
  }
  std::copy(in + begin, in + end, values + begin);
  std::fill(places + begin, places + end, int64_t{0});
  for (int64_t i = 1; i < s.count; ++i) {
    const T *x = in + i * s.inner, *best = values + (i - 1) * s.inner;
    const int64_t* place = places + (i - 1) * s.inner;
    T* value = values + i * s.inner;
    int64_t* to = places + i * s.inner;
    for (int64_t c = begin; c < end; ++c) {
      const bool is = follows(x[c], best[c]);
      value[c] = is ? x[c] : best[c];
      to[c] = is ? i : place[c];
    }
  }
}

}  // namespace

template <class T>
void runningExtremes(bool isLargest, const LaneShape& s, const T* in, T* values, int64_t* places, int threads) {
  forColumns(s, threads, [&](int64_t at, Piece part) {
    isLargest ? extremeColumns<true>(s, part.begin, part.end, in + at, values + at, places + at)
              : extremeColumns<false>(s, part.begin, part.end, in + at, values + at, places + at);
  });
}
template void runningExtremes(bool, const LaneShape&, const float*, float*, int64_t*, int);
template void runningExtremes(bool, const LaneShape&, const double*, double*, int64_t*, int);
template void runningExtremes(bool, const LaneShape&, const int64_t*, int64_t*, int64_t*, int);

namespace {

double logOfSum(double a, double b) {
  const double low = std::isnan(b) ? b : std::min(a, b), high = std::isnan(b) ? b : std::max(a, b);
  if (low == high && !std::isfinite(low)) return a;
  return std::log1p(std::exp(low - high)) + high;
}

constexpr int64_t kLogBlock = 64;  // elements that share a largest one

// The same for a block, by its largest element: exponentials and logarithms are of vectors. False if some are not
// finite, or so far apart that nothing would be left of the small ones.
bool addLogBlock(const float* in, int64_t step, int64_t count, double& sum, double* out) {
  constexpr double kMostApart = 600;
  constexpr int64_t kWidth = kLanes<F64x4>;
  const bool isFirst = sum == -std::numeric_limits<double>::infinity();
  double most = isFirst ? static_cast<double>(in[0]) : sum, least = in[0];
  for (int64_t i = 0; i < count; ++i) {
    const double x = in[i * step];
    out[i] = x;
    most = x > most ? x : most;
    least = x < least || x != x ? x : least;
  }
  if (!(most - least < kMostApart) || !(isFirst || most - sum < kMostApart)) return false;
  std::fill(out + count, out + (count + kWidth - 1) / kWidth * kWidth, most);
  auto each = [&](auto function) {
    for (int64_t i = 0; i < count; i += kWidth) {
      F64x4 v;
      std::memcpy(&v, out + i, sizeof v);
      v = function(v);
      std::memcpy(out + i, &v, sizeof v);
    }
  };
  each([&](F64x4 x) { return exp(x - most); });
  double total = isFirst ? 0 : std::exp(sum - most);
  for (int64_t i = 0; i < count; ++i) out[i] = total += out[i];
  each([&](F64x4 x) { return log(x) + most; });
  sum = out[count - 1];
  return true;
}

}  // namespace

void runningLogOfSum(const LaneShape& s, const float* in, float* out, int threads) {
  const int64_t pieces = std::clamp<int64_t>(s.lanes(), 1, kMostPieces);
  parallelFor(pieces, threadsFor(s, threads), [&](int64_t p) {
    const Piece piece = pieceOf(s.lanes(), pieces, p);
    for (int64_t lane = piece.begin; lane < piece.end; ++lane) {
      const int64_t start = startOf(s, lane, s.count);
      double sum = -std::numeric_limits<double>::infinity();
      for (int64_t i = 0; i < s.count; i += kLogBlock) {
        const int64_t count = std::min(kLogBlock, s.count - i);
        const float* from = in + start + i * s.inner;
        alignas(64) double made[kLogBlock];
        if (!addLogBlock(from, s.inner, count, sum, made))
          for (int64_t k = 0; k < count; ++k) made[k] = sum = logOfSum(static_cast<double>(from[k * s.inner]), sum);
        for (int64_t k = 0; k < count; ++k) out[start + (i + k) * s.inner] = static_cast<float>(made[k]);
      }
    }
  });
}

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

void extremes(bool isLargest, const LaneShape& s, const int64_t* in, int64_t* values, int64_t* places, int threads) {
  forEachLaneOf(s, 0, nullptr, threads, [&](int64_t lane, std::byte*) {
    const int64_t* run = in + startOf(s, lane, s.count);
    int64_t best = run[0], place = 0;
    for (int64_t i = 1; i < s.count; ++i) {
      const int64_t v = run[i * s.inner];
      const bool isBetter = isLargest ? v > best : v < best;
      place = isBetter ? i : place;
      best = isBetter ? v : best;
    }
    places[lane] = place;
    if (values) values[lane] = best;
  });
}

namespace {

struct PlacedInteger {
  int64_t value, place;
};

// ---- short lanes side by side ----

// [element][lane], and of each element its place in the order of its lane.
struct RankedLanes {
  alignas(64) float values[kMostRanked * kRankedLanes] = {};
  alignas(64) int32_t ranks[kMostRanked * kRankedLanes];
};

// One of them.
struct RankedLane {
  const RankedLanes& all;
  int64_t column;
  float value(int64_t i) const { return all.values[i * kRankedLanes + column]; }
  int64_t rank(int64_t i) const { return all.ranks[i * kRankedLanes + column]; }
};

bool isRanked(const LaneShape& s) { return s.count <= kMostRanked && s.lanes() >= kFewestRanked; }

// body(number of the lane, RankedLane, workspace of the piece) for each.
template <class Body>
void forEachRanked(bool isDescending, const LaneShape& s, const float* in, size_t bytes, void* workspace, int threads,
                   Body&& body) {
  const LaneShape groups{(s.lanes() + kRankedLanes - 1) / kRankedLanes, s.count * kRankedLanes, 1};
  forEachLaneOf(groups, bytes, workspace, threads, [&](int64_t group, std::byte* own) {
    RankedLanes ranked;
    const int64_t first = group * kRankedLanes, some = std::min(kRankedLanes, s.lanes() - first);
    for (int64_t c = 0; c < some; ++c) {
      const float* from = in + startOf(s, first + c, s.count);
      for (int64_t i = 0; i < s.count; ++i) ranked.values[i * kRankedLanes + c] = from[i * s.inner];
    }
    rankColumns(isDescending, ranked.values, s.count, ranked.ranks);
    for (int64_t c = 0; c < some; ++c) body(first + c, RankedLane{ranked, c}, own);
  });
}

bool areEqual(float a, float b) { return a == b || (a != a && b != b); }

// The places of the first `count` in order; false if two of them are equal.
bool orderOf(const RankedLane& lane, int64_t n, int64_t count, uint8_t* places) {
  float sorted[kMostRanked];
  for (int64_t i = 0; i < n; ++i) {
    const int64_t rank = lane.rank(i);
    sorted[rank] = lane.value(i);
    places[rank] = static_cast<uint8_t>(i);
  }
  return std::adjacent_find(sorted, sorted + count, areEqual) == sorted + count;
}

}  // namespace

size_t firstOfLanesWorkspace(const LaneShape& s, int64_t k) {
  return static_cast<size_t>(piecesOf(s)) * bytesToSelect(s, k);
}

void firstOfLanes(bool isLargest, bool isSorted, int64_t k, const LaneShape& s, const float* in, float* values,
                  int64_t* places, void* workspace, int threads) {
  constexpr int64_t kFewRanked = 8;  // of so many one: keeping the first is quicker than ranking all
  const bool few = isFew(k, s.count);
  const size_t items = aligned(static_cast<size_t>(few ? k : s.count) * sizeof(Item));
  const size_t kept = aligned(static_cast<size_t>(few ? 0 : 2 * s.count) * sizeof(uint64_t));
  auto select = [&](int64_t lane, std::byte* own) {
    auto* first = reinterpret_cast<Item*>(own);
    auto* keys = reinterpret_cast<uint64_t*>(own + items);
    auto* best = reinterpret_cast<float*>(own + items + kept);
    const float* run = runOf(s, in, lane, best + topBlocksOf(s.count));
    if (few)
      isLargest ? selectFew<true>(run, s.count, k, first, best) : selectFew<false>(run, s.count, k, first, best);
    else
      selectMany(isLargest, run, s.count, k, isSorted, keys, first);
    const int64_t to = startOf(s, lane, k);
    for (int64_t i = 0; i < k; ++i) {
      values[to + i * s.inner] = first[i].value;
      places[to + i * s.inner] = first[i].place;
    }
  };
  const size_t bytes = bytesToSelect(s, k);
  if (!isSorted || !isRanked(s) || k * kFewRanked <= s.count)
    return forEachLaneOf(s, bytes, workspace, threads, select);
  forEachRanked(isLargest, s, in, bytes, workspace, threads,
                [&](int64_t lane, const RankedLane& ranked, std::byte* own) {
                  uint8_t order[kMostRanked];
                  if (!orderOf(ranked, s.count, std::min(k + 1, s.count), order)) return select(lane, own);
                  const int64_t to = startOf(s, lane, k);
                  for (int64_t i = 0; i < k; ++i) {
                    values[to + i * s.inner] = ranked.value(order[i]);
                    places[to + i * s.inner] = order[i];
                  }
                });
}

size_t sortedLanesWorkspace(const LaneShape& s) {
  return static_cast<size_t>(piecesOf(s)) * aligned(static_cast<size_t>(2 * s.count) * sizeof(uint64_t));
}

void sortedLanes(bool isDescending, bool isStable, const LaneShape& s, const float* in, float* values, int64_t* places,
                 void* workspace, int threads) {
  constexpr int64_t kStableSort = 16;  // std::sort leaves so many equal elements in their order
  const size_t bytes = aligned(static_cast<size_t>(2 * s.count) * sizeof(uint64_t));
  auto sort = [&](int64_t lane, std::byte* own) {
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
  };
  if (!isRanked(s)) return forEachLaneOf(s, bytes, workspace, threads, sort);
  forEachRanked(isDescending, s, in, bytes, workspace, threads,
                [&](int64_t lane, const RankedLane& ranked, std::byte* own) {
                  uint8_t order[kMostRanked];
                  const bool isDistinct = orderOf(ranked, s.count, s.count, order);
                  if (!isDistinct && !isStable && s.count > kStableSort) return sort(lane, own);
                  const int64_t start = startOf(s, lane, s.count);
                  for (int64_t i = 0; i < s.count; ++i) {
                    places[start + i * s.inner] = order[i];
                    if (values) values[start + i * s.inner] = ranked.value(order[i]);
                  }
                });
}

size_t sortedIntegersWorkspace(const LaneShape& s) {
  return static_cast<size_t>(piecesOf(s)) * aligned(static_cast<size_t>(s.count) * sizeof(PlacedInteger));
}

void sortedLanes(bool isDescending, bool isStable, const LaneShape& s, const int64_t* in, int64_t* values,
                 int64_t* places, void* workspace, int threads) {
  const size_t bytes = aligned(static_cast<size_t>(s.count) * sizeof(PlacedInteger));
  forEachLaneOf(s, bytes, workspace, threads, [&](int64_t lane, std::byte* own) {
    auto* items = reinterpret_cast<PlacedInteger*>(own);
    const int64_t start = startOf(s, lane, s.count);
    for (int64_t i = 0; i < s.count; ++i) items[i] = {in[start + i * s.inner], i};
    auto sortBy = [&](auto isBefore) {
      if (!isStable) return std::sort(items, items + s.count, isBefore);
      std::sort(items, items + s.count, [&](const PlacedInteger& a, const PlacedInteger& b) {
        return a.value == b.value ? a.place < b.place : isBefore(a, b);
      });
    };
    if (isDescending)
      sortBy([](const PlacedInteger& a, const PlacedInteger& b) { return a.value > b.value; });
    else
      sortBy([](const PlacedInteger& a, const PlacedInteger& b) { return a.value < b.value; });
    for (int64_t i = 0; i < s.count; ++i) {
      places[start + i * s.inner] = items[i].place;
      if (values) values[start + i * s.inner] = items[i].value;
    }
  });
}

namespace {

// Which of so many NaN std::nth_element brings to the front, as in PyTorch.
int64_t placeAmongNans(int64_t n) {
  std::vector<int64_t> places(static_cast<size_t>(n));
  std::iota(places.begin(), places.end(), 0);
  std::nth_element(places.begin(), places.begin(), places.end(), [](int64_t, int64_t) { return false; });
  return places.front();
}

}  // namespace

size_t mediansOfLanesWorkspace(const LaneShape& s) {
  return isRanked(s) ? 0 : static_cast<size_t>(piecesOf(s)) * aligned(static_cast<size_t>(s.count) * sizeof(uint64_t));
}

void mediansOfLanes(bool skipsNan, const LaneShape& s, const float* in, float* values, int64_t* places, void* workspace,
                    int threads) {
  // Where it is in order: NaN comes last, and is the result if it is not skipped.
  auto rankOf = [&](int64_t nans) {
    const int64_t numbers = s.count - nans;
    return nans > 0 && !skipsNan ? numbers : std::max<int64_t>(numbers - 1, 0) / 2;
  };
  auto write = [&](int64_t lane, float value, int64_t place) {
    values[lane] = value;
    if (places) places[lane] = place;
  };
  if (!isRanked(s))
    return forEachLaneOf(s, aligned(static_cast<size_t>(s.count) * sizeof(uint64_t)), workspace, threads,
                         [&](int64_t lane, std::byte* own) {
                           auto* items = reinterpret_cast<uint64_t*>(own);
                           const float* from = in + startOf(s, lane, s.count);
                           int64_t nans = 0;
                           for (int64_t i = 0; i < s.count; ++i) {
                             const float v = from[i * s.inner];
                             items[i] = keyed(v, false, i);
                             nans += v != v;
                           }
                           uint64_t* middle = items + rankOf(nans);
                           std::nth_element(items, middle, items + s.count);
                           const bool isNone = skipsNan && nans == s.count;
                           const auto place =
                               isNone ? placeAmongNans(nans) : static_cast<int64_t>(*middle & UINT32_MAX);
                           write(lane, from[place * s.inner], place);
                         });
  forEachRanked(false, s, in, 0, workspace, threads, [&](int64_t lane, const RankedLane& ranked, std::byte*) {
    int64_t nans = 0, place = 0;
    for (int64_t i = 0; i < s.count; ++i) nans += ranked.value(i) != ranked.value(i);
    const int64_t wanted = rankOf(nans);
    for (int64_t i = 0; i < s.count; ++i) place += ranked.rank(i) == wanted ? i : 0;
    if (skipsNan && nans == s.count) place = placeAmongNans(nans);
    write(lane, ranked.value(place), place);
  });
}

}  // namespace tscompile
