// What samples of a duration say.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace tscompile {

struct Statistics {
  size_t count = 0;
  double min = 0, max = 0, mean = 0, median = 0, p90 = 0, p95 = 0, p99 = 0, p999 = 0;
  double low = 0, high = 0;  // the median lies between them with 95 %, if samples are independent
  double deviation = 0;      // the standard deviation

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("min", min);
    visit("median", median);
    visit("median_low", low);
    visit("median_high", high);
    visit("mean", mean);
    visit("p90", p90);
    visit("p95", p95);
    visit("p99", p99);
    visit("p999", p999);
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

// An estimate, and between what it lies.
struct Interval {
  double middle = 0, low = 0, high = 0;
  bool contains(double x) const { return low <= x && x <= high; }
};
// The median of independent values, and the order statistics that it lies between with this probability ("sign test").
Interval medianInterval(std::vector<double> values, double probability);

// Medians of two programs that ran in turns, one of each in a round: the second's time by the first's. What both suffer
// in a round cancels out. With 99 %: of a hundred comparisons of a program with itself one may find a difference.
Interval ratioInTurns(std::span<const double> first, std::span<const double> second);
// The same of rounds at several places in memory: what a program gains or loses by where its tensors lie is the same in
// all rounds of a place, and chance from one to the next. The mean of the places' medians, with 99 % (Student's t); as
// ratioInTurns() where there are fewer than six.
struct PlacedRounds {
  std::vector<double> first, second;
};
Interval ratioAtPlaces(std::span<const PlacedRounds> places);
// Whether that is a difference: 1 is outside of the interval, and it is more than a hundredth.
bool isDifference(const Interval& ratio);

}  // namespace tscompile
