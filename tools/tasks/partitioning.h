// From the options of partition, explain and compile to what the library takes.
#pragma once

#include "api/compile.h"
#include "tools/options/options.h"
#include "tools/session/session.h"

namespace tscompile {

CompileSpec compileSpecOf(const PartitionCommand& command, const Limits& limits);
// The module of the first argument, verified, with the sizes checked; nothing after reporting what is wrong.
Result<Module> loadForPartition(const Options& options, Session& session);
// The inputs that are given as NAME=VALUE, and random numbers for tensors whose sizes only the spec tells.
std::vector<std::string> inputTexts(std::vector<std::string> given, const PartitionSpec& spec);
// Whether the sizes that were given are those of inputs that the graph has.
void checkShapes(const PartitionSpec& spec, const Graph& graph);

}  // namespace tscompile
