// What samples of a duration say.
#pragma once

#include <cstddef>
#include <span>

namespace tscompile {

struct Statistics {
  size_t count = 0;
  double min = 0, max = 0, mean = 0, median = 0, p90 = 0, p99 = 0;
  double deviation = 0;  // the standard deviation

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("min", min);
    visit("median", median);
    visit("mean", mean);
    visit("p90", p90);
    visit("p99", p99);
    visit("max", max);
    visit("deviation", deviation);
    visit("n", count);
  }

  // Deviation by mean: how unsteady the samples are.
  double variation() const { return mean > 0 ? deviation / mean : 0; }
};

// The quantile q, from 0 to 1, of ascending values: linear between the two nearest (type 7).
double quantile(std::span<const double> ascending, double q);
// Samples that a quantile needs to mean something: ten beyond it.
size_t samplesFor(double q);
// All are 0 without samples.
Statistics statisticsOf(std::span<const double> samples);

}  // namespace tscompile
