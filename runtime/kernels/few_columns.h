// Products of many rows with a matrix of few columns, as the heads of networks are: panels of 16 columns would be
// filled with zeros, so each result is a sum along its row instead.
#pragma once

#include "runtime/kernels/epilogue.h"

#include <cstdint>
#include <vector>

namespace tscompile {

inline constexpr int64_t kFewColumns = 4;

// Whether that is faster than panels; for weights in f32. The number of rows has no say in it: a row gets the same
// result whatever other rows there are.
constexpr bool wantsFewColumns(int64_t n, int64_t k) { return n <= kFewColumns && k >= 8 * n; }

struct FewColumns {
  // `panel`: k rows of 16 columns, of which n are there.
  FewColumns(const float* panel, int64_t k, int64_t n);
  // c = epilogue(rows of a times the columns), of m rows that lie lda and ldc floats apart.
  void run(int64_t m, const float* a, int64_t lda, float* c, int64_t ldc, const Epilogue& epilogue) const;

  int64_t k, n;
  std::vector<float> columns;  // one after the other
};

}  // namespace tscompile
