// Settings of engines.
#pragma once

#include "ir/values/dtype.h"

#include <memory>
#include <string>

namespace tscompile {

class TacticCache;

struct EngineOptions {
  bool optimize = true;      // fuse layers and choose layouts; else each node is a layer
  bool trial = false;        // with the layers of `optimize`, but not optimised: to see whether a plan can be made
  bool keepStrides = false;  // results lie as the interpreter's would: something outside asks how
  std::string strideAsker = "a node outside";  // which that is, for messages
  // How the constant weights of products (matrix products, convolutions) are stored where `optimize` is set: Float32;
  // Float16 (relative error up to 2^-11), BFloat16 (2^-9), both rounded to the nearest; or Int8, with one scale for
  // each output column or channel: its largest magnitude / 127. Computation is in float32 all the same, but for
  // products of BFloat16 and Int8 on processors that have them: rows of more than a few, and inputs of convolutions,
  // are rounded as the weights are (Int8: with one scale for a row or an image), and sums are float32 or exact.
  DType precision = DType::Float32;
  bool roundsRows = true;  // false: weights alone are rounded, on every processor
  // How layers choose between tactics: what `tactics` (which may be null) knows; else by a model of costs, the same on
  // every machine, or, with `measureTactics`, by timing them, which is remembered in `tactics`.
  std::shared_ptr<TacticCache> tactics = nullptr;
  bool measureTactics = false;
  int threads = 0;  // that tactics are chosen for; 0: one for each processor
};

}  // namespace tscompile
