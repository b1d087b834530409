#include "tools/reports/statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

namespace tscompile {

double quantile(std::span<const double> ascending, double q) {
  if (ascending.empty()) return 0;
  double at = q * static_cast<double>(ascending.size() - 1);
  auto below = static_cast<size_t>(at);
  size_t above = std::min(below + 1, ascending.size() - 1);
  return ascending[below] + (at - static_cast<double>(below)) * (ascending[above] - ascending[below]);
}

size_t samplesFor(double q) { return static_cast<size_t>(std::lround(10 / (1 - q))); }

// Where the median of n values lies: between the ranks k and n - 1 - k, by the binomial distribution with 1/2.
Interval medianInterval(std::vector<double> values, double probability) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  const double miss = (1 - probability) / 2;
  size_t k = 0;
  double below = std::exp(-static_cast<double>(n) * std::log(2.0)), term = below;  // P(ranks up to k)
  if (term > 0) {
    while (below <= miss && k + 1 < n / 2) {
      term *= static_cast<double>(n - k) / static_cast<double>(k + 1);
      if (below + term > miss) break;
      below += term;
      ++k;
    }
  } else {  // so many that the normal distribution serves: 1.96 for 95 %, 2.576 for 99 %
    const double z = probability > 0.97 ? 2.576 : 1.96, half = static_cast<double>(n) / 2;
    k = static_cast<size_t>(std::max(0.0, half - z * std::sqrt(half / 2) - 1));
  }
  return {quantile(values, 0.5), values[k], values[n - 1 - k]};
}

Interval ratioInTurns(std::span<const double> first, std::span<const double> second) {
  std::vector<double> logs;
  for (size_t i = 0; i < std::min(first.size(), second.size()); ++i)
    if (first[i] > 0 && second[i] > 0) logs.push_back(std::log(second[i] / first[i]));
  if (logs.empty()) return {};
  constexpr size_t kFewest = 8;  // the least and the greatest of fewer are nearer together than 99 % asks for
  const bool few = logs.size() < kFewest;
  const Interval i = medianInterval(std::move(logs), 0.99);
  if (few) return {std::exp(i.middle), 0, std::numeric_limits<double>::infinity()};
  return {std::exp(i.middle), std::exp(i.low), std::exp(i.high)};
}

Interval ratioAtPlaces(std::span<const PlacedRounds> places) {
  // The quantile 0.995 of Student's t for five degrees of freedom and more.
  constexpr double kStudent[] = {4.032, 3.707, 3.499, 3.355, 3.250, 3.169, 3.106, 3.055,
                                 3.012, 2.977, 2.947, 2.921, 2.898, 2.878, 2.861};
  constexpr size_t kFewest = 6;
  std::vector<double> logs, first, second;
  for (const PlacedRounds& p : places) {
    if (!p.first.empty() && !p.second.empty()) logs.push_back(std::log(ratioInTurns(p.first, p.second).middle));
    const auto rounds = static_cast<std::ptrdiff_t>(std::min(p.first.size(), p.second.size()));
    first.insert(first.end(), p.first.begin(), p.first.begin() + rounds);
    second.insert(second.end(), p.second.begin(), p.second.begin() + rounds);
  }
  if (logs.size() < kFewest) return ratioInTurns(first, second);
  const Statistics s = statisticsOf(logs);
  const double t = kStudent[std::min(logs.size() - kFewest, std::size(kStudent) - 1)];
  const double half = t * s.deviation / std::sqrt(static_cast<double>(logs.size()));
  return {std::exp(s.mean), std::exp(s.mean - half), std::exp(s.mean + half)};
}

bool isDifference(const Interval& ratio) {
  constexpr double kLeast = 0.01;
  return !ratio.contains(1) && std::abs(std::log(ratio.middle)) > kLeast;
}

Statistics statisticsOf(std::span<const double> samples) {
  Statistics s;
  s.count = samples.size();
  if (samples.empty()) return s;
  std::vector<double> ascending(samples.begin(), samples.end());
  std::sort(ascending.begin(), ascending.end());
  s.min = ascending.front();
  s.max = ascending.back();
  s.median = quantile(ascending, 0.5);
  s.p90 = quantile(ascending, 0.9);
  s.p95 = quantile(ascending, 0.95);
  s.p99 = quantile(ascending, 0.99);
  s.p999 = quantile(ascending, 0.999);
  const Interval median = medianInterval(ascending, 0.95);
  s.low = median.low, s.high = median.high;
  auto count = static_cast<double>(s.count);
  s.mean = std::accumulate(ascending.begin(), ascending.end(), 0.0) / count;
  double squares = 0;
  for (double v : ascending) squares += (v - s.mean) * (v - s.mean);
  s.deviation = s.count > 1 ? std::sqrt(squares / (count - 1)) : 0;
  return s;
}

}  // namespace tscompile
