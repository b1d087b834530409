// Reductions over some dimensions, in compute types, for tensors of any dtype and strides.
#pragma once

#include "ir/values/tensor.h"
#include "runtime/reference/loops/loop.h"

#include <algorithm>
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

// What a reducer does to arrays of its types: all that the walk through a tensor asks of it. So the walk is compiled
// once, and not for each of fifty reducers.
class ReducerLoops {
 public:
  struct Types {
    Compute in, out;
    int64_t inBytes, outBytes, accBytes, partBytes, givenBytes;  // of an element; givenBytes is 0 if none is given
  };
  explicit ReducerLoops(const Types& types) : types(types) {}
  const Types types;

  virtual void start(void* acc, int64_t n) const = 0;
  virtual void startParts(void* parts, int64_t n) const = 0;
  // Adds a run of 1 to 1024 elements to one.
  virtual void addRun(void* acc, const void* in, int64_t n, const void* given) const = 0;
  // Joins n elements into n parts.
  virtual void joinRow(void* parts, const void* in, int64_t n, const void* given) const = 0;
  virtual void addParts(void* acc, const void* parts, int64_t n) const = 0;
  virtual void finish(const void* acc, void* out, int64_t n, int64_t count) const = 0;
  // given[0], given[step], ...: n of them, and again, `fold` times.
  virtual void spreadGiven(void* into, const void* given, int64_t n, int64_t fold, int64_t step) const = 0;

 protected:
  ~ReducerLoops() = default;
};
// Reduces `in` over `dims` into the contiguous `out`; `given` has an element for each result.
void runReduction(const Tensor& in, DimSpan dims, const Tensor& out, const ReducerLoops& loops, const void* given);

template <class R>
class LoopsOf final : public ReducerLoops {
  using In = typename R::In;
  using Out = typename R::Out;
  using Acc = typename R::Acc;
  using Part = typename R::Part;
  using Given = typename GivenOf<R>::type;
  static constexpr bool kHasGiven = !std::is_same_v<Given, NoneGiven>;

 public:
  explicit LoopsOf(const R& reducer)
      : ReducerLoops({kComputeOf<In>, kComputeOf<Out>, sizeof(In), sizeof(Out), sizeof(Acc), sizeof(Part),
                      kHasGiven ? sizeof(Given) : 0}),
        reducer_(reducer) {}

  void start(void* acc, int64_t n) const override { std::fill_n(static_cast<Acc*>(acc), n, reducer_.start()); }
  void startParts(void* parts, int64_t n) const override {
    std::fill_n(static_cast<Part*>(parts), n, reducer_.startPart());
  }
  void addRun(void* acc, const void* in, int64_t n, const void* given) const override {
    auto* p = static_cast<const In*>(in);
    if constexpr (kHasGiven)
      reducer_.add(*static_cast<Acc*>(acc), reducer_.run(p, n, *static_cast<const Given*>(given)));
    else
      reducer_.add(*static_cast<Acc*>(acc), reducer_.run(p, n));
  }
  void joinRow(void* parts, const void* in, int64_t n, const void* given) const override {
    if constexpr (kHasGiven)
      reducer_.rows(static_cast<Part*>(parts), static_cast<const In*>(in), n, static_cast<const Given*>(given));
    else
      reducer_.rows(static_cast<Part*>(parts), static_cast<const In*>(in), n);
  }
  void addParts(void* acc, const void* parts, int64_t n) const override {
    for (int64_t k = 0; k < n; ++k) reducer_.add(static_cast<Acc*>(acc)[k], static_cast<const Part*>(parts)[k]);
  }
  void finish(const void* acc, void* out, int64_t n, int64_t count) const override {
    for (int64_t k = 0; k < n; ++k) static_cast<Out*>(out)[k] = reducer_.finish(static_cast<const Acc*>(acc)[k], count);
  }
  void spreadGiven(void* into, const void* given, int64_t n, int64_t fold, int64_t step) const override {
    if constexpr (kHasGiven)
      for (int64_t k = 0; k < n * fold; ++k)
        static_cast<Given*>(into)[k] = static_cast<const Given*>(given)[k % n * step];
  }

 private:
  const R& reducer_;
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
  runReduction(in, dims, out, LoopsOf<R>(reducer), given);
}

}  // namespace tscompile
