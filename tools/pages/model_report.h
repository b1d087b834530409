// What a report holds, as its page and its JSON have it ("tscompile.report/1", tools/schemas/report.json).
#pragma once

#include "ir/support/json_fields.h"
#include "tools/pages/report_graph.h"
#include "tools/reports/statistics.h"

#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

namespace tscompile {

struct ReportTotal {
  std::string name;
  size_t parts = 0;  // nodes and layers
  double us = 0;

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("name", name);
    visit("parts", parts);
    visit("us", us);
  }
};

struct ReportAccuracy {
  bool within = false;
  double largest = 0;  // difference of an element; infinite if no tolerance helps
  std::string wrong;   // what no tolerance helps against; empty: nothing
  double relative = 0, absolute = 0;

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("within", within);
    visit("largest", largest);
    if (!wrong.empty()) visit("wrong", wrong);
    visit("rtol", relative);
    visit("atol", absolute);
  }
};

// What this machine does at its best, in the same program on the same threads.
struct ReportPeaks {
  double gflops = 0;  // of a product of two matrices
  double gbytes = 0;  // per second, read and written, of tensors that no cache holds

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("gflops", gflops);
    visit("gbytes_per_second", gbytes);
  }
};

struct ReportSweep {
  size_t minBlockSize = 0, segments = 0, engines = 0;
  double coverage = 0;

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("min_block_size", minBlockSize);
    visit("segments", segments);
    visit("engines", engines);
    visit("coverage", coverage);
  }
};

// What running has shown.
struct ReportRun {
  int threads = 0;
  double loadMs = 0, firstMs = 0;
  std::vector<double> samplesMs;  // at most kMostSamples of them
  Statistics latencyMs;
  double profiledUs = 0;                          // of a run that is watched
  double otherUs = 0;                             // of it, what belongs to no row
  std::vector<std::pair<double, double>> memory;  // microseconds, bytes
  double peakBytes = 0;                           // of tensors in a run
  std::optional<ReportAccuracy> accuracy;
  std::optional<ReportPeaks> peaks;
  std::vector<ReportTotal> modules, operators;
  std::vector<std::string> notes;
  static constexpr size_t kMostSamples = 2000;

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("threads", threads);
    visit("load_ms", loadMs);
    visit("first_run_ms", firstMs);
    visit("latency_ms", latencyMs);
    visit("samples_ms", samplesMs);
    visit("profiled_us", profiledUs);
    visit("other_us", otherUs);
    visit("peak_tensor_bytes", peakBytes);
    visit("memory", memoryPoints());
    visit("accuracy", accuracy);
    visit("peaks", peaks);
    visit("modules", Lines{modules});
    visit("operators", Lines{operators});
    visit("notes", notes);
  }

 private:
  std::vector<std::vector<double>> memoryPoints() const {
    std::vector<std::vector<double>> out;
    for (auto [us, bytes] : memory) out.push_back({us, bytes});
    return out;
  }
};

struct ReportInput {
  std::string name, type, given;  // given: sizes and dtype of what it was run on; empty: it was not

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("name", name);
    visit("type", type);
    if (!given.empty()) visit("given", given);
  }
};

struct ModelReport {
  explicit ModelReport(ReportGraph g) : graph(std::move(g)) {}

  std::string path, method, version, processor, made;  // made: the command line
  uint64_t bytes = 0;
  std::string checksum;
  double weightBytes = 0;
  std::vector<ReportInput> inputs, outputs;
  size_t nodes = 0, nodesInEngines = 0, engines = 0;
  ReportGraph graph;
  std::vector<std::string> explanation;  // lines of what partition --explain says; empty for engine files
  std::vector<ReportSweep> sweep;
  std::optional<ReportRun> run;

  double coverage() const { return nodes == 0 ? 1 : static_cast<double>(nodesInEngines) / static_cast<double>(nodes); }
};

// The data, with a line end.
void writeReportData(const ModelReport& report, std::ostream& out);
// One file of HTML that needs nothing else.
std::string reportPage(const ModelReport& report);

}  // namespace tscompile
