#include "tools/pages/graph_lanes.h"

#include <fmt/core.h>

#include <algorithm>

namespace tscompile {
namespace {

constexpr int kFirst = 8;  // from the left

class Drawer {
 public:
  Drawer(const ReportGraph& graph, const std::vector<uint32_t>& lines, size_t chunk)
      : graph_(graph),
        chunk_(chunk),
        lineOf_(graph.rows.size()),
        last_(graph.rows.size(), kNoRow),
        lane_(graph.rows.size(), -1) {
    for (size_t i = 0; i < lines.size(); ++i)
      if (lines[i] != kNoRow) lineOf_[lines[i]] = i;
    for (uint32_t r = 0; r < graph.rows.size(); ++r)
      for (uint32_t from : graph.rows[r].inputs)
        if (from < r) last_[from] = r;  // rows come in order
    out_.chunks.resize((lines.size() + chunk - 1) / chunk);
  }

  LaneDrawing draw() {
    for (uint32_t r = 0; r < graph_.rows.size(); ++r) {
      give(r);
      dot(r);
      for (uint32_t from : graph_.rows[r].inputs)
        if (from < r) connect(from, r);
    }
    for (uint32_t r = 0; r < graph_.rows.size(); ++r)
      if (last_[r] != kNoRow && isDrawn(r)) lane(r);
    out_.width = kFirst * 2 + LaneDrawing::kLaneWidth * std::min(most_, LaneDrawing::kMostLanes);
    return std::move(out_);
  }

 private:
  // The lane of a row: one that it sets free itself, else the first free one.
  void give(uint32_t r) {
    int own = -1;
    for (uint32_t from : graph_.rows[r].inputs)
      if (from < r && last_[from] == r && isDrawn(from)) {
        taken_[static_cast<size_t>(lane_[from])] = false;
        if (own < 0 || lane_[from] < own) own = lane_[from];
      }
    if (own < 0) own = static_cast<int>(std::find(taken_.begin(), taken_.end(), false) - taken_.begin());
    own = std::min(own, LaneDrawing::kMostLanes);
    lane_[r] = own;
    most_ = std::max(most_, own);
    if (last_[r] == kNoRow || !isDrawn(r)) return;
    if (static_cast<size_t>(own) >= taken_.size()) taken_.resize(static_cast<size_t>(own) + 1);
    taken_[static_cast<size_t>(own)] = true;
  }
  // What finds no lane has a dot at the edge, and no lines.
  bool isDrawn(uint32_t r) const { return lane_[r] < LaneDrawing::kMostLanes; }

  int x(uint32_t r) const { return kFirst + LaneDrawing::kLaneWidth * lane_[r]; }
  LaneChunk& chunkOf(size_t line) { return out_.chunks[line / chunk_]; }
  int top(size_t line) const { return static_cast<int>(line % chunk_) * LaneDrawing::kLineHeight; }
  int middle(size_t line) const { return top(line) + LaneDrawing::kLineHeight / 2; }

  void dot(uint32_t r) {
    const ReportRow& row = graph_.rows[r];
    LaneChunk& c = chunkOf(lineOf_[r]);
    (!row.node                               ? c.plainDots
     : graph_.segments[row.segment].isEngine ? c.engineDots
                                             : c.otherDots) += fmt::format("M{} {}h0", x(r), middle(lineOf_[r]));
  }
  void connect(uint32_t from, uint32_t to) {
    if (!isDrawn(from)) return;
    const size_t line = lineOf_[to];
    chunkOf(line).lines += fmt::format("M{} {}L{} {}", x(from), top(line), x(to), middle(line));
  }
  // From the middle of the row that makes it to the top of the last that takes it.
  void lane(uint32_t r) {
    const size_t begin = lineOf_[r], end = lineOf_[last_[r]];
    for (size_t first = begin; first <= end; first = (first / chunk_ + 1) * chunk_) {
      const size_t after = (first / chunk_ + 1) * chunk_;
      const int y0 = first == begin ? middle(begin) : 0;
      const int y1 = end < after ? top(end) : static_cast<int>(chunk_) * LaneDrawing::kLineHeight;
      if (y1 > y0) chunkOf(first).lines += fmt::format("M{} {}V{}", x(r), y0, y1);
    }
  }

  const ReportGraph& graph_;
  size_t chunk_;
  std::vector<size_t> lineOf_;
  std::vector<uint32_t> last_;  // the last row that takes what it makes
  std::vector<int> lane_;
  std::vector<bool> taken_;
  int most_ = 0;
  LaneDrawing out_;
};

}  // namespace

LaneDrawing drawLanes(const ReportGraph& graph, const std::vector<uint32_t>& lines, size_t chunk) {
  return Drawer(graph, lines, chunk).draw();
}

}  // namespace tscompile
