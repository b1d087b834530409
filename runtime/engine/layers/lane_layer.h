// Layers that work along one dimension: running sums and products, places of extremes, the first values by size,
// orders, medians, places among boundaries.
#pragma once

#include "runtime/engine/network/convert_call.h"
#include "runtime/engine/network/frame.h"
#include "runtime/kernels/order/lanes.h"

namespace tscompile {

class RunningTotalLayer : public Layer {
 public:
  using Layer::Layer;
  std::string name() const override { return isProduct ? "cumprod" : "cumsum"; }
  void run(Frame& frame) const override;
  LaneShape shape;
  bool isProduct = false;
};

// Outputs: the values and the places.
class RunningExtremesLayer : public Layer {
 public:
  using Layer::Layer;
  std::string name() const override { return isLargest ? "cummax" : "cummin"; }
  void run(Frame& frame) const override;
  LaneShape shape;
  bool isLargest = true;
};

class RunningLogLayer : public Layer {
 public:
  using Layer::Layer;
  std::string name() const override { return "logcumsumexp"; }
  void run(Frame& frame) const override {
    runningLogOfSum(shape, frame.data<float>(inputs[0]), frame.data<float>(outputs[0]), frame.threads());
  }
  LaneShape shape;
};

// Outputs: the values, unless only places are wanted, and the places.
class ExtremesLayer : public Layer {
 public:
  using Layer::Layer;
  std::string name() const override { return isLargest ? "argmax" : "argmin"; }
  size_t workspace() const override { return isWhole ? 0 : extremesWorkspace(shape); }
  void run(Frame& frame) const override;
  LaneShape shape;
  bool isLargest = true, isWhole = false;  // of int64
};

class TopLayer : public Layer {
 public:
  using Layer::Layer;
  std::string name() const override { return "topk"; }
  size_t workspace() const override { return firstOfLanesWorkspace(shape, k); }
  void run(Frame& frame) const override;
  LaneShape shape;
  int64_t k = 1;
  bool isLargest = true, isSorted = true;
};

// Outputs as those of ExtremesLayer.
class SortLayer : public Layer {
 public:
  using Layer::Layer;
  std::string name() const override { return "sort"; }
  size_t workspace() const override { return (isWhole ? sortedIntegersWorkspace : sortedLanesWorkspace)(shape); }
  void run(Frame& frame) const override;
  LaneShape shape;
  bool isDescending = false, isStable = false, isWhole = false;  // of int64
};

// Outputs: the values and, of a call along a dimension, the places.
class MedianLayer : public Layer {
 public:
  using Layer::Layer;
  std::string name() const override { return "median"; }
  size_t workspace() const override { return mediansOfLanesWorkspace(shape); }
  void run(Frame& frame) const override;
  LaneShape shape;
  bool skipsNan = false;
};

// Inputs, contiguous and of one dtype: the boundaries, one run for all values or one for each run of them along the
// last dimension, and the values. NaN lies behind all boundaries.
class SearchLayer : public Layer {
 public:
  using Layer::Layer;
  std::string name() const override { return "search"; }
  void run(Frame& frame) const override;
  bool isRight = false;  // behind boundaries that are equal to a value, not before them
};

// (self, dim, dtype)
template <bool kProduct>
void convertRunningTotal(ConvertCall& call);
// (self, dim)
template <bool kLargest>
void convertRunningExtremes(ConvertCall& call);
void convertRunningLog(ConvertCall& call);
// (self, dim, keepdim) of max.dim, min.dim, argmax and argmin
template <bool kLargest>
void convertExtremes(ConvertCall& call);
void convertTopk(ConvertCall& call);
// sort, argsort, with or without `stable`
void convertSort(ConvertCall& call);
// (self) or (self, dim, keepdim)
template <bool kSkipNan>
void convertMedian(ConvertCall& call);
// Its first result: the places of the values among the boundaries.
void addSearch(ConvertCall& call, const Tensor& boundaries, const Tensor& values, bool isRight);

}  // namespace tscompile
