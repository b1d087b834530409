#include "tools/reports/diff_tensors.h"

#include "api/verify.h"
#include "passes/rewrite/edits.h"

#include <fmt/core.h>

namespace tscompile {
namespace {

std::string formOf(const Tensor& t) { return fmt::format("{} {}", shortName(t.dtype()), dimsText(t.sizes())); }

std::string changeOf(const Tensor& a, const Tensor& b) {
  if (formOf(a) != formOf(b)) return formOf(a) + ", then " + formOf(b);
  if (sameBits(IValue(a), IValue(b))) return "";
  Difference d = difference(IValue(b), IValue(a), {0, 0});
  return d.within ? "the bits differ" : fmt::format("the elements differ by {:.3g} at most", d.largest);
}

}  // namespace

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
