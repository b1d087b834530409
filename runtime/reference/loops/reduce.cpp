#include "runtime/reference/loops/reduce.h"

#include "runtime/call/run_context.h"
#include "runtime/reference/loops/tiles.h"

#include <algorithm>

namespace tscompile {
namespace {

// Tensors without elements may have sizes whose product does not fit; what it is does not matter then.
int64_t product(int64_t a, int64_t b) {
  int64_t p;
  return __builtin_mul_overflow(a, b, &p) ? INT64_MAX : p;
}

constexpr int64_t kRun = 1024;     // elements that are joined in parts before these are added up
constexpr int64_t kRows = 256;     // the same for rows
constexpr int64_t kWidth = 4096;   // columns at a time: whole rows are read best
constexpr int64_t kBatch = 256;    // results of runs that are stored at a time
constexpr int64_t kNarrow = 64;    // rows of fewer columns are taken several at a time
constexpr int64_t kFew = 1024;     // bytes of scratch that need no allocation
constexpr int64_t kMostItem = 16;  // bytes of an element, complex<double>

class Reduction {
 public:
  Reduction(const Tensor& in, DimSpan dims, const Tensor& out, const ReducerLoops& loops, const void* given)
      : plan_(in, dims),
        loops_(loops),
        types_(loops.types),
        context_(RunContext::current()),
        from_(in.raw()),
        to_(out.raw()),
        given_(static_cast<const std::byte*>(given)),
        outItem_(static_cast<int64_t>(itemSize(out.dtype()))),
        load_(tileLoader(in.dtype(), types_.in)),
        store_(tileStorer(types_.out, out.dtype())),
        stored_(isStoredAs(in.dtype(), types_.in)) {}

  void run() {
    if (plan_.keptCount == 0) return;
    if (plan_.reducedCount == 0) return fill();
    plan_.alongRuns ? runs() : rows();
  }

 private:
  using Dimension = ReducePlan::Dimension;
  using Dimensions = std::span<const Dimension>;

  // What reducing nothing gives.
  void fill() {
    makeScratch(1, 1);
    loops_.start(total_, 1);
    loops_.finish(total_, results_, 1, 0);
    for (int64_t i = 0; i < plan_.keptCount; ++i) store_(results_, to_ + i * outItem_, outItem_, 1);
  }

  // ---- runs along the innermost reduced dimension ----

  void runs() {
    Dimension last = plan_.kept.back();
    int64_t step = plan_.results.back().stride;
    int64_t batch = std::clamp<int64_t>((1 << 16) / plan_.reducedCount, 1, kBatch);
    makeScratch(std::min(batch, last.size), 1);
    walkPairs(outer(plan_.kept), outer(plan_.results), [&](int64_t at, int64_t result) {
      for (int64_t i = 0; i < last.size; i += batch) {
        int64_t n = std::min(batch, last.size - i);
        loops_.start(total_, n);
        for (int64_t k = 0; k < n; ++k)
          addRuns(total_ + k * types_.accBytes, from_ + at + (i + k) * last.stride, result + (i + k) * step);
        loops_.finish(total_, results_, n, plan_.reducedCount);
        store_(results_, to_ + (result + i * step) * outItem_, step * outItem_, n);
        context_.checkInterrupt(plan_.reducedCount * n);
      }
    });
  }
  void addRuns(std::byte* acc, const std::byte* p, int64_t result) {
    Dimension run = plan_.reduced.back();
    const std::byte* given = given_ + result * types_.givenBytes;
    if (plan_.reduced.size() == 1) return addRun(acc, p, run, given);
    walk(outer(plan_.reduced), [&](int64_t inner) { addRun(acc, p + inner, run, given); });
  }
  void addRun(std::byte* acc, const std::byte* p, Dimension run, const std::byte* given) {
    if (stored_ && run.stride == types_.inBytes) {
      for (int64_t i = 0; i < run.size; i += kRun) {
        int64_t n = std::min(kRun, run.size - i);
        loops_.addRun(acc, p + i * run.stride, n, given);
        context_.checkInterrupt(n);
      }
      return;
    }
    for (int64_t i = 0; i < run.size; i += kTile) {
      int64_t n = std::min(kTile, run.size - i);
      load_(p + i * run.stride, run.stride, buffer_, n);
      loops_.addRun(acc, buffer_, n, given);
      context_.checkInterrupt(n);
    }
  }

  // ---- rows along the innermost kept dimension, joined one after the other ----

  void rows() {
    Dimension row = plan_.kept.back();
    int64_t step = plan_.results.back().stride;
    int64_t width = std::min(kWidth, row.size), fold = 1;
    Dimension& down = plan_.reduced.back();
    bool oneBlock = down.stride == row.size * row.stride;
    if (row.size <= kNarrow && oneBlock) fold = std::clamp<int64_t>(kTile / row.size, 1, down.size);
    makeScratch(width, fold);
    walkPairs(outer(plan_.kept), outer(plan_.results), [&](int64_t at, int64_t result) {
      for (int64_t i = 0; i < row.size; i += width) {
        int64_t n = std::min(width, row.size - i);
        reduceColumns(from_ + at + i * row.stride, row.stride, n, fold, result + i * step, step);
        store_(results_, to_ + (result + i * step) * outItem_, step * outItem_, n);
      }
    });
  }

  void makeScratch(int64_t width, int64_t fold) {
    auto room = [](int64_t bytes) { return (bytes + 63) / 64 * 64; };
    int64_t total = room(width * types_.accBytes), results = room(width * types_.outBytes);
    int64_t block = room(width * fold * types_.partBytes), given = width * fold * types_.givenBytes;
    int64_t all = total + results + block + given;
    if (all > kFew) scratch_ = Tensor::empty(DType::UInt8, Dims{all});
    total_ = all > kFew ? scratch_.raw() : few_;
    results_ = total_ + total;
    block_ = results_ + results;
    columnGiven_ = block_ + block;
  }

  // Reduces `n` columns into results_. `fold` rows lie next to each other and are taken as one long row.
  void reduceColumns(const std::byte* p, int64_t stride, int64_t n, int64_t fold, int64_t result, int64_t step) {
    loops_.spreadGiven(columnGiven_, given_ + result * types_.givenBytes, n, fold, step);
    loops_.start(total_, n);
    Dimension& down = plan_.reduced.back();
    Dimension all = down;
    down = {all.size / fold, all.stride * fold};
    joinRows(p, stride, n, fold);
    if (int64_t rest = all.size % fold) {
      down = {rest, all.stride};
      joinRows(p + (all.size - rest) * all.stride, stride, n, 1);
    }
    down = all;
    loops_.finish(total_, results_, n, plan_.reducedCount);
  }
  // Joins the rows that lie along plan_.reduced into total_: in blocks, so that long sums stay accurate.
  void joinRows(const std::byte* p, int64_t stride, int64_t n, int64_t fold) {
    int64_t width = n * fold, joined = 0;
    loops_.startParts(block_, width);
    auto flush = [&] {
      for (int64_t j = 0; j < fold; ++j) loops_.addParts(total_, block_ + j * n * types_.partBytes, n);
      context_.checkInterrupt(joined * width);
    };
    walk(plan_.reduced, [&](int64_t inner) {
      joinRow(p + inner, stride, width);
      if (++joined < kRows) return;
      flush();
      loops_.startParts(block_, width);
      joined = 0;
    });
    if (joined) flush();
  }
  void joinRow(const std::byte* p, int64_t stride, int64_t n) {
    if (stored_ && stride == types_.inBytes) return loops_.joinRow(block_, p, n, columnGiven_);
    for (int64_t i = 0; i < n; i += kTile) {
      int64_t count = std::min(kTile, n - i);
      load_(p + i * stride, stride, buffer_, count);
      loops_.joinRow(block_ + i * types_.partBytes, buffer_, count, columnGiven_ + i * types_.givenBytes);
    }
  }

  static Dimensions outer(const SmallVector<Dimension, 6>& all) { return {all.data(), all.size() - 1}; }

  ReducePlan plan_;
  const ReducerLoops& loops_;
  const ReducerLoops::Types& types_;
  RunContext& context_;
  const std::byte* from_;
  std::byte* to_;
  const std::byte* given_;
  int64_t outItem_;
  LoadTile load_;
  StoreTile store_;
  bool stored_;
  Tensor scratch_;  // or few_ holds the arrays below, one element for each column or run
  std::byte *total_ = nullptr, *results_ = nullptr, *block_ = nullptr, *columnGiven_ = nullptr;
  alignas(64) std::byte few_[kFew];
  alignas(64) std::byte buffer_[kTile * kMostItem];
};

}  // namespace

void runReduction(const Tensor& in, DimSpan dims, const Tensor& out, const ReducerLoops& loops, const void* given) {
  Reduction(in, dims, out, loops, given).run();
}

ReducePlan::ReducePlan(const Tensor& in, DimSpan dims) {
  uint64_t mask = 0;
  for (int64_t d : dims) mask |= uint64_t{1} << d;
  auto item = static_cast<int64_t>(itemSize(in.dtype()));
  // The results lie in row-major order of the kept dimensions; the walk through them is free. Memory order is fastest.
  Dims steps(in.sizes().size(), 0);
  for (int d = in.rank(); d-- > 0;) {
    if (mask >> d & 1) {
      reducedCount = product(reducedCount, in.size(d));
    } else {
      steps[d] = keptCount;
      keptCount = product(keptCount, in.size(d));
    }
  }
  if (keptCount == 0 || reducedCount == 0) return;
  SmallVector<int, 6> order;
  for (int d = 0; d < in.rank(); ++d) {
    order.push_back(d);
    for (int i = d; i > 0 && in.stride(order[i - 1]) < in.stride(order[i]); --i) std::swap(order[i - 1], order[i]);
  }

  for (int d : order) {
    Dimension dim{in.size(d), in.stride(d) * item};
    if (dim.size == 1) continue;
    bool isReduced = mask >> d & 1;
    auto& list = isReduced ? reduced : kept;
    // Neighbours that continue each other are one dimension.
    bool merges = !list.empty() && list.back().stride == dim.stride * dim.size &&
                  (isReduced || results.back().stride == steps[d] * dim.size);
    if (merges) {
      list.back() = {list.back().size * dim.size, dim.stride};
      if (!isReduced) results.back() = {list.back().size, steps[d]};
    } else {
      list.push_back(dim);
      if (!isReduced) results.push_back({dim.size, steps[d]});
    }
  }
  alongRuns = kept.empty() || (!reduced.empty() && reduced.back().stride < kept.back().stride);
  // Many short runs near each other: what starting and ending a run costs would prevail.
  constexpr int64_t kShort = 16, kNear = 256;
  if (alongRuns && !kept.empty() && reducedCount <= kShort && kept.back().size > 2 * kShort &&
      kept.back().stride <= kNear)
    alongRuns = false;
  if (reduced.empty()) reduced.push_back({1, 0});
  if (kept.empty()) {
    kept.push_back({1, 0});
    results.push_back({1, 0});
  }
}

Dims reducedSizes(DimSpan sizes, DimSpan reduced, bool keepDim) {
  uint64_t mask = 0;
  for (int64_t d : reduced) mask |= uint64_t{1} << d;
  Dims out;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (!(mask >> d & 1))
      out.push_back(sizes[d]);
    else if (keepDim)
      out.push_back(1);
  }
  return out;
}

}  // namespace tscompile
