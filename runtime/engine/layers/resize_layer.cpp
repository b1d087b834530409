#include "runtime/engine/layers/resize_layer.h"

#include "runtime/call/scratch.h"
#include "runtime/call/thread_pool.h"
#include "runtime/engine/layers/operands.h"
#include "runtime/engine/layers/rearrange_layer.h"
#include "runtime/kernels/layout.h"
#include "runtime/kernels/pool2d.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace tscompile {
namespace {

int64_t product(const Dims& sizes, size_t begin, size_t end) {
  return std::accumulate(sizes.begin() + static_cast<int64_t>(begin), sizes.begin() + static_cast<int64_t>(end),
                         int64_t{1}, std::multiplies<>());
}

// The result in a row of `inner` elements of the sum of rows that output o sees, of a plane whose first row is `first`.
void sumRows(const ResizeTaps& taps, int64_t o, const float* in, int64_t first, int64_t inner, float* to) {
  const int64_t* index = taps.index.data() + o * taps.width;
  const float* weights = taps.weights.data() + o * taps.width;
  auto row = [&](int64_t k) { return in + (index[k] - first) * inner; };
  if (index[0] < 0) return std::fill_n(to, inner, 0.0f), void();
  int64_t k = 1;
  if (taps.width > 1 && index[1] >= 0) {
    const float *one = row(0), *other = row(1), a = weights[0], b = weights[1];
    for (int64_t x = 0; x < inner; ++x) to[x] = a * one[x] + b * other[x];
    ++k;
  } else {
    const float *one = row(0), a = weights[0];
    for (int64_t x = 0; x < inner; ++x) to[x] = a * one[x];
  }
  for (; k < taps.width && index[k] >= 0; ++k) {
    const float *more = row(k), a = weights[k];
    for (int64_t x = 0; x < inner; ++x) to[x] += a * more[x];
  }
}

// Rows of single elements: [outer][size] -> [outer][count]
void sumElements(const ResizeTaps& taps, int64_t outer, int64_t size, int64_t count, const float* in, float* to) {
  if (taps.width == 2 && std::all_of(taps.index.begin(), taps.index.end(), [](int64_t i) { return i >= 0; })) {
    const int64_t* index = taps.index.data();
    const float* weights = taps.weights.data();
    for (int64_t i = 0; i < outer; ++i, in += size, to += count)
      for (int64_t o = 0; o < count; ++o)
        to[o] = weights[2 * o] * in[index[2 * o]] + weights[2 * o + 1] * in[index[2 * o + 1]];
    return;
  }
  for (int64_t i = 0; i < outer; ++i, in += size, to += count)
    for (int64_t o = 0; o < count; ++o) sumRows(taps, o, in, 0, 1, to + o);
}

// [outer][size][inner] -> [outer][count][inner]
void resizeDimension(const ResizeTaps& taps, int64_t outer, int64_t size, int64_t count, int64_t inner, const float* in,
                     float* to) {
  if (inner == 1) return sumElements(taps, outer, size, count, in, to);
  for (int64_t i = 0; i < outer; ++i, in += size * inner)
    for (int64_t o = 0; o < count; ++o, to += inner) sumRows(taps, o, in, 0, inner, to);
}

// Rows of the input that some rows of the output see.
Piece rowsOf(const ResizeTaps& taps, Piece rows) {
  Piece seen{std::numeric_limits<int64_t>::max(), 0};
  for (int64_t i = rows.begin * taps.width; i < rows.end * taps.width; ++i) {
    const int64_t at = taps.index[static_cast<size_t>(i)];
    if (at < 0) continue;
    seen = {std::min(seen.begin, at), std::max(seen.end, at + 1)};
  }
  return {std::min(seen.begin, seen.end), seen.end};
}

// Pieces of a plane's rows: where there are few planes, and each piece is still worth a thread's while.
int64_t piecesOfPlane(int64_t planes, int64_t rows, int64_t rowSize) {
  constexpr int64_t kManyPlanes = 16, kLeastPiece = 8 << 10;
  if (rowSize == 1) return 1;
  const int64_t wanted = std::min((kManyPlanes + planes - 1) / planes, rows * rowSize / kLeastPiece);
  return std::clamp<int64_t>(wanted, 1, rows);
}

}  // namespace

Piece ResizeLayer::seenBy(Piece rows, const Dims& inSizes, const Dims& outSizes) const {
  return product(outSizes, 1, taps.size()) * (blocked ? kBlock : 1) == 1 ? Piece{0, inSizes[0]} : rowsOf(taps[0], rows);
}

void ResizeLayer::resizeRows(const float* in, const Dims& inSizes, float* out, const Dims& outSizes, Piece rows) const {
  const size_t spatial = taps.size();
  const int64_t lanes = blocked ? kBlock : 1;
  const int64_t outRow = lanes * product(outSizes, 1, spatial);
  const Piece seen = seenBy(rows, inSizes, outSizes);
  Dims sizes = inSizes;
  sizes[0] = seen.end - seen.begin;
  int64_t most = 0;
  for (size_t d = spatial; d-- > 1;) {
    sizes[d] = outSizes[d];
    most = std::max(most, lanes * product(sizes, 0, spatial));
  }
  float* memory = threadScratch(2 * most);
  for (size_t d = 1; d < spatial; ++d) sizes[d] = inSizes[d];
  for (size_t d = spatial; d-- > 1;) {
    float* to = memory + (d % 2) * most;
    resizeDimension(taps[d], product(sizes, 0, d), sizes[d], outSizes[d], lanes * product(sizes, d + 1, spatial), in,
                    to);
    sizes[d] = outSizes[d];
    in = to;
  }
  if (outRow == 1) return sumElements(taps[0], 1, inSizes[0], outSizes[0], in, out);
  for (int64_t o = rows.begin; o < rows.end; ++o, out += outRow) sumRows(taps[0], o, in, seen.begin, outRow, out);
}

void ResizeLayer::run(Frame& frame) const {
  auto spatial = [&](TensorId id) {
    const Dims& sizes = frame.network()[id].sizes;
    return Dims(DimSpan(sizes.data() + 2, sizes.size() - 2));
  };
  const Dims in = spatial(inputs[0]), out = spatial(outputs[0]);
  const int64_t inPlane = product(in, 0, in.size()), outPlane = product(out, 0, out.size());
  const ElementType &inType = frame.network()[inputs[0]].elements, &outType = frame.network()[outputs[0]].elements;
  const Dims& sizes = frame.network()[outputs[0]].sizes;
  const int64_t inRow = inPlane / in[0], outRow = outPlane / out[0];
  if (inType.isLines()) {
    const int64_t unit = inType.channels(), parts = unit / kBlock, lines = sizes[0] * channelBlocks(sizes[1], unit);
    const int64_t pieces = piecesOfPlane(lines * parts, out[0], outRow * kBlock);
    const float* from = frame.blocks(inputs[0]);
    float* to = frame.blocks(outputs[0]);
    parallelFor(lines * pieces, lines * outPlane * kBlock < (16 << 10) ? 1 : frame.threads(), [&](int64_t i) {
      const Piece rows = pieceOf(out[0], pieces, i % pieces), seen = seenBy(rows, in, out);
      const int64_t line = i / pieces, seenPixels = (seen.end - seen.begin) * inRow,
                    pixels = (rows.end - rows.begin) * outRow;
      std::vector<float> opened(static_cast<size_t>(seenPixels * kBlock)), made(static_cast<size_t>(pixels * kBlock));
      for (int64_t part = 0; part < parts; ++part) {
        openPart(from + (line * inPlane + seen.begin * inRow) * kBlock, part, seenPixels, inType, opened.data());
        resizeRows(opened.data(), in, made.data(), out, rows);
        closePart(made.data(), pixels, outType, to + (line * outPlane + rows.begin * outRow) * kBlock, part);
      }
    });
    return;
  }
  const float* from = frame.data<float>(inputs[0]);
  auto* to = frame.data<float>(outputs[0]);
  const int64_t lanes = blocked ? kBlock : 1, planes = sizes[0] * (blocked ? channelBlocks(sizes[1]) : sizes[1]);
  const int64_t pieces = piecesOfPlane(planes, out[0], outRow * lanes);
  parallelFor(planes * pieces, planes * outPlane * lanes < (16 << 10) ? 1 : frame.threads(), [&](int64_t i) {
    const int64_t p = i / pieces;
    const Piece rows = pieceOf(out[0], pieces, i % pieces);
    resizeRows(from + (p * inPlane + seenBy(rows, in, out).begin * inRow) * lanes, in,
               to + (p * outPlane + rows.begin * outRow) * lanes, out, rows);
  });
}

void convertResize(ConvertCall& call, Interpolation kind, const Dims& sizes, const std::vector<ResizeScale>& scales) {
  Tensor x = call.tensor(0);
  if (!isF32(x)) return convertToKernel(call, kNotF32);
  if (x.numel() == 0) return convertToKernel(call, kEmpty);
  const bool nearest = kind == Interpolation::Nearest || kind == Interpolation::NearestExact;
  std::vector<std::vector<int64_t>> sources(2);
  std::vector<ResizeTaps> taps;
  for (int d = 0; d < 2; ++d) {
    sources[static_cast<size_t>(d)].resize(static_cast<size_t>(x.size(d)));
    std::iota(sources[static_cast<size_t>(d)].begin(), sources[static_cast<size_t>(d)].end(), 0);
  }
  for (size_t i = 0; i < sizes.size(); ++i) {
    const int64_t size = x.size(static_cast<int>(i) + 2);
    if (nearest)
      sources.push_back(nearestIndices<float>(kind, size, sizes[i], scales[i]));
    else
      taps.push_back(resizeTaps(kind, size, sizes[i], scales[i]));
  }
  TensorId input = contiguousOperand(call, 0);
  TensorId output = call.makeResult();
  Layer* layer;
  if (nearest) {
    layer = &call.add<RearrangeLayer>("resize", call.network()[input].sizes, std::move(sources), 0.0f);
  } else {
    auto& resize = call.add<ResizeLayer>();
    resize.taps = std::move(taps);
    layer = &resize;
  }
  layer->inputs = {input};
  layer->outputs = {output};
}

}  // namespace tscompile
