// Elements of any dtype that are copied as they are: all of a tensor, or what replaces a part of one (select_scatter,
// slice_scatter, diagonal_scatter).
#pragma once

#include "runtime/engine/network/convert_call.h"
#include "runtime/engine/network/frame.h"
#include "runtime/kernels/elements/convert.h"

#include <vector>

namespace tscompile {

// Copies elements between tensors of the same sizes and dtype with any strides.
class StridedCopy {
 public:
  StridedCopy(const NetTensor& from, const NetTensor& to);
  void run(const std::byte* from, std::byte* to, int threads) const;

 private:
  static constexpr int64_t kShared = 256 << 10;  // bytes; fewer are copied by one thread
  static constexpr int64_t kShort = 8;           // elements of a line for which a call is too much
  struct Line {
    int64_t size, from, to;  // strides in elements
  };
  void copyLine(const std::byte* from, std::byte* to, int64_t count) const;
  void copyShortLines(const std::byte* from, std::byte* to, const Line& beside, int64_t first, int64_t end) const;
  // Lines that lie beside each other in the source, which are copied together.
  int64_t linesAtOnce() const;

  std::vector<Line> outer_;  // dimensions that cannot be walked through as one, the outermost first
  Line inner_{1, 1, 1};
  int64_t bytes_;  // of an element
};

// out = self, in row-major order.
class MoveLayer : public Layer {
 public:
  MoveLayer(const Node* node, const Network& network, TensorId self, TensorId out);
  std::string name() const override { return "move"; }
  void run(Frame& frame) const override;

 private:
  StridedCopy all_;
};

// out = self in another dtype: a contiguous tensor of integers, bools or floats of 32 or 64 bits.
class ConvertLayer : public Layer {
 public:
  ConvertLayer(const Node* node, ElementConversion convert, TensorId self, TensorId out);
  std::string name() const override { return "convert"; }
  void run(Frame& frame) const override;

 private:
  ElementConversion convert_;
};

// out: one element everywhere.
class FillLayer : public Layer {
 public:
  FillLayer(const Node* node, Tensor element) : Layer(node), element_(std::move(element)) {}
  std::string name() const override { return "fill"; }
  void run(Frame& frame) const override;

 private:
  Tensor element_;
};

// The result is a tensor of this one element.
void addFill(ConvertCall& call, Tensor element);

// out = self; part = source. Inputs: self, source. Outputs: out, and the part of it.
class WritePartLayer : public Layer {
 public:
  WritePartLayer(const Node* node, const Network& network, TensorId self, TensorId source, TensorId out, TensorId part);
  std::string name() const override { return "write_part"; }
  bool replacesParts() const override { return true; }
  void run(Frame& frame) const override;

 private:
  StridedCopy whole_, part_;
};

// `part` is what the source replaces of `out`, a symbolic tensor that is the result.
void addWritePart(ConvertCall& call, const Tensor& out, const Tensor& part);

}  // namespace tscompile
