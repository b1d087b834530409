#include "runtime/engine/layers/indexing_layer.h"

#include "ir/values/encoded.h"
#include "ir/values/error.h"
#include "runtime/call/thread_pool.h"
#include "runtime/engine/layers/operands.h"

#include <algorithm>
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
      int64_t i = piece.begin, block = i % count, first = i / count * picked;
      for (; i < piece.end; ++i) {
        each(first + blocks[block], i);
        if (++block < count) continue;
        block = 0;
        first += picked;
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

void IndexAddLayer::run(Frame& frame) const {
  const float* self = frame.data<float>(inputs[0]);
  const std::byte* numbers = frame.raw(inputs[1]);
  const DType dtype = frame.network()[inputs[1]].dtype;
  const float* source = frame.data<float>(inputs[2]);
  auto* out = frame.data<float>(outputs[0]);
  for (int64_t i = 0; i < count; ++i) checked(elementOf(numbers, dtype, i), size, wraps);
  // Each thread has columns of its own: what is added to one element is added in order.
  const int64_t columns = std::clamp<int64_t>(inner / 16, 1, 16), units = outer * columns;
  const int64_t work = outer * (count + size) * inner;
  parallelFor(units, work < (32 << 10) ? 1 : frame.threads(), [&](int64_t u) {
    const int64_t o = u / columns;
    const Piece part = pieceOf(inner, columns, u % columns);
    for (int64_t i = 0; i < size; ++i) {
      const int64_t at = (o * size + i) * inner;
      std::copy(self + at + part.begin, self + at + part.end, out + at + part.begin);
    }
    for (int64_t i = 0; i < count; ++i) {
      const int64_t number = elementOf(numbers, dtype, i);
      float* to = out + (o * size + (number < 0 ? number + size : number)) * inner;
      const float* from = source + (o * count + i) * inner;
      if (assigns)
        std::copy(from + part.begin, from + part.end, to + part.begin);
      else
        for (int64_t c = part.begin; c < part.end; ++c) to[c] += from[c] * alpha;
    }
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

// Picks from dimensions [first, first + indices.size()).
void addPick(ConvertCall& call, const Tensor& x, size_t first, const std::vector<Tensor>& indices, bool wraps) {
  const Dims sizes(x.sizes());
  if (x.numel() == 0 || checkedNumel(call.spec().sizes).value_or(0) == 0) return convertToKernel(call, kEmpty);
  const TensorId from = inOrder(call, x);
  auto layer = std::make_unique<PickLayer>(call.node());
  for (const Tensor& t : indices)
    if (!broadcastInto(layer->which.block, t.sizes())) return convertToKernel(call, kNotIndex);
  const size_t behind = first + indices.size(), rank = layer->which.block.size();
  layer->which.count = product(layer->which.block);
  layer->outer = product(DimSpan(sizes.data(), first));
  layer->picked = product(DimSpan(sizes.data() + first, indices.size()));
  layer->innerBytes =
      product(DimSpan(sizes.data() + behind, sizes.size() - behind)) * static_cast<int64_t>(itemSize(x.dtype()));
  layer->which.wraps = wraps;
  layer->inputs = {from};
  for (size_t k = 0; k < indices.size(); ++k) {
    const Tensor& t = indices[k];
    PickedBlocks::Index index{sizes[first + k], product(DimSpan(sizes.data() + first + k + 1, indices.size() - k - 1)),
                              Dims(rank, 0)};
    for (int d = 0; d < t.rank(); ++d)
      index.strides[rank - static_cast<size_t>(t.rank() - d)] = t.size(d) == 1 ? 0 : t.stride(d);
    layer->which.indices.push_back(std::move(index));
    layer->inputs.push_back(call.idOf(t));
  }
  layer->outputs = {call.makeResult()};
  call.network().layers.push_back(std::move(layer));
}

}  // namespace

// (self, indices): those that are there stand next to each other.
void convertIndex(ConvertCall& call) {
  Tensor x = call.tensor(0);
  std::vector<Tensor> given = call.tensors(1), indices;
  size_t first = 0;
  for (size_t d = 0; d < given.size(); ++d) {
    if (!given[d].defined()) continue;
    if (!isIndex(given[d])) return convertToKernel(call, kNotIndex);
    if (indices.empty()) first = d;
    if (d != first + indices.size()) return convertToKernel(call, "indices do not stand next to each other");
    indices.push_back(given[d]);
  }
  if (indices.empty()) return convertToKernel(call, kNotIndex);
  addPick(call, x, first, indices, true);
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

// `sizes`: of the source, which has as many places along `dim` as there are indices.
IndexAddLayer& addIndexAdd(ConvertCall& call, const Dims& sizes, size_t dim, const Tensor& index,
                           const Tensor& source) {
  const Tensor x = call.tensor(0);
  const TensorId to = inOrder(call, x), numbers = inOrder(call, index), from = inOrder(call, source);
  TensorId output = call.makeResult();
  auto& layer = call.add<IndexAddLayer>();
  layer.outer = product(DimSpan(sizes.data(), dim));
  layer.size = x.size(static_cast<int>(dim));
  layer.count = index.size(0);
  layer.inner = product(DimSpan(sizes.data() + dim + 1, sizes.size() - dim - 1));
  layer.inputs = {to, numbers, from};
  layer.outputs = {output};
  return layer;
}

// x[mask] = number
void putWhereTrue(ConvertCall& call, const Tensor& mask) {
  const Tensor x = call.tensor(0), value = call.tensor(2);
  if (value.numel() != 1 || call.flag(3)) return convertToKernel(call, "elements are put where a mask is true");
  Dims sizes(mask.sizes());
  if (!std::equal(sizes.begin(), sizes.end(), x.sizes().begin(), x.sizes().begin() + mask.rank()))
    return convertToKernel(call, "the mask has other sizes");
  sizes.resize(x.sizes().size(), 1);
  const IValue where = call.compute("aten::reshape", {mask, intList(sizes)});
  call.setResult(call.compute("aten::where.self", {where, call.compute("aten::reshape", {value, intList(Dims{})}), x}));
}

}  // namespace

// (self, dim, index, source, alpha)
void convertIndexAdd(ConvertCall& call) {
  Tensor x = call.tensor(0), index = call.tensor(2), source = call.tensor(3);
  if (!isF32(x)) return convertToKernel(call, kNotF32);
  if (x.numel() == 0 || source.numel() == 0) return convertToKernel(call, kEmpty);
  if (x.rank() == 0 || index.rank() != 1) return convertToKernel(call, "a tensor has no dimensions");
  const auto dim = static_cast<size_t>(call.dim(1, x.rank()));
  Dims sizes(x.sizes());
  sizes[dim] = index.size(0);
  if (!(Dims(source.sizes()) == sizes)) return convertToKernel(call, "the source is broadcast");
  addIndexAdd(call, sizes, dim, index, source).alpha = static_cast<float>(call.number(4));
}

// (self, indices, values, accumulate): one index, or a mask and one number.
void convertIndexPut(ConvertCall& call) {
  const Tensor x = call.tensor(0), values = call.tensor(2);
  if (!isF32(x) || !isF32(values)) return convertToKernel(call, kNotF32);
  if (x.numel() == 0 || values.numel() == 0) return convertToKernel(call, kEmpty);
  const std::vector<Tensor> indices = call.tensors(1);
  size_t dim = 0;
  while (dim < indices.size() && !indices[dim].defined()) ++dim;
  for (size_t d = dim + 1; d < indices.size(); ++d)
    if (indices[d].defined()) return convertToKernel(call, "there are several indices");
  if (dim >= indices.size()) return convertToKernel(call, kNotIndex);
  const Tensor& index = indices[dim];
  if (index.dtype() == DType::Bool && dim == 0 && index.rank() > 0 && index.rank() <= x.rank())
    return putWhereTrue(call, index);
  if (!isIndex(index) || index.rank() != 1 || index.numel() == 0) return convertToKernel(call, kNotIndex);
  Dims sizes(x.sizes()), given(sizes);
  sizes[dim] = given[dim] = index.size(0);
  if (values.sizes().size() > sizes.size() || !broadcastInto(given, values.sizes()) || !(given == sizes))
    return convertToKernel(call, "the values have other sizes");
  const Tensor source = call.compute("aten::expand", {values, intList(sizes), false}).toTensor();
  IndexAddLayer& layer = addIndexAdd(call, sizes, dim, index, source);
  layer.assigns = !call.flag(3);
  layer.wraps = true;
}

}  // namespace tscompile
