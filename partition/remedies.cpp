#include "partition/remedies.h"

#include "ir/graph/node_text.h"
#include "ir/operators/view_twins.h"
#include "ir/support/text.h"
#include "ir/values/kind_set.h"
#include "ir/values/loop_limits.h"

#include <algorithm>
#include <unordered_set>

namespace tscompile {
namespace {

using Kind = Remedy::Kind;

// What a value is computed from, back to what somebody can say before the run.
class Provenance {
 public:
  Provenance(const Graph& graph, const OpRegistry& registry, const AliasAnalysis& aliases)
      : graph_(graph), registry_(registry), aliases_(aliases) {}

  std::vector<std::string> values, nones, tensors;  // inputs of the graph: "n"; of tensors nothing but sizes counts
  bool attributes = false;
  Remedy unknown;       // what nobody knows before the run, if there is such
  std::string written;  // a list that is changed on the way, if there is such
  std::string asked;    // what a loop on the way asks in each iteration, if there is such

  void find(const Value* start) {
    constexpr size_t kMost = 2000;
    add(start, false);
    for (; next_ < todo_.size() && unknown.empty(); ++next_) {
      if (next_ == kMost) return void(unknown = Kind::OfTooMuch);
      const Item item = todo_[next_];
      visit(item.value, item.sizesOnly);
    }
  }

 private:
  struct Item {
    const Value* value;
    bool sizesOnly;
  };

  void add(const Value* v, bool sizesOnly) {
    if (seen_.insert({v, sizesOnly}).second) todo_.push_back({v, sizesOnly});
  }

  void visitInput(const Value* v, bool sizesOnly) {
    if (v->block() != graph_.block()) return visitLoop(v->block()->owner(), v->index(), sizesOnly);
    if (v->type()->isTensor()) {
      if (!sizesOnly)
        unknown = Remedy(Kind::OfElements, {v->name()});
      else if (!v->type()->tensor().hasAllSizes())
        tensors.push_back(v->name());
    } else if (!canBeBound(v->type())) {
      unknown = Remedy(Kind::OfInput, {v->name()});
    } else if (holdsTensors(v->type()) && aliases_.isWritten(v)) {
      if (v->type()->is(TypeKind::Optional))
        nones.push_back(v->name());
      else
        unknown = Remedy(Kind::OfWrittenInput, {v->name()});
    } else {
      values.push_back(v->name());
    }
  }

  // A value that loops hand on (parameter `at` of the body; 0: the number of the iteration) is known once they are
  // unrolled.
  void visitLoop(const Node* loop, size_t at, bool sizesOnly) {
    if (loop->kind() != sym::Loop) return void(unknown = Remedy(Kind::OfResult, {nodeName(loop)}));
    add(loop->input(0), false);
    add(loop->input(1), false);
    const Value* goesOn = loop->block(0)->result(0);
    if (!goesOn->node() || goesOn->node()->kind() != sym::Constant) asked = "%" + goesOn->name();
    if (at == 0) return;
    add(loop->input(at + 1), sizesOnly);
    add(loop->block(0)->result(at), sizesOnly);
  }

  void visit(const Value* v, bool sizesOnly) {
    const Node* from = v->node();
    if (!from) return visitInput(v, sizesOnly);
    if (from->kind() == sym::Constant || from->kind() == sym::Uninitialized) return;
    if (from->kind() == sym::GetAttr) return void(attributes = true);
    if (from->kind() == sym::Loop) return visitLoop(from, v->index() + 1, sizesOnly);
    if (from->kind() == sym::If) {
      add(from->input(0), false);
      for (const Block* b : from->blocks()) add(b->result(v->index()), sizesOnly);
      return;
    }
    const bool isEmpty = from->kind() == sym::ListConstruct || from->kind() == sym::DictConstruct;
    if (from->hasBlocks() || from->subgraph() || from->kind() == sym::CallMethod || from->kind() == sym::CallFunction ||
        (from->inputCount() == 0 && !isEmpty))
      return void(unknown = Remedy(Kind::OfResult, {nodeName(from)}));
    if (!asksForIdentity(from)) visitOperator(from, v, sizesOnly);
  }

  void visitOperator(const Node* n, const Value* result, bool sizesOnly) {
    const Remedy elements(Kind::OfElementsIn, {nodeName(n)});
    const bool takesTensors =
        std::any_of(n->inputs().begin(), n->inputs().end(), [](const Use& u) { return holdsTensors(u.value->type()); });
    const Operator* op = registry_.resolve(*n);
    const bool infers =
        !op || n->kind().nameSpace() == "prim" || (op->isImplemented() && (op->def().infer || op->def().scalar));
    if (takesTensors && op && (op->has(Trait::DependsOnElements) || (sizesOnly && !infers)))
      return void(unknown = elements);
    if (takesTensors && !sizesOnly && !readsGeometry(n, op)) return void(unknown = elements);
    if (aliases_.isWrittenItself(result) && !result->type()->isTensor()) written = "%" + result->name();
    for (const Use& u : n->inputs()) add(u.value, holdsTensors(u.value->type()));
  }

  // Whether it asks if two values are the same. That an optional input is None can be said, whatever it may hold.
  bool asksForIdentity(const Node* n) {
    if (n->kind() != Symbol::of("aten::__is__") && n->kind() != Symbol::of("aten::__isnot__")) return false;
    const Value* v = n->input(0);
    const Value* other = n->input(1);
    if (!v->type()->is(TypeKind::None) && !other->type()->is(TypeKind::None)) {
      unknown = Remedy(Kind::OfIdentity, {v->name(), other->name()});
      return true;
    }
    if (v->node() || v->block() != graph_.block() || !v->type()->is(TypeKind::Optional)) return false;
    nones.push_back(v->name());
    return true;
  }
  // Operators that look at no elements of the tensors that they take.
  static bool readsGeometry(const Node* n, const Operator* op) {
    return n->kind() == sym::isinstance || (op && op->has(Trait::ReadsGeometry) && !op->has(Trait::ReadsStrides));
  }

  struct Hash {
    size_t operator()(const std::pair<const Value*, bool>& p) const {
      return std::hash<const Value*>()(p.first) * 2 + p.second;
    }
  };
  const Graph& graph_;
  const OpRegistry& registry_;
  const AliasAnalysis& aliases_;
  std::vector<Item> todo_;
  size_t next_ = 0;
  std::unordered_set<std::pair<const Value*, bool>, Hash> seen_;
};

// What has to be said for all of it to be known.
std::vector<Remedy> meansOf(const Provenance& o) {
  std::vector<Remedy> all;
  Remedy inputs(Kind::SupplyInputs);
  for (const std::string& n : o.values)
    if (std::find(o.nones.begin(), o.nones.end(), n) == o.nones.end()) {
      inputs.names.push_back(n);
      inputs.numbers.push_back(Remedy::Value);
    }
  inputs.names.insert(inputs.names.end(), o.nones.begin(), o.nones.end());
  inputs.numbers.resize(inputs.names.size(), Remedy::NoneValue);
  if (!inputs.names.empty()) all.push_back(std::move(inputs));
  if (!o.tensors.empty()) all.emplace_back(Kind::FixSizes, o.tensors);
  if (o.attributes) all.emplace_back(Kind::SupplyAttributes);
  return all;
}

}  // namespace

Remedy Remedies::ofWriteToView(const Node* writer) const {
  std::vector<const Node*> views;
  const Value* base = writer->input(0);
  while (base->node() && scatterOf(base->node()->kind(), registry_)) {
    views.push_back(base->node());
    base = base->node()->input(0);
  }
  if (views.empty()) return {};
  const std::string_view kind = writer->kind().text();
  std::string source = kind == "aten::copy_" ? "" : std::string(kind.substr(0, kind.size() - 1));
  if (views.size() == 1)
    return {Kind::NewPart,
            {std::string(scatterOf(views[0]->kind(), registry_)->text()), base->name(), std::move(source)}};
  std::vector<std::string> names = {base->name(), std::move(source)};
  for (const Node* v : views) {
    names.emplace_back(scatterOf(v->kind(), registry_)->text());
    names.push_back(v->input(0)->name());
  }
  return {Kind::NewParts, std::move(names)};
}

Remedy Remedies::ofWrite(const Node* writer) const {
  std::string_view kind = writer->kind().text();
  const Operator* op = registry_.resolve(*writer);
  if (!op) return {Kind::KnowWrites, {nodeName(writer)}};
  if (op->outCount()) return {Kind::WithoutOut, {std::string(kind)}};
  if (op->trains(*writer)) return {Kind::StopTraining, {op->schema().arguments[op->def().trained.training].name}};
  if (writer->inputCount() && writer->input(0)->node() && writer->input(0)->node()->kind() == sym::GetAttr)
    return Kind::KeepAttribute;
  if (kind.ends_with('_')) {
    std::string_view plain = kind.substr(0, kind.size() - 1);
    if (Remedy scattered = writer->inputCount() ? ofWriteToView(writer) : Remedy(); !scattered.empty())
      return scattered;
    if (registry_.isKnown(Symbol::of(plain))) return {Kind::NewValue, {std::string(plain)}};
  }
  return Kind::MakeAtOnce;
}

Remedy Remedies::ofControl(const Node* node) const {
  const bool loop = node->kind() == sym::Loop;
  if (!loop && node->kind() != sym::If) return {};
  Provenance origins(graph_, registry_, aliases_);
  origins.find(node->input(0));
  if (loop) {
    origins.find(node->input(1));
    const Value* goesOn = node->block(0)->result(0);
    if (!goesOn->node() || goesOn->node()->kind() != sym::Constant) origins.asked = "%" + goesOn->name();
  }
  if (!origins.unknown.empty()) return {Kind::KnowNothing, {}, {loop}, {std::move(origins.unknown)}};
  if (!origins.asked.empty()) return {Kind::CountIterations, {origins.asked}, {loop}};
  std::vector<Remedy> means = meansOf(origins);
  if (!origins.written.empty()) return {Kind::KnowLater, {origins.written}, {loop}, std::move(means)};
  const Node* maker = node->input(0)->node();
  if (means.empty() && maker && maker->kind() != sym::Constant) return {Kind::ComputeConstant, {nodeName(maker)}};
  if (!loop) return {Kind::KnowCondition, {}, {}, std::move(means)};
  int64_t nodes = 0;
  forEachNode(node->block(0), [&](const Node*) { ++nodes; });
  return {Kind::KnowCount, {}, {kMostUnrolledNodes, nodes}, std::move(means)};
}

bool holdsTensors(TypePtr t) {
  if (t->is(TypeKind::List) || t->is(TypeKind::Optional)) return holdsTensors(t->element());
  return t->isTensor() || std::any_of(t->elements().begin(), t->elements().end(), holdsTensors);
}

bool canBeBound(TypePtr t) {
  switch (t->kind()) {
    case TypeKind::List:
    case TypeKind::Optional:
      return canBeBound(t->element());
    case TypeKind::Tuple:
    case TypeKind::Dict:
      return std::all_of(t->elements().begin(), t->elements().end(), canBeBound);
    case TypeKind::Any:
    case TypeKind::Union:
      return true;
    default:
      return t->isTensor() || !AliasAnalysis::canRefer(t);
  }
}

}  // namespace tscompile
