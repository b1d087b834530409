#include "tools/reports/diff_benches.h"

#include "api/support/bounded_json.h"
#include "frontend/files/file_io.h"
#include "ir/support/json_fields.h"
#include "ir/support/text.h"

#include <fmt/core.h>

#include <cmath>
#include <map>
#include <vector>

namespace tscompile {
namespace {

constexpr uint64_t kMostBytes = uint64_t{16} << 20;

struct Report {
  std::map<BenchSetting, BenchTimes> times;
  std::string version, commit, processor, model, checksum, executor;  // empty: the file does not say it
};

template <class Json>
std::string inputsOf(const Json& result) {
  auto inputs = result.find("inputs");
  std::string out;
  if (inputs == result.end() || !inputs->is_array()) return out;
  for (const auto& input : *inputs)
    if (input.is_string()) out += (out.empty() ? "" : ";") + input.template get<std::string>();
  return out;
}

// Nothing after reporting what is wrong.
Result<Report> parseReport(const std::string& text, const std::string& path, Diagnostics& diagnostics) {
  auto json = parseBoundedJson(text);
  Report out;
  auto word = [](const auto& object, const char* key) {
    auto at = object.find(key);
    return at != object.end() && at->is_string() ? at->template get<std::string>() : std::string();
  };
  if (json.is_object()) {
    out.version = word(json, "version"), out.commit = word(json, "commit"), out.processor = word(json, "processor");
    out.model = word(json, "model"), out.checksum = word(json, "checksum"), out.executor = word(json, "executor");
  }
  auto number = [](const auto& object, const char* key) {
    auto at = object.find(key);
    return at != object.end() && at->is_number() ? at->template get<double>() : std::nan("");
  };
  if (auto results = json.is_object() ? json.find("results") : json.end(); results != json.end())
    for (const auto& r : *results) {
      auto latency = r.is_object() ? r.find("latency_ms") : r.end();
      if (latency == r.end() || !latency->is_object()) continue;
      BenchTimes t{number(*latency, "min"), number(*latency, "median"), number(*latency, "median_low"),
                   number(*latency, "median_high"), inputsOf(r)};
      if (!(t.low > 0 && t.high >= t.low)) t.low = t.high = t.median;
      const double threads = number(r, "threads"), callers = number(r, "concurrency");
      if (!(t.min > 0 && t.median > 0 && threads >= 1 && threads <= 1e6)) continue;
      t.place = out.times.size();
      out.times[{word(r, "sizes"), static_cast<int64_t>(threads),
                 callers >= 1 && callers <= 1e6 ? static_cast<int64_t>(callers) : 1}] = t;
    }
  if (!out.times.empty()) return out;
  diagnostics.fileError(path, {},
                        json.is_discarded() ? "the file is cut short, or no JSON"
                                            : "the measurement has no results with 'threads' and 'latency_ms'");
  return Failed{};
}

struct Rows {
  std::vector<BenchComparison> benches;

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("schema", "tscompile.diff/1");
    visit("benches", Lines{benches});
  }
};

Result<Report> readReport(const std::string& path, Diagnostics& diagnostics) {
  Result<std::string> text = readFile(path, kMostBytes, diagnostics);
  if (!text) return Failed{};
  return parseReport(*text, path, diagnostics);
}

bool saysInputs(const Report& report) {
  return std::all_of(report.times.begin(), report.times.end(), [](const auto& t) { return !t.second.inputs.empty(); });
}

// What has the same inputs is put side by side, however they were given; without knowing them, what has the same
// --sizes.
std::vector<BenchComparison> rowsOf(const Report& a, const Report& b, double noise) {
  const bool byInputs = saysInputs(a) && saysInputs(b);
  std::map<BenchSetting, BenchComparison> rows;
  std::map<BenchSetting, size_t> alike;  // rows that would look the same
  auto rowOf = [&](const BenchSetting& setting, const BenchTimes& times) -> BenchComparison& {
    BenchSetting key = setting;
    if (byInputs) key.sizes = times.inputs;
    BenchComparison& row = rows[key];
    row.setting = setting;
    row.noise = noise;
    return row;
  };
  for (const auto& [setting, times] : a.times) rowOf(setting, times).a = times;
  for (const auto& [setting, times] : b.times) rowOf(setting, times).b = times;
  for (const auto& [key, row] : rows) ++alike[row.setting];
  std::vector<BenchComparison> out;
  for (const auto& [key, row] : rows) {
    const bool isClear = row.inBoth() || (!row.setting.sizes.empty() && alike[row.setting] == 1);
    out.push_back(row);
    if (byInputs && !isClear) out.back().setting.sizes = key.sizes;
  }
  // As they were measured.
  std::ranges::stable_sort(out, {}, [](const BenchComparison& r) { return std::pair(!r.b, (r.b ? r.b : r.a)->place); });
  return out;
}

std::string settingText(const BenchSetting& setting, const BenchTimes& times) {
  const std::string& sizes = times.inputs.empty() ? setting.sizes : times.inputs;
  return (sizes.empty() ? "" : sizes + " with ") + counted(static_cast<size_t>(setting.threads), "thread") +
         (setting.callers > 1 ? fmt::format(" and {} callers", setting.callers) : "");
}

// `path`: the file that is told if nothing of the one is in the other.
Result<std::vector<BenchComparison>> compare(const Report& a, const Report& b, const std::string& path, double noise,
                                             Session& session) {
  std::vector<BenchComparison> rows = rowsOf(a, b, noise);
  if (std::none_of(rows.begin(), rows.end(), [](const BenchComparison& r) { return r.inBoth(); })) {
    const auto &one = *a.times.begin(), &other = *b.times.begin();
    session.diagnostics.fileError(path, {}, "nothing was measured in both")
        .note("the first has " + settingText(one.first, one.second) + ", the second " +
              settingText(other.first, other.second));
    return Failed{};
  }
  auto tellOther = [&](const char* what, const std::string& one, const std::string& other) {
    const bool differs = !one.empty() && !other.empty() && one != other;
    if (differs) session.note(fmt::format("the {} differs: {} and {}", what, one, other));
    return differs;
  };
  if (!tellOther("version", a.version, b.version)) tellOther("commit", a.commit, b.commit);
  tellOther("processor", a.processor, b.processor);
  tellOther("executor", a.executor, b.executor);
  if (a.checksum != b.checksum && !tellOther("model", a.model, b.model))
    tellOther("checksum of the model", a.checksum, b.checksum);
  return rows;
}

}  // namespace

bool isBenchReport(const std::string& path) {
  Diagnostics ignored;
  Result<std::string> start = path == "-" ? Result<std::string>(Failed{}) : readFileStart(path, 256, ignored);
  return start && start->find("\"tscompile.bench/1\"") != std::string::npos;
}

bool hasMeasurements(const std::string& path, const std::vector<int>& threads, const std::vector<int>& callers,
                     Diagnostics& diagnostics) {
  Result<Report> report = readReport(path, diagnostics);
  if (!report) return false;
  const bool isOne = std::any_of(report->times.begin(), report->times.end(), [&](const auto& t) {
    return std::ranges::count(threads, t.first.threads) && std::ranges::count(callers, t.first.callers);
  });
  if (isOne) return true;
  const BenchSetting& first = report->times.begin()->first;
  const BenchSetting asked{{}, threads.front(), callers.front()};
  diagnostics.fileError(path, {}, "it has no measurement with " + settingText(asked, {}))
      .note(fmt::format("it has one with --threads {}{}", first.threads,
                        first.callers > 1 ? fmt::format(" --concurrency {}", first.callers) : ""));
  return false;
}

bool hasInputs(const std::string& path, const std::vector<std::string>& inputs, Diagnostics& diagnostics) {
  Result<Report> report = readReport(path, diagnostics);
  if (!report) return false;
  const std::string asked = join(inputs, ";", [](const std::string& text) { return text; });
  if (!saysInputs(*report) ||
      std::ranges::any_of(report->times, [&](const auto& t) { return t.second.inputs == asked; }))
    return true;
  std::vector<std::string> had;
  for (const auto& [setting, times] : report->times)
    if (!std::ranges::count(had, times.inputs)) had.push_back(times.inputs);
  constexpr size_t kMost = 4;
  const bool isMore = had.size() > kMost;
  const std::string more = isMore ? fmt::format(" and {} more", had.size() - kMost) : "";
  if (isMore) had.resize(kMost);
  const bool isSizes =
      had[0].find_first_of("\"[({@'") == std::string::npos && had[0].find("=None") == std::string::npos;
  Diagnostic& error = diagnostics.fileError(path, {}, "nothing was measured in both");
  error.note(fmt::format("it has {}{}, and the model is to run with {}", fmt::join(had, ", "), more, asked));
  if (isSizes) error.note("--sizes '" + had[0] + "' measures with the sizes that it has");
  return false;
}

void writeComparisons(const std::vector<BenchComparison>& rows, std::ostream& out) {
  out << "threads            min ms                   median ms          second / first\n";
  for (const BenchComparison& r : rows) {
    const std::string callers = r.setting.callers > 1 ? fmt::format("{} callers", r.setting.callers) : "";
    const bool isBoth = !r.setting.sizes.empty() && !callers.empty();
    if (!r.setting.sizes.empty() || !callers.empty()) out << r.setting.sizes << (isBoth ? "  " : "") << callers << '\n';
    if (r.inBoth())
      out << fmt::format("{:>7} {:>10.5g} -> {:>10.5g} {:>10.5g} -> {:>10.5g}  {:.3f} {:.3f}  {}\n", r.setting.threads,
                         r.a->min, r.b->min, r.a->median, r.b->median, r.least(), r.median(), r.verdict());
    else
      out << fmt::format("{:>7} {}\n", r.setting.threads, r.verdict());
  }
}

bool isAnySlower(const std::vector<BenchComparison>& rows) {
  return std::any_of(rows.begin(), rows.end(), [](const BenchComparison& r) { return r.verdict() == "slower"; });
}

int diffBenches(const std::string& first, const std::string& second, double noise, Session& session) {
  Result<Report> a = readReport(first, session.diagnostics), b = readReport(second, session.diagnostics);
  if (!a || !b) return session.finish();
  Result<std::vector<BenchComparison>> rows = compare(*a, *b, second, noise, session);
  if (!rows) return session.finish();
  session.common.json ? writeJson(session.out, Rows{*rows}) : writeComparisons(*rows, session.out);
  return session.finish(isAnySlower(*rows) ? kExitNegative : kExitDone);
}

Result<std::vector<BenchComparison>> compareWithBaseline(const std::string& path, const std::string& measured,
                                                         double noise, Session& session) {
  Result<Report> a = readReport(path, session.diagnostics);
  if (!a) return Failed{};
  Result<Report> b = parseReport(measured, "the measurement", session.diagnostics);
  if (!b) return Failed{};
  return compare(*a, *b, path, noise, session);
}

}  // namespace tscompile
