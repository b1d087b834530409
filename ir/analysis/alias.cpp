// An inclusion-based points-to analysis (Andersen 1994): values and the contents of containers are elements, "may be
// the same memory as" are edges between them, and a walk along the edges says where an element points to.
#include "ir/analysis/alias.h"

#include "ir/operators/overload_cache.h"
#include "ir/values/aten.h"

#include <algorithm>
#include <unordered_set>

namespace tscompile {

void LocationSet::assign(std::vector<uint32_t> sorted) {
  size_ = static_cast<uint32_t>(sorted.size());
  if (size_ > kFew) {
    many_ = std::move(sorted);
    return;
  }
  std::copy(sorted.begin(), sorted.end(), few_);
  many_.clear();
}

void LocationSet::add(uint32_t location) {
  if (contains(location)) return;
  if (size_ == 0) {
    few_[size_++] = location;
    return;
  }
  // Most come in order, into sets that may be large.
  if (size_ > kFew) {
    many_.insert(std::upper_bound(many_.begin(), many_.end(), location), location);
    ++size_;
    return;
  }
  std::vector<uint32_t> all(few_, few_ + size_);
  all.insert(std::upper_bound(all.begin(), all.end(), location), location);
  assign(std::move(all));
}
void LocationSet::add(const LocationSet& other) {
  if (other.size_ == 0) return;
  if (size_ == 0) {
    *this = other;
    return;
  }
  if (other.size_ == 1) return add(other.few_[0]);
  std::vector<uint32_t> merged;
  merged.reserve(size_ + other.size_);
  std::span<const uint32_t> a = list(), b = other.list();
  std::set_union(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(merged));
  assign(std::move(merged));
}
bool LocationSet::contains(uint32_t location) const {
  std::span<const uint32_t> all = list();
  return std::binary_search(all.begin(), all.end(), location);
}
bool LocationSet::intersects(const LocationSet& other) const {
  std::span<const uint32_t> own = list(), others = other.list();
  // Few in many: graphs with many writes ask this of each value.
  if (own.size() * 16 < others.size())
    return std::any_of(own.begin(), own.end(), [&](uint32_t l) { return other.contains(l); });
  if (others.size() * 16 < own.size()) return other.intersects(*this);
  auto a = own.begin(), b = others.begin();
  while (a != own.end() && b != others.end()) {
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

}  // namespace

// Makes the elements and edges in text order; loops twice, as their values flow back.
class AliasBuilder {
 public:
  AliasBuilder(AliasAnalysis& a, const Graph& graph, const OpRegistry& registry)
      : a_(a), registry_(registry), overloads_(registry) {
    a_.elementOf_ = ValueTable<Element>(graph);
    a_.factsAt_ = NodeTable<uint32_t>(graph);
    a_.facts_.emplace_back();
    newElement(false);  // LocationSet::kAnywhere
    newElement(false);  // LocationSet::kPlainLists
    newElement(false);  // kOutside
    a_.contents_[LocationSet::kAnywhere] = kOutside;
    a_.pointsTo_[kOutside].assign({LocationSet::kAnywhere, LocationSet::kPlainLists});
    for (const Value* v : graph.inputs()) defineOutside(v);
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

  // All that the graph did not make.
  static constexpr Element kOutside = 2;

  Element newElement(bool container) {
    a_.pointsTo_.emplace_back();
    a_.contents_.push_back(kNone);
    auto e = static_cast<Element>(a_.pointsTo_.size() - 1);
    if (container) {
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

  // Lists, dicts and tuples of nothing but numbers and strings, at any depth.
  static bool isPlainList(TypePtr t) {
    switch (t->kind()) {
      case TypeKind::Optional:
      case TypeKind::List:
      case TypeKind::Dict:
      case TypeKind::Tuple:
        return std::ranges::all_of(t->elements(),
                                   [](TypePtr e) { return !AliasAnalysis::canRefer(e) || isPlainList(e); });
      default:
        return false;
    }
  }
  // What a value of this type that comes from elsewhere may be.
  static Element outside(TypePtr t) {
    if (isPlainList(t)) return LocationSet::kPlainLists;
    if (t->kind() == TypeKind::Optional) return outside(t->element());
    const bool isOther =
        !isContainer(t) || t->kind() == TypeKind::Class || (t->kind() == TypeKind::List && t->element()->isTensor());
    return isOther ? Element{LocationSet::kAnywhere} : kOutside;
  }

  Element elementOf(const Value* v) {
    if (Element known = a_.elementOf_[v]) return known;
    Element e = newElement(isContainer(v->type()));
    a_.elementOf_[v] = e;
    changed_ = true;
    return e;
  }
  void edge(Element from, Element to) {
    if (from == to || from <= kOutside) return;
    if (a_.pointsTo_[from].contains(to)) return;
    a_.pointsTo_[from].add(to);
    changed_ = true;
  }
  void define(const Value* v, std::initializer_list<Element> targets) {
    if (!AliasAnalysis::canRefer(v->type())) return;
    Element e = elementOf(v);
    for (Element t : targets) edge(e, t);
  }
  void defineOutside(const Value* v) { define(v, {outside(v->type())}); }
  void defineAs(const Value* v, const Value* source) {
    if (!AliasAnalysis::canRefer(v->type())) return;
    // An operator may give an element type where the source is Any, and the other way round.
    edge(elementOf(v), AliasAnalysis::canRefer(source->type()) ? elementOf(source) : outside(v->type()));
  }
  void fresh(const Value* v) { define(v, {}); }

  // What containers that `v` may be hold.
  std::vector<Element> contentsOf(const Value* v) {
    std::vector<Element> out;
    LocationSet leaves = a_.leaves(elementOf(v));
    for (uint32_t leaf : leaves.list()) {
      if (leaf == LocationSet::kPlainLists) {  // it may hold others
        out.push_back(leaf);
        continue;
      }
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
      if (c <= kOutside)
        escape(e);  // put into something that others hold
      else
        edge(c, e);
    }
  }
  void takeOut(const Value* v, const Value* container) {
    if (!AliasAnalysis::canRefer(v->type())) return;
    Element e = elementOf(v);
    for (Element c : contentsOf(container)) edge(e, c == kOutside ? outside(v->type()) : c);
  }
  // Anything may happen to it from now on, whatever it is called, and to all that it holds.
  void escape(const Value* v) {
    if (AliasAnalysis::canRefer(v->type())) escape(elementOf(v));
  }
  void escape(Element start) {
    std::vector<Element> todo{start};
    while (!todo.empty()) {
      LocationSet leaves = a_.leaves(todo.back());
      todo.pop_back();
      for (Element leaf : leaves.list()) {
        if (leaf < kOutside) continue;
        if (a_.contents_[leaf] != kNone) todo.push_back(a_.contents_[leaf]);
        edge(leaf, kOutside);
      }
    }
  }

  // ---- nodes ----

  AliasAnalysis::Facts& facts(const Node* n) {
    auto&& at = a_.factsAt_[n];
    if (!at) {
      at = static_cast<uint32_t>(a_.facts_.size());
      a_.facts_.emplace_back();
    }
    return a_.facts_[at];
  }

  void node(const Node* n) {
    if (n->hasBlocks()) return block(n);
    if (n->kind() == sym::Constant) return fresh(n->output());
    std::string_view ns = n->kind().nameSpace(), kind = n->kind().name();
    if ((ns == "prim" || n->kind() == aten::wait) && n->kind() != sym::PythonOp && structure(n, kind)) return;
    if (n->kind() == sym::Engine && n->subgraph() && isHarmless(*n->subgraph())) return engine(n);
    const Operator* op = n->kind() == sym::PythonOp || n->subgraph() ? nullptr : overloads_.resolve(*n);
    if (!op || op->has(Trait::TakesOverMemory)) return unknown(n);
    operation(n, *op);
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

  bool structure(const Node* n, std::string_view kind) {
    if (kind == "ListConstruct" || kind == "TupleConstruct" || kind == "DictConstruct") {
      fresh(n->output());
      for (const Use& u : n->inputs()) put(n->output(), u.value);
      return true;
    }
    if (kind == "ListUnpack" || kind == "TupleUnpack" || kind == "TupleIndex" || kind == "wait" ||
        kind == "awaitable_wait") {
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
      for (const Value* o : n->outputs()) defineOutside(o);
      return true;
    }
    if (kind == "CreateObject") {
      for (const Value* o : n->outputs()) defineOutside(o);
      facts(n).effects = true;
      return true;
    }
    if (kind == "SetAttr") {
      if (n->inputCount() == 2) escape(n->input(1));
      facts(n).writes.add(LocationSet::kAnywhere);
      return true;
    }
    if (kind == "RaiseException" || kind == "Print" || kind == "Enter" || kind == "Exit") {
      facts(n).effects = true;
      for (const Value* o : n->outputs()) defineOutside(o);
      return true;
    }
    return false;
  }

  void unknown(const Node* n) {
    for (const Use& u : n->inputs()) escape(u.value);
    for (const Value* o : n->outputs()) defineOutside(o);
    facts(n).writes.add(LocationSet::kAnywhere);
    facts(n).writes.add(LocationSet::kPlainLists);
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

  // The alias sets of a schema, and what arguments put into them.
  using Sets = std::vector<std::pair<std::string_view, Element>>;

  // What a node does with its containers; false if its schema tells.
  bool containerOperation(const Node* n, const Operator& op) {
    auto isOne = [](const Use& u) { return isContainer(u.value->type()); };
    if (!op.isImplemented() || std::none_of(n->inputs().begin(), n->inputs().end(), isOne)) return false;
    const Value* self = n->input(0);
    switch (op.def().container) {
      case ContainerUse::None:
        return false;
      case ContainerUse::Take:
        for (size_t i = 1; i < n->inputCount(); ++i) put(self, n->input(i));
        for (const Value* o : n->outputs()) takeOut(o, self);
        return true;
      case ContainerUse::Put:
        for (size_t i = 1; i < n->inputCount(); ++i) put(self, n->input(i));
        break;
      case ContainerUse::PutAll:
        for (Element c :
             n->inputCount() > 1 && isOne(n->inputs()[1]) ? contentsOf(n->input(1)) : std::vector<Element>())
          for (Element own : contentsOf(self)) own == kOutside ? escape(c) : edge(own, c);
        break;
      case ContainerUse::Rebuild:
        for (const Value* o : n->outputs()) rebuild(o, n->inputs());
        return true;
    }
    for (const Value* o : n->outputs()) defineAs(o, self);
    return true;
  }

  // A new container with the same elements as others, or with tuples of them.
  void rebuild(const Value* output, std::span<const Use> inputs) {
    if (!AliasAnalysis::canRefer(output->type())) return;
    fresh(output);
    for (const Use& u : inputs) {
      if (!isContainer(u.value->type())) continue;
      for (Element c : contentsOf(u.value))
        for (Element own : contentsOf(output)) {
          edge(own, c);
          if (a_.contents_[own] == kNone) a_.contents_[own] = newElement(false);
          edge(a_.contents_[own], c);
        }
    }
  }

  void operation(const Node* n, const Operator& op) {
    const Schema& s = op.schema();
    if (op.has(Trait::SideEffects) || op.drawsRandom(*n)) facts(n).effects = true;
    bool handled = containerOperation(n, op);
    Sets sets;
    for (size_t i = 0; i < s.arguments.size() && i < n->inputCount(); ++i) {
      const Argument& a = s.arguments[i];
      const Value* v = n->input(i);
      if (!a.alias || !AliasAnalysis::canRefer(v->type())) continue;
      for (const std::string& set : a.alias->before) sets.emplace_back(set, elementOf(v));
      for (const AliasInfo& inner : a.alias->contained)
        for (const std::string& set : inner.before)
          for (Element c : contentsOf(v)) sets.emplace_back(set, c);
      if (!handled && a.alias->isWildcardAfter() && !returnsSet(s, *a.alias)) escape(v);
      written_.push_back({n, i, a.alias->isWrite, !a.alias->contained.empty() && a.alias->contained[0].isWrite});
    }
    for (size_t i = 0; i < n->inputCount(); ++i)
      if (op.trains(*n, i)) written_.push_back({n, i, true, false});
    if (handled) return;
    for (size_t i = 0; i < n->outputCount(); ++i) {
      const Value* o = n->output(i);
      if (!AliasAnalysis::canRefer(o->type())) continue;
      if (op.has(Trait::MayShare)) {
        shareWithInputs(n, o);
        continue;
      }
      if (i >= s.returns.size()) {
        if (s.varReturns)
          defineOutside(o);
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
    if (isPlainList(output->type())) {
      for (const Use& u : n->inputs())
        if (isPlainList(u.value->type())) defineAs(output, u.value);
      return;
    }
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
  void join(Element e, const std::string& set, const Sets& sets) {
    if (set == "*") return edge(e, kOutside);
    for (const auto& [name, target] : sets)
      if (name == set) edge(e, target);
  }

  // The cut-off of the fixpoint iteration: everything may be everything.
  void giveUp() {
    for (Element e = kOutside + 1; e < a_.pointsTo_.size(); ++e) edge(e, kOutside);
  }

  // LocationSet, reads and writes, now that all edges are known.
  void settle() {
    shorten();
    for (const Write& w : written_) {
      LocationSet to;
      const Value* v = w.node->input(w.input);
      if (w.itself && AliasAnalysis::canRefer(v->type())) to.add(a_.leaves(elementOf(v)));
      if (w.contents)
        for (Element c : contentsOf(v)) to.add(a_.leaves(c));
      if (!to.empty()) facts(w.node).writes.add(to);
    }
    std::vector<uint32_t> written;
    for (AliasAnalysis::Facts& f : a_.facts_) {
      f.effects |= f.writes.reachOutside();
      written.insert(written.end(), f.writes.list().begin(), f.writes.list().end());
    }
    std::sort(written.begin(), written.end());
    written.erase(std::unique(written.begin(), written.end()), written.end());
    a_.written_.assign(std::move(written));
    a_.locations_.reserve(a_.pointsTo_.size());
    for (Element e = 0; e < a_.pointsTo_.size(); ++e) a_.locations_.push_back(a_.leaves(e));
  }

  // Path compression: of chains of values that only hand on the memory of one other, all lead straight to its end.
  void shorten() {
    std::vector<Element> path;
    for (Element start = 0; start < a_.pointsTo_.size(); ++start) {
      Element e = start;
      path.clear();
      while (const Element* next = a_.pointsTo_[e].only()) {
        if (path.size() == a_.pointsTo_.size()) break;
        path.push_back(e);
        e = *next;
      }
      for (Element passed : path)
        if (passed != e) a_.pointsTo_[passed] = LocationSet(e);
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

LocationSet AliasAnalysis::leaves(Element start) const {
  // Nearly all lead to one end in a few steps.
  for (int steps = 0; steps < 8; ++steps) {
    if (pointsTo_[start].empty()) return LocationSet(start);
    const Element* next = pointsTo_[start].only();
    if (!next) break;
    start = *next;
  }
  std::vector<uint32_t> out;
  std::vector<Element> todo{start};
  std::unordered_set<Element> seen{start};
  while (!todo.empty()) {
    Element e = todo.back();
    todo.pop_back();
    if (pointsTo_[e].empty()) out.push_back(e);
    for (Element next : pointsTo_[e].list())
      if (seen.insert(next).second) todo.push_back(next);
  }
  std::sort(out.begin(), out.end());
  LocationSet all;
  all.assign(std::move(out));
  return all;
}

const LocationSet& AliasAnalysis::locations(const Value* value) const {
  static const LocationSet kNothing;
  Element e = elementOf_.get(value);
  return e ? locations_[e] : kNothing;
}

LocationSet AliasAnalysis::reachable(const Value* value) const {
  const LocationSet& start = locations(value);
  if (value->type()->isTensor()) return start;
  if (const uint32_t* only = start.only(); only && contents_[*only] == kNone) return start;
  LocationSet out;
  std::vector<uint32_t> todo(start.list().begin(), start.list().end());
  while (!todo.empty()) {
    uint32_t at = todo.back();
    todo.pop_back();
    if (out.contains(at)) continue;
    out.add(at);
    if (contents_[at] == kNone) continue;
    std::span<const uint32_t> inside = locations_[contents_[at]].list();
    todo.insert(todo.end(), inside.begin(), inside.end());
  }
  return out;
}

bool AliasAnalysis::mayShareMemory(const Value* a, const Value* b) const {
  return reachable(a).intersects(reachable(b));
}

const AliasAnalysis::Facts& AliasAnalysis::factsOf(const Node* node) const { return facts_[factsAt_.get(node)]; }

LocationSet AliasAnalysis::readsAlone(const Node* node) const {
  LocationSet out;
  if (node->hasBlocks()) return out;
  for (const Use& u : node->inputs()) out.add(reachable(u.value));
  return out;
}

AliasAnalysis::Gathered AliasAnalysis::gather(const Node* node) const {
  Gathered all;
  auto add = [&](const Node* n) {
    const Facts& f = factsOf(n);
    all.reads.add(readsAlone(n));
    all.writes.add(f.writes);
    all.effects |= f.effects;
  };
  add(node);
  for (Block* b : node->blocks()) {
    forEachNode(b, add);
    for (const Use& u : b->results()) all.reads.add(reachable(u.value));
  }
  return all;
}

LocationSet AliasAnalysis::reads(const Node* node) const {
  return node->hasBlocks() ? gather(node).reads : readsAlone(node);
}

LocationSet AliasAnalysis::writes(const Node* node) const {
  return node->hasBlocks() ? gather(node).writes : factsOf(node).writes;
}

bool AliasAnalysis::hasEffects(const Node* node) const {
  return node->hasBlocks() ? gather(node).effects : factsOf(node).effects;
}

bool AliasAnalysis::conflict(const Node* a, const Node* b) const {
  Gathered x = gather(a), y = gather(b);
  if (x.effects && y.effects) return true;
  return x.writes.intersects(y.reads) || x.writes.intersects(y.writes) || y.writes.intersects(x.reads);
}

}  // namespace tscompile
