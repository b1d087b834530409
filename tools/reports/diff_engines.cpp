#include "tools/reports/diff_engines.h"

#include "api/compile_settings.h"
#include "api/engine_file.h"
#include "api/exported_sizes.h"
#include "api/input_range.h"
#include "ir/support/text.h"
#include "ir/values/literal.h"

#include <map>

namespace tscompile {
namespace {

using Texts = std::map<std::string, std::string>;

// "x=1..8x3" goes under its name.
void addNamed(const std::string& what, const std::string& text, Texts& into) {
  const size_t equal = text.find('=');
  into[what + " of %" + text.substr(0, equal)] = text.substr(equal + 1);
}

Texts textsOf(const Module& module) {
  const EngineInfo& info = *module.engineInfo();
  Texts out;
  for (const InputRange& range : info.inputs) addNamed("range", inputRangeText(range), out);
  for (const ExportedInput& input : info.exported) addNamed("exported sizes", exportedInputText(input), out);
  for (const auto& [name, value] : module.defaults())
    out["default of %" + name] = abbreviate(valueText(value, LiteralStyle::Plain), 200);
  out["precision"] = precisionName(info.precision);
  out["half inputs"] = info.takesHalf ? "taken for f32" : "taken as they are";
  out["sums of rows"] = info.roundsRows ? "rounded" : "in f32";
  return out;
}

}  // namespace

std::vector<EngineChange> changedEngines(const Module& first, const Module& second) {
  if (!first.engineInfo() || !second.engineInfo()) return {};
  std::map<std::string, EngineChange> all;
  for (const auto& [name, text] : textsOf(first)) all[name].first = text;
  for (const auto& [name, text] : textsOf(second)) all[name].second = text;
  std::vector<EngineChange> out;
  for (auto& [name, change] : all) {
    if (change.first == change.second) continue;
    change.name = name;
    out.push_back(std::move(change));
  }
  return out;
}

}  // namespace tscompile
