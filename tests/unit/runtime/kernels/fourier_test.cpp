#include "runtime/kernels/fourier.h"

#include "tests/support/engine_reference.h"

#include <complex>
#include <numbers>

namespace tscompile::test {
namespace {

void check(int64_t n, bool forward) {
  SCOPED_TRACE(testing::Message() << n << (forward ? " points" : " points back"));
  const FourierPlan plan(n, forward);
  std::vector<float> re = randomFloats(n * kFourierLines, 1), im = randomFloats(n * kFourierLines, 2);
  std::vector<double> wantRe, wantIm;
  for (int64_t k = 0; k < n; ++k)
    for (int64_t l = 0; l < kFourierLines; ++l) {
      std::complex<double> sum = 0;
      for (int64_t i = 0; i < n; ++i) {
        const double angle = 2 * std::numbers::pi * static_cast<double>(i * k % n) / static_cast<double>(n);
        const auto at = static_cast<size_t>(i * kFourierLines + l);
        sum += std::complex<double>(re[at], im[at]) * std::polar(1.0, forward ? -angle : angle);
      }
      wantRe.push_back(sum.real());
      wantIm.push_back(sum.imag());
    }
  const auto room = static_cast<size_t>(plan.room() * kFourierLines);
  for (auto* part : {&re, &im}) part->resize(room);
  std::vector<float> otherRe(room), otherIm(room);
  const bool other = plan.run(re.data(), im.data(), otherRe.data(), otherIm.data());
  if (other) re.swap(otherRe), im.swap(otherIm);
  for (auto* part : {&re, &im}) part->resize(wantRe.size());
  expectNear(re, wantRe, 2e-6, 4e-5);
  expectNear(im, wantIm, 2e-6, 4e-5);
}

}  // namespace

TEST(EngineFourier, LengthsOfSmallFactors) {
  atEachSimdLevel([] {
    for (int64_t n : {1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 13, 15, 16, 20, 28, 30, 49, 64, 90, 100, 128, 400})
      for (bool forward : {true, false}) check(n, forward);
  });
}

TEST(EngineFourier, LengthsOfLargeFactors) {
  atEachSimdLevel([] {
    for (int64_t n : {17, 19, 31, 34, 37, 58, 74, 101, 127, 254, 361})
      for (bool forward : {true, false}) check(n, forward);
  });
}

}  // namespace tscompile::test
