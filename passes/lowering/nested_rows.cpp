// Nested tensors as nn.TransformerEncoder makes them: rows of several lengths, which the places that a mask counts in
// each row tell. Padded rows whose padding no other place sees are the same; what layers make of the padding itself is
// hidden where the nested tensor becomes a padded one.
//
// Each value that may be nested, as far as branches carry it, becomes the padded tensor with a second value beside it:
// the mask of its rows, or None where it is not nested. What only dense tensors can go through raises for the others.
#include "ir/values/aten.h"
#include "ir/values/kind_set.h"
#include "passes/lowering/clean_up.h"
#include "passes/rewrite/edits.h"

#include <map>
#include <set>

namespace tscompile {
namespace {

const Symbol kPadRows = Symbol::of("tscompile::pad_rows");
const Symbol kIsNested = Symbol::of("prim::is_nested");
constexpr size_t kMaskOfLayer = 18, kKindOfMask = 19;
constexpr int64_t kMaskOfKeys = 1;

class NestedRows {
 public:
  NestedRows(Graph& graph, RewriteContext& context) : graph_(graph), context_(context) {}

  bool run() {
    std::vector<Node*> roots, aligned;
    forEachNode(graph_, [&](Node* n) {
      if (n->kind() == aten::_nested_tensor_from_mask && n->inputCount() == 3 && isConstant(n->input(2), IValue(false)))
        roots.push_back(n);
      if (n->kind() == aten::_nested_tensor_from_mask_left_aligned && n->output()->hasUses()) aligned.push_back(n);
    });
    if (roots.empty()) return false;
    // A model that asks takes layers with a mask for the others: the same layers. What differs is the padding at the
    // end.
    whereAligned_ = !aligned.empty();
    for (Node* n : aligned) replaceValue(n->output(), context_.before(n).constant(IValue(true)));
    for (Node* n : roots) add(n->output(), n->input(1));
    while (!open_.empty()) {
      Value* v = open_.back();
      open_.pop_back();
      std::vector<std::pair<Node*, size_t>> uses;
      for (const Use& use : v->uses()) uses.emplace_back(use.user, use.index());
      for (auto [user, index] : uses) follow(user, index, rows_.at(v));
    }
    for (Node* n : roots) {
      replaceValue(n->output(), n->input(0));
      n->destroy();
    }
    for (Node* n : gone_) n->destroy();
    context_.facts.refresh();
    return true;
  }

 private:
  static bool isConstant(const Value* v, const IValue& value) {
    const IValue* known =
        v->node() && v->node()->kind() == sym::Constant ? v->node()->attributeValue(sym::value) : nullptr;
    return known && sameBits(*known, value);
  }

  void add(Value* v, Value* rows) {
    if (rows_.emplace(v, rows).second) open_.push_back(v);
  }

  // Its answer is that of the rows.
  bool asksForOptions(const Node* n) {
    const Operator* op = context_.facts.resolve(n);
    return op && op->has(Trait::ReadsOptions);
  }

  void follow(Node* n, size_t index, Value* rows) {
    if (n->isReturn() && n->block()->owner() && n->block()->owner()->kind() == sym::If)
      return carry(n->block(), index, rows);
    if (n->kind() == sym::unchecked_cast) return add(n->output(), rows);
    if (n->kind() == kIsNested) return replaceValue(n->output(), isThere(n, rows));
    if (n->kind() == aten::dim || asksForOptions(n)) return;
    if (n->kind() == aten::_transformer_encoder_layer_fwd && index == 0 && n->inputCount() == kKindOfMask + 1)
      return maskPadding(n, rows);
    if (n->kind() == aten::to_padded_tensor && index == 0 && n->inputCount() == 3) return pad(n, rows);
    refuse(n, rows);
  }

  Value* isThere(Node* n, Value* rows) {
    Builder b = context_.before(n);
    return b.call(aten::isnot_, {rows, b.constant(IValue(), types().none)}, types().boolean);
  }

  // The other branches have no rows, unless they turn out to.
  void carry(Block* block, size_t index, Value* rows) {
    Node* owner = block->owner();
    auto [at, fresh] = beside_.emplace(std::pair{owner, index}, owner->outputCount());
    if (fresh) {
      for (Block* b : owner->blocks()) b->addResult(context_.before(b->returnNode()).constant(IValue(), types().none));
      owner->addOutput(optionalType(types().tensor));
    }
    block->returnNode()->replaceInput(at->second, rows);
    if (fresh) add(owner->output(index), owner->output(at->second));
  }

  // Where the rows have none: what their masks leave out is what the layer does not see.
  Value* paddingOf(Builder& b, Value* rows) {
    if (whereAligned_) return b.call(aten::logical_not, {rows}, types().tensor);
    Value *none = b.constant(IValue(), types().none), *one = b.constant(IValue(int64_t{1}));
    Value* dims = b.list(std::vector<Value*>{one}, types().integer);
    Value* lengths = b.call(aten::sum, {rows, dims, b.constant(IValue(true)), none}, types().tensor);
    Value* length = b.call(aten::size, {rows, one}, types().integer);
    Value* places = b.call(aten::arange, {length, none, none, none, none}, types().tensor);
    return b.call(aten::ge, {places, lengths}, types().tensor);
  }

  void maskPadding(Node* n, Value* rows) {
    if (rows->type()->isTensor()) {
      Builder b = context_.before(n);
      n->replaceInput(kMaskOfLayer, paddingOf(b, rows));
      n->replaceInput(kKindOfMask, b.constant(IValue(kMaskOfKeys)));
    } else {
      Node* choice = context_.before(n).insert(sym::If, {isThere(n, rows)}, 0);
      Block *nested = choice->addBlock(), *dense = choice->addBlock();
      Builder b = context_.before(nested->returnNode());
      nested->addResult(paddingOf(b, b.call(sym::unchecked_cast, {rows}, types().tensor)));
      nested->addResult(b.constant(IValue(kMaskOfKeys)));
      dense->addResult(n->input(kMaskOfLayer));
      dense->addResult(n->input(kKindOfMask));
      n->replaceInput(kMaskOfLayer, choice->addOutput(optionalType(types().tensor)));
      n->replaceInput(kKindOfMask, choice->addOutput(optionalType(types().integer)));
    }
    add(n->output(), rows);
  }

  void pad(Node* n, Value* rows) {
    Builder b = context_.before(n);
    if (!rows->type()->isTensor()) rows = b.call(aten::_unwrap_optional, {rows}, types().tensor);
    Value* padded = b.call(kPadRows, {n->input(0), rows, n->input(1), n->input(2), b.constant(IValue(whereAligned_))},
                           types().tensor);
    replaceValue(n->output(), padded);
    gone_.push_back(n);
  }

  void refuse(Node* n, Value* rows) {
    if (!refused_.emplace(n->block(), rows).second) return;
    Node* choice = context_.before(n).insert(sym::If, {isThere(n, rows)}, 0);
    Builder b = context_.before(choice->addBlock()->returnNode());
    choice->addBlock();
    b.insert(
        sym::RaiseException,
        {b.constant(IValue("nested tensors are computed where they go through layers of nn.TransformerEncoder to a "
                           "padded tensor, and nowhere else")),
         b.constant(IValue(), types().none)},
        0);
  }

  Graph& graph_;
  RewriteContext& context_;
  bool whereAligned_ = false;
  std::map<Value*, Value*> rows_;                      // of what may be nested
  std::vector<Value*> open_;                           // whose uses were not followed yet
  std::map<std::pair<Node*, size_t>, size_t> beside_;  // the output of a branch with the rows of another one
  std::set<std::pair<Block*, Value*>> refused_;
  std::vector<Node*> gone_;
};

}  // namespace

bool nestedRows(Graph& graph, RewriteContext& context) { return NestedRows(graph, context).run(); }

}  // namespace tscompile
