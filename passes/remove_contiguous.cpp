// Removes aten::contiguous where nobody can tell: no node asks later for the strides of the value or of something made
// from it, no memory is written that it may share or not, and the caller gets none of it.
#include "ir/side_table.h"
#include "passes/passes.h"

#include <algorithm>

namespace tscompile {
namespace {

// Operators that tell a tensor from another one with the same elements.
bool tellsApart(Symbol kind) {
  static const Symbol kIs = Symbol::of("aten::__is__"), kIsNot = Symbol::of("aten::__isnot__");
  return GraphFacts::asksForStrides(kind) || kind == kIs || kind == kIsNot;
}

// Results that lie in memory the same way however the arguments do.
bool setsStrides(const Node* n, GraphFacts& facts) {
  static const Symbol kProducts[] = {Symbol::of("aten::linear"), Symbol::of("aten::matmul"), Symbol::of("aten::mm"),
                                     Symbol::of("aten::bmm"), Symbol::of("aten::addmm")};
  if (n->kind() == Symbol::of("aten::contiguous") && n->inputCount() == 2) return facts.integer(n->input(1)) == 0;
  return std::find(std::begin(kProducts), std::end(kProducts), n->kind()) != std::end(kProducts);
}

bool isKnown(const Node* n, GraphFacts& facts) {
  static const Symbol kOwn[] = {sym::Constant,
                                sym::TupleConstruct,
                                sym::TupleUnpack,
                                sym::TupleIndex,
                                sym::TupleSlice,
                                sym::ListConstruct,
                                sym::ListUnpack,
                                sym::DictConstruct,
                                sym::GetAttr,
                                sym::isinstance,
                                sym::unchecked_cast,
                                sym::Uninitialized,
                                sym::If,
                                sym::Loop};
  if (std::find(std::begin(kOwn), std::end(kOwn), n->kind()) != std::end(kOwn)) return true;
  const Operator* op = facts.resolve(n);
  return op && op->isImplemented();
}

// Values whose strides some node depends on: found backwards from the nodes that ask.
class StridesThatMatter {
 public:
  StridesThatMatter(Graph& graph, GraphFacts& facts) : matters_(graph) {
    forEachNode(graph, [&](Node* n) {
      if (tellsApart(n->kind()) || !isKnown(n, facts)) inputsMatter(n);
    });
    while (!todo_.empty()) {
      const Value* v = todo_.back();
      todo_.pop_back();
      if (const Node* n = v->node())
        throughNode(n, v->index(), facts);
      else
        throughParameter(v);
    }
  }
  bool of(const Value* v) const { return matters_[v]; }

 private:
  void add(const Value* v) {
    if (matters_[v] || !AliasAnalysis::canRefer(v->type())) return;
    matters_[v] = true;
    todo_.push_back(v);
  }
  void inputsMatter(const Node* n) {
    for (const Use& u : n->inputs()) add(u.value);
  }
  void throughNode(const Node* n, size_t output, GraphFacts& facts) {
    if (n->kind() == sym::If || n->kind() == sym::Loop) {
      for (const Block* b : n->blocks()) add(b->result(output + (n->kind() == sym::Loop ? 1 : 0)));
      if (n->kind() == sym::Loop) add(n->input(output + 2));
    } else if (!setsStrides(n, facts)) {
      inputsMatter(n);
    }
  }
  // What a loop carries: parameter i + 1 is result i + 1 of the round before, at first input i + 2.
  void throughParameter(const Value* v) {
    const Block* b = v->block();
    const Node* owner = b->owner();
    if (!owner || owner->kind() != sym::Loop || v->index() == 0) return;
    add(b->result(v->index()));
    add(owner->input(v->index() + 1));
  }

  ValueTable<bool> matters_;
  std::vector<const Value*> todo_;
};

// Whether nobody outside can tell that what may be memory of its own is that of another value.
bool mayShare(const Value* copy, const Value* original, GraphFacts& facts) {
  if (!facts.escapes(copy)) return true;
  return original->node() && facts.isFresh(original->node()) && !facts.escapes(original);
}

}  // namespace

bool removeContiguous(Graph& graph, RewriteContext& context) {
  static const Symbol kContiguous = Symbol::of("aten::contiguous");
  std::vector<Node*> found;
  forEachNode(graph, [&](Node* n) {
    if (n->kind() == kContiguous && n->inputCount() == 2 && n->outputCount() == 1) found.push_back(n);
  });
  if (found.empty()) return false;
  StridesThatMatter strides(graph, context.facts);
  bool changed = false;
  for (Node* n : found) {
    Value *from = n->output(), *to = n->input(0);
    if (strides.of(from) || context.facts.isWritten(from) || context.facts.isWritten(to)) continue;
    if (!mayShare(from, to, context.facts)) continue;
    context.facts.replaced(from, to);
    from->replaceAllUsesWith(to);
    n->destroy();
    changed = true;
  }
  if (changed) context.facts.refresh();
  return changed;
}

}  // namespace tscompile
