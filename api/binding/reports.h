// What the command line tool tells of a module with --format json, for programs.
#pragma once

#include "api/compile.h"

#include <string>
#include <string_view>

namespace tscompile {

// How a method would be cut: "tscompile.partition/1".
Result<std::string> partitionJson(const Module& module, const CompileSpec& spec, Diagnostics& diagnostics);
// Where nodes run and why, by "%value" or "aten::operator": "tscompile.explain/1".
Result<std::string> explainJson(const Module& module, const CompileSpec& spec, std::string_view node,
                                Diagnostics& diagnostics);
// Where the time of runs goes: "tscompile.profile/1", times in microseconds of one run. Takes `runs` of them, or as
// many as fit in a second for 0, after three that are not counted.
Result<std::string> profileJson(const Method& method, std::span<const IValue> inputs, size_t runs,
                                const RunOptions& options, Diagnostics& diagnostics);

// Reads the size of an input as command lines have it, "x=1..8x3x224x224:f32"; without a name those of the tensors
// among the inputs in order. False if it is none.
bool addInputRange(std::string_view text, CompileSpec& spec);

}  // namespace tscompile
