// Maxima of windows with their places.
#pragma once

#include "runtime/engine/network/convert_call.h"
#include "runtime/engine/network/frame.h"
#include "runtime/reference/pooling.h"

namespace tscompile {

// Outputs: the maxima, and where in its plane each is.
class MaxPlacesLayer : public Layer {
 public:
  MaxPlacesLayer(const Node* node, WindowGrid grid, int64_t planes)
      : Layer(node), grid_(std::move(grid)), planes_(planes) {}
  std::string name() const override { return "max_pool_with_places"; }
  void run(Frame& frame) const override;

 private:
  void pool(const float* in, float* out, int64_t* places) const;  // of one plane

  WindowGrid grid_;
  int64_t planes_;
};

// A call whose results are the maxima and their places in windows of so many last dimensions.
void addMaxPlaces(ConvertCall& call, WindowGrid grid, size_t spatial);

}  // namespace tscompile
