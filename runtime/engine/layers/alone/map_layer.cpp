#include "runtime/engine/layers/alone/map_layer.h"

#include "runtime/call/thread_pool.h"
#include "runtime/engine/layers/complex_layer.h"
#include "runtime/engine/layers/operands.h"
#include "runtime/engine/network/frame.h"
#include "runtime/reference/pytorch_words.h"
#include "runtime/reference/views.h"

#include <algorithm>

namespace tscompile {
namespace {

constexpr int64_t kMapPiece = 2048;  // elements, at least, that a thread takes together
constexpr int64_t kMostMapPieces = 64;
constexpr size_t kTileBytes = static_cast<size_t>(kTile) * sizeof(std::complex<double>);

// Inputs have the sizes of the result, without gaps, or one element.
class MapLayer : public Layer {
 public:
  MapLayer(const Node* node, MapFunction function) : Layer(node), function_(std::move(function)) {}
  std::string name() const override { return "map"; }

  void run(Frame& frame) const override {
    const int64_t numel = frame.network()[outputs[0]].numel;
    const int64_t pieces = std::clamp<int64_t>(numel / kMapPiece, 1, kMostMapPieces);
    parallelFor(pieces, pieces == 1 ? 1 : frame.threads(), [&](int64_t p) {
      const Piece piece = pieceOf(numel, pieces, p);
      runPiece(frame, piece.begin, piece.end);
    });
  }

 private:
  // How an operand is walked through: as it lies, or by way of a tile of the compute type.
  struct Walk {
    std::byte* data;
    int64_t stride;  // in bytes
    bool isDirect;
    LoadTile load;
  };

  Walk walkOf(const Frame& frame, TensorId id, bool isOne) const {
    const NetTensor& t = frame.network()[id];
    return {frame.raw(id), isOne ? 0 : static_cast<int64_t>(itemSize(t.dtype)),
            !isOne && isStoredAs(t.dtype, function_.typed.in), tileLoader(t.dtype, function_.typed.in)};
  }

  void runPiece(const Frame& frame, int64_t begin, int64_t end) const {
    alignas(64) std::byte tiles[kMaxOperands][kTileBytes];
    const NetTensor& out = frame.network()[outputs[0]];
    Walk walks[kMaxOperands];
    Tile tile{.n = std::min(kTile, end - begin), .operand = {}, .parameters = function_.held.get()};
    for (size_t k = 0; k < inputs.size(); ++k) {
      walks[k] = walkOf(frame, inputs[k], frame.network()[inputs[k]].numel == 1);
      tile.operand[k + 1] = tiles[k + 1];
      if (walks[k].stride == 0) walks[k].load(walks[k].data, 0, tiles[k + 1], tile.n);
    }
    const auto size = static_cast<int64_t>(itemSize(out.dtype));
    const bool isDirect = isStoredAs(out.dtype, function_.typed.out);
    const StoreTile store = isDirect ? nullptr : tileStorer(function_.typed.out, out.dtype);
    for (int64_t i = begin; i < end; i += tile.n) {
      tile.n = std::min(kTile, end - i);
      for (size_t k = 0; k < inputs.size(); ++k) {
        const Walk& w = walks[k];
        if (w.isDirect)
          tile.operand[k + 1] = w.data + i * w.stride;
        else if (w.stride)
          w.load(w.data + i * w.stride, w.stride, tiles[k + 1], tile.n);
      }
      std::byte* to = frame.raw(outputs[0]) + i * size;
      tile.operand[0] = isDirect ? to : tiles[0];
      function_.typed.tile(tile);
      if (!isDirect) store(tiles[0], to, size, tile.n);
    }
  }

  MapFunction function_;
};

// Whether elements that are read into the compute type of `to` are what a conversion to `to` makes of them.
bool isReadAs(DType from, DType to) {
  switch (to) {
    case DType::Float32:
    case DType::Float64:
    case DType::Int64:
    case DType::Complex128:
      return true;
    case DType::Complex64:
      return from == DType::Complex64 || from == DType::Float32 || from == DType::Bool;
    default:
      return from == to || from == DType::Bool;
  }
}

// Argument i as an operand of `dtype`.
Tensor argumentAs(ConvertCall& call, size_t i, DType dtype) {
  if (!call.argument(i).isTensor()) return convertTensor(scalarTensor(call.argument(i)), dtype);
  const Tensor t = call.tensor(i);
  if (isReadAs(t.dtype(), dtype)) return t;
  if (!t.storage()->isSymbolic()) return convertTensor(t, dtype);
  return call.compute("aten::to.dtype", {t, static_cast<int64_t>(dtype), false, false, IValue()}).toTensor();
}

constexpr std::string_view kNoMap = "no loop maps elements of the dtype";

}  // namespace

void addMapLayer(ConvertCall& call, DType dtype, size_t first, size_t count, MapFunction function) {
  const Dims sizes(call.spec().sizes);
  std::vector<TensorId> inputs;
  for (size_t i = first; i < first + count; ++i) {
    const Tensor t = argumentAs(call, i, dtype);
    const Tensor seen = t.numel() == 1 ? t : expandedTo(t, sizes);
    const TensorId id = call.idOf(seen);
    if (t.numel() == 1 || call.network()[id].contiguous) {
      inputs.push_back(id);
      continue;
    }
    if (t.dtype() == DType::Complex128) return convertToKernel(call, kNoMap);
    inputs.push_back(t.dtype() == DType::Complex64 ? contiguousComplex(call, id) : addCopy(call, id));
  }
  const TensorId output = call.makeResult();
  auto& layer = call.add<MapLayer>(std::move(function));
  layer.inputs = std::move(inputs);
  layer.outputs = {output};
}

void convertByBody(ConvertCall& call, MapBody body) {
  if (!allKnown(call.spec().sizes) || checkedNumel(call.spec().sizes) == 0)
    return convertToKernel(call, "the result has no elements");
  try {
    body(call);
  } catch (const ExecutionError& e) {  // the kernel tells it
    if (e.kind() == ErrorKind::Interrupted || e.kind() == ErrorKind::Limit) throw;
    convertToKernel(call, kNoMap);
  }
}

void convertStepsOrBody(ConvertCall& call, PointwiseSteps steps, MapBody body) {
  if (!allKnown(call.spec().sizes) || checkedNumel(call.spec().sizes) == 0) return convertByBody(call, body);
  StepBuilder builder(call);
  const int result = steps(builder);
  if (!builder.finish(result)) convertByBody(call, body);
}

}  // namespace tscompile
