// What this machine does at its best in this program: what times of layers are held against.
#pragma once

#include "tools/pages/model_report.h"

namespace tscompile {

// Runs a product of two matrices, and a sum over tensors that no cache holds, for some tenths of a second. All 0 if
// they cannot be run.
ReportPeaks measurePeaks(int threads);

}  // namespace tscompile
