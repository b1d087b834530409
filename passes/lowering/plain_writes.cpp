// Writes that are said in ways that scatterWrites() and functionalise() know, or not at all:
//   a, b = x.chunk(2); a += y        -> a = x[0:n], ...     of the parts that a list holds views are written
//   x.fill_diagonal_(v)              -> diagonal(x).fill_(v)   but where tall ones take it up again
//   x.type_as(y)                     -> x.to(y)             which shows no memory of y
//   l += [x, y]                      -> l.append(x), l.append(y)
//   batch_norm(x, ..., mean, var, training)   keeps no statistics that nobody else reads
#include "ir/values/aten.h"
#include "passes/rewrite/edits.h"
#include "passes/rewrite/operator_names.h"
#include "passes/rewrite/rewrite.h"

#include <algorithm>

namespace tscompile {
namespace {

const Symbol kUnbind = named("unbind"), kChunk = named("chunk"), kSplit = named("split"),
             kSplitWithSizes = named("split_with_sizes"), kFillDiagonal = named("fill_diagonal_"),
             kExtend = named("extend"), kAddInPlace = named("add_");

// How long the parts of a dimension are that is split, so many of them; nothing for others.
std::optional<Dims> lengthsOf(const Node* list, int64_t size, size_t parts, GraphFacts& facts) {
  std::optional<Dims> lengths = facts.integers(list->input(1));
  if (!lengths) {
    const std::optional<int64_t> number = list->kind() == kUnbind ? 1 : facts.integer(list->input(1));
    if (!number || *number < 1) return std::nullopt;
    const int64_t length = list->kind() == kChunk ? size / *number + (size % *number != 0) : *number;
    lengths.emplace();
    for (int64_t rest = size; rest > 0 && lengths->size() < parts; rest -= length)
      lengths->push_back(std::min(length, rest));
  }
  int64_t rest = size;
  for (const int64_t length : *lengths) rest = length < 0 || length > rest ? -1 : rest - length;
  return lengths->size() == parts && rest == 0 ? lengths : std::nullopt;
}

Replacement unpackParts(Node* n, RewriteContext& c) {
  const Node* list = n->input(0)->node();
  const bool isUnbound = list && list->kind() == kUnbind && list->inputCount() == 2;
  const bool isSplit = list && list->inputCount() == 3 &&
                       (list->kind() == kChunk || list->kind() == kSplit || list->kind() == kSplitWithSizes);
  if ((!isUnbound && !isSplit) || list->output()->useCount() != 1 || !c.facts.resolve(list)) return {};
  if (std::ranges::none_of(n->outputs(), [&](const Value* v) { return c.facts.isWritten(v); })) return {};
  Value *whole = list->input(0), *dimension = list->input(list->inputCount() - 1);
  const std::optional<int64_t> dim = c.facts.integer(dimension);
  const std::optional<Dims> sizes = c.facts.sizes(whole);
  const auto rank = static_cast<int64_t>(sizes ? sizes->size() : 0);
  if (!dim || *dim < -rank || *dim >= rank) return {};
  const int64_t size = (*sizes)[*dim < 0 ? *dim + rank : *dim];
  const std::optional<Dims> lengths = lengthsOf(list, size, n->outputCount(), c.facts);
  if (!lengths) return {};
  Builder b = c.before(n);
  auto number = [&](int64_t v) { return b.constant(IValue(v)); };
  std::vector<Value*> parts;
  int64_t from = 0;
  for (size_t i = 0; i < lengths->size(); from += (*lengths)[i++])
    parts.push_back(
        isUnbound ? b.call(aten::select, {whole, dimension, number(from)})
                  : b.call(aten::slice, {whole, dimension, number(from), number(from + (*lengths)[i]), number(1)}));
  return parts;
}

Replacement fillDiagonal(Node* n, RewriteContext& c) {
  if (n->inputCount() != 3 || c.facts.rank(n->input(0)) != 2 || c.facts.boolean(n->input(2)) != false) return {};
  Builder b = c.before(n);
  auto number = [&](int64_t v) { return b.constant(IValue(v)); };
  Value* whole = n->input(0);
  n->output()->replaceAllUsesWith(whole);
  n->replaceInput(0, b.call(named("diagonal"), {whole, number(0), number(0), number(1)}));
  n->removeInput(2);
  n->setKind(aten::fill_);
  return Replacement::done();
}

Replacement convertLike(Node* n, RewriteContext& c) {
  if (n->inputCount() != 2 || !c.facts.resolve(n) || !c.facts.isWritten(n->input(1))) return {};
  Builder b = c.before(n);
  Value *no = b.constant(IValue(false), types().boolean), *none = b.constant(IValue(), types().none);
  for (Value* v : {no, no, none}) n->addInput(v);
  n->setKind(aten::to);
  return Replacement::done();
}

Replacement appendItems(Node* n, RewriteContext& c) {
  if (n->inputCount() != 2 || !n->input(0)->type()->is(TypeKind::List)) return {};
  const Node* added = n->input(1)->node();
  if (!added || added->kind() != sym::ListConstruct || added->inputCount() > kMostItems) return {};
  if (!c.facts.aliases().knows(n->input(1)) || c.facts.aliases().isWrittenItself(n->input(1))) return {};
  Value* list = n->input(0);
  for (const Use& item : added->inputs()) c.before(n).call(aten::append, {list, item.value}, list->type());
  for (Value* v : n->outputs()) v->replaceAllUsesWith(list);
  n->destroy();
  return Replacement::done();
}

// Statistics of channels that are new memory and that nobody else reads.
Replacement forgetStatistics(Node* n, RewriteContext& c) {
  const Operator* op = c.facts.resolve(n);
  const std::optional<Dims> sizes = c.facts.sizes(n->input(0));
  if (!op || !op->trains(*n) || !sizes || sizes->size() < 2) return {};
  const TrainedArguments& trained = op->def().trained;
  for (size_t i = trained.first; i < trained.end; ++i) {
    const Value* v = n->input(i);
    const bool isOwn = v->node() && !v->node()->hasBlocks() && v->useCount() == 1 && c.facts.isFresh(v->node());
    if (!isOwn || c.facts.sizes(v) != Dims{(*sizes)[1]} || c.facts.dtype(v) != c.facts.dtype(n->input(0))) return {};
  }
  Value* none = c.before(n).constant(IValue(), types().none);
  for (size_t i = trained.first; i < trained.end; ++i) n->replaceInput(i, none);
  return Replacement::done();
}

}  // namespace

NodeRewrite plainWrites() {
  NodeRewrite r;
  r.name = "plain_writes";
  r.kinds = {sym::ListUnpack, kFillDiagonal,    aten::type_as,          kExtend,
             kAddInPlace,     aten::batch_norm, named("instance_norm"), named("native_batch_norm")};
  r.apply = [](Node* n, RewriteContext& c) -> Replacement {
    if (n->inputCount() == 0) return {};
    if (n->kind() == sym::ListUnpack) return unpackParts(n, c);
    if (n->kind() == aten::type_as) return convertLike(n, c);
    if (n->kind() == kExtend || n->kind() == kAddInPlace) return appendItems(n, c);
    return n->kind() == kFillDiagonal ? fillDiagonal(n, c) : forgetStatistics(n, c);
  };
  return r;
}

}  // namespace tscompile
