#include "tools/tasks/option_effects.h"

#include "api/compile_settings.h"

#include <algorithm>
#include <array>

namespace tscompile {
namespace {

template <class Names>
bool isOneOf(std::string_view name, const Names& names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool saysHowToCompile(std::string_view name) {
  // What to run, on what, and with how many threads.
  constexpr std::array<std::string_view, 4> kOfRuns = {"method", "shape", "opt-shape", "threads"};
  return name == "enable-precision" || name == "bind" || name == "rules" ||
         (findCompileSetting(name) && !isOneOf(name, kOfRuns));
}

}  // namespace

void checkOptionEffects(const Options& options, const Module& module, std::initializer_list<std::string_view> but) {
  const bool isCompiled = module.engineInfo() != nullptr;
  const bool isInterpreted = options.run.executor == ExecutorChoice::Interpreter;
  if (isCompiled && isInterpreted)
    throw UsageError{"--executor interpreter is for models: an engine file is compiled already",
                     {"'tscompile verify' compares its engines with the interpreter"}};
  if (!isCompiled && !isInterpreted) return;
  for (const SaidOption& said : options.said)
    if (const std::string_view name = std::string_view(said.name).substr(std::min<size_t>(2, said.name.size()));
        saysHowToCompile(name) && !isOneOf(name, but))
      throw UsageError{said.name + (isCompiled ? " is for models: an engine file is compiled already"
                                               : " says how engines are made, and --executor interpreter makes none")};
}

}  // namespace tscompile
