// Which of two measurements, as `tscompile bench --format json` writes them, is faster.
#pragma once

#include "tools/session/session.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tscompile {

// Of one measurement, in milliseconds.
struct BenchTimes {
  double min = 0, median = 0;
  double low = 0, high = 0;  // between which the median lies; the median itself in files that do not say it
  std::string inputs = {};   // their dtypes and sizes; empty in files that do not say it
  size_t place = 0;          // among those of its file
};
// What was measured.
struct BenchSetting {
  std::string sizes;
  int64_t threads = 1, callers = 1;
  auto operator<=>(const BenchSetting&) const = default;
};
// One setting in two measurements, or in one of them.
struct BenchComparison {
  BenchSetting setting;
  std::optional<BenchTimes> a, b;
  double noise;  // a part: two runs of the same program differ by less in both of what is compared

  bool inBoth() const { return a && b; }
  double least() const { return b->min / a->min; }
  double median() const { return b->median / a->median; }
  std::string_view verdict() const {
    if (!inBoth()) return a ? "only in the first" : "only in the second";
    // Medians whose intervals meet may be the same.
    if (std::min(least(), median()) > 1 + noise && b->low > a->high) return "slower";
    if (std::max(least(), median()) < 1 / (1 + noise) && b->high < a->low) return "faster";
    return "no difference";
  }

  template <class Visit>
  void fields(Visit&& visit) const {
    if (!setting.sizes.empty()) visit("sizes", setting.sizes);
    visit("threads", setting.threads);
    if (setting.callers > 1) visit("concurrency", setting.callers);
    if (inBoth()) {
      visit("min_ratio", least());
      visit("median_ratio", median());
    }
    visit("verdict", verdict());
  }
};

inline constexpr double kBenchNoise = 0.03;

// Whether a file holds a measurement: JSON that names its format.
bool isBenchReport(const std::string& path);
// Whether there is something in it to compare with, of as many threads and callers as will be measured; false after a
// report.
bool hasMeasurements(const std::string& path, const std::vector<int>& threads, const std::vector<int>& callers,
                     Diagnostics& diagnostics);
// Writes a table of times; the exit code is kExitNegative if the second is slower somewhere, by more than `noise`.
int diffBenches(const std::string& first, const std::string& second, double noise, Session& session);
// The same of a file and of JSON that was measured just now; fails after a report.
Result<std::vector<BenchComparison>> compareWithBaseline(const std::string& path, const std::string& measured,
                                                         double noise, Session& session);
// Whether one of its measurements had these inputs; false after a report. One that does not say them has any.
bool hasInputs(const std::string& path, const std::vector<std::string>& inputs, Diagnostics& diagnostics);
void writeComparisons(const std::vector<BenchComparison>& rows, std::ostream& out);
bool isAnySlower(const std::vector<BenchComparison>& rows);

}  // namespace tscompile
