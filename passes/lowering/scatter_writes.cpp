// Writes to views of memory that the graph makes itself become writes of the whole, which functionalise() can take
// away:
//
//   %v = aten::select(%b, %d, %i)             %v = aten::select_copy(%b, %d, %i)
//   %w = aten::add_(%v, %y, %one)      ->     %w = aten::add_(%v, %y, %one)
//                                             %s = aten::select_scatter(%b, %w, %d, %i)
//                                             %c = aten::copy_(%b, %s)
//
// Views of all elements (aten::view, aten::transpose) are turned back instead of scattered, where nothing simpler
// helps. Only where each other view of %b is made after the writes, or is used no more when they come: nobody else
// would see these. A view that is written and has other uses is made anew for each of them. A part that is all that is
// used of %b is copied first and takes its place. Traces of %b[%i] += %y copy what was written to where it is already;
// these copies go.
#include "ir/operators/view_twins.h"
#include "ir/values/aten.h"
#include "passes/rewrite/memory_order.h"
#include "passes/rewrite/operator_names.h"
#include "passes/rewrite/origins.h"
#include "passes/rewrite/rewrite.h"

#include <algorithm>
#include <limits>
#include <unordered_map>
#include <unordered_set>

namespace tscompile {
namespace {

class WriteScatterer {
 public:
  WriteScatterer(Graph& graph, RewriteContext& context)
      : graph_(graph), context_(context), facts_(context.facts), registry_(context.registry) {}

  bool run() {
    const bool dropped = dropCopiesOntoThemselves();
    if (scatterAll() || dropped) return true;
    takesTurns_ = true;
    return scatterAll();
  }

 private:
  using Writes = std::unordered_set<const Node*>;

  bool scatterAll() {
    bool changed = false;
    std::vector<Value*> bases;
    writers_.clear();
    overlapping_.clear();
    forEachNode(graph_, [&](Node* n) {
      if (n->hasBlocks() || facts_.isPure(n)) return;
      writers_.push_back(n);
      if (!writesFirst(n)) return;
      const bool isOfView = isPart(n->input(0)) || isMadeByView(n->input(0));
      if (!isOfView && !takesTurns_) return;
      Value* base = n->input(0);
      while (isPart(base)) base = base->node()->input(0);
      while (base->node() && !base->node()->hasBlocks() && writesFirst(base->node())) base = base->node()->input(0);
      const Node* maker = base->node();
      if (!isOfView && (!maker || maker->hasBlocks() || !facts_.isFresh(maker))) return;
      if (std::find(bases.begin(), bases.end(), base) == bases.end()) bases.push_back(base);
    });
    findTurns(bases);
    if (splitViews(bases)) {
      facts_.refresh();
      changed = true;
    }
    findTurns(bases);
    for (const Node* n : writers_)
      if (writesFirst(n) && mayOverlapItself(n)) overlapping_.push_back(n);
    for (Value* base : bases) changed |= scatter(base);
    if (changed) facts_.refresh();
    return changed;
  }

  // Whether the node writes its first argument, a tensor, and nothing else, and gives it.
  bool writesFirst(const Node* n) {
    const Operator* op = facts_.resolve(n);
    if (!op || !op->isImplemented() || n->outputCount() != 1 || n->inputCount() == 0) return false;
    const Schema& schema = op->schema();
    if (!schema.arguments[0].isWritten() || !schema.arguments[0].type->isTensor() || op->trains(*n)) return false;
    for (size_t i = 1; i < schema.arguments.size(); ++i)
      if (schema.arguments[i].isWritten()) return false;
    return n->input(0)->type()->isTensor() && n->output()->type()->isTensor() && !op->has(Trait::ChangesGeometry);
  }
  // A view of a part, with operators that copy it and put it back, or of the whole.
  bool isPart(const Node* n) { return isKnownNarrow(n) || isTwinned(n) || isTurn(n); }
  bool isTwinned(const Node* n) {
    return facts_.movesElements(n) && !facts_.asksForStrides(n) && copyOf(n->kind(), registry_) &&
           scatterOf(n->kind(), registry_);
  }
  // A slice that is there in full, or an error: what is put back is one.
  bool isKnownNarrow(const Node* n) {
    if (n->kind() != narrow_ || n->inputCount() != 4 || !facts_.resolve(n)) return false;
    const std::optional<int64_t> start = facts_.integer(n->input(2)), length = facts_.integer(n->input(3));
    int64_t end;
    return start && length && *start >= 0 && *length >= 0 && !__builtin_add_overflow(*start, *length, &end);
  }

  // What turns a view of all elements back: of those with other sizes, aten::reshape_as. Empty for other operators.
  static Symbol inverseOf(const Node* view) {
    static const std::unordered_map<Symbol, Symbol> kInverses = [] {
      std::unordered_map<Symbol, Symbol> inverses;
      for (auto [name, inverse] : {std::pair{"view_as_real", "view_as_complex"},
                                   {"view_as_complex", "view_as_real"},
                                   {"t", "t"},
                                   {"mT", "mT"},
                                   {"transpose", "transpose"},
                                   {"movedim", "movedim"},
                                   {"permute", "permute"}})
        inverses[named(name)] = named(inverse);
      return inverses;
    }();
    auto it = kInverses.find(view->kind());
    return it != kInverses.end() ? it->second : changesSizesAlone(view) ? aten::reshape_as : Symbol();
  }
  std::optional<Dims> inverseOrder(const Node* n) {
    const std::optional<Dims> order = n->kind() == aten::permute ? facts_.integers(n->input(1)) : std::nullopt;
    if (!order) return std::nullopt;
    Dims inverse = *order;
    const auto rank = static_cast<int64_t>(inverse.size());
    for (int64_t d = 0; d < rank; ++d) {
      const int64_t from = (*order)[d] < 0 ? (*order)[d] + rank : (*order)[d];
      if (from < 0 || from >= rank) return std::nullopt;
      inverse[from] = d;
    }
    return inverse;
  }
  // What gives a view for some strides only does so of what lies in order.
  bool findTurn(const Node* n) {
    const Symbol inverse = inverseOf(n);
    const Operator* op = inverse.empty() || n->outputCount() != 1 ? nullptr : facts_.resolve(n);
    if (!op || !n->output()->type()->isTensor() || op->overload() == "dtype") return false;
    if (inverse == aten::permute) return inverseOrder(n).has_value();
    return inverse != aten::reshape_as || n->kind() == aten::squeeze || n->kind() == aten::unsqueeze ||
           liesInOrder(n->input(0), facts_);
  }
  bool isTurn(const Node* n) {
    if (!takesTurns_) return false;
    auto it = turns_.find(n);
    if (it == turns_.end()) it = turns_.emplace(n, findTurn(n)).first;
    return it->second;
  }
  // Asked before the graph changes.
  void findTurns(std::vector<Value*> values) {
    turns_.clear();
    while (!values.empty()) {
      const Value* v = values.back();
      values.pop_back();
      for (const Use& u : v->uses())
        if (u.index() == 0 && !u.user->isReturn() && !u.user->hasBlocks() && (isPart(u.user) || writesFirst(u.user)))
          values.push_back(u.user->output());
    }
  }
  // The whole of what a view of all its elements has become.
  Value* turnedBack(Builder& builder, const Node* view, Value* part, Value* whole) {
    const Symbol inverse = inverseOf(view);
    std::vector<Value*> arguments{part};
    if (inverse == aten::reshape_as) arguments.push_back(whole);
    for (size_t k = 1; k < view->inputCount() && arguments.size() < view->inputCount() && inverse == view->kind(); ++k)
      arguments.push_back(view->input(k));
    if (inverse == movedim_) std::swap(arguments[1], arguments[2]);
    if (inverse == aten::permute) arguments[1] = builder.constant(intList(*inverseOrder(view)));
    return make(builder, inverse, arguments, whole->type());
  }

  // The operator that puts the part back into the whole, and its arguments after these two.
  Symbol putsBack(Builder& builder, const Node* view, std::vector<Value*>& arguments) {
    if (view->kind() != narrow_) {
      for (size_t k = 1; k < view->inputCount(); ++k) arguments.push_back(view->input(k));
      return *scatterOf(view->kind(), registry_);
    }
    const int64_t start = *facts_.integer(view->input(2));
    arguments.push_back(view->input(1));
    for (int64_t v : {start, start + *facts_.integer(view->input(3)), int64_t{1}})
      arguments.push_back(builder.constant(IValue(v)));
    return sliceScatter_;
  }
  static bool isContiguous(const Value* v) {
    static const Symbol kContiguous = named("contiguous");
    return v->node() && v->node()->kind() == kContiguous;
  }
  bool isPart(const Value* v) { return v->node() && v->type()->isTensor() && isPart(v->node()); }

  // Whether two values are the same view of one memory, step by step.
  bool isSameView(const Value* a, const Value* b) {
    for (; a != b; a = a->node()->input(0), b = b->node()->input(0))
      if (!isPart(a) || !isPart(b) || !isSameStep(a->node(), b->node())) return false;
    return true;
  }
  bool isSameStep(const Node* a, const Node* b) {
    if (a->kind() != b->kind() || a->inputCount() != b->inputCount()) return false;
    for (size_t i = 1; i < a->inputCount(); ++i) {
      const Value *x = a->input(i), *y = b->input(i);
      if (x != y && (!facts_.integer(x) || facts_.integer(x) != facts_.integer(y))) return false;
    }
    return true;
  }

  // The views that lead from a value to a part of it, the first one at the end. What writes gives what it writes.
  struct Part {
    const Value* whole;
    std::vector<const Node*> views;
  };
  Part partOf(const Value* v) {
    Part out{v, {}};
    while (const Node* n = out.whole->node()) {
      if (n->hasBlocks()) break;
      if (isPart(out.whole))
        out.views.push_back(n);
      else if (!writesFirst(n))
        break;
      out.whole = n->input(0);
    }
    return out;
  }

  // Where a view begins and ends in its dimension, as it says them: what is negative counts from the end.
  struct Range {
    const Value *from, *to;
    std::optional<int64_t> start, end, step;
  };
  std::optional<Range> rangeOf(const Node* view) {
    if (view->kind() == aten::select) {
      std::optional<int64_t> at = facts_.integer(view->input(2));
      if (!at) return std::nullopt;
      return Range{nullptr, nullptr, at, *at == -1 ? kToEnd : *at + 1, 1};
    }
    if (view->kind() != aten::slice || view->inputCount() != 5) return std::nullopt;
    auto numberOr = [this](const Value* v, int64_t none) -> std::optional<int64_t> {
      return v->type()->is(TypeKind::None) ? none : facts_.integer(v);
    };
    return Range{view->input(2), view->input(3), numberOr(view->input(2), 0), numberOr(view->input(3), kToEnd),
                 facts_.integer(view->input(4))};
  }
  // Whether one range ends where the other begins, or before it. Ends that count from the same side compare as they
  // are.
  static bool isBefore(const Range& a, const Range& b) {
    if (a.to && a.to == b.from && !a.to->type()->is(TypeKind::None)) return true;
    return a.end && b.start && *a.end != kToEnd && (*a.end < 0) == (*b.start < 0) && *a.end <= *b.start;
  }
  bool areApart(const Range& a, const Range& b) {
    if (isBefore(a, b) || isBefore(b, a)) return true;
    if (!a.start || !b.start || *a.start < 0 || *b.start < 0 || !a.step || a.step != b.step || *a.step < 1)
      return false;
    return (*a.start - *b.start) % *a.step != 0;
  }

  // Whether a value is new memory, and the other one is so too or the caller's.
  bool isApartFrom(const Value* made, const Value* other) {
    auto isMade = [this](const Value* v) { return v->node() && !v->node()->hasBlocks() && makesMemory(v->node()); };
    return isMade(made) && (isMade(other) || (!other->node() && !other->block()->owner()));
  }

  // Whether two parts of one memory have no element in common, or are the same: others raise where they lie in memory
  // without gaps, and depend on the order of elements where not.
  bool areSameOrApart(const Value* a, const Value* b) {
    auto [whole, x] = partOf(a);
    auto [other, y] = partOf(b);
    if (whole != other) return isApartFrom(whole, other) || isApartFrom(other, whole);
    for (; !x.empty() && !y.empty(); x.pop_back(), y.pop_back()) {
      if (isSameStep(x.back(), y.back())) continue;
      if (x.back()->inputCount() < 3 || y.back()->inputCount() < 3) return false;
      const std::optional<int64_t> dim = facts_.integer(x.back()->input(1));
      if (!dim || dim != facts_.integer(y.back()->input(1))) return false;
      const std::optional<Range> p = rangeOf(x.back()), q = rangeOf(y.back());
      return p && q && areApart(*p, *q);
    }
    return x.empty() && y.empty();
  }

  // Whether a node writes a part of memory of which it reads another one that is neither the same nor apart.
  bool mayOverlapItself(const Node* writer) {
    const LocationSet memory = facts_.aliases().writes(writer);
    for (size_t k = 1; k < writer->inputCount(); ++k)
      if (const Value* v = writer->input(k); refersTo(v, memory) && !areSameOrApart(writer->input(0), v)) return true;
    return false;
  }

  // x[:] of a dimension that there is.
  bool isAll(const Node* n) {
    if (n->kind() != aten::slice || n->inputCount() != 5 || !facts_.resolve(n)) return false;
    const std::optional<Range> range = rangeOf(n);
    const std::optional<int64_t> dim = facts_.integer(n->input(1));
    const auto rank = static_cast<int64_t>(facts_.rank(n->input(0)).value_or(0));
    return range && range->start == 0 && range->end == kToEnd && range->step == 1 && dim && *dim >= -rank &&
           *dim < rank;
  }

  // %w = op_(%v, ...), %c = copy_(%u, %w) where %u and %v are the same view; and other names for a tensor.
  bool dropCopiesOntoThemselves() {
    std::vector<Node*> copies;
    bool hasResizes = false;
    forEachNode(graph_, [&](Node* n) {
      const Operator* op = n->hasBlocks() ? nullptr : facts_.resolve(n);
      hasResizes |= op && GraphFacts::changesGeometry(*op);
      const Node* writer = n->kind() == aten::copy_ && n->inputCount() > 1 ? n->input(1)->node() : nullptr;
      if (n->kind() == aten::alias || n->kind() == aten::detach || (isAll(n) && facts_.isWritten(n->output())) ||
          (writer && !writer->hasBlocks() && writesFirst(writer) && isSameView(n->input(0), writer->input(0))))
        copies.push_back(n);
    });
    if (hasResizes || copies.empty()) return false;
    for (Node* n : copies) {
      n->output()->replaceAllUsesWith(n->input(0));
      n->destroy();
    }
    facts_.refresh();
    return true;
  }

  // Whether the view, or a part of it, is written.
  bool isWritten(const Value* view) {
    for (const Use& u : view->uses()) {
      const Node* n = u.user;
      if (u.index() != 0 || n->isReturn() || n->hasBlocks()) continue;
      if (writesFirst(n) || (isPart(n) && isWritten(n->output()))) return true;
    }
    return false;
  }
  struct Place {
    Node* user;
    size_t index;
    bool isFirst() const { return index == 0 && !user->isReturn() && !user->hasBlocks(); }
  };
  static std::vector<Place> placesOf(const Value* v) {
    std::vector<Place> places;
    for (const Use& u : v->uses()) places.push_back({u.user, u.index()});
    return places;
  }

  Value* makeAnew(Node* view, const Place& use) {
    std::vector<Value*> arguments;
    for (const Use& in : view->inputs()) arguments.push_back(in.value);
    Builder builder(graph_, use.user);
    builder.setPlaceOf(view);
    Value* made = make(builder, view->kind(), arguments, view->output()->type());
    use.user->replaceInput(use.index, made);
    return made;
  }
  // Uses of a view behind writes that come after it get views that are made behind these.
  bool makeLater(Node* view) {
    const LocationSet memory = facts_.aliases().locations(view->output());
    std::vector<const Node*> writes;
    for (const Node* w : writers_)
      if (const Node* place = placeIn(view->block(), w);
          place && view->isBefore(place) && facts_.aliases().writes(w).intersects(memory))
        writes.push_back(place);
    bool changed = false;
    for (const Place& use : placesOf(view->output())) {
      const Node* place = placeIn(view->block(), use.user);
      if (!place || std::ranges::none_of(writes, [&](const Node* w) { return w->isBefore(place); })) continue;
      makeAnew(view, use);
      changed = true;
    }
    return changed;
  }

  // Gives each use of a view that is written, and has other uses, a view of its own: all show the same memory.
  bool splitViews(const std::vector<Value*>& bases) {
    bool changed = false;
    std::vector<Value*> todo;
    for (Value* base : bases)
      if ((base->useCount() > 1 || takesTurns_) && base->node() && !base->node()->hasBlocks() &&
          facts_.isFresh(base->node()) && facts_.aliases().knows(base) &&
          !facts_.aliases().locations(base).reachOutside())
        todo.push_back(base);
    while (!todo.empty()) {
      const Value* whole = todo.back();
      todo.pop_back();
      for (const Place& part : placesOf(whole)) {
        Node* view = part.user;
        if (!part.isFirst() || !isPart(view)) continue;
        Value* shown = view->output();
        if (!isWritten(shown)) {
          if (facts_.aliases().knows(shown)) changed |= makeLater(view);
          todo.push_back(shown);
          continue;
        }
        for (const Place& use : placesOf(shown))  // what writes gives what it writes
          if (use.isFirst() && writesFirst(use.user)) use.user->output()->replaceAllUsesWith(shown);
        if (shown->useCount() == 1) {
          todo.push_back(shown);
          continue;
        }
        for (const Place& use : placesOf(shown)) todo.push_back(makeAnew(view, use));
        turns_.erase(view);
        view->destroy();
        changed = true;
      }
    }
    return changed;
  }

  // The one part that is used of memory, not only to be written.
  Node* solePart(Value* base) {
    if (base->useCount() != 1) return nullptr;
    const Use& use = *base->uses().begin();
    return use.index() == 0 && isPart(use.user) && !writerBehind(use.user) ? use.user : nullptr;
  }

  // Views whose elements lie at different places, and what may be one.
  static bool isSimpleView(Symbol kind) {
    static const std::unordered_set<Symbol> kKinds = [] {
      std::unordered_set<Symbol> kinds;
      for (const char* name : {"view", "reshape", "contiguous", "transpose", "permute", "t", "movedim", "unsqueeze",
                               "squeeze", "flatten", "unflatten", "to", "slice", "select", "narrow"})
        kinds.insert(named(name));
      return kinds;
    }();
    return kKinds.count(kind) != 0;
  }

  // What einsum gives is memory of its own where it multiplies; of one tensor it may be a view.
  bool makesMemory(const Node* n) {
    static const Symbol kEinsum = named("einsum");
    if (facts_.isFresh(n)) return true;
    const Node* factors = n->kind() == kEinsum && n->inputCount() > 1 ? n->input(1)->node() : nullptr;
    return factors && factors->kind() == sym::ListConstruct && factors->inputCount() > 1;
  }

  // What is, or may be by its schema, a view.
  bool isMadeByView(const Value* v) {
    const Node* n = v->node();
    return n && !n->hasBlocks() && (isSimpleView(n->kind()) || (makesMemory(n) && !facts_.isFresh(n)));
  }

  // Whether what the node writes may hold what it is given: lists, dicts, attributes.
  bool mayKeep(const Node* n) { return !facts_.isPure(n) && !writesFirst(n); }

  // Whether the node, and whatever is made from it that may hold the same memory, come before another one.
  bool endsBefore(const Node* n, const Node* end, std::unordered_set<const Node*>& seen) {
    if (!seen.insert(n).second) return true;
    const Node* place = placeIn(end->block(), n);
    if (!place || n->isReturn() || n->hasBlocks() || !place->isBefore(end)) return false;
    if (mayKeep(n)) return false;
    const bool isTensor = n->outputCount() == 1 && n->output()->type()->isTensor();  // a new list has the old items
    if (isTensor && facts_.isFresh(n) && !facts_.isStructural(n->kind())) return true;
    for (const Value* v : n->outputs()) {
      if (!AliasAnalysis::canRefer(v->type())) continue;
      for (const Use& u : v->uses())
        if (!endsBefore(u.user, end, seen)) return false;
    }
    return true;
  }

  // Whether from the node on it is all that holds the memory of its first argument, which was made in the same block.
  // What only asks for sizes holds none, and what writes gives what it writes.
  bool holdsAlone(const Node* n) {
    std::unordered_set<const Node*> seen;
    while ((isSimpleView(n->kind()) && n->inputCount() && facts_.isPure(n)) || writesFirst(n)) {
      const Value* v = n->input(0);
      const Node* maker = v->node();
      if (!maker || maker->hasBlocks() || maker->block() != n->block()) return false;
      if (maker->outputCount() != 1 && facts_.isStructural(maker->kind())) return false;  // they may share memory
      for (const Use& u : v->uses()) {
        const Operator* op = u.user->hasBlocks() ? nullptr : facts_.resolve(u.user);
        if (u.user != n && !(op && op->has(Trait::ReadsSizes)) && !endsBefore(u.user, n, seen)) return false;
      }
      if (maker->kind() == sym::Constant) return false;
      if (makesMemory(maker)) return true;
      n = maker;
    }
    return false;
  }

  // Views of the whole, and what may be one (contiguous, reshape), become memory of their own where nobody can tell.
  bool copyWhole(Value* base, const LocationSet& memory) {
    Node* maker = base->node();
    if (maker->outputCount() != 1 || !(makesMemory(maker) || holdsAlone(maker))) return false;
    if (isContiguous(base)) {
      maker->setKind(kOwnMemory);
      return true;
    }
    if (mayHaveGaps(base) && (showsGaps(base, memory) || showsOrder(base))) return false;  // a copy has none
    copyBehind(maker);
    return true;
  }
  // Whether the order of its dimensions may be told, and be another in a copy without gaps: one element lies anyhow
  // along its dimension, which has a place among the others all the same.
  bool showsOrder(const Value* tensor) {
    const TensorFacts& t = facts_.symbolic(tensor).type->tensor();
    const bool hasOnes =
        !t.hasRank || std::ranges::any_of(t.sizes, [](int64_t s) { return s == 1 || !isKnownSize(s); });
    return hasOnes && facts_.isSeen(tensor);
  }
  void copyBehind(Node* maker) {
    Value* base = maker->output();
    Builder after(graph_, maker);
    after.setPlaceOf(maker);
    after.setPointAfter(maker);
    Value* copy = after.call(kOwnMemory, {base, after.constant(IValue(), types().none)}, base->type());
    base->replaceAllUsesWith(copy);
    copy->node()->replaceInput(0, base);
  }
  bool mayHaveGaps(const Value* v) {
    for (; isMadeByView(v) && v->node()->inputCount(); v = v->node()->input(0))
      if (leavesGaps(v->node())) return true;
    return false;
  }

  bool refersTo(const Value* v, const LocationSet& memory) {
    return AliasAnalysis::canRefer(v->type()) &&
           (!facts_.aliases().knows(v) || facts_.aliases().reachable(v).intersects(memory));
  }

  // Whether a tensor with gaps may be told from one without: by its strides, or as what is made of it by the order of
  // its elements (contiguous, reshape) is a copy, which sees no later write, and would be a view.
  bool showsGaps(const Value* tensor, const LocationSet& memory) {
    if (facts_.isAskedForStrides(tensor)) return true;
    std::vector<const Value*> todo{tensor};
    std::unordered_set<const Value*> seen{tensor};
    while (!todo.empty()) {
      const Value* v = todo.back();
      todo.pop_back();
      for (const Use& u : v->uses()) {
        const Node* n = u.user;
        if (isViewByOrder(n) && isWrittenAfter(n, tensor->node()->block(), memory)) return true;
        if (n->isReturn() || n->hasBlocks() || (facts_.isFresh(n) && !facts_.isStructural(n->kind()))) continue;
        for (const Value* made : n->outputs())
          if (AliasAnalysis::canRefer(made->type()) && seen.insert(made).second) todo.push_back(made);
      }
    }
    return false;
  }
  bool isWrittenAfter(const Node* n, const Block* block, const LocationSet& memory) {
    const Node* place = placeIn(block, n);
    return std::ranges::any_of(writers_, [&](const Node* w) {
      if (!facts_.aliases().writes(w).intersects(memory)) return false;
      const Node* written = placeIn(block, w);
      return !place || !written || written == place || !written->isBefore(place);
    });
  }

  // The node in the block, or what holds it there; null if it is elsewhere.
  static const Node* placeIn(const Block* block, const Node* n) {
    while (n && n->block() != block) n = n->block()->owner();
    return n;
  }

  // What the whole answers as well.
  static bool asksOfWhole(const Node* n) {
    return n->kind() == Symbol::of("prim::dtype") || n->kind() == Symbol::of("prim::device");
  }

  // Follows a view as long as nobody but the next one, or a writer at the end, uses it.
  Node* writerBehind(Node* view) {
    while (true) {
      Use* only = nullptr;
      for (Use& u : view->output()->uses()) {
        if (asksOfWhole(u.user)) continue;
        if (only || u.index() != 0) return nullptr;
        only = &u;
      }
      if (!only || only->user->isReturn() || only->user->hasBlocks()) return nullptr;
      Node* user = only->user;
      if (!isPart(user)) return writesFirst(user) && !user->output()->hasUses() ? user : nullptr;
      view = user;
    }
  }

  // Finds the last node in the block that reads the memory by what the node gives; false if that may be kept elsewhere.
  // A write that takes it as an operand reads it before it writes.
  bool findLastReader(const Node* n, const Block* block, const LocationSet& memory, const Writes& writes,
                      const Node*& last, std::unordered_set<const Node*>& seen) {
    if (!seen.insert(n).second) return true;
    const Node* place = placeIn(block, n);
    if (!place || n->isReturn() || n->hasBlocks() || !facts_.isPure(n)) return false;
    if (!last || last->isBefore(place)) last = place;
    for (const Value* v : n->outputs()) {
      if (!refersTo(v, memory)) continue;
      for (const Use& u : v->uses()) {
        if (u.index() != 0 && u.user->block() == block && writes.contains(u.user)) {
          if (!last || last->isBefore(u.user)) last = u.user;
        } else if (!findLastReader(u.user, block, memory, writes, last, seen)) {
          return false;
        }
      }
    }
    return true;
  }

  bool scatter(Value* base) {
    const Node* maker = base->node();
    if (!maker || maker->hasBlocks() || maker->kind() == sym::Constant || !facts_.aliases().knows(base)) return false;
    const LocationSet memory = facts_.aliases().locations(base);
    for (const Node* w : overlapping_)
      if (facts_.aliases().writes(w).intersects(memory)) return false;
    if (!facts_.isFresh(maker)) return copyWhole(base, memory);
    if (memory.empty() || memory.reachOutside()) return false;
    if (Node* part = takesTurns_ ? nullptr : solePart(base); part && part->block() == base->block()) {
      if (showsGaps(part->output(), memory)) return false;  // a copy has none
      if (!facts_.isSeen(part->output()) || likeLiesInOrder(part->output(), facts_))
        part->setKind(*copyOf(part->kind(), registry_));
      else if (showsOrder(part->output()))
        return false;
      else
        copyBehind(part);
      return true;
    }
    std::vector<Node*> captures, scattered;
    Writes writes;
    std::vector<Value*> names{base};
    for (size_t i = 0; i < names.size(); ++i)
      for (Use& u : names[i]->uses()) {
        Node* n = u.user;
        if (u.index() == 0 && !n->isReturn() && !n->hasBlocks() && writesFirst(n)) {
          if (writes.insert(n).second) names.push_back(n->output());
        } else if (Node* writer = u.index() == 0 && isPart(n) ? writerBehind(n) : nullptr) {
          if (writes.insert(writer).second) scattered.push_back(writer);
        } else if (n->isReturn() || n->hasBlocks() || mayKeep(n) ||
                   std::any_of(n->outputs().begin(), n->outputs().end(),
                               [&](const Value* v) { return refersTo(v, memory); })) {
          captures.push_back(n);
        }
      }
    if (scattered.empty()) return false;
    for (const Node* w : writers_)
      if (facts_.aliases().writes(w).intersects(memory) && !writes.contains(w)) return false;
    const Block* block = base->block();
    for (const Node* c : captures) {
      std::unordered_set<const Node*> seen;
      const Node *captured = placeIn(block, c), *last = nullptr;
      const bool isForgotten = findLastReader(c, block, memory, writes, last, seen);
      for (const Node* w : writes) {
        const Node* written = placeIn(block, w);
        if (!captured || !written || captured == written) return false;
        const bool isReadBefore = isForgotten && (last->isBefore(written) || last == w);
        if (!written->isBefore(captured) && !isReadBefore) return false;
      }
    }
    for (Node* w : scattered) rewrite(w);
    return true;
  }

  static Value* make(Builder& builder, Symbol kind, const std::vector<Value*>& arguments, TypePtr type) {
    Value* made = builder.insert(kind, arguments)->output();
    made->setType(type);
    return made;
  }

  void rewrite(Node* writer) {
    std::vector<Node*> views;  // the innermost first
    for (Value* v = writer->input(0); isPart(v); v = v->node()->input(0)) views.push_back(v->node());
    std::vector<Value*> wholes{views.back()->input(0)};
    Builder before = context_.before(writer);
    for (size_t i = views.size(); i-- > 0;) {
      std::vector<Value*> arguments{wholes.back()};
      for (size_t k = 1; k < views[i]->inputCount(); ++k) arguments.push_back(views[i]->input(k));
      const TypePtr type = views[i]->output()->type();
      const Symbol kind = isTurn(views[i]) ? views[i]->kind() : *copyOf(views[i]->kind(), registry_);
      wholes.push_back(make(before, kind, arguments, type));
      if (isTurn(views[i]))
        wholes.back() = make(before, kOwnMemory, {wholes.back(), before.constant(IValue(), types().none)}, type);
    }
    writer->replaceInput(0, wholes.back());
    wholes.pop_back();
    Builder after(graph_, writer);
    after.setPlaceOf(writer);
    after.setPointAfter(writer);
    Value* part = writer->output();
    for (Node* view : views) {
      std::vector<Value*> arguments{wholes.back(), part};
      part = isTurn(view) ? turnedBack(after, view, part, wholes.back())
                          : make(after, putsBack(after, view, arguments), arguments, wholes.back()->type());
      wholes.pop_back();
    }
    Value* base = views.back()->input(0);
    after.call(aten::copy_, {base, part, after.constant(IValue(false), types().boolean)}, base->type());
    for (Node* view : views) {
      view->output()->replaceAllUsesWith(base);  // of those that ask for its dtype
      turns_.erase(view);
      view->destroy();
    }
  }

  Graph& graph_;
  RewriteContext& context_;
  GraphFacts& facts_;
  const OpRegistry& registry_;
  static constexpr int64_t kToEnd = std::numeric_limits<int64_t>::max();
  const Symbol narrow_ = named("narrow"), sliceScatter_ = named("slice_scatter"), movedim_ = named("movedim");
  bool takesTurns_ = false;                      // where nothing else changes
  std::unordered_map<const Node*, bool> turns_;  // whether a node gives a view of all elements
  std::vector<Node*> writers_;                   // and other nodes with effects
  std::vector<const Node*> overlapping_;         // of them: what may read what it writes
};

}  // namespace

bool scatterWrites(Graph& graph, RewriteContext& context) { return WriteScatterer(graph, context).run(); }

}  // namespace tscompile
