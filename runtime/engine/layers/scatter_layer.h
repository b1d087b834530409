// Elements that are brought to places that a tensor of numbers tells: scatter, scatter_add, scatter_reduce.
#pragma once

#include "runtime/engine/network/convert_call.h"
#include "runtime/engine/network/frame.h"

namespace tscompile {

// out = self; out[.., index[.., i, ..], ..] is joined with source[.., i, ..], in the order of i. Inputs: self,
// which is contiguous, the index, and the source if it is no number.
class ScatterLayer : public Layer {
 public:
  enum class How : uint8_t { Assign, Add, Multiply, Max, Min };
  using Layer::Layer;
  std::string name() const override { return "scatter"; }
  bool replacesParts() const override { return true; }
  void run(Frame& frame) const override;
  size_t dim = 0;
  How how = How::Assign;
  double value = 0;

 private:
  template <class T>
  void runAs(Frame& frame) const;
};

// A row of zeros for each class, with a 1 at its place.
class OneHotLayer : public Layer {
 public:
  using Layer::Layer;
  std::string name() const override { return "one_hot"; }
  void run(Frame& frame) const override;
};

// (self, number of classes)
void convertOneHot(ConvertCall& call);

// (self, dim, index, source or number, ..)
void addScatter(ConvertCall& call, ScatterLayer::How how);
void convertScatter(ConvertCall& call);
void convertScatterAdd(ConvertCall& call);

}  // namespace tscompile
