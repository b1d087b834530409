#include "passes/serving/hide_later.h"

#include "ir/values/aten.h"
#include "passes/rewrite/formula.h"
#include "passes/serving/input_roles.h"
#include "passes/serving/moved_dim.h"
#include "passes/serving/small_instance.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <vector>

namespace tscompile {
namespace {

// Attention of each token to itself and those before it.
class Hiding {
 public:
  Hiding(Graph& graph, RewriteContext& context, Value* ids)
      : graph_(graph), c_(context), ids_(ids), small_{SmallInstance(context, 1, 5), SmallInstance(context, 1, 7)} {}

  bool run() {
    if (!small_[0].fits() || !small_[1].fits()) return false;
    std::vector<Node*> attention, softmax;
    for (Node* n : graph_.block()->nodes()) {
      const bool isAttention = n->kind() == aten::scaled_dot_product_attention && n->inputCount() > 5;
      if (isAttention && isTokens(n->input(0), 2) && isTokens(n->input(1), 2)) attention.push_back(n);
      const bool isLast = n->kind() == aten::softmax && isLastDim(n);
      if (isLast && isTokens(n->input(0), 1) && isTokens(n->input(0), 2)) softmax.push_back(n);
    }
    for (Node* n : attention) {
      Formula f(n, c_);
      if (GraphFacts::isNone(n->input(3)))
        n->replaceInput(5, f.flag(true));
      else if (c_.facts.boolean(n->input(5)) != true)
        n->replaceInput(3, hidden(n->input(3), small_[0].dtype(n->input(3)) == DType::Bool, f));
    }
    for (Node* n : softmax) {
      Formula f(n, c_);
      Value *scores = n->input(0), *seen = hidden(scores, false, f);
      std::vector<std::pair<Node*, size_t>> later;  // what asks for rows that see nothing, too
      for (const Use& u : scores->uses())
        if (seen->node()->isBefore(u.user)) later.emplace_back(u.user, u.index());
      for (auto [user, slot] : later) user->replaceInput(slot, seen);
    }
    return !attention.empty() || !softmax.empty();
  }

 private:
  bool isTokens(const Value* v, size_t fromEnd) const {
    return std::ranges::all_of(small_, [&](const SmallInstance& s) {
      std::optional<Dims> sizes = s.sizes(v);
      return sizes && sizes->size() >= fromEnd && (*sizes)[sizes->size() - fromEnd] == s.tokens;
    });
  }
  bool isLastDim(const Node* n) const {
    std::optional<Dims> sizes = small_[0].sizes(n->input(0));
    return sizes && dimNamed(n->input(1), sizes->size(), c_.facts) == sizes->size() - 1;
  }
  Value* hidden(Value* v, bool isChoice, Formula& f) {
    Value* tokens = f.op(aten::size, {ids_, f.integer(1)});
    Value* places = f.op(aten::arange, {tokens, f.none(), f.none(), f.none(), f.none()});
    Value* later = f.op(aten::gt, {places, f.op(aten::unsqueeze, {places, f.integer(1)})});
    Value* nothing = isChoice ? f.integer(0) : f.number(-std::numeric_limits<double>::infinity());
    return f.op(aten::masked_fill, {v, later, nothing});
  }

  Graph& graph_;
  RewriteContext& c_;
  Value* ids_;
  const std::array<SmallInstance, 2> small_;
};

}  // namespace

bool hideLaterTokens(Graph& graph, const OpRegistry& registry, Evaluator& evaluator) {
  Diagnostics ignored;
  RewriteContext context(graph, registry, ignored);
  context.evaluator = &evaluator;
  for (Value* v : graph.inputs())
    if (const std::optional<ServingInput> role = roleByName(v); v->type()->isTensor())
      if (!role || role == ServingInput::Ids) return Hiding(graph, context, v).run();
  return false;
}

}  // namespace tscompile
