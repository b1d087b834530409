// Settings of engines.
#pragma once

#include <cstdint>
#include <memory>

namespace tscompile {

class TacticCache;

// How the constant weights of products (matrix products, convolutions) are stored. Computation is in f32 all the same.
enum class Precision : uint8_t {
  F32,
  F16,   // rounded to the nearest; relative error up to 2^-11
  BF16,  // 2^-9
  Int8,  // one scale for each output column or channel: its largest magnitude / 127
};

struct EngineOptions {
  bool optimize = true;                  // fuse layers and choose layouts; else each node is a layer
  Precision precision = Precision::F32;  // of weights, where `optimize` is set
  // How layers choose between tactics: what `tactics` (which may be null) knows; else by a model of costs, the same on
  // every machine, or, with `measureTactics`, by timing them, which is remembered in `tactics`.
  std::shared_ptr<TacticCache> tactics = nullptr;
  bool measureTactics = false;
  int threads = 0;  // that tactics are chosen for; 0: one for each processor
};

}  // namespace tscompile
