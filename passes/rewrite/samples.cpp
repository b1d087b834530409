#include "passes/rewrite/samples.h"

#include "ir/graph/clone.h"
#include "ir/values/shape.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>

namespace tscompile {
namespace {

// Numbers that look random and are the same everywhere.
class Numbers {
 public:
  explicit Numbers(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15 + 1) {}
  uint64_t next() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return state_;
  }
  double between(double low, double high) { return low + (high - low) * (static_cast<double>(next() >> 11) * 0x1p-53); }

 private:
  uint64_t state_;
};

// Of the sample of what has a name.
uint64_t seedOf(std::string_view name, int sample) {
  uint64_t hash = 0xcbf29ce484222325 + static_cast<uint64_t>(sample);
  for (char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

void setElement(Tensor& t, int64_t i, double v) {
  visitDType(t.dtype(), [&]<class T>(T) {
    if constexpr (std::is_arithmetic_v<T>)
      t.data<T>()[i] = static_cast<T>(v);
    else
      t.data<T>()[i] = T(static_cast<float>(v));
  });
}

// Makes values by their types, one after the other.
class Sampler {
 public:
  Sampler(uint64_t seed, int sample, const SampleForm& form, const std::vector<IValue>& words)
      : numbers_(seed), sample_(sample), form_(form), words_(words) {}

  std::optional<IValue> value(TypePtr type) {
    switch (type->kind()) {
      case TypeKind::Tensor:
        return tensor(type->tensor());
      case TypeKind::Int:
        return IValue(static_cast<int64_t>(numbers_.next() % (areIndices() ? 2 : 4)));
      case TypeKind::Float:
      case TypeKind::Number:
        return IValue(number(true));
      case TypeKind::Bool:
        return IValue(numbers_.next() % 2 == 0);
      case TypeKind::String:
        return words_.empty() ? IValue("a") : words_[0];
      case TypeKind::Device:
        return IValue(Device());
      case TypeKind::Optional:
        return numbers_.next() % 3 == 0 ? IValue() : value(type->element());
      case TypeKind::List:
        return list(type->element());
      case TypeKind::Tuple: {
        std::optional<std::vector<IValue>> items = all(type->elements());
        return items ? std::optional<IValue>(tuple(std::move(*items))) : std::nullopt;
      }
      case TypeKind::Dict:
        return dict(type->element(0), type->element(1));
      default:
        return std::nullopt;
    }
  }

 private:
  bool areIndices() const { return form_.integers != SampleForm::Integers::Any; }

  double number(bool floating) {
    if (!floating && areIndices()) return static_cast<double>(numbers_.next() % 2);
    if (!floating || sample_ == 1) return std::floor(numbers_.between(-3, 4));
    if (sample_ == 2 && numbers_.next() % 5 == 0) {
      constexpr double kInfinity = std::numeric_limits<double>::infinity();
      const double kSpecial[] = {kInfinity, -kInfinity, std::nan(""), 0.0, -0.0, 1e30, -1e30};
      return kSpecial[numbers_.next() % std::size(kSpecial)];
    }
    if (sample_ == 3) return std::floor(numbers_.between(-6, 7)) / 2;
    return numbers_.between(-2, 2);
  }

  Dims sizesOf(const TensorFacts& facts) const {
    if (!facts.hasRank) return form_.sizes.value_or(Dims{2, 3});
    Dims sizes = facts.sizes;
    const bool hasForm = form_.sizes && form_.sizes->size() == sizes.size();
    int64_t unknown = 2;
    for (size_t i = 0; i < sizes.size(); ++i)
      if (sizes[i] < 0) sizes[i] = hasForm ? (*form_.sizes)[i] : unknown++;
    return sizes;
  }

  std::optional<IValue> tensor(const TensorFacts& facts) {
    Dims sizes = sizesOf(facts);
    DType dtype = facts.dtype == DType::Undefined ? form_.dtype : facts.dtype;
    constexpr int64_t kMost = 1 << 20;
    std::optional<int64_t> count = knownNumel(sizes);
    if (!count || *count > kMost) return std::nullopt;
    Tensor t = Tensor::empty(dtype, sizes);
    bool floating = kFloatingTypes.contains(dtype) || kComplexTypes.contains(dtype);
    for (int64_t i = 0; i < t.numel(); ++i) {
      double v = number(floating);
      if (dtype == DType::Bool || dtype == DType::UInt8) v = std::abs(v);
      setElement(t, i, v);
    }
    lastSizes_ = sizes;
    return IValue(std::move(t));
  }

  std::optional<std::vector<IValue>> all(std::span<const TypePtr> wanted) {
    std::vector<IValue> items;
    for (TypePtr type : wanted) {
      std::optional<IValue> item = value(type);
      if (!item) return std::nullopt;
      items.push_back(std::move(*item));
    }
    return items;
  }

  std::optional<IValue> list(TypePtr element) {
    if (element->is(TypeKind::Int) && form_.integers == SampleForm::Integers::Sizes) return intList(lastSizes_);
    std::optional<std::vector<IValue>> items = all(std::vector<TypePtr>{element, element});
    return items ? std::optional<IValue>(Ref<ListValue>::make(element, std::move(*items))) : std::nullopt;
  }

  std::optional<IValue> dict(TypePtr key, TypePtr element) {
    std::vector<IValue> keys = key->is(TypeKind::String) ? words_ : std::vector<IValue>{IValue(0), IValue(1)};
    if (!key->is(TypeKind::String) && !key->is(TypeKind::Int)) return std::nullopt;
    auto made = Ref<DictValue>::make(key, element);
    for (const IValue& k : keys) {
      std::optional<IValue> item = value(element);
      if (!item) return std::nullopt;
      made->set(k, std::move(*item));
    }
    return IValue(made);
  }

  Numbers numbers_;
  const int sample_;
  const SampleForm& form_;
  const std::vector<IValue>& words_;
  Dims lastSizes_{2, 3};
};

std::optional<std::vector<IValue>> inputsOf(const Graph& graph, int sample, const SampleForm& form,
                                            const std::vector<IValue>& words,
                                            const std::function<std::optional<IValue>(const Value*)>& object) {
  Sampler sampler(static_cast<uint64_t>(sample) + 1, sample, form, words);
  std::vector<IValue> inputs;
  for (const Value* v : graph.inputs()) {
    std::optional<IValue> value = v->type()->is(TypeKind::Class) ? object(v) : sampler.value(v->type());
    if (!value) return std::nullopt;
    inputs.push_back(std::move(*value));
  }
  return inputs;
}

// Whether some of the data of a constant is not there.
bool lacksData(const IValue& v) {
  if (v.isLiteral()) return !v.toLiteral().data.defined();
  return v.isList() && std::ranges::any_of(v.toList().items, lacksData);
}

bool isUnfilled(const Node* n) {
  const IValue* v = n->kind() == sym::Constant ? n->attributeValue(sym::value) : nullptr;
  return v && lacksData(*v);
}

bool holds(TypePtr type, const std::function<bool(TypePtr)>& wanted) {
  return wanted(type) || std::ranges::any_of(type->elements(), [&](TypePtr element) { return holds(element, wanted); });
}

void addOnce(Dims& sizes, int64_t size) {
  constexpr size_t kMost = 3;  // those that are nearest to the inputs
  if (size > 0 && sizes.size() < kMost && std::ranges::find(sizes, size) == sizes.end()) sizes.push_back(size);
}

}  // namespace

std::optional<std::vector<IValue>> sampleInputs(const Graph& graph, int sample, const SampleForm& form) {
  return inputsOf(graph, sample, form, {}, [](const Value*) { return std::nullopt; });
}

SampledGraph::SampledGraph(const Graph& graph, const ObjectValue* self, const Graph& words)
    : graph_(graph), self_(self) {
  forEachNode(words, [&](const Node* n) {
    const IValue* v = n->kind() == sym::Constant ? n->attributeValue(sym::value) : nullptr;
    if (v && v->isString()) words_.push_back(*v);
  });
  bool unfilled = false;
  forEachNode(graph, [&](const Node* n) { unfilled |= isUnfilled(n); });
  if (unfilled) filled_ = cloneGraph(graph);
}

std::vector<SampleForm> SampledGraph::forms() const {
  bool hasOpenSizes = false, hasOpenTypes = false, hasIntegers = false;
  Dims widths, channels{};
  auto look = [&](TypePtr type) {
    auto isOpen = [](TypePtr t) { return t->isTensor() && !t->tensor().hasAllSizes(); };
    auto isUntyped = [](TypePtr t) { return t->isTensor() && t->tensor().dtype == DType::Undefined; };
    auto isInteger = [](TypePtr t) {
      return t->isTensor() ? kIntegerTypes.contains(t->tensor().dtype) : t->is(TypeKind::Int);
    };
    hasOpenSizes |= holds(type, isOpen);
    hasOpenTypes |= holds(type, isUntyped);
    hasIntegers |= holds(type, isInteger);
  };
  for (const Value* v : graph_.inputs()) look(v->type());
  // What weights are multiplied with has their last size, or the second one of convolutions.
  auto hint = [&](DimSpan sizes) {
    if (sizes.size() == 1 || sizes.size() == 2) addOnce(widths, sizes.back());
    if (sizes.size() == 4) addOnce(channels, sizes[1]);
  };
  forEachNode(graph_, [&](const Node* n) {
    if ((n->kind() != sym::Constant && n->kind() != sym::GetAttr) || n->outputCount() != 1) return;
    const IValue* v = n->kind() == sym::Constant ? n->attributeValue(sym::value) : nullptr;
    if (isUnfilled(n) || n->kind() == sym::GetAttr) look(n->output()->type());
    if (v && v->isTensor())
      hint(v->toTensor().sizes());
    else if (n->output()->type()->isTensor())
      hint(n->output()->type()->tensor().sizes);
  });

  std::vector<std::optional<Dims>> sizes{std::nullopt};
  if (hasOpenSizes) {
    sizes.insert(sizes.end(), {Dims{3, 3}, Dims{4}, Dims{2, 3, 4}});
    for (int64_t w : widths) sizes.insert(sizes.end(), {Dims{2, w}, Dims{1, 3, w}});
    addOnce(channels, 3);
    constexpr int64_t kImages[] = {8, 32, 28, 64, 224};
    for (int64_t c : channels)
      for (int64_t s : kImages) sizes.push_back(Dims{1, c, s, s});
  }
  using Integers = SampleForm::Integers;
  std::vector<SampleForm> forms;
  for (const auto& s : sizes)
    for (Integers i : {Integers::Any, Integers::Indices, Integers::Sizes})
      if (i == Integers::Any || hasIntegers) forms.push_back({s, DType::Float32, i});
  if (hasOpenTypes)
    for (const auto& s : {std::optional<Dims>(), std::optional<Dims>(Dims{4})})
      forms.push_back({s, DType::Int64, Integers::Indices});
  return forms;
}

// The object behind an input, with what is read of it; nothing if something of it has no samples.
std::optional<IValue> SampledGraph::object(const Value* self, int sample, const SampleForm& form) const {
  struct Open {
    const Value* value;
    Ref<ObjectValue> made;
    const ObjectValue* known;
    std::string path;
  };
  auto root = Ref<ObjectValue>::make(self->type());
  std::vector<Open> todo{{self, root, self_, ""}};
  while (!todo.empty()) {
    Open o = std::move(todo.back());
    todo.pop_back();
    o.made->shared = self_ != nullptr;  // runs write to copies of what is the module's
    for (const Use& u : o.value->uses()) {
      const Node* n = u.user;
      const IValue* name = n->attributeValue(sym::name);
      if (n->kind() != sym::GetAttr || !name || !name->isString()) continue;
      const Symbol attribute = Symbol::of(name->toString());
      const std::string path = o.path + "." + name->toString();
      const IValue* known = o.known ? const_cast<ObjectValue*>(o.known)->find(attribute) : nullptr;
      if (n->output()->type()->is(TypeKind::Class)) {
        if (!o.made->find(attribute)) o.made->set(attribute, IValue(Ref<ObjectValue>::make(n->output()->type())));
        todo.push_back({n->output(), Ref<ObjectValue>::share(&o.made->find(attribute)->toObject()),
                        known && known->isObject() ? &known->toObject() : nullptr, path});
      } else if (!o.made->find(attribute)) {
        std::optional<IValue> v;
        v = known && !known->isLiteral()
                ? copyContainers(*known, false)
                : Sampler(seedOf(path, sample), sample, form, words_).value(n->output()->type());
        if (!v) return std::nullopt;
        o.made->set(attribute, std::move(*v));
      }
    }
  }
  return IValue(root);
}

bool SampledGraph::fill(int sample, const SampleForm& form) {
  std::optional<std::vector<IValue>> inputs =
      inputsOf(graph_, sample, form, words_, [&](const Value* v) { return object(v, sample, form); });
  if (!inputs) return false;
  arguments_ = std::move(*inputs);
  if (!filled_) return true;
  std::vector<const Node*> originals;
  forEachNode(graph_, [&](const Node* n) { originals.push_back(n); });
  size_t at = 0;
  bool good = true;
  forEachNode(*filled_, [&](Node* n) {
    if (!isUnfilled(originals[at++])) return;
    std::optional<IValue> v =
        Sampler(seedOf(n->output()->name(), sample), sample, form, words_).value(n->output()->type());
    good &= v.has_value();
    if (v) n->setAttribute(sym::value, std::move(*v));
  });
  return good;
}

}  // namespace tscompile
