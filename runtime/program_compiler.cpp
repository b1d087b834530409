#include "runtime/program_compiler.h"

#include <fmt/core.h>

#include <algorithm>
#include <unordered_set>

#include "ir/support/text.h"

namespace tscompile {
namespace {

// Values of these types own nothing, so they need not be given up after their last use.
bool ownsNothing(TypePtr t) {
  switch (t->kind()) {
    case TypeKind::Int:
    case TypeKind::Float:
    case TypeKind::Bool:
    case TypeKind::None:
    case TypeKind::Device: return true;
    case TypeKind::Optional: return ownsNothing(t->element());
    default: return false;
  }
}

// Kinds that wrap a generic subgraph for a faster executor: running the subgraph means the same.
bool wrapsSubgraph(const Node* n) { return n->subgraph() && n->kind() != sym::fork && n->kind() != sym::PythonOp; }

}  // namespace

// Compiles one graph. Nested blocks become jumps; the walk keeps its own stack, so they may nest to any depth.
class FunctionCompiler {
 public:
  FunctionCompiler(ProgramCompiler& owner, Function& function, bool isEntry)
      : owner_(owner), program_(owner.program_), f_(function), isEntry_(isEntry) {}

  void compile() {
    number();
    planReleases();
    const Block* top = f_.graph->block();
    f_.resultCount = top->results().size();
    for (size_t i = 0; i < top->parameters().size(); ++i) f_.parameters.push_back(define(top->parameter(i)));
    releaseUnused(top);
    walk(top);
    Instruction& ret = emit(control::kReturn, f_.graph->returnNode());
    std::vector<uint32_t> slots;
    for (const Use& u : top->results()) slots.push_back(slotOf(u.value));
    setSlots(ret, slots, {}, {});
    f_.slotCount = nextSlot_;
  }

 private:
  // ---- numbering: nodes of all blocks in text order ----

  struct NodeInfo {
    const Node* node;
    uint32_t end;                        // number behind the last node inside
    std::vector<const Value*> expiring;  // values that are not needed behind it
  };
  struct BlockInfo {
    std::vector<uint32_t> nodes;               // numbers of its nodes, then the number where it ends
    std::vector<const Value*> droppedAtStart;  // values that only another branch uses
    std::vector<const Value*> expiringAtEnd;   // needed by its results
  };

  void number() {
    struct Open {
      const Node* node;
      size_t block;
    };
    std::vector<Open> stack;
    const Block* block = f_.graph->block();
    const Node* n = block->first();
    order_.push_back(block);
    while (true) {
      if (n) {
        auto id = static_cast<uint32_t>(infos_.size());
        numbers_[n] = id;
        infos_.push_back({n, id + 1, {}});
        blocks_[block].nodes.push_back(id);
        if (n->hasBlocks()) {
          stack.push_back({n, 0});
          block = n->block(0);
          order_.push_back(block);
          n = block->first();
        } else {
          n = n->next();
        }
        continue;
      }
      // The end of a block is a place of its own: its results are used there.
      auto end = static_cast<uint32_t>(infos_.size());
      numbers_[block->returnNode()] = end;
      infos_.push_back({block->returnNode(), end + 1, {}});
      blocks_[block].nodes.push_back(end);
      if (stack.empty()) return;
      Open& open = stack.back();
      infos_[numbers_[open.node]].end = static_cast<uint32_t>(infos_.size());
      if (++open.block < open.node->blocks().size()) {
        block = open.node->block(open.block);
        order_.push_back(block);
        n = block->first();
      } else {
        n = open.node->next();
        block = open.node->block();
        stack.pop_back();
      }
    }
  }

  // The node of `block` that holds the place `number`, or is it.
  uint32_t ancestor(const Block* block, uint32_t number) {
    const auto& nodes = blocks_[block].nodes;
    auto it = std::upper_bound(nodes.begin(), nodes.end(), number);
    return *(it - 1);
  }

  void planReleases() {
    auto plan = [&](const Value* v, const Block* block) {
      if (!v->hasUses()) return;
      uint32_t last = 0;
      for (Use& u : v->uses()) last = std::max(last, numbers_[u.user]);
      planIn(v, block, last, 0);
    };
    for (const Block* block : order_) {
      for (const Value* p : block->parameters()) plan(p, block);
      for (uint32_t id : blocks_[block].nodes)
        for (const Value* o : infos_[id].node->outputs()) plan(o, block);
    }
  }

  // Decides where a value that is last used at the place `last`, inside `block`, is given up. In an If that is its last
  // use inside each branch; a branch that does not use it gives it up at its start.
  void planIn(const Value* v, const Block* block, uint32_t last, int depth) {
    constexpr int kMaxDepth = 4;  // deeper, it lives until the If ends
    uint32_t at = ancestor(block, last);
    const Node* n = infos_[at].node;
    if (n->isReturn()) {
      blocks_[block].expiringAtEnd.push_back(v);
      return;
    }
    infos_[at].expiring.push_back(v);
    if (n->kind() != sym::If || !n->hasBlocks() || depth == kMaxDepth || ownsNothing(v->type())) return;
    if (at == last) return;  // it is the condition
    for (const Block* branch : n->blocks()) {
      uint32_t from = blocks_[branch].nodes.front(), to = blocks_[branch].nodes.back();
      uint32_t lastHere = UINT32_MAX;
      for (Use& u : v->uses()) {
        uint32_t place = numbers_[u.user];
        if (place >= from && place <= to && (lastHere == UINT32_MAX || place > lastHere)) lastHere = place;
      }
      if (lastHere == UINT32_MAX)
        blocks_[branch].droppedAtStart.push_back(v);
      else
        earlyIn(v, branch, lastHere, depth + 1);
    }
  }

  // As planIn, but the slot stays taken until the outer If ends.
  void earlyIn(const Value* v, const Block* block, uint32_t last, int depth) {
    uint32_t at = ancestor(block, last);
    const Node* n = infos_[at].node;
    if (n->isReturn()) return;  // moved out by the end of the branch
    if (n->kind() == sym::If && n->hasBlocks() && at != last) {
      if (depth >= 4) return;
      for (const Block* branch : n->blocks()) {
        uint32_t from = blocks_[branch].nodes.front(), to = blocks_[branch].nodes.back();
        uint32_t lastHere = UINT32_MAX;
        for (Use& u : v->uses()) {
          uint32_t place = numbers_[u.user];
          if (place >= from && place <= to && (lastHere == UINT32_MAX || place > lastHere)) lastHere = place;
        }
        if (lastHere == UINT32_MAX)
          blocks_[branch].droppedAtStart.push_back(v);
        else
          earlyIn(v, branch, lastHere, depth + 1);
      }
      return;
    }
    early_[at].push_back(v);
  }

  // ---- slots ----

  uint32_t define(const Value* v) {
    uint32_t s;
    if (free_.empty()) {
      s = nextSlot_++;
    } else {
      s = free_.back();
      free_.pop_back();
    }
    slots_[v] = s;
    return s;
  }
  uint32_t slotOf(const Value* v) {
    auto it = slots_.find(v);
    // Only a graph that the verifier would reject gets here; it was verified.
    TS_CHECK(it != slots_.end());
    return it->second;
  }
  uint32_t hiddenSlot() {
    if (free_.empty()) return nextSlot_++;
    uint32_t s = free_.back();
    free_.pop_back();
    return s;
  }
  void freeSlot(const Value* v) { free_.push_back(slotOf(v)); }
  // These keep their slots from one iteration to the next.
  static bool isLoopParameter(const Value* v) {
    return v->isParameter() && v->block()->owner() && v->block()->owner()->kind() == sym::Loop;
  }

  // ---- instructions ----

  Instruction& emit(Handler handler, const Node* node) {
    f_.code.emplace_back();
    f_.code.back().handler = handler;
    f_.code.back().node = node;
    return f_.code.back();
  }
  void setSlots(Instruction& in, const std::vector<uint32_t>& inputs, const std::vector<uint32_t>& outputs,
                const std::vector<uint32_t>& extra) {
    size_t count = inputs.size() + outputs.size() + extra.size();
    auto list = std::make_unique<uint32_t[]>(count);
    std::copy(inputs.begin(), inputs.end(), list.get());
    std::copy(outputs.begin(), outputs.end(), list.get() + inputs.size());
    std::copy(extra.begin(), extra.end(), list.get() + inputs.size() + outputs.size());
    in.inputs = static_cast<uint32_t>(inputs.size());
    in.outputs = static_cast<uint32_t>(outputs.size());
    in.slots = list.get();
    f_.slotLists.push_back(std::move(list));
  }
  void emitRelease(const std::vector<uint32_t>& slots, const Node* node) {
    if (slots.empty()) return;
    Instruction& in = emit(control::kRelease, node);
    setSlots(in, slots, {}, {});
  }
  int32_t here() const { return static_cast<int32_t>(f_.code.size()); }
  void land(size_t jump) { f_.code[jump].jump = here() - static_cast<int32_t>(jump); }

  // Gives up values that nothing uses.
  void releaseUnused(const Block* block) {
    std::vector<uint32_t> slots;
    for (const Value* p : block->parameters())
      if (!p->hasUses() && !ownsNothing(p->type())) slots.push_back(slotOf(p));
    emitRelease(slots, block->owner() ? block->owner() : f_.graph->returnNode());
  }

  // ---- the walk ----

  struct OpenNode {
    explicit OpenNode(const Node* node) : node(node) {}
    const Node* node;
    size_t block = 0;
    size_t branch = 0;                // index of the instruction that jumps over the block
    std::vector<size_t> exits;        // jumps to the end of the node
    std::vector<uint32_t> outputs;    // slots of its outputs
    uint32_t counter = 0, induction = 0;
  };

  void walk(const Block* top) {
    std::vector<OpenNode> stack;
    const Block* block = top;
    const Node* n = block->first();
    startBlock(block);
    while (true) {
      if (n) {
        if (n->hasBlocks() && (n->kind() == sym::If || n->kind() == sym::Loop)) {
          stack.emplace_back(n);
          openNode(stack.back());
          block = n->block(0);
          startBlock(block);
          n = block->first();
        } else {
          plainNode(n);
          afterNode(n);
          n = n->next();
        }
        continue;
      }
      if (stack.empty()) return;
      OpenNode& open = stack.back();
      endBlock(open);
      if (++open.block < open.node->blocks().size()) {
        nextBlock(open);
        block = open.node->block(open.block);
        startBlock(block);
        n = block->first();
      } else {
        closeNode(open);
        afterNode(open.node);
        n = open.node->next();
        block = open.node->block();
        stack.pop_back();
      }
    }
  }

  void startBlock(const Block* block) {
    std::vector<uint32_t> dropped;
    for (const Value* v : blocks_[block].droppedAtStart) dropped.push_back(slotOf(v));
    emitRelease(dropped, block->owner() ? block->owner() : f_.graph->returnNode());
  }

  // Gives up what is not needed behind a node.
  void afterNode(const Node* n) {
    uint32_t id = numbers_[n];
    std::vector<uint32_t> release;
    for (const Value* v : infos_[id].expiring) {
      if (!ownsNothing(v->type())) release.push_back(slotOf(v));
      if (!isLoopParameter(v)) freed_.push_back(v);
    }
    if (auto it = early_.find(id); it != early_.end())
      for (const Value* v : it->second) release.push_back(slotOf(v));
    for (const Value* o : n->outputs())
      if (!o->hasUses()) {
        if (!ownsNothing(o->type())) release.push_back(slotOf(o));
        freed_.push_back(o);
      }
    emitRelease(release, n);
    for (const Value* v : freed_) freeSlot(v);
    freed_.clear();
  }

  void openNode(OpenNode& open) {
    const Node* n = open.node;
    if (n->kind() == sym::If) {
      for (const Value* o : n->outputs()) open.outputs.push_back(define(o));
      open.branch = f_.code.size();
      Instruction& in = emit(control::kJumpIfFalse, n);
      setSlots(in, {slotOf(n->input(0))}, {}, {});
      return;
    }
    // Loop. The carried values live in the slots of the body's parameters, which are those of the node's outputs.
    const Block* body = n->block(0);
    for (size_t i = 0; i < n->outputCount(); ++i) {
      uint32_t s = define(n->output(i));
      open.outputs.push_back(s);
      slots_[body->parameter(i + 1)] = s;
      Instruction& in = emit(control::kCopy, n);
      setSlots(in, {slotOf(n->input(i + 2))}, {s}, {});
    }
    open.induction = define(body->parameter(0));
    open.counter = hiddenSlot();
    open.branch = f_.code.size();
    Instruction& in = emit(control::kLoopEnter, n);
    setSlots(in, {slotOf(n->input(0)), slotOf(n->input(1))}, {}, {open.counter, open.induction});
  }

  void endBlock(OpenNode& open) {
    const Node* n = open.node;
    const Block* b = n->block(open.block);
    if (n->kind() == sym::If) {
      moveResults(b, 0, open.outputs, n);
      expireAtEnd(b, n);
      if (open.block + 1 < n->blocks().size()) {
        open.exits.push_back(f_.code.size());
        emit(control::kJump, n);
      }
      return;
    }
    // The condition is read before the carried values change: it may be one of them.
    uint32_t condition = slotOf(b->result(0));
    bool conditionIsCarried = std::find(open.outputs.begin(), open.outputs.end(), condition) != open.outputs.end();
    if (conditionIsCarried) {
      uint32_t saved = hiddenSlot();
      Instruction& in = emit(control::kCopy, n);
      setSlots(in, {condition}, {saved}, {});
      condition = saved;
      hidden_.push_back(saved);
    }
    moveResults(b, 1, open.outputs, n);
    std::vector<uint32_t> limit{slotOf(n->input(0)), condition};
    expireAtEnd(b, n);
    size_t back = f_.code.size();
    Instruction& in = emit(control::kLoopNext, n);
    setSlots(in, limit, {}, {open.counter, open.induction});
    f_.code[back].jump = static_cast<int32_t>(open.branch) + 1 - static_cast<int32_t>(back);
  }

  void nextBlock(OpenNode& open) {
    if (open.block == 1) land(open.branch);  // where the condition is false
  }

  void closeNode(OpenNode& open) {
    if (open.node->kind() == sym::If) {
      if (open.node->blocks().size() == 1) land(open.branch);
      for (size_t e : open.exits) land(e);
      return;
    }
    land(open.branch);
    free_.push_back(open.counter);
    freeSlot(open.node->block(0)->parameter(0));
    for (uint32_t h : hidden_) free_.push_back(h);
    hidden_.clear();
  }

  // Copies the results of a block, from `first` on, to slots. They are read before any is written where they overlap.
  void moveResults(const Block* b, size_t first, const std::vector<uint32_t>& to, const Node* node) {
    std::vector<uint32_t> from;
    for (size_t i = first; i < b->results().size() && i - first < to.size(); ++i) from.push_back(slotOf(b->result(i)));
    bool overlap = false;
    std::unordered_set<uint32_t> written;
    std::unordered_map<uint32_t, int> reads;
    for (size_t i = 0; i < from.size(); ++i) {
      overlap |= written.count(from[i]) != 0;
      written.insert(to[i]);
      ++reads[from[i]];
    }
    std::unordered_set<const Value*> expiring(blocks_[b].expiringAtEnd.begin(), blocks_[b].expiringAtEnd.end());
    std::vector<uint32_t> temporaries;
    if (overlap) {
      for (size_t i = 0; i < from.size(); ++i) {
        uint32_t t = hiddenSlot();
        temporaries.push_back(t);
        Instruction& in = emit(control::kCopy, node);
        setSlots(in, {from[i]}, {t}, {});
      }
      from = temporaries;
    }
    for (size_t i = 0; i < from.size(); ++i) {
      if (from[i] == to[i]) continue;
      const Value* v = overlap ? nullptr : b->result(first + i);
      // What ends with the block can be moved, unless a later result is the same value.
      bool last = overlap || (expiring.count(v) && --reads[from[i]] == 0);
      Instruction& in = emit(last ? control::kMove : control::kCopy, node);
      setSlots(in, {from[i]}, {to[i]}, {});
    }
    for (uint32_t t : temporaries) free_.push_back(t);
  }

  void expireAtEnd(const Block* b, const Node* node) {
    std::vector<uint32_t> release;
    for (const Value* v : blocks_[b].expiringAtEnd) {
      // Carried values live on in their slots.
      if (isLoopParameter(v)) continue;
      if (!ownsNothing(v->type())) release.push_back(slotOf(v));
      freeSlot(v);
    }
    emitRelease(release, node);
  }

  // ---- nodes without blocks of their own ----

  void plainNode(const Node* n) {
    std::vector<uint32_t> inputs, outputs;
    for (const Use& u : n->inputs()) inputs.push_back(slotOf(u.value));
    if (n->kind() == sym::Constant) return constantNode(n);
    for (const Value* o : n->outputs()) outputs.push_back(define(o));
    if (n->hasBlocks()) {
      unsupported(n, fmt::format("{} with blocks is not supported", n->kind().text()));
      return;
    }
    if (n->kind() == sym::PythonOp) {
      unsupported(n, fmt::format("the Python operator '{}' is not part of the text", n->python ? n->python->name : ""));
      return;
    }
    if (n->kind() == sym::CallMethod) return callMethod(n, inputs, outputs);
    if (n->kind() == sym::CallFunction) return callFunction(n, inputs, outputs);
    if (n->subgraph() && (n->kind() == sym::fork || wrapsSubgraph(n))) {
      const Function* f = owner_.functionFor(*n->subgraph(), std::string(n->kind().text()));
      Instruction& in = emit(control::kCallFunction, n);
      setSlots(in, inputs, outputs, {});
      in.function = f;
      return;
    }
    if (Handler h = structureHandler(n->kind())) {
      Instruction& in = emit(h, n);
      setSlots(in, inputs, outputs, {});
      return;
    }
    const Operator* op = resolve(n);
    if (!op) return;
    bool scalar = op->def().scalar != nullptr && outputs.size() == 1;
    Instruction& in = emit(!scalar                ? control::kOperator
                           : inputs.size() == 1   ? control::kScalar1
                           : inputs.size() == 2   ? control::kScalar2
                                                  : control::kScalarN,
                           n);
    setSlots(in, inputs, outputs, {});
    if (scalar)
      in.scalar = op->def().scalar;
    else
      in.op = op;
  }

  const Operator* resolve(const Node* n) {
    const OpRegistry& registry = *program_.registry_;
    const Operator* op = registry.resolve(*n);
    if (op && op->isImplemented()) {
      size_t returns = op->schema().returns.size();
      if (!op->schema().varReturns && returns != n->outputCount() && !(returns == 0 && n->outputCount() == 1)) {
        unsupported(n, fmt::format("{} returns {} values, not {}", op->fullName(), returns, n->outputCount()),
                    ErrorKind::Input);
        return nullptr;
      }
      return op;
    }
    if (op) {
      unsupported(n, fmt::format("operator {} is not implemented", op->fullName()));
      return nullptr;
    }
    if (!registry.isKnown(n->kind())) {
      Diagnostic& d = unsupported(n, fmt::format("unknown operator {}", n->kind().text()));
      std::string nearest = registry.nearestKind(n->kind().text());
      if (!nearest.empty()) d.note("did you mean " + nearest + "?");
      return nullptr;
    }
    std::string inputs = join(n->inputs(), ", ", [](const Use& u) { return typeText(withoutRefinement(u.value->type())); });
    Diagnostic& d = unsupported(n, fmt::format("no overload of {} takes ({})", n->kind().text(), inputs));
    size_t shown = 0;
    for (const Operator* o : registry.overloads(n->kind()))
      if (shown++ < 6) d.note("candidate: " + std::string(o->schemaSource()));
    return nullptr;
  }

  Diagnostic& unsupported(const Node* n, std::string message, ErrorKind kind = ErrorKind::Unsupported) {
    return owner_.diagnostics_.error(n->range, std::move(message), kind);
  }

  void constantNode(const Node* n) {
    if (n->outputCount() != 1) {
      unsupported(n, "a constant has one output", ErrorKind::Input);
      for (const Value* o : n->outputs()) define(o);
      return;
    }
    uint32_t slot = define(n->output());
    IValue value = constantValue(n);
    f_.constants.push_back(std::make_unique<IValue>(std::move(value)));
    Instruction& in = emit(control::kLoadConstant, n);
    setSlots(in, {}, {slot}, {});
    in.constant = f_.constants.back().get();
  }

  // The value of a constant: what the text says, or the data that was supplied for it.
  IValue constantValue(const Node* n) {
    std::string name = n->output()->name(), key = name;
    if (auto opaque = program_.sources_.constants.find(n); opaque != program_.sources_.constants.end()) {
      if (opaque->second.data) return *opaque->second.data;
      key = opaque->second.key;
    }
    if (n->output()->type()->is(TypeKind::Function)) {
      const IValue* f = n->attributeValue(sym::name);
      return Ref<FunctionValue>::make(f && f->isString() ? f->toString() : "");
    }
    const IValue* v = n->attributeValue(sym::value);
    if (!v) {
      if (n->hasAttribute(sym::value)) unsupported(n, "a constant that is a type or a graph cannot be run");
      return {};
    }
    if (!v->isLiteral()) return resolveLiterals(n, *v);
    const LiteralValue& l = v->toLiteral();
    switch (l.kind) {
      case LiteralValue::Kind::ExactTensor: return l.data;
      case LiteralValue::Kind::RoundedTensor:
        owner_.diagnostics_.warning(n->range, fmt::format("%{} is used as printed, to about four digits", name))
            .note(fmt::format("supply a tensor '{}' with --weights for its exact data", key));
        return l.data;
      case LiteralValue::Kind::MissingTensor:
        owner_.diagnostics_
            .error(n->range, fmt::format("the data of %{} is not part of the text", name), ErrorKind::Input)
            .note(fmt::format("supply a tensor '{}' with --weights FILE.safetensors", key));
        return {};
      case LiteralValue::Kind::Object:
        unsupported(n, fmt::format("the object behind %{} is not part of the text", name));
        return {};
    }
    return {};
  }

  // Literals inside containers.
  IValue resolveLiterals(const Node* n, const IValue& v) {
    const std::vector<IValue>* items = v.isList() ? &v.toList().items : v.isTuple() ? &v.toTuple().items : nullptr;
    if (!items || std::none_of(items->begin(), items->end(), [](const IValue& i) { return i.isLiteral() || i.isTuple() || i.isList(); }))
      return v;
    std::vector<IValue> resolved;
    for (const IValue& i : *items) {
      if (!i.isLiteral()) {
        resolved.push_back(resolveLiterals(n, i));
      } else if (i.toLiteral().data.defined()) {
        resolved.push_back(i.toLiteral().data);
      } else {
        owner_.diagnostics_.error(n->range, fmt::format("the data of a tensor in %{} is not part of the text", n->output()->name()));
        resolved.emplace_back();
      }
    }
    if (v.isList()) return Ref<ListValue>::make(v.toList().elementType, std::move(resolved));
    return Ref<TupleValue>::make(std::move(resolved), v.toTuple().type);
  }

  void callMethod(const Node* n, const std::vector<uint32_t>& inputs, const std::vector<uint32_t>& outputs) {
    const IValue* name = n->attributeValue(sym::name);
    if (!name || !name->isString() || inputs.empty()) {
      unsupported(n, "prim::CallMethod takes an object and has an attribute 'name'", ErrorKind::Input);
      return;
    }
    TypePtr type = n->input(0)->type();
    auto methods = program_.sources_.methods.find(type);
    if (type->is(TypeKind::Class)) {
      const Graph* callee = nullptr;
      if (methods != program_.sources_.methods.end())
        if (auto m = methods->second.find(name->toString()); m != methods->second.end()) callee = m->second;
      if (!callee) {
        unsupported(n, fmt::format("method '{}' of {} is not part of the text", name->toString(), type->name()))
            .note("export a text that holds it: export_torchscript.py --form dump writes all methods, --form inlined "
                  "writes one graph without calls");
        return;
      }
      const Function* f = owner_.functionFor(*callee, type->name() + "." + name->toString());
      Instruction& in = emit(control::kCallFunction, n);
      setSlots(in, inputs, outputs, {});
      in.function = f;
      return;
    }
    // An interface: any class that has the method may come.
    for (auto& [t, list] : program_.sources_.methods)
      if (auto m = list.find(name->toString()); m != list.end()) owner_.functionFor(*m->second, t->name() + "." + name->toString());
    Instruction& in = emit(control::kCallMethod, n);
    setSlots(in, inputs, outputs, {});
  }

  void callFunction(const Node* n, const std::vector<uint32_t>& inputs, const std::vector<uint32_t>& outputs) {
    const Node* constant = n->inputCount() ? n->input(0)->node() : nullptr;
    const IValue* name = constant && constant->kind() == sym::Constant ? constant->attributeValue(sym::name) : nullptr;
    std::string called = name && name->isString() ? name->toString() : "";
    auto it = program_.sources_.functions.find(called);
    if (it == program_.sources_.functions.end()) {
      unsupported(n, fmt::format("function '{}' is not part of the text", called))
          .note("export a text that holds it: export_torchscript.py --form inlined writes one graph without calls");
      return;
    }
    const Function* f = owner_.functionFor(*it->second, called);
    Instruction& in = emit(control::kCallFunction, n);
    setSlots(in, std::vector<uint32_t>(inputs.begin() + 1, inputs.end()), outputs, {});
    in.function = f;
  }

  ProgramCompiler& owner_;
  Program& program_;
  Function& f_;
  bool isEntry_;
  std::vector<NodeInfo> infos_;
  std::unordered_map<const Node*, uint32_t> numbers_;
  std::unordered_map<const Block*, BlockInfo> blocks_;
  std::vector<const Block*> order_;  // all blocks, in text order
  std::unordered_map<uint32_t, std::vector<const Value*>> early_;
  std::unordered_map<const Value*, uint32_t> slots_;
  std::vector<uint32_t> free_, hidden_;
  std::vector<const Value*> freed_;
  uint32_t nextSlot_ = 0;
};

const Function* ProgramCompiler::functionFor(const Graph& graph, std::string name) {
  auto [it, isNew] = program_.functions_.try_emplace(&graph);
  if (isNew) {
    it->second = std::make_unique<Function>();
    it->second->graph = &graph;
    it->second->name = std::move(name);
    pending_.push_back(it->second.get());
  }
  return it->second.get();
}

bool ProgramCompiler::compile(const Graph& entry) {
  size_t before = diagnostics_.errorCount();
  program_.entry_ = functionFor(entry, "the graph");
  while (!pending_.empty()) {
    Function* f = pending_.back();
    pending_.pop_back();
    FunctionCompiler(*this, *f, f == program_.entry_).compile();
  }
  return diagnostics_.errorCount() == before;
}

}  // namespace tscompile
