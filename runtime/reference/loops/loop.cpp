#include "runtime/reference/loops/loop.h"

#include "runtime/call/run_context.h"
#include "runtime/reference/loops/memory_format.h"
#include "runtime/reference/loops/numbers.h"

#include <algorithm>
#include <functional>
#include <optional>

namespace tscompile {
namespace {

// Dimensions of a loop, innermost first, with the byte strides of every operand.
struct Nest {
  int rank = 0;
  int64_t size[kMaxRank];
  int64_t stride[kMaxRank][kMaxOperands];
};

// Contiguous tensors and single elements are one run, whatever their sizes: the most frequent case by far.
bool makeRun(int64_t numel, std::span<const Operand> operands, Nest& nest) {
  for (size_t k = 0; k < operands.size(); ++k) {
    const Operand& o = operands[k];
    if (o.number || o.tensor.numel() == 1)
      nest.stride[0][k] = 0;
    else if (o.tensor.isContiguous() && o.tensor.numel() == numel)
      nest.stride[0][k] = static_cast<int64_t>(itemSize(o.tensor.dtype()));
    else
      return false;
  }
  nest.rank = 1;
  nest.size[0] = numel;
  return true;
}

void makeNest(DimSpan sizes, std::span<const Operand> operands, Nest& nest) {
  int count = static_cast<int>(operands.size());
  // Dimensions of size 1 do not matter; the others from the innermost of the first output outwards.
  int64_t order[kMaxRank];
  int rank = 0;
  for (int d = static_cast<int>(sizes.size()); d-- > 0;)
    if (sizes[d] != 1) order[rank++] = d;
  auto strideOf = [&](int k, int64_t d) -> int64_t {
    if (operands[k].number) return 0;
    const Tensor& t = operands[k].tensor;
    int64_t own = d - (static_cast<int64_t>(sizes.size()) - t.rank());
    if (own < 0 || t.size(static_cast<int>(own)) == 1) return 0;
    return t.stride(static_cast<int>(own)) * static_cast<int64_t>(itemSize(t.dtype()));
  };
  if (rank > 1) {
    std::stable_sort(order, order + rank, [&](int64_t a, int64_t b) {
      for (int k = 0; k < count; ++k) {
        int64_t x = std::abs(strideOf(k, a)), y = std::abs(strideOf(k, b));
        if (x == 0 || y == 0 || x == y) continue;
        return x < y;
      }
      return false;
    });
  }
  nest.rank = 0;
  for (int i = 0; i < rank; ++i) {
    int64_t d = order[i];
    int r = nest.rank;
    for (int k = 0; k < count; ++k) nest.stride[r][k] = strideOf(k, d);
    nest.size[r] = sizes[d];
    // Merge with the dimension inside if every operand goes on where that ends.
    bool merges = r > 0;
    for (int k = 0; merges && k < count; ++k) merges = nest.stride[r][k] == nest.stride[r - 1][k] * nest.size[r - 1];
    if (merges)
      nest.size[r - 1] *= nest.size[r];
    else
      ++nest.rank;
  }
  if (nest.rank == 0) {
    nest.rank = 1;
    nest.size[0] = 1;
    for (int k = 0; k < count; ++k) nest.stride[0][k] = 0;
  }
}

template <class T>
void repeat(const std::byte* from, int64_t, void* to, int64_t n) {
  std::fill_n(static_cast<T*>(to), n, *reinterpret_cast<const T*>(from));
}
// Fills a run with one value of a compute type.
LoadTile repeater(size_t size) {
  switch (size) {
    case 1:
      return repeat<uint8_t>;
    case 4:
      return repeat<uint32_t>;
    case 8:
      return repeat<uint64_t>;
    default:
      return repeat<std::complex<double>>;
  }
}

// The operands' conversions and buffers for one inner run after the other.
class Runner {
 public:
  Runner(std::span<const Operand> operands, int outputs, const Nest& nest, TileFunction f, const void* parameters)
      : count_(static_cast<int>(operands.size())), outputs_(outputs), f_(f), nest_(nest) {
    tile_.parameters = parameters;
    for (int k = 0; k < count_; ++k) {
      const Operand& o = operands[k];
      size_t size = computeSize(o.compute);
      cached_[k] = nullptr;
      if (o.number) {
        direct_[k] = nest.size[0] == 1;
        if (direct_[k]) continue;
        anyBuffer_ = true;
        load_[k] = repeater(size);
        continue;
      }
      bool direct = isStoredAs(o.tensor.dtype(), o.compute) &&
                    (nest.stride[0][k] == static_cast<int64_t>(size) || nest.size[0] == 1);
      direct_[k] = direct;
      if (direct) continue;
      anyBuffer_ = true;
      if (k < outputs) {
        store_[k] = tileStorer(o.compute, o.tensor.dtype());
      } else {
        load_[k] = tileLoader(o.tensor.dtype(), o.compute);
      }
    }
    // Tiles that need no buffer may be longer; they end now and then so that a run can be interrupted.
    step_ = anyBuffer_ ? kTile : int64_t{1} << 14;
  }

  void run(std::byte* const* base) {
    int64_t n = nest_.size[0];
    for (int64_t at = 0; at < n; at += step_) {
      tile_.n = std::min(step_, n - at);
      for (int k = 0; k < count_; ++k) {
        std::byte* p = base[k] + at * nest_.stride[0][k];
        if (direct_[k]) {
          tile_.operand[k] = p;
          continue;
        }
        tile_.operand[k] = buffer_[k];
        if (k < outputs_) continue;
        if (nest_.stride[0][k] == 0) {
          // One element for the whole run: convert it once.
          if (cached_[k] == p && cachedCount_[k] >= tile_.n) continue;
          cached_[k] = p;
          cachedCount_[k] = tile_.n;
        }
        load_[k](p, nest_.stride[0][k], buffer_[k], tile_.n);
      }
      f_(tile_);
      for (int k = 0; k < outputs_; ++k)
        if (!direct_[k]) store_[k](buffer_[k], base[k] + at * nest_.stride[0][k], nest_.stride[0][k], tile_.n);
    }
  }

 private:
  int count_, outputs_;
  TileFunction f_;
  const Nest& nest_;
  Tile tile_;
  bool anyBuffer_ = false;
  int64_t step_;
  bool direct_[kMaxOperands];
  LoadTile load_[kMaxOperands];
  StoreTile store_[kMaxOperands];
  const std::byte* cached_[kMaxOperands];
  int64_t cachedCount_[kMaxOperands];
  alignas(64) std::byte buffer_[kMaxOperands][kTile * sizeof(std::complex<double>)];
};

}  // namespace

void loopTiles(DimSpan sizes, std::span<const Operand> operands, int outputs, TileFunction f, const void* parameters) {
  for (int64_t s : sizes)
    if (s == 0) return;
  int64_t numel = outputs ? operands[0].tensor.numel() : checkedNumel(sizes).value();
  Nest nest;
  if (!makeRun(numel, operands, nest)) makeNest(sizes, operands, nest);
  std::byte* base[kMaxOperands];
  for (size_t k = 0; k < operands.size(); ++k) {
    if (!operands[k].number) requireElements(operands[k].tensor);
    base[k] =
        operands[k].number ? static_cast<std::byte*>(const_cast<void*>(operands[k].number)) : operands[k].tensor.raw();
  }
  int count = static_cast<int>(operands.size());
  Runner runner(operands, outputs, nest, f, parameters);
  RunContext& context = RunContext::current();

  int64_t index[kMaxRank] = {};
  while (true) {
    runner.run(base);
    int d = 1;
    for (; d < nest.rank; ++d) {
      for (int k = 0; k < count; ++k) base[k] += nest.stride[d][k];
      if (++index[d] < nest.size[d]) break;
      for (int k = 0; k < count; ++k) base[k] -= nest.stride[d][k] * nest.size[d];
      index[d] = 0;
    }
    if (d >= nest.rank) return;
    context.checkInterrupt(nest.size[0]);
  }
}

namespace {

// Where all inputs have the shape of the output and one dense layout, that is the output's too.
std::optional<Dims> commonStrides(DimSpan sizes, std::span<const Tensor* const> inputs) {
  bool contiguous = true, channelsLast = true, sameStrides = true;
  for (const Tensor* t : inputs) {
    if (!std::equal(sizes.begin(), sizes.end(), t->sizes().begin(), t->sizes().end())) return std::nullopt;
    contiguous = contiguous && t->isContiguous();
    channelsLast = channelsLast && isContiguousIn(*t, MemoryFormat::ChannelsLast);
    sameStrides = sameStrides && isNonOverlappingAndDense(sizes, t->strides()) &&
                  std::equal(t->strides().begin(), t->strides().end(), inputs[0]->strides().begin());
  }
  if (contiguous) return contiguousStrides(sizes);
  if (channelsLast) return formatStrides(sizes, MemoryFormat::ChannelsLast);
  if (sameStrides) return Dims(inputs[0]->strides());
  return std::nullopt;
}

}  // namespace

Dims elementwiseStrides(DimSpan sizes, std::span<const Tensor* const> inputs) {
  if (sizes.size() < 2) return contiguousStrides(sizes);
  if (std::optional<Dims> strides = commonStrides(sizes, inputs)) return *strides;

  auto rank = static_cast<int64_t>(sizes.size());
  auto strideOf = [&](const Tensor* t, int64_t d) -> int64_t {
    int64_t own = d - (rank - t->rank());
    if (own < 0 || (t->sizes()[own] == 1 && sizes[d] != 1)) return 0;
    return t->strides()[own];
  };
  Dims order = sortDimensions(sizes.size(), [&](int64_t a, int64_t b) {
    for (const Tensor* t : inputs) {
      int64_t x = strideOf(t, a), y = strideOf(t, b);
      if (x == 0 || y == 0) continue;
      if (x != y) return x < y ? -1 : 1;
      if (sizes[a] > sizes[b]) return 1;
    }
    return 0;
  });
  if (std::is_sorted(order.begin(), order.end(), std::greater<>())) return contiguousStrides(sizes);
  Dims strides(sizes.size());
  int64_t step = 1;
  for (int64_t d : order) {
    strides[d] = step;
    step = wrapMul(step, sizes[d]);  // wraps only where the output is empty
  }
  return strides;
}

}  // namespace tscompile
