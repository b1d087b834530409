#include "tools/pages/charts.h"

#include "ir/support/quantities.h"
#include "ir/support/split.h"
#include "ir/support/text.h"
#include "tools/pages/markup.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace tscompile {
namespace {

constexpr int kWidth = 640, kHeight = 190, kLeft = 80, kRight = 12, kTop = 22, kBottom = 30;
constexpr double kInnerWidth = kWidth - kLeft - kRight, kInnerHeight = kHeight - kTop - kBottom;

std::string frame(std::string_view title, const std::string& inside) {
  return fmt::format(
      "<svg class=chart viewBox=\"0 0 {0} {1}\" role=img aria-label=\"{2}\"><title>{2}</title>"
      "<path class=axis d=\"M{3} {4}V{5}H{6}\"/>{7}</svg>",
      kWidth, kHeight, title, kLeft, kTop, kHeight - kBottom, kWidth - kRight, inside);
}

std::string label(double x, double y, std::string_view anchor, std::string_view text) {
  return fmt::format("<text x={:.1f} y={:.1f} text-anchor={}>{}</text>", x, y, anchor, text);
}

// A part of the timeline: neighbours that have the same name at this level.
struct Box {
  std::string name;
  double begin, end;
  uint32_t row;
  size_t segment;
};

class Timeline {
 public:
  explicit Timeline(const ModelReport& report) : report_(report) {
    double at = 0;
    for (uint32_t r = 0; r < report.graph.rows.size(); ++r) {
      const ReportRow& row = report.graph.rows[r];
      if (!row.node) continue;
      const double width = report.run ? row.us : 1;
      if (width > 0) add(r, row, at, at + width);
      at += width;
    }
    all_ = at;
  }

  std::string text() {
    if (all_ == 0) return "<p>No time was measured.</p>";
    std::string out;
    for (size_t level = 0; level < levels_.size(); ++level)
      for (const Box& b : levels_[level]) box(level, b, out);
    return fmt::format("<div class=time style=height:{}px>{}</div>", levels_.size() * kLine, out);
  }

 private:
  static constexpr size_t kLine = 24, kMostLevels = 9;
  static constexpr double kLeast = 0.0008;  // of the width

  void add(uint32_t r, const ReportRow& row, double begin, double end) {
    const ReportSegment& s = report_.graph.segments[row.segment];
    put(0, {fmt::format("{} @{}", s.isEngine ? "engine" : "interpreter", row.segment), begin, end, r, row.segment});
    size_t level = 1;
    std::string path;
    if (row.module.empty()) return;
    for (std::string_view part : split(row.module, '.')) {
      if (level == kMostLevels) break;
      path += (path.empty() ? "" : ".") + std::string(part);
      put(level++, {path, begin, end, r, row.segment});
    }
  }
  void put(size_t level, Box box) {
    if (levels_.size() <= level) levels_.resize(level + 1);
    std::vector<Box>& boxes = levels_[level];
    // Rows that take no time lie between some.
    if (!boxes.empty() && boxes.back().name == box.name && boxes.back().end >= box.begin - 1e-9)
      boxes.back().end = box.end;
    else
      boxes.push_back(std::move(box));
  }
  void box(size_t level, const Box& b, std::string& out) const {
    const double left = b.begin / all_, width = (b.end - b.begin) / all_;
    if (width < kLeast) return;
    const std::string amount =
        report_.run ? timeText(b.end - b.begin) : counted(static_cast<size_t>(b.end - b.begin), "node");
    const std::string_view last = std::string_view(b.name).substr(level == 0 ? 0 : b.name.rfind('.') + 1);
    out += fmt::format(
        "<a href=#n{} class={} style=\"left:{:.2f}%;width:{:.2f}%;top:{}px\" title=\"{}: {}, {:.1f} %\">{}</a>", b.row,
        report_.graph.segments[b.segment].isEngine ? "e" : "i", left * 100, width * 100, level * kLine, escaped(b.name),
        amount, width * 100, width < 0.012 ? "" : escaped(last, 60));
  }

  const ModelReport& report_;
  std::vector<std::vector<Box>> levels_;
  double all_ = 0;
};

}  // namespace

std::string timeline(const ModelReport& report) { return Timeline(report).text(); }

std::string latencyChart(const ReportRun& run) {
  if (run.samplesMs.size() < 2) return "";
  std::vector<double> ascending = run.samplesMs;
  std::sort(ascending.begin(), ascending.end());
  const double low = ascending.front(), high = ascending.back();
  // What is far out is told by the quantiles, and would press all others together.
  const double spread = quantile(ascending, 0.9) - low;
  const double end = std::max(std::min({high, quantile(ascending, 0.995) * 1.05, low + 4 * spread}), low * 1.0001);
  const size_t count = std::clamp<size_t>(static_cast<size_t>(std::sqrt(static_cast<double>(ascending.size()))), 8, 60);
  std::vector<size_t> bars(count);
  size_t beyond = 0;
  for (double v : ascending)
    v > end ? ++beyond
            : ++bars[std::min(count - 1, static_cast<size_t>((v - low) / (end - low) * static_cast<double>(count)))];
  const double most = static_cast<double>(*std::max_element(bars.begin(), bars.end()));
  auto x = [&](double v) { return kLeft + kInnerWidth * (v - low) / (end - low); };
  std::string inside;
  const double width = kInnerWidth / static_cast<double>(count);
  for (size_t i = 0; i < count; ++i) {
    const double height = kInnerHeight * static_cast<double>(bars[i]) / most;
    if (bars[i] > 0)
      inside += fmt::format("<path class=bar d=\"M{:.1f} {}v-{:.1f}h{:.1f}v{:.1f}z\"/>",
                            kLeft + width * static_cast<double>(i), kHeight - kBottom, height, width - 1, height);
  }
  constexpr double kNameWidth = 28;
  double named = -kNameWidth;  // the middle of the name before
  for (auto [name, q] : {std::pair{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}}) {
    const double v = quantile(ascending, q);
    if (ascending.size() < samplesFor(q) || v > end) continue;
    named = std::max(x(v), named + kNameWidth);
    inside += fmt::format("<path class=mark d=\"M{:.1f} {}V{}\"/>", x(v), kTop - 4, kHeight - kBottom) +
              label(named, kTop - 8, "middle", name);
  }
  inside += label(kLeft, kHeight - 10, "start", timeText(low * 1e3)) +
            label(kWidth - kRight, kHeight - 10, "end", timeText(end * 1e3)) +
            label(kLeft - 6, kTop + 8, "end", std::to_string(static_cast<size_t>(most))) +
            label(kLeft - 6, kHeight - kBottom, "end", "0");
  if (beyond > 0) inside += label(kWidth - kRight, kTop + 8, "end", fmt::format("{} beyond", counted(beyond, "run")));
  return frame("Histogram of the time of a run", inside);
}

std::string memoryChart(const ReportRun& run) {
  if (run.memory.size() < 2) return "";
  const double end = run.memory.back().first;
  double most = 1;
  for (auto [us, bytes] : run.memory) most = std::max(most, bytes);
  auto x = [&](double us) { return kLeft + kInnerWidth * us / std::max(end, 1e-9); };
  auto y = [&](double bytes) { return kHeight - kBottom - kInnerHeight * bytes / most; };
  std::string d = fmt::format("M{} {}", kLeft, kHeight - kBottom);
  double lastX = kLeft, least = kHeight;  // one point for each pixel: the highest
  for (auto [us, bytes] : run.memory) {
    least = std::min(least, y(bytes));
    if (x(us) - lastX < 0.8 && us < end) continue;
    d += fmt::format("H{:.1f}V{:.1f}", lastX = x(us), least);
    least = y(bytes);
  }
  d += fmt::format("V{}z", kHeight - kBottom);
  return frame("Memory of tensors over a run",
               fmt::format("<path class=area d=\"{}\"/>", d) +
                   label(kLeft - 6, kTop + 8, "end", sizeText(static_cast<uint64_t>(most))) +
                   label(kLeft - 6, kHeight - kBottom, "end", "0") + label(kLeft, kHeight - 10, "start", "0") +
                   label(kWidth - kRight, kHeight - 10, "end", timeText(end)));
}

std::string sweepChart(const std::vector<ReportSweep>& sweep) {
  if (sweep.empty()) return "";
  std::string inside;
  const double step = kInnerWidth / static_cast<double>(sweep.size());
  for (size_t i = 0; i < sweep.size(); ++i) {
    const ReportSweep& s = sweep[i];
    const double left = kLeft + step * static_cast<double>(i), height = kInnerHeight * s.coverage;
    inside += fmt::format("<path class=bar d=\"M{:.1f} {}v-{:.1f}h{:.1f}v{:.1f}z\"/>", left + step * 0.2,
                          kHeight - kBottom, height, step * 0.6, height) +
              label(left + step / 2, std::max(kHeight - kBottom - height - 5, kTop - 8.0), "middle",
                    std::to_string(s.segments)) +
              label(left + step / 2, kHeight - 10, "middle", fmt::format("≥ {}", s.minBlockSize));
  }
  inside += label(kLeft - 6, kTop + 8, "end", "100 %") + label(kLeft - 6, kHeight - kBottom, "end", "0 %");
  return frame("Nodes in engines, by the least number of nodes of an engine", inside);
}

}  // namespace tscompile
