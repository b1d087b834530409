#include "runtime/engine/tracer.h"

#include "runtime/constant_value.h"
#include "runtime/engine/evaluation.h"
#include "runtime/engine/support.h"
#include "runtime/reference/copy.h"

#include <fmt/core.h>

namespace tscompile {
std::optional<TracedGraph> TracedGraph::make(const Graph& graph, const OpRegistry& registry,
                                             const ProgramSources& sources, std::optional<Refusal>& refusal) {
  TracedGraph t;
  t.graph_ = &graph;
  t.registry_ = &registry;
  t.structures_ = std::make_shared<StructureRunner>(registry);
  AliasAnalysis alias(graph, registry);
  t.hasWrites_ = alias.graphHasWrites();
  OverloadCache overloads(registry);
  ValueTable<uint32_t> slots(graph);
  auto define = [&](const Value* v) { return slots[v] = t.slotCount_++; };
  for (const Value* v : graph.inputs()) define(v);
  for (const Node* n : graph.block()->nodes()) {
    Verdict verdict = nodeVerdict(*n, overloads, registry);
    if (!verdict.ok()) {
      refusal = Refusal{n, std::move(verdict)};
      return std::nullopt;
    }
    Step step;
    step.node = n;
    for (const Use& u : n->inputs()) step.inputs.push_back(slots[u.value]);
    for (const Value* o : n->outputs()) {
      step.outputs.push_back(define(o));
      step.isWritten |= t.hasWrites_ && AliasAnalysis::canRefer(o->type()) && alias.isWritten(o);
    }
    step.isConstant = n->kind() == sym::Constant;
    if (step.isConstant) {
      Diagnostics diagnostics;
      step.constant = constantValue(n, sources, diagnostics);
      if (diagnostics.errorCount()) {
        refusal = Refusal{n, {Reason::ConstArg, "the data of this constant is not known", "give the weights"}};
        return std::nullopt;
      }
    } else if (!StructureRunner::runs(n->kind())) {
      step.op = overloads.resolve(*n);
    }
    t.steps_.push_back(std::move(step));
  }
  for (const Use& u : graph.outputs()) t.results_.push_back(slots[u.value]);
  return t;
}

// One tracing.
class Tracer {
 public:
  Tracer(const TracedGraph& traced, RunContext& context)
      : traced_(traced), context_(context), network_(std::make_unique<Network>()), tensors_(*network_) {}

  std::unique_ptr<Network> trace(std::span<const IValue> inputs) {
    slots_.resize(traced_.slotCount_);
    for (size_t i = 0; i < inputs.size(); ++i) slots_[i] = symbolicInput(inputs[i]);
    for (const TracedGraph::Step& step : traced_.steps_) {
      context_.checkInterrupt();
      step_ = &step;
      if (step.isConstant) {
        slots_[step.outputs[0]] = step.isWritten && step.constant.isTensor() ? copyOf(step.constant) : step.constant;
      } else {
        run();
      }
    }
    for (uint32_t slot : traced_.results_) network_->outputs.push_back(output(slots_[slot]));
    return std::move(network_);
  }

 private:
  const Node* node() const { return step_ ? step_->node : nullptr; }
  [[noreturn]] void refuse(Reason reason, std::string detail, std::string remedy = {}) const {
    throw Refusal{node(), {reason, std::move(detail), std::move(remedy)}};
  }

  IValue symbolicInput(const IValue& v) {
    if (v.isTensor() && v.tensorImpl()) return tensors_.makeInput(nextTensor_++, v.toTensor());
    if (!v.isList()) return v;
    std::vector<IValue> items;
    for (const IValue& item : v.toList().items) items.push_back(symbolicInput(item));
    auto list = Ref<ListValue>::make(v.toList().elementType, std::move(items));
    inputLists_.push_back(list.get());
    return IValue(std::move(list));
  }

  void run() {
    const TracedGraph::Step& s = *step_;
    arguments_.clear();
    bool symbolic = false;
    for (uint32_t slot : s.inputs) {
      arguments_.push_back(&slots_[slot]);
      symbolic |= NetworkTensors::isSymbolic(slots_[slot]);
    }
    std::vector<IValue> results(s.outputs.size() + 1);
    if (!s.op) {
      structure(symbolic, results);
    } else if (readsGeometryOnly(*s.op)) {
      forbidChangedInputs();
      if (symbolic && otherStrides_ && readsStrides(*s.op))
        refuse(Reason::Limit, fmt::format("{} asks for strides, which engines choose themselves", s.op->fullName()));
      call(results);
    } else if (!symbolic && !s.isWritten && !s.op->schema().isMutable()) {
      call(results);
    } else {
      layers(symbolic, results);
    }
    for (size_t i = 0; i < s.outputs.size(); ++i) slots_[s.outputs[i]] = std::move(results[i]);
  }

  void call(std::vector<IValue>& results) {
    callOperator(*step_->op, arguments_.data(), arguments_.size(), results.data(), step_->outputs.size(), context_);
  }

  void structure(bool symbolic, std::vector<IValue>& results) {
    if (symbolic && step_->node->kind() == Symbol::of("prim::tolist"))
      refuse(Reason::DataDependent, "the elements of a tensor become numbers");
    std::vector<IValue> inputs;
    for (const IValue* v : arguments_) inputs.push_back(*v);
    traced_.structures_->run(*step_->node, inputs, std::span(results).first(step_->outputs.size()), context_);
  }

  // A list that the caller gave is the caller's.
  void forbidChangedInputs() const {
    const Schema& schema = step_->op->schema();
    if (!schema.isMutable() || !arguments_[0]->isList()) return;
    for (const ListValue* list : inputLists_)
      if (&arguments_[0]->toList() == list)
        refuse(Reason::Aliasing, fmt::format("{} changes a list that comes from outside", step_->node->kind().text()));
  }

  // ---- operators on tensors ----

  void layers(bool symbolic, std::vector<IValue>& results) {
    const Operator& op = *step_->op;
    const OpDef& def = op.def();
    if (def.scalar || !def.kernel || !def.infer || (symbolic && dependsOnElements(op)))
      refuse(Reason::DataDependent, fmt::format("what {} gives depends on the elements of a tensor", op.fullName()));
    checkDType(op);
    noteStrides(op);
    InferCall infer(op, arguments_.data(), arguments_.size());
    def.infer(infer);
    if (mayGiveViews(op) && views(op, infer, results)) return;
    size_t count = step_->outputs.size();
    ConvertCall call(step_->node, op, arguments_.data(), arguments_.size(), &infer, results.data(), count, context_,
                     tensors_);
    if (op.schema().isMutable()) {
      requireFirstWritten(op, infer);
      network_->writes = true;
      for (size_t i = 0; i < count; ++i) results[i] = *arguments_[0];
      return convertToKernel(call);
    }
    // A network whose memory is written is computed node by node.
    def.convert && !traced_.hasWrites_ ? def.convert(call) : convertToKernel(call);
    for (size_t i = 0; i < count; ++i)
      if (results[i].isNone())
        refuse(Reason::Limit, fmt::format("the converter of {} left output {} unset", op.fullName(), i + 1));
  }

  // Results lie in row-major order here. Kernels may follow the order of their arguments, or one that is asked for.
  void noteStrides(const Operator& op) {
    for (size_t i = 0; i < arguments_.size(); ++i) {
      const IValue& v = *arguments_[i];
      if (v.isTensor() && v.tensorImpl()) otherStrides_ |= !v.tensorImpl()->isContiguous();
      if (v.isInt() && v.toInt() != 0 && op.schema().arguments[i].name == "memory_format") otherStrides_ = true;
      if (v.isList())
        for (const IValue& item : v.toList().items)
          otherStrides_ |= item.isTensor() && item.tensorImpl() && !item.tensorImpl()->isContiguous();
    }
  }

  void checkDType(const Operator& op) const {
    if (op.def().dtypes.empty()) return;
    for (const IValue* v : arguments_) {
      if (!v->isTensor()) continue;
      if (v->tensorImpl() && !op.def().dtypes.contains(v->tensorImpl()->dtype()))
        refuse(Reason::DType,
               fmt::format("{} is not implemented for {}", op.fullName(), pythonName(v->tensorImpl()->dtype())));
      return;
    }
  }

  // Views of symbolic tensors are found by the kernel itself; false if it needs the elements.
  bool views(const Operator& op, const InferCall& infer, std::vector<IValue>& results) {
    size_t count = step_->outputs.size();
    try {
      KernelCall call(op, arguments_.data(), arguments_.size(), &infer, results.data(), count, context_);
      op.def().kernel(call);
    } catch (const ExecutionError& e) {
      if (e.kind() == ErrorKind::Model) throw;  // no view is possible: the interpreter may have other strides
      std::fill(results.begin(), results.end(), IValue());
      return false;
    }
    for (size_t i = 0; i < count; ++i)
      if (!isAllSymbolic(results[i])) {
        std::fill(results.begin(), results.end(), IValue());
        return false;
      }
    return true;
  }

  static bool isAllSymbolic(const IValue& v) {
    if (v.isTensor()) return v.tensorImpl() && v.tensorImpl()->storage()->isSymbolic();
    return v.isList() && std::all_of(v.toList().items.begin(), v.toList().items.end(), isAllSymbolic);
  }

  // Only operators that write elements of their first argument, and return it, are understood.
  void requireFirstWritten(const Operator& op, const InferCall& infer) const {
    const Schema& schema = op.schema();
    bool good = schema.arguments[0].isWritten() && schema.arguments[0].type->isTensor();
    for (size_t i = 1; i < schema.arguments.size(); ++i) good &= !schema.arguments[i].isWritten();
    for (const Argument& r : schema.returns) good &= r.type->isTensor();
    if (!good) refuse(Reason::Aliasing, fmt::format("{} writes to more than its first argument", op.fullName()));
    if (infer.resultCount() == 0 || infer.inferred(0).kind != InferredResult::Kind::Tensor) return;
    Tensor self = arguments_[0]->toTensor();
    const Dims& sizes = infer.inferred(0).tensor.sizes;
    if (!std::equal(sizes.begin(), sizes.end(), self.sizes().begin(), self.sizes().end()))
      refuse(Reason::Aliasing, fmt::format("{} gives other sizes than it overwrites", op.fullName()));
  }

  // ---- tensors that each run makes anew ----

  IValue copyOf(const IValue& constant) {
    static const std::string kClone = "aten::clone";
    const Operator* op = traced_.registry_->find(kClone);
    IValue none, result;
    const IValue* arguments[] = {&constant, &none};
    InferCall infer(*op, arguments, 2);
    op->def().infer(infer);
    ConvertCall call(node(), *op, arguments, 2, &infer, &result, 1, context_, tensors_);
    convertToKernel(call);
    return result;
  }

  // What a run gives out is its own: tensors that were computed while the network was made are copied.
  NetValue output(const IValue& v) {
    if (v.isDict() || v.isObject() || (v.isTuple() && NetworkTensors::isSymbolic(v)))
      refuse(Reason::NonTensor, "an output is neither a tensor nor a list of tensors");
    if (v.isList()) {
      NetValue list;
      list.kind = NetValue::Kind::List;
      list.elementType = v.toList().elementType;
      for (const IValue& item : v.toList().items) list.items.push_back(output(item));
      return list;
    }
    if (!v.isTensor() || !v.tensorImpl()) return tensors_.valueOf(v);
    NetValue out = tensors_.valueOf(v.tensorImpl()->storage()->isSymbolic() ? v : copyOf(v));
    NetBuffer& buffer = network_->buffers[(*network_)[out.tensor].buffer];
    buffer.escapes |= buffer.kind == NetBuffer::Kind::Inner;
    return out;
  }

  const TracedGraph& traced_;
  RunContext& context_;
  std::unique_ptr<Network> network_;
  NetworkTensors tensors_;
  std::vector<IValue> slots_;
  std::vector<const IValue*> arguments_;  // of the current step
  std::vector<const ListValue*> inputLists_;
  const TracedGraph::Step* step_ = nullptr;
  uint32_t nextTensor_ = 0;
  bool otherStrides_ = false;  // the interpreter may have other strides than the network
};

std::unique_ptr<Network> TracedGraph::trace(std::span<const IValue> inputs, RunContext& context) const {
  return Tracer(*this, context).trace(inputs);
}

}  // namespace tscompile
