// Discrete Fourier transforms of any length, in double precision.
#pragma once

#include "ir/values/tensor.h"

#include <complex>
#include <vector>

namespace tscompile {

// The plan of one length and direction. Lengths with small prime factors go by mixed radices (Stockham's order, which
// needs no bit reversal), others as a convolution of a length that has them (Bluestein).
class Fft {
 public:
  using Complex = std::complex<double>;
  // forward: the exponents are negative.
  Fft(int64_t n, bool forward);
  int64_t length() const { return n_; }
  // Replaces the elements by their transform, which is not scaled.
  void run(Complex* x) const;

 private:
  struct Pass {
    int64_t radix, before, after;  // n = before * radix * after
  };
  void planMixed(std::vector<int64_t> factors, bool forward);
  void planChirp(bool forward);
  void runPasses(Complex* x) const;
  void runChirp(Complex* x) const;

  int64_t n_;
  std::vector<Pass> passes_;
  Tensor roots_;                  // of mixed radices: exp(-+ 2 pi i k / n); else the chirp exp(-+ pi i k^2 / n)
  Tensor scratch_;                // of n elements; else of the convolution's length
  std::vector<Fft> convolution_;  // the transforms there and back
  Tensor kernel_;                 // the transform of the conjugated chirp
};

// ---- along one dimension of a tensor; results are new tensors, scaled by `scale` ----

// Complex to complex; the dimension is cut or filled up with zeros to `n`.
Tensor transformed(const Tensor& t, int64_t dim, int64_t n, bool forward, double scale);
// Real to complex: the first n / 2 + 1 elements, or all.
Tensor transformedReal(const Tensor& t, int64_t dim, int64_t n, bool forward, double scale, bool half = true);
// The first n / 2 + 1 elements of something whose transform is real, to that.
Tensor transformedHermitian(const Tensor& t, int64_t dim, int64_t n, bool forward, double scale);

}  // namespace tscompile
