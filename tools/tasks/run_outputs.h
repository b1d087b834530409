// What a run returned: as files with outputs.json, as lines for people, as JSON.
#pragma once

#include "ir/values/ivalue.h"
#include "tools/session/session.h"

#include <span>
#include <string>

namespace tscompile {

// Values that share parts may be larger written down than in memory, and may even hold themselves: throws an
// ExecutionError (Limit) for those that cannot be written. Tells the elements of all tensors. The functions below
// expect that it was asked.
uint64_t checkOutputs(std::span<const IValue> values);

// Writes DIR/outputs.json and a file for each tensor; the list comes last, so that it never tells of files that are not
// there. False after a report.
bool writeOutputs(const std::string& folder, std::span<const IValue> values, Diagnostics& diagnostics);
// outputs.json as writeOutputs() would write it.
std::string outputListText(std::span<const IValue> values);
// One line for each value: type, shape, least, greatest and mean element.
void describeOutputs(std::span<const IValue> values, std::ostream& out);
// The same as JSON ("tscompile.run/1"); with `full`, tensors in the notation of --input. What engines have left to the
// interpreter is told with it, in sentences.
void describeOutputsJson(std::span<const IValue> values, bool full, std::span<const std::string> leftToInterpreter,
                         std::ostream& out);

}  // namespace tscompile
