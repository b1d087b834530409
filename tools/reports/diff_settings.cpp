#include "tools/reports/diff_settings.h"

#include "api/compile_settings.h"
#include "api/engine_file.h"
#include "api/exported_sizes.h"
#include "api/input_range.h"
#include "ir/support/text.h"
#include "ir/values/literal.h"
#include "runtime/engine/network/calibration.h"

#include <algorithm>
#include <map>

namespace tscompile {
namespace {

using Texts = SettingTexts;

// "x=1..8x3" goes under its name.
void addNamed(const std::string& what, const std::string& text, Texts& into) {
  const size_t equal = text.find('=');
  into[what + " of %" + text.substr(0, equal)] = text.substr(equal + 1);
}

// The rows of a cache below its first: "layer: tactic", and "range …: low..high" of what examples have shown.
void addTactics(std::string_view cache, Texts& into) {
  while (!cache.empty()) {
    const size_t end = std::min(cache.find('\n'), cache.size());
    const std::string row(cache.substr(0, end));
    cache.remove_prefix(std::min(end + 1, cache.size()));
    const size_t colon = row.rfind(": ");
    if (colon == std::string::npos) continue;
    const bool isRange = Calibration::isRange(row);
    into[(isRange ? "calibrated " : "tactic of ") + row.substr(0, colon)] = row.substr(colon + 2);
  }
}

constexpr std::string_view kRules = "rules=";

void addEngine(const EngineInfo& info, Texts& into) {
  for (const InputRange& range : info.inputs) addNamed("range", inputRangeText(range), into);
  addTactics(info.tactics, into);
  for (const std::string& option : info.options)
    if (startsWith(option, kRules)) into["rules " + option.substr(kRules.size())] = "given";
  into["precision"] = precisionName(info.precision);
  into["half inputs"] = info.takesHalf ? "taken for f32" : "taken as they are";
  into["sums of rows"] = info.roundsRows ? "rounded" : "in f32";
}

Texts textsOf(const ComparedModule& m) {
  Texts out;
  for (const auto& [path, text] : m.attributes) out["attribute " + path] = abbreviate(text, 200);
  if (const Graph* graph = m.module.graph(m.method)) {
    const ExportedInputs& exported = m.module.exportedInputs(*graph);
    for (const ExportedInput& input : exported.tensors) addNamed("exported sizes", exportedInputText(input), out);
    for (const InputCondition& condition : exported.conditions) out["exported for " + condition.words()] = "yes";
  }
  for (const auto& [name, value] : m.module.defaults(m.method))
    out["default of %" + name] = abbreviate(valueText(value, LiteralStyle::Plain), 200);
  return out;
}

}  // namespace

std::vector<SettingChange> changedTexts(const SettingTexts& first, const SettingTexts& second) {
  std::map<std::string, SettingChange> all;
  for (const auto& [name, text] : first) all[name].first = text;
  for (const auto& [name, text] : second) all[name].second = text;
  std::vector<SettingChange> out;
  for (auto& [name, change] : all) {
    if (change.first == change.second) continue;
    change.name = name;
    out.push_back(std::move(change));
  }
  return out;
}

std::vector<SettingChange> changedSettings(const ComparedModule& first, const ComparedModule& second) {
  Texts texts[] = {textsOf(first), textsOf(second)};
  if (const EngineInfo* a = first.module.engineInfo(), *b = second.module.engineInfo(); a && b)
    addEngine(*a, texts[0]), addEngine(*b, texts[1]);
  return changedTexts(texts[0], texts[1]);
}

}  // namespace tscompile
