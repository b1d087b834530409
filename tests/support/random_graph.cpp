#include "tests/support/random_graph.h"

#include "ir/graph/builder.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>

namespace tscompile::test {
namespace {

constexpr int64_t kIntegers[] = {0, 1, 2, -1, 3, 4, 5, -2, 7, 16, -3, 100, int64_t{1} << 33, INT64_MAX, INT64_MIN};
constexpr double kFloats[] = {0.0, 1.0, 0.5, -1.5, 1e-5, 3.0, -0.0, 1e300, INFINITY, -INFINITY, NAN};
constexpr const char* kStrings[] = {"",          "mean",     "sum",     "none",    "constant", "reflect",
                                    "replicate", "bilinear", "tanh",    "floor",   "ij",       "trunc",
                                    "a",         "{} %d",    "reduced", "bicubic", "x,y",      "nearest"};

// Those that take a graph apart at run time by design, or wait for somebody.
constexpr std::string_view kExcluded[] = {"prim::RaiseException", "aten::wait"};

// Operators whose arguments a random program can supply.
std::vector<const Operator*> callable(const OpRegistry& registry, const std::vector<std::string>& only) {
  std::vector<const Operator*> out;
  for (Symbol kind : registry.kinds(true)) {
    if (std::find(std::begin(kExcluded), std::end(kExcluded), kind.text()) != std::end(kExcluded)) continue;
    if (!only.empty() && std::find(only.begin(), only.end(), std::string(kind.text())) == only.end()) continue;
    for (const Operator* op : registry.overloads(kind))
      if (op->isImplemented() && !op->schema().varArguments && !op->schema().varReturns) out.push_back(op);
  }
  return out;
}

const std::vector<const Operator*>& allCallable(const OpRegistry& registry) {
  static std::mutex mutex;
  static std::map<const OpRegistry*, std::vector<const Operator*>> known;
  std::lock_guard lock(mutex);
  auto [it, isNew] = known.try_emplace(&registry);
  if (isNew) it->second = callable(registry, {});
  return it->second;
}

class Maker {
 public:
  Maker(Choices& choices, const OpRegistry& registry, const RandomGraphOptions& options)
      : c_(choices), registry_(registry), options_(options), graph_(std::make_unique<Graph>()), b_(*graph_) {
    if (!options.operators.empty()) own_ = callable(registry, options.operators);
    operators_ = options.operators.empty() ? &allCallable(registry) : &own_;
  }

  std::unique_ptr<Graph> make() {
    const CommonTypes& t = types();
    size_t tensors = 1 + c_.below(3);
    for (size_t i = 0; i < tensors; ++i) known_.push_back(graph_->addInput(t.tensor));
    for (TypePtr extra : {t.integer, t.floating, t.boolean, t.intList, t.tensorList})
      if (c_.oneIn(3)) known_.push_back(graph_->addInput(extra));
    left_ = 1 + c_.below(options_.nodes);
    fill(0);
    size_t outputs = 1 + c_.below(3);
    for (size_t i = 0; i < outputs; ++i)
      graph_->addOutput(i == 0 && known_.size() ? known_.back() : known_[c_.below(known_.size())]);
    return std::move(graph_);
  }

 private:
  void fill(size_t depth) {
    while (left_ > 0 && !c_.exhausted()) {
      if (depth > 0 && c_.oneIn(5)) return;
      --left_;
      size_t what = options_.controlFlow && depth < 3 ? c_.below(12) : 2;
      if (what == 0)
        branch(depth);
      else if (what == 1)
        loop(depth);
      else
        call();
    }
  }

  void call() {
    if (operators_->empty()) return;
    const Operator* op = (*operators_)[c_.below(operators_->size())];
    const Schema& schema = op->schema();
    variables_.clear();
    std::vector<Value*> inputs;
    for (const Argument& a : schema.arguments) {
      Value* v = argument(a);
      if (!v) return;
      inputs.push_back(v);
    }
    std::vector<TypePtr> inputTypes;
    for (Value* v : inputs) inputTypes.push_back(v->type());
    TypeBindings bindings;
    const Operator* meant = registry_.resolve(op->kind(), inputTypes, &bindings);
    if (!meant || meant->schema().varReturns) return;
    std::vector<TypePtr> results;
    for (const Argument& r : meant->schema().returns) {
      TypePtr type = r.type->hasVariables() ? substituteTypeVariables(r.type, bindings) : r.type;
      if (!type) return;
      results.push_back(type);
    }
    Node* n = b_.insert(op->kind(), inputs, results.size());
    for (size_t i = 0; i < results.size(); ++i) {
      n->output(i)->setType(results[i]);
      known_.push_back(n->output(i));
    }
  }

  Value* argument(const Argument& a) {
    // Defaults are what most programs pass.
    if (a.defaultValue && !c_.oneIn(3)) {
      const IValue& v = *a.defaultValue;
      if (v.isNone() || v.isNumber() || v.isString()) return constantOf(v, a.type);
    }
    if (a.name == "dtype" || (a.schemaType && a.schemaType->is(TypeKind::ScalarType)))
      return b_.constant(int64_t(c_.below(12)));
    return valueOf(a.type, 0);
  }

  Value* constantOf(const IValue& v, TypePtr formal) {
    if (v.isNone()) return b_.constant(IValue(), formal->is(TypeKind::Optional) ? types().none : formal);
    if (v.isInt() && formal->is(TypeKind::Float)) return b_.constant(static_cast<double>(v.toInt()));
    return b_.constant(v);
  }

  // A value that fits the type: one that is there, or a new one. Null if there is no way.
  Value* valueOf(TypePtr type, int depth) {
    if (depth > 4) return nullptr;
    if (type->is(TypeKind::Variable)) type = bound(type);
    if (!c_.oneIn(3) || type->isTensor())
      if (Value* v = knownValueOf(type)) return v;
    switch (type->kind()) {
      case TypeKind::Optional:
        if (c_.oneIn(2)) return b_.constant(IValue(), types().none);
        return valueOf(type->element(), depth + 1);
      case TypeKind::List:
        return listOf(type->element(), depth);
      case TypeKind::Tuple:
        return tupleOf(type, depth);
      case TypeKind::Dict:
        return dictOf(type, depth);
      default:
        return simpleConstantOf(type->kind());
    }
  }

  // What a type variable stands for, from its first use on.
  TypePtr bound(TypePtr variable) {
    auto [it, isNew] = variables_.try_emplace(variable->name(), nullptr);
    if (isNew) {
      const CommonTypes& t = types();
      const TypePtr picks[] = {t.tensor, t.integer, t.floating, t.string, t.boolean};
      it->second = c_.oneOf(picks);
    }
    return it->second;
  }

  Value* knownValueOf(TypePtr type) {
    std::vector<Value*> fitting;
    for (Value* v : known_)
      if (type->hasVariables() ? fitsVariables(v->type(), type) : isSubtype(v->type(), type)) fitting.push_back(v);
    if (fitting.empty()) return nullptr;
    // The latest values, more often than not: programs are chains.
    size_t reach = c_.oneIn(2) ? fitting.size() : std::min<size_t>(fitting.size(), 3);
    Value* v = fitting[fitting.size() - 1 - c_.below(reach)];
    if (type->hasVariables()) remember(type, v->type());
    return v;
  }

  Value* simpleConstantOf(TypeKind kind) {
    switch (kind) {
      case TypeKind::Int:
        return b_.constant(integer());
      case TypeKind::Float:
        return b_.constant(c_.oneOf(kFloats));
      case TypeKind::Number:
      case TypeKind::Any:
        return c_.oneIn(2) ? b_.constant(c_.oneOf(kFloats)) : b_.constant(integer());
      case TypeKind::Bool:
        return b_.constant(c_.oneIn(2));
      case TypeKind::Complex:
        // PyTorch's text has no sign for their zeros.
        return b_.constant(std::complex<double>(c_.oneOf(kFloats) + 0.0, c_.oneOf(kFloats) + 0.0));
      case TypeKind::String:
        return b_.constant(c_.oneOf(kStrings));
      case TypeKind::Device:
        return b_.constant(Device());
      case TypeKind::None:
        return b_.constant(IValue(), types().none);
      default:
        return nullptr;
    }
  }

  Value* listOf(TypePtr element, int depth) {
    std::vector<Value*> items;
    size_t count = c_.below(4);
    for (size_t i = 0; i < count; ++i) {
      Value* v = valueOf(element, depth + 1);
      if (!v) return nullptr;
      // All elements have one type.
      if (!items.empty() && items[0]->type() != v->type() && !element->is(TypeKind::Optional) && !element->isTensor())
        break;
      items.push_back(v);
    }
    TypePtr built = substituted(element);
    if (!built) return nullptr;
    if (built->is(TypeKind::Number) || built->is(TypeKind::Any))
      built = items.empty() ? types().integer : items[0]->type();
    return b_.list(items, built);
  }

  Value* tupleOf(TypePtr type, int depth) {
    std::vector<Value*> items;
    for (TypePtr element : type->elements()) {
      Value* v = valueOf(element, depth + 1);
      if (!v) return nullptr;
      items.push_back(v);
    }
    return b_.tuple(items);
  }

  Value* dictOf(TypePtr type, int depth) {
    TypePtr built = substituted(type);
    if (!built || !(built->element(0)->is(TypeKind::Int) || built->element(0)->is(TypeKind::String) ||
                    built->element(0)->is(TypeKind::Float)))
      return nullptr;
    std::vector<Value*> items;
    for (size_t i = 2 * c_.below(3); i > 0; --i) {
      Value* v = valueOf(built->element(i % 2), depth + 1);
      if (!v) return nullptr;
      items.push_back(v);
    }
    Value* v = b_.insert(sym::DictConstruct, items)->output();
    v->setType(built);
    return v;
  }

  int64_t integer() { return c_.oneIn(6) ? c_.oneOf(kIntegers) : static_cast<int64_t>(c_.below(7)) - 2; }

  bool fitsVariables(TypePtr actual, TypePtr formal) {
    TypeBindings bindings;
    for (auto& [name, type] : variables_)
      if (type) bindings.emplace_back(name, type);
    if (!bindTypeVariables(formal, actual, bindings)) return false;
    TypePtr bound = substituteTypeVariables(formal, bindings);
    return bound && isSubtype(actual, bound);
  }
  void remember(TypePtr formal, TypePtr actual) {
    TypeBindings bindings;
    if (!bindTypeVariables(formal, actual, bindings)) return;
    for (auto& [name, type] : bindings) variables_.try_emplace(name, type);
  }
  TypePtr substituted(TypePtr type) {
    if (!type->hasVariables()) return type;
    TypeBindings bindings;
    for (const char* name : {"t", "tVal", "t1", "t2"}) {
      auto it = variables_.try_emplace(name, types().integer).first;
      bindings.emplace_back(name, it->second);
    }
    for (auto& [name, bound] : variables_) bindings.emplace_back(name, bound);
    return substituteTypeVariables(type, bindings);
  }

  // A value of exactly this type, for results of blocks.
  Value* exactly(TypePtr type) {
    for (size_t i = known_.size(); i-- > 0;)
      if (known_[i]->type() == type && !c_.oneIn(3)) return known_[i];
    Value* v = valueOf(type, 0);
    return v && v->type() == type ? v : nullptr;
  }

  void branch(size_t depth) {
    Value* condition = valueOf(types().boolean, 0);
    std::vector<TypePtr> results;
    for (size_t i = c_.below(3); i > 0; --i) results.push_back(resultType());
    Node* n = b_.insert(sym::If, {condition}, 0);
    size_t outside = known_.size();
    for (int side = 0; side < 2; ++side) {
      Block* block = n->addBlock();
      b_.setPointAtEnd(block);
      fill(depth + 1);
      for (TypePtr type : results) block->addResult(exactly(type));
      known_.resize(outside);
    }
    b_.setPointAfter(n);
    for (TypePtr type : results) known_.push_back(n->addOutput(type));
  }

  void loop(size_t depth) {
    Value* trips = b_.constant(static_cast<int64_t>(c_.below(4)));
    Value* start = b_.constant(!c_.oneIn(8));
    std::vector<Value*> inputs{trips, start};
    for (size_t i = c_.below(3); i > 0; --i) inputs.push_back(exactly(resultType()));
    Node* n = b_.insert(sym::Loop, inputs, 0);
    Block* block = n->addBlock();
    size_t outside = known_.size();
    known_.push_back(block->addParameter(types().integer));
    for (size_t i = 2; i < inputs.size(); ++i) known_.push_back(block->addParameter(inputs[i]->type()));
    b_.setPointAtEnd(block);
    fill(depth + 1);
    block->addResult(exactly(types().boolean));
    for (size_t i = 2; i < inputs.size(); ++i) block->addResult(exactly(inputs[i]->type()));
    known_.resize(outside);
    b_.setPointAfter(n);
    for (size_t i = 2; i < inputs.size(); ++i) known_.push_back(n->addOutput(inputs[i]->type()));
  }

  TypePtr resultType() {
    const TypePtr picks[] = {types().tensor, types().integer, types().tensor, types().floating};
    return c_.oneOf(picks);
  }

  Choices& c_;
  const OpRegistry& registry_;
  const RandomGraphOptions& options_;
  const std::vector<const Operator*>* operators_ = nullptr;
  std::vector<const Operator*> own_;
  std::unique_ptr<Graph> graph_;
  Builder b_;
  std::vector<Value*> known_;  // that may be used at the builder's point
  std::map<std::string, TypePtr> variables_;
  size_t left_ = 0;
};

constexpr DType kDTypes[] = {DType::Float32, DType::Float32,   DType::Int64,     DType::Bool,     DType::Float64,
                             DType::Float16, DType::Int32,     DType::UInt8,     DType::BFloat16, DType::Int8,
                             DType::Int16,   DType::Complex64, DType::Complex128};

Tensor randomTensor(Choices& c) {
  DType dtype = c.oneOf(kDTypes);
  Dims sizes;
  for (size_t rank = c.below(5); rank > 0; --rank)
    sizes.push_back(c.oneIn(10) ? 0 : 1 + static_cast<int64_t>(c.below(4)));
  Tensor t = Tensor::empty(dtype, sizes);
  auto* bytes = reinterpret_cast<uint8_t*>(t.raw());
  size_t count = static_cast<size_t>(t.numel()) * itemSize(dtype);
  bool wild = c.oneIn(4);
  uint64_t seed = c.below(1 << 16);
  for (size_t i = 0; i < count; ++i) {
    uint64_t r = random::bits(seed, i);
    // Bool must hold 0 or 1; small positive bytes make small integers and tame floats.
    bytes[i] = dtype == DType::Bool ? r & 1 : wild ? static_cast<uint8_t>(r) : (i % itemSize(dtype) == 0 ? r % 5 : 0);
  }
  if (!wild && isFloating(dtype)) {
    for (int64_t i = 0; i < t.numel(); ++i) {
      float v = static_cast<float>(random::normal(random::bits(seed, static_cast<uint64_t>(i))));
      if (dtype == DType::Float32) t.data<float>()[i] = v;
      if (dtype == DType::Float64) t.data<double>()[i] = v;
    }
  }
  if (t.rank() >= 2 && c.oneIn(3)) {
    Dims order;
    for (int d = t.rank(); d-- > 0;) order.push_back(d);
    t = t.permuted(order);
  }
  return t;
}

IValue randomValue(Choices& c, TypePtr type) {
  switch (type->kind()) {
    case TypeKind::Tensor:
      return randomTensor(c);
    case TypeKind::Int:
      return c.oneIn(4) ? c.oneOf(kIntegers) : static_cast<int64_t>(c.below(5));
    case TypeKind::Float:
      return c.oneOf(kFloats);
    case TypeKind::Bool:
      return c.oneIn(2);
    case TypeKind::String:
      return c.oneOf(kStrings);
    case TypeKind::List: {
      std::vector<IValue> items;
      for (size_t i = c.below(4); i > 0; --i) items.push_back(randomValue(c, type->element()));
      return Ref<ListValue>::make(type->element(), std::move(items));
    }
    default:
      return {};
  }
}

}  // namespace

std::unique_ptr<Graph> randomGraph(Choices& choices, const OpRegistry& registry, const RandomGraphOptions& options) {
  return Maker(choices, registry, options).make();
}

std::vector<IValue> randomInputs(Choices& choices, const Graph& graph) {
  std::vector<IValue> out;
  for (const Value* v : graph.inputs()) out.push_back(randomValue(choices, v->type()));
  return out;
}

bool isRepeatable(const Graph& graph) {
  bool is = true;
  forEachNode(graph, [&](const Node* n) {
    for (std::string_view name : {"empty", "resize", "hash", "TimePoint", "aten::id"})
      is &= n->kind().text().find(name) == std::string_view::npos;
  });
  return is;
}

}  // namespace tscompile::test
