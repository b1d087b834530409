#include "api/support/deep_copy.h"

#include "runtime/reference/loops/copy.h"

#include <unordered_map>

namespace tscompile {
namespace {

// Containers are made empty first and filled from a list of work, so neither nesting nor a list that holds itself costs
// stack.
class Copier {
 public:
  IValue copy(const IValue& v) {
    const void* key = keyOf(v);
    if (!key) return v;
    auto [made, isNew] = copies_.try_emplace(key);
    if (!isNew) return made->second;
    IValue copy = emptyLike(v);
    made->second = copy;
    if (!v.isTensor()) todo_.push_back({v, copy});
    return copy;
  }

  void finish() {
    while (!todo_.empty()) {
      auto [from, to] = std::move(todo_.back());
      todo_.pop_back();
      if (from.isList())
        for (const IValue& item : from.toList().items) to.toList().items.push_back(copy(item));
      else if (from.isTuple())
        for (const IValue& item : from.toTuple().items) to.toTuple().items.push_back(copy(item));
      else
        from.toDict().forEach([&, &to = to](const IValue& k, const IValue& item) { to.toDict().set(k, copy(item)); });
    }
  }

 private:
  // What makes the value one object; null for what is not copied.
  static const void* keyOf(const IValue& v) {
    if (v.isTensor()) return v.tensorImpl();
    if (v.isList()) return &v.toList();
    if (v.isTuple()) return &v.toTuple();
    return v.isDict() ? static_cast<const void*>(&v.toDict()) : nullptr;
  }

  static IValue emptyLike(const IValue& v) {
    if (v.isTensor()) return cloneTensor(v.toTensor());
    if (v.isList()) return Ref<ListValue>::make(v.toList().elementType, std::vector<IValue>());
    if (v.isTuple()) return Ref<TupleValue>::make(std::vector<IValue>(), v.toTuple().type);
    return Ref<DictValue>::make(v.toDict().keyType, v.toDict().valueType);
  }

  std::unordered_map<const void*, IValue> copies_;
  std::vector<std::pair<IValue, IValue>> todo_;
};

}  // namespace

std::vector<IValue> deepCopy(std::span<const IValue> values) {
  Copier copier;
  std::vector<IValue> out;
  for (const IValue& v : values) out.push_back(copier.copy(v));
  copier.finish();
  return out;
}

}  // namespace tscompile
