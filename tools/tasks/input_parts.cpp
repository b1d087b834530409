#include "tools/tasks/input_parts.h"

#include "ir/values/literal.h"

#include <fmt/core.h>

#include <algorithm>
#include <span>

namespace tscompile {
namespace {

constexpr int kDeepestPart = 8;

std::string keyText(const IValue& key) { return key.isString() ? key.toString() : valueText(key, LiteralStyle::Plain); }

std::span<const IValue> itemsOf(const IValue& v) {
  return v.isList()    ? std::span<const IValue>(v.toList().items)
         : v.isTuple() ? std::span<const IValue>(v.toTuple().items)
                       : std::span<const IValue>();
}

bool hasTensors(const IValue& v, int depth = 0) {
  if (v.isTensor()) return v.tensorImpl() != nullptr;
  if (depth > kDeepestPart) return false;
  bool any = std::ranges::any_of(itemsOf(v), [&](const IValue& item) { return hasTensors(item, depth + 1); });
  if (v.isDict()) v.toDict().forEach([&](const IValue&, const IValue& item) { any |= hasTensors(item, depth + 1); });
  return any;
}

using Visit = std::function<void(const std::string& name, const IValue& part)>;

void visitParts(const std::string& name, const IValue& v, const Visit& visit, int depth) {
  if ((v.isTensor() && v.tensorImpl()) || depth == kDeepestPart || !hasTensors(v)) return visit(name, v);
  if (v.isDict())
    v.toDict().forEach(
        [&](const IValue& key, const IValue& item) { visitParts(name + "." + keyText(key), item, visit, depth + 1); });
  const std::span<const IValue> items = itemsOf(v);
  for (size_t i = 0; i < items.size(); ++i) visitParts(fmt::format("{}.{}", name, i), items[i], visit, depth + 1);
}

}  // namespace

InputRange rangeOf(const std::string& name, const Tensor& t) {
  const Dims sizes(t.sizes().begin(), t.sizes().end());
  return {name, t.dtype(), sizes, sizes};
}

void forEachPart(const std::string& name, const IValue& value, const Visit& visit) {
  visitParts(name, value, visit, 0);
}

}  // namespace tscompile
