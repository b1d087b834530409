// In-place operators become functional ones where nobody can tell: memory that the graph makes itself, and of which no
// other view or holder is alive when it is written. Each write then makes a new value, and later uses take that one:
//
//   %a = aten::relu(%x)                 %a = aten::relu(%x)
//   %b = aten::add_(%a, %y, %n)    ->   %b = aten::add(%a, %y, %n)
//   %c = aten::neg(%a)                  %c = aten::neg(%b)
//
// So do those that change sizes and strides: %m = aten::unsqueeze_(%a, %0) becomes a view of %a, which later uses take.
//
// Where it is not proven that %b has sizes and dtype of %a, tscompile::check_in_place(%b, %a) raises what the operator
// would have raised.
#include "ir/graph/liveness.h"
#include "ir/values/aten.h"
#include "ir/values/rounded_number.h"
#include "ir/values/size_expression.h"
#include "passes/lowering/clean_up.h"
#include "passes/lowering/functional_form.h"
#include "passes/rewrite/memory_order.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

namespace tscompile {
namespace {

// How a node that writes its first argument is said without writing.
struct Functional {
  Symbol kind;
  size_t nones = 0;          // arguments to add
  bool needsCast = false;    // the result may be of another dtype than the argument
  bool needsCheck = false;   // it may be one that cannot be written to the argument: of other sizes or dtype
  bool isLaidAlike = false;  // it lies in memory as the argument does
};

Symbol withoutUnderscore(Symbol kind) {
  const std::string_view text = kind.text();
  return text.ends_with('_') ? Symbol::of(text.substr(0, text.size() - 1)) : Symbol();
}

// The operator of the same name without "_", for the same arguments.
const Operator* twinOf(const Node* n, const RewriteContext& context) {
  const Symbol kind = withoutUnderscore(n->kind());
  if (kind.empty()) return nullptr;
  std::vector<TypePtr> types;
  for (const Use& u : n->inputs()) types.push_back(u.value->type());
  const Operator* twin = context.registry.resolve(kind, types);
  return twin && twin->isImplemented() ? twin : nullptr;
}

// What gives a view where the node gives the tensor itself other sizes and strides; empty: it does not.
Symbol viewFor(const Node* n, RewriteContext& context) {
  const Operator* op = n->hasBlocks() ? nullptr : context.facts.resolve(n);
  if (!op || !op->has(Trait::ChangesGeometry) || op->has(Trait::TakesOverMemory)) return {};
  const Operator* twin = twinOf(n, context);
  if (!twin || !twin->has(Trait::MovesElements) || twin->has(Trait::MindsStrides) || twin->has(Trait::ReadsStrides))
    return {};
  const Schema& schema = twin->schema();
  const bool isView = !schema.isMutable() && schema.returns.size() == 1 && schema.returns[0].alias;
  return isView ? withoutUnderscore(n->kind()) : Symbol();
}

// One walk over the graph with one set of analyses; they hold for all nodes that were there before.
class Round {
 public:
  Round(Graph& graph, RewriteContext& context)
      : graph_(graph), context_(context), facts_(context.facts), known_(graph), functional_(graph), roots_(graph) {}

  bool run() {
    findWriters();
    if (!hasCandidates_) return false;
    aliases_ = &facts_.aliases();
    liveness_ = std::make_unique<Liveness>(graph_);
    forEachNode(graph_, [this](Node* n) {
      known_[n] = true;
      for (Block* b : n->blocks()) known_[b->returnNode()] = true;
    });
    known_[graph_.returnNode()] = true;
    for (Node* n : writers_) {
      LocationSet written = aliases_->writes(n);
      for (uint32_t location : written.list()) writersOf_[location].push_back(n);
    }
    std::vector<Value*> roots;
    std::unordered_set<const Value*> seen;
    for (const Node* n : writers_)
      if (!functional_[n].kind.empty() && seen.insert(rootOf(n)).second) roots.push_back(roots_[n]);
    for (Value* root : roots) changed_ |= root->type()->isTensor() ? tensor(root) : list(root);
    for (size_t i = garbage_.size(); i-- > 0;) garbage_[i]->destroy();
    return changed_;
  }

 private:
  // ---- which nodes write, and what they would be ----

  void findWriters() {
    forEachNode(graph_, [this](Node* n) {
      if (n->hasBlocks() || facts_.isPure(n)) return;
      writers_.push_back(n);
      const Operator* op = facts_.resolve(n);
      if (!op || !op->isImplemented() || (n->outputCount() != 1 && !changesList(n, *op))) return;
      functional_[n] = functionalOf(n, *op);
      hasCandidates_ |= !functional_[n].kind.empty();
    });
  }

  // What makes another list of a known one.
  bool changesList(const Node* n, const Operator& op) const {
    return op.overload() == "t" && (n->kind() == aten::append || n->kind() == reverse_ || n->kind() == insert_ ||
                                    (n->kind() == pop_ && n->inputCount() == 2));
  }

  Functional functionalOf(Node* n, const Operator& op) {
    if (changesList(n, op)) return {sym::ListConstruct};
    if (n->kind() == setItem_ && op.overload() == "t" && n->inputCount() == 3) return {setItem_};
    const Schema& schema = op.schema();
    if (schema.arguments.empty() || !schema.arguments[0].isWritten() || !n->output()->type()->isTensor()) return {};
    if (!n->input(0)->type()->isTensor()) return {};
    for (size_t i = 1; i < schema.arguments.size(); ++i)
      if (schema.arguments[i].isWritten()) return {};
    auto alike = [](Symbol kind, size_t nones = 0) {
      return Functional{.kind = kind, .nones = nones, .isLaidAlike = true};
    };
    if (n->kind() == aten::fill_ && op.overload() == "Scalar") return alike(aten::full_like, 5);
    if (n->kind() == aten::fill_ && op.overload() == "Tensor") return alike(Symbol::of("aten::fill"));
    if (n->kind() == aten::zero_) return alike(aten::zeros_like, 5);
    if (n->kind() == aten::copy_ && op.overload().empty()) return alike(aten::copy);
    if (const Symbol view = viewFor(n, context_); !view.empty()) return alike(view);
    if (!op.isInPlaceVariant()) return {};
    const Operator* twin = twinOf(n, context_);
    if (!twin || twin->def().kernel != op.def().kernel) return {};
    const Symbol without = withoutUnderscore(n->kind());
    if (twin->schema().isMutable()) return {};
    bool needsCast = !keepsDType(n, *twin, facts_);
    if (needsCast && !takesAlike(n, op, *twin, facts_)) return {};
    const bool isLaidAlike = twin->has(Trait::Elementwise) && liesAsComputed(n->input(0));
    return {without, 0, needsCast, needsCast || !keepsSizes(n, *twin, facts_), isLaidAlike};
  }

  // Whether it lies as what is computed of it element by element does, which is free along dimensions of one element.
  bool liesAsComputed(const Value* v) {
    const SymbolicValue known = facts_.symbolic(v);
    const TensorFacts& t = known.type->tensor();
    if (t.hasRank && std::ranges::all_of(t.sizes, [](int64_t s) { return s != 1 && isKnownSize(s); })) return true;
    for (const Node* n = v->node(); n && !n->hasBlocks(); n = n->input(0)->node()) {
      const Operator* op = facts_.resolve(n);
      if (!op || n->inputCount() == 0) return false;
      if (!op->isInPlaceVariant()) return op->has(Trait::Elementwise);
    }
    return false;
  }

  // The value that the node writes, before the first write that it passes on. Asked in text order.
  Value* rootOf(const Node* n) {
    const Node* maker = n->input(0)->node();
    Value* earlier = maker && known_[maker] ? roots_[maker] : nullptr;
    return roots_[n] = earlier ? earlier : n->input(0);
  }

  // ---- one memory: its names, its writers, its other uses ----

  struct Variable {
    Value* root = nullptr;
    LocationSet memory;
    std::unordered_set<const Value*> names;  // the root and what in-place operators return
    const Node* parts = nullptr;             // gives the root and other parts of the memory, which do not overlap
    std::unordered_set<const Node*> before;  // writers of the whole, before there were parts
    std::vector<Node*> users;                // in text order
    std::unordered_set<const Node*> writers;
    std::vector<uint32_t> writes;  // their places
  };

  bool gather(Variable& x) {
    x.memory = aliases_->locations(x.root);
    if (x.memory.empty() || x.memory.reachOutside()) return false;
    std::vector<Value*> todo{x.root};
    x.names.insert(x.root);
    std::unordered_set<const Node*> seen;
    while (!todo.empty()) {
      Value* v = todo.back();
      todo.pop_back();
      for (Use& u : v->uses()) {
        Node* n = u.user;
        if (!known_[n]) return false;  // made in this round: next time
        if (seen.insert(n).second) x.users.push_back(n);
        if (functional_[n].kind.empty()) continue;
        if (u.index() != 0) {  // what reads the memory that it writes may be refused
          if (!facts_.resolve(n)->has(Trait::Elementwise)) return false;
          continue;
        }
        x.writers.insert(n);
        const bool givesItself = n->outputCount() == 1 && n->kind() != pop_;
        if (givesItself && x.names.insert(n->output()).second) todo.push_back(n->output());
      }
    }
    std::sort(x.users.begin(), x.users.end(),
              [this](const Node* a, const Node* b) { return liveness_->place(a) < liveness_->place(b); });
    return true;
  }

  // Every write must go through one of the names; those inside of the root's own node have happened before.
  bool knowsAllWriters(Variable& x) {
    for (uint32_t location : x.memory.list()) {
      auto it = writersOf_.find(location);
      if (it == writersOf_.end()) continue;
      for (const Node* w : it->second) {
        uint32_t place = liveness_->place(w);
        if (x.root->node()->hasBlocks() && isInside(w, x.root->node())) continue;
        if (x.before.contains(w) || writesOtherPart(x, w)) continue;
        if (!x.writers.contains(w)) return false;
        x.writes.push_back(place);
      }
    }
    std::sort(x.writes.begin(), x.writes.end());
    x.writes.erase(std::unique(x.writes.begin(), x.writes.end()), x.writes.end());
    return !x.writes.empty();
  }

  bool isInside(const Node* n, const Node* owner) const {
    uint32_t place = liveness_->place(n);
    return place > liveness_->place(owner) && place < liveness_->end(owner);
  }
  // Whether a write happens inside of the node's blocks.
  bool writesInside(const Variable& x, const Node* owner) const {
    auto it = std::upper_bound(x.writes.begin(), x.writes.end(), liveness_->place(owner));
    return it != x.writes.end() && *it < liveness_->end(owner);
  }

  bool refersTo(const Value* v, const LocationSet& memory) const {
    return AliasAnalysis::canRefer(v->type()) && (!aliases_->knows(v) || aliases_->reachable(v).intersects(memory));
  }

  // Whether the node makes the memory known under other names: views, containers, results.
  bool captures(const Variable& x, const Node* n) const {
    if (n->isReturn() || n->hasBlocks()) return true;
    for (const Value* v : n->outputs())
      if (!x.names.contains(v) && refersTo(v, x.memory)) return true;
    for (const Use& u : n->inputs())
      if (!x.names.contains(u.value) && refersTo(u.value, x.memory)) return true;
    return false;
  }

  // Finds the last place where somebody reads the memory by what the node gives; false if that may be kept elsewhere.
  bool findLastReader(const Variable& x, const Node* n, uint32_t& last, std::unordered_set<const Node*>& seen) const {
    if (!seen.insert(n).second) return true;
    if (n->block() != x.root->block() || n->isReturn() || n->hasBlocks() || !facts_.isPure(n)) return false;
    last = std::max(last, liveness_->place(n));
    for (const Value* v : n->outputs()) {
      if (!refersTo(v, x.memory)) continue;
      for (const Use& u : v->uses())
        if (!known_[u.user] || !findLastReader(x, u.user, last, seen)) return false;
    }
    return true;
  }
  // Whether all that the node gives is read before the next write.
  bool isForgotten(const Variable& x, const Node* n) const {
    uint32_t last = 0;
    std::unordered_set<const Node*> seen;
    if (x.writers.contains(n) || !findLastReader(x, n, last, seen)) return false;
    auto next = std::upper_bound(x.writes.begin(), x.writes.end(), liveness_->place(n));
    return next == x.writes.end() || last < *next;
  }

  // Other names see the memory as it is at that moment, so no write may follow while they are read.
  bool capturesAfterWrites(const Variable& x) const {
    for (const Node* n : x.users) {
      if (!captures(x, n) || isForgotten(x, n)) continue;
      if (x.writes.back() >= liveness_->place(n)) return false;
      for (const Block* b = n->block(); b != x.root->block(); b = b->parent())
        if (b->owner()->kind() == sym::Loop && writesInside(x, b->owner())) return false;
    }
    return true;
  }

  // A result of prim::If whose memory is made inside and known outside under this name alone.
  bool isOnlyNameOfBranches(const Variable& x) {
    const Node* branch = x.root->node();
    indexNames();
    for (uint32_t location : x.memory.list()) {
      const std::vector<Value*>& names = namesOf_[location];
      if (names.empty() || !names[0]->node() || !isInside(names[0]->node(), branch)) return false;
      if (names[0]->node()->kind() == sym::Constant || names[0]->node()->hasBlocks()) return false;
      for (const Value* v : names) {
        if (x.names.contains(v)) continue;
        if (v->node() == branch) return false;
        const Node* home = v->node() ? v->node() : v->block()->owner();
        if (!home || liveness_->place(home) < liveness_->place(branch)) return false;
      }
    }
    return true;
  }
  // The values that refer to each location or hold something that does, in text order.
  void indexNames() {
    if (indexed_) return;
    indexed_ = true;
    auto add = [this](Value* v) {
      if (!AliasAnalysis::canRefer(v->type()) || !aliases_->knows(v)) return;
      LocationSet memory = aliases_->reachable(v);
      for (uint32_t location : memory.list()) namesOf_[location].push_back(v);
    };
    for (Value* v : graph_.inputs()) add(v);
    // Outputs of nodes with blocks come into being after what is inside.
    forEachNode(graph_, [&](Node* n) {
      if (!known_[n]) return;
      for (Block* b : n->blocks())
        for (Value* v : b->parameters()) add(v);
      for (Value* v : n->outputs())
        if (!n->hasBlocks()) add(v);
    });
    forEachNode(graph_, [&](Node* n) {
      if (known_[n] && n->hasBlocks())
        for (Value* v : n->outputs()) add(v);
    });
  }

  bool writesOtherPart(const Variable& x, const Node* w) const {
    const Value* root = roots_[w];
    return x.parts && root && root != x.root && root->node() == x.parts;
  }

  // Whether a list of tensors comes of one tensor by an operator of PyTorch: as pieces of it that do not overlap, or as
  // memory of their own.
  bool givesPieces(const Node* n) {
    if (!n->kind().text().starts_with("aten::") || !facts_.resolve(n) || n->inputCount() == 0) return false;
    if (n->outputCount() != 1 || !n->input(0)->type()->isTensor()) return false;
    const TypePtr type = n->output()->type();
    return type->is(TypeKind::List) && type->element()->isTensor();
  }

  // Whether the node gives a part of memory that the graph makes, and nobody uses the whole but for it: slices of it,
  // or all pieces of it (%l = aten::chunk(%whole, ..), %a, %b = prim::ListUnpack(%l)).
  bool isOnlyPart(const Node* n, Variable& x) {
    static const Symbol kParts[] = {Symbol::of("aten::slice"), Symbol::of("aten::select")};
    const Block* block = n->block();
    bool isPart = false;
    auto makerOfWhole = [&](const Node* part) -> const Node* {
      const Value* whole = part->inputCount() ? part->input(0) : nullptr;
      const Node* maker = whole && whole->useCount() == 1 ? whole->node() : nullptr;
      return maker && maker->block() == block ? maker : nullptr;
    };
    if (n->kind() == sym::ListUnpack) {
      x.parts = n;
      n = makerOfWhole(n);
      if (!n || !givesPieces(n)) return false;
      n = makerOfWhole(n);
      isPart = true;
    }
    for (; n && std::find(std::begin(kParts), std::end(kParts), n->kind()) != std::end(kParts); isPart = true)
      n = n->input(0)->type()->isTensor() ? makerOfWhole(n) : nullptr;
    for (; isPart && n && !functional_[n].kind.empty(); n = makerOfWhole(n)) x.before.insert(n);
    return isPart && n && n->kind() != sym::Constant && !n->hasBlocks() && facts_.isFresh(n);
  }
  // A new tensor in the place of a part lies in memory without gaps.
  bool showsStrides(const Variable& x) {
    return std::any_of(x.users.begin(), x.users.end(), [](const Node* n) { return n->isReturn() || n->hasBlocks(); }) ||
           isAnyName(x, [this](const Value* v) { return facts_.isAskedForStrides(v); });
  }
  template <class F>
  static bool isAnyName(const Variable& x, F&& f) {
    return std::any_of(x.names.begin(), x.names.end(), f);
  }

  bool tensor(Value* root) {
    Variable x;
    x.root = root;
    Node* maker = root->node();
    if (!maker || !known_[maker] || maker->kind() == sym::Constant) return false;
    bool isBranch = maker->kind() == sym::If, isPart = !isBranch && isOnlyPart(maker, x);
    if (!isBranch && !isPart && (maker->hasBlocks() || !facts_.isFresh(maker))) return false;
    if (!gather(x) || !knowsAllWriters(x) || !capturesAfterWrites(x)) return false;
    if (isPart && showsStrides(x)) return false;
    if (isBranch && !isOnlyNameOfBranches(x)) return false;
    keepsStrides_ = !isAnyName(x, [this](const Value* v) { return facts_.isSeen(v); }) || likeLiesInOrder(root, facts_);
    rename(x);
    return true;
  }

  // ---- the latest value at each use ----

  // A node whose block is being walked.
  struct Frame {
    Node* owner;
    size_t block;
    Value* before;             // the value in front of the node
    std::vector<Value*> ends;  // of its blocks
    bool carries;              // a loop that writes
  };

  void rename(Variable& x) {
    current_ = x.root;
    frames_.clear();
    for (size_t i = 0; i < x.users.size(); ++i) {
      Node* n = x.users[i];
      goTo(x, n->block(), true);
      bool writes = x.writers.contains(n);
      Value* before = current_;
      for (size_t k = 0; k < n->inputCount(); ++k)
        if (x.names.contains(n->input(k))) n->replaceInput(k, before);
      if (writes) current_ = makeFunctional(n, before);
    }
    goTo(x, x.root->block(), false);
  }

  // Leaves and enters blocks on the way to this one. `more`: uses are still to come.
  void goTo(const Variable& x, Block* block, bool more) {
    std::vector<Block*> path;
    for (Block* b = block; b != x.root->block(); b = b->parent()) path.push_back(b);
    size_t depth = 0;
    while (depth < frames_.size() && depth < path.size() &&
           frames_[depth].owner->block(frames_[depth].block) == path[path.size() - 1 - depth])
      ++depth;
    bool otherBlock =
        depth < frames_.size() && depth < path.size() && frames_[depth].owner == path[path.size() - 1 - depth]->owner();
    while (frames_.size() > depth + (otherBlock ? 1 : 0)) leave(more);
    for (size_t i = path.size() - depth; i-- > 0;) {
      Block* b = path[i];
      if (otherBlock) {
        Frame& f = frames_.back();
        f.ends[f.block] = current_;
        f.block = indexOf(b);
        current_ = f.before;
        otherBlock = false;
      } else {
        enter(x, b);
      }
    }
  }
  static size_t indexOf(const Block* b) {
    size_t i = 0;
    while (b->owner()->block(i) != b) ++i;
    return i;
  }

  void enter(const Variable& x, Block* b) {
    Node* owner = b->owner();
    bool carries = owner->kind() == sym::Loop && writesInside(x, owner);
    frames_.push_back({owner, indexOf(b), current_, std::vector<Value*>(owner->blocks().size()), carries});
    if (!carries) return;
    owner->addInput(current_);
    current_ = b->addParameter(x.root->type()->isTensor() ? types().tensor : x.root->type());
  }

  void leave(bool more) {
    Frame f = std::move(frames_.back());
    frames_.pop_back();
    f.ends[f.block] = current_;
    current_ = f.before;
    if (f.carries) {
      f.owner->block(0)->addResult(f.ends[0]);
      current_ = f.owner->addOutput(f.ends[0]->type()->isTensor() ? types().tensor : f.ends[0]->type());
      return;
    }
    bool differs = false;
    for (Value*& end : f.ends) {
      if (!end) end = f.before;
      differs |= end != f.before;
    }
    for (const Frame& outer : frames_) more |= outer.carries;
    if (!differs || !more) return;
    TypePtr type = f.ends[0]->type();
    for (size_t i = 0; i < f.ends.size(); ++i) {
      f.owner->block(i)->addResult(f.ends[i]);
      TypePtr both = unifyTypes(type, f.ends[i]->type());
      type = both ? both : type->isTensor() ? types().tensor : type;
    }
    current_ = f.owner->addOutput(type);
  }

  // `mul_(x, 0.1)` of 16 bits takes the number as it is rounded, and `mul` as it is.
  bool roundsFactor(const Node* n, const Value* before) {
    const TypeKind by = n->kind().name() == "mul_" ? n->input(1)->type()->kind() : TypeKind::None;
    if (by != TypeKind::Float && by != TypeKind::Int) return false;
    const DType dtype = facts_.symbolic(before).type->tensor().dtype;
    return dtype == DType::Undefined || hasSixteenBits(dtype);
  }
  void roundFactor(Node* n, Value* before) {
    static const Symbol kRounded = Symbol::of("tscompile::rounded_factor");
    Value* factor = n->input(1);
    if (!isRoundAlways(factor)) n->replaceInput(1, context_.before(n).call(kRounded, {factor, before}, factor->type()));
  }
  // Whether a constant is the same number in both formats.
  static bool isRoundAlways(const Value* factor) {
    const IValue* known = factor->node() ? factor->node()->attributeValue(sym::value) : nullptr;
    if (!known || !known->isNumber()) return false;
    const double x = known->toDouble();
    return roundedTo(DType::BFloat16, x) == x && roundedTo(DType::Float16, x) == x;
  }

  // The node itself changes, so that its output keeps name and place.
  Value* makeFunctional(Node* n, Value* before) {
    if (n->kind() == setItem_) return withItem(n, before);
    Functional f = std::exchange(functional_[n], {});
    if (roundsFactor(n, before)) roundFactor(n, before);
    n->setKind(f.kind);
    if (f.nones) {
      Value* none = context_.before(n).constant(IValue(), types().none);
      for (size_t i = 0; i < f.nones; ++i) n->addInput(none);
    }
    Value* v = n->output();
    const bool isLaid = f.isLaidAlike || keepsStrides_;
    if (!f.needsCast && !f.needsCheck && isLaid) return v;
    Builder b(graph_, n);
    b.setPlaceOf(n);
    b.setPointAfter(n);
    Value* written = v;
    TypePtr type = v->type();
    static const Symbol kCheckInPlace = Symbol::of("tscompile::check_in_place"),
                        kStridedLike = Symbol::of("tscompile::strided_like");
    if (f.needsCheck) written = b.call(kCheckInPlace, {written, before}, f.needsCast ? types().tensor : type);
    if (f.needsCast) written = b.call(aten::type_as, {written, before}, type);
    if (!isLaid) written = b.call(kStridedLike, {written, before}, type);
    if (v->isNamed()) {
      std::string name(v->givenName());
      v->setName("");
      written->setName(name);
    }
    if (f.needsCast || f.needsCheck) v->setType(types().tensor);
    return written;
  }

  // ---- lists ----

  // Changes of a list right where it is made, by append, insert, pop, reverse and `l[i] = x`:
  //   %l = prim::ListConstruct(%a)
  //   %m = aten::append(%l, %b)        ->   %m = prim::ListConstruct(%a, %b)
  bool list(Value* root) {
    Node* maker = root->node();
    if (!maker || !known_[maker]) return false;
    const std::optional<int64_t> length = lengthOf(root);
    if (length && items(root, *length)) return true;
    const size_t given = length ? static_cast<size_t>(*length) : maker->inputCount();
    if (maker->kind() != sym::ListConstruct && (!length || given > kMostItems)) return false;
    Variable x;
    x.root = root;
    if (!gather(x) || !knowsAllWriters(x) || !capturesAfterWrites(x)) return false;
    const size_t known = usersAtKnownPlaces(x, given);
    if (known < x.users.size() && !writesAmong(x, known)) return knowsLength(x, given);
    // Each reader between appends costs a list of its own.
    size_t items = given, made = 0;
    bool isRead = true;
    for (size_t i = 0; i < known; ++i) {
      const bool appends = x.writers.contains(x.users[i]);
      items += appends;
      if (!appends && !isRead) made += items;
      isRead = !appends;
    }
    if (made > 1024 + 16 * (items + x.users.size()) || losesItems(x, given, known)) return false;
    rebuild(x, maker, given, known);
    return true;
  }

  // How many users there are before items go in or out elsewhere than in its block and at places that are known.
  size_t usersAtKnownPlaces(const Variable& x, size_t given) {
    auto length = static_cast<int64_t>(given);
    for (size_t i = 0; i < x.users.size(); ++i) {
      const Node* n = x.users[i];
      if (!x.writers.contains(n)) continue;
      bool isKnown = n->block() == x.root->block();
      for (size_t k = 1; isKnown && k < n->inputCount(); ++k) isKnown = !x.names.contains(n->input(k));  // holds itself
      if (!isKnown || (n->kind() != reverse_ && n->kind() != aten::append && !placeIn(n, length))) return i;
      if (n->kind() != reverse_ && n->kind() != setItem_) length += n->kind() == pop_ ? -1 : 1;
    }
    return x.users.size();
  }
  static bool writesAmong(const Variable& x, size_t users) {
    return std::any_of(x.users.begin(), x.users.begin() + static_cast<ptrdiff_t>(users),
                       [&](const Node* n) { return x.writers.contains(n); });
  }
  // A list of which items are only set has a length that is known wherever they are: loops over it may become known.
  bool knowsLength(const Variable& x, size_t given) {
    for (const Node* w : x.writers)
      if (w->kind() != setItem_ && w->kind() != reverse_) return false;
    size_t found = garbage_.size();
    for (Node* n : x.users)
      if (n->kind() == aten::len) {
        n->output()->replaceAllUsesWith(context_.before(n).constant(IValue(static_cast<int64_t>(given))));
        garbage_.push_back(n);
      }
    return garbage_.size() > found;
  }
  // Where an item is set, or pop and insert find one, in a list of that length.
  std::optional<int64_t> placeIn(const Node* n, int64_t length) {
    std::optional<int64_t> at = facts_.integer(n->input(1));
    if (!at) return std::nullopt;
    if (*at < 0) *at += length;
    const int64_t end = n->kind() == insert_ ? length + 1 : length;
    return *at >= 0 && *at < end ? at : std::nullopt;
  }

  void change(std::vector<Value*>& items, Node* n) {
    if (n->kind() == aten::append) return items.push_back(n->input(1));
    if (n->kind() == reverse_) return std::reverse(items.begin(), items.end());
    const auto at = items.begin() + static_cast<ptrdiff_t>(*placeIn(n, static_cast<int64_t>(items.size())));
    if (n->kind() == setItem_) return void(*at = n->input(2));
    if (n->kind() == insert_) return void(items.insert(at, n->input(2)));
    n->output()->replaceAllUsesWith(*at);
    items.erase(at);
  }

  // How long a list is when it is made, of numbers or strings.
  std::optional<int64_t> lengthOf(const Value* root) const {
    if (!root->type()->is(TypeKind::List) || AliasAnalysis::canRefer(root->type()->element())) return std::nullopt;
    const Node* maker = root->node();
    if (maker->kind() == sym::ListConstruct) return static_cast<int64_t>(maker->inputCount());
    if ((maker->kind() != aten::copy && maker->kind() != list_) || maker->inputCount() != 1) return std::nullopt;
    const IValue* copied = GraphFacts::constant(maker->input(0));
    if (!copied || !copied->isList()) return std::nullopt;
    return static_cast<int64_t>(copied->toList().items.size());
  }

  // Items that are set at known places make new lists:
  //   aten::_set_item(%l, %i, %x)        ->   %m = %l[:i] + [%x] + %l[i + 1:]
  bool items(Value* root, int64_t length) {
    Variable x;
    x.root = root;
    if (length > kMostItems || !gather(x) || !knowsAllWriters(x) || !capturesAfterWrites(x)) return false;
    for (const Node* w : x.writers) {
      if (w->kind() != setItem_) return false;
      std::optional<int64_t> at = facts_.integer(w->input(1));
      if (!at || *at < -length || *at >= length) return false;
    }
    if (losesItems(x, static_cast<size_t>(length), x.users.size())) return false;
    length_ = length;
    rename(x);
    return true;
  }

  // Whether one of the first `known` users takes out or overwrites an item that nobody has seen, and whose making might
  // raise: nothing would ask for it any longer, while PyTorch, which keeps the list, makes it.
  bool losesItems(const Variable& x, size_t given, size_t known) {
    const Node* maker = x.root->node();
    std::vector<const Value*> items(given);  // null: seen, or never to be dropped
    for (size_t i = 0; i < given && maker->kind() == sym::ListConstruct; ++i) items[i] = maker->input(i);
    for (size_t i = 0; i < known; ++i) {
      const Node* n = x.users[i];
      if (!x.writers.contains(n) || n->block() != x.root->block()) {
        std::fill(items.begin(), items.end(), nullptr);
      } else if (n->kind() == aten::append) {
        items.push_back(n->input(1));
      } else if (n->kind() == reverse_) {
        std::reverse(items.begin(), items.end());
      } else {
        const auto at = items.begin() + static_cast<ptrdiff_t>(*placeIn(n, static_cast<int64_t>(items.size())));
        if (n->kind() == insert_) {
          items.insert(at, n->input(2));
          continue;
        }
        if (*at && mayRaise(*at) && (n->kind() == setItem_ || !n->output()->hasUses())) return true;
        if (n->kind() == setItem_)
          *at = n->input(2);
        else
          items.erase(at);
      }
    }
    return false;
  }
  // If nothing else asks for it.
  bool mayRaise(const Value* item) {
    const Node* n = item->node();
    if (!n || n->kind() == sym::Constant || item->useCount() > 1) return false;
    const Operator* op = facts_.resolve(n);
    return !op || !(op->has(Trait::ReadsSizes) || op->has(Trait::ReadsOptions));
  }

  Value* withItem(Node* n, Value* before) {
    functional_[n] = {};
    const int64_t given = *facts_.integer(n->input(1)), at = given < 0 ? given + length_ : given;
    Builder b = context_.before(n);
    TypePtr type = before->type();
    Value* one = b.constant(IValue(1));
    auto part = [&](int64_t from, int64_t to) {
      return b.call(aten::slice, {before, b.constant(IValue(from)), b.constant(IValue(to)), one}, type);
    };
    Value* item = n->input(2);
    Value* list = b.list(std::span<Value* const>(&item, 1), type->element());
    Value* head = b.call(aten::add, {part(0, at), list}, type);
    Value* whole = b.call(aten::add, {head, part(at + 1, length_)}, type);
    garbage_.push_back(n);  // who uses its output comes after it and takes the latest list
    return whole;
  }

  // The first users as they change what is made, and others behind them that take what it is then.
  void rebuild(Variable& x, Node* maker, size_t given, size_t known) {
    std::vector<Value*> items;
    Builder b = context_.before(maker);
    for (size_t i = 0; i < given; ++i)
      items.push_back(maker->kind() == sym::ListConstruct
                          ? maker->input(i)
                          : b.call(aten::getitem_, {maker->input(0), b.constant(IValue(static_cast<int64_t>(i)))},
                                   x.root->type()->element()));
    Value* current = x.root;
    Node* pending = nullptr;  // the last append, not read so far
    for (size_t i = 0; i < x.users.size(); ++i) {
      Node* n = x.users[i];
      if (i < known && x.writers.contains(n)) {
        functional_[n] = {};
        change(items, n);
        if (pending) garbage_.push_back(pending);
        pending = n;
        continue;
      }
      if (pending) {
        pending->setKind(sym::ListConstruct);
        pending->removeAllInputs();
        if (pending->outputCount() == 0) pending->addOutput(x.root->type());
        for (Value* v : items) pending->addInput(v);
        current = pending->output();
        current->setType(x.root->type());
        pending = nullptr;
      }
      for (size_t k = 0; k < n->inputCount(); ++k)
        if (x.names.contains(n->input(k))) n->replaceInput(k, current);
    }
    if (pending) garbage_.push_back(pending);
    // What still uses it are appends that go.
    for (Node* n : garbage_)
      if (n->inputCount() && x.names.contains(n->input(0))) n->removeAllInputs();
    if (!x.root->hasUses()) garbage_.push_back(maker);
  }

  Graph& graph_;
  RewriteContext& context_;
  GraphFacts& facts_;
  const AliasAnalysis* aliases_ = nullptr;
  std::unique_ptr<Liveness> liveness_;
  NodeTable<bool> known_;  // was there when the analyses were made
  NodeTable<Functional> functional_;
  NodeTable<Value*> roots_;     // of nodes that write
  std::vector<Node*> writers_;  // and other nodes with effects, in text order
  std::unordered_map<uint32_t, std::vector<Node*>> writersOf_;
  std::unordered_map<uint32_t, std::vector<Value*>> namesOf_;
  std::vector<Frame> frames_;
  std::vector<Node*> garbage_;
  Value* current_ = nullptr;
  static constexpr int64_t kMostItems = 64;
  int64_t length_ = 0;         // of the list whose items are set
  bool keepsStrides_ = false;  // nobody asks how new values lie, or they lie in order
  const Symbol setItem_ = Symbol::of("aten::_set_item"), reverse_ = Symbol::of("aten::reverse"),
               insert_ = Symbol::of("aten::insert"), pop_ = Symbol::of("aten::pop"), list_ = Symbol::of("aten::list");
  bool hasCandidates_ = false, indexed_ = false, changed_ = false;
};

}  // namespace

bool functionalise(Graph& graph, RewriteContext& context) {
  bool changed = false;
  // What one write gives up may be what kept another.
  while (Round(graph, context).run()) {
    changed = true;
    context.facts.refresh();
  }
  return changed;
}

}  // namespace tscompile
