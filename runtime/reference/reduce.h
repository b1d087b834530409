// Reductions over some dimensions, in compute types, for tensors of any dtype and strides.
#pragma once

#include <type_traits>

#include "ir/tensor.h"
#include "runtime/reference/loop.h"
#include "runtime/run_context.h"

namespace tscompile {

// The dimensions of an input, sorted for a reduction: those that are kept, in their order, and those that are reduced.
struct ReducePlan {
  ReducePlan(const Tensor& in, DimSpan reduced);
  struct Dimension {
    int64_t size, stride;  // bytes
  };
  SmallVector<Dimension, 6> kept, reduced;  // outermost first
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

// Reduces `in` over `dims` into `out`, whose elements are the results in row-major order of the kept dimensions.
//
// A reducer has `In`, `Out` (compute types) and `Acc`, and
//   Acc start() const;
//   Acc run(const In* p, int64_t n) const;                      // of a run
//   void add(Acc& into, const Acc& part) const;                 // joins two accumulators
//   void rows(Acc* into, const In* row, int64_t n) const;       // joins one element into each of n accumulators
//   Out finish(const Acc& acc, int64_t count) const;
template <class R>
void reduceInto(const Tensor& in, DimSpan dims, const Tensor& out, const R& reducer) {
  using In = typename R::In;
  using Out = typename R::Out;
  using Acc = typename R::Acc;
  ReducePlan plan(in, dims);
  RunContext& context = RunContext::current();
  StoreTile store = tileStorer(kComputeOf<Out>, out.dtype());
  auto outStride = static_cast<int64_t>(itemSize(out.dtype()));
  std::byte* to = out.raw();
  LoadTile load = tileLoader(in.dtype(), kComputeOf<In>);
  bool stored = isStoredAs(in.dtype(), kComputeOf<In>);
  if (plan.keptCount == 0) return;
  if (plan.reducedCount == 0) {
    Out v = reducer.finish(reducer.start(), 0);
    for (int64_t i = 0; i < plan.keptCount; ++i, to += outStride) store(&v, to, outStride, 1);
    return;
  }

  if (plan.alongRuns) {
    // Runs along the innermost reduced dimension.
    ReducePlan::Dimension run = plan.reduced.back();
    std::span<const ReducePlan::Dimension> outer(plan.reduced.data(), plan.reduced.size() - 1);
    bool direct = stored && run.stride == static_cast<int64_t>(sizeof(In));
    In buffer[kTile];
    walk(plan.kept, [&](int64_t at) {
      Acc acc = reducer.start();
      walk(outer, [&](int64_t inner) {
        const std::byte* p = in.raw() + at + inner;
        if (direct) {
          reducer.add(acc, reducer.run(reinterpret_cast<const In*>(p), run.size));
          return;
        }
        for (int64_t i = 0; i < run.size; i += kTile) {
          int64_t n = std::min(kTile, run.size - i);
          load(p + i * run.stride, run.stride, buffer, n);
          reducer.add(acc, reducer.run(buffer, n));
        }
      });
      Out v = reducer.finish(acc, plan.reducedCount);
      store(&v, to, outStride, 1);
      to += outStride;
      context.checkInterrupt(plan.reducedCount);
    });
    return;
  }

  // Rows along the innermost kept dimension, joined one after the other; in blocks, so that long sums stay accurate.
  constexpr int64_t kWidth = 128, kBlock = 256;
  ReducePlan::Dimension row = plan.kept.back();
  std::span<const ReducePlan::Dimension> outer(plan.kept.data(), plan.kept.size() - 1);
  bool direct = stored && row.stride == static_cast<int64_t>(sizeof(In));
  In buffer[kWidth];
  Acc total[kWidth], block[kWidth];
  Out results[kWidth];
  walk(outer, [&](int64_t at) {
    for (int64_t i = 0; i < row.size; i += kWidth) {
      int64_t n = std::min(kWidth, row.size - i), rows = 0;
      for (int64_t k = 0; k < n; ++k) total[k] = block[k] = reducer.start();
      walk(plan.reduced, [&](int64_t inner) {
        const std::byte* p = in.raw() + at + inner + i * row.stride;
        if (direct) {
          reducer.rows(block, reinterpret_cast<const In*>(p), n);
        } else {
          load(p, row.stride, buffer, n);
          reducer.rows(block, buffer, n);
        }
        if (++rows == kBlock) {
          for (int64_t k = 0; k < n; ++k) {
            reducer.add(total[k], block[k]);
            block[k] = reducer.start();
          }
          rows = 0;
        }
      });
      for (int64_t k = 0; k < n; ++k) {
        reducer.add(total[k], block[k]);
        results[k] = reducer.finish(total[k], plan.reducedCount);
      }
      store(results, to, outStride, n);
      to += n * outStride;
      context.checkInterrupt(plan.reducedCount * n);
    }
  });
}

}  // namespace tscompile
