#include "passes/serving/input_parts.h"

#include "ir/values/aten.h"
#include "passes/rewrite/facts.h"

#include <algorithm>
#include <vector>

namespace tscompile {
namespace {

// A tensor of an input, which may be taken several times.
struct Part {
  std::string key;  // of the dict that held it
  std::vector<Value*> taken;
};

class Parts {
 public:
  bool find(const Value* input) { return lookInto(input, ""); }

  void replace(Graph& graph, const std::function<TypePtr(const Value*)>& formOf,
               std::map<const Value*, std::string>& keys) const {
    for (const Part& part : parts_) {
      TypePtr type = formOf(part.taken.front());
      for (Value* v : part.taken)
        if (TypePtr form = formOf(v); form->tensor().hasRank) type = form;
      Value* input = graph.addInput(type);
      if (!part.key.empty()) keys[input] = part.key;
      for (Value* v : part.taken) v->replaceAllUsesWith(input);
    }
    for (size_t i = nodes_.size(); i-- > 0;) nodes_[i]->destroy();
  }

 private:
  struct Element {
    std::string key;
    int64_t place;
    std::vector<Value*> taken;
  };

  bool lookInto(const Value* container, const std::string& path) {
    std::vector<Element> elements;
    for (const Use& u : container->uses())
      if (u.index() != 0 || !take(u.user, elements)) return false;
    std::ranges::stable_sort(elements, {}, &Element::place);
    for (const Element& e : elements) {
      const std::string own = path + "/" + (e.key.empty() ? std::to_string(e.place) : e.key);
      for (Value* v : e.taken)
        if (!v->type()->isTensor() ? !lookInto(v, own) : !add(own, e.key, v)) return false;
    }
    return true;
  }

  bool take(Node* n, std::vector<Element>& out) {
    const bool takesAll = n->kind() == sym::ListUnpack || n->kind() == sym::TupleUnpack;
    const bool takesOne = n->kind() == aten::getitem_ || n->kind() == sym::TupleIndex;
    const IValue* at = takesOne ? GraphFacts::constant(n->input(1)) : nullptr;
    const bool isKey = at && at->isString(), isPlace = at && at->isInt() && at->toInt() >= 0;
    if (!takesAll && !isKey && !isPlace) return false;
    nodes_.push_back(n);
    for (size_t i = 0; i < n->outputCount(); ++i)
      put(n->output(i), isKey ? std::string(at->toString()) : "",
          isPlace ? at->toInt() : static_cast<int64_t>(isKey ? out.size() : i), out);
    return true;
  }
  static void put(Value* v, const std::string& key, int64_t place, std::vector<Element>& out) {
    for (Element& e : out)
      if (key.empty() ? e.key.empty() && e.place == place : e.key == key) return e.taken.push_back(v);
    out.push_back({key, place, {v}});
  }

  bool add(const std::string& path, const std::string& key, Value* v) {
    auto [at, isNew] = places_.try_emplace(path, parts_.size());
    if (isNew) parts_.push_back({key, {}});
    parts_[at->second].taken.push_back(v);
    return true;
  }

  std::vector<Part> parts_;
  std::map<std::string, size_t> places_;  // of parts, by their paths
  std::vector<Node*> nodes_;
};

}  // namespace

std::map<const Value*, std::string> takeInputsApart(Graph& graph, const std::function<TypePtr(const Value*)>& formOf) {
  std::map<const Value*, std::string> keys;
  for (size_t i = 0; i < graph.inputs().size(); ++i) {
    const TypePtr type = graph.input(i)->type();
    Parts parts;
    const bool isMany = type->is(TypeKind::List) || type->is(TypeKind::Tuple) || type->is(TypeKind::Dict);
    if (!isMany || !graph.input(i)->hasUses() || !parts.find(graph.input(i))) continue;
    parts.replace(graph, formOf, keys);
    graph.block()->removeParameter(i--);
  }
  return keys;
}

}  // namespace tscompile
