#include "tools/reports/diff_tensors.h"

#include "api/verify.h"
#include "passes/rewrite/edits.h"

#include <fmt/core.h>

#include <algorithm>

namespace tscompile {
namespace {

std::string formOf(const Tensor& t) { return fmt::format("{} {}", shortName(t.dtype()), dimsText(t.sizes())); }

std::string changeOf(const Tensor& a, const Tensor& b) {
  if (formOf(a) != formOf(b)) return formOf(a) + ", then " + formOf(b);
  if (sameBits(IValue(a), IValue(b))) return "";
  Difference d = difference(IValue(b), IValue(a), {0, 0});
  return d.within ? "the bits differ" : fmt::format("the elements differ by {:.3g} at most", d.largest);
}

// Constants that a text has no name for are numbered as they come: "229", and "229.0" of the items of a list.
bool isNumbered(const std::string& name) { return name.find_first_not_of("0123456789.") == std::string::npos; }

// Leaves out those without a name that are in both, whatever their numbers are.
void dropSame(std::map<std::string, Tensor>& first, std::map<std::string, Tensor>& second) {
  std::multimap<std::string, std::string> byForm;  // names in the second
  for (const auto& [name, tensor] : second)
    if (isNumbered(name)) byForm.emplace(formOf(tensor), name);
  std::erase_if(first, [&](const auto& a) {
    if (!isNumbered(a.first)) return false;
    auto [begin, end] = byForm.equal_range(formOf(a.second));
    const auto same = std::find_if(
        begin, end, [&](const auto& b) { return sameBits(IValue(a.second), IValue(second.at(b.second))); });
    if (same == end) return false;
    second.erase(same->second);
    byForm.erase(same);
    return true;
  });
}

}  // namespace

std::vector<TensorChange> changedConstants(std::map<std::string, Tensor> first, std::map<std::string, Tensor> second) {
  dropSame(first, second);
  return changedTensors(first, second);
}

std::vector<TensorChange> changedTensors(const std::map<std::string, Tensor>& first,
                                         const std::map<std::string, Tensor>& second) {
  std::map<std::string, std::pair<const Tensor*, const Tensor*>> all;
  for (const auto& [name, tensor] : first) all[name].first = &tensor;
  for (const auto& [name, tensor] : second) all[name].second = &tensor;
  std::vector<TensorChange> out;
  for (const auto& [name, pair] : all) {
    const auto& [a, b] = pair;
    std::string text = !b   ? formOf(*a) + ", only in the first"
                       : !a ? formOf(*b) + ", only in the second"
                            : changeOf(*a, *b);
    if (!text.empty()) out.push_back({name, text});
  }
  return out;
}

}  // namespace tscompile
