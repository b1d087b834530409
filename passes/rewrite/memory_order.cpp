#include "passes/rewrite/memory_order.h"

#include "ir/values/aten.h"

#include <algorithm>
#include <set>
#include <unordered_set>
#include <vector>

namespace tscompile {
namespace {

using Kinds = std::unordered_set<Symbol>;

// Views that lie as their first argument does.
bool keepsPlaces(const Node* n, const Operator& op) {
  return changesSizesAlone(n) || n->kind() == aten::_unsafe_view || op.has(Trait::KeepsElements);
}
bool mayGiveViews(const Operator& op) {
  const std::vector<Argument>& returns = op.schema().returns;
  return op.has(Trait::MayShare) || op.has(Trait::GivesViews) ||
         std::any_of(returns.begin(), returns.end(), [](const Argument& r) { return r.alias && !r.alias->isWrite; });
}

// Whether it writes its first argument and gives it.
bool givesFirst(const Operator& op) {
  const Schema& schema = op.schema();
  return schema.returns.size() == 1 && schema.returns[0].alias && schema.returns[0].alias->isWrite &&
         !schema.arguments.empty() && schema.arguments[0].isWritten() && !op.has(Trait::ChangesGeometry);
}

// Whether it is told to lay out its result in another order.
bool asksForFormat(const Node* n, const Operator& op, const GraphFacts& facts) {
  constexpr int64_t kPreserve = 1;
  for (size_t i = 0; i < n->inputCount() && i < op.schema().arguments.size(); ++i)
    if (op.schema().arguments[i].name == "memory_format" && !GraphFacts::isNone(n->input(i)) &&
        facts.integer(n->input(i)).value_or(kPreserve + 1) > kPreserve)
      return true;
  return false;
}

// From a tensor back to all that decides how it lies.
class Search {
 public:
  explicit Search(GraphFacts& facts) : facts_(facts) {}

  bool allInOrder(const Value* tensor, bool isNew) {
    add(tensor, isNew);
    for (at_ = 0; at_ < found_.size() && isInOrder_; ++at_) isInOrder_ = look(found_[at_].value, found_[at_].isNew);
    remember();
    if (isInOrder_ && asksInputs_) facts_.noteInputOrder();
    return isInOrder_;
  }

 private:
  // isNew: only the order of dimensions matters, as an operator makes new memory of the value.
  struct Found {
    const Value* value;
    bool isNew;
    size_t by;  // at which place it was found
  };
  static uint8_t bit(bool isNew, bool isInOrder) {
    return static_cast<uint8_t>(1 << (2 * int{isNew} + int{isInOrder}));
  }

  void add(const Value* v, bool isNew) {
    if (!AliasAnalysis::canRefer(v->type())) return;
    const uint8_t known = facts_.knownOrders()[v];
    if (known & (bit(isNew, true) | bit(false, true))) return;
    if (known & bit(isNew, false)) isInOrder_ = false;
    if (seen_.emplace(v, isNew).second) found_.push_back({v, isNew, at_});
  }
  bool look(const Value* v, bool isNew) {
    if (facts_.mayChangeStrides(v)) return false;
    const Node* n = v->node();
    return (n ? through(n, v->index(), isNew) : throughParameter(v, isNew)) && isInOrder_;
  }
  // All that was found lies in order, or what was looked at last does not, nor does what led to it.
  void remember() {
    if (isInOrder_)
      for (const Found& f : found_) facts_.knownOrders()[f.value] |= bit(f.isNew, true);
    else
      for (size_t i = std::min(at_, found_.size()) - (at_ > 0);; i = found_[i].by) {
        facts_.knownOrders()[found_[i].value] |= bit(found_[i].isNew, false);
        if (i == 0) break;
      }
  }
  void addInputs(const Node* n, bool isNew) {
    for (const Use& u : n->inputs()) add(u.value, isNew);
  }

  bool through(const Node* n, size_t output, bool isNew) {
    if (n->kind() == sym::Constant) return isContiguous(GraphFacts::constant(n->output()));
    if (n->kind() == sym::If || n->kind() == sym::Loop) {
      throughBlocks(n, output, isNew);
      return true;
    }
    if (GraphFacts::isStructural(n->kind())) {
      addInputs(n, isNew);
      return true;
    }
    const Operator* op = facts_.resolve(n);
    return op && op->isImplemented() && throughOperator(n, *op, isNew);
  }
  bool throughOperator(const Node* n, const Operator& op, bool isNew) {
    if (facts_.setsStrides(n)) return true;
    if (asksForFormat(n, op, facts_)) return false;
    if (leavesGaps(n) && !isNew) return false;
    if (leavesGaps(n) || (mayGiveViews(op) && keepsPlaces(n, op))) {
      add(n->input(0), isNew);
      return true;
    }
    if (givesFirst(op)) {
      add(n->input(0), isNew);
      return true;
    }
    if (mayGiveViews(op) || op.has(Trait::OwnStrides)) return false;
    addInputs(n, true);
    return true;
  }
  static bool isContiguous(const IValue* v) {
    return v && (!v->isTensor() || !v->tensorImpl() || v->tensorImpl()->isContiguous());
  }

  void throughBlocks(const Node* n, size_t output, bool isNew) {
    const bool isLoop = n->kind() == sym::Loop;
    for (const Block* b : n->blocks()) add(b->result(output + (isLoop ? 1 : 0)), isNew);
    if (isLoop) add(n->input(output + 2), isNew);
  }
  // What a loop carries.
  bool throughParameter(const Value* v, bool isNew) {
    const Block* b = v->block();
    const Node* owner = b->owner();
    if (!owner) return isInputInOrder(v);
    if (owner->kind() != sym::Loop) return false;
    add(b->result(v->index()), isNew);
    add(owner->input(v->index() + 1), isNew);
    return true;
  }
  bool isInputInOrder(const Value* v) {
    asksInputs_ = true;
    return facts_.inputsLieInOrder() && !isTypedOtherwise(v);
  }
  static bool isTypedOtherwise(const Value* v) {
    if (!v->type()->isTensor() || !v->type()->tensor().hasStrides) return false;
    const TensorFacts& t = v->type()->tensor();
    return !std::ranges::equal(t.strides, contiguousStrides(t.sizes));
  }

  GraphFacts& facts_;
  std::set<std::pair<const Value*, bool>> seen_;
  std::vector<Found> found_;
  size_t at_ = 0;
  bool isInOrder_ = true, asksInputs_ = false;
};

}  // namespace

bool changesSizesAlone(const Node* n) {
  static const Kinds kinds{aten::view,    aten::view_as, aten::reshape,   aten::reshape_as,
                           aten::flatten, aten::squeeze, aten::unsqueeze, aten::unflatten};
  return kinds.contains(n->kind());
}

bool leavesGaps(const Node* n) {
  static const Kinds kinds{aten::slice, aten::select,           aten::narrow, aten::unbind,       aten::chunk,
                           aten::split, aten::split_with_sizes, aten::expand, aten::tensor_split, aten::expand_as};
  return kinds.contains(n->kind());
}

bool liesInOrder(const Value* tensor, GraphFacts& facts) { return Search(facts).allInOrder(tensor, false); }
bool likeLiesInOrder(const Value* tensor, GraphFacts& facts) { return Search(facts).allInOrder(tensor, true); }

}  // namespace tscompile
