#include "runtime/reference/loops/loop.h"

#include "runtime/call/run_context.h"
#include "runtime/reference/loops/memory_format.h"
#include "runtime/reference/loops/numbers.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <optional>
#include <type_traits>

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

// The elements of operand k that the dimensions inside of `depth` and `rows` of that one tell, in their order.
template <class T>
void gather(const Nest& nest, int k, int depth, int64_t rows, const std::byte* from, std::byte* to) {
  auto sizeOf = [&](int d) { return d == depth ? rows : nest.size[d]; };
  const int64_t inner = sizeOf(0), step = nest.stride[0][k], runs = sizeOf(1), runStep = nest.stride[1][k];
  int64_t index[kMaxRank] = {};
  auto copyRuns = [&](auto length) {
    const std::byte* run = from;
    for (int64_t j = 0; j < runs; ++j, run += runStep)
      for (int64_t i = 0; i < length; ++i, to += sizeof(T)) std::memcpy(to, run + i * step, sizeof(T));
  };
  while (true) {
    // Of points, boxes, colours.
    if (inner == 2)
      copyRuns(std::integral_constant<int64_t, 2>());
    else if (inner == 3)
      copyRuns(std::integral_constant<int64_t, 3>());
    else
      copyRuns(inner);
    int d = 2;
    for (; d <= depth; ++d) {
      from += nest.stride[d][k];
      if (++index[d] < sizeOf(d)) break;
      from -= nest.stride[d][k] * index[d];
      index[d] = 0;
    }
    if (d > depth) return;
  }
}
using Gather = void (*)(const Nest&, int, int, int64_t, const std::byte*, std::byte*);
Gather gathererOf(size_t itemSize) {
  switch (itemSize) {
    case 1:
      return gather<uint8_t>;
    case 2:
      return gather<uint16_t>;
    case 4:
      return gather<uint32_t>;
    case 8:
      return gather<uint64_t>;
    default:
      return gather<std::complex<double>>;
  }
}

// Whether operand k goes on at one stride through the dimensions up to `depth`.
bool isRun(const Nest& nest, size_t k, int depth) {
  for (int d = 0; d < depth; ++d)
    if (nest.stride[d + 1][k] != nest.stride[d][k] * nest.size[d]) return false;
  return true;
}

// How many dimensions lie whole in a tile: none where runs are long. Outputs are written in one run.
int depthOf(const Nest& nest, int outputs) {
  constexpr int64_t kShort = kTile / 4;
  int depth = 0;
  for (int64_t count = nest.size[0]; depth + 1 < nest.rank && count <= kShort; count *= nest.size[depth]) ++depth;
  auto isWritten = [&] {
    for (int k = 0; k < outputs; ++k)
      if (!isRun(nest, static_cast<size_t>(k), depth)) return false;
    return true;
  };
  while (!isWritten()) --depth;
  return depth;
}

// The operands' conversions and buffers for one row of tiles after the other: a tile has some places of dimension
// `depth()` and all of those inside of it.
class Runner {
 public:
  Runner(std::span<const Operand> operands, int outputs, const Nest& nest, TileFunction f, const void* parameters)
      : count_(static_cast<int>(operands.size())),
        outputs_(outputs),
        depth_(depthOf(nest, outputs)),
        f_(f),
        nest_(nest) {
    for (int d = 0; d < depth_; ++d) inside_ *= nest.size[d];
    tile_.parameters = parameters;
    for (int k = 0; k < count_; ++k) {
      const Operand& o = operands[k];
      size_t size = computeSize(o.compute);
      cached_[k] = nullptr;
      gather_[k] = nullptr;
      const bool isOne = depth_ == 0 && nest.size[0] == 1;
      if (o.number) {
        direct_[k] = isOne;
        if (direct_[k]) continue;
        anyBuffer_ = true;
        load_[k] = repeater(size);
        continue;
      }
      const size_t stored = itemSize(o.tensor.dtype());
      const bool converts = !isStoredAs(o.tensor.dtype(), o.compute), run = isRun(nest, static_cast<size_t>(k), depth_);
      direct_[k] = !converts && ((run && nest.stride[0][k] == static_cast<int64_t>(size)) || isOne);
      if (direct_[k]) continue;
      anyBuffer_ = true;
      if (k < outputs) {
        store_[k] = tileStorer(o.compute, o.tensor.dtype());
        continue;
      }
      itemSize_[k] = static_cast<int64_t>(stored);
      if (!run) gather_[k] = gathererOf(stored);
      load_[k] = run || converts ? tileLoader(o.tensor.dtype(), o.compute) : nullptr;
    }
    // Tiles that need no buffer may be longer; they end now and then so that a run can be interrupted.
    step_ = (anyBuffer_ ? kTile : int64_t{1} << 14) / inside_;
  }

  int depth() const { return depth_; }
  int64_t elements() const { return inside_ * nest_.size[depth_]; }

  void run(std::byte* const* base) {
    const int64_t rows = nest_.size[depth_];
    for (int64_t at = 0; at < rows; at += step_) {
      const int64_t some = std::min(step_, rows - at);
      tile_.n = some * inside_;
      for (int k = 0; k < count_; ++k) {
        std::byte* p = base[k] + at * nest_.stride[depth_][k];
        if (direct_[k]) {
          tile_.operand[k] = p;
          continue;
        }
        tile_.operand[k] = buffer_[k];
        if (k >= outputs_) load(k, p, some);
      }
      f_(tile_);
      for (int k = 0; k < outputs_; ++k)
        if (!direct_[k]) store_[k](buffer_[k], base[k] + at * nest_.stride[depth_][k], nest_.stride[0][k], tile_.n);
    }
  }

 private:
  void load(int k, const std::byte* p, int64_t rows) {
    if (nest_.stride[depth_][k] == 0) {
      // The same for all rows: convert it once.
      if (cached_[k] == p && cachedCount_[k] >= tile_.n) return;
      cached_[k] = p;
      cachedCount_[k] = tile_.n;
    }
    if (!gather_[k]) return load_[k](p, nest_.stride[0][k], buffer_[k], tile_.n);
    gather_[k](nest_, k, depth_, rows, p, load_[k] ? raw_ : buffer_[k]);
    if (load_[k]) load_[k](raw_, itemSize_[k], buffer_[k], tile_.n);
  }

  int count_, outputs_, depth_;
  int64_t inside_ = 1;  // elements of the dimensions inside of `depth_`
  TileFunction f_;
  const Nest& nest_;
  Tile tile_;
  bool anyBuffer_ = false;
  int64_t step_;
  bool direct_[kMaxOperands];
  Gather gather_[kMaxOperands];  // of what is no run
  LoadTile load_[kMaxOperands];
  StoreTile store_[kMaxOperands];
  int64_t itemSize_[kMaxOperands];
  const std::byte* cached_[kMaxOperands];
  int64_t cachedCount_[kMaxOperands];
  static constexpr size_t kBytes = kTile * sizeof(std::complex<double>);
  alignas(64) std::byte buffer_[kMaxOperands][kBytes], raw_[kBytes];
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
    int d = runner.depth() + 1;
    for (; d < nest.rank; ++d) {
      for (int k = 0; k < count; ++k) base[k] += nest.stride[d][k];
      if (++index[d] < nest.size[d]) break;
      for (int k = 0; k < count; ++k) base[k] -= nest.stride[d][k] * nest.size[d];
      index[d] = 0;
    }
    if (d >= nest.rank) return;
    context.checkInterrupt(runner.elements());
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
