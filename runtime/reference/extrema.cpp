#include "runtime/reference/extrema.h"

namespace tscompile {
namespace {

template <class T, bool kLargest>
class ArgExtreme {
 public:
  ArgExtreme(const Tensor& in, int64_t dim, const Tensor& values, const Tensor& indices)
      : plan_(in, Dims{dim}),
        from_(in.raw()),
        indices_(indices.data<int64_t>()),
        load_(tileLoader(in.dtype(), kComputeOf<T>)),
        stored_(isStoredAs(in.dtype(), kComputeOf<T>)) {
    if (!values.defined()) return;
    values_ = values.raw();
    valueItem_ = static_cast<int64_t>(itemSize(values.dtype()));
    store_ = tileStorer(kComputeOf<T>, values.dtype());
  }

  void run() {
    if (plan_.keptCount == 0) return;
    // Positions of rows are counted in 32 bits.
    if (plan_.alongRuns || plan_.reducedCount > INT32_MAX)
      runs();
    else
      rows();
  }

 private:
  static constexpr int64_t kWidth = 256;
  using Index = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;

  // Looks for the extreme of a block first: that is fast, and few blocks change the result.
  void searchBlock(const T* p, int64_t n, int64_t at, T& best, int64_t& index) const {
    T found = extreme_.run(p, n);
    if (!beats<kLargest>(found, best)) return;
    int64_t i = 0;
    if (found == found)
      while (p[i] != found) ++i;
    else
      while (p[i] == p[i]) ++i;
    best = found;
    index = at + i;
  }

  void runs() {
    RunContext& context = RunContext::current();
    ReducePlan::Dimension run = plan_.reduced.back();
    bool direct = stored_ && run.stride == static_cast<int64_t>(sizeof(T));
    walkPairs(plan_.kept, plan_.results, [&](int64_t at, int64_t result) {
      const std::byte* p = from_ + at;
      T best;
      int64_t index = 0;
      load_(p, 0, &best, 1);
      for (int64_t i = 0; i < run.size; i += kTile) {
        int64_t n = std::min(kTile, run.size - i);
        const T* block = reinterpret_cast<const T*>(p) + i;
        if (!direct) {
          load_(p + i * run.stride, run.stride, buffer_, n);
          block = buffer_;
        }
        searchBlock(block, n, i, best, index);
        context.checkInterrupt(n);
      }
      put(result, 1, 1, &best, &index);
    });
  }

  void rows() {
    RunContext& context = RunContext::current();
    ReducePlan::Dimension row = plan_.kept.back(), down = plan_.reduced.back();
    int64_t step = plan_.results.back().stride;
    bool direct = stored_ && row.stride == static_cast<int64_t>(sizeof(T));
    std::span<const ReducePlan::Dimension> outer(plan_.kept.data(), plan_.kept.size() - 1);
    std::span<const ReducePlan::Dimension> outerResults(plan_.results.data(), plan_.results.size() - 1);
    T best[kWidth];
    Index index[kWidth];
    walkPairs(outer, outerResults, [&](int64_t at, int64_t result) {
      for (int64_t i = 0; i < row.size; i += kWidth) {
        int64_t n = std::min(kWidth, row.size - i);
        const std::byte* p = from_ + at + i * row.stride;
        load_(p, row.stride, best, n);
        std::fill_n(index, n, 0);
        for (int64_t r = 1; r < down.size; ++r) {
          const T* in = reinterpret_cast<const T*>(p + r * down.stride);
          if (!direct) {
            load_(p + r * down.stride, row.stride, buffer_, n);
            in = buffer_;
          }
          joinRow(best, index, in, static_cast<Index>(r), n);
          context.checkInterrupt(n);
        }
        put(result + i * step, step, n, best, index);
        context.checkInterrupt(n);
      }
    });
  }
  static void joinRow(T* best, Index* index, const T* in, Index r, int64_t n) {
    for (int64_t k = 0; k < n; ++k) {
      bool more = beats<kLargest>(in[k], best[k]);
      best[k] = more ? in[k] : best[k];
      index[k] = more ? r : index[k];
    }
  }

  template <class I>
  void put(int64_t result, int64_t step, int64_t n, const T* best, const I* index) {
    for (int64_t k = 0; k < n; ++k) indices_[result + k * step] = index[k];
    if (values_) store_(best, values_ + result * valueItem_, step * valueItem_, n);
  }

  Extreme<T, kLargest> extreme_;
  ReducePlan plan_;
  const std::byte* from_;
  int64_t* indices_;
  LoadTile load_;
  bool stored_;
  std::byte* values_ = nullptr;
  int64_t valueItem_ = 0;
  StoreTile store_ = nullptr;
  T buffer_[kTile];
};

}  // namespace

void argExtreme(const Tensor& in, int64_t dim, bool largest, const Tensor& values, const Tensor& indices) {
  withRealCompute(in.dtype(), [&](auto sample) {
    using T = decltype(sample);
    if (largest)
      ArgExtreme<T, true>(in, dim, values, indices).run();
    else
      ArgExtreme<T, false>(in, dim, values, indices).run();
  });
}

}  // namespace tscompile
