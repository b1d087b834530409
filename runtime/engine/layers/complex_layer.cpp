#include "runtime/engine/layers/complex_layer.h"

#include "runtime/call/thread_pool.h"
#include "runtime/engine/layers/operands.h"
#include "runtime/kernels/complex_product.h"

#include <algorithm>
#include <array>

namespace tscompile {
namespace {

constexpr int64_t kPiece = 4096;  // numbers, at least, that a thread takes together

// How a factor walks through the sizes of the result.
struct Walk {
  ComplexRow row;
  Dims strides;  // in floats
};

Walk walkOf(const Frame& frame, TensorId id, size_t rank) {
  const NetTensor& t = frame.network()[id];
  Walk walk;
  walk.row.isComplex = t.dtype == DType::Complex64;
  walk.row.data = reinterpret_cast<const float*>(frame.raw(id));
  walk.strides = broadcastStrides(t, rank);
  if (walk.row.isComplex)
    for (int64_t& s : walk.strides) s *= 2;
  return walk;
}

// How many of the last dimensions are one row for a factor: its elements lie there one behind the other, or are one.
bool isRow(const Walk& walk, const Dims& sizes, size_t from) {
  const int64_t unit = walk.row.isComplex ? 2 : 1;
  bool one = true, dense = true;
  int64_t step = unit;
  for (size_t d = sizes.size(); d-- > from; step *= sizes[d]) {
    if (sizes[d] == 1) continue;
    one &= walk.strides[d] == 0;
    dense &= walk.strides[d] == step;
  }
  return one || dense;
}
bool isOne(const Walk& walk, const Dims& sizes, size_t from) {
  for (size_t d = from; d < sizes.size(); ++d)
    if (sizes[d] > 1 && walk.strides[d] != 0) return false;
  return true;
}

}  // namespace

void ComplexLayer::run(Frame& frame) const {
  const NetTensor& out = frame.network()[outputs[0]];
  const Dims& sizes = out.sizes;
  std::array<Walk, 2> walks{walkOf(frame, inputs[0], sizes.size()), walkOf(frame, inputs[1], sizes.size())};
  size_t inner = sizes.size();
  while (inner > 0 && isRow(walks[0], sizes, inner - 1) && isRow(walks[1], sizes, inner - 1)) --inner;
  int64_t row = 1;
  for (size_t d = inner; d < sizes.size(); ++d) row *= sizes[d];
  for (Walk& walk : walks) walk.row.moves = !isOne(walk, sizes, inner);
  auto* to = reinterpret_cast<float*>(frame.raw(outputs[0]));
  const int64_t pieces = std::clamp<int64_t>(out.numel / kPiece, 1, 64);
  parallelFor(pieces, pieces == 1 ? 1 : frame.threads(), [&](int64_t p) {
    const Piece piece = pieceOf(out.numel, pieces, p);
    // Of the row that is next: its place in the dimensions before it, and where its factors lie.
    Dims place(inner, 0);
    std::array<int64_t, 2> starts{};
    int64_t rest = piece.begin / row;
    for (size_t d = inner; d-- > 0; rest /= sizes[d]) {
      place[d] = rest % sizes[d];
      for (size_t k = 0; k < walks.size(); ++k) starts[k] += place[d] * walks[k].strides[d];
    }
    for (int64_t i = piece.begin; i < piece.end;) {
      const int64_t begin = i % row, count = std::min(row - begin, piece.end - i);
      std::array<ComplexRow, 2> rows{walks[0].row, walks[1].row};
      for (size_t k = 0; k < rows.size(); ++k) {
        rows[k].data += starts[k];
        if (rows[k].moves) rows[k].data += begin * (rows[k].isComplex ? 2 : 1);
      }
      (divides ? complexQuotients : complexProducts)(rows[0], rows[1], count, to + 2 * i);
      i += count;
      for (size_t d = inner; d-- > 0; place[d] = 0) {
        for (size_t k = 0; k < walks.size(); ++k) starts[k] += walks[k].strides[d];
        if (++place[d] < sizes[d]) break;
        for (size_t k = 0; k < walks.size(); ++k) starts[k] -= sizes[d] * walks[k].strides[d];
      }
    }
  });
}

TensorId contiguousComplex(ConvertCall& call, TensorId id) {
  Network& n = call.network();
  const NetTensor t = n[id];
  if (t.contiguous) return id;
  Dims sizes = t.sizes, strides = t.strides;
  for (int64_t& s : strides) s *= 2;
  sizes.push_back(2);
  strides.push_back(1);
  TensorId pairs = addCopy(call, n.addView(t.buffer, DType::Float32, sizes, strides, t.offset * 2));
  return n.addView(n[pairs].buffer, t.dtype, t.sizes, contiguousStrides(t.sizes), 0);
}

namespace {

// A factor broadcast to `sizes`, its dimensions in this order, whose last one is walked through one by one.
TensorId factorOf(ConvertCall& call, const Tensor& t, DimSpan sizes, const Dims& order) {
  const size_t missing = sizes.size() - t.sizes().size();
  Dims seen, strides;
  for (int64_t d : order) {
    const auto own = static_cast<int>(d - static_cast<int64_t>(missing));
    const bool is = own >= 0 && t.size(own) > 1;
    seen.push_back(is ? t.size(own) : 1);
    strides.push_back(is ? t.stride(own) : 0);
  }
  const TensorId id = call.idOf(t.withGeometry(seen, strides, t.offset()));
  int64_t step = 0;  // along the last dimension that has one
  for (size_t d = 0; d < seen.size(); ++d)
    if (sizes[static_cast<size_t>(order[d])] > 1) step = strides[d];
  if (step == 0 || step == 1) return id;
  return t.dtype() == DType::Complex64 ? contiguousComplex(call, id) : addCopy(call, id);
}

}  // namespace

void addComplexLayer(ConvertCall& call, const Tensor& a, const Tensor& b, bool divides) {
  const Dims sizes(call.spec().sizes);
  const Tensor& leading = a.dtype() == DType::Complex64 && Dims(a.sizes()) == sizes ? a : b;
  // As PyTorch has it, the result lies as the factor does.
  Dims order = leading.rank() == static_cast<int>(sizes.size()) ? orderInMemory(leading) : Dims();
  for (size_t d = order.size(); d < sizes.size(); ++d) order.push_back(static_cast<int64_t>(d));
  Dims made, strides(sizes.size(), 0);
  for (int64_t d : order) made.push_back(sizes[static_cast<size_t>(d)]);
  const Dims steps = contiguousStrides(made);
  for (size_t i = 0; i < order.size(); ++i) strides[static_cast<size_t>(order[i])] = steps[i];
  const Tensor out = call.makeTensor(DType::Complex64, made);
  auto layer = std::make_unique<ComplexLayer>(call.node());
  layer->divides = divides;
  layer->inputs = {factorOf(call, a, sizes, order), factorOf(call, b, sizes, order)};
  layer->outputs = {call.idOf(out)};
  call.network().layers.push_back(std::move(layer));
  call.setResult(0, out.withGeometry(sizes, strides, 0));
}

}  // namespace tscompile
