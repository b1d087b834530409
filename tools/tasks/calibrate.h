// --calibrate: example inputs, on which it is found how large the values between layers are.
#pragma once

#include "api/compile.h"
#include "runtime/engine/network/calibration.h"
#include "tools/options/options.h"
#include "tools/session/session.h"

#include <memory>

namespace tscompile {

// What the command line asks for, which is taken out of the spec; null: nothing.
std::shared_ptr<Calibration> calibrationOf(CompileSpec& spec);
// Compiles the module in f32, runs it on all examples, and adds what was found to the spec. False after a report.
bool calibrate(const Module& module, const std::shared_ptr<Calibration>& calibration, CompileSpec& spec,
               Session& session);

OptionSpec calibrateOption();
OptionSpec calibrationOption();

}  // namespace tscompile
