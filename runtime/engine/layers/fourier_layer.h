// Fourier transforms along one dimension, in f32.
#pragma once

#include "runtime/engine/network/convert_call.h"
#include "runtime/engine/network/frame.h"
#include "runtime/kernels/fourier.h"

#include <algorithm>
#include <optional>

namespace tscompile {

// [outer][given][inner] -> [outer][made][inner], both contiguous, real (f32) or complex (complex64). What is given is
// cut or filled up with zeros to the points of the plan; of the result the first are made.
class FourierLayer : public Layer {
 public:
  FourierLayer(const Node* node, int64_t points, bool forward) : Layer(node), plan_(points, forward) {}
  std::string name() const override { return "fourier"; }
  size_t workspace() const override;
  void run(Frame& frame) const override;

  // Real elements that are or become neighbours, an even number of them, are transformed as half as many complex ones.
  void takePairs() { half_.emplace(plan_.length() / 2, plan_.isForward()); }

  int64_t outer = 1, inner = 1;
  bool isHermitian = false;  // the first half is given of what becomes real
  float scale = 1;

 private:
  int64_t groups() const { return (outer * inner + kFourierLines - 1) / kFourierLines; }
  int64_t pieces() const;
  // How many elements each of the four buffers holds.
  int64_t room() const { return half_ ? std::max(plan_.length(), half_->room()) : plan_.room(); }
  int64_t pieceFloats() const { return 4 * room() * kFourierLines; }
  template <class Move>
  void overNeighbours(bool complex, int64_t length, int64_t first, int64_t lines, int64_t count, Move&& move) const;
  void makeEndsReal(float* im) const;
  void mirror(float* re, float* im) const;
  void gather(const float* from, bool complex, int64_t given, int64_t first, int64_t lines, float* re, float* im) const;
  void scatter(const float* re, const float* im, bool complex, int64_t made, int64_t first, int64_t lines,
               float* to) const;

  void runPairs(const float* from, int64_t given, int64_t made, int64_t first, int64_t lines, float* scratch,
                float* to) const;

  FourierPlan plan_;
  std::optional<FourierPlan> half_;
};

// Why a transform of these points has no layer, or nothing; `lines` are transformed.
std::string_view fourierProblem(int64_t points, int64_t lines);

// The transform of `x` along `dim` by a layer; `made` elements of `dtype`, Float32 or Complex64.
struct FourierStep {
  int64_t dim, points, made;
  bool forward;
  double scale;
  DType dtype;
};
Tensor addFourier(ConvertCall& call, const Tensor& x, const FourierStep& step);

}  // namespace tscompile
