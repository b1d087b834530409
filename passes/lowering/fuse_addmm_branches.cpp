// Old scripts of a fully connected layer choose between two ways to say the same:
//   if x.dim() == 2: y = addmm(b, x, w)  else: y = matmul(x, w) + b
// Whatever the condition, the second way computes it.
#include "ir/values/aten.h"
#include "passes/rewrite/edits.h"
#include "passes/rewrite/rewrite.h"

namespace tscompile {
namespace {

// The nodes of a block without constants and transposed weights.
std::vector<Node*> workOf(const Block* block) {
  std::vector<Node*> work;
  for (Node* n : block->nodes())
    if (n->kind() != sym::Constant && n->kind() != aten::t) work.push_back(n);
  return work;
}

// The same value, or the transposed of the same.
bool sameOperand(const Value* a, const Value* b) {
  if (a == b) return true;
  auto isTransposed = [](const Value* v) {
    return v->node() && v->node()->kind() == aten::t && v->node()->inputCount() == 1;
  };
  return isTransposed(a) && isTransposed(b) && a->node()->input(0) == b->node()->input(0);
}

bool isOne(const Value* v, GraphFacts& facts) { return facts.number(v) == 1.0; }

Replacement rewrite(Node* n, RewriteContext& c) {
  if (n->outputCount() != 1 || n->blocks().size() != 2) return {};
  Block *flat = n->block(0), *general = n->block(1);
  std::vector<Node*> one = workOf(flat), two = workOf(general);
  if (one.size() != 1 || two.size() != 2) return {};
  Node *addmm = one[0], *product = two[0], *sum = two[1];
  if (addmm->kind() != aten::addmm || addmm->inputCount() != 5 || product->kind() != aten::matmul ||
      product->inputCount() != 2 || sum->kind() != aten::add || sum->inputCount() != 3)
    return {};
  if (flat->result(0) != addmm->output() || general->result(0) != sum->output()) return {};
  if (!isOne(addmm->input(3), c.facts) || !isOne(addmm->input(4), c.facts) || !isOne(sum->input(2), c.facts)) return {};
  bool swapped = sum->input(0) != product->output();
  const Value* bias = sum->input(swapped ? 0 : 1);
  if (sum->input(swapped ? 1 : 0) != product->output() || !sameOperand(addmm->input(0), bias) ||
      !sameOperand(addmm->input(1), product->input(0)) || !sameOperand(addmm->input(2), product->input(1)))
    return {};
  inlineBranch(n, 1);
  return Replacement::done();
}

}  // namespace

NodeRewrite fuseAddmmBranches() { return {"fuse_addmm_branches", {sym::If}, rewrite}; }

}  // namespace tscompile
