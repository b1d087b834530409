#include "partition/remedies.h"

#include "ir/size_use.h"
#include "ir/support/text.h"

#include <algorithm>
#include <unordered_set>

namespace tscompile {
namespace {

// At most three of the names.
std::string someOf(const std::vector<std::string>& names, std::string_view rest) {
  constexpr size_t kMost = 3;
  std::string some =
      join(std::span(names).first(std::min(names.size(), kMost)), ", ", [](const std::string& n) { return n; });
  return names.size() > kMost ? some + std::string(rest) : some;
}

// What a condition is computed from, back to inputs of the graph.
class Origins {
 public:
  Origins(const Graph& graph, const OpRegistry& registry, const AliasAnalysis& aliases)
      : graph_(graph), registry_(registry), aliases_(aliases) {}

  std::vector<std::string> values, tensors;  // inputs of the graph: "%n"; of tensors nothing but sizes counts

  // False if something that nobody knows before the run is among it.
  bool find(const Value* start) {
    constexpr size_t kMost = 64;
    add(start, false);
    for (size_t i = 0; i < todo_.size(); ++i)
      if (i == kMost || !visit(todo_[i].value, todo_[i].sizesOnly)) return false;
    return !values.empty() || !tensors.empty();
  }

 private:
  struct Item {
    const Value* value;
    bool sizesOnly;
  };

  void add(const Value* v, bool sizesOnly) {
    if (seen_.insert(v).second) todo_.push_back({v, sizesOnly});
  }

  bool visit(const Value* v, bool sizesOnly) {
    const Node* from = v->node();
    if (!from) {
      if (v->block() != graph_.block() || v->type()->isTensor() != sizesOnly) return false;
      if (!sizesOnly && (!canBeBound(v->type()) || aliases_.isWritten(v))) return false;
      (sizesOnly ? tensors : values).push_back("%" + v->name());
      return true;
    }
    if (from->kind() == sym::Constant) return true;
    if (from->hasBlocks() || from->subgraph()) return false;
    const bool asksForSizes = readsSizes(from->kind());
    if (sizesOnly) {
      const Operator* op = registry_.resolve(*from);
      if (!op || !op->isImplemented() || !op->def().infer || dependsOnElements(*op)) return false;
    } else if (!asksForSizes && AliasAnalysis::canRefer(v->type())) {
      return false;  // elements of tensors, attributes of modules
    }
    for (const Use& u : from->inputs()) {
      const bool isTensor = u.value->type()->isTensor();
      if (isTensor && !sizesOnly && !asksForSizes) return false;
      add(u.value, isTensor);
    }
    return true;
  }

  static bool canBeBound(TypePtr t) {
    if (t->is(TypeKind::List) || t->is(TypeKind::Optional)) return canBeBound(t->element());
    return !AliasAnalysis::canRefer(t);
  }

  const Graph& graph_;
  const OpRegistry& registry_;
  const AliasAnalysis& aliases_;
  std::vector<Item> todo_;
  std::unordered_set<const Value*> seen_;
};

// The operator that gives a new value where a write into this view changes a part of another.
std::string_view scatterOf(Symbol view) {
  if (view == Symbol::of("aten::select")) return "aten::select_scatter";
  if (view == Symbol::of("aten::slice")) return "aten::slice_scatter";
  if (view == Symbol::of("aten::diagonal")) return "aten::diagonal_scatter";
  return "";
}

}  // namespace

std::string Remedies::ofMark() const {
  const std::vector<std::string>& marks = options_.marks;
  if (marks.empty()) return "leave out what names it";
  if (marks.size() == 1) return "leave out " + marks[0];
  return "leave out the one that names it of " + someOf(marks, ", ...");
}

std::string Remedies::ofWrite(const Node* writer) const {
  std::string_view kind = writer->kind().text();
  const Operator* op = registry_.resolve(*writer);
  if (!op)
    return "an overload that is known to write nothing: see why " + std::string(kind) +
           (writer->outputCount() ? " (%" + writer->output()->name() + ")" : "") + " has none";
  if (op->outCount()) return "use the form of " + std::string(kind) + " without 'out'";
  if (op->trains(*writer))
    return "with false for '" + op->schema().arguments[op->def().trained.training].name +
           "', as in evaluation, it writes nothing";
  const Node* made = writer->inputCount() ? writer->input(0)->node() : nullptr;
  if (std::string_view scatter = made ? scatterOf(made->kind()) : ""; !scatter.empty())
    return std::string(scatter) + " makes a new value with the part replaced, which engines take, if all that reads %" +
           made->input(0)->name() + " later takes it";
  std::string_view plain = kind.substr(0, kind.size() - 1);
  if (kind.ends_with('_') && registry_.isKnown(Symbol::of(plain)))
    return std::string(plain) + " makes a new value, which engines take, if all that reads the old one later takes it";
  return "a value that is made in one piece instead of being changed would allow an engine";
}

std::string Remedies::ofControl(const Node* node) const {
  const bool loop = node->kind() == sym::Loop;
  auto isConstant = [](const Value* v) { return v->node() && v->node()->kind() == sym::Constant; };
  // A loop that asks in each turn whether there is another.
  if (loop && (!isConstant(node->input(1)) || !isConstant(node->block(0)->result(0)))) return "";
  Origins origins(graph_, registry_, aliases_);
  if (!origins.find(node->input(0))) return "";
  std::string known;
  if (!origins.values.empty())
    known = "lower --bind NAME=VALUE makes " + someOf(origins.values, " and others") + " known";
  if (!origins.tensors.empty())
    known += (known.empty() ? "fixed sizes of " : ", and fixed sizes of ") + someOf(origins.tensors, " and others") +
             " (--shape, or in the text) make " + (loop ? "the number of turns known" : "the condition known");
  return known + ": " + (loop ? "loops of few turns are unrolled" : "the branch that is not taken goes");
}

}  // namespace tscompile
