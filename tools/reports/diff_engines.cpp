#include "tools/reports/diff_engines.h"

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

using Texts = std::map<std::string, std::string>;

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

Texts textsOf(const Module& module) {
  const EngineInfo& info = *module.engineInfo();
  Texts out;
  for (const InputRange& range : info.inputs) addNamed("range", inputRangeText(range), out);
  for (const ExportedInput& input : info.exported) addNamed("exported sizes", exportedInputText(input), out);
  for (const auto& [name, value] : module.defaults())
    out["default of %" + name] = abbreviate(valueText(value, LiteralStyle::Plain), 200);
  addTactics(info.tactics, out);
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
