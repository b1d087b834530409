#include "runtime/reference/indexing.h"

#include "runtime/call/overlap.h"
#include "runtime/call/owned_argument.h"
#include "runtime/reference/extrema.h"
#include "runtime/reference/loops/copy.h"
#include "runtime/reference/loops/loop.h"
#include "runtime/reference/loops/numbers.h"
#include "runtime/reference/views.h"

#include <array>
#include <cstring>

namespace tscompile {
namespace {

using Dimension = ReducePlan::Dimension;
using Dimensions = SmallVector<Dimension, 6>;

// Calls f with a value of a type of `item` bytes: copies do not look at elements.
template <class F>
void withItem(size_t item, F&& f) {
  switch (item) {
    case 1:
      return f(uint8_t{});
    case 2:
      return f(uint16_t{});
    case 4:
      return f(uint32_t{});
    case 8:
      return f(uint64_t{});
    default:
      return f(std::array<uint64_t, 2>{});
  }
}

// ---- what an update means ----

template <Update kHow, class T>
T updated(T old, T v) {
  if constexpr (kHow == Update::Assign) {
    return v;
  } else if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
    return T(updated<kHow>(static_cast<float>(old), static_cast<float>(v)));
  } else if constexpr (kHow == Update::Max || kHow == Update::Min) {
    return beats<kHow == Update::Max>(v, old) ? v : old;
  } else if constexpr (std::is_same_v<T, bool>) {
    return kHow == Update::Add ? old | v : old & v;
  } else if constexpr (std::is_integral_v<T>) {
    auto a = static_cast<uint64_t>(old), b = static_cast<uint64_t>(v);
    return static_cast<T>(kHow == Update::Add ? a + b : a * b);
  } else {
    return kHow == Update::Add ? old + v : old * v;
  }
}

// Calls f with a constant of type Update and a value of the stored type; assignments copy items of the same size.
template <class F>
void withUpdate(Update how, DType dtype, F&& f) {
  if (how == Update::Assign)
    return withItem(itemSize(dtype), [&](auto sample) { f(std::integral_constant<Update, Update::Assign>(), sample); });
  bool done = visitDType(dtype, [&](auto sample) {
    if (how == Update::Add) return f(std::integral_constant<Update, Update::Add>(), sample);
    if (how == Update::Multiply) return f(std::integral_constant<Update, Update::Multiply>(), sample);
    using T = decltype(sample);
    if constexpr (std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>)
      throw ExecutionError(ErrorKind::Unsupported, "complex numbers have no order");
    else if (how == Update::Max)
      f(std::integral_constant<Update, Update::Max>(), sample);
    else
      f(std::integral_constant<Update, Update::Min>(), sample);
  });
  TS_CHECK(done);
}

// ---- blocks ----

// Calls run(p) for every run along the last dimension of the block at `base`.
template <class Run>
void forRuns(const Dimensions& block, std::byte* base, Run&& run) {
  if (block.size() == 1) return run(base);
  walk(std::span<const Dimension>(block.data(), block.size() - 1), [&](int64_t at) { run(base + at); });
}

bool isEmpty(const Dimensions& dimensions) {
  for (const Dimension& d : dimensions)
    if (d.size == 0) return true;
  return false;
}

template <class T>
void gather(const IndexedView& from, std::span<const int64_t> offsets, std::byte* to) {
  Dimension run = from.inner.back();
  RunContext& context = RunContext::current();
  bool single = from.inner.size() == 1 && run.size == 1, contiguous = run.stride == static_cast<int64_t>(sizeof(T));
  auto bytes = run.size * static_cast<int64_t>(sizeof(T));
  walk(from.outer, [&](int64_t outer) {
    std::byte* base = from.data + outer;
    if (single) {
      T* out = reinterpret_cast<T*>(to);
      for (size_t i = 0; i < offsets.size(); ++i) out[i] = *reinterpret_cast<const T*>(base + offsets[i]);
      to += offsets.size_bytes() / sizeof(int64_t) * sizeof(T);
      return context.checkInterrupt(static_cast<int64_t>(offsets.size()));
    }
    for (int64_t offset : offsets) {
      forRuns(from.inner, base + offset, [&](const std::byte* p) {
        if (contiguous)
          std::memcpy(to, p, static_cast<size_t>(bytes));
        else
          for (int64_t k = 0; k < run.size; ++k)
            reinterpret_cast<T*>(to)[k] = *reinterpret_cast<const T*>(p + k * run.stride);
        to += bytes;
      });
      context.checkInterrupt(run.size);
    }
  });
}

template <Update kHow, class T>
void update(const IndexedView& to, std::span<const int64_t> offsets, const std::byte* source, bool one) {
  const T* from = reinterpret_cast<const T*>(source);
  Dimension run = to.inner.back();
  int64_t step = one ? 0 : 1;
  RunContext& context = RunContext::current();
  walk(to.outer, [&](int64_t outer) {
    for (int64_t offset : offsets) {
      forRuns(to.inner, to.data + outer + offset, [&](std::byte* p) {
        if (kHow == Update::Assign && !one && run.stride == static_cast<int64_t>(sizeof(T))) {
          std::memcpy(p, from, static_cast<size_t>(run.size) * sizeof(T));
        } else {
          for (int64_t k = 0; k < run.size; ++k) {
            T& element = *reinterpret_cast<T*>(p + k * run.stride);
            element = updated<kHow>(element, from[k * step]);
          }
        }
        from += run.size * step;
      });
      context.checkInterrupt(run.size);
    }
  });
}

// ---- elements ----

// One dimension of a walk through an index tensor, the tensor that it indexes, and one that lies beside the index.
struct IndexDimension {
  int64_t size, index, indexed, beside;  // strides in bytes
};

// The dimensions of `index` with more than one element; merged where all three tensors continue.
SmallVector<IndexDimension, 6> indexDimensions(const Tensor& index, const Tensor& indexed, const Tensor& beside,
                                               int64_t dim) {
  SmallVector<IndexDimension, 6> out;
  auto item = static_cast<int64_t>(itemSize(indexed.dtype()));
  for (int d = 0; d < index.rank(); ++d) {
    if (index.size(d) == 1) continue;
    IndexDimension next{index.size(d), index.stride(d) * 8, d == dim ? 0 : indexed.stride(d) * item,
                        beside.stride(d) * item};
    auto continues = [&](int64_t IndexDimension::*stride) { return out.back().*stride == next.*stride * next.size; };
    if (!out.empty() && continues(&IndexDimension::index) && continues(&IndexDimension::indexed) &&
        continues(&IndexDimension::beside)) {
      next.size *= out.back().size;
      out.pop_back();
    }
    out.push_back(next);
  }
  if (out.empty()) out.push_back({1, 0, 0, 0});
  return out;
}

// Calls run(index, indexed, beside) with byte offsets for every run along the last dimension.
template <class Run>
void walkIndices(std::span<const IndexDimension> dimensions, Run&& run) {
  int64_t at[kMaxRank] = {};
  int64_t index = 0, indexed = 0, beside = 0;
  RunContext& context = RunContext::current();
  while (true) {
    run(index, indexed, beside);
    context.checkInterrupt(dimensions.back().size);
    auto d = static_cast<int64_t>(dimensions.size()) - 2;
    for (; d >= 0; --d) {
      const IndexDimension& dim = dimensions[static_cast<size_t>(d)];
      index += dim.index, indexed += dim.indexed, beside += dim.beside;
      if (++at[d] < dim.size) break;
      index -= dim.index * dim.size, indexed -= dim.indexed * dim.size, beside -= dim.beside * dim.size;
      at[d] = 0;
    }
    if (d < 0) return;
  }
}

// Calls element(indexed, beside) for every index, with pointers to T.
template <class T, class Element>
void forIndices(const Tensor& index, const Tensor& indexed, const Tensor& beside, int64_t dim, Element&& element) {
  if (index.numel() == 0) return;
  auto dimensions = indexDimensions(index, indexed, beside, dim);
  IndexDimension run = dimensions.back();
  int64_t size = indexed.rank() ? indexed.size(static_cast<int>(dim)) : 1;
  int64_t stride = indexed.rank() ? indexed.stride(static_cast<int>(dim)) * static_cast<int64_t>(sizeof(T)) : 0;
  walkIndices(dimensions, [&](int64_t i, int64_t at, int64_t b) {
    const std::byte* indices = index.raw() + i;
    std::byte *to = indexed.raw() + at, *other = beside.raw() + b;
    for (int64_t k = 0; k < run.size; ++k) {
      int64_t where = checkedIndex(*reinterpret_cast<const int64_t*>(indices + k * run.index), size, dim, false);
      element(*reinterpret_cast<T*>(to + k * run.indexed + where * stride),
              *reinterpret_cast<T*>(other + k * run.beside));
    }
  });
}

}  // namespace

IndexedView::IndexedView(const Tensor& t, int first, int count) : data(t.raw()), dtype(t.dtype()) {
  auto item = static_cast<int64_t>(itemSize(dtype));
  for (int d = 0; d < t.rank(); ++d) {
    if (d >= first && d < first + count) continue;
    auto& list = d < first ? outer : inner;
    Dimension next{t.size(d), t.stride(d) * item};
    if (next.size == 1) continue;
    if (!list.empty() && list.back().stride == next.stride * next.size && next.size != 0) {
      next.size *= list.back().size;
      list.pop_back();
    }
    list.push_back(next);
  }
  if (outer.empty()) outer.push_back({1, 0});
  if (inner.empty()) inner.push_back({1, item});
}

void gatherBlocks(const IndexedView& from, std::span<const int64_t> offsets, const Tensor& to) {
  if (isEmpty(from.outer) || isEmpty(from.inner)) return;
  withItem(itemSize(from.dtype), [&](auto sample) { gather<decltype(sample)>(from, offsets, to.raw()); });
}

void updateBlocks(const IndexedView& to, std::span<const int64_t> offsets, const Tensor& from, Update how) {
  if (isEmpty(to.outer) || isEmpty(to.inner) || offsets.empty()) return;
  bool one = from.numel() == 1;
  withUpdate(how, to.dtype, [&](auto constant, auto sample) {
    update<decltype(constant)::value, decltype(sample)>(to, offsets, from.raw(), one);
  });
}

void gatherElements(const Tensor& out, const Tensor& from, int64_t dim, const Tensor& index) {
  withItem(itemSize(from.dtype()), [&](auto sample) {
    using T = decltype(sample);
    forIndices<T>(index, from, out, dim, [](const T& element, T& beside) { beside = element; });
  });
}

void updateElements(const Tensor& to, int64_t dim, const Tensor& index, const Tensor& from, Update how) {
  withUpdate(how, to.dtype(), [&](auto constant, auto sample) {
    using T = decltype(sample);
    forIndices<T>(index, to, from, dim,
                  [](T& element, const T& beside) { element = updated<decltype(constant)::value>(element, beside); });
  });
}

// ---- rules ----

JoinRule::JoinRule(const KernelCall& call, const std::string& name, bool allowSum)
    : how_(name == "prod"   ? Update::Multiply
           : name == "amax" ? Update::Max
           : name == "amin" ? Update::Min
                            : Update::Add),
      isMean_(name == "mean") {
  bool known = how_ != Update::Add || isMean_ || (allowSum && name == "sum");
  call.require(known, "reduce must be {}prod, mean, amax or amin, not '{}'", allowSum ? "sum, " : "", name);
}

Tensor JoinRule::neutral(DType dtype, DimSpan sizes) const {
  Tensor element = Tensor::empty(dtype, {});
  visitDType(dtype, [&](auto sample) {
    using T = decltype(sample);
    auto put = [&](auto v) { *element.data<T>() = static_cast<T>(v); };
    using Limits = std::numeric_limits<std::conditional_t<std::is_integral_v<T>, T, float>>;
    bool isMax = how_ == Update::Max;
    if (how_ == Update::Add || how_ == Update::Multiply)
      put(how_ == Update::Add ? 0.0f : 1.0f);
    else if constexpr (std::is_integral_v<T>)
      put(isMax ? Limits::lowest() : Limits::max());
    else
      put(isMax ? -Limits::infinity() : Limits::infinity());
  });
  return expandedTo(element, sizes);
}

Tensor JoinRule::ones(DimSpan sizes) { return expandedTo(scalarTensor(IValue(int64_t{1})), sizes); }

namespace {

template <class T>
void divideTile(const Tile& t) {
  auto* out = static_cast<T*>(t.operand[0]);
  auto* a = static_cast<const T*>(t.operand[1]);
  auto* b = static_cast<const T*>(t.operand[2]);
  for (int64_t i = 0; i < t.n; ++i) {
    if constexpr (std::is_same_v<T, int64_t>)
      out[i] = floorDiv(a[i], b[i]);
    else
      out[i] = a[i] / b[i];
  }
}

}  // namespace

void JoinRule::divide(const Tensor& self, const Tensor& counts, bool includeSelf) {
  // Places that nothing fell on stay as they are.
  int64_t* n = counts.data<int64_t>();
  for (int64_t i = 0; i < counts.numel(); ++i) n[i] = includeSelf ? n[i] + 1 : std::max<int64_t>(n[i], 1);
  withCompute(self.dtype(), [&](auto sample) {
    using T = decltype(sample);
    Operand operands[] = {{self, kComputeOf<T>}, {self, kComputeOf<T>}, {counts, kComputeOf<T>}};
    loopTiles(self.sizes(), operands, 1, divideTile<T>);
  });
}

// ---- results ----

Tensor sourceFor(const KernelCall& call, const Tensor& out, const Tensor& source) {
  const bool same = out.impl() == source.impl();
  if (!same && !boundsOverlap(out, source)) return source;
  call.require(!same && !memoryOverlaps(out, source), "{}", kOverlapRefused);
  return cloneTensor(source);
}

Tensor updatedSelf(KernelCall& call, Repeats repeats) {
  if (call.isInPlace() && repeats == Repeats::Refused) return call.out();
  const bool isWritten = call.isInPlace() || OwnedArgument::canBecomeResult(call.argument(0));
  Tensor self = isWritten ? call.tensor(0) : cloneTensor(call.tensor(0));
  call.setResult(self);
  return self;
}

Tensor updatedRows(KernelCall& call) {
  if (call.isInPlace() || OwnedArgument::canBecomeResult(call.argument(0))) return updatedSelf(call);
  const Tensor self = call.tensor(0), copy = Tensor::empty(self.dtype(), self.sizes());
  copyTensor(copy, self);
  call.setResult(copy);
  return copy;
}

}  // namespace tscompile
