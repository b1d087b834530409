#include "tools/reports/diff_tensors.h"

#include "api/verify.h"
#include "passes/rewrite/edits.h"

#include <fmt/core.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <utility>

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

using IsNumber = std::function<bool(const std::string&)>;

// Leaves out those without a name that are in both, whatever their numbers are.
void dropSame(std::map<std::string, Tensor>& first, std::map<std::string, Tensor>& second,
              const IsNumber (&mayBeOther)[2]) {
  std::multimap<std::string, std::string> byForm;  // names in the second
  for (const auto& [name, tensor] : second)
    if (mayBeOther[1](name)) byForm.emplace(formOf(tensor), name);
  std::erase_if(first, [&](const auto& a) {
    if (!mayBeOther[0](a.first)) return false;
    auto [begin, end] = byForm.equal_range(formOf(a.second));
    const auto same = std::find_if(
        begin, end, [&](const auto& b) { return sameBits(IValue(a.second), IValue(second.at(b.second))); });
    if (same == end) return false;
    second.erase(same->second);
    byForm.erase(same);
    return true;
  });
}

// "9" before "10".
bool comesBefore(const std::string& a, const std::string& b) {
  return std::pair(a.find('.') == std::string::npos ? a.size() : a.find('.'), a) <
         std::pair(b.find('.') == std::string::npos ? b.size() : b.find('.'), b);
}

// Gives those of the second that are left without a name the numbers of those of the first that have the same sizes.
void renumber(const std::map<std::string, Tensor>& first, std::map<std::string, Tensor>& second,
              const IsNumber (&mayBeOther)[2]) {
  std::vector<std::string> here, there;
  for (const auto& [name, tensor] : first)
    if (mayBeOther[0](name)) here.push_back(name);
  for (const auto& [name, tensor] : second)
    if (mayBeOther[1](name)) there.push_back(name);
  std::ranges::sort(here, comesBefore);
  std::ranges::sort(there, comesBefore);
  std::map<std::string, std::deque<std::string>> bySizes;  // of the second
  for (const std::string& name : there) bySizes[dimsText(second.at(name).sizes())].push_back(name);
  std::map<std::string, Tensor> renamed;
  for (const std::string& name : here) {
    std::deque<std::string>& same = bySizes[dimsText(first.at(name).sizes())];
    if (same.empty()) continue;
    renamed.insert_or_assign(name, std::move(second.extract(same.front()).mapped()));
    same.pop_front();
  }
  std::erase_if(there, [&](const std::string& name) { return !second.contains(name); });
  // Numbers of the second that stay may be those of others by now.
  for (const std::string& name : there) {
    auto node = second.extract(name);
    if (renamed.contains(name) || first.contains(name)) node.key() += " of the second";
    second.insert(std::move(node));
  }
  second.merge(renamed);
}

}  // namespace

std::vector<TensorChange> changedConstants(std::map<std::string, Tensor> first, std::map<std::string, Tensor> second,
                                           std::span<const std::set<std::string>> constants) {
  auto numberIn = [&](size_t side) -> IsNumber {
    return [=](const std::string& name) {
      return isNumbered(name) && (constants.empty() || constants[side].contains(name));
    };
  };
  const IsNumber mayBeOther[2] = {numberIn(0), numberIn(1)};
  dropSame(first, second, mayBeOther);
  renumber(first, second, mayBeOther);
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
