#include "tools/reports/diff_benches.h"

#include "api/bounded_json.h"
#include "frontend/files/file_io.h"
#include "ir/support/json_fields.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <span>
#include <vector>

namespace tscompile {
namespace {

constexpr uint64_t kMostBytes = uint64_t{16} << 20;
// Two runs of the same program differ by less than this in both of what is compared.
constexpr double kNoise = 0.03;

struct Times {
  double min = 0, median = 0;  // milliseconds
  double low = 0, high = 0;    // between which the median lies; the median itself in files that do not say it
};
// What was measured.
struct Setting {
  std::string sizes;
  int64_t threads = 1, callers = 1;
  auto operator<=>(const Setting&) const = default;
};
struct Report {
  std::map<Setting, Times> times;
  std::string version, processor;  // empty: the file does not say it
};

// Nothing after reporting what is wrong.
Result<Report> readReport(const std::string& path, Diagnostics& diagnostics) {
  Result<std::string> text = readFile(path, kMostBytes, diagnostics);
  if (!text) return Failed{};
  auto json = parseBoundedJson(*text);
  Report out;
  auto word = [](const auto& object, const char* key) {
    auto at = object.find(key);
    return at != object.end() && at->is_string() ? at->template get<std::string>() : std::string();
  };
  if (json.is_object()) out.version = word(json, "version"), out.processor = word(json, "processor");
  auto number = [](const auto& object, const char* key) {
    auto at = object.find(key);
    return at != object.end() && at->is_number() ? at->template get<double>() : std::nan("");
  };
  if (auto results = json.is_object() ? json.find("results") : json.end(); results != json.end())
    for (const auto& r : *results) {
      auto latency = r.is_object() ? r.find("latency_ms") : r.end();
      if (latency == r.end() || !latency->is_object()) continue;
      Times t{number(*latency, "min"), number(*latency, "median"), number(*latency, "median_low"),
              number(*latency, "median_high")};
      if (!(t.low > 0 && t.high >= t.low)) t.low = t.high = t.median;
      const double threads = number(r, "threads"), callers = number(r, "concurrency");
      if (!(t.min > 0 && t.median > 0 && threads >= 1 && threads <= 1e6)) continue;
      out.times[{word(r, "sizes"), static_cast<int64_t>(threads),
                 callers >= 1 && callers <= 1e6 ? static_cast<int64_t>(callers) : 1}] = t;
    }
  if (!out.times.empty()) return out;
  diagnostics.fileError(path, {}, "the measurement has no results with 'threads' and 'latency_ms'");
  return Failed{};
}

struct Row {
  Setting setting;
  std::optional<Times> a, b;
  bool inBoth() const { return a && b; }
  double least() const { return b->min / a->min; }
  double median() const { return b->median / a->median; }
  std::string_view verdict() const {
    if (!inBoth()) return a ? "only in the first" : "only in the second";
    // Medians whose intervals meet may be the same.
    if (std::min(least(), median()) > 1 + kNoise && b->low > a->high) return "slower";
    if (std::max(least(), median()) < 1 / (1 + kNoise) && b->high < a->low) return "faster";
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

struct Rows {
  std::vector<Row> benches;

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("schema", "tscompile.diff/1");
    visit("benches", Lines{benches});
  }
};

std::vector<Row> rowsOf(const Report& a, const Report& b) {
  std::map<Setting, Row> rows;
  for (const auto& [setting, times] : a.times) rows[setting] = {setting, times, {}};
  for (const auto& [setting, times] : b.times) {
    rows[setting].setting = setting;
    rows[setting].b = times;
  }
  std::vector<Row> out;
  for (const auto& [setting, row] : rows) out.push_back(row);
  return out;
}

void writeText(std::span<const Row> rows, std::ostream& out) {
  out << "threads            min ms                   median ms          second / first\n";
  for (const Row& r : rows) {
    if (!r.setting.sizes.empty() || r.setting.callers > 1)
      out << fmt::format("{}{}\n", r.setting.sizes.empty() ? "" : r.setting.sizes + "  ",
                         r.setting.callers > 1 ? fmt::format("{} callers", r.setting.callers) : "");
    if (r.inBoth())
      out << fmt::format("{:>7} {:>10.5g} -> {:>10.5g} {:>10.5g} -> {:>10.5g}  {:.3f} {:.3f}  {}\n", r.setting.threads,
                         r.a->min, r.b->min, r.a->median, r.b->median, r.least(), r.median(), r.verdict());
    else
      out << fmt::format("{:>7} {}\n", r.setting.threads, r.verdict());
  }
}

}  // namespace

bool isBenchReport(const std::string& path) {
  Diagnostics ignored;
  Result<std::string> start = path == "-" ? Result<std::string>(Failed{}) : readFileStart(path, 256, ignored);
  return start && start->find("\"tscompile.bench/1\"") != std::string::npos;
}

int diffBenches(const std::string& first, const std::string& second, Session& session) {
  Result<Report> a = readReport(first, session.diagnostics), b = readReport(second, session.diagnostics);
  if (!a || !b) return session.finish();
  std::vector<Row> rows = rowsOf(*a, *b);
  if (std::none_of(rows.begin(), rows.end(), [](const Row& r) { return r.inBoth(); })) {
    session.diagnostics.fileError(second, {}, "no number of threads was measured in both");
    return session.finish();
  }
  auto tellOther = [&](const char* what, const std::string& one, const std::string& other) {
    if (!one.empty() && !other.empty() && one != other)
      session.note(fmt::format("the {} differs: {} and {}", what, one, other));
  };
  tellOther("version", a->version, b->version);
  tellOther("processor", a->processor, b->processor);
  session.common.json ? writeJson(session.out, Rows{rows}) : writeText(rows, session.out);
  bool slower = std::any_of(rows.begin(), rows.end(), [](const Row& r) { return r.verdict() == "slower"; });
  return session.finish(slower ? kExitNegative : kExitDone);
}

}  // namespace tscompile
