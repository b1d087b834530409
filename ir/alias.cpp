#include "ir/alias.h"

#include "ir/overload_cache.h"

#include <algorithm>
#include <unordered_set>

namespace tscompile {

void Locations::add(uint32_t location) {
  auto it = std::lower_bound(sorted_.begin(), sorted_.end(), location);
  if (it == sorted_.end() || *it != location) sorted_.insert(it, location);
}
void Locations::add(const Locations& other) {
  if (other.sorted_.empty()) return;
  std::vector<uint32_t> merged;
  merged.reserve(sorted_.size() + other.sorted_.size());
  std::set_union(sorted_.begin(), sorted_.end(), other.sorted_.begin(), other.sorted_.end(),
                 std::back_inserter(merged));
  sorted_ = std::move(merged);
}
bool Locations::contains(uint32_t location) const {
  return std::binary_search(sorted_.begin(), sorted_.end(), location);
}
bool Locations::intersects(const Locations& other) const {
  // Few in many: graphs with many writes ask this of each value.
  if (sorted_.size() * 16 < other.sorted_.size())
    return std::any_of(sorted_.begin(), sorted_.end(), [&](uint32_t l) { return other.contains(l); });
  if (other.sorted_.size() * 16 < sorted_.size()) return other.intersects(*this);
  auto a = sorted_.begin(), b = other.sorted_.begin();
  while (a != sorted_.end() && b != other.sorted_.end()) {
    if (*a == *b) return true;
    if (*a < *b)
      ++a;
    else
      ++b;
  }
  return false;
}

namespace {

constexpr uint32_t kNone = UINT32_MAX;

// prim:: nodes that only read what they are given and make something new, or nothing.
bool isPureStructure(std::string_view kind) {
  for (const char* k : {"isinstance", "Uninitialized", "EnumName", "EnumValue", "type", "tolist", "NumToTensor"})
    if (kind == k) return true;
  return false;
}
// Whose result is their argument.
bool isIdentity(std::string_view kind) {
  for (const char* k : {"unchecked_cast", "unchecked_unwrap_optional", "profile", "profile_ivalue", "Guard",
                        "TypeCheck", "RequiresGradCheck", "ConstantChunk"})
    if (kind == k) return true;
  return false;
}

// Gives its first argument the memory of the second, though the schema does not say so.
bool takesOverMemory(std::string_view kind) { return kind == "aten::set_data" || kind == "aten::set_"; }

}  // namespace

// Makes the elements and edges in text order; loops twice, as their values flow back.
class AliasBuilder {
 public:
  AliasBuilder(AliasAnalysis& a, const Graph& graph, const OpRegistry& registry)
      : a_(a), registry_(registry), overloads_(registry) {
    newElement(true);  // Locations::kAnywhere; what it holds is itself
    a_.contents_[0] = 0;
    for (const Value* v : graph.inputs()) define(v, {0});
    graph_ = &graph;
  }

  void run() {
    // Edges only grow, so a walk that adds none is the last. Chains of loops need few walks.
    do {
      changed_ = false;
      written_.clear();
      forEachNode(*graph_, [this](Node* n) { node(n); });
    } while (changed_ && hasLoops_ && ++walks_ < 32);
    if (changed_ && hasLoops_) giveUp();
    settle();
  }

 private:
  using Element = AliasAnalysis::Element;

  Element newElement(bool container) {
    a_.pointsTo_.emplace_back();
    a_.contents_.push_back(kNone);
    auto e = static_cast<Element>(a_.pointsTo_.size() - 1);
    if (container && e != 0) {
      a_.pointsTo_.emplace_back();
      a_.contents_.push_back(kNone);
      a_.contents_[e] = e + 1;
    }
    return e;
  }
  static bool isContainer(TypePtr t) {
    switch (t->kind()) {
      case TypeKind::Optional:
        return isContainer(t->element());
      case TypeKind::List:
      case TypeKind::Dict:
      case TypeKind::Tuple:
      case TypeKind::Future:
      case TypeKind::Await:
      case TypeKind::Union:
      case TypeKind::Any:
      case TypeKind::Class:
      case TypeKind::Interface:
        return true;
      default:
        return false;
    }
  }

  Element elementOf(const Value* v) {
    auto it = a_.elementOf_.find(v);
    if (it != a_.elementOf_.end()) return it->second;
    Element e = newElement(isContainer(v->type()));
    a_.elementOf_.emplace(v, e);
    changed_ = true;
    return e;
  }
  void edge(Element from, Element to) {
    if (from == to || from == 0) return;
    auto& list = a_.pointsTo_[from];
    if (std::find(list.begin(), list.end(), to) != list.end()) return;
    list.push_back(to);
    changed_ = true;
  }
  void define(const Value* v, std::initializer_list<Element> targets) {
    if (!AliasAnalysis::canRefer(v->type())) return;
    Element e = elementOf(v);
    for (Element t : targets) edge(e, t);
  }
  void defineAs(const Value* v, const Value* source) {
    if (!AliasAnalysis::canRefer(v->type())) return;
    // An operator may give an element type where the source is Any, and the other way round.
    edge(elementOf(v), AliasAnalysis::canRefer(source->type()) ? elementOf(source) : 0);
  }
  void fresh(const Value* v) { define(v, {}); }

  // What containers that `v` may be hold.
  std::vector<Element> contentsOf(const Value* v) {
    std::vector<Element> out;
    Locations leaves = a_.leaves(elementOf(v));
    for (uint32_t leaf : leaves.list()) {
      if (a_.contents_[leaf] == kNone) {
        a_.contents_[leaf] = newElement(false);
        changed_ = true;
      }
      out.push_back(a_.contents_[leaf]);
    }
    return out;
  }
  void put(const Value* container, const Value* item) {
    if (!AliasAnalysis::canRefer(item->type())) return;
    Element e = elementOf(item);
    for (Element c : contentsOf(container)) {
      if (c == 0)
        escape(e);  // put into something that others hold
      else
        edge(c, e);
    }
  }
  void takeOut(const Value* v, const Value* container) {
    if (!AliasAnalysis::canRefer(v->type())) return;
    Element e = elementOf(v);
    for (Element c : contentsOf(container)) edge(e, c);
  }
  // Anything may happen to it from now on, whatever it is called, and to all that it holds.
  void escape(const Value* v) {
    if (AliasAnalysis::canRefer(v->type())) escape(elementOf(v));
  }
  void escape(Element start) {
    std::vector<Element> todo{start};
    while (!todo.empty()) {
      Locations leaves = a_.leaves(todo.back());
      todo.pop_back();
      for (Element leaf : leaves.list()) {
        if (leaf == 0) continue;
        if (a_.contents_[leaf] != kNone) todo.push_back(a_.contents_[leaf]);
        edge(leaf, 0);
      }
    }
  }

  // ---- nodes ----

  void node(const Node* n) {
    AliasAnalysis::Facts& facts = a_.facts_[n];
    if (n->hasBlocks()) return block(n);
    if (n->kind() == sym::Constant) return fresh(n->output());
    std::string_view ns = n->kind().nameSpace(), kind = n->kind().name();
    if (ns == "prim" && n->kind() != sym::PythonOp && structure(n, kind, facts)) return;
    if (takesOverMemory(n->kind().text())) return unknown(n, facts);
    if (n->kind() == sym::Engine && n->subgraph() && isHarmless(*n->subgraph())) return engine(n);
    const Operator* op = n->kind() == sym::PythonOp || n->subgraph() ? nullptr : overloads_.resolve(*n);
    if (!op) return unknown(n, facts);
    operation(n, *op, facts);
  }

  void block(const Node* n) {
    bool loop = n->kind() == sym::Loop;
    hasLoops_ |= loop;
    size_t skip = loop ? 1 : 0;
    for (const Block* b : n->blocks()) {
      if (loop)
        for (size_t i = 1; i < b->parameters().size() && i + 1 < n->inputCount(); ++i) {
          defineAs(b->parameter(i), n->input(i + 1));
          if (i < b->results().size()) defineAs(b->parameter(i), b->result(i));
        }
      for (size_t i = 0; i < n->outputCount() && i + skip < b->results().size(); ++i)
        defineAs(n->output(i), b->result(i + skip));
    }
    if (loop)
      for (size_t i = 0; i < n->outputCount() && i + 2 < n->inputCount(); ++i) defineAs(n->output(i), n->input(i + 2));
  }

  bool structure(const Node* n, std::string_view kind, AliasAnalysis::Facts& facts) {
    if (kind == "ListConstruct" || kind == "TupleConstruct" || kind == "DictConstruct") {
      fresh(n->output());
      for (const Use& u : n->inputs()) put(n->output(), u.value);
      return true;
    }
    if (kind == "ListUnpack" || kind == "TupleUnpack" || kind == "TupleIndex") {
      if (n->inputCount() == 0) return false;
      for (const Value* o : n->outputs()) takeOut(o, n->input(0));
      return true;
    }
    if (kind == "TupleSlice") {
      if (n->inputCount() == 0 || n->outputCount() != 1) return false;
      fresh(n->output());
      for (Element c : contentsOf(n->input(0)))
        for (Element own : contentsOf(n->output())) edge(own, c);
      return true;
    }
    if (isPureStructure(kind)) {
      for (const Value* o : n->outputs()) fresh(o);
      return true;
    }
    if (isIdentity(kind)) {
      for (size_t i = 0; i < n->outputCount(); ++i)
        if (n->inputCount()) defineAs(n->output(i), n->input(std::min(i, n->inputCount() - 1)));
      return true;
    }
    if ((kind == "max" || kind == "min") && n->outputCount() == 1 && isContainer(n->output()->type())) {
      // Of two lists: one of them.
      for (const Use& u : n->inputs()) defineAs(n->output(), u.value);
      return true;
    }
    if (kind == "GetAttr") {
      for (const Value* o : n->outputs()) define(o, {0});
      return true;
    }
    if (kind == "CreateObject") {
      for (const Value* o : n->outputs()) define(o, {0});
      facts.effects = true;
      return true;
    }
    if (kind == "SetAttr") {
      if (n->inputCount() == 2) escape(n->input(1));
      facts.effects = true;
      facts.writes.add(Locations::kAnywhere);
      return true;
    }
    if (kind == "RaiseException" || kind == "Print" || kind == "Enter" || kind == "Exit") {
      facts.effects = true;
      for (const Value* o : n->outputs()) define(o, {0});
      return true;
    }
    return false;
  }

  void unknown(const Node* n, AliasAnalysis::Facts& facts) {
    for (const Use& u : n->inputs()) escape(u.value);
    for (const Value* o : n->outputs()) define(o, {0});
    facts.effects = true;
    facts.writes.add(Locations::kAnywhere);
  }

  // Whether a graph of an engine does nothing but compute its outputs.
  bool isHarmless(const Graph& graph) const {
    AliasAnalysis inner(graph, registry_);
    if (inner.graphHasWrites()) return false;
    bool effects = false;
    forEachNode(graph, [&](const Node* n) { effects |= inner.hasEffects(n); });
    return !effects;
  }

  // Results of an engine are new, or views of what it takes.
  void engine(const Node* n) {
    const Graph& graph = *n->subgraph();
    AliasAnalysis inner(graph, registry_);
    for (size_t i = 0; i < n->outputCount() && i < graph.outputs().size(); ++i) {
      const Value* o = n->output(i);
      if (!AliasAnalysis::canRefer(o->type())) continue;
      bool shares = std::any_of(graph.inputs().begin(), graph.inputs().end(), [&](const Value* in) {
        return AliasAnalysis::canRefer(in->type()) && inner.mayShareMemory(in, graph.output(i));
      });
      shares ? shareWithInputs(n, o) : fresh(o);
    }
  }

  // Operators on containers say less in their schemas than what they do.
  bool containerOperation(const Node* n, std::string_view kind) {
    bool list = n->inputCount() > 0 &&
                (isContainer(n->input(0)->type()) || (kind == "mul" && isContainer(n->inputs().back().value->type())));
    if (!list) return false;
    const Value* self = n->input(0);
    auto outputsFromContents = [&] {
      for (const Value* o : n->outputs()) takeOut(o, self);
    };
    if (kind == "__getitem__" || kind == "get" || kind == "pop" || kind == "setdefault") {
      for (size_t i = 1; i < n->inputCount(); ++i) put(self, n->input(i));
      outputsFromContents();
      return true;
    }
    if (kind == "append" || kind == "insert" || kind == "_set_item") {
      for (size_t i = 1; i < n->inputCount(); ++i) put(self, n->input(i));
      for (const Value* o : n->outputs()) defineAs(o, self);
      return true;
    }
    if (kind == "extend" || kind == "add_" || kind == "update") {
      for (Element c :
           n->inputCount() > 1 && isContainer(n->input(1)->type()) ? contentsOf(n->input(1)) : std::vector<Element>())
        for (Element own : contentsOf(self)) own == 0 ? escape(c) : edge(own, c);
      for (const Value* o : n->outputs()) defineAs(o, self);
      return true;
    }
    if (kind == "slice" || kind == "copy" || kind == "list" || kind == "sorted" || kind == "add" || kind == "mul" ||
        kind == "values" || kind == "items" || kind == "keys" || kind == "popitem" || kind == "dict") {
      // A new container with the same elements; items() holds tuples of them.
      for (const Value* o : n->outputs()) {
        if (!AliasAnalysis::canRefer(o->type())) continue;
        fresh(o);
        for (const Use& u : n->inputs())
          if (isContainer(u.value->type()))
            for (Element c : contentsOf(u.value))
              for (Element own : contentsOf(o)) {
                edge(own, c);
                if (a_.contents_[own] == kNone) a_.contents_[own] = newElement(false);
                edge(a_.contents_[own], c);
              }
      }
      return true;
    }
    return false;
  }

  void operation(const Node* n, const Operator& op, AliasAnalysis::Facts& facts) {
    const Schema& s = op.schema();
    if (op.isImplemented() && (op.def().sideEffects || op.def().random)) facts.effects = true;
    bool handled = n->kind().nameSpace() == "aten" && containerOperation(n, n->kind().name());
    std::unordered_map<std::string, std::vector<Element>> sets;
    for (size_t i = 0; i < s.arguments.size() && i < n->inputCount(); ++i) {
      const Argument& a = s.arguments[i];
      const Value* v = n->input(i);
      if (!a.alias || !AliasAnalysis::canRefer(v->type())) continue;
      for (const std::string& set : a.alias->before) sets[set].push_back(elementOf(v));
      for (const AliasInfo& inner : a.alias->contained)
        for (const std::string& set : inner.before)
          for (Element c : contentsOf(v)) sets[set].push_back(c);
      if (!handled && a.alias->isWildcardAfter() && !returnsSet(s, *a.alias)) escape(v);
      written_.push_back({n, i, a.alias->isWrite, !a.alias->contained.empty() && a.alias->contained[0].isWrite});
    }
    if (handled) return;
    bool mayShare = op.isImplemented() && op.def().mayShare;
    for (size_t i = 0; i < n->outputCount(); ++i) {
      const Value* o = n->output(i);
      if (!AliasAnalysis::canRefer(o->type())) continue;
      if (mayShare) {
        shareWithInputs(n, o);
        continue;
      }
      if (i >= s.returns.size()) {
        if (s.varReturns)
          define(o, {0});
        else
          fresh(o);
        continue;
      }
      const Argument& r = s.returns[i];
      fresh(o);
      if (!r.alias) continue;
      for (const std::string& set : r.alias->before) join(elementOf(o), set, sets);
      for (const AliasInfo& inner : r.alias->contained)
        for (const std::string& set : inner.before)
          for (Element c : contentsOf(o)) join(c, set, sets);
    }
  }

  // The output, or what it holds, may be any input or what that holds.
  void shareWithInputs(const Node* n, const Value* output) {
    fresh(output);
    auto targets = [&](Element e) {
      for (const Use& u : n->inputs()) {
        if (!AliasAnalysis::canRefer(u.value->type())) continue;
        if (!isContainer(u.value->type()))
          edge(e, elementOf(u.value));
        else
          for (Element c : contentsOf(u.value)) edge(e, c);
      }
    };
    if (!isContainer(output->type())) return targets(elementOf(output));
    for (Element own : contentsOf(output)) targets(own);
  }

  // `chunk(Tensor(a -> *) self) -> Tensor(a)[]`: the argument goes into the result, not just anywhere.
  static bool returnsSet(const Schema& s, const AliasInfo& alias) {
    for (const Argument& r : s.returns) {
      if (!r.alias) continue;
      for (const AliasInfo& inner : r.alias->contained)
        for (const std::string& set : inner.before)
          if (std::find(alias.before.begin(), alias.before.end(), set) != alias.before.end()) return true;
    }
    return false;
  }
  void join(Element e, const std::string& set, std::unordered_map<std::string, std::vector<Element>>& sets) {
    if (set == "*") return edge(e, 0);
    for (Element target : sets[set]) edge(e, target);
  }

  // Too many walks: everything may be everything.
  void giveUp() {
    for (auto& [value, element] : a_.elementOf_) edge(element, 0);
  }

  // Locations, reads and writes, now that all edges are known.
  void settle() {
    shorten();
    for (auto& [value, element] : a_.elementOf_) a_.locations_.emplace(value, a_.leaves(element));
    for (const Write& w : written_) {
      AliasAnalysis::Facts& facts = a_.facts_[w.node];
      const Value* v = w.node->input(w.input);
      if (w.itself) facts.writes.add(a_.locations(v));
      if (w.contents)
        for (Element c : contentsOf(v)) facts.writes.add(a_.leaves(c));
    }
    for (auto& [node, facts] : a_.facts_) {
      if (node->hasBlocks()) continue;
      for (const Use& u : node->inputs()) facts.reads.add(a_.reachable(u.value));
      if (facts.writes.contains(Locations::kAnywhere)) facts.effects = true;
      a_.written_.add(facts.writes);
    }
  }

  // Chains of values that only hand on the memory of one other: all lead straight to its end.
  void shorten() {
    std::vector<Element> path;
    for (Element start = 0; start < a_.pointsTo_.size(); ++start) {
      Element e = start;
      path.clear();
      while (a_.pointsTo_[e].size() == 1 && path.size() < a_.pointsTo_.size()) {
        path.push_back(e);
        e = a_.pointsTo_[e][0];
      }
      for (Element passed : path)
        if (passed != e) a_.pointsTo_[passed][0] = e;
    }
  }

  struct Write {
    const Node* node;
    size_t input;
    bool itself, contents;
  };
  AliasAnalysis& a_;
  const OpRegistry& registry_;
  OverloadCache overloads_;
  const Graph* graph_ = nullptr;
  std::vector<Write> written_;
  bool changed_ = false, hasLoops_ = false;
  int walks_ = 0;
};

// ---- questions ----

AliasAnalysis::AliasAnalysis(const Graph& graph, const OpRegistry& registry) {
  AliasBuilder(*this, graph, registry).run();
}

bool AliasAnalysis::canRefer(TypePtr type) {
  switch (type->kind()) {
    case TypeKind::Int:
    case TypeKind::Float:
    case TypeKind::Bool:
    case TypeKind::Complex:
    case TypeKind::Number:
    case TypeKind::String:
    case TypeKind::None:
    case TypeKind::Device:
    case TypeKind::Enum:
    case TypeKind::Function:
      return false;
    case TypeKind::Optional:
      return canRefer(type->element());
    case TypeKind::Union:
    case TypeKind::Tuple:
      return std::any_of(type->elements().begin(), type->elements().end(), [](TypePtr t) { return canRefer(t); });
    default:
      return true;
  }
}

Locations AliasAnalysis::leaves(Element start) const {
  Locations out;
  std::vector<Element> todo{start};
  std::unordered_set<Element> seen{start};
  while (!todo.empty()) {
    Element e = todo.back();
    todo.pop_back();
    if (pointsTo_[e].empty()) out.add(e);
    for (Element next : pointsTo_[e])
      if (seen.insert(next).second) todo.push_back(next);
  }
  return out;
}

const Locations& AliasAnalysis::locations(const Value* value) const {
  static const Locations kNothing;
  auto it = locations_.find(value);
  return it == locations_.end() ? kNothing : it->second;
}

Locations AliasAnalysis::reachable(const Value* value) const {
  Locations out;
  std::vector<uint32_t> todo(locations(value).list());
  while (!todo.empty()) {
    uint32_t at = todo.back();
    todo.pop_back();
    if (out.contains(at)) continue;
    out.add(at);
    if (contents_[at] == kNone) continue;
    Locations inside = leaves(contents_[at]);
    todo.insert(todo.end(), inside.list().begin(), inside.list().end());
  }
  return out;
}

bool AliasAnalysis::mayAlias(const Value* a, const Value* b) const { return locations(a).intersects(locations(b)); }
bool AliasAnalysis::mayShareMemory(const Value* a, const Value* b) const {
  return reachable(a).intersects(reachable(b));
}

const AliasAnalysis::Facts& AliasAnalysis::factsOf(const Node* node) const {
  static const Facts kNothing;
  auto it = facts_.find(node);
  return it == facts_.end() ? kNothing : it->second;
}

void AliasAnalysis::gather(const Node* node, Facts& into) const {
  auto add = [&](const Node* n) {
    const Facts& f = factsOf(n);
    into.reads.add(f.reads);
    into.writes.add(f.writes);
    into.effects |= f.effects;
  };
  add(node);
  for (Block* b : node->blocks()) {
    forEachNode(b, add);
    for (const Use& u : b->results()) into.reads.add(reachable(u.value));
  }
}

Locations AliasAnalysis::reads(const Node* node) const {
  if (!node->hasBlocks()) return factsOf(node).reads;
  Facts all;
  gather(node, all);
  return all.reads;
}

Locations AliasAnalysis::writes(const Node* node) const {
  if (!node->hasBlocks()) return factsOf(node).writes;
  Facts all;
  gather(node, all);
  return all.writes;
}

bool AliasAnalysis::hasEffects(const Node* node) const {
  if (!node->hasBlocks()) return factsOf(node).effects;
  Facts all;
  gather(node, all);
  return all.effects;
}

bool AliasAnalysis::conflict(const Node* a, const Node* b) const {
  Facts ownA, ownB;
  const Facts* x = &factsOf(a);
  const Facts* y = &factsOf(b);
  if (a->hasBlocks()) {
    gather(a, ownA);
    x = &ownA;
  }
  if (b->hasBlocks()) {
    gather(b, ownB);
    y = &ownB;
  }
  if (x->effects && y->effects) return true;
  return x->writes.intersects(y->reads) || x->writes.intersects(y->writes) || y->writes.intersects(x->reads);
}

}  // namespace tscompile
