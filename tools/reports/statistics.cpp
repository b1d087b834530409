#include "tools/reports/statistics.h"

#include <algorithm>
#include <cmath>
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
  s.p99 = quantile(ascending, 0.99);
  auto count = static_cast<double>(s.count);
  s.mean = std::accumulate(ascending.begin(), ascending.end(), 0.0) / count;
  double squares = 0;
  for (double v : ascending) squares += (v - s.mean) * (v - s.mean);
  s.deviation = s.count > 1 ? std::sqrt(squares / (count - 1)) : 0;
  return s;
}

}  // namespace tscompile
