// Reductions over some dimensions, in compute types, for tensors of any dtype and strides.
#pragma once

#include "ir/values/tensor.h"
#include "runtime/call/run_context.h"
#include "runtime/reference/loops/loop.h"

#include <type_traits>

namespace tscompile {

// Calls `f` with a value of the type that elements of this dtype are computed in: float, double, int64,
// complex<double>.
template <class F>
void withCompute(DType dtype, F&& f) {
  switch (computeTypeOf(dtype)) {
    case Compute::F32:
      return f(float{});
    case Compute::F64:
      return f(double{});
    case Compute::C128:
      return f(std::complex<double>{});
    default:
      return f(int64_t{});
  }
}
// The same for dtypes that are known not to be complex.
template <class F>
void withRealCompute(DType dtype, F&& f) {
  switch (computeTypeOf(dtype)) {
    case Compute::F32:
      return f(float{});
    case Compute::F64:
      return f(double{});
    default:
      return f(int64_t{});
  }
}

// The dimensions of an input, sorted for a reduction: outermost in memory first.
struct ReducePlan {
  ReducePlan(const Tensor& in, DimSpan reduced);
  struct Dimension {
    int64_t size, stride;  // bytes
  };
  SmallVector<Dimension, 6> kept, reduced;
  // For each kept dimension, how far apart its results are, counted in results.
  SmallVector<Dimension, 6> results;
  int64_t keptCount = 1, reducedCount = 1;
  // Whether neighbours in memory are reduced into one result, so that runs are summed up rather than rows added.
  bool alongRuns = true;
};

// The sizes of the result.
Dims reducedSizes(DimSpan sizes, DimSpan reduced, bool keepDim);

// Walks `dimensions` and calls visit(byteOffset) for each index, in order.
template <class Visit>
void walk(std::span<const ReducePlan::Dimension> dimensions, Visit&& visit) {
  int rank = static_cast<int>(dimensions.size());
  int64_t index[kMaxRank] = {};
  int64_t offset = 0;
  while (true) {
    visit(offset);
    int d = rank - 1;
    for (; d >= 0; --d) {
      offset += dimensions[d].stride;
      if (++index[d] < dimensions[d].size) break;
      offset -= dimensions[d].stride * dimensions[d].size;
      index[d] = 0;
    }
    if (d < 0) return;
  }
}

// Walks dimensions of equal sizes in two tensors and calls visit(offset in the first, offset in the second).
template <class Visit>
void walkPairs(std::span<const ReducePlan::Dimension> a, std::span<const ReducePlan::Dimension> b, Visit&& visit) {
  for (const auto& d : a)
    if (d.size == 0) return;
  int rank = static_cast<int>(a.size());
  int64_t index[kMaxRank] = {};
  int64_t x = 0, y = 0;
  while (true) {
    visit(x, y);
    int d = rank - 1;
    for (; d >= 0; --d) {
      x += a[d].stride;
      y += b[d].stride;
      if (++index[d] < a[d].size) break;
      x -= a[d].stride * a[d].size;
      y -= b[d].stride * b[d].size;
      index[d] = 0;
    }
    if (d < 0) return;
  }
}

// What a reducer without `Given` has in its place.
struct NoneGiven {};
template <class R, class = void>
struct GivenOf {
  using type = NoneGiven;
};
template <class R>
struct GivenOf<R, std::void_t<typename R::Given>> {
  using type = typename R::Given;
};

// The loops of one reduction; see reduceInto.
template <class R>
class Reduction {
 public:
  using In = typename R::In;
  using Out = typename R::Out;
  using Acc = typename R::Acc;
  using Part = typename R::Part;
  using Given = typename GivenOf<R>::type;
  static constexpr bool kHasGiven = !std::is_same_v<Given, NoneGiven>;

  Reduction(const Tensor& in, DimSpan dims, const Tensor& out, const R& reducer, const Given* given)
      : plan_(in, dims),
        reducer_(reducer),
        context_(RunContext::current()),
        from_(in.raw()),
        to_(out.raw()),
        given_(given),
        outItem_(static_cast<int64_t>(itemSize(out.dtype()))),
        load_(tileLoader(in.dtype(), kComputeOf<In>)),
        store_(tileStorer(kComputeOf<Out>, out.dtype())),
        stored_(isStoredAs(in.dtype(), kComputeOf<In>)) {}

  void run() {
    if (plan_.keptCount == 0) return;
    if (plan_.reducedCount == 0) {
      Out v = reducer_.finish(reducer_.start(), 0);
      for (int64_t i = 0; i < plan_.keptCount; ++i) store_(&v, to_ + i * outItem_, outItem_, 1);
      return;
    }
    plan_.alongRuns ? runs() : rows();
  }

 private:
  using Dimensions = std::span<const ReducePlan::Dimension>;
  static constexpr int64_t kRun = 1024;    // elements that are joined in parts before these are added up
  static constexpr int64_t kRows = 256;    // the same for rows
  static constexpr int64_t kWidth = 4096;  // columns at a time: whole rows are read best
  static constexpr int64_t kBatch = 256;   // results of runs that are stored at a time
  static constexpr int64_t kNarrow = 64;   // rows of fewer columns are taken several at a time

  // ---- runs along the innermost reduced dimension ----

  void runs() {
    ReducePlan::Dimension last = plan_.kept.back();
    int64_t step = plan_.results.back().stride;
    int64_t batch = std::clamp<int64_t>((1 << 16) / plan_.reducedCount, 1, kBatch);
    Out results[kBatch];
    walkPairs(outer(plan_.kept), outer(plan_.results), [&](int64_t at, int64_t result) {
      for (int64_t i = 0; i < last.size; i += batch) {
        int64_t n = std::min(batch, last.size - i);
        for (int64_t k = i; k < i + n; ++k)
          results[k - i] = reduceRuns(from_ + at + k * last.stride, result + k * step);
        store_(results, to_ + (result + i * step) * outItem_, step * outItem_, n);
        context_.checkInterrupt(plan_.reducedCount * n);
      }
    });
  }

  Out reduceRuns(const std::byte* p, int64_t result) {
    ReducePlan::Dimension run = plan_.reduced.back();
    Acc acc = reducer_.start();
    if (plan_.reduced.size() == 1)
      addRun(acc, p, run, result);
    else
      walk(outer(plan_.reduced), [&](int64_t inner) { addRun(acc, p + inner, run, result); });
    return reducer_.finish(acc, plan_.reducedCount);
  }
  void addRun(Acc& acc, const std::byte* p, ReducePlan::Dimension run, int64_t result) {
    if (stored_ && run.stride == static_cast<int64_t>(sizeof(In))) {
      auto* in = reinterpret_cast<const In*>(p);
      for (int64_t i = 0; i < run.size; i += kRun) {
        reducer_.add(acc, partOf(in + i, std::min(kRun, run.size - i), result));
        context_.checkInterrupt(std::min(kRun, run.size - i));
      }
      return;
    }
    for (int64_t i = 0; i < run.size; i += kTile) {
      int64_t n = std::min(kTile, run.size - i);
      load_(p + i * run.stride, run.stride, buffer_, n);
      reducer_.add(acc, partOf(buffer_, n, result));
      context_.checkInterrupt(n);
    }
  }
  // The loops over elements are calls: inlined, each would be there up to six times for each of fifty reducers.
  [[gnu::noinline]] Part partOf(const In* p, int64_t n, int64_t result) const {
    if constexpr (kHasGiven)
      return reducer_.run(p, n, given_[result]);
    else
      return reducer_.run(p, n);
  }

  // ---- rows along the innermost kept dimension, joined one after the other ----

  void rows() {
    ReducePlan::Dimension row = plan_.kept.back();
    int64_t step = plan_.results.back().stride;
    int64_t width = std::min(kWidth, row.size), fold = 1;
    ReducePlan::Dimension& down = plan_.reduced.back();
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
    auto item = [](auto* p) { return static_cast<int64_t>(sizeof(*p)); };
    int64_t total = room(width * item(total_)), results = room(width * item(results_));
    int64_t block = room(width * fold * item(block_)), given = kHasGiven ? width * fold * item(columnGiven_) : 0;
    scratch_ = Tensor::empty(DType::UInt8, Dims{total + results + block + given});
    std::byte* p = scratch_.raw();
    total_ = reinterpret_cast<Acc*>(p);
    results_ = reinterpret_cast<Out*>(p + total);
    block_ = reinterpret_cast<Part*>(p + total + results);
    columnGiven_ = reinterpret_cast<Given*>(p + total + results + block);
  }

  // Reduces `n` columns into results_. `fold` rows lie next to each other and are taken as one long row.
  void reduceColumns(const std::byte* p, int64_t stride, int64_t n, int64_t fold, int64_t result, int64_t step) {
    if constexpr (kHasGiven)
      for (int64_t k = 0; k < n * fold; ++k) columnGiven_[k] = given_[result + k % n * step];
    for (int64_t k = 0; k < n; ++k) total_[k] = reducer_.start();
    ReducePlan::Dimension& down = plan_.reduced.back();
    ReducePlan::Dimension all = down;
    down = {all.size / fold, all.stride * fold};
    joinRows(p, stride, n, fold);
    if (int64_t rest = all.size % fold) {
      down = {rest, all.stride};
      joinRows(p + (all.size - rest) * all.stride, stride, n, 1);
    }
    down = all;
    for (int64_t k = 0; k < n; ++k) results_[k] = reducer_.finish(total_[k], plan_.reducedCount);
  }
  // Joins the rows that lie along plan_.reduced into total_: in blocks, so that long sums stay accurate.
  void joinRows(const std::byte* p, int64_t stride, int64_t n, int64_t fold) {
    int64_t width = n * fold, joined = 0;
    std::fill_n(block_, width, reducer_.startPart());
    auto flush = [&] {
      for (int64_t j = 0; j < fold; ++j)
        for (int64_t k = 0; k < n; ++k) reducer_.add(total_[k], block_[j * n + k]);
      context_.checkInterrupt(joined * width);
    };
    walk(plan_.reduced, [&](int64_t inner) {
      joinRow(p + inner, stride, width);
      if (++joined < kRows) return;
      flush();
      std::fill_n(block_, width, reducer_.startPart());
      joined = 0;
    });
    if (joined) flush();
  }
  void joinRow(const std::byte* p, int64_t stride, int64_t n) {
    if (stored_ && stride == static_cast<int64_t>(sizeof(In)))
      return joinElements(0, reinterpret_cast<const In*>(p), n);
    for (int64_t i = 0; i < n; i += kTile) {
      int64_t count = std::min(kTile, n - i);
      load_(p + i * stride, stride, buffer_, count);
      joinElements(i, buffer_, count);
    }
  }
  [[gnu::noinline]] void joinElements(int64_t at, const In* in, int64_t n) {
    if constexpr (kHasGiven)
      reducer_.rows(block_ + at, in, n, columnGiven_ + at);
    else
      reducer_.rows(block_ + at, in, n);
  }

  static Dimensions outer(const SmallVector<ReducePlan::Dimension, 6>& all) { return {all.data(), all.size() - 1}; }

  ReducePlan plan_;
  const R& reducer_;
  RunContext& context_;
  const std::byte* from_;
  std::byte* to_;
  const Given* given_;
  int64_t outItem_;
  LoadTile load_;
  StoreTile store_;
  bool stored_;
  Tensor scratch_;  // holds the arrays below, one element for each column
  Acc* total_ = nullptr;
  Out* results_ = nullptr;
  Part* block_ = nullptr;
  Given* columnGiven_ = nullptr;
  In buffer_[kTile];
};

// Reduces `in` over `dims` into the contiguous `out`, whose elements are the results in row-major order of the kept
// dimensions.
//
// A reducer has `In` and `Out` (compute types), `Part` (what some elements are joined in), `Acc` (what parts are joined
// in; wider, say), and
//   Part startPart() const;
//   Acc start() const;
//   Part run(const In* p, int64_t n) const;                     // of 1 to 1024 elements
//   void rows(Part* into, const In* row, int64_t n) const;      // joins one element into each of n parts
//   void add(Acc& into, const Part& part) const;
//   Out finish(const Acc& acc, int64_t count) const;
// If it has a type `Given`, run() and rows() take a Given and a const Given* at the end: what `given` holds for the
// result, such as the mean that deviations are counted from.
template <class R>
void reduceInto(const Tensor& in, DimSpan dims, const Tensor& out, const R& reducer,
                const typename GivenOf<R>::type* given = nullptr) {
  Reduction<R>(in, dims, out, reducer, given).run();
}

}  // namespace tscompile
