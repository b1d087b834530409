#include "runtime/engine/layers/alone/distance_layer.h"

#include "runtime/call/thread_pool.h"
#include "runtime/kernels/wide/vector_math.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

namespace tscompile {
namespace {

enum class Norm : uint8_t { Differing, Sum, Squares, Most, Powers };

Norm normOf(double exponent) {
  if (exponent == 0) return Norm::Differing;
  if (exponent == 1) return Norm::Sum;
  if (exponent == 2) return Norm::Squares;
  return std::isinf(exponent) ? Norm::Most : Norm::Powers;
}

template <Norm kNorm, class V>
V termOf(V difference, V exponent) {
  const V d = abs(difference);
  if constexpr (kNorm == Norm::Differing) return select(d != d, d, select(d != V{}, splat<V>(1), V{}));
  if constexpr (kNorm == Norm::Squares) return d * d;
  if constexpr (kNorm == Norm::Powers) return pow(d, exponent);
  return d;
}

template <Norm kNorm, class V>
V join(V a, V b) {
  if constexpr (kNorm == Norm::Most)  // NaN wins
    return select((b > a) | (b != b), b, a);
  else
    return a + b;
}

template <Norm kNorm, class V>
V finish(V total, V exponent) {
  if constexpr (kNorm == Norm::Squares)
    for (int i = 0; i < kLanes<V>; ++i) total[i] = std::sqrt(total[i]);
  if constexpr (kNorm == Norm::Powers) return pow(total, splat<V>(1) / exponent);
  return total;
}

// Of one row to `kVectors` vectors of columns, or to `count`, which are fewer than a vector has lanes.
template <Norm kNorm, class V, int kVectors>
void distancesOf(const Lane<V>* row, const Lane<V>* columns, int64_t depth, int64_t stride, V exponent, Lane<V>* to,
                 int64_t count = 0) {
  constexpr int64_t kRun = 32;  // terms that are added up by themselves, so that long rows lose no digits
  constexpr int64_t kWidth = kLanes<V>;
  const size_t bytes = count ? static_cast<size_t>(count) * sizeof(Lane<V>) : sizeof(V);
  V totals[kVectors]{};
  for (int64_t first = 0; first < depth; first += kRun) {
    V part[kVectors]{};
    for (int64_t k = first; k < std::min(depth, first + kRun); ++k) {
      const V x = splat<V>(row[k]);
      for (int64_t v = 0; v < kVectors; ++v) {
        V y{};
        const Lane<V>* from = columns + k * stride + v * kWidth;
        if (count)
          std::memcpy(&y, from, bytes);
        else
          std::memcpy(&y, from, sizeof(V));
        part[v] = join<kNorm>(part[v], termOf<kNorm>(x - y, exponent));
      }
    }
    for (int64_t v = 0; v < kVectors; ++v) totals[v] = join<kNorm>(totals[v], part[v]);
  }
  for (int64_t v = 0; v < kVectors; ++v) {
    const V distance = finish<kNorm>(totals[v], exponent);
    std::memcpy(to + v * kWidth, &distance, bytes);
  }
}

template <Norm kNorm, class V>
void distancesOfRow(const Lane<V>* row, const Lane<V>* columns, int64_t depth, int64_t stride, double exponent,
                    Lane<V>* to, int64_t count) {
  constexpr int kVectors = 4;
  constexpr int64_t kWidth = kLanes<V>, kBlock = kVectors * kWidth;
  const V p = splat<V>(exponent);
  // The last vectors reach back where there are columns enough: what they share is computed twice.
  auto cover = [&]<int kMany>(std::integral_constant<int, kMany>) {
    constexpr int64_t kStep = kMany * kWidth;
    for (int64_t j = 0; j < count; j += kStep) {
      const int64_t at = std::min(j, count - kStep);
      distancesOf<kNorm, V, kMany>(row, columns + at, depth, stride, p, to + at);
    }
  };
  if (count >= kBlock)
    cover(std::integral_constant<int, kVectors>());
  else if (count >= kWidth)
    cover(std::integral_constant<int, 1>());
  else if (count)
    distancesOf<kNorm, V, 1>(row, columns, depth, stride, p, to, count);
}

template <class V>
auto loopOf(double exponent) {
  switch (normOf(exponent)) {
    case Norm::Differing:
      return distancesOfRow<Norm::Differing, V>;
    case Norm::Sum:
      return distancesOfRow<Norm::Sum, V>;
    case Norm::Squares:
      return distancesOfRow<Norm::Squares, V>;
    case Norm::Most:
      return distancesOfRow<Norm::Most, V>;
    case Norm::Powers:
      break;
  }
  return distancesOfRow<Norm::Powers, V>;
}

}  // namespace

template <class V>
void DistanceLayer::runOf(Frame& frame) const {
  constexpr int64_t kParallel = 32 << 10;  // differences; fewer are taken by one thread
  using T = Lane<V>;
  const T *x = frame.data<T>(inputs[0]), *columns = frame.data<T>(inputs[1]);
  T* out = frame.data<T>(outputs[0]);
  const auto loop = loopOf<V>(exponent);
  const int64_t all = batch * rows, pieces = std::clamp<int64_t>(all, 1, 64);
  parallelFor(pieces, all * others * depth < kParallel ? 1 : frame.threads(), [&](int64_t p) {
    const Piece piece = pieceOf(all, pieces, p);
    for (int64_t i = piece.begin; i < piece.end; ++i) {
      const T* of = columns + i / rows * depth * others;
      if (pairsOnce)
        loop(x + i * depth, of + i + 1, depth, others, exponent, out + i * (others - 1) - i * (i - 1) / 2,
             others - 1 - i);
      else
        loop(x + i * depth, of, depth, others, exponent, out + i * others, others);
    }
  });
}

void DistanceLayer::run(Frame& frame) const {
  frame.network()[inputs[0]].dtype == DType::Float32 ? runOf<F32x8>(frame) : runOf<F64x4>(frame);
}

void addDistances(ConvertCall& call, const Tensor& x, const Tensor& y, double exponent, bool pairsOnce) {
  const TensorId from = call.idOf(x), to = call.idOf(y), result = call.makeResult(0);
  auto& layer = call.add<DistanceLayer>();
  layer.rows = x.size(x.rank() - 2);
  layer.depth = x.size(x.rank() - 1);
  layer.others = y.size(y.rank() - 1);
  layer.batch = x.numel() / (layer.rows * layer.depth);
  layer.exponent = exponent;
  layer.pairsOnce = pairsOnce;
  layer.inputs = {from, to};
  layer.outputs = {result};
}

}  // namespace tscompile
