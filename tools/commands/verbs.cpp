// The verbs by their names.
#include "ir/support/split.h"
#include "tools/commands/commands.h"

#include <algorithm>

namespace tscompile {

#define TS_COMMAND(name) VerbSpec name##Command();
#include "tools/commands/commands.def"
#undef TS_COMMAND

std::span<const VerbSpec> verbSpecs() {
  static const std::vector<VerbSpec> verbs = {
#define TS_COMMAND(name) name##Command(),
#include "tools/commands/commands.def"
#undef TS_COMMAND
  };
  return verbs;
}

const VerbSpec* findVerb(std::string_view name) {
  std::span<const VerbSpec> verbs = verbSpecs();
  auto it = std::find_if(verbs.begin(), verbs.end(), [&](const VerbSpec& v) { return v.name == name; });
  return it == verbs.end() ? nullptr : &*it;
}

OptionSpec writing(Written what, OptionSpec option) {
  option.written = what;
  return option;
}

std::vector<std::string> namesOf(const OptionSpec& option) {
  std::vector<std::string_view> names = split(option.names, ',');
  return {names.begin(), names.end()};
}

std::vector<std::string_view> choicesOf(const OptionSpec& option) {
  if (option.value.find('|') == std::string_view::npos) return {};
  return split(option.value, '|');
}

}  // namespace tscompile
