// Elements at other places: padding in all modes, roll, flip.
#pragma once

#include "runtime/engine/layers/line_layer.h"
#include "runtime/engine/network/convert_call.h"
#include "runtime/engine/network/frame.h"

#include <array>
#include <string>
#include <vector>

namespace tscompile {

// Each index of the result comes from one of the input, dimension by dimension; both are contiguous.
class RearrangeLayer : public Layer, public LineLayer {
 public:
  static constexpr int64_t kFilling = -1;
  // sources[d][i]: which index of the input's dimension d index i of the result has; kFilling: none. Fillings are f32.
  RearrangeLayer(const Node* node, std::string name, const Dims& inSizes, std::vector<std::vector<int64_t>> sources,
                 float filling);
  std::string name() const override { return name_; }
  void run(Frame& frame) const override;

  // Whether each channel of each image is rearranged by itself; and the same layer on blocks of channels.
  bool keepsChannels() const;
  std::unique_ptr<RearrangeLayer> onBlocks() const;
  bool takesLines(const Network&, const ProductPrecision&, TensorId, DType dtype) const override;
  bool sharesKind(const Network&, TensorId) const override { return true; }
  bool sharesGrid() const override { return true; }
  bool movesElements() const override { return true; }
  void settle(const Network& network) override;

  // A margin of zeros around the input, in each dimension; empty if it is something else.
  Dims before, behind;
  // Whether all it does is to put channels of zeros in front of those of the input or behind them.
  bool padsChannels() const;

 private:
  bool keeps(size_t d) const;
  void findRuns();
  // Neighbours in the result that are neighbours in the input, in the same or the other order, along the last dimension
  // that is changed.
  struct Run {
    bool take(int64_t source);  // whether it goes on with that
    int64_t to, from, count;    // units
    int64_t step = 1;           // -1: the other order
  };
  // Neighbours in the result that are among as many neighbours in the input, or that lie anywhere there.
  static constexpr int kLanes = 8;
  struct Window {
    alignas(32) std::array<int32_t, kLanes> lanes;  // from `from` on
    int64_t to, from = 0;
    bool isNear;
  };
  void findWindows();
  void copyWindows(const std::byte* from, std::byte* to) const;
  void copyRow(const std::byte* from, std::byte* to, size_t unitBytes) const;

  std::string name_;
  Dims inSizes_;
  std::vector<std::vector<int64_t>> sources_;
  size_t last_ = 0;  // that dimension
  std::vector<Run> runs_;
  std::vector<Window> windows_;      // of rows of 32 bits an element that are not copied as they are
  bool keepsRows_ = true;            // the dimensions in front of it are as they were
  int64_t unit_ = 1;                 // elements behind that dimension
  int64_t rowFrom_ = 0, rowTo_ = 0;  // units of a row
  std::vector<int64_t> strides_;     // of the input's rows, in rows
  float filling_;                    // of lines, elements of them
  bool blocked_ = false;
};

// aten::constant_pad_nd, aten::pad, reflection_pad and replication_pad.
enum class PadMode : uint8_t { Constant, Reflect, Replicate, Circular, Named };
template <PadMode kMode>
void convertPad(ConvertCall& call);
void convertRoll(ConvertCall& call);
void convertFlip(ConvertCall& call);

}  // namespace tscompile
