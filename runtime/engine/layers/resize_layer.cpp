#include "runtime/engine/layers/resize_layer.h"

#include "runtime/call/scratch.h"
#include "runtime/call/thread_pool.h"
#include "runtime/engine/layers/operands.h"
#include "runtime/engine/layers/rearrange_layer.h"
#include "runtime/kernels/layout.h"

#include <algorithm>
#include <numeric>

namespace tscompile {
namespace {

int64_t product(const Dims& sizes, size_t begin, size_t end) {
  return std::accumulate(sizes.begin() + static_cast<int64_t>(begin), sizes.begin() + static_cast<int64_t>(end),
                         int64_t{1}, std::multiplies<>());
}

// [outer][size][inner] -> [outer][count][inner]
void resizeDimension(const ResizeTaps& taps, int64_t outer, int64_t size, int64_t count, int64_t inner, const float* in,
                     float* to) {
  for (int64_t i = 0; i < outer; ++i, in += size * inner)
    for (int64_t o = 0; o < count; ++o, to += inner) {
      const int64_t* index = taps.index.data() + o * taps.width;
      const float* weights = taps.weights.data() + o * taps.width;
      if (inner == 1) {
        float sum = 0;
        for (int64_t k = 0; k < taps.width && index[k] >= 0; ++k) sum += weights[k] * in[index[k]];
        *to = sum;
        continue;
      }
      std::fill_n(to, inner, 0.0f);
      for (int64_t k = 0; k < taps.width && index[k] >= 0; ++k) {
        const float* row = in + index[k] * inner;
        for (int64_t x = 0; x < inner; ++x) to[x] += weights[k] * row[x];
      }
    }
}

}  // namespace

void ResizeLayer::resizePlane(const float* in, const Dims& inSizes, float* out, const Dims& outSizes) const {
  Dims sizes = inSizes;
  const size_t spatial = taps.size();
  const int64_t lanes = blocked ? kBlock : 1;
  int64_t most = 0;
  for (size_t d = spatial; d-- > 1;) {
    sizes[d] = outSizes[d];
    most = std::max(most, lanes * product(sizes, 0, spatial));
  }
  float* memory = threadScratch(2 * most);
  sizes = inSizes;
  for (size_t d = spatial; d-- > 0;) {
    float* to = d == 0 ? out : memory + (d % 2) * most;
    resizeDimension(taps[d], product(sizes, 0, d), sizes[d], outSizes[d], lanes * product(sizes, d + 1, spatial), in,
                    to);
    sizes[d] = outSizes[d];
    in = to;
  }
}

void ResizeLayer::run(Frame& frame) const {
  auto spatial = [&](TensorId id) {
    const Dims& sizes = frame.network()[id].sizes;
    return Dims(DimSpan(sizes.data() + 2, sizes.size() - 2));
  };
  const Dims in = spatial(inputs[0]), out = spatial(outputs[0]);
  const int64_t inPlane = product(in, 0, in.size()), outPlane = product(out, 0, out.size());
  const float* from = frame.data<float>(inputs[0]);
  auto* to = frame.data<float>(outputs[0]);
  const Dims& sizes = frame.network()[outputs[0]].sizes;
  const int64_t lanes = blocked ? kBlock : 1, planes = sizes[0] * (blocked ? channelBlocks(sizes[1]) : sizes[1]);
  parallelFor(planes, planes * outPlane * lanes < (16 << 10) ? 1 : frame.threads(),
              [&](int64_t p) { resizePlane(from + p * inPlane * lanes, in, to + p * outPlane * lanes, out); });
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
