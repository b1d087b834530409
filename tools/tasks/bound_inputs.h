// --bind: inputs that become constants when a graph is lowered.
#pragma once

#include "api/compile.h"
#include "tools/options/options.h"
#include "tools/session/session.h"

#include <span>
#include <string>

namespace tscompile {

// Reads them for lowering; false after a report. `entry` null: that there is no such graph is told where it is lowered.
// Throws UsageError for names of no input and values that do not fit.
bool bindInputs(RewriteArguments& arguments, std::span<const std::string> texts, const Graph* entry, Session& session);
// The same of what is compiled, whose graph must be lowered then.
bool bindInputs(CompileSpec& spec, const Options& options, const Graph* entry, Session& session);

}  // namespace tscompile
