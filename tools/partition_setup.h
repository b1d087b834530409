// What the commands that partition share: their options as the library takes them.
#pragma once

#include "api/compile.h"
#include "tools/commands.h"

#include <optional>

namespace tscompile {

PartitionOptions partitionOptionsOf(const PartitionCommand& command);
// Throws UsageError for shapes that cannot be read.
PartitionSpec partitionSpecOf(const PartitionCommand& command, Session& session);
CompileSpec compileSpecOf(const PartitionCommand& command, Session& session);

// The module of the first argument, with the operators of the libraries; nothing after reporting what is wrong.
std::optional<Module> loadForPartition(const Options& options, Session& session);
// Whether the method's graph, if there is one, is well-formed. Throws UsageError for shapes that do not fit its inputs.
bool checkEntry(const PartitionSpec& spec, const Module& module, Session& session);

}  // namespace tscompile
