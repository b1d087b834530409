// Grids of values between layers from example inputs, of engines in int8.
#pragma once

#include "api/compile.h"
#include "runtime/engine/network/calibration.h"

#include <functional>
#include <memory>

namespace tscompile {

// Compiles the module in f32, has `runAll` run the method on all examples (twice where the distribution counts), and
// adds what was found to the spec. False after a report, or if `runAll` says so.
bool calibrateBy(const std::function<bool(const Method&)>& runAll, const Module& module,
                 const std::shared_ptr<Calibration>& calibration, CompileSpec& spec, Diagnostics& diagnostics);

}  // namespace tscompile
