#include "runtime/engine/tracer.h"

#include "ir/operators/private_writes.h"
#include "ir/values/aten.h"
#include "ir/values/loop_limits.h"
#include "runtime/call/argument_check.h"
#include "runtime/call/foreign_code.h"
#include "runtime/call/quantized_arguments.h"
#include "runtime/engine/interpreter_strides.h"
#include "runtime/engine/layers/half_tensors.h"
#include "runtime/engine/layers/pointwise_layer.h"
#include "runtime/engine/layers/quantized_layer.h"
#include "runtime/engine/number_inputs.h"
#include "runtime/engine/support.h"
#include "runtime/interpreter/call_operator.h"
#include "runtime/interpreter/constant_value.h"
#include "runtime/reference/loops/copy.h"
#include "runtime/reference/nonzero.h"
#include "runtime/reference/views.h"

#include <fmt/core.h>

#include <algorithm>
#include <deque>
#include <unordered_set>
#include <utility>

namespace tscompile {
namespace {

bool asksForStrides(const Operator& op) { return op.has(Trait::MindsStrides) || op.has(Trait::ReadsStrides); }

}  // namespace

class TracedGraphMaker {
 public:
  TracedGraphMaker(const Graph& graph, const OpRegistry& registry, const ProgramSources& sources, TracedGraph& traced)
      : registry_(registry),
        sources_(sources),
        traced_(traced),
        alias_(graph, registry),
        overloads_(registry),
        slots_(graph) {
    traced.hasWrites_ = alias_.graphHasWrites() && !hasOnlyPrivateWrites(graph, registry) && writesMore(graph);
    for (const Value* v : graph.inputs()) traced.numbers_.push_back(!traced.hasWrites_ && isNumberOfRun(v));
  }

  // Nothing, or what keeps the block out of engines whatever the sizes are.
  std::optional<Refusal> add(const Block& block, TracedGraph::Body& body) {
    for (const Value* v : block.parameters()) body.parameters.push_back(define(v));
    for (const Node* n : block.nodes())
      if (std::optional<Refusal> refusal = add(*n, body)) return refusal;
    for (const Use& u : block.results()) body.results.push_back(slots_[u.value]);
    return std::nullopt;
  }

 private:
  using Step = TracedGraph::Step;
  // Deeper blocks are left to the interpreter, which does not recurse.
  static constexpr uint32_t kMostDepth = 64;

  // Whether something else is written than lists, whose items change places while the graph is traced.
  bool writesMore(const Graph& graph) {
    bool more = false;
    forEachNode(graph, [&](const Node* n) {
      if (more || n->hasBlocks()) return;
      const Operator* op = overloads_.resolve(*n);
      more |= n->subgraph() || (op && (op->trains(*n) || (op->schema().isMutable() && !op->has(Trait::ReadsGeometry))));
    });
    return more;
  }

  bool isNumberOfRun(const Value* v) {
    for (const Use& u : v->uses())
      if (u.user->isReturn() || !takesNumber(*u.user, u.index(), overloads_)) return false;
    return isNumber(v->type());
  }

  uint32_t define(const Value* v) { return slots_[v] = traced_.slotCount_++; }

  std::optional<Refusal> add(const Node& n, TracedGraph::Body& body) {
    Step step;
    step.node = &n;
    Verdict verdict = nodeVerdict(n, overloads_, registry_);
    if (verdict.ok() && n.block()->depth() > kMostDepth)
      verdict = {Reason::Limit, "the blocks around it are nested too deeply for an engine"};
    if (!verdict.ok() && !n.block()->owner()) return Refusal{&n, std::move(verdict)};
    for (const Use& u : n.inputs()) step.inputs.push_back(slots_[u.value]);
    for (const Value* o : n.outputs()) {
      step.outputs.push_back(define(o));
      step.isWritten |= traced_.hasWrites_ && AliasAnalysis::canRefer(o->type()) && alias_.isWritten(o);
    }
    if (!verdict.ok()) {
      step.obstacle = std::move(verdict);
    } else if (std::optional<Refusal> refusal = complete(step)) {
      return refusal;
    }
    step.isFixed = isFixed(step);
    if (step.isFixed) fixed_.insert(step.outputs.begin(), step.outputs.end());
    body.steps.push_back(std::move(step));
    return std::nullopt;
  }

  // Whether it gives the same each time. A list that two nodes know may be changed by one of them.
  bool isFixed(const Step& step) const {
    if (step.isConstant) return true;
    const bool isList = step.node->kind() == sym::ListConstruct && step.node->output()->useCount() == 1;
    const bool isPure = step.op && !step.op->schema().isMutable() && !step.op->has(Trait::Random);
    return step.obstacle.ok() && !step.isWritten && (isList || isPure) &&
           std::all_of(step.inputs.begin(), step.inputs.end(), [&](uint32_t slot) { return fixed_.contains(slot); });
  }

  std::optional<Refusal> complete(Step& step) {
    const Node& n = *step.node;
    for (const Block* b : n.blocks())
      if (std::optional<Refusal> refusal = add(*b, step.bodies.emplace_back())) return refusal;
    step.isConstant = n.kind() == sym::Constant;
    if (step.isConstant) {
      Diagnostics diagnostics;
      step.constant = constantValue(&n, sources_, diagnostics);
      if (diagnostics.errorCount())
        return Refusal{&n, {Reason::ConstArg, "the data of this constant is not known", Remedy::Kind::SupplyWeights}};
    } else if (!n.hasBlocks() && !StructureRunner::runs(n.kind())) {
      step.op = overloads_.resolve(n);
      traced_.asksForStrides_ |= step.op && asksForStrides(*step.op);
    }
    return std::nullopt;
  }

  const OpRegistry& registry_;
  const ProgramSources& sources_;
  TracedGraph& traced_;
  AliasAnalysis alias_;
  OverloadCache overloads_;
  ValueTable<uint32_t> slots_;
  std::unordered_set<uint32_t> fixed_;
};

std::optional<TracedGraph> TracedGraph::make(const Graph& graph, const OpRegistry& registry,
                                             const ProgramSources& sources, std::optional<Refusal>& refusal,
                                             bool keepStrides, const std::string& strideAsker) {
  TracedGraph t;
  t.keepStrides_ = keepStrides;
  t.strideAsker_ = strideAsker;
  t.graph_ = &graph;
  t.registry_ = &registry;
  t.structures_ = std::make_shared<StructureRunner>(registry);
  refusal = TracedGraphMaker(graph, registry, sources, t).add(*graph.block(), t.body_);
  if (refusal) return std::nullopt;
  return t;
}

// One tracing.
class Tracer : private OperatorTracer {
 public:
  Tracer(const TracedGraph& traced, RunContext& context, bool native)
      : traced_(traced),
        context_(context),
        native_(native),
        network_(std::make_unique<Network>()),
        tensors_(*network_, addConversion),
        numbers_(tensors_, *this),
        halves_(tensors_) {
    if (traced.asksForStrides_ || traced.keepStrides_) strides_.emplace(context);
  }

  std::unique_ptr<Network> trace(std::span<const IValue> inputs) {
    slots_.resize(traced_.slotCount_);
    for (size_t i = 0; i < inputs.size(); ++i)
      slots_[i] = traced_.isNumberOfRun(i) && inputs[i].isNumber()
                      ? numbers_.standIn(static_cast<uint32_t>(i), inputs[i])
                      : symbolicInput(inputs[i]);
    numbers_.beginAt(nextTensor_);
    run(traced_.body_);
    for (uint32_t slot : traced_.body_.results) network_->outputs.push_back(output(slots_[slot]));
    checkOrder();
    thinFixed();
    return std::move(network_);
  }

 private:
  const Node* node() const { return step_ ? step_->node : nullptr; }
  [[noreturn]] void refuse(Reason reason, std::string detail, Remedy remedy = {}) const {
    throw Refusal{node(), {reason, std::move(detail), std::move(remedy)}};
  }

  [[noreturn]] void failConverter(std::string why) const {
    throw Refusal{.node = node(), .verdict = {Reason::Limit, std::move(why)}, .isFailure = true};
  }
  [[noreturn]] static void mistake(const Node* node, std::string what) {
    throw Refusal{.node = node, .verdict = {Reason::Limit, std::move(what)}, .isMistake = true, .isFailure = true};
  }
  // Layers run in their order, so what no earlier one has made has no elements yet.
  void checkOrder() const {
    const std::optional<UnmadeTensor> unmade = firstUnmade(*network_);
    if (!unmade) return;
    if (!unmade->layer) refuse(Reason::Limit, "a tensor is given out that no layer makes");
    mistake(unmade->layer->node,
            fmt::format("the layer '{}' reads a tensor that no layer before it makes: layers run in the order in which "
                        "converters add them",
                        unmade->layer->name()));
  }

  IValue symbolicInput(const IValue& v) {
    if (v.isTensor() && v.tensorImpl()) {
      Tensor input = tensors_.makeInput(nextTensor_++, v.toTensor());
      if (!isQuantizedTensor(v)) return input;
      IValue unpacked = unpackInput(tensors_, input, v.toTensor());
      if (strides_) strides_->forget(std::span(&unpacked, 1));
      return unpacked;
    }
    if (!v.isList()) return v;
    std::vector<IValue> items;
    for (const IValue& item : v.toList().items) items.push_back(symbolicInput(item));
    auto list = Ref<ListValue>::make(v.toList().elementType, std::move(items));
    inputLists_.push_back(list.get());
    return IValue(std::move(list));
  }

  // An operator with its arguments.
  struct Call {
    const Operator& op;
    std::vector<const IValue*> arguments;
    size_t resultCount;
    bool symbolic = false;   // some argument is, or holds, a tensor of the network
    bool quantized = false;  // some argument is, or holds, a quantised tensor
    bool isWritten = false;  // some node may write what a result refers to
    bool trains = false;     // it writes arguments beside what its schema says

    void take(const IValue& argument) {
      arguments.push_back(&argument);
      symbolic |= NetworkTensors::isSymbolic(argument);
      quantized |= holdsQuantized(argument);
    }
    // The record for quantised tensors where the first one is.
    const OpDef& def() const {
      return op.quantized() && takesQuantized(arguments.data(), arguments.size()) ? *op.quantized() : op.def();
    }
    // Whether the converter knows what quantised tensors are.
    bool isForConverter() const { return !quantized || def().isForQuantized() || def().dtypes.empty(); }
  };

  void run(const TracedGraph::Body& body) {
    for (const TracedGraph::Step& step : body.steps) {
      context_.checkInterrupt();
      step_ = &step;
      if (!step.obstacle.ok()) throw Refusal{step.node, step.obstacle};
      if (step.isConstant)
        slots_[step.outputs[0]] = step.isWritten && step.constant.isTensor() ? copyOf(step.constant) : step.constant;
      else if (step.bodies.empty())
        run();
      else if (step.node->kind() == sym::If)
        branch(step);
      else
        loop(step);
    }
  }

  // Of control flow: what decides is known now.
  const IValue& decided(uint32_t slot) const {
    if (NetworkTensors::isSymbolic(slots_[slot]))
      refuse(Reason::DataDependent, fmt::format("{} asks for the elements of a tensor", node()->kind().text()));
    return slots_[slot];
  }

  void branch(const TracedGraph::Step& s) {
    const TracedGraph::Body& taken = s.bodies[decided(s.inputs[0]).toBool() ? 0 : 1];
    run(taken);
    for (size_t i = 0; i < s.outputs.size(); ++i) slots_[s.outputs[i]] = slots_[taken.results[i]];
  }

  void loop(const TracedGraph::Step& s) {
    const TracedGraph::Body& body = s.bodies[0];
    const int64_t most = decided(s.inputs[0]).toInt();
    bool goesOn = decided(s.inputs[1]).toBool();
    std::vector<IValue> carried;
    for (size_t i = 2; i < s.inputs.size(); ++i) carried.push_back(slots_[s.inputs[i]]);
    for (int64_t iteration = 0; goesOn && iteration < most; ++iteration) {
      iteratedNodes_ += static_cast<int64_t>(body.steps.size()) + 1;
      if (iteratedNodes_ > kMostIteratedNodes) {
        step_ = &s;
        refuse(Reason::Limit,
               fmt::format("its iterations are more than {} nodes, too many for a plan", kMostIteratedNodes));
      }
      slots_[body.parameters[0]] = IValue(iteration);
      for (size_t i = 0; i < carried.size(); ++i) slots_[body.parameters[i + 1]] = std::move(carried[i]);
      run(body);
      step_ = &s;
      goesOn = decided(body.results[0]).toBool();
      for (size_t i = 0; i < carried.size(); ++i) carried[i] = slots_[body.results[i + 1]];
    }
    for (size_t i = 0; i < carried.size(); ++i) slots_[s.outputs[i]] = std::move(carried[i]);
  }

  void run() {
    const TracedGraph::Step& s = *step_;
    if (s.isFixed && takeFixed(s)) return;
    std::vector<IValue> results(s.outputs.size() + 1);
    if (!s.op) {
      structure(results);
    } else {
      Call call{*s.op, {}, s.outputs.size()};
      for (uint32_t slot : s.inputs) call.take(slots_[slot]);
      call.isWritten = s.isWritten;
      call.trains = s.op->trains(*s.node);
      if (strides_ && call.symbolic) layAsInterpreted(call);
      const bool ofNumbers = numbers_.isAmong(call.arguments);
      ofNumbers ? applyToNumbers(call, results) : apply(call, results);
      if (strides_ && !call.op.has(Trait::ReadsGeometry))
        noteStrides(call, ofNumbers, std::span(results).first(s.outputs.size()));
    }
    if (s.isFixed && isLasting(results[0])) keepFixed(s, results[0]);
    for (size_t i = 0; i < s.outputs.size(); ++i) slots_[s.outputs[i]] = std::move(results[i]);
  }

  // ---- strides that operators ask for ----

  void layAsInterpreted(Call& c) {
    if (!asksForStrides(c.op)) return;
    for (const IValue*& argument : c.arguments) {
      std::optional<IValue> interpreted = strides_->of(*argument);
      if (!interpreted) refuseStrides(c.op.fullName());
      if (c.op.has(Trait::MindsStrides) && interpreted->isTensor() && NetworkTensors::isSymbolic(*interpreted))
        interpreted = laidAs(c.op.fullName(), argument->toTensor(), interpreted->toTensor(),
                             c.op.fullName().starts_with("aten::as_strided"));
      argument = &laid_.emplace_back(std::move(*interpreted));
    }
  }
  [[noreturn]] void refuseStrides(std::string_view asking) const {
    refuse(Reason::Limit, fmt::format("{} asks for strides, which engines choose themselves", asking));
  }
  // Numbers that are inputs of the network only meet elements, or say where a view begins, which is none here.
  void noteStrides(Call& c, bool ofNumbers, std::span<IValue> results) {
    static const IValue kAnyNumber(int64_t{1});
    if ((ofNumbers && !c.op.has(Trait::Elementwise)) || c.op.drawsRandom(*node())) return strides_->forget(results);
    for (size_t i = 0; i < c.arguments.size(); ++i)
      if (ofNumbers && c.arguments[i]->isTensor() && !c.op.schema().arguments[i].type->isTensor())
        c.arguments[i] = &kAnyNumber;
    strides_->note(c.op, c.arguments, results);
  }
  // The elements of a tensor with the strides of another one. readsBesideIt: also what lies around it in memory.
  IValue laidAs(std::string_view asking, const Tensor& t, const Tensor& like, bool readsBesideIt = false) {
    if (placeAlike(t.sizes(), t.strides(), like.strides()))
      return t.withGeometry(t.sizes(), like.strides(), t.offset());
    std::optional<Dims> order = denseOrder(like.sizes(), like.strides());
    if (!order || readsBesideIt) refuseStrides(asking);
    const IValue arguments[] = {t.permuted(*order), IValue(int64_t{0})};
    Tensor copy = trace(*traced_.registry_->find(kClone), arguments).toTensor();
    return copy.withGeometry(like.sizes(), like.strides(), copy.offset());
  }

  // ---- what is made of constants ----

  // Nobody changes it: lists may get other items.
  static bool isLasting(const IValue& v) {
    return v.isObject() || (v.isTensor() && v.tensorImpl() && !v.tensorImpl()->storage()->isSymbolic());
  }
  bool takeFixed(const TracedGraph::Step& s) {
    if (s.outputs.size() != 1) return false;
    std::lock_guard lock(traced_.fixed_->mutex);
    auto known = traced_.fixed_->values.find(s.outputs[0]);
    if (known == traced_.fixed_->values.end()) return false;
    slots_[s.outputs[0]] = known->second;
    return true;
  }
  void keepFixed(const TracedGraph::Step& s, IValue& made) {
    if (s.outputs.size() != 1) return;
    std::lock_guard lock(traced_.fixed_->mutex);
    made = traced_.fixed_->values.try_emplace(s.outputs[0], made).first->second;
  }
  // Once all are there, those that only others were made of are given up.
  void thinFixed() {
    std::lock_guard lock(traced_.fixed_->mutex);
    if (std::exchange(traced_.fixed_->isThinned, true)) return;
    std::unordered_set<uint32_t> read(traced_.body_.results.begin(), traced_.body_.results.end());
    addRead(traced_.body_, true, read);
    for (auto& [slot, value] : traced_.fixed_->values)
      if (!read.contains(slot)) value = IValue();
  }
  // What each tracing reads. Nodes inside of control flow are not all run by the first one, so they read it all.
  void addRead(const TracedGraph::Body& body, bool isOutermost, std::unordered_set<uint32_t>& read) const {
    for (const TracedGraph::Step& step : body.steps) {
      const bool isKept = step.outputs.size() == 1 && traced_.fixed_->values.contains(step.outputs[0]);
      if (!isOutermost || !isKept) read.insert(step.inputs.begin(), step.inputs.end());
      for (const TracedGraph::Body& inner : step.bodies) addRead(inner, false, read);
    }
    if (!isOutermost) read.insert(body.results.begin(), body.results.end());
  }

  void apply(const Call& c, std::vector<IValue>& results) {
    if (c.op.has(Trait::ReadsGeometry)) {
      forbidChangedInputs(c);
      call(c, results);
    } else if (!c.isWritten && !c.trains && !c.op.schema().isMutable() && (!c.symbolic || isSmallForm(c))) {
      call(c, results);
    } else {
      layers(c, results);
    }
  }

  // Whether it is known though a tensor is not, whose sizes and dtype are all that it takes; and few enough to be kept.
  bool isSmallForm(const Call& c) const {
    constexpr int64_t kMost = 1 << 16;
    const auto isSymbolic = [](const IValue* v) { return NetworkTensors::isSymbolic(*v); };
    const bool isOfForm = c.op.has(Trait::LendsFirstForm) || c.op.has(Trait::ReadsSizes);
    if (!isOfForm || c.op.has(Trait::Uninitialized) || traced_.hasWrites_ ||
        std::any_of(c.arguments.begin() + 1, c.arguments.end(), isSymbolic))
      return false;
    InferCall infer(c.op, c.arguments.data(), c.arguments.size());
    c.op.def().infer(infer);
    const TensorSpec& s = infer.inferred(0).tensor;
    return s.hasRank && allKnown(s.sizes) && checkedNumel(s.sizes).value_or(kMost + 1) <= kMost;
  }

  void applyToNumbers(const Call& c, std::vector<IValue>& results) {
    std::optional<IValue> result = numbers_.compute(c.op, c.arguments);
    if (!result)
      refuse(Reason::NonTensor,
             fmt::format("{} takes a number that it computes with in another way for each dtype", c.op.fullName()));
    results[0] = std::move(*result);
  }

  IValue trace(const Operator& op, std::span<const IValue> arguments) override {
    if (++depth_ > kMaxDepth) refuse(Reason::Limit, fmt::format("converters ask each other for {}", op.fullName()));
    Call c{meant(op), {}, 1};
    for (const IValue& v : arguments) c.take(v);
    std::vector<IValue> results(2);
    apply(c, results);
    --depth_;
    return std::move(results[0]);
  }
  const OpRegistry& registry() const override { return *traced_.registry_; }

  // A converter that asks for its own operator means ours, whose place it has taken.
  const Operator& meant(const Operator& op) const {
    const bool asksItself = std::ranges::find(converting_, &op) != converting_.end();
    const Operator* ours = asksItself ? registry().builtIn().find(op.fullName()) : nullptr;
    return ours ? *ours : op;
  }

  void call(const Call& c, std::vector<IValue>& results) {
    callOperator(c.op, c.arguments.data(), c.arguments.size(), results.data(), c.resultCount, context_);
  }

  void structure(std::vector<IValue>& results) {
    std::vector<IValue> inputs;
    for (uint32_t slot : step_->inputs) inputs.push_back(slots_[slot]);
    if (step_->node->kind() == Symbol::of("prim::tolist") &&
        std::any_of(inputs.begin(), inputs.end(), NetworkTensors::isSymbolic))
      refuse(Reason::DataDependent, "the elements of a tensor become numbers");
    traced_.structures_->run(*step_->node, inputs, std::span(results).first(step_->outputs.size()), context_);
  }

  // A list that the caller gave is the caller's.
  void forbidChangedInputs(const Call& c) const {
    if (!c.op.schema().isMutable() || !c.arguments[0]->isList()) return;
    for (const ListValue* list : inputLists_)
      if (&c.arguments[0]->toList() == list)
        refuse(Reason::Aliasing, fmt::format("{} changes a list that comes from outside", c.op.kind().text()));
  }

  // ---- operators on tensors ----

  // The positions of true elements in place of masks that are known, by which a tensor of the network is indexed; None
  // where there is no such mask, or one does not fit.
  static IValue placesOfMasks(const Call& c) {
    if (c.op.kind() != aten::index || !c.arguments[1]->isList() || NetworkTensors::isSymbolic(*c.arguments[1]))
      return {};
    const Tensor x = c.arguments[0]->toTensor();
    std::vector<IValue> places;
    bool isAny = false;
    for (const IValue& v : c.arguments[1]->toList().items) {
      const Tensor mask = v.isTensor() && v.tensorImpl() ? v.toTensor() : Tensor();
      if (!mask.defined() || mask.dtype() != DType::Bool || mask.rank() == 0) {
        places.push_back(v);
        continue;
      }
      isAny = true;
      const Tensor found = nonzeroOf(mask);
      for (int d = 0; d < mask.rank(); ++d) {
        const size_t at = places.size();
        if (at >= x.sizes().size() || x.sizes()[at] != mask.size(d)) return {};
        places.emplace_back(contiguous(selected(found, 1, d)));
      }
    }
    return isAny ? IValue(Ref<ListValue>::make(c.arguments[1]->toList().elementType, std::move(places))) : IValue();
  }

  void layers(const Call& c, std::vector<IValue>& results) {
    const Operator& op = c.op;
    if (const IValue places = placesOfMasks(c); !places.isNone()) {
      Call byPlaces{op, {}, c.resultCount};
      byPlaces.take(*c.arguments[0]);
      byPlaces.take(places);
      return layers(byPlaces, results);
    }
    const OpDef& def = c.def();
    const bool hasShapes = def.infer || def.convert;
    if (def.scalar || !def.kernel || !hasShapes || (c.symbolic && def.has(Trait::DependsOnElements)))
      refuse(Reason::DataDependent, fmt::format("what {} gives depends on the elements of a tensor", op.fullName()));
    checkArguments(op, c.arguments.data(), c.arguments.size());
    checkDType(c, def);
    InferCall infer(op, c.arguments.data(), c.arguments.size());
    // Views of quantised tensors are those of all others.
    const bool givesViews = mayGiveViews(op);
    if (InferFunction sizes = givesViews ? op.def().infer : def.infer) inferResults(sizes, op, infer);
    if (givesViews && !def.hasSessionConverter() && views(c, infer, results)) return;
    requireRoom(op, infer);
    ConvertCall call(node(), op, c.arguments.data(), c.arguments.size(), &infer, results.data(), c.resultCount,
                     context_, tensors_, *this);
    if (op.schema().isMutable() && !traced_.hasWrites_) {
      return convertBySession(call, results);
    }
    if (op.schema().isMutable()) {
      requireFirstWritten(c, infer);
      network_->writes = true;
      for (size_t i = 0; i < c.resultCount; ++i) results[i] = *c.arguments[0];
      return toKernel(c, infer, call);
    }
    network_->writes |= c.trains;
    if (traced_.hasWrites_ && op.has(Trait::ShowsConjugates) && isComplex(infer.inferred(0).tensor.dtype))
      refuse(Reason::Aliasing, fmt::format("{} shows what others write", op.fullName()));
    // A network whose memory is written is computed node by node.
    if (traced_.hasWrites_ || !def.convert) return toKernel(c, infer, call);
    if (def.hasSessionConverter()) return convertBySession(call, results);
    if (native_ && !c.quantized && computesInFloats(op, c.arguments, infer)) return computeInFloats(c, infer, results);
    native_&& c.isForConverter() ? def.convert(call) : toKernel(c, infer, call);
    for (size_t i = 0; i < c.resultCount; ++i) {
      if (results[i].isNone())
        refuse(Reason::Limit, fmt::format("the converter of {} left output {} unset", op.fullName(), i + 1));
      const bool isNew = !givesViews && !op.has(Trait::MayShare) && depth_ == 0;
      if (isNew && sharesArgument(call, i, results[i]) && mayBeGivenAway(i)) results[i] = copyOf(results[i]);
    }
  }

  // Converters make tables as long as a result is; of one that no memory holds the interpreter tells what it would
  // take.
  void requireRoom(const Operator& op, const InferCall& infer) const {
    constexpr int64_t kMostElements = int64_t{1} << 44;
    for (size_t i = 0; i < infer.resultCount(); ++i) {
      const InferredResult& result = infer.inferred(i);
      if (result.kind != InferredResult::Kind::Tensor || !result.tensor.hasRank || !allKnown(result.tensor.sizes))
        continue;
      if (checkedNumel(result.tensor.sizes).value_or(kMostElements) >= kMostElements)
        refuse(Reason::Limit, fmt::format("no memory holds what {} gives", op.fullName()));
    }
  }

  // Functions of others may want elements, which there are none of here: the interpreter asks them again with some.
  void inferResults(InferFunction sizes, const Operator& op, InferCall& infer) const {
    try {
      sizes(infer);
    } catch (const ExecutionError& e) {
      if (!op.def().session || e.kind() != ErrorKind::Unsupported) throw;
      refuse(Reason::DataDependent, fmt::format("{} says: {}", op.fullName(), e.message()));
    }
  }

  // Whether output `i` of the node, or a view of it, may leave the engine, where somebody may write to it. Inside of
  // engines nobody does.
  bool mayBeGivenAway(size_t i) const {
    if (i >= node()->outputCount()) return true;
    for (const Use& u : node()->output(i)->uses()) {
      const Operator* op = u.user->isReturn() || u.user->hasBlocks() ? nullptr : traced_.registry_->resolve(*u.user);
      if (!op || op->has(Trait::MayShare) || mayGiveViews(*op)) return true;
    }
    return false;
  }

  // With layers of f32, which round what is of 16 bits (half_tensors.h).
  void computeInFloats(const Call& c, const InferCall& infer, std::vector<IValue>& results) {
    const DType result = infer.inferred(0).tensor.dtype;
    if (c.op.has(Trait::KeepsElements) && isHalf(result)) {
      const Tensor from = c.arguments[0]->toTensor();
      results[0] = halves_.narrowed(node(), result, isHalf(from.dtype()) ? halves_.widened(node(), from) : from);
      return;
    }
    std::vector<IValue> wide;
    for (size_t i = 0; i < c.arguments.size(); ++i) wide.push_back(halves_.inFloats(node(), c.op, c.arguments, i));
    Call inFloats{c.op, {}, c.resultCount};
    for (const IValue& v : wide) inFloats.take(v);
    const size_t first = network_->layers.size();
    layers(inFloats, results);
    halves_.tellDType(c.op, c.arguments, first);
    for (size_t i = 0; i < infer.resultCount(); ++i)
      if (const DType dtype = infer.inferred(i).tensor.dtype; isHalf(dtype))
        results[i] = halves_.narrowed(node(), dtype, results[i].toTensor());
  }

  static void toKernel(const Call& c, const InferCall& infer, ConvertCall& call) {
    bool isPlain = !c.quantized && c.def().infer;
    for (size_t i = 0; i < infer.resultCount(); ++i) isPlain &= !isQuantized(infer.inferred(i).tensor.dtype);
    isPlain ? convertToKernel(call) : convertQuantizedToKernel(call);
  }

  // A converter that others have written may do anything.
  void convertBySession(ConvertCall& call, std::vector<IValue>& results) {
    std::string name = call.op().fullName();
    const size_t firstLayer = network_->layers.size();
    try {
      const ForeignCode running("the converter of ", "", call.op().kind().text());
      converting_.push_back(&call.op());
      call.op().def().convert(call);
      converting_.pop_back();
    } catch (const Refusal&) {
      throw;
    } catch (const ExecutionError& e) {
      if (e.kind() == ErrorKind::Interrupted || e.kind() == ErrorKind::Limit) throw;
      failConverter(fmt::format("the converter of {} failed: {}", name, e.message()));
    } catch (const std::exception& e) {
      failConverter(fmt::format("the converter of {} failed: {}", name, e.what()));
    } catch (...) {
      failConverter(fmt::format("the converter of {} failed", name));
    }
    for (const std::unique_ptr<Layer>& layer : std::span(network_->layers).subspan(firstLayer)) checkTensors(*layer);
    for (size_t i = 0; i < call.resultCount(); ++i) {
      if (sharesArgument(call, i, results[i])) results[i] = copyOf(results[i]);
      const char* wrong = results[i].isNone()   ? "left output {} of {} unset"
                          : !call.fitsResult(i) ? "gave output {} of {} another type or shape than inference"
                                                : nullptr;
      if (wrong) mistake(node(), "the converter " + fmt::format(fmt::runtime(wrong), i + 1, name));
      if (!isComputed(results[i]))
        mistake(node(), fmt::format("the converter added no layer that computes output {} of {}", i + 1, name));
    }
  }

  // What a layer names are tensors of the network.
  void checkTensors(const Layer& layer) const {
    for (const std::vector<TensorId>* ids : {&layer.inputs, &layer.outputs})
      for (TensorId id : *ids)
        if (id >= network_->tensors.size())
          mistake(layer.node, fmt::format("the layer '{}' names tensor {}, and the network has {}", layer.name(), id,
                                          network_->tensors.size()));
  }

  // Whether a layer makes a result, as far as it is a tensor between layers.
  bool isComputed(const IValue& result) {
    if (!NetworkTensors::isSymbolic(result) || !result.isTensor() || tensors_.wideOf(result.toTensor()).defined())
      return true;
    auto bufferOf = [&](TensorId id) { return (*network_)[id].buffer; };
    const BufferId buffer = bufferOf(tensors_.idOf(result.toTensor()));
    auto makes = [&](const std::unique_ptr<Layer>& layer) {
      return std::ranges::any_of(layer->outputs, [&](TensorId id) { return bufferOf(id) == buffer; });
    };
    return network_->buffers[buffer].kind != NetBuffer::Kind::Inner ||
           std::any_of(network_->layers.rbegin(), network_->layers.rend(), makes);
  }

  // Whether a result lies in the memory of an argument though the schema says that it is new.
  static bool sharesArgument(const ConvertCall& call, size_t i, const IValue& result) {
    const std::vector<Argument>& returns = call.op().schema().returns;
    if (i >= returns.size() || returns[i].alias || !result.isTensor() || !result.tensorImpl()) return false;
    for (size_t k = 0; k < call.size(); ++k)
      if (const IValue& a = call.argument(k); a.isTensor() && a.tensorImpl())
        if (a.tensorImpl()->storage().get() == result.tensorImpl()->storage().get()) return true;
    return false;
  }

  void checkDType(const Call& c, const OpDef& def) const {
    const Operator& op = c.op;
    if (def.dtypes.empty()) return;
    for (const IValue* v : c.arguments) {
      if (!v->isTensor()) continue;
      if (v->tensorImpl() && !def.dtypes.contains(v->tensorImpl()->dtype()))
        refuse(Reason::DType,
               fmt::format("{} is not implemented for {}", op.fullName(), pythonName(v->tensorImpl()->dtype())));
      return;
    }
  }

  // Views of symbolic tensors are found by the kernel itself; false if it needs the elements.
  bool views(const Call& c, const InferCall& infer, std::vector<IValue>& results) {
    try {
      KernelCall call(c.op, c.arguments.data(), c.arguments.size(), &infer, results.data(), c.resultCount, context_);
      c.op.def().kernel(call);
    } catch (const ExecutionError& e) {
      if (e.kind() == ErrorKind::Model) throw;  // no view is possible: the interpreter may have other strides
      std::fill(results.begin(), results.end(), IValue());
      return false;
    }
    for (size_t i = 0; i < c.resultCount; ++i)
      if (!isView(results[i])) {
        std::fill(results.begin(), results.end(), IValue());
        return false;
      }
    return true;
  }

  // Symbolic, or a view of a constant: `scale.expand_as(x)`. Constants that are written are computed node by node.
  bool isView(const IValue& v) const {
    if (v.isTensor()) return v.tensorImpl() && (v.tensorImpl()->storage()->isSymbolic() || !traced_.hasWrites_);
    return v.isList() && std::ranges::all_of(v.toList().items, [this](const IValue& i) { return isView(i); });
  }

  // Only operators that write elements of their first argument, and return it, are understood.
  void requireFirstWritten(const Call& c, const InferCall& infer) const {
    const Operator& op = c.op;
    const Schema& schema = op.schema();
    bool good = schema.arguments[0].isWritten() && schema.arguments[0].type->isTensor();
    for (size_t i = 1; i < schema.arguments.size(); ++i) good &= !schema.arguments[i].isWritten();
    for (const Argument& r : schema.returns) good &= r.type->isTensor();
    if (!good) refuse(Reason::Aliasing, fmt::format("{} writes to more than its first argument", op.fullName()));
    if (infer.resultCount() == 0 || infer.inferred(0).kind != InferredResult::Kind::Tensor) return;
    Tensor self = c.arguments[0]->toTensor();
    const Dims& sizes = infer.inferred(0).tensor.sizes;
    if (!std::equal(sizes.begin(), sizes.end(), self.sizes().begin(), self.sizes().end()))
      refuse(Reason::Aliasing, fmt::format("{} gives other sizes than it overwrites", op.fullName()));
  }

  // ---- tensors that each run makes anew ----

  IValue copyOf(const IValue& constant) {
    const Operator* op = traced_.registry_->find(kClone);
    IValue none, result;
    const IValue* arguments[] = {&constant, &none};
    InferCall infer(*op, arguments, 2);
    op->def().infer(infer);
    ConvertCall call(node(), *op, arguments, 2, &infer, &result, 1, context_, tensors_, *this);
    convertToKernel(call);
    return result;
  }

  // A result, as somebody outside asks how it lies.
  IValue laidForOutside(const IValue& v) {
    if (!traced_.keepStrides_) return v;
    std::optional<IValue> interpreted = strides_->of(v);
    if (!interpreted) refuseStrides(traced_.strideAsker_);
    return laidAs(traced_.strideAsker_, v.toTensor(), interpreted->toTensor());
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
    const bool isConstant = !v.tensorImpl()->storage()->isSymbolic();
    IValue made = isConstant ? copyOf(v) : laidForOutside(v);
    if (isConstant && traced_.keepStrides_) made = laidAs(traced_.strideAsker_, made.toTensor(), v.toTensor());
    NetValue out;
    out.kind = NetValue::Kind::Tensor;
    out.tensor = isQuantizedTensor(made) ? packOutput(tensors_, made.toTensor()) : tensors_.idOf(made.toTensor());
    NetBuffer& buffer = network_->buffers[(*network_)[out.tensor].buffer];
    buffer.escapes |= buffer.kind == NetBuffer::Kind::Inner;
    return out;
  }

  const TracedGraph& traced_;
  RunContext& context_;
  bool native_;
  std::unique_ptr<Network> network_;
  NetworkTensors tensors_;
  NumberInputs numbers_;
  HalfTensors halves_;
  std::vector<IValue> slots_;
  std::vector<const ListValue*> inputLists_;
  const TracedGraph::Step* step_ = nullptr;
  uint32_t nextTensor_ = 0;
  int64_t iteratedNodes_ = 0;  // of loops, in each iteration
  int depth_ = 0;              // of converters that ask for other operators
  static constexpr int kMaxDepth = 64;
  std::vector<const Operator*> converting_;    // whose converters of others are at work
  std::optional<InterpreterStrides> strides_;  // where the graph asks for them
  std::deque<IValue> laid_;                    // arguments with the interpreter's strides
};

std::unique_ptr<Network> TracedGraph::trace(std::span<const IValue> inputs, RunContext& context, bool native) const {
  return Tracer(*this, context, native).trace(inputs);
}

}  // namespace tscompile
