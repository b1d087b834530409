// What the verbs that execute a graph share: loading it, compiling it, the settings of a run.
#pragma once

#include "api/module.h"
#include "tools/options.h"
#include "tools/process.h"
#include "tools/session.h"

#include <optional>
#include <string>

namespace tscompile {

struct Executable {
  Module module;
  Method method;
};

// The graph at `path` made ready to run as the command line asks. Nothing after a report.
std::optional<Executable> loadExecutable(const std::string& path, const RunCommand& command, Session& session);

// Settings of a run on behalf of the user; `session` and `interrupts` must outlive it.
RunOptions runOptions(const RunCommand& command, const InterruptScope& interrupts, Session& session);

}  // namespace tscompile
