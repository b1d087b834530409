// Elements that tensors of numbers pick: index, index_select, embedding, gather, index_add, index_put.
#pragma once

#include "runtime/engine/network/convert_call.h"
#include "runtime/engine/network/frame.h"

#include <vector>

namespace tscompile {

// Which blocks of a tensor [picked dimensions][block] are picked, by one index for each of these dimensions. The
// indices are broadcast to `block`.
struct PickedBlocks {
  struct Index {
    int64_t size;    // of the dimension that it picks from
    int64_t stride;  // of that dimension, in blocks
    Dims strides;    // of the index, over `block`
  };
  // The numbers of the blocks, as the tensors with the indices say.
  void find(const Frame& frame, std::span<const TensorId> numbers, std::span<int64_t> blocks) const;
  size_t bytes() const { return static_cast<size_t>(count) * sizeof(int64_t); }  // of the numbers

  std::vector<Index> indices;
  Dims block;
  int64_t count = 0;   // elements of `block`
  bool wraps = false;  // negative numbers count from the end
};

// Blocks of a contiguous tensor [outer][picked dimensions][inner].
class PickLayer : public Layer {
 public:
  using Layer::Layer;
  std::string name() const override { return "pick"; }
  size_t workspace() const override { return which.bytes(); }
  void run(Frame& frame) const override;

  PickedBlocks which;  // by inputs 1, 2, ...
  int64_t outer = 1, picked = 1, innerBytes = 0;
};

// Rows of a constant table of float32 that is stored smaller (ir/values/encoded.h), by their numbers.
class DecodeRowsLayer : public Layer {
 public:
  DecodeRowsLayer(const Node* node, Tensor table, int64_t count)
      : Layer(node), table_(std::move(table)), count_(count) {}
  std::string name() const override { return "decode_rows"; }
  void run(Frame& frame) const override;

 private:
  Tensor table_;
  int64_t count_;
};

// out[.., i, ..] = self[.., index[.., i, ..], ..] along one dimension.
class GatherLayer : public Layer {
 public:
  using Layer::Layer;
  std::string name() const override { return "gather"; }
  void run(Frame& frame) const override;
  size_t dim = 0;
};

// out = self, a contiguous tensor [outer][picked dimensions][inner]; blocks of it become those of the source
// [outer][block][inner], or these are added, in order. Inputs: self, the source, the numbers.
class PutLayer : public Layer {
 public:
  using Layer::Layer;
  std::string name() const override { return adds ? "index_add" : "index_put"; }
  bool replacesParts() const override { return true; }
  size_t workspace() const override { return which.bytes(); }
  void run(Frame& frame) const override;

  PickedBlocks which;
  int64_t outer = 1, picked = 1, inner = 1;
  bool adds = false;  // of float32, float64 and int64
  float alpha = 1;    // by which what is added of float32 is multiplied
};

void convertIndex(ConvertCall& call);
void convertIndexSelect(ConvertCall& call);
void convertEmbedding(ConvertCall& call);
void convertGather(ConvertCall& call);
void convertIndexAdd(ConvertCall& call);
void convertIndexPut(ConvertCall& call);
void convertIndexCopy(ConvertCall& call);
void convertIndexFill(ConvertCall& call);

}  // namespace tscompile
