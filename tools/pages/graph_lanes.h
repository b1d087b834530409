// Lines beside a list of rows that show what is computed from what: each row a dot, each value a lane from where it is
// made to where it is last taken. Linear in rows and uses; rows stay in their order.
#pragma once

#include "tools/pages/report_graph.h"

#include <cstdint>
#include <string>
#include <vector>

namespace tscompile {

// Some lines of the list that are drawn together. Commands of SVG paths, from the top of the first line.
struct LaneChunk {
  std::string lines, engineDots, otherDots, plainDots;  // plain: inputs and the result
};

struct LaneDrawing {
  static constexpr int kLineHeight = 22, kLaneWidth = 10, kMostLanes = 12;
  int width = 0;
  std::vector<LaneChunk> chunks;
};

// `lines`: the row that each line of the list shows, or kNoRow for headings. `chunk`: lines that are drawn together.
inline constexpr uint32_t kNoRow = UINT32_MAX;
LaneDrawing drawLanes(const ReportGraph& graph, const std::vector<uint32_t>& lines, size_t chunk);

}  // namespace tscompile
