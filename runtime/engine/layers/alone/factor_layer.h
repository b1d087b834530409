// Factorizations of real square matrices and what is solved by them, by LAPACK: matrices lie in rows, which LAPACK
// takes for columns of the transposed ones. Batches are split over threads.
#pragma once

#include "runtime/engine/network/convert_call.h"
#include "runtime/engine/network/frame.h"

namespace tscompile {

// `count` matrices of n rows and columns, and as many right sides of `columns` columns.
struct FactorShape {
  int64_t count = 1, n = 0, columns = 0;
};

class FactorLayer : public Layer {
 public:
  FactorLayer(const Node* node, FactorShape shape, DType dtype) : Layer(node), shape_(shape), dtype_(dtype) {}
  size_t workspace() const override;
  void run(Frame& frame) const override;

 protected:
  // What is done with matrix i, in f32 or f64. `scratch` has scratchElements() of the dtype, `pivots` are n numbers.
  virtual void runOne(const Frame& frame, int64_t i, float* scratch, int32_t* pivots) const = 0;
  virtual void runOne(const Frame& frame, int64_t i, double* scratch, int32_t* pivots) const = 0;
  virtual int64_t scratchElements() const = 0;
  const FactorShape& shape() const { return shape_; }

 private:
  int64_t pieces() const;
  size_t pieceBytes() const;

  FactorShape shape_;
  DType dtype_;
};

// (self, upper)
void convertCholesky(ConvertCall& call);
// (self, upper): the inverse of a matrix from its factor
void convertCholeskyInverse(ConvertCall& call);
// (b, factor, upper)
void convertCholeskySolve(ConvertCall& call);
// (A, B, upper, left, unitriangular)
void convertSolveTriangular(ConvertCall& call);
// (A)
void convertInverse(ConvertCall& call);
// (A, B, left)
void convertSolve(ConvertCall& call);
// (A): the determinant; its sign and the logarithm of its size
void convertDeterminant(ConvertCall& call);
void convertSignAndLogarithm(ConvertCall& call);

}  // namespace tscompile
