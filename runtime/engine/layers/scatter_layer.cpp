#include "runtime/engine/layers/scatter_layer.h"

#include "ir/values/error.h"
#include "runtime/call/thread_pool.h"
#include "runtime/engine/layers/operands.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tscompile {
namespace {

using How = ScatterLayer::How;
constexpr int64_t kParallel = 32 << 10;  // elements; fewer are brought by one thread

template <How kHow, class T>
T joined(T old, T value) {
  if constexpr (kHow == How::Assign) return value;
  using Sum = std::conditional_t<std::is_same_v<T, int64_t>, uint64_t, T>;  // modulo 2^64
  if constexpr (kHow == How::Add) return static_cast<T>(static_cast<Sum>(old) + static_cast<Sum>(value));
  if constexpr (kHow == How::Multiply) return static_cast<T>(static_cast<Sum>(old) * static_cast<Sum>(value));
  if constexpr (kHow == How::Max) return old != old || old >= value ? old : value;
  return old != old || old <= value ? old : value;
}

// Elements that go to places of their own: of one coordinate in all dimensions but `dim` and the last, and a piece of
// the last; or, where `dim` is the last, those of a range of places.
template <class T>
struct Column {
  const int64_t* index;
  const T* source;
  T* out;
  int64_t count, size;                     // along `dim`, of the index and of the result
  int64_t indexStep, sourceStep, outStep;  // along `dim`
  int64_t width, indexNext, sourceNext;    // along the last dimension
  Piece places;
};

template <How kHow, class T>
void joinColumn(const Column<T>& c) {
  auto placeOf = [&](int64_t at) {
    // The interpreter does it again, and tells where it is.
    if (at < 0 || at >= c.size) [[unlikely]]
      throw ExecutionError(ErrorKind::Model, "an index is out of range");
    return at;
  };
  if (c.width == 1 && c.places.begin == 0 && c.places.end == c.size) {
    for (int64_t i = 0; i < c.count; ++i) {
      T& to = c.out[placeOf(c.index[i * c.indexStep]) * c.outStep];
      to = joined<kHow>(to, c.source[i * c.sourceStep]);
    }
    return;
  }
  for (int64_t i = 0; i < c.count; ++i) {
    const int64_t* index = c.index + i * c.indexStep;
    const T* source = c.source + i * c.sourceStep;
    if (c.indexNext == 0 && (c.sourceNext == 1 || c.sourceNext == 0)) {
      const int64_t at = placeOf(*index);
      if (at < c.places.begin || at >= c.places.end) continue;
      T* to = c.out + at * c.outStep;
      const T first = *source;
      if (c.sourceNext == 0)
        for (int64_t j = 0; j < c.width; ++j) to[j] = joined<kHow>(to[j], first);
      else
        for (int64_t j = 0; j < c.width; ++j) to[j] = joined<kHow>(to[j], source[j]);
      continue;
    }
    for (int64_t j = 0; j < c.width; ++j) {
      const int64_t at = placeOf(index[j * c.indexNext]);
      if (at < c.places.begin || at >= c.places.end) continue;
      T& to = c.out[at * c.outStep + j];
      to = joined<kHow>(to, source[j * c.sourceNext]);
    }
  }
}

template <class T>
void join(How how, const Column<T>& c) {
  switch (how) {
    case How::Assign:
      return joinColumn<How::Assign>(c);
    case How::Add:
      return joinColumn<How::Add>(c);
    case How::Multiply:
      return joinColumn<How::Multiply>(c);
    case How::Max:
      return joinColumn<How::Max>(c);
    case How::Min:
      return joinColumn<How::Min>(c);
  }
}

bool isWhole(double v) { return std::trunc(v) == v && std::fabs(v) < 0x1p53; }

}  // namespace

void ScatterLayer::run(Frame& frame) const {
  switch (frame.network()[outputs[0]].dtype) {
    case DType::Float32:
      return runAs<float>(frame);
    case DType::Float64:
      return runAs<double>(frame);
    case DType::Int64:
      return runAs<int64_t>(frame);
    default:
      return runAs<bool>(frame);
  }
}

template <class T>
void ScatterLayer::runAs(Frame& frame) const {
  const NetTensor &out = frame.network()[outputs[0]], &index = frame.network()[inputs[1]];
  auto* to = frame.data<T>(outputs[0]);
  const T* self = frame.data<T>(inputs[0]);
  const T number = static_cast<T>(value);
  const int64_t copies = std::clamp<int64_t>(out.numel >> 14, 1, 64);
  if (self != to)
    parallelFor(copies, out.numel < kParallel * 2 ? 1 : frame.threads(), [&](int64_t i) {
      const Piece piece = pieceOf(out.numel, copies, i);
      std::copy(self + piece.begin, self + piece.end, to + piece.begin);
    });
  const size_t rank = index.sizes.size(), last = rank - 1;
  const bool hasSource = inputs.size() > 2, alongLast = dim == last;
  const Dims sourceStrides = hasSource ? frame.network()[inputs[2]].strides : Dims(rank, 0);
  Dims others = index.sizes;  // that columns are apart in
  others[dim] = others[last] = 1;
  const int64_t rows = std::accumulate(others.begin(), others.end(), int64_t{1}, std::multiplies<>());
  const int64_t width = alongLast ? 1 : index.sizes[last], size = out.sizes[dim];
  const int64_t widths = std::clamp<int64_t>(width / 16, 1, 8);
  const bool byPlaces = alongLast && rows < 8 && index.numel >= kParallel;
  const int64_t ranges = byPlaces ? std::clamp<int64_t>(size / 64, 1, 8) : 1, columns = rows * widths * ranges;
  const int64_t pieces = std::min<int64_t>(columns, 64);
  parallelFor(pieces, index.numel < kParallel ? 1 : frame.threads(), [&](int64_t p) {
    const Piece some = pieceOf(columns, pieces, p);
    for (int64_t column = some.begin; column < some.end; ++column) {
      const Piece part = pieceOf(width, widths, column / ranges % widths);
      int64_t indexAt = 0, sourceAt = 0, outAt = 0, rest = column / ranges / widths;
      for (size_t d = last; d-- > 0;) {
        const int64_t at = rest % others[d];
        rest /= others[d];
        indexAt += at * index.strides[d];
        sourceAt += at * sourceStrides[d];
        outAt += at * out.strides[d];
      }
      Column<T> c{};
      c.index = frame.data<int64_t>(inputs[1]) + indexAt + part.begin * index.strides[last];
      c.source = (hasSource ? frame.data<T>(inputs[2]) : &number) + sourceAt + part.begin * sourceStrides[last];
      c.out = to + outAt + part.begin;
      c.count = index.sizes[dim];
      c.size = size;
      c.indexStep = index.strides[dim];
      c.sourceStep = sourceStrides[dim];
      c.outStep = out.strides[dim];
      c.width = part.end - part.begin;
      c.indexNext = alongLast ? 0 : index.strides[last];
      c.sourceNext = alongLast ? 1 : sourceStrides[last];
      c.places = pieceOf(size, ranges, column % ranges);
      join(how, c);
    }
  });
}

void OneHotLayer::run(Frame& frame) const {
  const NetTensor& out = frame.network()[outputs[0]];
  const int64_t count = out.sizes.back(), rows = out.numel / count,
                pieces = std::clamp<int64_t>(out.numel >> 14, 1, 64);
  const auto* classes = frame.data<int64_t>(inputs[0]);
  auto* to = frame.data<int64_t>(outputs[0]);
  parallelFor(pieces, pieces == 1 ? 1 : frame.threads(), [&](int64_t p) {
    const Piece piece = pieceOf(rows, pieces, p);
    std::fill(to + piece.begin * count, to + piece.end * count, int64_t{0});
    for (int64_t i = piece.begin; i < piece.end; ++i) {
      // The interpreter does it again, and tells what is wrong with it.
      if (classes[i] < 0 || classes[i] >= count) [[unlikely]]
        throw ExecutionError(ErrorKind::Model, "a class is out of range");
      to[i * count + classes[i]] = 1;
    }
  });
}

void convertOneHot(ConvertCall& call) {
  const Tensor classes = call.tensor(0);
  if (classes.dtype() != DType::Int64 || classes.numel() == 0 || call.integer(1) < 1)
    return convertToKernel(call, "the classes are not int64, or unknown in number");
  const TensorId input = contiguousOperand(call, 0), output = call.makeResult();
  auto& layer = call.add<OneHotLayer>();
  layer.inputs = {input};
  layer.outputs = {output};
}

void addScatter(ConvertCall& call, How how) {
  Tensor x = call.tensor(0), index = call.tensor(2);
  const bool isBool = x.dtype() == DType::Bool, isOther = x.dtype() == DType::Float64 || x.dtype() == DType::Int64;
  if (!isF32(x) && !isOther && !(isBool && how == How::Assign))
    return convertToKernel(call, "the elements are of none of float32, float64, int64 and bool");
  if (x.numel() == 0 || index.numel() == 0) return convertToKernel(call, kEmpty);
  if (x.rank() == 0 || index.rank() != x.rank()) return convertToKernel(call, "a tensor has no dimensions");
  if (index.dtype() != DType::Int64) return convertToKernel(call, "its index is not int64");
  const bool hasSource = call.argument(3).isTensor();
  if (hasSource && (call.tensor(3).dtype() != x.dtype() || call.tensor(3).rank() != x.rank()))
    return convertToKernel(call, "the source is broadcast");
  if (!hasSource && !isFloating(x.dtype()) && !isWhole(call.number(3)))
    return convertToKernel(call, "a number is not whole, or too large");
  std::vector<TensorId> inputs{contiguousOperand(call, 0), call.operand(2)};
  if (hasSource) inputs.push_back(call.operand(3));
  TensorId output = call.makeResult();
  auto& layer = call.add<ScatterLayer>();
  layer.dim = static_cast<size_t>(call.dim(1, x.rank()));
  layer.how = how;
  if (!hasSource) layer.value = call.number(3);
  layer.inputs = std::move(inputs);
  layer.outputs = {output};
}

void convertScatter(ConvertCall& call) {
  if (call.size() <= 4) return addScatter(call, How::Assign);
  const std::string& how = call.text(4);
  if (how != "add" && how != "multiply") return convertToKernel(call, "there is no such reduction");
  addScatter(call, how == "add" ? How::Add : How::Multiply);
}

void convertScatterAdd(ConvertCall& call) { addScatter(call, How::Add); }

}  // namespace tscompile
