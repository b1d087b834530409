// The engine's convolutions on the models' shapes, every tactic that takes the shape.
#include "runtime/kernels/conv.h"
#include "runtime/kernels/layout.h"

#include <benchmark/benchmark.h>

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

namespace tscompile {
namespace {

struct Layer {
  const char* name;
  int64_t batch, in, size, out, kernel, stride, pad, groups;
};
const Layer kLayers[] = {
    {"lenet_1", 1, 1, 32, 6, 3, 1, 0, 1},           {"lenet_2", 1, 6, 15, 16, 3, 1, 0, 1},
    {"lenet_b64_1", 64, 1, 32, 6, 3, 1, 0, 1},      {"lenet_b64_2", 64, 6, 15, 16, 3, 1, 0, 1},
    {"resnet_stem", 1, 3, 224, 64, 7, 2, 3, 1},     {"resnet_56", 1, 64, 56, 64, 3, 1, 1, 1},
    {"resnet_28s2", 1, 64, 56, 128, 3, 2, 1, 1},    {"resnet_28", 1, 128, 28, 128, 3, 1, 1, 1},
    {"resnet_14", 1, 256, 14, 256, 3, 1, 1, 1},     {"resnet_7", 1, 512, 7, 512, 3, 1, 1, 1},
    {"resnet_down", 1, 64, 56, 128, 1, 2, 0, 1},    {"resnet50_56a", 1, 64, 56, 256, 1, 1, 0, 1},
    {"resnet50_56b", 1, 256, 56, 64, 1, 1, 0, 1},   {"resnet50_28", 1, 512, 28, 128, 1, 1, 0, 1},
    {"resnet50_14", 1, 256, 14, 1024, 1, 1, 0, 1},  {"resnet50_7", 1, 2048, 7, 512, 1, 1, 0, 1},
    {"vgg_1", 1, 3, 224, 64, 3, 1, 1, 1},           {"vgg_2", 1, 64, 224, 64, 3, 1, 1, 1},
    {"vgg_4", 1, 128, 112, 128, 3, 1, 1, 1},        {"vgg_6", 1, 256, 56, 256, 3, 1, 1, 1},
    {"vgg_9", 1, 512, 28, 512, 3, 1, 1, 1},         {"vgg_12", 1, 512, 14, 512, 3, 1, 1, 1},
    {"squeeze_stem", 1, 3, 224, 64, 3, 2, 0, 1},    {"squeeze_55", 1, 16, 55, 64, 3, 1, 1, 1},
    {"squeeze_13", 1, 64, 13, 256, 3, 1, 1, 1},     {"squeeze_last", 1, 512, 13, 1000, 1, 1, 0, 1},
    {"mobile_stem", 1, 3, 224, 32, 3, 2, 1, 1},     {"mobile_dw112", 1, 32, 112, 32, 3, 1, 1, 32},
    {"mobile_dw56s2", 1, 96, 112, 96, 3, 2, 1, 96}, {"mobile_dw56", 1, 144, 56, 144, 3, 1, 1, 144},
    {"mobile_dw14", 1, 576, 14, 576, 3, 1, 1, 576}, {"mobile_dw7", 1, 960, 7, 960, 3, 1, 1, 960},
    {"mobile_up56", 1, 24, 56, 144, 1, 1, 0, 1},    {"mobile_down56", 1, 144, 56, 24, 1, 1, 0, 1},
    {"mobile_14", 1, 96, 14, 576, 1, 1, 0, 1},      {"mobile_last", 1, 320, 7, 1280, 1, 1, 0, 1},
    {"convmixer_32", 1, 768, 32, 768, 1, 1, 0, 1},  {"groups2_56", 1, 64, 56, 64, 3, 1, 1, 32},
    {"groups4_56", 1, 128, 56, 128, 3, 1, 1, 32},   {"groups8_56", 1, 24, 112, 24, 3, 2, 1, 3},
    {"groups8_14", 1, 152, 14, 152, 3, 1, 1, 19},   {"groups16_14", 1, 512, 14, 512, 3, 1, 1, 32},
};

ConvShape shapeOf(const Layer& l) {
  ConvShape s;
  s.batch = l.batch;
  s.groups = l.groups;
  s.inChannels = l.in;
  s.outChannels = l.out;
  s.inHeight = s.inWidth = l.size;
  s.kernelHeight = s.kernelWidth = l.kernel;
  s.strideHeight = s.strideWidth = l.stride;
  s.padTop = s.padLeft = s.padBottom = s.padRight = l.pad;
  return s;
}

struct Buffer {
  explicit Buffer(int64_t bytes) {
    bytes = (bytes + 127) / 64 * 64;
    data = static_cast<float*>(std::aligned_alloc(64, static_cast<size_t>(bytes)));
    for (int64_t i = 0; i < bytes / 4; ++i) data[i] = static_cast<float>(i * 2654435761 % 1000) / 1000.0f - 0.5f;
  }
  ~Buffer() { std::free(data); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  float* data;
};

void layer(benchmark::State& state, const Layer& l, const ConvTactic& tactic, WeightStorage storage, int threads) {
  const ConvShape s = shapeOf(l);
  Buffer in(blockedSize(s.batch, s.inChannels, s.inHeight * s.inWidth) * 4);
  Buffer out(blockedSize(s.batch, s.outChannels, s.outHeight() * s.outWidth()) * 4);
  Buffer weights(s.outChannels * s.inGroup() * s.kernelHeight * s.kernelWidth * 4), bias(s.outChannels * 4 + 64);
  Buffer packed(tactic.packedBytes(s, storage)), workspace(tactic.workspace(s, storage));
  tactic.pack(s, weights.data, storage, packed.data);
  Epilogue e;
  e.bias = bias.data;
  e.activation = Activation::Relu;
  for (auto _ : state) tactic.run(s, in.data, packed.data, storage, out.data, e, workspace.data, threads);
  // engine_compare.py runs the same shape in PyTorch.
  std::string label;
  for (int64_t v : {l.batch, l.in, l.size, l.out, l.kernel, l.stride, l.pad, l.groups})
    label += std::to_string(v) + ' ';
  state.SetLabel(label);
  state.counters["FLOP"] = benchmark::Counter(s.flops(), benchmark::Counter::kIsIterationInvariantRate);
}

const bool registered = [] {
  const std::pair<WeightStorage, const char*> stored[] = {
      {WeightStorage::F32, ""}, {WeightStorage::BF16, "_bf16"}, {WeightStorage::I8, "_i8"}};
  for (auto [storage, storageName] : stored)
    for (const Layer& l : kLayers)
      for (const ConvTactic* tactic : convTactics()) {
        if (!tactic->accepts(shapeOf(l))) continue;
        // What is only stored smaller takes its time in f32.
        if (storage != WeightStorage::F32 && !tactic->multipliesLines(shapeOf(l), storage)) continue;
        for (int threads : {1, 2})
          benchmark::RegisterBenchmark((std::string("engine_conv") + storageName + "/" + l.name + "/" + tactic->name +
                                        "/" + std::to_string(threads))
                                           .c_str(),
                                       [&l, tactic, storage = storage, threads](benchmark::State& state) {
                                         layer(state, l, *tactic, storage, threads);
                                       })
              ->Unit(benchmark::kMicrosecond)
              ->UseRealTime();
      }
  return true;
}();

}  // namespace
}  // namespace tscompile
