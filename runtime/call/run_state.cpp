#include "runtime/call/run_state.h"

#include "ir/values/encoded.h"
#include "ir/values/quantization.h"

#include <algorithm>
#include <unordered_set>
#include <vector>

namespace tscompile {
namespace {

Ref<Storage> copyOfMemory(const Storage& shared) {
  Ref<Storage> copy = Storage::allocate(shared.bytes());
  const std::byte* from = shared.encoding() ? shared.encoding()->all().raw() : shared.data();
  std::copy_n(from, shared.bytes(), copy->data());
  if (shared.quantization()) copy->setQuantization(*shared.quantization());
  return copy;
}

// The same view of other memory.
Tensor onto(const Tensor& t, const Ref<Storage>& memory) {
  return Tensor::view(t.dtype(), memory, t.sizes(), t.strides(), t.offset());
}

IValue bytesOf(Ref<Storage> memory) {
  const Dims bytes{static_cast<int64_t>(memory->bytes())};
  return IValue(Tensor::view(DType::UInt8, std::move(memory), bytes, Dims{1}, 0));
}

bool isContainer(const IValue& v) { return v.isList() || v.isTuple() || v.isDict(); }

// Calls f(item) of each value inside, which it may replace.
template <class F>
void forEachItem(const IValue& v, F&& f) {
  if (v.isDict())
    v.toDict().forEachValue(f);
  else if (v.isObject())
    for (auto& [name, value] : v.toObject().attributes) f(value);
  else if (isContainer(v))
    for (IValue& item : v.isList() ? v.toList().items : v.toTuple().items) f(item);
}

// The same content; what it holds is still that of the original.
IValue shallowCopy(const IValue& v) {
  if (v.isList()) return IValue(Ref<ListValue>::make(v.toList().elementType, v.toList().items));
  if (v.isTuple()) return IValue(Ref<TupleValue>::make(v.toTuple().items, v.toTuple().type));
  auto copy = Ref<DictValue>::make(v.toDict().keyType, v.toDict().valueType);
  v.toDict().forEach([&](const IValue& key, const IValue& value) { copy->set(key, value); });
  return IValue(std::move(copy));
}

// Something that belongs to a run, and has values inside.
bool isOwnWhole(const IValue& v) { return v.isObject() ? !v.toObject().shared : isContainer(v); }

// The objects and memory that values reach, each once: nesting costs no stack, and a list may hold itself.
class Reached {
 public:
  void add(const IValue& v) {
    if (!insert(v)) return;
    std::vector<IValue> todo{v};
    while (!todo.empty()) {
      const IValue from = std::move(todo.back());
      todo.pop_back();
      forEachItem(from, [&](const IValue& item) {
        if (insert(item)) todo.push_back(item);
      });
    }
  }
  bool has(const IValue& v) const {
    if (v.isTensor()) return v.tensorImpl() && objects_.contains(v.toTensor().storage().get());
    return isContainer(v) && objects_.contains(v.object());
  }

 private:
  // Whether there is more inside that was not seen.
  bool insert(const IValue& v) {
    if (v.isTensor()) {
      if (v.tensorImpl()) objects_.insert(v.toTensor().storage().get());
      return false;
    }
    return isOwnWhole(v) && objects_.insert(v.object()).second;
  }
  std::unordered_set<const RefCounted*> objects_;
};

// Puts copies in the place of what is the caller's.
class InputCopier {
 public:
  explicit InputCopier(const Reached& given) : given_(given) {}

  void visit(IValue& slot) {
    std::vector<IValue*> todo{&slot};
    while (!todo.empty()) {
      IValue& v = *todo.back();
      todo.pop_back();
      if (given_.has(v)) v = copyOf(v);
      if (isOwnWhole(v) && seen_.insert(v.object()).second)
        forEachItem(v, [&](IValue& item) { todo.push_back(&item); });
    }
  }

 private:
  IValue copyOf(const IValue& v) {
    if (v.isTensor()) {
      const Storage& memory = *v.toTensor().storage();
      Ref<Storage>& copy = memories_[&memory];
      if (!copy) copy = copyOfMemory(memory);
      return IValue(onto(v.toTensor(), copy));
    }
    IValue& copy = containers_[v.object()];
    if (copy.isNone()) copy = shallowCopy(v);
    return copy;
  }
  const Reached& given_;
  std::unordered_map<const Storage*, Ref<Storage>> memories_;
  std::unordered_map<const RefCounted*, IValue> containers_;
  std::unordered_set<const RefCounted*> seen_;
};

}  // namespace

void RunState::clear() {
  attributes_.clear();
  copies_.clear();
}

namespace {
const ObjectValue* keyOf(const ObjectValue& object) { return object.sameAs ? object.sameAs.get() : &object; }
}  // namespace

const IValue* RunState::find(const ObjectValue& object, Symbol attribute) const {
  if (attributes_.empty()) return nullptr;
  auto set = attributes_.find(keyOf(object));
  if (set == attributes_.end()) return nullptr;
  auto value = set->second.values.find(attribute);
  return value == set->second.values.end() ? nullptr : &value->second;
}

void RunState::set(ObjectValue& object, Symbol attribute, IValue value) {
  Attributes& all = attributes_[keyOf(object)];
  if (!all.object) all.object = Ref<ObjectValue>::share(&object);
  all.values[attribute] = std::move(value);
}

bool RunState::isShared(const IValue& v) {
  if (v.isTensor()) return v.tensorImpl() && v.toTensor().storage()->readOnly();
  if (v.isTuple()) return std::any_of(v.toTuple().items.begin(), v.toTuple().items.end(), isShared);
  return (v.isList() && v.toList().shared) || (v.isDict() && v.toDict().shared);
}

// All views of the memory that the module holds see what is written.
IValue RunState::viewOfCopy(const IValue& v) {
  const Tensor& t = v.toTensor();
  Copy& known = copies_[t.storage().get()];
  if (known.copy.isNone()) known = {v, bytesOf(copyOfMemory(*t.storage()))};
  return IValue(onto(t, known.copy.toTensor().storage()));
}

IValue RunState::ownCopy(const IValue& shared) {
  IValue top = shared;
  std::vector<IValue*> todo{&top};
  while (!todo.empty()) {
    IValue& v = *todo.back();
    todo.pop_back();
    if (!isContainer(v) && !isShared(v)) continue;
    IValue copy = copies_[v.object()].copy;
    if (copy.isNone()) {
      copy = v.isTensor() ? viewOfCopy(v) : shallowCopy(v);
      forEachItem(copy, [&](IValue& item) { todo.push_back(&item); });
      copies_[v.object()] = {v, copy};
    }
    v = copy;
  }
  return top;
}

bool RunState::isCopied(const IValue& v) const {
  return !copies_.empty() && v.isTensor() && v.tensorImpl() && copies_.contains(v.toTensor().storage().get());
}

void RunState::copyInputs(std::span<const IValue> inputs) try {
  if (isEmpty()) return;
  Reached given;
  for (const IValue& v : inputs) given.add(v);
  std::erase_if(copies_, [&](const auto& entry) { return given.has(entry.second.original); });
  InputCopier copier(given);
  for (auto& [key, all] : attributes_)
    for (auto& [name, value] : all.values) copier.visit(value);
  for (auto& [key, entry] : copies_) copier.visit(entry.copy);
} catch (...) {
  clear();  // rather than hold what may be gone
  throw;
}

}  // namespace tscompile
