// Runs programs: control flow, calls, operators.
#include "ir/graph/printer.h"
#include "ir/graph/written_operator.h"
#include "ir/support/text.h"
#include "ir/values/literal.h"
#include "runtime/call/kernel_call.h"
#include "runtime/call/owned_argument.h"
#include "runtime/call/run_observer.h"
#include "runtime/interpreter/call_operator.h"
#include "runtime/interpreter/machine.h"
#include "runtime/interpreter/nested_run.h"
#include "runtime/interpreter/program_compiler.h"
#include "runtime/reference/loops/copy.h"
#include "runtime/reference/text_format.h"

#include <fmt/core.h>

namespace tscompile {
namespace {

bool asBool(const IValue& v) {
  if (v.isBool()) [[likely]]
    return v.toBool();
  Machine::fail("expected a bool as the condition");
}

int64_t asInt(const IValue& v) {
  if (v.isInt()) [[likely]]
    return v.toInt();
  Machine::fail("expected an int as the trip count");
}

const Instruction* loadConstant(Machine& m, const Instruction* in) {
  m.slots[in->slots[0]] = *in->constant;
  return in + 1;
}
const Instruction* loadCopy(Machine& m, const Instruction* in) {
  m.slots[in->slots[0]] = cloneTensor(in->constant->toTensor());
  return in + 1;
}
const Instruction* copy(Machine& m, const Instruction* in) {
  m.slots[in->slots[1]] = m.slots[in->slots[0]];
  return in + 1;
}
const Instruction* move(Machine& m, const Instruction* in) {
  m.slots[in->slots[1]] = std::move(m.slots[in->slots[0]]);
  return in + 1;
}
const Instruction* release(Machine& m, const Instruction* in) {
  for (uint32_t i = 0; i < in->inputs; ++i) m.slots[in->slots[i]].reset();
  return in + 1;
}
const Instruction* jump(Machine&, const Instruction* in) { return in + in->jump; }
const Instruction* jumpIfFalse(Machine& m, const Instruction* in) {
  return asBool(m.slots[in->slots[0]]) ? in + 1 : in + in->jump;
}

const Instruction* loopEnter(Machine& m, const Instruction* in) {
  if (asInt(m.slots[in->slots[0]]) <= 0 || !asBool(m.slots[in->slots[1]])) return in + in->jump;
  m.slots[in->slots[2]] = int64_t{0};
  return in + 1;
}
const Instruction* loopNext(Machine& m, const Instruction* in) {
  m.context.checkInterrupt();
  IValue& index = m.slots[in->slots[2]];
  int64_t next = index.toInt() + 1;
  if (next >= asInt(m.slots[in->slots[0]]) || !asBool(m.slots[in->slots[1]])) return in + 1;
  index = next;
  return in + in->jump;
}

const Instruction* finish(Machine& m, const Instruction* in) { return m.finish(in); }

const Instruction* callWithMoves(Machine& m, const Function& f, const Instruction* in) {
  return m.call(f, in, in->inputs, in->slots + in->inputs + in->outputs);
}
const Instruction* callFunction(Machine& m, const Instruction* in) { return callWithMoves(m, *in->function, in); }

const Instruction* callEngine(Machine& m, const Instruction* in) {
  std::vector<IValue> inputs, outputs(in->outputs);
  inputs.reserve(in->inputs);
  for (uint32_t i = 0; i < in->inputs; ++i) inputs.push_back(m.slots[in->slots[i]]);
  if (SegmentCalls* calls = m.program.sources().segmentCalls)
    calls->call(*in->node, *in->function->segment, inputs, outputs, m.context);
  else if (!in->function->segment->run(inputs, outputs, m.context))
    return callWithMoves(m, *in->function, in);
  for (uint32_t i = 0; i < in->outputs; ++i) m.slots[in->output(i)] = std::move(outputs[i]);
  return in + 1;
}

const Instruction* callMethod(Machine& m, const Instruction* in) {
  const IValue& self = m.slots[in->slots[0]];
  const std::string& name = in->node->attributeValue(sym::name)->toString();
  if (!self.isObject()) Machine::fail("expected an object to call '" + name + "' of");
  const Function* f = m.program.method(self.toObject().type, name);
  if (!f)
    throw ExecutionError(ErrorKind::Unsupported,
                         fmt::format("method '{}' of {} is not part of the text", name, self.toObject().type->name()));
  return callWithMoves(m, *f, in);
}

const Instruction* scalar1(Machine& m, const Instruction* in) {
  const IValue* arguments[] = {m.slots + in->slots[0]};
  in->scalar(arguments, m.slots[in->slots[1]]);
  return in + 1;
}
const Instruction* scalar2(Machine& m, const Instruction* in) {
  const IValue* arguments[] = {m.slots + in->slots[0], m.slots + in->slots[1]};
  in->scalar(arguments, m.slots[in->slots[2]]);
  return in + 1;
}

// Pointers to the inputs of an instruction; few enough stay on the stack.
class GatheredArguments {
 public:
  GatheredArguments(Machine& m, const Instruction* in) {
    if (in->inputs > kInline) many_.resize(in->inputs);
    pointers_ = in->inputs > kInline ? many_.data() : few_;
    for (uint32_t i = 0; i < in->inputs; ++i) pointers_[i] = m.slots + in->slots[i];
  }
  const IValue* const* data() const { return pointers_; }

 private:
  static constexpr uint32_t kInline = 16;
  const IValue* few_[kInline];
  std::vector<const IValue*> many_;
  const IValue** pointers_;
};

const Instruction* scalarN(Machine& m, const Instruction* in) {
  GatheredArguments arguments(m, in);
  in->scalar(arguments.data(), m.slots[in->output()]);
  return in + 1;
}

const Instruction* callOp(Machine& m, const Instruction* in) {
  GatheredArguments arguments(m, in);
  m.context.checkInterrupt();
  if (in->outputs == 1) [[likely]] {
    IValue result;
    callOperator(*in->op, arguments.data(), in->inputs, &result, 1, m.context);
    m.slots[in->output()] = std::move(result);
    return in + 1;
  }
  std::vector<IValue> results(in->outputs + 1);
  callOperator(*in->op, arguments.data(), in->inputs, results.data(), in->outputs, m.context);
  for (uint32_t i = 0; i < in->outputs; ++i) m.slots[in->output(i)] = std::move(results[i]);
  return in + 1;
}

// The value of its first input is not needed after it.
const Instruction* callOwningOp(Machine& m, const Instruction* in) {
  const OwnedArgument owned(m.slots[in->slots[0]]);
  return callOp(m, in);
}

size_t bytesOf(const IValue& v) {
  if (v.isTensor() && v.tensorImpl())
    return static_cast<size_t>(v.tensorImpl()->numel()) * itemSize(v.tensorImpl()->dtype());
  size_t bytes = 0;
  if (v.isList() && v.toList().elementType->isTensor())
    for (const IValue& item : v.toList().items) bytes += bytesOf(item);
  return bytes;
}

// Steps between nodes, though they know the one that they come after.
bool isBetweenNodes(const Instruction* in) {
  return in->handler == release || in->handler == move || in->handler == copy || in->handler == jump;
}

// Of the nodes that runs within this thread's current one have told of by themselves.
thread_local RunObserver::Clock::duration toldWithin{};

// The same as calling handlers, with each of them timed.
void runObserved(Machine& m, const Instruction*& in, RunObserver& observer) {
  while (in) {
    const Instruction* current = in;
    // Others take more than their inputs, or go on elsewhere.
    bool isCall = current->handler == callOp || current->handler == callOwningOp || current->handler == callEngine;
    size_t bytes = 0;
    for (uint32_t i = 0; isCall && i < current->inputs; ++i) bytes += bytesOf(m.slots[current->slots[i]]);
    const RunObserver::Clock::duration told = toldWithin;
    RunObserver::Clock::time_point begin = RunObserver::Clock::now();
    in = current->handler(m, current);
    RunObserver::Clock::time_point end = RunObserver::Clock::now() - (toldWithin - told);
    if (isCall && in == current + 1)
      for (uint32_t i = 0; i < current->outputs; ++i) bytes += bytesOf(m.slots[current->output(i)]);
    observer.onNode(isBetweenNodes(current) ? nullptr : current->node, bytes, begin, end);
  }
}

// Runs a program from its start; `in` is where it is.
void execute(Machine& m, const Function& entry, std::span<const IValue> inputs, const Instruction*& in) {
  in = m.start(entry, inputs);
  if (RunObserver* observer = RunObserver::current()) [[unlikely]]
    runObserved(m, in, *observer);
  while (in) in = in->handler(m, in);
}

// What the inputs of a failed node were, for the message.
std::string describe(const IValue& v) {
  if (v.isTensor() && v.tensorImpl()) {
    const TensorImpl& t = *v.tensorImpl();
    return std::string(graphName(t.dtype())) + "(" +
           join(t.sizes(), ", ", [](int64_t s) { return std::to_string(s); }) + ")";
  }
  if (v.isList() && v.toList().elementType->isTensor()) {
    constexpr size_t kTensors = 4;
    const std::vector<IValue>& items = v.toList().items;
    std::string out = typeText(dynamicType(v)) + " of " + std::to_string(items.size());
    for (size_t i = 0; i < std::min(items.size(), kTensors); ++i) out += (i ? ", " : ": ") + describe(items[i]);
    return items.size() > kTensors ? out + ", ..." : out;
  }
  if (v.isDict() && v.toDict().size() && v.toDict().keyType->is(TypeKind::String)) {
    std::vector<std::string> keys;
    v.toDict().forEach([&](const IValue& key, const IValue&) { keys.push_back(describe(key)); });
    constexpr size_t kKeys = 8;
    const std::string more = keys.size() > kKeys ? ", ..." : "";
    keys.resize(std::min(keys.size(), kKeys));
    return typeText(dynamicType(v)) + " of " + join(keys, ", ", [](const std::string& key) { return key; }) + more;
  }
  constexpr size_t kShown = 60;
  // Not more of a text than is shown: it may be what took all memory.
  if (v.isString() && v.toString().size() > kShown)
    return shortText(IValue(std::string(v.toString().substr(0, kShown))), kShown, LiteralStyle::Plain) + "...";
  if (v.isString() || v.isNumber() || v.isNone() || v.isDevice() || v.isList() || v.isTuple())
    return shortText(v, kShown, LiteralStyle::Plain);
  return abbreviate(typeText(dynamicType(v), TypeStyle::Schema), kShown);
}

// Whether "%name" stands in a statement of graph text.
bool names(std::string_view statement, const std::string& name) {
  auto goesOn = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.'; };
  for (size_t at = statement.find("%" + name); at != std::string_view::npos; at = statement.find("%" + name, at + 1))
    if (const size_t end = at + 1 + name.size(); end == statement.size() || !goesOn(statement[end])) return true;
  return false;
}

// Numbers and other values that many nodes share, so that their names say nothing of this one.
bool isPlainConstant(const Value* v) {
  if (!v->node() || v->node()->kind() != sym::Constant) return false;
  const IValue* value = v->node()->attributeValue(sym::value);
  return !value || !value->isTensor();
}

// "%x = Float(2, 3), [7, 7]": by the names that the statement has, which are not those that lowering gives. Of many
// inputs the first ones.
std::string inputsText(Machine& m, const Instruction* in) {
  constexpr size_t kShown = 12;
  const Node& n = *in->node;
  const std::string_view statement = n.range.text();
  const bool isGraphText = statement.find('%') != std::string_view::npos;
  std::string out;
  for (size_t i = 0; i < std::min<size_t>(n.inputCount(), kShown); ++i) {
    const Value* v = n.input(i);
    out += i ? ", " : "";
    if (isGraphText ? names(statement, v->name()) : !isPlainConstant(v) && (v->isNamed() || !n.range.valid()))
      out += "%" + v->name() + " = ";
    out += describe(m.slots[in->slots[i]]);
  }
  return n.inputCount() > kShown ? out + ", ..." : out;
}

void report(Machine& m, const Instruction* in, const ExecutionError& e, Diagnostics& diagnostics) {
  const Node* n = e.node() ? e.node() : in ? in->node : nullptr;
  std::string message = e.message();
  bool located = e.kind() == ErrorKind::Model || e.kind() == ErrorKind::Unsupported || e.kind() == ErrorKind::Limit;
  // Nodes that lowering has added ask what an operator of the user's text would have said itself.
  const bool isOurs = n && n->kind().nameSpace() == "tscompile" && n->kind() != sym::Engine;
  if (n && located && n->kind() != sym::RaiseException && !isOurs) message = calledOperator(*n) + ": " + message;
  Diagnostic& d = diagnostics.error(n ? n->range : SourceRange{}, message, e.kind());
  if (!n || e.kind() == ErrorKind::Interrupted) return;
  if (!isOurs && n == in->node && n->inputCount() && n->kind() != sym::RaiseException && in->inputs == n->inputCount())
    d.note("with " + inputsText(m, in));
  if (n->location.present() && !n->location.file.text().empty())
    d.note(fmt::format("in the model at {}:{}:{}", n->location.file.text(), n->location.line, n->location.column));
  int shown = 0;
  for (size_t i = m.frames.size(); i-- > 1 && shown < 8; ++shown)
    if (const Instruction* caller = m.frames[i].caller; caller && caller->node->kind() != sym::Engine)
      d.note(caller->node->range, "called from here");
}

}  // namespace

namespace control {
const Handler kLoadConstant = loadConstant;
const Handler kLoadCopy = loadCopy;
const Handler kMove = move;
const Handler kCopy = copy;
const Handler kRelease = release;
const Handler kJump = jump;
const Handler kJumpIfFalse = jumpIfFalse;
const Handler kLoopEnter = loopEnter;
const Handler kLoopNext = loopNext;
const Handler kReturn = finish;
const Handler kCallFunction = callFunction;
const Handler kCallMethod = callMethod;
const Handler kCallEngine = callEngine;
const Handler kScalar1 = scalar1;
const Handler kScalar2 = scalar2;
const Handler kScalarN = scalarN;
const Handler kOperator = callOp;
const Handler kOwningOperator = callOwningOp;
}  // namespace control

Result<std::shared_ptr<const Program>> Program::compile(const Graph& entry, const OpRegistry& registry,
                                                        ProgramSources sources, Diagnostics& diagnostics) {
  std::shared_ptr<Program> program(new Program);
  program->registry_ = &registry;
  program->sources_ = std::move(sources);
  program->sources_.boundInputs.resize(entry.inputs().size());
  ProgramCompiler compiler(*program, diagnostics);
  if (!compiler.compile(entry)) return Failed{};
  struct Whole {
    std::vector<std::shared_ptr<const void>> held;
    std::shared_ptr<const Program> program;  // goes first
  };
  auto whole = std::make_shared<const Whole>(Whole{compiler.takeHeld(), program});
  return std::shared_ptr<const Program>(whole, program.get());
}

const Function* Program::method(TypePtr type, const std::string& name) const {
  auto methods = sources_.methods.find(type);
  if (methods == sources_.methods.end()) return nullptr;
  auto graph = methods->second.find(name);
  if (graph == methods->second.end()) return nullptr;
  auto function = functions_.find(graph->second);
  return function == functions_.end() ? nullptr : function->second.get();
}

std::vector<const Value*> Program::inputs() const {
  std::vector<const Value*> out;
  for (size_t i = 0; i < graph().inputs().size(); ++i)
    if (!sources_.boundInputs[i]) out.push_back(graph().input(i));
  return out;
}

Result<std::vector<IValue>> Program::run(std::span<const IValue> given, const RunOptions& options,
                                         Diagnostics& diagnostics) const {
  std::vector<IValue> inputs;
  size_t next = 0;
  auto wanted = graph().inputs();
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (sources_.boundInputs[i]) {
      inputs.push_back(*sources_.boundInputs[i]);
      continue;
    }
    if (next >= given.size()) {
      diagnostics.error(graph().range, fmt::format("input %{} was not given", wanted[i]->name()));
      return Failed{};
    }
    const IValue& v = given[next++];
    if (!isInstance(v, withoutRefinement(wanted[i]->type()))) {
      diagnostics.error(graph().range, fmt::format("input %{} takes {}, not {}", wanted[i]->name(),
                                                   typeText(withoutRefinement(wanted[i]->type())),
                                                   typeText(withoutRefinement(dynamicType(v)))));
      return Failed{};
    }
    inputs.push_back(v);
  }
  if (next < given.size()) {
    diagnostics.error(graph().range, fmt::format("the graph takes {}, {} {} given", counted(next, "input"),
                                                 given.size(), given.size() == 1 ? "was" : "were"));
    return Failed{};
  }

  RunContext context(options);
  RunScope scope(context);
  Machine machine(*this, context);
  const Instruction* in = nullptr;
  try {
    try {
      execute(machine, *entry_, inputs, in);
    } catch (...) {
      if (options.state) options.state->copyInputs(given);
      throw;
    }
    if (options.state) options.state->copyInputs(given);
  } catch (const ExecutionError& e) {
    report(machine, in, e, diagnostics);
    return Failed{};
  } catch (const std::bad_alloc&) {
    report(machine, in, ExecutionError(ErrorKind::Limit, "out of memory"), diagnostics);
    return Failed{};
  }
  return std::move(machine.results);
}

namespace {

// Of a run within another: its nodes are told as they are, and its calls of engines are part of the outer call.
class NestedObserver : public RunObserver {
 public:
  explicit NestedObserver(RunObserver& outer) : outer_(outer) {}
  void onLayer(const Network& network, size_t layer, Clock::time_point begin, Clock::time_point end) override {
    outer_.onLayer(network, layer, begin, end);
  }
  void onEngine(const Network& network, Clock::time_point begin, Clock::time_point end) override {
    outer_.onEngine(network, begin, end);
  }
  void onNode(const Node* node, size_t bytes, Clock::time_point begin, Clock::time_point end) override {
    if (node && node->kind() == sym::Engine) return;
    outer_.onNode(node, bytes, begin, end);
    toldWithin += end - begin;
  }

 private:
  RunObserver& outer_;
};

}  // namespace

void runWithin(const Program& program, std::span<const IValue> inputs, std::span<IValue> outputs, RunContext& context) {
  std::optional<NestedObserver> observer;
  std::optional<ObserverScope> observing;
  if (RunObserver* outer = RunObserver::current()) [[unlikely]]
    observing.emplace(observer.emplace(*outer));
  Machine machine(program, context);
  const Instruction* in = nullptr;
  try {
    execute(machine, ProgramCompiler::entryOf(program), inputs, in);
  } catch (ExecutionError& e) {
    if (in && !e.node()) e.setNode(in->node);
    throw;
  }
  std::move(machine.results.begin(), machine.results.end(), outputs.begin());
}

}  // namespace tscompile
