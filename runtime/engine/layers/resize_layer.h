// Linear and cubic resizing of the last dimensions in f32; nearest is a rearrangement.
#pragma once

#include "runtime/call/thread_pool.h"
#include "runtime/engine/layers/line_layer.h"
#include "runtime/engine/network/convert_call.h"
#include "runtime/engine/network/frame.h"
#include "runtime/reference/resize.h"

#include <vector>

namespace tscompile {

// Each plane [N][C], or block of channels, by itself, one dimension after the other from the last one on; some rows of
// its result at a time.
class ResizeLayer : public Layer, public LineLayer {
 public:
  using Layer::Layer;
  std::string name() const override { return "resize"; }
  void run(Frame& frame) const override;
  std::vector<ResizeTaps> taps;  // of each spatial dimension
  bool blocked = false;          // input and output are
  bool takesLines(const Network&, const ProductPrecision&, TensorId, DType) const override { return blocked; }
  bool sharesKind(const Network&, TensorId) const override { return true; }
  void settle(const Network&) override {}

 private:
  // Rows of the input that some rows of the result are made of.
  Piece seenBy(Piece rows, const Dims& inSizes, const Dims& outSizes) const;
  // in: from the first row that is seen on. out: from the first row of these on.
  void resizeRows(const float* in, const Dims& inSizes, float* out, const Dims& outSizes, Piece rows) const;
};

// Spatial dimensions of argument 0 to `sizes`.
void convertResize(ConvertCall& call, Interpolation kind, const Dims& sizes, const std::vector<ResizeScale>& scales);

}  // namespace tscompile
