// One graph to instructions: slots for values, jumps for nested blocks.
#include "ir/analysis/alias.h"
#include "ir/analysis/node_form.h"
#include "ir/values/aten.h"
#include "runtime/interpreter/constant_value.h"
#include "runtime/interpreter/program_compiler.h"
#include "runtime/interpreter/release_plan.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <unordered_set>

namespace tscompile {
namespace {

// Values of these types own nothing, so they need not be given up after their last use.
bool ownsNothing(TypePtr t) {
  switch (t->kind()) {
    case TypeKind::Int:
    case TypeKind::Float:
    case TypeKind::Bool:
    case TypeKind::None:
    case TypeKind::Device:
      return true;
    case TypeKind::Optional:
      return ownsNothing(t->element());
    default:
      return false;
  }
}

bool isConstant(const Value* v) { return v->node() && v->node()->kind() == sym::Constant; }
// What a constant's slot refers to belongs to the program.
bool needsRelease(const Value* v) { return !ownsNothing(v->type()) && !isConstant(v); }

bool isLoopParameter(const Value* v) {
  return v->isParameter() && v->block()->owner() && v->block()->owner()->kind() == sym::Loop;
}

using Slots = std::vector<uint32_t>;

// Nested blocks become jumps. The walk keeps its own stack, so they may nest to any depth.
class FunctionCompiler {
 public:
  FunctionCompiler(ProgramCompiler& owner, Function& function)
      : owner_(owner), f_(function), plan_(*function.graph), places_(*function.graph) {
    // Pages that stay empty cost nothing; growing by copies would double the memory that deep graphs need.
    f_.code.reserve(2 * plan_.liveness().size());
  }

  void compile() {
    const Block* top = f_.graph->block();
    f_.resultCount = top->results().size();
    for (const Value* p : top->parameters()) f_.parameters.push_back(define(p));
    walk(top);
    Slots results;
    for (const Use& u : top->results()) results.push_back(slotOf(u.value));
    emit(control::kReturn, f_.graph->returnNode(), results, {}, {});
    f_.slotCount = nextSlot_;
  }

 private:
  // ---- slots ----

  uint32_t takeSlot() {
    if (free_.empty()) return nextSlot_++;
    uint32_t s = free_.back();
    free_.pop_back();
    return s;
  }
  uint32_t define(const Value* v) {
    Place& p = places_[v];
    if (!p.isGiven) p.slot = takeSlot();
    p.isDefined = true;
    return p.slot;
  }
  uint32_t slotOf(const Value* v) const {
    // Only a graph that the verifier would reject lacks it; it was verified.
    TS_CHECK(places_[v].isDefined);
    return places_[v].slot;
  }
  void share(const Value* v, uint32_t slot) { places_[v] = {.slot = slot, .isDefined = true}; }
  // The slots of loop parameters, results of blocks and hoisted constants are free only when their node ends.
  bool ownsSlot(const Value* v) const { return !isLoopParameter(v) && !places_[v].isGiven && !places_[v].isHoisted; }

  // ---- instructions ----

  // The slots of an instruction: inputs, outputs, whatever else its handler needs.
  Instruction& emit(Handler handler, const Node* node, const Slots& inputs, const Slots& outputs, const Slots& extra) {
    auto* list = f_.slotLists.allocateArray<uint32_t>(inputs.size() + outputs.size() + extra.size());
    std::copy(extra.begin(), extra.end(),
              std::copy(outputs.begin(), outputs.end(), std::copy(inputs.begin(), inputs.end(), list)));
    Instruction& in = f_.code.emplace_back();
    in.handler = handler;
    in.node = node;
    in.slots = list;
    in.inputs = static_cast<uint32_t>(inputs.size());
    in.outputs = static_cast<uint32_t>(outputs.size());
    return in;
  }
  void emitMove(Handler handler, uint32_t from, uint32_t to, const Node* node) {
    if (from != to) emit(handler, node, {from}, {to}, {});
  }
  void emitRelease(const Slots& slots, const Node* node) {
    if (!slots.empty()) emit(control::kRelease, node, slots, {}, {});
  }
  uint32_t here() const { return static_cast<uint32_t>(f_.code.size()); }
  void land(uint32_t jump) { f_.code[jump].jump = static_cast<int32_t>(f_.code.size()) - static_cast<int32_t>(jump); }

  // ---- the walk ----

  struct OpenNode {
    explicit OpenNode(const Node* node) : node(node) {}
    const Node* node;
    uint32_t block = 0;
    uint32_t branch = 0;     // index of the instruction that jumps over the block
    uint32_t exit = 0;       // index of the jump after the first branch of an If; 0: none
    uint32_t induction = 0;  // of a loop
  };
  Slots outputsOf(const Node* n) const {
    Slots slots;
    for (const Value* o : n->outputs()) slots.push_back(slotOf(o));
    return slots;
  }

  void walk(const Block* top) {
    std::vector<OpenNode> stack;
    const Block* block = top;
    const Node* n = block->first();
    startBlock(block, {}, 0);
    while (true) {
      if (n) {
        if (n->hasBlocks() && (n->kind() == sym::If || n->kind() == sym::Loop) && formProblem(*n).empty()) {
          OpenNode& open = stack.emplace_back(n);
          n->kind() == sym::If ? openIf(open) : openLoop(open);
          block = n->block(0);
          n = enter(open, block);
        } else {
          plainNode(n);
          afterNode(n);
          n = n->next();
        }
        continue;
      }
      if (stack.empty()) return;
      OpenNode& open = stack.back();
      open.node->kind() == sym::If ? endBranch(open) : endBody(open);
      if (++open.block < open.node->blocks().size()) {
        if (open.block == 1) land(open.branch);  // where the condition is false
        block = open.node->block(open.block);
        n = enter(open, block);
      } else {
        closeNode(open);
        afterNode(open.node);
        n = open.node->next();
        block = open.node->block();
        stack.pop_back();
      }
    }
  }

  const Node* enter(const OpenNode& open, const Block* block) {
    startBlock(block, outputsOf(open.node), open.node->kind() == sym::Loop ? 1 : 0);
    return block->first();
  }

  // `outputs`: where the results of the block go, from the result `first` on.
  void startBlock(const Block* block, const Slots& outputs, size_t first) {
    Slots dropped;
    for (const auto& [place, v] : plan_.unusedIn(block))
      if (needsRelease(v)) dropped.push_back(slotOf(v));
    for (const Value* p : block->parameters())
      if (!p->hasUses() && needsRelease(p)) dropped.push_back(slotOf(p));
    emitRelease(dropped, block->owner() ? block->owner() : f_.graph->returnNode());
    for (size_t i = 0; i < outputs.size() && i + first < block->results().size(); ++i)
      if (canMakeInPlace(block, block->result(i + first), i + first)) give(block->result(i + first), outputs[i]);
  }

  void give(const Value* v, uint32_t slot) {
    Place& p = places_[v];
    if (!p.isGiven) p = {.slot = slot, .isGiven = true};
  }

  // Whether a result can be made in the slot of the output that it becomes, so that nothing need be moved. In a loop
  // that is the slot of a parameter: it must not be needed any longer.
  bool canMakeInPlace(const Block* block, const Value* v, size_t result) {
    if (!v->node() || v->node()->block() != block || places_[v].isDefined) return false;
    if (block->owner()->kind() == sym::If) return true;
    const Liveness& live = plan_.liveness();
    uint32_t last = live.lastUseIn(block->parameter(result), 0, UINT32_MAX - 1), place = live.place(v->node());
    // Scalar functions read their arguments before they write the result.
    return last == UINT32_MAX || last < place || (last == place && isScalar(v->node()));
  }
  bool isScalar(const Node* n) const {
    const Operator* op = n->outputCount() == 1 ? owner_.program().registry().resolve(*n) : nullptr;
    return op && op->isImplemented() && op->def().scalar;
  }

  // Gives up what is not needed after a node.
  void afterNode(const Node* n) {
    Slots release;
    auto overwritten = [&](uint32_t slot) {
      return std::any_of(n->outputs().begin(), n->outputs().end(), [&](const Value* o) { return slotOf(o) == slot; });
    };
    for (const auto& [place, v] : plan_.endingAt(n))
      if (needsRelease(v) && !moved_.count(v) && !overwritten(slotOf(v))) release.push_back(slotOf(v));
    for (const auto& [place, v] : plan_.endingEarlyAt(n))
      if (needsRelease(v) && !moved_.count(v)) release.push_back(slotOf(v));
    for (const Value* o : n->outputs())
      if (!o->hasUses() && needsRelease(o)) release.push_back(slotOf(o));
    emitRelease(release, n);
    for (const auto& [place, v] : plan_.endingAt(n))
      if (ownsSlot(v)) free_.push_back(slotOf(v));
    for (const Value* o : n->outputs())
      if (!o->hasUses() && ownsSlot(o)) free_.push_back(slotOf(o));
    moved_.clear();
  }

  // Whether nothing but input `i` of the node needs the value there, and nothing any longer.
  bool endsInput(const Node* n, size_t i) {
    const Value* v = n->input(i);
    if (!needsRelease(v) || moved_.count(v)) return false;
    for (size_t k = 0; k < n->inputCount(); ++k)
      if (k != i && n->input(k) == v) return false;
    return plan_.isLastUse(v, n);
  }
  bool endsFirstInput(const Node* n) {
    return n->inputCount() != 0 && n->input(0)->type()->isTensor() && endsInput(n, 0);
  }

  // Whether input `i` of a node can be taken out of its slot; remembers that it was.
  bool takeInput(const Node* n, size_t i) {
    if (!endsInput(n, i)) return false;
    moved_.insert(n->input(i));
    return true;
  }

  // ---- If ----

  void openIf(OpenNode& open) {
    const Node* n = open.node;
    for (const Value* o : n->outputs()) define(o);
    open.branch = here();
    emit(control::kJumpIfFalse, n, {slotOf(n->input(0))}, {}, {});
  }

  void endBranch(OpenNode& open) {
    const Block* b = open.node->block(open.block);
    moveResults(b, 0, outputsOf(open.node));
    endBlock(b);
    if (open.block + 1 == open.node->blocks().size()) return;
    open.exit = here();
    emit(control::kJump, open.node, {}, {}, {});
  }

  void closeNode(OpenNode& open) {
    if (open.node->kind() == sym::If) {
      if (open.node->blocks().size() == 1) land(open.branch);
      if (open.exit) land(open.exit);
      return;
    }
    land(open.branch);
    free_.push_back(open.induction);
    if (--openLoops_ > 0) return;
    for (const Value* v : hoisted_) free_.push_back(slotOf(v));
    hoisted_.clear();
  }

  // ---- Loop ----

  // The carried values live in the slots of the body's parameters, which are those of the node's outputs.
  void openLoop(OpenNode& open) {
    const Node* n = open.node;
    const Block* body = n->block(0);
    if (openLoops_++ == 0) hoistConstants(n);
    for (size_t i = 0; i < n->outputCount(); ++i) share(body->parameter(i + 1), define(n->output(i)));
    for (size_t i = 0; i < n->outputCount(); ++i)
      emitMove(takeInput(n, i + 2) ? control::kMove : control::kCopy, slotOf(n->input(i + 2)), slotOf(n->output(i)), n);
    moved_.clear();
    open.induction = takeSlot();
    share(body->parameter(0), open.induction);
    open.branch = here();
    emit(control::kLoopEnter, n, {slotOf(n->input(0)), slotOf(n->input(1))}, {}, {open.induction});
  }

  // Constants inside of loops are loaded once.
  void hoistConstants(const Node* loop) {
    const Liveness& live = plan_.liveness();
    for (uint32_t p = live.place(loop) + 1; p < live.end(loop); ++p) {
      const Node* n = live.nodeAt(p);
      if (n->kind() != sym::Constant || n->outputCount() != 1) continue;
      constantNode(n);
      places_[n->output()].isHoisted = true;
      hoisted_.push_back(n->output());
    }
  }

  void endBody(OpenNode& open) {
    const Node* n = open.node;
    const Block* b = n->block(0);
    // The condition is read before the carried values change: it may be one of them.
    uint32_t condition = slotOf(b->result(0));
    Slots outputs = outputsOf(n);
    bool isCarried = std::find(outputs.begin(), outputs.end(), condition) != outputs.end();
    if (isCarried) {
      uint32_t saved = takeSlot();
      emitMove(control::kCopy, condition, saved, n);
      condition = saved;
    }
    moveResults(b, 1, outputs);
    endBlock(b);
    uint32_t back = here();
    Instruction& in = emit(control::kLoopNext, n, {slotOf(n->input(0)), condition}, {}, {open.induction});
    in.jump = static_cast<int32_t>(open.branch) + 1 - static_cast<int32_t>(back);
    if (isCarried) free_.push_back(condition);
  }

  // ---- the ends of blocks ----

  // Takes the results of a block, from `first` on, to slots. They are read before any is written where they overlap.
  void moveResults(const Block* b, size_t first, const Slots& to) {
    const Node* end = b->returnNode();
    Slots from;
    for (size_t i = 0; i < to.size(); ++i) from.push_back(slotOf(b->result(first + i)));
    std::unordered_set<uint32_t> written;
    bool overlap = false;
    for (size_t i = 0; i < to.size(); ++i) {
      if (from[i] == to[i]) continue;
      overlap |= written.count(from[i]) != 0;
      written.insert(to[i]);
    }
    Slots temporaries;
    for (size_t i = 0; i < to.size() && overlap; ++i) {
      if (from[i] == to[i]) continue;
      temporaries.push_back(takeSlot());
      emitMove(control::kCopy, from[i], temporaries.back(), end);
      from[i] = temporaries.back();
    }
    for (size_t i = 0; i < to.size(); ++i) {
      if (from[i] == to[i]) continue;
      bool last = overlap || takeInput(end, first + i);
      emitMove(last ? control::kMove : control::kCopy, from[i], to[i], end);
    }
    free_.insert(free_.end(), temporaries.begin(), temporaries.end());
  }

  void endBlock(const Block* b) {
    Slots release;
    for (const auto& [place, v] : plan_.endingAt(b->returnNode())) {
      // Carried values and results live on in their slots.
      if (isLoopParameter(v) || places_[v].isGiven) continue;
      if (needsRelease(v) && !moved_.count(v)) release.push_back(slotOf(v));
      if (ownsSlot(v)) free_.push_back(slotOf(v));
    }
    emitRelease(release, b->returnNode());
    moved_.clear();
  }

  // ---- nodes without blocks of their own ----

  void plainNode(const Node* n) {
    if (n->kind() == sym::Constant) {
      if (n->outputCount() != 1 || !places_[n->output()].isHoisted) constantNode(n);
      return;
    }
    Slots inputs, outputs;
    for (const Use& u : n->inputs()) inputs.push_back(slotOf(u.value));
    for (const Value* o : n->outputs()) outputs.push_back(define(o));
    if (std::string problem = formProblem(*n); !problem.empty()) {
      owner_.unsupported(n, problem, ErrorKind::Input);
    } else if (n->hasBlocks()) {
      owner_.unsupported(n, fmt::format("{} with blocks is not supported", n->kind().text()));
    } else if (n->kind() == sym::PythonOp) {
      owner_.unsupported(
          n, fmt::format("the Python operator '{}' is not part of the text", n->python ? n->python->name : ""));
    } else if (n->kind() == sym::CallMethod) {
      const Function* f = owner_.calledMethod(n);
      emitCall(n, f, 0, inputs, outputs);
    } else if (n->kind() == sym::CallFunction) {
      if (const Function* f = owner_.calledFunction(n))
        emitCall(n, f, 1, inputs, outputs);
      else
        emit(kNotImplemented, n, inputs, outputs, {});
    } else if (n->kind() == sym::Engine && n->subgraph()) {
      const Function* f = owner_.engineFor(n);
      emitCall(n, f, 0, inputs, outputs);
      if (f->segment) f_.code.back().handler = control::kCallEngine;
    } else if (n->subgraph()) {
      // A fork, or a wrapper of a generic subgraph for a faster executor: running the subgraph means the same.
      emitCall(n, owner_.functionFor(*n->subgraph(), std::string(n->kind().text())), 0, inputs, outputs);
    } else if (n->kind() == sym::GetAttr && n->outputCount() == 1 && isWritten(n->output())) {
      emit(kGetAttrToWrite, n, inputs, outputs, {});
    } else if (Handler h = structureHandler(n->kind())) {
      owner_.compileContextMethods(n);
      emit(h, n, inputs, outputs, {});
    } else if (owner_.isMissing(n)) {
      if (!isInBranch(n)) owner_.noteMissing(f_, n);
      emit(kNotImplemented, n, inputs, outputs, {});
    } else if (const Operator* op = owner_.resolve(n)) {
      emitOperator(n, op, inputs, outputs);
    }
  }

  // Inputs in front of `firstInput` are not arguments.
  void emitCall(const Node* n, const Function* f, size_t firstInput, Slots inputs, const Slots& outputs) {
    Slots moves;
    for (size_t i = firstInput; i < inputs.size(); ++i) moves.push_back(takeInput(n, i));
    inputs.erase(inputs.begin(), inputs.begin() + static_cast<ptrdiff_t>(firstInput));
    Instruction& in = emit(f ? control::kCallFunction : control::kCallMethod, n, inputs, outputs, moves);
    if (f) in.function = f;
    if (f && !isInBranch(n)) owner_.noteCall(f_, *f);
  }

  void emitOperator(const Node* n, const Operator* op, Slots inputs, const Slots& outputs) {
    bool scalar = op->def().scalar && !op->schema().varReturns && op->schema().returns.size() == outputs.size() &&
                  outputs.size() <= 1;
    if (!scalar) {
      emit(endsFirstInput(n) ? control::kOwningOperator : control::kOperator, n, inputs, outputs, {}).op = op;
      return;
    }
    Handler h = scalarHandler(op->def().scalar);
    if (!h) h = inputs.size() == 1 ? control::kScalar1 : inputs.size() == 2 ? control::kScalar2 : control::kScalarN;
    // A text or list that ends here can grow where its sum is wanted.
    const TypePtr first = inputs.size() == 2 ? n->input(0)->type() : nullptr;
    if (n->kind() == aten::add && first && (first->is(TypeKind::String) || first->is(TypeKind::List)) &&
        inputs[1] != outputs[0] && takeInput(n, 0)) {
      emitMove(control::kMove, inputs[0], outputs[0], n);
      inputs[0] = outputs[0];
    }
    // Functions without a result leave the slot of theirs alone.
    Slots extra;
    if (outputs.empty()) extra.push_back(takeSlot());
    emit(h, n, inputs, outputs, extra).scalar = op->def().scalar;
    free_.insert(free_.end(), extra.begin(), extra.end());
  }

  void constantNode(const Node* n) {
    if (n->outputCount() != 1) {
      owner_.unsupported(n, "a constant has one output", ErrorKind::Input);
      for (const Value* o : n->outputs()) define(o);
      return;
    }
    IValue value = constantValue(n, owner_.program().sources(), owner_.diagnostics());
    bool written = value.isTensor() && isWritten(n->output());
    f_.constants.push_back(std::make_unique<IValue>(std::move(value)));
    Instruction& in = emit(written ? control::kLoadCopy : control::kLoadConstant, n, {}, {define(n->output())}, {});
    in.constant = f_.constants.back().get();
  }

  // Whether it runs is known when it runs.
  static bool isInBranch(const Node* n) {
    for (const Block* b = n->block(); b->owner(); b = b->parent())
      if (b->owner()->kind() == sym::If) return true;
    return false;
  }

  bool isWritten(const Value* v) {
    if (!alias_) alias_.emplace(*f_.graph, owner_.program().registry());
    if (alias_->graphHasWrites() && alias_->isWritten(v)) return true;
    // Whoever calls a method may write to what it returns.
    const bool isCalled = &f_ != &ProgramCompiler::entryOf(owner_.program());
    const auto returned = f_.graph->outputs();
    return isCalled && std::any_of(returned.begin(), returned.end(),
                                   [&](const Use& out) { return alias_->mayShareMemory(v, out.value); });
  }

  ProgramCompiler& owner_;
  Function& f_;
  ReleasePlan plan_;
  std::optional<AliasAnalysis> alias_;
  struct Place {
    uint32_t slot = 0;
    bool isDefined = false;
    bool isGiven = false;    // a result of a block that is made where it is wanted
    bool isHoisted = false;  // a constant that was loaded in front of the outermost loop
  };
  ValueTable<Place> places_;
  std::vector<const Value*> hoisted_;       // constants inside of the outermost loop that is open
  std::unordered_set<const Value*> moved_;  // by the instructions of the current node
  Slots free_;
  int openLoops_ = 0;
  uint32_t nextSlot_ = 0;
};

}  // namespace

void compileFunction(ProgramCompiler& owner, Function& function) { FunctionCompiler(owner, function).compile(); }

}  // namespace tscompile
