// Charts as SVG and HTML, computed when they are written.
#pragma once

#include "tools/pages/model_report.h"

#include <string>

namespace tscompile {

// Boxes in the order of the rows, as wide as the time that they take (without times: as the nodes that they have): the
// segments, below them the modules, level by level. Each leads to its first row.
std::string timeline(const ModelReport& report);
// How often runs took how long, with quantiles.
std::string latencyChart(const ReportRun& run);
// Bytes of tensors over one run.
std::string memoryChart(const ReportRun& run);
// What other minimum sizes of engines would give.
std::string sweepChart(const std::vector<ReportSweep>& sweep);

}  // namespace tscompile
