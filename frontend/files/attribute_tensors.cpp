#include "frontend/files/attribute_tensors.h"

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

}  // namespace

IValue withoutTensors(const IValue& value, const std::string& path, std::vector<std::pair<std::string, Tensor>>& data) {
  return Copy([&](const IValue& item, const std::string& at) {
           if (!item.isTensor()) return item;
           if (item.tensorImpl()) data.emplace_back(at, item.toTensor());
           return IValue();
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

}  // namespace tscompile
