#include "tools/options/variables.h"

#include "ir/support/text.h"

#include <cstdlib>
#include <set>
#include <unistd.h>

namespace tscompile {
namespace {

constexpr std::string_view kPrefix = "TSCOMPILE_";

// Of all long names.
std::vector<std::string> variablesOf(const OptionSpec& option) {
  std::vector<std::string> all;
  for (const std::string& name : namesOf(option)) {
    if (!name.starts_with("--") || name == "--help") continue;
    std::string& variable = all.emplace_back("TSCOMPILE");
    for (char c : name.substr(1))
      variable += c == '-' ? '_' : static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  }
  return all;
}

std::set<std::string> knownVariables() {
  std::set<std::string> out{"TSCOMPILE_LOAD_PLUGINS"};
  auto add = [&](std::span<const OptionSpec> specs) {
    for (const OptionSpec& option : specs)
      for (std::string& name : variablesOf(option)) out.insert(std::move(name));
  };
  add(commonOptionSpecs());
  for (const VerbSpec& verb : verbSpecs()) add(verb.options);
  return out;
}

// TSCOMPILE_LIMIT_MEM for TSCOMPILE_LIMIT_MEMORY and TSCOMPILE_LIMT_MEM.
std::string meantBy(const std::string& variable, const std::set<std::string>& known) {
  NearestName nearest(variable);
  std::string beginning;
  for (const std::string& name : known) {
    nearest.consider(name);
    if (variable.starts_with(name) && name.size() > beginning.size()) beginning = name;
  }
  return nearest.found() ? nearest.name() : beginning;
}

}  // namespace

std::string variableOf(const OptionSpec& option) {
  const std::vector<std::string> all = variablesOf(option);
  for (const std::string& name : all)
    if (std::getenv(name.c_str())) return name;
  return all.empty() ? "" : all.back();
}

std::vector<std::string> misspeltVariables() {
  std::vector<std::string> out;
  std::set<std::string> known;
  for (char** entry = environ; entry && *entry; ++entry) {
    const std::string_view said = *entry;
    if (!said.starts_with(kPrefix)) continue;
    if (known.empty()) known = knownVariables();
    const std::string variable(said.substr(0, said.find('=')));
    if (known.contains(variable)) continue;
    if (std::string meant = meantBy(variable, known); !meant.empty())
      out.push_back("the variable " + abbreviate(variable, 80) + " is none of an option; did you mean " + meant + "?");
  }
  return out;
}

}  // namespace tscompile
