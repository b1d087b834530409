#include "frontend/files/attribute_tensors.h"

#include "frontend/text/parse.h"
#include "ir/values/literal.h"

#include <functional>

namespace tscompile {
namespace {

using Replace = std::function<IValue(const IValue& item, const std::string& path)>;

// What is nested deeper, or held so often that it would be this many items, is no attribute of a model.
constexpr int kMostDepth = 32;
constexpr size_t kMostItems = 1 << 20;

// A copy as a tree whose leaves are replaced.
class Copy {
 public:
  explicit Copy(const Replace& replace) : replace_(replace) {}

  IValue of(const IValue& v, const std::string& path, int depth = 0) {
    if (depth > kMostDepth || ++items_ > kMostItems) return v;
    size_t count = 0;
    auto next = [&](const IValue& item) { return of(item, path + "." + std::to_string(count++), depth + 1); };
    if (v.isList()) {
      std::vector<IValue> items;
      for (const IValue& item : v.toList().items) items.push_back(next(item));
      return IValue(Ref<ListValue>::make(v.toList().elementType, std::move(items)));
    }
    if (v.isTuple()) {
      std::vector<IValue> items;
      for (const IValue& item : v.toTuple().items) items.push_back(next(item));
      return IValue(Ref<TupleValue>::make(std::move(items), v.toTuple().type));
    }
    if (v.isDict()) {
      auto copy = Ref<DictValue>::make(v.toDict().keyType, v.toDict().valueType);
      v.toDict().forEach([&](const IValue& key, const IValue& item) { copy->set(key, next(item)); });
      return IValue(std::move(copy));
    }
    return replace_(v, path);
  }

 private:
  const Replace& replace_;
  size_t items_ = 0;
};

std::string keyOfMember(const EnumValue& e) { return memberKey(e.type, e.member); }

template <class Visit>
void forEachEnum(const IValue& value, Visit&& visit) {
  forEachPart(value, [&](const IValue& part) {
    if (part.isEnum()) visit(part.toEnum());
  });
}

}  // namespace

IValue withoutTensors(const IValue& value, const std::string& path, std::vector<std::pair<std::string, Tensor>>& data,
                      const IValue& instead) {
  return Copy([&](const IValue& item, const std::string& at) {
           if (!item.isTensor()) return item;
           if (!item.tensorImpl()) return IValue();
           data.emplace_back(at, item.toTensor());
           return instead;
         })
      .of(value, path);
}

IValue withTensors(const IValue& value, const std::string& path, Weights& weights) {
  IValue filled = Copy([&](const IValue& item, const std::string& at) {
                    const Tensor* t = item.isNone() ? weights.find(at) : nullptr;
                    return t ? IValue(*t) : item;
                  }).of(value, path);
  return copyContainers(filled, true);
}

std::optional<IValue> withMissingTensors(const IValue& value, const std::string& path, Weights& weights) {
  auto isMissing = [](const IValue& item) { return item.isLiteral() && !item.toLiteral().data.defined(); };
  bool isAny = false, isWhole = true;
  forEachPart(value, [&](const IValue& part) { isAny |= isMissing(part); });
  if (!isAny) return std::nullopt;
  IValue filled = Copy([&](const IValue& item, const std::string& at) {
                    if (!isMissing(item)) return item;
                    const Tensor* t = weights.find(at);
                    isWhole &= t != nullptr;
                    return t ? IValue(*t) : item;
                  }).of(value, path);
  return isWhole ? std::optional(copyContainers(filled, true)) : std::nullopt;
}

std::string memberKey(TypePtr type, std::string_view member) {
  return "attribute:" + type->name() + "." + std::string(member);
}

void writeEnumMembers(const IValue& value, Metadata& metadata) {
  forEachEnum(value, [&](const EnumValue& e) {
    if (!e.value.isNone()) metadata[keyOfMember(e)] = valueText(e.value, LiteralStyle::Plain);
  });
}

void readEnumMembers(const IValue& value, const Metadata& metadata) {
  forEachEnum(value, [&](EnumValue& e) {
    auto known = metadata.find(keyOfMember(e));
    if (known == metadata.end()) return;
    Diagnostics ignored;
    if (Result<IValue> read = parseValue(known->second, ignored)) e.value = std::move(*read);
  });
}

void readEnumMembers(const Graph& graph, const Metadata& metadata) {
  if (metadata.empty()) return;
  std::vector<const Graph*> todo{&graph};
  while (!todo.empty()) {
    const Graph* g = todo.back();
    todo.pop_back();
    forEachNode(*g, [&](const Node* n) {
      if (n->subgraph()) todo.push_back(n->subgraph());
      if (n->kind() != sym::Constant) return;
      if (const IValue* v = n->attributeValue(sym::value)) readEnumMembers(*v, metadata);
    });
  }
}

}  // namespace tscompile
