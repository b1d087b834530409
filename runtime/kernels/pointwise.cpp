#include "runtime/kernels/pointwise.h"

#include "ir/support/small_vector.h"
#include "runtime/call/scratch.h"
#include "runtime/call/thread_pool.h"
#include "runtime/kernels/pointwise_ops.h"
#include "runtime/kernels/spaced.h"
#include "runtime/kernels/wide_ops.h"

#include <algorithm>
#include <cstring>

namespace tscompile {
namespace {

// Programs compute on floats or wide numbers; those of logic on bool alone compute on its bytes.
using Byte = uint8_t;
constexpr int64_t kTileBytes = 4096;
template <class T>
constexpr int64_t kTile = kTileBytes / static_cast<int64_t>(sizeof(T));
constexpr int64_t kChunkTiles = 16;

// An input with the dimensions that it does not walk through as one.
struct View {
  const char* data;
  DType type;
  SmallVector<int64_t, 6> dims, strides;
  bool isContiguous() const { return dims.empty() || (dims.size() == 1 && strides[0] == 1); }
  bool isConstant() const { return dims.empty() || (dims.size() == 1 && strides[0] == 0); }
};

struct Run {
  const PointwiseProgram& program;
  std::vector<View> inputs;
  std::span<void* const> outputs;
  int64_t count = 1;
};

void setDims(View& view, std::span<const int64_t> dims, std::span<const int64_t> strides) {
  for (size_t d = 0; d < dims.size(); ++d) {
    if (dims[d] == 1) continue;
    const bool merges = !view.dims.empty() && view.strides.back() == strides[d] * dims[d];
    if (merges) {
      view.dims.back() *= dims[d];
      view.strides.back() = strides[d];
    } else {
      view.dims.push_back(dims[d]);
      view.strides.push_back(strides[d]);
    }
  }
}

void loadRun(DType, const char* from, int64_t stride, int64_t count, Byte* to) {
  if (stride == 1)
    std::memcpy(to, from, static_cast<size_t>(count));
  else
    for (int64_t i = 0; i < count; ++i) to[i] = static_cast<Byte>(from[i * stride]);
}
template <class From, class T>
void loadWide(const char* from, int64_t stride, int64_t count, T* to) {
  const auto* values = reinterpret_cast<const From*>(from);
  if (stride == 1)
    for (int64_t i = 0; i < count; ++i) to[i] = static_cast<T>(values[i]);
  else if (stride == 0)
    std::fill_n(to, count, static_cast<T>(*values));
  else
    for (int64_t i = 0; i < count; ++i) to[i] = static_cast<T>(values[i * stride]);
}
// Of int64_t and double.
template <class T>
void loadRun(DType type, const char* from, int64_t stride, int64_t count, T* to) {
  switch (type) {
    case DType::Bool:
      return loadWide<bool>(from, stride, count, to);
    case DType::UInt8:
      return loadWide<uint8_t>(from, stride, count, to);
    case DType::Int8:
      return loadWide<int8_t>(from, stride, count, to);
    case DType::Int16:
      return loadWide<int16_t>(from, stride, count, to);
    case DType::Int32:
      return loadWide<int32_t>(from, stride, count, to);
    case DType::Float64:
      return loadWide<double>(from, stride, count, to);
    default:
      return loadWide<int64_t>(from, stride, count, to);
  }
}
template <class To, class T>
void storeWide(const T* from, int64_t count, void* to) {
  auto* values = static_cast<To*>(to);
  for (int64_t i = 0; i < count; ++i) values[i] = static_cast<To>(from[i]);
}
// Elements that are apart, brought together first.
template <class Item>
void loadSpaced(DType type, const char* from, int64_t stride, int64_t count, float* to) {
  Item items[kTile<float>];
  auto* beside = type == DType::Float32 ? reinterpret_cast<std::byte*>(to) : reinterpret_cast<std::byte*>(items);
  bringTogether<Item>(reinterpret_cast<const std::byte*>(from), stride, count, beside);
  if (type != DType::Float32) loadPointwise(type, items, count, to);
}
// `count` elements, at most a tile, from one place on, `stride` elements apart.
void loadRun(DType type, const char* from, int64_t stride, int64_t count, float* to) {
  const int64_t bytes = static_cast<int64_t>(itemSize(type));
  if (stride == 1) return loadPointwise(type, from, count, to);
  if (stride == 0) {
    float value;
    loadPointwise(type, from, 1, &value);
    std::fill_n(to, count, value);
    return;
  }
  const auto load = bytes == 4 ? loadSpaced<uint32_t> : bytes == 2 ? loadSpaced<uint16_t> : loadSpaced<uint8_t>;
  load(type, from, stride, count, to);
}

// The first `length` of `count` elements, again and again.
template <class T>
void repeat(T* to, int64_t length, int64_t count) {
  for (int64_t made = length; made < count;) {
    const int64_t more = std::min(made, count - made);
    std::memcpy(to + made, to, static_cast<size_t>(more) * sizeof(T));
    made += more;
  }
}

// Rows of so few elements that a call for each would cost more than its elements.
constexpr int64_t kShortRow = 64;
// One that registers hold while it is repeated; a longer one is repeated faster as what is written already.
constexpr int64_t kKeptRow = 16;
bool hasShortRows(const View& view) {
  const size_t rank = view.dims.size();
  return rank > 1 && view.type == DType::Float32 && view.dims[rank - 1] <= kShortRow &&
         (view.strides[rank - 1] == 0 || view.strides[rank - 1] == 1);
}

using Four = float __attribute__((vector_size(16), aligned(4), may_alias));
using Eight = float __attribute__((vector_size(32), aligned(4), may_alias));

// `rows` rows, `step` apart, of `length` neighbours each or of one element repeated, as kVectors vectors, the last of
// which may overlap the one before.
template <bool kRepeats, class V, int kVectors>
void loadRowsOfVectors(const float* from, int64_t rows, int64_t step, int64_t length, float* to) {
  constexpr int64_t kLanes = sizeof(V) / sizeof(float);
  int64_t at[kVectors];
  for (int v = 0; v < kVectors; ++v) at[v] = std::min(v * kLanes, length - kLanes);
  auto load = [&](int v) { return kRepeats ? *from - V{} : *reinterpret_cast<const V*>(from + at[v]); };
  auto store = [&](int v, V value) { *reinterpret_cast<V*>(to + at[v]) = value; };
  if (step != 0) {
    for (int64_t r = 0; r < rows; ++r, from += step, to += length)
      for (int v = 0; v < kVectors; ++v) store(v, load(v));
    return;
  }
  V values[kVectors];
  for (int v = 0; v < kVectors; ++v) values[v] = load(v);
  for (int64_t r = 0; r < rows; ++r, to += length)
    for (int v = 0; v < kVectors; ++v) store(v, values[v]);
}

// The same of any length up to kShortRow.
template <bool kRepeats>
void loadShortRows(const float* from, int64_t rows, int64_t step, int64_t length, float* to) {
  auto loadRows = [&](auto size) {
    for (int64_t r = 0; r < rows; ++r, from += step, to += size)
      for (int64_t i = 0; i < size; ++i) to[i] = from[kRepeats ? 0 : i];
  };
  // Of points, boxes, colours.
  if (length == 1) return loadRows(std::integral_constant<int64_t, 1>());
  if (length == 2) return loadRows(std::integral_constant<int64_t, 2>());
  if (length == 3) return loadRows(std::integral_constant<int64_t, 3>());
  if (length == 4) return loadRowsOfVectors<kRepeats, Four, 1>(from, rows, step, length, to);
  if (length < 8) return loadRowsOfVectors<kRepeats, Four, 2>(from, rows, step, length, to);
  if (length == 8) return loadRowsOfVectors<kRepeats, Eight, 1>(from, rows, step, length, to);
  if (length <= 16) return loadRowsOfVectors<kRepeats, Eight, 2>(from, rows, step, length, to);
  if (length <= 24) return loadRowsOfVectors<kRepeats, Eight, 3>(from, rows, step, length, to);
  if (length <= 32) return loadRowsOfVectors<kRepeats, Eight, 4>(from, rows, step, length, to);
  for (int64_t r = 0; r < rows; ++r, from += step, to += length) {
    auto vector = [&](int64_t i) {
      *reinterpret_cast<Eight*>(to + i) = kRepeats ? *from - Eight{} : *reinterpret_cast<const Eight*>(from + i);
    };
    for (int64_t i = 0; i + 8 <= length; i += 8) vector(i);
    vector(length - 8);
  }
}

// Rows whose elements lie `step` apart, each row's beside those of the row before: four rows at a time.
bool isTransposed(const View& view) {
  const size_t rank = view.dims.size();
  return rank > 1 && view.strides[rank - 2] == 1 && view.strides[rank - 1] > 1;
}

void loadFourRows(const float* from, int64_t step, int64_t length, float* to) {
  int64_t x = 0;
  for (; x + 4 <= length; x += 4) {
    auto at = [&](int64_t i) { return *reinterpret_cast<const Four*>(from + (x + i) * step); };
    const Four a = at(0), b = at(1), c = at(2), d = at(3);
    const Four low = __builtin_shufflevector(a, b, 0, 4, 1, 5), high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
    const Four low2 = __builtin_shufflevector(c, d, 0, 4, 1, 5), high2 = __builtin_shufflevector(c, d, 2, 6, 3, 7);
    auto row = [&](int64_t r) -> Four& { return *reinterpret_cast<Four*>(to + r * length + x); };
    row(0) = __builtin_shufflevector(low, low2, 0, 1, 4, 5);
    row(1) = __builtin_shufflevector(low, low2, 2, 3, 6, 7);
    row(2) = __builtin_shufflevector(high, high2, 0, 1, 4, 5);
    row(3) = __builtin_shufflevector(high, high2, 2, 3, 6, 7);
  }
  for (; x < length; ++x)
    for (int64_t r = 0; r < 4; ++r) to[r * length + x] = from[x * step + r];
}

// The same of 16 bits, eight rows at a time.
using EightHalves = uint16_t __attribute__((vector_size(16), aligned(2), may_alias));
void transposeEightRows(const uint16_t* from, int64_t step, int64_t length, uint16_t* to) {
  using V = uint16_t __attribute__((vector_size(16)));
  auto low = [](V a, V b) { return __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11); };
  auto high = [](V a, V b) { return __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15); };
  int64_t x = 0;
  for (; x + 8 <= length; x += 8) {
    V a[8], b[8];
    for (int64_t i = 0; i < 8; ++i) a[i] = *reinterpret_cast<const EightHalves*>(from + (x + i) * step);
    // Three times, what is four apart comes side by side.
    auto mix = [&](const V* in, V* out) {
      for (int i = 0; i < 4; ++i) {
        out[2 * i] = low(in[i], in[i + 4]);
        out[2 * i + 1] = high(in[i], in[i + 4]);
      }
    };
    mix(a, b);
    mix(b, a);
    mix(a, b);
    for (int64_t r = 0; r < 8; ++r) *reinterpret_cast<EightHalves*>(to + r * length + x) = b[r];
  }
  for (; x < length; ++x)
    for (int64_t r = 0; r < 8; ++r) to[r * length + x] = from[x * step + r];
}

// Where element `at` of the whole is.
int64_t offsetOf(const View& view, int64_t at) {
  int64_t offset = 0;
  for (size_t d = view.dims.size(); d-- > 0; at /= view.dims[d]) offset += at % view.dims[d] * view.strides[d];
  return offset;
}

// A part of rows that are `apart` elements long, from element `begin` on.
struct Block {
  int64_t begin, rows, columns, apart;
};
// Long rows of transposed operands, some rows at a time: what is in a line of the cache is read together.
constexpr int64_t kBlockRows = 16, kBlockColumns = kTile<float> / kBlockRows;

template <class Item>
void copyTransposed(const Item* from, int64_t step, const Block& b, Item* to) {
  for (int64_t r = 0; r < b.rows; ++r)
    for (int64_t x = 0; x < b.columns; ++x) *to++ = from[x * step + r];
}
// A block of a view whose rows are transposed and as long, if its elements have 16 or 32 bits.
bool loadTransposed(const View& view, const Block& b, float* to) {
  const size_t rank = view.dims.size();
  const auto item = static_cast<int64_t>(itemSize(view.type));
  const bool isHalf = view.type == DType::Float16 || view.type == DType::BFloat16;
  if (!isTransposed(view) || view.dims[rank - 1] != b.apart || !(isHalf || view.type == DType::Float32)) return false;
  if (b.begin / b.apart % view.dims[rank - 2] + b.rows > view.dims[rank - 2]) return false;
  const char* data = view.data + offsetOf(view, b.begin) * item;
  const int64_t step = view.strides[rank - 1];
  if (isHalf) {
    uint16_t halves[kBlockRows * kBlockColumns];
    const auto* from = reinterpret_cast<const uint16_t*>(data);
    const int64_t whole = b.rows / 8 * 8;
    for (int64_t r = 0; r < whole; r += 8) transposeEightRows(from + r, step, b.columns, halves + r * b.columns);
    copyTransposed(from + whole, step, {b.begin, b.rows - whole, b.columns, b.apart}, halves + whole * b.columns);
    loadPointwise(view.type, halves, b.rows * b.columns, to);
    return true;
  }
  const auto* from = reinterpret_cast<const float*>(data);
  const int64_t whole = b.rows / 4 * 4;
  for (int64_t r = 0; r < whole; r += 4) loadFourRows(from + r, step, b.columns, to + r * b.columns);
  copyTransposed(from + whole, step, {b.begin, b.rows - whole, b.columns, b.apart}, to + whole * b.columns);
  return true;
}

// One element for each row, of another type, side by side: such as masks of edges, which features do not have.
bool isRepeatedMask(const View& view) {
  const size_t rank = view.dims.size();
  return view.type != DType::Float32 && view.dims[rank - 1] <= kShortRow && view.strides[rank - 1] == 0 &&
         view.strides[rank - 2] == 1;
}

// Short rows of 8 or 16 bits are brought together first.
template <class Item>
int64_t loadNarrowRows(const View& view, const char* data, int64_t rows, float* to) {
  Item items[kTile<float>], *at = items;
  const size_t last = view.dims.size() - 1;
  const int64_t length = view.dims[last], step = view.strides[last], down = view.strides[last - 1];
  const auto* from = reinterpret_cast<const Item*>(data);
  for (int64_t r = 0; r < rows; ++r, from += down, at += length)
    for (int64_t i = 0; i < length; ++i) at[i] = from[i * step];
  loadPointwise(view.type, items, rows * length, to);
  return rows;
}

// Loads as many whole rows as it can at once from `from` on, at most `rows`; how many that were.
int64_t loadRowsAtOnce(const View& view, const char* data, int64_t rows, float* to) {
  const auto* from = reinterpret_cast<const float*>(data);
  const size_t last = view.dims.size() - 1;
  const int64_t length = view.dims[last], step = view.strides[last];
  if (view.type == DType::Float32 && isTransposed(view)) {
    const int64_t whole = rows / 4 * 4;
    for (int64_t r = 0; r < whole; r += 4) loadFourRows(from + r, step, length, to + r * length);
    return whole;
  }
  if (isTransposed(view) && itemSize(view.type) == 2) {
    uint16_t items[kTile<float>];
    const int64_t whole = rows / 8 * 8;
    for (int64_t r = 0; r < whole; r += 8)
      transposeEightRows(reinterpret_cast<const uint16_t*>(data) + r, step, length, items + r * length);
    if (whole > 0) loadPointwise(view.type, items, whole * length, to);
    return whole;
  }
  if (isRepeatedMask(view)) {
    // Behind its place, where no row is written before its element was read.
    float* elements = to + rows * (length - 1);
    loadPointwise(view.type, data, rows, elements);
    loadShortRows<true>(elements, rows, 1, length, to);
    return rows;
  }
  if (view.type != DType::Float32 && length <= kShortRow && itemSize(view.type) <= 2)
    return itemSize(view.type) == 2 ? loadNarrowRows<uint16_t>(view, data, rows, to)
                                    : loadNarrowRows<uint8_t>(view, data, rows, to);
  if (!hasShortRows(view) || (view.strides[last - 1] == 0 && length > kKeptRow)) return 0;
  (step == 0 ? loadShortRows<true> : loadShortRows<false>)(from, rows, view.strides[last - 1], length, to);
  return rows;
}

// Where rows are repeated: as many whole groups of them as it can, at most `groups`; how many that were.
int64_t loadGroupsAtOnce(const View& view, const char* data, int64_t groups, float* to) {
  const size_t last = view.dims.size() - 1;
  const int64_t length = view.dims[last], rows = view.dims[last - 1], step = view.strides[last];
  if (view.type != DType::Float32 || view.strides[last - 1] != 0 || length > kKeptRow) return 0;
  const auto* from = reinterpret_cast<const float*>(data);
  for (int64_t g = 0; g < groups; ++g, from += view.strides[last - 2], to += rows * length) {
    float row[kKeptRow];
    for (int64_t i = 0; step > 1 && i < length; ++i) row[i] = from[i * step];
    (step == 0 ? loadShortRows<true> : loadShortRows<false>)(step > 1 ? row : from, rows, 0, length, to);
  }
  return groups;
}

// The same of wide numbers.
template <class T>
int64_t loadRowsAtOnce(const View& view, const char* data, int64_t rows, T* to) {
  constexpr DType kType = std::is_same_v<T, int64_t> ? DType::Int64 : DType::Float64;
  const size_t last = view.dims.size() - 1;
  const int64_t length = view.dims[last], step = view.strides[last], down = view.strides[last - 1];
  if (view.type != kType || length > kShortRow || down == 0) return 0;
  const auto* from = reinterpret_cast<const T*>(data);
  auto loadRows = [&](auto size) {
    for (int64_t r = 0; r < rows; ++r, from += down, to += size)
      for (int64_t i = 0; i < size; ++i) to[i] = from[i * step];
    return rows;
  };
  // Of points and quaternions.
  if (length == 3) return loadRows(std::integral_constant<int64_t, 3>());
  if (length == 4) return loadRows(std::integral_constant<int64_t, 4>());
  return loadRows(length);
}

// Elements [begin, begin + count) of the whole, through any strides.
template <class T>
void gather(const View& view, int64_t begin, int64_t count, T* to) {
  const size_t rank = view.dims.size();
  if (rank == 0) return loadRun(view.type, view.data, 0, count, to);
  SmallVector<int64_t, 8> index;
  index.resize(rank);
  int64_t offset = offsetOf(view, begin), rest = begin;
  for (size_t d = rank; d-- > 0; rest /= view.dims[d]) index[d] = rest % view.dims[d];
  const int64_t bytes = static_cast<int64_t>(itemSize(view.type));
  // Of a dimension before `end` that has reached its end.
  auto carry = [&](size_t end) {
    for (size_t d = end; d-- > 0 && index[d] == view.dims[d];) {
      offset -= view.dims[d] * view.strides[d];
      index[d] = 0;
      if (d == 0) break;
      offset += view.strides[d - 1];
      ++index[d - 1];
    }
  };
  while (count > 0) {
    int64_t length = std::min(count, view.dims[rank - 1] - index[rank - 1]), atOnce = 0;
    if constexpr (std::is_same_v<T, float>)
      if (rank > 2 && index[rank - 1] == 0 && index[rank - 2] == 0) {
        const int64_t group = view.dims[rank - 1] * view.dims[rank - 2];
        const int64_t groups = loadGroupsAtOnce(view, view.data + offset * bytes,
                                                std::min(view.dims[rank - 3] - index[rank - 3], count / group), to);
        if (groups > 0) {
          to += groups * group;
          count -= groups * group;
          offset += groups * view.strides[rank - 3];
          index[rank - 3] += groups;
          carry(rank - 2);
          continue;
        }
      }
    if constexpr (!std::is_same_v<T, Byte>)
      if (rank > 1 && length == view.dims[rank - 1])
        atOnce = loadRowsAtOnce(view, view.data + offset * bytes,
                                std::min(view.dims[rank - 2] - index[rank - 2], count / length), to);
    if (atOnce > 0) {
      offset += (atOnce - 1) * view.strides[rank - 2];
      index[rank - 2] += atOnce - 1;
      length *= atOnce;
    } else {
      loadRun(view.type, view.data + offset * bytes, view.strides[rank - 1], length, to);
    }
    offset -= index[rank - 1] * view.strides[rank - 1];
    index[rank - 1] = 0;
    if (rank > 1 && length == view.dims[rank - 1] && view.strides[rank - 2] == 0) {
      const int64_t repeats = std::min(view.dims[rank - 2] - index[rank - 2], count / length);
      index[rank - 2] += repeats - 1;
      repeat(to, length, length * repeats);
      length *= repeats;
    }
    to += length;
    count -= length;
    if (rank > 1) {
      offset += view.strides[rank - 2];
      ++index[rank - 2];
    }
    carry(rank - 1);
  }
}

// Where each value of the tile is.
template <class T>
class TileRunner {
 public:
  TileRunner(const Run& run, T* buffers)
      : run_(run), buffers_(buffers), at_(run.program.values().size()), held_(run.inputs.size()) {
    const auto& values = run.program.values();
    const int64_t most = std::min<int64_t>(kTile<T>, run.count);
    functions_.resize(values.size());
    for (size_t v = 0; v < values.size(); ++v) {
      const auto& value = values[v];
      at_[v] = buffer(value.slot);
      if (value.kind == Kind::Step) functions_[v] = functionOf(value.op);
      if (value.kind == Kind::Constant) std::fill_n(buffer(value.slot), most, constant(value.alpha));
      if (value.kind == Kind::Input) {
        const View& view = run.inputs[static_cast<size_t>(value.index)];
        if (view.isConstant()) gather(view, 0, 1, buffer(value.slot));
        if (view.isConstant()) std::fill_n(buffer(value.slot), most, *buffer(value.slot));
      }
    }
    // The last step writes where its result belongs.
    const auto& outputs = run.program.outputs();
    for (size_t o = 0; o < run.outputs.size(); ++o)
      if (static_cast<size_t>(outputs[o].value) + 1 == values.size() && values.back().kind == Kind::Step &&
          !values.back().isStored && outputs[o].type == kType && direct_ < 0)
        direct_ = static_cast<int>(o);
  }

  void tile(int64_t begin, int64_t count) {
    const auto& values = run_.program.values();
    for (size_t v = 0; v < values.size(); ++v) {
      const auto& value = values[v];
      if (value.kind == Kind::Input) {
        const View& view = run_.inputs[static_cast<size_t>(value.index)];
        if (view.isConstant()) continue;
        if (view.isContiguous() && view.type == kType)
          at_[v] = reinterpret_cast<const T*>(view.data) + begin;
        else if (view.isContiguous())
          loadRun(view.type, view.data + begin * static_cast<int64_t>(itemSize(view.type)), 1, count,
                  buffer(value.slot));
        else
          loadView(v, view, begin, count);
      } else if (value.kind == Kind::Step) {
        T* out = buffer(value.slot);
        if (value.isStored) {
          at_[v] = operand(value.a);
          continue;
        }
        if (direct_ >= 0 && v + 1 == values.size()) {
          out = static_cast<T*>(run_.outputs[static_cast<size_t>(direct_)]) + begin;
          at_[v] = out;
        }
        call(v, out, count);
      }
    }
    const auto& outputs = run_.program.outputs();
    for (size_t o = 0; o < run_.outputs.size(); ++o)
      if (static_cast<int>(o) != direct_)
        store(outputs[o].type, at_[static_cast<size_t>(outputs[o].value)], count,
              static_cast<char*>(run_.outputs[o]) + begin * static_cast<int64_t>(itemSize(outputs[o].type)));
  }

  // The same of a part of some rows, of floats.
  void block(const Block& b) {
    const auto& values = run_.program.values();
    for (size_t v = 0; v < values.size(); ++v) {
      const auto& value = values[v];
      T* to = buffer(value.slot);
      if (value.kind == Kind::Input) {
        const View& view = run_.inputs[static_cast<size_t>(value.index)];
        if (view.isConstant() || loadTransposed(view, b, to)) continue;
        for (int64_t r = 0; r < b.rows; ++r) gather(view, b.begin + r * b.apart, b.columns, to + r * b.columns);
      } else if (value.isStored) {
        at_[v] = operand(value.a);
      } else if (value.kind == Kind::Step) {
        call(v, to, b.rows * b.columns);
      }
    }
    const auto& outputs = run_.program.outputs();
    for (size_t o = 0; o < run_.outputs.size(); ++o)
      for (int64_t r = 0; r < b.rows; ++r)
        store(outputs[o].type, at_[static_cast<size_t>(outputs[o].value)] + r * b.columns, b.columns,
              static_cast<char*>(run_.outputs[o]) +
                  (b.begin + r * b.apart) * static_cast<int64_t>(itemSize(outputs[o].type)));
  }

 private:
  using Kind = PointwiseProgram::Value::Kind;
  // What a view's buffer holds: `count` elements as they are from a place on, or that of one place `count` times.
  struct Held {
    int64_t place = -1, count = 0;
    bool isOneElement = false;
  };
  static constexpr bool kWide = std::is_same_v<T, int64_t> || std::is_same_v<T, double>;
  static constexpr DType kType = std::is_same_v<T, float>     ? DType::Float32
                                 : std::is_same_v<T, int64_t> ? DType::Int64
                                 : kWide                      ? DType::Float64
                                                              : DType::Bool;
  using Narrow = std::conditional_t<std::is_same_v<T, float>, PointwiseFunction, LogicFunction>;
  using Function = std::conditional_t<kWide, WideFunction<T>, Narrow>;
  static Function functionOf(PointwiseOp op) {
    if constexpr (kWide)
      return wideFunction<T>(op);
    else if constexpr (std::is_same_v<T, float>)
      return pointwiseFunction(op);
    else
      return logicFunction(op);
  }
  static T constant(double value) {
    if constexpr (std::is_same_v<T, Byte>)
      return value != 0;
    else
      return static_cast<T>(value);
  }
  static void store(DType type, const T* from, int64_t count, void* to) {
    if constexpr (kWide)
      return type == DType::Bool    ? storeWide<bool>(from, count, to)
             : type == DType::Int32 ? storeWide<int32_t>(from, count, to)
                                    : storeWide<T>(from, count, to);
    else if constexpr (std::is_same_v<T, float>)
      storePointwise(type, from, count, to);
    else
      std::memcpy(to, from, static_cast<size_t>(count));
  }
  void call(size_t v, T* out, int64_t count) const {
    using Parameter = std::conditional_t<kWide, double, float>;
    const auto& value = run_.program.values()[v];
    functions_[v](operand(value.a), operand(value.b), operand(value.c), out, count, static_cast<Parameter>(value.alpha),
                  static_cast<Parameter>(value.beta));
  }
  // Neighbours are read where they are; what repeats is loaded once.
  void loadView(size_t v, const View& view, int64_t begin, int64_t count) {
    const auto& value = run_.program.values()[v];
    const int64_t length = view.dims.back(), stride = view.strides.back();
    const bool isOneRow = begin % length + count <= length;
    if (isOneRow && stride == 1 && view.type == kType) {
      at_[v] = reinterpret_cast<const T*>(view.data) + offsetOf(view, begin);
      return;
    }
    at_[v] = buffer(value.slot);
    const bool isOneElement = isOneRow && stride == 0;
    int64_t place = -1;
    if (isOneElement)
      place = offsetOf(view, begin);
    else if (view.strides[0] == 0)
      place = begin % (run_.count / view.dims[0]);
    Held& held = held_[static_cast<size_t>(value.index)];
    if (place >= 0 && held.isOneElement == isOneElement && held.place == place && held.count >= count) return;
    held = {place, count, isOneElement};
    gather(view, begin, count, buffer(value.slot));
  }
  T* buffer(int slot) { return buffers_ + slot * kTile<T>; }
  const T* operand(int value) const { return value < 0 ? nullptr : at_[static_cast<size_t>(value)]; }

  const Run& run_;
  T* buffers_;
  SmallVector<const T*, 16> at_;
  SmallVector<Function, 16> functions_;
  SmallVector<Held, 8> held_;  // by input
  int direct_ = -1;
};

bool isLogic(const PointwiseProgram& program) {
  for (const auto& value : program.values()) {
    if (value.kind == PointwiseProgram::Value::Kind::Input && value.type != DType::Bool) return false;
    if (value.kind == PointwiseProgram::Value::Kind::Step && !logicFunction(value.op)) return false;
  }
  return std::ranges::all_of(program.outputs(), [](const auto& output) { return output.type == DType::Bool; });
}

}  // namespace

int pointwiseOperands(PointwiseOp op) {
  static constexpr int8_t kOperands[] = {
#define TS_STEP(name, operands) operands,
#include "runtime/kernels/pointwise_ops.def"
  };
  return kOperands[static_cast<size_t>(op)];
}

int PointwiseProgram::input(DType type) {
  values_.push_back({Value::Kind::Input, type, {}, -1, -1, -1, 0, 0, inputs_++, 0, false});
  return static_cast<int>(values_.size()) - 1;
}

int PointwiseProgram::constant(double value) {
  values_.push_back({Value::Kind::Constant, {}, {}, -1, -1, -1, value, 0, 0, 0, false});
  return static_cast<int>(values_.size()) - 1;
}

int PointwiseProgram::step(PointwiseOp op, int a, int b, int c, double alpha, double beta) {
  values_.push_back({Value::Kind::Step, {}, op, a, b, c, alpha, beta, 0, 0, false});
  return static_cast<int>(values_.size()) - 1;
}

void PointwiseProgram::output(int value, DType type) {
  outputs_.push_back({value, type});
  assignSlots();
}

void PointwiseProgram::retype(int input, DType type) {
  for (Value& v : values_)
    if (v.kind == Value::Kind::Input && v.index == input) v.type = type;
}

// Inputs and constants keep their buffers, since some are filled once; a step takes the buffer of an operand that it is
// the last to read.
void PointwiseProgram::assignSlots() {
  constexpr int kKept = 1 << 30;
  std::vector<int> lastUse(values_.size(), -1), unused;
  for (size_t v = 0; v < values_.size(); ++v) {
    if (values_[v].kind != Value::Kind::Step) lastUse[v] = kKept;
    for (int operand : {values_[v].a, values_[v].b, values_[v].c})
      if (operand >= 0)
        lastUse[static_cast<size_t>(operand)] = std::max(lastUse[static_cast<size_t>(operand)], static_cast<int>(v));
  }
  for (const Output& output : outputs_) lastUse[static_cast<size_t>(output.value)] = kKept;
  slots_ = 0;
  // Inputs and constants are loaded before the first step, so they share their slots with nothing, wherever among the
  // steps they were added.
  for (Value& value : values_)
    if (value.kind != Value::Kind::Step) value.slot = slots_++;
  for (size_t v = 0; v < values_.size(); ++v) {
    Value& value = values_[v];
    if (value.kind != Value::Kind::Step) continue;
    for (int operand : {value.a, value.b, value.c}) {
      if (operand < 0 || lastUse[static_cast<size_t>(operand)] != static_cast<int>(v)) continue;
      unused.push_back(values_[static_cast<size_t>(operand)].slot);
      lastUse[static_cast<size_t>(operand)] = -1;  // once, if it is named twice
    }
    if (unused.empty()) unused.push_back(slots_++);
    value.slot = unused.back();
    unused.pop_back();
  }
  markStored();
}

// Copies, and roundings to what the result is stored as, at the end. Of one result alone: the memory of another one may
// be that of an input.
void PointwiseProgram::markStored() {
  for (Value& value : values_) value.isStored = false;
  if (outputs_.size() != 1) return;
  const DType type = outputs_[0].type;
  for (auto v = static_cast<size_t>(outputs_[0].value); values_[v].kind == Value::Kind::Step;
       v = static_cast<size_t>(values_[v].a)) {
    Value& value = values_[v];
    const bool isRounding = (value.op == PointwiseOp::RoundF16 && type == DType::Float16) ||
                            (value.op == PointwiseOp::RoundBF16 && type == DType::BFloat16);
    const Value& from = values_[static_cast<size_t>(value.a)];
    // No step between takes the buffer that it has from its operand.
    const bool stays = from.kind == Value::Kind::Input || from.slot == value.slot;
    if (!(isRounding || value.op == PointwiseOp::Copy) || !stays) return;
    value.isStored = true;
  }
}

namespace {

Run prepared(const PointwiseProgram& program, std::span<const int64_t> dims, std::span<const PointwiseOperand> inputs,
             std::span<void* const> outputs) {
  Run run{program, std::vector<View>(inputs.size()), outputs};
  for (int64_t size : dims) run.count *= size;
  for (size_t i = 0; i < inputs.size(); ++i) setDims(run.inputs[i], dims, inputs[i].strides);
  for (const auto& value : program.values())
    if (value.kind == PointwiseProgram::Value::Kind::Input) {
      View& view = run.inputs[static_cast<size_t>(value.index)];
      view.data = static_cast<const char*>(inputs[static_cast<size_t>(value.index)].data);
      view.type = value.type;
    }
  return run;
}

template <class T>
T* tileBuffers(const PointwiseProgram& program) {
  return reinterpret_cast<T*>(threadScratch(program.slots() * kTileBytes / static_cast<int64_t>(sizeof(float))));
}

// An operand with such rows, or null.
const View* longTransposed(const Run& run) {
  auto isLong = [](const View& v) {
    return isTransposed(v) && v.dims.back() > 2 * kBlockColumns && v.dims[v.dims.size() - 2] >= 8;
  };
  const auto found = std::ranges::find_if(run.inputs, isLong);
  return found == run.inputs.end() ? nullptr : &*found;
}
void runBlocks(const Run& run, const View& longest, int threads) {
  const size_t rank = longest.dims.size();
  const int64_t columns = longest.dims[rank - 1], rows = longest.dims[rank - 2], outer = run.count / (rows * columns);
  const int64_t across = (columns + kBlockColumns - 1) / kBlockColumns, down = (rows + kBlockRows - 1) / kBlockRows;
  const int64_t blocks = outer * down * across, chunks = (blocks + kChunkTiles - 1) / kChunkTiles;
  parallelFor(chunks, chunks > 2 ? threads : 1, [&](int64_t i) {
    TileRunner<float> runner(run, tileBuffers<float>(run.program));
    const Piece piece = pieceOf(blocks, chunks, i);
    for (int64_t at = piece.begin; at < piece.end; ++at) {
      const int64_t x = at % across * kBlockColumns, y = at / across % down * kBlockRows;
      runner.block({(at / across / down * rows + y) * columns + x, std::min(kBlockRows, rows - y),
                    std::min(kBlockColumns, columns - x), columns});
    }
  });
}

// Rows of equally many elements, each cut into tiles.
struct Tiling {
  int64_t row, tile;
};
// Where views have rows, a tile is a part of one or whole ones.
Tiling tilingOf(const Run& run, int64_t most) {
  int64_t row = 0;
  for (const View& view : run.inputs) {
    if (view.isContiguous() || view.isConstant()) continue;
    const int64_t length = view.dims.back();
    if (row == 0 || row % length == 0)
      row = length;
    else if (length % row != 0)
      return {run.count, most};
  }
  if (row == 0) return {run.count, most};
  if (row <= most) return {run.count, most / row * row};
  constexpr int64_t kLine = 16;
  const int64_t tiles = (row + most - 1) / most;
  return {row, ((row + tiles - 1) / tiles + kLine - 1) / kLine * kLine};
}

template <class T>
void runTiles(const Run& run, int threads) {
  const auto [row, tile] = tilingOf(run, kTile<T>);
  const int64_t across = (row + tile - 1) / tile, tiles = run.count / row * across;
  const int64_t chunks = (tiles + kChunkTiles - 1) / kChunkTiles;
  parallelFor(chunks, chunks > 2 ? threads : 1, [&, row = row, tile = tile](int64_t i) {
    TileRunner<T> runner(run, tileBuffers<T>(run.program));
    const Piece piece = pieceOf(tiles, chunks, i);
    for (int64_t at = piece.begin; at < piece.end; ++at) {
      const int64_t x = at % across * tile;
      runner.tile(at / across * row + x, std::min(tile, row - x));
    }
  });
}

}  // namespace

void runPointwise(const PointwiseProgram& program, std::span<const int64_t> dims,
                  std::span<const PointwiseOperand> inputs, std::span<void* const> outputs, int threads) {
  const Run run = prepared(program, dims, inputs, outputs);
  if (run.count == 0) return;
  if (program.computedIn() == DType::Int64) return runTiles<int64_t>(run, threads);
  if (program.computedIn() == DType::Float64) return runTiles<double>(run, threads);
  if (isLogic(program)) return runTiles<Byte>(run, threads);
  if (const View* longest = longTransposed(run)) return runBlocks(run, *longest, threads);
  runTiles<float>(run, threads);
}

}  // namespace tscompile
