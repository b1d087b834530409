#include "api/exported_sizes.h"

#include "ir/support/text.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <map>

namespace tscompile {
namespace {

// The first dimension that had a symbol.
struct Known {
  int64_t size;
  const std::string* input;
  int dim;
};

std::string boundsText(const ExportedSize& s) {
  if (s.least == s.most) return std::to_string(s.least);
  if (s.most == std::numeric_limits<int64_t>::max()) return fmt::format("{} and above", s.least);
  return fmt::format("{}..{}", s.least, s.most);
}

class SizeChecker {
 public:
  explicit SizeChecker(Diagnostics& diagnostics) : diagnostics_(diagnostics) {}

  bool check(const ExportedInput& input, const Tensor& t) {
    if (static_cast<size_t>(t.rank()) != input.sizes.size())
      return fail(fmt::format("input %{} has {}, not {}", input.name,
                              counted(static_cast<size_t>(t.rank()), "dimension"), input.sizes.size()));
    bool good = true;
    for (int d = 0; d < t.rank(); ++d) good = check(input, d, t.size(d)) && good;
    return good;
  }

 private:
  bool fail(std::string message) {
    diagnostics_.error(std::move(message), ErrorKind::Model);
    return false;
  }
  bool check(const ExportedInput& input, int d, int64_t size) {
    const ExportedSize& s = input.sizes[static_cast<size_t>(d)];
    if (size < s.least || size > s.most)
      return fail(fmt::format("dimension {} of input %{} is {}, but the program was exported for {}", d, input.name,
                              size, boundsText(s)));
    if (s.symbol.empty()) return true;
    auto [at, isNew] = symbols_.try_emplace(s.symbol, Known{size, &input.name, d});
    if (isNew || at->second.size == size) return true;
    return fail(
        fmt::format("dimension {} of input %{} is {}, but dimension {} of input %{}, which must be the same, is {}", d,
                    input.name, size, at->second.dim, *at->second.input, at->second.size));
  }

  Diagnostics& diagnostics_;
  std::map<std::string, Known, std::less<>> symbols_;
};

// The tensor that the path leads to; null if there is none.
TensorImpl* tensorAt(const IValue& value, const std::vector<std::string>& path) {
  const IValue* at = &value;
  for (const std::string& step : path) {
    if (at->isDict()) {
      auto& dict = at->toDict();
      at = dict.keyType->is(TypeKind::Int) ? dict.find(IValue(int64_t{std::stoll(step)})) : dict.find(IValue(step));
      if (!at) return nullptr;
      continue;
    }
    if (!at->isList() && !at->isTuple()) return nullptr;
    const std::vector<IValue>& items = at->isList() ? at->toList().items : at->toTuple().items;
    size_t index = std::stoul(step);
    if (index >= items.size()) return nullptr;
    at = &items[index];
  }
  return at->isTensor() ? at->tensorImpl() : nullptr;
}

}  // namespace

bool checkExportedSizes(std::span<const ExportedInput> sizes, std::span<const ValueInfo> inputs,
                        std::span<const IValue> values, Diagnostics& diagnostics) {
  SizeChecker checker(diagnostics);
  bool good = true;
  for (const ExportedInput& size : sizes)
    for (size_t i = 0; i < std::min(inputs.size(), values.size()); ++i)
      if (inputs[i].name == size.name)
        if (TensorImpl* tensor = tensorAt(values[i], size.path))
          good = checker.check(size, Tensor::share(tensor)) && good;
  return good;
}

}  // namespace tscompile
