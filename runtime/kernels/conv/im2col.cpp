// The convolution that takes every shape: patches of the input as columns of a matrix, times the weights by OpenBLAS.
// Columns are made a piece at a time, so they stay in cache.
#include "runtime/call/scratch.h"
#include "runtime/call/shared_work.h"
#include "runtime/call/thread_pool.h"
#include "runtime/kernels/conv.h"
#include "runtime/kernels/openblas/blas.h"
#include "runtime/kernels/packed_weights.h"

#include <algorithm>

// Included once per instruction set, in this order.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/kernels/conv/im2col.cpp"
#include <hwy/foreach_target.h>
#include "runtime/kernels/simd_math-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace tscompile {
namespace HWY_NAMESPACE {

// c = activation(c + bias + residual) on one row, which is one channel.
void finishRow(float* c, int64_t count, float bias, const float* residual, const Epilogue& e) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    auto v = hn::Add(hn::LoadU(d, c + i), hn::Set(d, bias));
    if (residual) v = hn::Add(v, hn::LoadU(d, residual + i));
    hn::StoreU(v, d, c + i);
  }
  for (; i < count; ++i) c[i] = c[i] + bias + (residual ? residual[i] : 0.0f);
  if (e.activation != Activation::None) activateRows(c, 0, 1, count, e.activation, e.alpha, e.beta);
}

}  // namespace HWY_NAMESPACE
}  // namespace tscompile
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tscompile {
namespace {

int64_t depthOf(const ConvShape& s) { return s.inGroup() * s.kernelHeight * s.kernelWidth; }

bool accepts(const ConvShape& s) { return !s.isVolume(); }

double cost(const ConvShape& s) {
  const auto pixels = static_cast<double>(s.outHeight() * s.outWidth());
  double columns = static_cast<double>(s.batch * s.groups) * pixels;
  double rate = s.outGroup() >= 16 ? 80e3 : 80e3 / 16 * static_cast<double>(s.outGroup());
  rate *= std::min(1.0, pixels / 16);  // of a product that is narrower than its tiles
  return s.flops() / rate + columns * static_cast<double>(depthOf(s)) * 4.0 / 5e3 +
         static_cast<double>(s.batch * s.outChannels) * columns * 8.0 / 20e3 +
         static_cast<double>(s.outChannels * depthOf(s)) * 4.0 / 20e3;
}

// The weights as they are; for I8 a scale an output channel follows.
int64_t packedBytesOf(const ConvShape& s, WeightStorage storage) {
  return s.outChannels * depthOf(s) * weightBytes(storage) + (storage == WeightStorage::I8 ? s.outChannels * 4 + 4 : 0);
}
float* scalesOf(const ConvShape& s, const void* packed) {
  auto at = reinterpret_cast<uintptr_t>(packed) + static_cast<uintptr_t>(s.outChannels * depthOf(s));
  return reinterpret_cast<float*>((at + 3) & ~uintptr_t{3});
}

void pack(const ConvShape& s, const float* weights, WeightStorage storage, void* packed) {
  const int64_t depth = depthOf(s);
  for (int64_t channel = 0; channel < s.outChannels; ++channel) {
    const float* w = weights + channel * depth;
    float scale = 1;
    if (storage == WeightStorage::I8) {
      float largest = 0;
      for (int64_t i = 0; i < depth; ++i) largest = std::max(largest, std::fabs(w[i]));
      scale = scalesOf(s, packed)[channel] = int8Scale(largest);
    }
    for (int64_t i = 0; i < depth; ++i) {
      int64_t at = channel * depth + i;
      switch (storage) {
        case WeightStorage::F32:
          static_cast<float*>(packed)[at] = w[i];
          break;
        case WeightStorage::F16:
          static_cast<Half*>(packed)[at] = Half(w[i]);
          break;
        case WeightStorage::BF16:
          static_cast<BFloat16*>(packed)[at] = BFloat16(w[i]);
          break;
        case WeightStorage::I8:
          static_cast<int8_t*>(packed)[at] = toInt8(w[i] * (1.0f / scale));
          break;
        case WeightStorage::Integers:
        case WeightStorage::Bytes:
          break;  // not for this tactic
      }
    }
  }
}

void unpack(const ConvShape& s, const void* packed, WeightStorage storage, float* to) {
  const int64_t depth = depthOf(s);
  for (int64_t i = 0; i < s.outChannels * depth; ++i) switch (storage) {
      case WeightStorage::F32:
        to[i] = static_cast<const float*>(packed)[i];
        break;
      case WeightStorage::F16:
        to[i] = static_cast<float>(static_cast<const Half*>(packed)[i]);
        break;
      case WeightStorage::BF16:
        to[i] = static_cast<float>(static_cast<const BFloat16*>(packed)[i]);
        break;
      case WeightStorage::I8:
        to[i] = static_cast<float>(static_cast<const int8_t*>(packed)[i]) * scalesOf(s, packed)[i / depth];
        break;
      case WeightStorage::Integers:
      case WeightStorage::Bytes:
        break;
    }
}

int64_t workspace(const ConvShape& s, WeightStorage) {
  return s.outChannels * depthOf(s) * static_cast<int64_t>(sizeof(float));
}

// Columns [range) of the patches of one image and group: [depth][range].
template <class T>
void gather(const ConvShape& s, const T* input, Piece range, T* columns) {
  const int64_t width = s.outWidth(), count = range.end - range.begin;
  for (int64_t c = 0; c < s.inGroup(); ++c)
    for (int64_t ky = 0; ky < s.kernelHeight; ++ky)
      for (int64_t kx = 0; kx < s.kernelWidth; ++kx) {
        T* out = columns + ((c * s.kernelHeight + ky) * s.kernelWidth + kx) * count;
        const T* plane = input + c * s.inHeight * s.inWidth;
        int64_t y = range.begin / width, x = range.begin % width;
        for (int64_t i = 0; i < count; ++i) {
          int64_t inY = y * s.strideHeight + ky * s.dilationHeight - s.padTop;
          int64_t inX = x * s.strideWidth + kx * s.dilationWidth - s.padLeft;
          bool inside = inY >= 0 && inY < s.inHeight && inX >= 0 && inX < s.inWidth;
          out[i] = inside ? plane[inY * s.inWidth + inX] : T(0);
          if (++x == width) {
            x = 0;
            ++y;
          }
        }
      }
}

bool isPointwise(const ConvShape& s) {
  return s.kernelHeight == 1 && s.kernelWidth == 1 && s.strideHeight == 1 && s.strideWidth == 1 && !s.padTop &&
         !s.padLeft && !s.padBottom && !s.padRight;
}

// finish(channel, first float of the row, count, offset in the output).
template <class T, class Finish>
void convolve(const ConvShape& s, const T* input, const T* weights, T* output, int threads, Finish&& finish) {
  const int64_t area = s.outHeight() * s.outWidth(), depth = depthOf(s), rows = s.outGroup();
  // Pieces of at least 32 columns: fewer would change the last bits of OpenBLAS's sums.
  const int64_t width = std::max<int64_t>(32, (64 << 10) / std::max<int64_t>(depth, 1));
  const int64_t pieces = std::max<int64_t>(1, area / width), units = s.batch * s.groups;
  threads = threadsWorth(cost(s), threads);
  parallelFor(units * pieces, threads, [&](int64_t i) {
    Piece range = pieceOf(area, pieces, i % pieces);
    const int64_t unit = i / pieces, group = unit % s.groups, count = range.end - range.begin;
    const T* in = input + unit * s.inGroup() * s.inHeight * s.inWidth;
    const T* columns = in + range.begin;
    int64_t stride = area;
    if (!isPointwise(s)) {
      T* made = reinterpret_cast<T*>(threadScratch(depth * count * static_cast<int64_t>(sizeof(T) / sizeof(float))));
      gather(s, in, range, made);
      columns = made;
      stride = count;
    }
    T* out = output + unit * rows * area + range.begin;
    blas::gemm(false, false, rows, count, depth, T(1), weights + group * rows * depth, depth, columns, stride, T(0),
               out, area);
    for (int64_t r = 0; r < rows; ++r) finish(group * rows + r, out + r * area, count, out + r * area - output);
  });
}

void run(const ConvShape& s, const float* input, const void* packed, WeightStorage storage, float* output,
         const Epilogue& e, void* work, int threads) {
  const auto* weights = static_cast<const float*>(packed);
  if (storage != WeightStorage::F32) {
    unpack(s, packed, storage, static_cast<float*>(work));
    weights = static_cast<const float*>(work);
  }
  auto finish = TS_SIMD(finishRow);
  convolve(s, input, weights, output, threads, [&](int64_t channel, float* row, int64_t count, int64_t at) {
    finish(row, count, e.bias ? e.bias[channel] : 0.0f, e.residual ? e.residual + at : nullptr, e);
  });
}

}  // namespace

void im2colConv(const ConvShape& s, const double* input, const double* weights, const double* bias, double* output,
                int threads) {
  convolve(s, input, weights, output, threads, [&](int64_t channel, double* row, int64_t count, int64_t) {
    if (bias)
      for (int64_t i = 0; i < count; ++i) row[i] += bias[channel];
  });
}

const ConvTactic kIm2colConv = {.name = "im2col",
                                .input = ActivationLayout::Plain,
                                .output = ActivationLayout::Plain,
                                .accepts = accepts,
                                .cost = cost,
                                .packedBytes = packedBytesOf,
                                .pack = pack,
                                .workspace = workspace,
                                .run = run};

}  // namespace tscompile
#endif
