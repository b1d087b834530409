// Factorizations and spectra of real matrices and what is solved by them, by LAPACK: matrices lie in rows, which LAPACK
// takes for columns of the transposed ones. Batches are split over threads.
#pragma once

#include "runtime/engine/network/convert_call.h"
#include "runtime/engine/network/frame.h"

namespace tscompile {

// `count` matrices of n rows and columns, and as many right sides of `columns` columns; or matrices of n rows and
// `columns` columns.
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

// (self, upper); with what went wrong (self, upper, check_errors)
void convertCholesky(ConvertCall& call);
void convertCholeskyEx(ConvertCall& call);
// (self, upper): the inverse of a matrix from its factor
void convertCholeskyInverse(ConvertCall& call);
// (b, factor, upper)
void convertCholeskySolve(ConvertCall& call);
// (A, B, upper, left, unitriangular)
void convertSolveTriangular(ConvertCall& call);
// (A); with what went wrong (A, check_errors)
void convertInverse(ConvertCall& call);
void convertInverseEx(ConvertCall& call);
// (A, B, left); with what else there is (A, B, left, check_errors)
void convertSolve(ConvertCall& call);
void convertSolveEx(ConvertCall& call);
// (A): the determinant; its sign and the logarithm of its size; the logarithm alone
void convertDeterminant(ConvertCall& call);
void convertSignAndLogarithm(ConvertCall& call);
void convertLogDeterminant(ConvertCall& call);
// (A, pivot, check_errors or not): factors and pivots, in two results or three; (A, pivot): P, L, U
void convertLuFactor(ConvertCall& call, bool checks);
void convertLu(ConvertCall& call);
// (A, ...): Q and R, of the sizes that the results have
void convertQr(ConvertCall& call);
// `job` as LAPACK has it; with `givesV`, V stands in place of its transposed.
void convertSingularValues(ConvertCall& call, char job, bool givesV = false);
// (A, uplo): eigenvalues of symmetric matrices, and eigenvectors if there are two results
void convertSymmetricEigen(ConvertCall& call);
// (A): complex eigenvalues, and eigenvectors if there are two results
void convertEigen(ConvertCall& call);
// Singular values up to max(absolute, relative * largest) count as zero.
void convertPseudoInverse(ConvertCall& call, double absolute, double relative);

}  // namespace tscompile
