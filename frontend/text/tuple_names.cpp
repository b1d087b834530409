#include "frontend/text/tuple_names.h"

#include "ir/graph/text_graphs.h"
#include "ir/values/with_elements.h"

#include <algorithm>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

namespace tscompile::frontend {
namespace {

bool printsNames(TypePtr type) { return type->is(TypeKind::Dict) || type->is(TypeKind::Union); }

class TupleNames {
 public:
  void run(const ParsedText& text) {
    for (const Graph* g : topGraphs(text)) graphs_.push_back(g);
    if (!anyNamed()) return;
    // A tuple's fields may be told only once those of one inside are known, or the other way round.
    for (size_t before = 0;; before = known_.size()) {
      forEachGraph(graphs_, [this](const Graph& g) { learnFrom(g); });
      if (known_.size() == before) break;
    }
    if (!known_.empty()) replaceAll();
  }

 private:
  using Meanings = std::map<std::string, TypePtr>;

  // Whether a class stands where a named tuple would print as one.
  bool hasNamed(TypePtr type) {
    auto [it, isNew] = named_.try_emplace(type, false);
    if (!isNew) return it->second;
    const auto elements = type->elements();
    const bool has = std::any_of(elements.begin(), elements.end(),
                                 [&](TypePtr e) { return printsNames(type) ? mentionsClass(e) : hasNamed(e); });
    return named_[type] = has;
  }
  static bool mentionsClass(TypePtr type) {
    const auto elements = type->elements();
    return type->is(TypeKind::Class) || std::any_of(elements.begin(), elements.end(), mentionsClass);
  }
  template <class Visit>
  static void forEachValue(const Graph& g, Visit&& visit) {
    for (Value* v : g.inputs()) visit(v);
    forEachNode(g, [&](Node* n) {
      for (Value* v : n->outputs()) visit(v);
      for (Block* b : n->blocks())
        for (Value* v : b->parameters()) visit(v);
    });
  }
  bool anyNamed() {
    bool any = false;
    forEachGraph(graphs_, [&](const Graph& g) { forEachValue(g, [&](Value* v) { any |= hasNamed(v->type()); }); });
    return any;
  }

  // Whether both are one type if classes of the first are the named tuples of the second.
  bool align(TypePtr spelled, TypePtr shown, Meanings& meanings) const {
    if (spelled == shown) return true;
    if (spelled->is(TypeKind::Class)) {
      if (!shown->isNamedTuple()) return false;
      meanings.emplace(spelled->name(), shown);
      return true;
    }
    if (spelled->kind() != shown->kind() || spelled->elements().size() != shown->elements().size() ||
        spelled->elements().empty() || spelled->fields() != shown->fields())
      return false;
    for (size_t i = 0; i < spelled->elements().size(); ++i)
      if (!align(spelled->element(i), shown->element(i), meanings)) return false;
    return true;
  }
  void learn(TypePtr spelled, TypePtr shown) {
    Meanings meanings;
    if (!mentionsClass(spelled) || !align(spelled, shown, meanings)) return;
    for (const auto& [name, type] : meanings) known_.emplace(name, type);
  }
  // A value that goes into a union, or is what one was found to be: sure if only one of its classes is not known yet.
  void learnMember(TypePtr all, TypePtr shown) {
    std::vector<TypePtr> open;
    for (TypePtr m : all->elements())
      if (mentionsClass(m) && !(m->is(TypeKind::Class) && known_.count(m->name()))) open.push_back(m);
    const bool isKnown = std::any_of(known_.begin(), known_.end(), [&](const auto& k) {
      return std::any_of(all->elements().begin(), all->elements().end(),
                         [&](TypePtr m) { return m->is(TypeKind::Class) && m->name() == k.first; }) &&
             k.second == shown;
    });
    if (open.size() == 1 && !isKnown) learn(open[0], withoutOptional(shown));
  }
  // What an operator takes from a container or puts into it.
  void learnPart(TypePtr container, TypePtr shown) {
    if (container == shown) return;
    learn(container, shown);
    if (container->is(TypeKind::Union)) return learnMember(container, shown);
    if (!container->is(TypeKind::Dict)) return;
    const TypePtr key = container->element(0), value = container->element(1);
    const TypePtr pair[] = {key, value};
    for (TypePtr form : {value, optionalType(value), listType(value), tupleType(pair), listType(tupleType(pair))})
      learn(form, shown);
    learn(value, withoutOptional(shown));
  }
  void learnBetween(Value* a, Value* b) {
    if (hasNamed(a->type())) learnPart(withoutOptional(a->type()), b->type());
    if (hasNamed(b->type())) learnPart(withoutOptional(b->type()), a->type());
  }
  void learnFrom(const Graph& g) {
    forEachNode(g, [&](Node* n) {
      std::vector<Value*> values(n->outputs().begin(), n->outputs().end());
      for (const Use& u : n->inputs()) values.push_back(u.value);
      const auto isNamed = [this](Value* v) { return hasNamed(v->type()); };
      if (n->hasBlocks()) return learnFromBlocks(n);
      if (std::none_of(values.begin(), values.end(), isNamed)) return;
      for (size_t i = 0; i < values.size(); ++i)
        for (size_t k = 0; k < i; ++k) learnBetween(values[k], values[i]);
    });
  }
  void learnFromBlocks(Node* n) {
    for (Block* b : n->blocks()) {
      const size_t results = b->results().size(), outputs = n->outputCount();
      for (size_t i = 0; i < outputs && i < results; ++i)
        learnBetween(n->output(outputs - 1 - i), b->result(results - 1 - i));
    }
  }

  TypePtr replaced(TypePtr type, bool names) {
    if (type->is(TypeKind::Class)) {
      const auto it = names ? known_.find(type->name()) : known_.end();
      const bool isOpen = std::find(open_.begin(), open_.end(), type) != open_.end();
      if (it == known_.end() || isOpen || open_.size() == kNesting || steps_ >= kSteps) return type;
      open_.push_back(type);
      const TypePtr tuple = replaced(it->second, false);
      open_.pop_back();
      return namedTupleType(type->name(), tuple->elements(), tuple->fields(), tuple->defaults());
    }
    if (type->elements().empty()) return type;
    ++steps_;
    std::vector<TypePtr> elements;
    for (TypePtr e : type->elements()) elements.push_back(replaced(e, names || printsNames(type)));
    const auto old = type->elements();
    return std::equal(elements.begin(), elements.end(), old.begin()) ? type : withElements(type, elements);
  }
  void replaceAll() {
    const auto replace = [this](TypePtr type) {
      steps_ = 0;
      return hasNamed(type) ? replaced(type, false) : type;
    };
    forEachGraph(graphs_, [&](const Graph& g) {
      forEachValue(g, [&](Value* v) { v->setType(replace(v->type())); });
      forEachNode(g, [&](Node* n) {
        std::vector<std::pair<Symbol, std::vector<TypePtr>>> changed;
        for (const Attribute& a : n->attributes())
          if (const auto* listed = std::get_if<std::vector<TypePtr>>(&a.payload)) changed.emplace_back(a.name, *listed);
        for (auto& [name, listed] : changed) {
          for (TypePtr& t : listed) t = replace(t);
          n->setAttribute(name, std::move(listed));
        }
      });
    });
  }

  std::vector<const Graph*> graphs_;
  Meanings known_;  // what classes that are named tuples hold
  std::unordered_map<TypePtr, bool> named_;
  // Tuples of tuples of tuples may stand for more than any text could write out.
  static constexpr size_t kNesting = 32, kSteps = 100'000;
  std::vector<TypePtr> open_;  // classes whose fields are being replaced
  size_t steps_ = 0;
};

}  // namespace

void joinTupleNames(const ParsedText& text) { TupleNames().run(text); }

}  // namespace tscompile::frontend
