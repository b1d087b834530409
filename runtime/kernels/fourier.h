// Discrete Fourier transforms of f32, of sixteen lines at once: each step is the same for all of them.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace tscompile {

inline constexpr int64_t kFourierLines = 16, kLargestRadix = 31;

// `count` elements of `lines` lines, real ones or pairs, which are neighbours in memory: those of a line, lines being
// `step` floats apart, or, where `areSideBySide`, those of the lines, elements being `step` floats apart. They are
// moved to or from the layout of FourierPlan.
struct FourierLines {
  int64_t lines, count, step;
  bool isComplex, areSideBySide;
};
void gatherFourier(const FourierLines& lines, const float* from, float* re, float* im);
void scatterFourier(const FourierLines& lines, const float* re, const float* im, float scale, float* to);

// The plan of one length and direction: by mixed radices in Stockham's order, or, where a prime factor is larger than
// kLargestRadix, as a convolution of at least twice the length.
class FourierPlan {
 public:
  // forward: the exponents are negative.
  FourierPlan(int64_t n, bool forward);
  int64_t length() const { return n_; }
  // How many elements the buffers of `run` have room for.
  int64_t room() const { return inner_ ? inner_->length() : n_; }
  bool isForward() const { return forward_; }
  // Elements lie [n][kFourierLines], real and imaginary parts apart. The transform, which is not scaled, is left in the
  // first pair of buffers or in the second: whether in the second.
  bool run(float* re, float* im, float* otherRe, float* otherIm) const;
  // The first half of the spectrum of real elements, n / 2 + 1 of n, from that of the pairs x[2 j] + i x[2 j + 1]; and
  // back, twice as large.
  void partsOfPairs(const float* pairRe, const float* pairIm, float* re, float* im) const;
  void pairsOfParts(const float* re, const float* im, float* pairRe, float* pairIm) const;

  // in[k][m][i] -> out[j][k][i], turned by root[i * j * before]; n = before * radix * after.
  struct Pass {
    int64_t radix, before, after;
  };

 private:
  void convolve();

  int64_t n_;
  bool forward_;
  std::vector<Pass> passes_;
  std::vector<float> cosines_, sines_;  // of exp(-+ 2 pi i k / n)
  // Of convolutions: their plan, exp(-+ pi i k^2 / n), and the spectrum of what is convolved with, by its length.
  std::unique_ptr<FourierPlan> inner_;
  std::vector<float> chirpRe_, chirpIm_, spectrumRe_, spectrumIm_;
};

}  // namespace tscompile
