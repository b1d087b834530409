// Kernels on planes of few channels, and on channels of a pixel side by side.
#include "runtime/kernels/batched_gemm.h"
#include "runtime/kernels/conv.h"
#include "runtime/kernels/layout.h"
#include "tests/support/engine_reference.h"

namespace tscompile::test {
namespace {

ConvShape depthwise(int64_t channels, int64_t kernel, int64_t stride, int64_t dilation) {
  ConvShape s;
  s.batch = 2;
  s.groups = s.inChannels = s.outChannels = channels;
  s.inHeight = 11;
  s.inWidth = 19;
  s.kernelHeight = s.kernelWidth = kernel;
  s.strideHeight = s.strideWidth = stride;
  s.dilationHeight = s.dilationWidth = dilation;
  s.padTop = s.padBottom = s.padRight = kernel / 2 * dilation;
  s.padLeft = s.padTop + 1;
  return s;
}

std::vector<float> run(const ConvShape& s, const std::vector<float>& input, const Epilogue& epilogue, int threads) {
  const std::vector<float> weights = randomFloats(s.outChannels * s.taps(), 2);
  std::vector<float> packed(static_cast<size_t>(kDepthwiseConv.packedBytes(s, WeightStorage::F32)) / sizeof(float));
  kDepthwiseConv.pack(s, weights.data(), WeightStorage::F32, packed.data());
  std::vector<float> out(static_cast<size_t>(blockedSize(s.batch, s.outChannels, s.outArea())));
  kDepthwiseConv.run(s, input.data(), packed.data(), WeightStorage::F32, out.data(), epilogue, nullptr, threads);
  return out;
}

// Pixel by pixel what `blocked` has in blocks.
std::vector<float> toPixels(const std::vector<float>& blocked, int64_t batch, int64_t channels) {
  const int64_t area = static_cast<int64_t>(blocked.size()) / batch / channels;
  std::vector<float> pixels(blocked.size());
  blockedToChannelsLast(batch, channels, area, blocked.data(), pixels.data(), 1);
  return pixels;
}

void checkPixels(ConvShape s, Activation activation) {
  SCOPED_TRACE(testing::Message() << s.inChannels << " channels, kernel " << s.kernelHeight << " stride "
                                  << s.strideHeight << " dilation " << s.dilationHeight);
  const std::vector<float> blocked = randomFloats(s.batch * s.inChannels * s.inArea(), 1);
  const std::vector<float> bias = randomFloats(s.outChannels, 3);
  Epilogue e;
  e.bias = bias.data();
  e.activation = activation;
  const std::vector<float> want = run(s, blocked, e, 1), wantPixels = toPixels(want, s.batch, s.outChannels);
  for (bool in : {false, true})
    for (bool out : {false, true})
      for (int threads : {1, 3}) {
        s.inByPixels = in;
        s.outByPixels = out;
        const std::vector<float> got = run(s, in ? toPixels(blocked, s.batch, s.inChannels) : blocked, e, threads);
        EXPECT_TRUE(sameBytes(got, out ? wantPixels : want)) << in << out << threads;
      }
}

}  // namespace

TEST(EnginePixels, DepthwiseConvolutionsAreThoseOfBlocks) {
  atEachSimdLevel([] {
    for (int64_t channels : {16, 48, 272})
      for (auto [kernel, stride, dilation] : {std::array{3, 1, 1}, {3, 2, 1}, {7, 1, 1}, {3, 1, 2}, {2, 1, 1}})
        for (Activation a : {Activation::None, Activation::Relu, Activation::Gelu})
          checkPixels(depthwise(channels, kernel, stride, dilation), a);
  });
}

TEST(EnginePlanes, AreMixed) {
  atEachSimdLevel([] {
    for (int64_t in : {2, 4, 7, 32})
      for (int64_t out : {1, 3, 8, 12, 32})
        for (int64_t area : {1, 15, 33, 1100}) {
          SCOPED_TRACE(testing::Message() << in << " -> " << out << " of " << area);
          const PlaneMix mix{2, in, out, area, in * (area + 3) + 5, area + 3};
          const std::vector<float> x = randomFloats(2 * mix.imageStride, 1), w = randomFloats(in * out, 2),
                                   bias = randomFloats(out, 3);
          std::vector<float> got(static_cast<size_t>(2 * out * area)), other(got.size());
          std::vector<double> want;
          for (int64_t i = 0; i < 2 * out * area; ++i) {
            const int64_t o = i / area % out;
            double sum = bias[static_cast<size_t>(o)];
            for (int64_t k = 0; k < in; ++k)
              sum += static_cast<double>(w[static_cast<size_t>(o * in + k)]) *
                     x[static_cast<size_t>(i / area / out * mix.imageStride + k * mix.planeStride + i % area)];
            want.push_back(sum);
          }
          mixPlanes(mix, x.data(), w.data(), bias.data(), got.data(), 1);
          expectNear(got, want, 1e-5, 1e-5);
          mixPlanes(mix, x.data(), w.data(), bias.data(), other.data(), 3);
          EXPECT_TRUE(sameBytes(got, other));
        }
  });
}

}  // namespace tscompile::test
