#include "runtime/engine/layers/indexing_layer.h"

#include "ir/values/encoded.h"
#include "ir/values/error.h"
#include "runtime/call/thread_pool.h"
#include "runtime/engine/layers/operands.h"
#include "runtime/reference/views.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <span>

namespace tscompile {
namespace {

constexpr int64_t kParallelBytes = 256 << 10;  // less is copied by one thread

// The interpreter does it again, and tells where it is.
[[noreturn]] void refuseIndex() { throw ExecutionError(ErrorKind::Model, "an index is out of range"); }
int64_t checked(int64_t index, int64_t size, bool wraps) {
  if (wraps && index < 0) index += size;
  if (index < 0 || index >= size) refuseIndex();
  return index;
}

int64_t elementOf(const std::byte* data, DType dtype, int64_t i) {
  return dtype == DType::Int64 ? reinterpret_cast<const int64_t*>(data)[i] : reinterpret_cast<const int32_t*>(data)[i];
}

// body(type of an item of so many bytes)
template <class Body>
void withItem(int64_t bytes, Body&& body) {
  switch (bytes) {
    case 1:
      return body(uint8_t());
    case 2:
      return body(uint16_t());
    case 4:
      return body(uint32_t());
    default:
      return body(uint64_t());
  }
}

}  // namespace

namespace {

// blocks[i] += what index i of `numbers`, which are walked through by `strides` over `block`, picks.
template <class T>
void addPicked(const T* numbers, const PickedBlocks::Index& index, DimSpan block, DimSpan strides, bool wraps,
               std::span<int64_t> blocks) {
  const size_t last = block.size() - 1;
  const int64_t width = block[last], step = strides[last];
  Dims at(last, 0);
  int64_t element = 0;
  bool isOutside = false;
  for (size_t row = 0; row < blocks.size(); row += static_cast<size_t>(width)) {
    int64_t* to = blocks.data() + row;
    for (int64_t j = 0; j < width; ++j) {
      int64_t i = numbers[element + j * step];
      i += wraps && i < 0 ? index.size : 0;
      const bool isInside = (i >= 0) & (i < index.size);
      isOutside |= !isInside;
      to[j] += (isInside ? i : 0) * index.stride;
    }
    for (size_t d = last; d-- > 0;) {
      element += strides[d];
      if (++at[d] < block[d]) break;
      element -= strides[d] * block[d];
      at[d] = 0;
    }
  }
  if (isOutside) refuseIndex();
}

}  // namespace

void PickedBlocks::find(const Frame& frame, std::span<const TensorId> numbers, std::span<int64_t> blocks) const {
  std::ranges::fill(blocks, 0);
  for (size_t k = 0; k < indices.size(); ++k) {
    const NetTensor& given = frame.network()[numbers[k]];
    const std::byte* data = frame.raw(numbers[k]);
    const bool isRun = given.contiguous && given.numel == count;
    const Dims sizes = isRun ? Dims{count} : block, strides = isRun ? Dims{1} : indices[k].strides;
    if (given.dtype == DType::Int64)
      addPicked(reinterpret_cast<const int64_t*>(data), indices[k], sizes, strides, wraps, blocks);
    else
      addPicked(reinterpret_cast<const int32_t*>(data), indices[k], sizes, strides, wraps, blocks);
  }
}

void PickLayer::run(Frame& frame) const {
  const int64_t count = which.count;
  const std::span<int64_t> blocks(reinterpret_cast<int64_t*>(frame.workspace()), static_cast<size_t>(count));
  which.find(frame, std::span(inputs).subspan(1), blocks);
  const std::byte* from = frame.raw(inputs[0]);
  std::byte* to = frame.raw(outputs[0]);
  const int64_t all = outer * count, bytes = all * innerBytes;
  const int64_t pieces = std::clamp<int64_t>(bytes >> 16, 1, std::clamp<int64_t>(all, 1, 64));
  parallelFor(pieces, bytes < kParallelBytes ? 1 : frame.threads(), [&](int64_t p) {
    const Piece piece = pieceOf(all, pieces, p);
    auto copy = [&](auto&& each) {
      for (int64_t i = piece.begin; i < piece.end;) {
        const int64_t block = i % count, first = i / count * picked, end = std::min(count - block, piece.end - i);
        for (int64_t b = 0; b < end; ++b) each(first + blocks[block + b], i + b);
        i += end;
      }
    };
    if (innerBytes == 4) return copy([&](int64_t a, int64_t b) { std::memcpy(to + b * 4, from + a * 4, 4); });
    if (innerBytes == 8) return copy([&](int64_t a, int64_t b) { std::memcpy(to + b * 8, from + a * 8, 8); });
    copy([&](int64_t a, int64_t b) {
      std::memcpy(to + b * innerBytes, from + a * innerBytes, static_cast<size_t>(innerBytes));
    });
  });
}

void DecodeRowsLayer::run(Frame& frame) const {
  const std::byte* numbers = frame.raw(inputs[0]);
  const DType dtype = frame.network()[inputs[0]].dtype;
  auto* out = frame.data<float>(outputs[0]);
  const int64_t width = table_.size(1), bytes = count_ * width * int64_t{sizeof(float)};
  const EncodedElements& elements = *table_.storage()->encoding();
  const int64_t pieces = std::clamp<int64_t>(bytes >> 16, 1, std::clamp<int64_t>(count_, 1, 64));
  parallelFor(pieces, bytes < kParallelBytes ? 1 : frame.threads(), [&](int64_t p) {
    const Piece piece = pieceOf(count_, pieces, p);
    for (int64_t i = piece.begin; i < piece.end; ++i) {
      const int64_t row = checked(elementOf(numbers, dtype, i), table_.size(0), false);
      elements.decode(table_.offset() + row * width, width, out + i * width);
    }
  });
}

void GatherLayer::run(Frame& frame) const {
  const NetTensor& self = frame.network()[inputs[0]];
  const NetTensor& index = frame.network()[inputs[1]];
  const auto* numbers = frame.data<int64_t>(inputs[1]);
  const int64_t size = self.sizes[dim], step = self.strides[dim];
  // The dimensions of the result; neighbours that both tensors walk through as one are one.
  struct Axis {
    int64_t size, self, index;
  };
  SmallVector<Axis, 6> axes;
  for (size_t d = 0; d < index.sizes.size(); ++d) {
    const Axis axis{index.sizes[d], d == dim ? 0 : self.strides[d], index.strides[d]};
    if (axis.size == 1) continue;
    if (!axes.empty() && axes.back().self == axis.self * axis.size && axes.back().index == axis.index * axis.size)
      axes.back() = {axes.back().size * axis.size, axis.self, axis.index};
    else
      axes.push_back(axis);
  }
  if (axes.empty()) axes.push_back({1, 0, 0});
  const Axis run = axes.back();
  withItem(static_cast<int64_t>(itemSize(self.dtype)), [&](auto item) {
    using T = decltype(item);
    const T* from = reinterpret_cast<const T*>(frame.raw(inputs[0]));
    T* to = reinterpret_cast<T*>(frame.raw(outputs[0]));
    const int64_t pieces = std::clamp<int64_t>(index.numel >> 13, 1, 64);
    parallelFor(pieces, index.numel < (32 << 10) ? 1 : frame.threads(), [&](int64_t p) {
      const Piece piece = pieceOf(index.numel, pieces, p);
      for (int64_t i = piece.begin; i < piece.end;) {
        const int64_t first = i % run.size, some = std::min(run.size - first, piece.end - i);
        int64_t base = first * run.self, at = first * run.index, rest = i / run.size;
        for (size_t d = axes.size() - 1; d-- > 0; rest /= axes[d].size) {
          base += rest % axes[d].size * axes[d].self;
          at += rest % axes[d].size * axes[d].index;
        }
        for (int64_t j = 0; j < some; ++j)
          to[i + j] = from[base + j * run.self + checked(numbers[at + j * run.index], size, false) * step];
        i += some;
      }
    });
  });
}

namespace {

void addElements(float* to, const float* from, int64_t count, float alpha) {
  for (int64_t i = 0; i < count; ++i) to[i] += from[i] * alpha;
}
void addElements(double* to, const double* from, int64_t count, float) {
  for (int64_t i = 0; i < count; ++i) to[i] += from[i];
}
// Modulo 2^64.
void addElements(int64_t* to, const int64_t* from, int64_t count, float) {
  for (int64_t i = 0; i < count; ++i)
    to[i] = static_cast<int64_t>(static_cast<uint64_t>(to[i]) + static_cast<uint64_t>(from[i]));
}

}  // namespace

void PutLayer::run(Frame& frame) const {
  const int64_t count = which.count;
  const std::span<int64_t> blocks(reinterpret_cast<int64_t*>(frame.workspace()), static_cast<size_t>(count));
  which.find(frame, std::span(inputs).subspan(2), blocks);
  const NetTensor& out = frame.network()[outputs[0]];
  const auto item = static_cast<int64_t>(itemSize(out.dtype));
  const std::byte *self = frame.raw(inputs[0]), *source = frame.raw(inputs[1]);
  std::byte* to = frame.raw(outputs[0]);
  // Each thread has columns of its own, so that blocks that are written twice are written in order.
  const int64_t columns = std::clamp<int64_t>(inner / 64, 1, 16), units = outer * columns;
  parallelFor(units, (out.numel + outer * count * inner) * item < kParallelBytes ? 1 : frame.threads(), [&](int64_t u) {
    const Piece part = pieceOf(inner, columns, u % columns);
    const int64_t first = part.begin * item, width = part.end - part.begin;
    const auto bytes = static_cast<size_t>(width * item);
    auto blockAt = [&](auto* base, int64_t i) { return base + i * inner * item + first; };
    const int64_t ownFirst = u / columns * picked, givenFirst = u / columns * count;
    if (self != to && columns == 1) {
      std::memcpy(blockAt(to, ownFirst), blockAt(self, ownFirst), bytes * static_cast<size_t>(picked));
    } else if (self != to) {
      for (int64_t i = 0; i < picked; ++i) std::memcpy(blockAt(to, ownFirst + i), blockAt(self, ownFirst + i), bytes);
    }
    auto each = [&](auto&& write) {
      for (int64_t i = 0; i < count; ++i)
        write(blockAt(to, ownFirst + blocks[static_cast<size_t>(i)]), blockAt(source, givenFirst + i));
    };
    auto addAs = [&](auto sample) {
      using T = decltype(sample);
      each([&](std::byte* a, const std::byte* b) {
        addElements(reinterpret_cast<T*>(a), reinterpret_cast<const T*>(b), width, alpha);
      });
    };
    if (!adds) return each([&](std::byte* a, const std::byte* b) { std::memcpy(a, b, bytes); });
    if (out.dtype == DType::Float32) return addAs(float{});
    out.dtype == DType::Float64 ? addAs(double{}) : addAs(int64_t{});
  });
}

// ---- converters ----

namespace {

constexpr std::string_view kNotIndex = "an index is no tensor of numbers";

bool isIndex(const Tensor& t) { return t.dtype() == DType::Int64 || t.dtype() == DType::Int32; }

// The tensor as a contiguous operand.
TensorId inOrder(ConvertCall& call, const Tensor& t) {
  TensorId id = call.idOf(t);
  return call.network()[id].contiguous ? id : addCopy(call, id);
}

int64_t product(DimSpan sizes) { return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>()); }

// What indices pick of dimensions [first, first + indices.size()); nothing if they cannot be broadcast.
std::optional<PickedBlocks> pickedBlocks(DimSpan sizes, size_t first, const std::vector<Tensor>& indices, bool wraps) {
  PickedBlocks which;
  for (const Tensor& t : indices)
    if (!broadcastInto(which.block, t.sizes())) return std::nullopt;
  const size_t rank = which.block.size();
  which.count = product(which.block);
  which.wraps = wraps;
  for (size_t k = 0; k < indices.size(); ++k) {
    const Tensor& t = indices[k];
    PickedBlocks::Index index{sizes[first + k], product(sizes.subspan(first + k + 1, indices.size() - k - 1)),
                              Dims(rank, 0)};
    for (int d = 0; d < t.rank(); ++d)
      index.strides[rank - static_cast<size_t>(t.rank() - d)] = t.size(d) == 1 ? 0 : t.stride(d);
    which.indices.push_back(std::move(index));
  }
  return which;
}

// Adds a layer that picks from dimensions [first, first + indices.size()) of a contiguous tensor.
void addPickLayer(ConvertCall& call, const Tensor& x, size_t first, const std::vector<Tensor>& indices,
                  PickedBlocks which, TensorId from, TensorId to) {
  const DimSpan sizes = x.sizes();
  const size_t behind = first + indices.size();
  auto& layer = call.add<PickLayer>();
  layer.which = std::move(which);
  layer.outer = product(sizes.first(first));
  layer.picked = product(sizes.subspan(first, indices.size()));
  layer.innerBytes = product(sizes.subspan(behind)) * static_cast<int64_t>(itemSize(x.dtype()));
  layer.inputs = {from};
  for (const Tensor& t : indices) layer.inputs.push_back(call.idOf(t));
  layer.outputs = {to};
}

// Picks rows, which lie in order each, from where they lie; false if they do not.
bool pickRows(ConvertCall& call, const Tensor& x, const Tensor& index, PickedBlocks which) {
  const DimSpan row = x.sizes().subspan(1);
  const int64_t elements = product(row), stride = x.stride(0);
  const Dims inOrder = contiguousStrides(row);
  for (size_t d = 0; d < row.size(); ++d)
    if (row[d] > 1 && x.stride(static_cast<int>(d) + 1) != inOrder[d]) return false;
  if (stride <= 0 || stride % elements != 0) return false;
  which.indices[0].stride = stride / elements;
  const TensorId from = call.idOf(x);
  addPickLayer(call, x, 0, {index}, std::move(which), from, call.makeResult());
  return true;
}

// Picks few elements where they lie, and puts these in order; false if the whole of the tensor has to be.
bool pickInMemory(ConvertCall& call, const Tensor& x, size_t first, const Tensor& index, const PickedBlocks& which) {
  const Dims order = orderInMemory(x);
  const size_t blockRank = which.block.size();
  const Tensor lies = x.permuted(order);
  if (!lies.isContiguous() || product(call.spec().sizes) >= x.numel()) return false;
  const auto at =
      static_cast<size_t>(std::find(order.begin(), order.end(), static_cast<int64_t>(first)) - order.begin());
  Dims sizes;
  Dims back(call.spec().sizes.size(), 0);  // of each dimension of the result, the one among `sizes`
  for (size_t d = 0; d < order.size(); ++d) {
    const auto original = static_cast<size_t>(order[d]);
    if (d == at) {
      for (size_t k = 0; k < blockRank; ++k) {
        back[first + k] = static_cast<int64_t>(sizes.size());
        sizes.push_back(which.block[k]);
      }
    } else {
      back[original < first ? original : original - 1 + blockRank] = static_cast<int64_t>(sizes.size());
      sizes.push_back(lies.size(static_cast<int>(d)));
    }
  }
  const Tensor picked = call.makeTensor(x.dtype(), sizes);
  addPickLayer(call, lies, at, {index}, which, call.idOf(lies), call.idOf(picked));
  addCopy(call, call.idOf(picked.permuted(back)), call.makeResult());
  return true;
}

// Picks from dimensions [first, first + indices.size()).
void addPick(ConvertCall& call, const Tensor& x, size_t first, const std::vector<Tensor>& indices, bool wraps) {
  if (x.numel() == 0 || checkedNumel(call.spec().sizes).value_or(0) == 0) return convertToKernel(call, kEmpty);
  auto which = pickedBlocks(x.sizes(), first, indices, wraps);
  if (!which) return convertToKernel(call, kNotIndex);
  if (!x.isContiguous() && indices.size() == 1) {
    if (first == 0 && pickRows(call, x, indices[0], *which)) return;
    if (pickInMemory(call, x, first, indices[0], *which)) return;
  }
  const TensorId from = inOrder(call, x);
  addPickLayer(call, x, first, indices, *std::move(which), from, call.makeResult());
}

bool canAdd(DType d) { return d == DType::Float32 || d == DType::Float64 || d == DType::Int64; }

// Brings `values`, which are broadcast, to the places in dimensions [first, first + indices.size()) of argument 0.
void addPut(ConvertCall& call, size_t first, const std::vector<Tensor>& indices, const Tensor& values, bool adds,
            bool wraps, float alpha = 1) {
  const Tensor x = call.tensor(0);
  const Dims sizes(x.sizes());
  if (x.dtype() != values.dtype() || (adds && !canAdd(x.dtype())))
    return convertToKernel(call, "the dtypes differ, or there is no such sum");
  if (x.numel() == 0 || values.numel() == 0) return convertToKernel(call, kEmpty);
  auto which = pickedBlocks(sizes, first, indices, wraps);
  if (!which || which->count == 0) return convertToKernel(call, kNotIndex);
  const size_t behind = first + indices.size();
  Dims given(DimSpan(sizes.data(), first));
  for (int64_t n : which->block) given.push_back(n);
  for (int64_t n : DimSpan(sizes).subspan(behind)) given.push_back(n);
  Dims all = given;
  if (values.sizes().size() > all.size() || !broadcastInto(all, values.sizes()) || !(all == given))
    return convertToKernel(call, "the values have other sizes");
  std::vector<TensorId> inputs{inOrder(call, x), inOrder(call, expandedTo(values, given))};
  for (const Tensor& t : indices) inputs.push_back(call.idOf(t));
  const TensorId output = call.makeResult();
  auto& layer = call.add<PutLayer>();
  layer.which = *std::move(which);
  layer.outer = product(DimSpan(sizes.data(), first));
  layer.picked = product(DimSpan(sizes.data() + first, indices.size()));
  layer.inner = product(DimSpan(sizes).subspan(behind));
  layer.adds = adds;
  layer.alpha = alpha;
  layer.inputs = std::move(inputs);
  layer.outputs = {output};
}

}  // namespace

namespace {

// Those of a list of indices that are there.
struct GivenIndices {
  GivenIndices(const std::vector<Tensor>& list, int rank) {
    for (size_t d = 0; d < list.size(); ++d) {
      if (!list[d].defined()) continue;
      areNumbers &= isIndex(list[d]);
      if (indices.empty()) first = d;
      isRun &= d == first + indices.size();
      indices.push_back(list[d]);
      order.push_back(static_cast<int64_t>(d));
    }
    for (int64_t d = 0; d < rank; ++d)
      if (static_cast<size_t>(d) >= list.size() || !list[static_cast<size_t>(d)].defined()) order.push_back(d);
  }
  std::vector<Tensor> indices;
  size_t first = 0;                      // the dimension of the first one
  bool isRun = true, areNumbers = true;  // they are those of neighbours
  Dims order;                            // their dimensions, then the others
};

// An index for each dimension up to the last one that has one: all numbers of a dimension where there was none.
std::vector<Tensor> amongAll(std::vector<Tensor> list, const Tensor& x) {
  while (!list.back().defined()) list.pop_back();
  auto withOnes = [](const Tensor& t, int ones) {
    Dims sizes(t.sizes()), strides(t.strides());
    sizes.resize(sizes.size() + static_cast<size_t>(ones), 1);
    strides.resize(sizes.size(), 1);
    return t.withGeometry(sizes, strides, t.offset());
  };
  int others = static_cast<int>(std::count_if(list.begin(), list.end(), [](const Tensor& t) { return !t.defined(); }));
  const int all = others;
  for (size_t d = 0; d < list.size(); ++d) {
    if (list[d].defined()) {
      list[d] = withOnes(list[d], all);
      continue;
    }
    Tensor numbers = Tensor::empty(DType::Int64, Dims{x.size(static_cast<int>(d))});
    std::iota(numbers.data<int64_t>(), numbers.data<int64_t>() + numbers.numel(), int64_t{0});
    list[d] = withOnes(numbers, --others);
  }
  return list;
}

}  // namespace

// (self, indices): of dimensions that are no neighbours the block is first.
void convertIndex(ConvertCall& call) {
  const Tensor x = call.tensor(0);
  const GivenIndices given(call.tensors(1), x.rank());
  if (!given.areNumbers || given.indices.empty()) return convertToKernel(call, kNotIndex);
  if (given.isRun) return addPick(call, x, given.first, given.indices, true);
  constexpr int64_t kFew = 4;  // times as many are as well put in order
  if (x.isContiguous() && call.spec().sizes.size() > 0 && product(call.spec().sizes) < x.numel() / kFew)
    return addPick(call, x, 0, amongAll(call.tensors(1), x), true);
  addPick(call, x.permuted(given.order), 0, given.indices, true);
}

void convertIndexSelect(ConvertCall& call) {
  Tensor x = call.tensor(0), index = call.tensor(2);
  if (x.rank() == 0 || index.rank() != 1) return convertToKernel(call, "a tensor has no dimensions");
  addPick(call, x, static_cast<size_t>(call.dim(1, x.rank())), {index}, false);
}

void convertEmbedding(ConvertCall& call) {
  Tensor table = call.tensor(0), numbers = call.tensor(1);
  const bool isEncoded = !call.isNetworkTensor(0) && table.storage()->encoding() && table.isContiguous();
  if (!isEncoded || numbers.numel() == 0) return addPick(call, table, 0, {numbers}, false);
  const TensorId from = inOrder(call, numbers);
  TensorId output = call.makeResult();
  auto& layer = call.add<DecodeRowsLayer>(table, numbers.numel());
  layer.inputs = {from};
  layer.outputs = {output};
}

void convertGather(ConvertCall& call) {
  Tensor x = call.tensor(0), index = call.tensor(2);
  if (x.numel() == 0 || index.numel() == 0) return convertToKernel(call, kEmpty);
  if (x.rank() == 0 || index.rank() != x.rank()) return convertToKernel(call, "a tensor has no dimensions");
  if (index.dtype() != DType::Int64 || itemSize(x.dtype()) > sizeof(uint64_t)) return convertToKernel(call, kNotIndex);
  const auto dim = static_cast<size_t>(call.dim(1, x.rank()));
  TensorId from = call.operand(0), numbers = call.operand(2);
  TensorId output = call.makeResult();
  auto& layer = call.add<GatherLayer>();
  layer.dim = dim;
  layer.inputs = {from, numbers};
  layer.outputs = {output};
}

namespace {

// x[mask] = number
void putWhereTrue(ConvertCall& call, const Tensor& mask) {
  const Tensor x = call.tensor(0), value = call.tensor(2);
  if (value.numel() != 1 || call.flag(3)) return convertToKernel(call, "elements are put where a mask is true");
  Dims sizes(mask.sizes());
  if (!std::equal(sizes.begin(), sizes.end(), x.sizes().begin(), x.sizes().begin() + mask.rank()))
    return convertToKernel(call, "the mask has other sizes");
  sizes.resize(x.sizes().size(), 1);
  const IValue where = reshaped(call, mask, sizes);
  call.setResult(call.compute("aten::where.self", {where, reshaped(call, value, Dims{}), x}));
}

}  // namespace

// (self, dim, index, source, alpha)
void convertIndexAdd(ConvertCall& call) {
  const Tensor x = call.tensor(0), index = call.tensor(2), source = call.tensor(3);
  if (x.rank() == 0 || index.rank() != 1 || source.rank() != x.rank())
    return convertToKernel(call, "a tensor has no dimensions");
  const double alpha = call.number(4);
  if (alpha != 1 && !isF32(x)) return convertToKernel(call, kNotF32);
  addPut(call, static_cast<size_t>(call.dim(1, x.rank())), {index}, source, true, false, static_cast<float>(alpha));
}

// (self, indices, values, accumulate): numbers, or a mask and one number.
void convertIndexPut(ConvertCall& call) {
  const Tensor x = call.tensor(0), values = call.tensor(2);
  if (x.numel() == 0 || values.numel() == 0) return convertToKernel(call, kEmpty);
  const std::vector<Tensor> list = call.tensors(1);
  if (!list.empty() && list[0].defined() && list[0].dtype() == DType::Bool && list[0].rank() > 0 &&
      list[0].rank() <= x.rank() && x.dtype() == values.dtype() &&
      std::none_of(list.begin() + 1, list.end(), [](const Tensor& t) { return t.defined(); }))
    return putWhereTrue(call, list[0]);
  const GivenIndices given(list, x.rank());
  if (!given.areNumbers || given.indices.empty()) return convertToKernel(call, kNotIndex);
  if (!given.isRun) return convertToKernel(call, "indices do not stand next to each other");
  addPut(call, given.first, given.indices, values, call.flag(3), true);
}

// (self, dim, index, source)
void convertIndexCopy(ConvertCall& call) {
  const Tensor x = call.tensor(0), index = call.tensor(2), source = call.tensor(3);
  if (x.rank() == 0 || index.rank() != 1 || source.rank() != x.rank())
    return convertToKernel(call, "a tensor has no dimensions");
  addPut(call, static_cast<size_t>(call.dim(1, x.rank())), {index}, source, false, false);
}

// (self, dim, index, value)
void convertIndexFill(ConvertCall& call) {
  const Tensor x = call.tensor(0), index = call.tensor(2);
  const IValue& value = call.argument(3);
  const bool isNumber = value.isNumber() && !value.isComplex() && isF32(x);
  if (x.rank() == 0 || index.rank() != 1 || !(isNumber || value.isTensor()))
    return convertToKernel(call, "a tensor has no dimensions, or a number is not to be one of float32");
  Tensor element = value.isTensor() ? value.toTensor() : Tensor::empty(DType::Float32, Dims{});
  if (isNumber) {
    *element.data<float>() = static_cast<float>(value.toDouble());
    if (std::isinf(*element.data<float>()) && !std::isinf(value.toDouble()))
      return convertToKernel(call, "a number is too large");
  }
  addPut(call, static_cast<size_t>(call.dim(1, x.rank())), {index}, element, false, true);
}

}  // namespace tscompile
