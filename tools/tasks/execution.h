// What the verbs that execute a graph share: loading it, compiling it, the settings of a run.
#pragma once

#include "api/module.h"
#include "tools/options/options.h"
#include "tools/session/process.h"
#include "tools/session/session.h"

#include <map>
#include <optional>
#include <string>

namespace tscompile {

struct Executable {
  Module module;
  Method method;
  std::map<std::string, IValue> defaults = {};  // of inputs, as the module was given
};

// The method of the text, or the engine file, that the command line names, as it is. Nothing after a report.
std::optional<Executable> loadAsGiven(const Options& options, Session& session);
// The same with engines where the command line asks for them: `given` itself if it has them, and if it cannot be
// compiled and need not be. Nothing after a report.
std::optional<Executable> withEngines(Executable given, const Options& options, Session& session);
// Both.
std::optional<Executable> loadExecutable(const Options& options, Session& session);

// Settings of a run on behalf of the user; `session` and `interrupts` must outlive it.
RunOptions runOptions(const RunCommand& command, const InterruptScope& interrupts, Session& session);

}  // namespace tscompile
