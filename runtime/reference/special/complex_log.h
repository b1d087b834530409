// Logarithms of complex numbers.
#pragma once

#include <cmath>
#include <complex>

namespace tscompile {

// Of 1 + z. Where z is small the real part is that of |1 + z|^2 - 1, which keeps the digits of z.
inline std::complex<double> complexLog1p(std::complex<double> z) {
  const double re = z.real(), im = z.imag(), angle = std::atan2(im, re + 1), beyond = re * (2 + re) + im * im;
  if (!(std::abs(z) < 0.5)) return {std::log(std::hypot(re + 1, im)), angle};
  return {beyond == 0 ? re : 0.5 * std::log1p(beyond), angle};
}

}  // namespace tscompile
