#include "runtime/engine/support.h"

#include "ir/operators/nearest_overload.h"
#include "ir/support/text.h"
#include "ir/values/aten.h"
#include "runtime/call/session_functions.h"
#include "runtime/engine/number_use.h"
#include "runtime/interpreter/structure_runner.h"

#include <fmt/core.h>

#include <algorithm>
#include <unordered_set>
#include <vector>

namespace tscompile {
namespace {

// Calls f with the nodes of a kind that are of the same attribute by its name, until it gives true.
template <class F>
const Node* findOfAttribute(const Node& node, Symbol kind, F&& f) {
  const IValue* name = node.attributeValue(sym::name);
  if (!name || !name->isString()) return nullptr;
  constexpr size_t kMost = 1000;  // a reason in other words is not worth more in a large graph
  const std::vector<Node*> nodes = node.graph()->nodesOf([&](Symbol k) { return k == kind; });
  for (const Node* n : std::span(nodes).first(std::min(nodes.size(), kMost))) {
    const IValue* other = n->attributeValue(sym::name);
    if (other && other->isString() && other->toString() == name->toString())
      if (const Node* found = f(*n)) return found;
  }
  return nullptr;
}

// The node that sets the attribute which this one reads.
const Node* setterOf(const Node& node) {
  return findOfAttribute(node, sym::SetAttr, [](const Node& n) { return &n; });
}

// The node that writes to the list or the tensor that the attribute is.
const Node* writerOf(const Node& node, OverloadCache& overloads) {
  return findOfAttribute(node, sym::GetAttr, [&](const Node& read) -> const Node* {
    for (const Use& use : read.output()->uses()) {
      const Operator* op = use.user->hasBlocks() ? nullptr : overloads.resolve(*use.user);
      const size_t at = use.index();
      if (op && at < op->schema().arguments.size() && op->schema().arguments[at].isWritten()) return use.user;
    }
    return nullptr;
  });
}

// What helps where an attribute changes.
constexpr std::string_view kState = "such state can be an input and an output of the graph instead";

Verdict ofStructure(const Node& node, OverloadCache& overloads) {
  std::string_view kind = node.kind().text();
  if (StructureRunner::runs(node.kind())) return {};
  if (node.kind() == sym::GetAttr && node.outputCount() == 1) {
    TypePtr t = node.output()->type();
    Remedy remedy = Remedy::Kind::GiveDump;
    if (const Node* setter = setterOf(node))
      return {Reason::SideEffect, fmt::format("reads an attribute that the graph sets; {}", kState),
              Remedy(Remedy::Kind::SetNothing, {std::string(setter->attributeValue(sym::name)->toString())})};
    if (const Node* writer = writerOf(node, overloads))
      return {Reason::SideEffect,
              fmt::format("reads an attribute that {} writes to; {}", writer->kind().text(), kState),
              Remedy::Kind::WithoutWrite};
    if (node.input(0)->node() && node.input(0)->node()->kind() == sym::CreateObject)
      return {Reason::SideEffect, "reads an attribute of an object that the graph makes", Remedy::Kind::UseValues};
    const KindTable& kinds = node.graph()->kinds();
    const bool isClass = t->is(TypeKind::Class);
    if (!kinds.count(sym::CallMethod) && !kinds.count(sym::CallFunction))
      return {Reason::SideEffect, "reads an attribute whose value is not given",
              isClass || t->isTensor() ? Remedy::Kind::GiveWeights : remedy};
    remedy = isClass ? Remedy::Kind::InlineMethods : Remedy::Kind::GiveInlined;
    return {Reason::SideEffect, "reads an attribute that the graph, or what it calls, may set", std::move(remedy)};
  }
  Remedy remedy = Remedy::Kind::LeaveOut;
  if (node.kind() == sym::RaiseException && node.block()->owner() && node.block()->owner()->kind() == sym::If)
    remedy = Remedy::Kind::DecideBranch;
  else if (node.kind() == Symbol::of("aten::wait"))
    remedy = Remedy::Kind::InlineFork;
  return {Reason::SideEffect, fmt::format("{} does more than give a value", kind), std::move(remedy)};
}

Verdict withoutOperator(const Node& node, const OpRegistry& registry) {
  if (!registry.isKnown(node.kind())) {
    std::string nearest = registry.nearestKind(node.kind().text());
    return {Reason::NoOp, fmt::format("there is no operator {}", node.kind().text()),
            nearest.empty() ? Remedy(Remedy::Kind::WriteOtherwise) : Remedy(Remedy::Kind::NearestName, {nearest})};
  }
  if (registry.configured(node.kind()))
    return {Reason::NoOverload, registry.problemOf(node).text, Remedy::Kind::ReadOfPlugins};
  NearestOverload nearest = nearestOverload(node, registry);
  return {Reason::NoOverload,
          fmt::format("no overload takes these arguments: {} of {}", nearest.problem, schemaText(nearest.op->schema())),
          nearest.remedy};
}

bool takesTensor(const Argument& a) {
  TypePtr t = a.type;
  while (t->is(TypeKind::Optional) || t->is(TypeKind::List)) t = t->element();
  return t->isTensor();
}

// Whether a network could only call the operator on tensors without knowing what it gives.
bool lacksShapes(const Node& node, const OpDef& def) {
  const bool tellsShapes = def.session ? static_cast<bool>(def.session->infer) : def.infer != nullptr;
  if (tellsShapes || def.convert || def.scalar || def.has(Trait::ReadsGeometry)) return false;
  auto isTensor = [](TypePtr t) { return t->isTensor() || t->isListOf(TypeKind::Tensor) || t->is(TypeKind::Any); };
  return std::any_of(node.inputs().begin(), node.inputs().end(),
                     [&](const Use& u) { return isTensor(u.value->type()); });
}

// Of tensors beside a number that only a run knows. Half precision takes it in float32, and rounds after each step.
bool isComputedAsItIs(DType d) {
  return d == DType::Undefined || d == DType::Float32 || d == DType::Float64 || isIntegral(d, true);
}

bool holdsTensors(TypePtr t) {
  return t->isTensor() || t->is(TypeKind::List) || t->is(TypeKind::Optional) || t->is(TypeKind::Tuple);
}

// Tensors that are made of numbers alone, as in %t = prim::NumToTensor(%size): their elements are known as soon as the
// sizes are.
bool isMadeOfNumbers(const Value* value, const OpRegistry& registry) {
  constexpr size_t kMaxNodes = 64;
  std::vector<const Value*> todo{value};
  std::unordered_set<const Value*> seen{value};
  while (!todo.empty()) {
    const Node* n = todo.back()->node();
    todo.pop_back();
    if (!n || seen.size() > kMaxNodes || n->hasBlocks() || n->subgraph()) return false;
    if (n->kind() == sym::Constant) continue;
    if (const Operator* op = registry.resolve(*n); op && op->has(Trait::ReadsSizes)) continue;
    for (const Use& u : n->inputs())
      if (holdsTensors(u.value->type()) && seen.insert(u.value).second) todo.push_back(u.value);
  }
  return true;
}

bool indexesByMask(const Node& node, const OpRegistry& registry) {
  if (node.kind() != aten::index || node.inputCount() != 2) return false;
  const Node* list = node.input(1)->node();
  if (!list || list->kind() != sym::ListConstruct) return false;
  return std::any_of(list->inputs().begin(), list->inputs().end(), [&](const Use& u) {
    if (!u.value->type()->isTensor()) return false;
    DType d = u.value->type()->tensor().dtype;
    return (d == DType::Bool || d == DType::UInt8) && !isMadeOfNumbers(u.value, registry);
  });
}

Verdict ofOperator(const Node& node, const Operator& op) {
  std::string name = op.fullName();
  if (!op.isImplemented())
    return {Reason::NoOp, name + " has no kernel: nothing can run it", Remedy::Kind::RegisterKernel};
  const OpDef& def = op.def();
  if (!def.inEngines && def.session && op.schema().isMutable())
    return {Reason::Aliasing, name + " writes to its arguments", {}};
  if (!def.inEngines) return {Reason::NoOp, name + " has no converter", Remedy::Kind::ReadOfConverters};
  if (op.drawsRandom(node))
    return {Reason::Random, name + " draws random numbers",
            op.mayDrawNothing() ? Remedy::Kind::EvaluationMode : Remedy::Kind::DrawElsewhere};
  if (def.has(Trait::SideEffects) && !def.convert)
    return {Reason::SideEffect, name + " does more than give a value", Remedy::Kind::LeaveOut};
  if (def.has(Trait::ChangesGeometry))
    return {Reason::Aliasing, name + " changes the sizes or strides of a tensor that others see",
            Remedy::Kind::WithoutUnderscore};
  if (op.outCount())
    return {Reason::Aliasing, name + " writes to its argument 'out'",
            Remedy(Remedy::Kind::WithoutOut, {std::string(node.kind().text())})};
  bool needsElements = def.has(Trait::DependsOnElements) && node.inputCount() && holdsTensors(node.input(0)->type()) &&
                       !isMadeOfNumbers(node.input(0), op.registry());
  if (needsElements || indexesByMask(node, op.registry()))
    return {
        Reason::DataDependent, fmt::format("what {} gives depends on the elements of a tensor", name),
        std::any_of(node.outputs().begin(), node.outputs().end(), [](const Value* v) { return v->type()->isTensor(); })
            ? Remedy::Kind::KeepSizes
            : Remedy::Kind::ComputeTensors};
  if (lacksShapes(node, def))
    return {Reason::NoOp, name + " has no shape function: an engine cannot plan for what it gives",
            Remedy::Kind::AddShapeFunction};
  for (const Use& u : node.inputs()) {
    if (!u.value->type()->isTensor() || def.scalar) continue;  // what is asked of tensors is asked of any
    DType d = u.value->type()->tensor().dtype;
    const DTypeSet& dtypes = op.quantized() && isQuantized(d) ? op.quantized()->dtypes : def.dtypes;
    if (d != DType::Undefined && !dtypes.empty() && !dtypes.contains(d))
      return {Reason::DType, fmt::format("{} is not implemented for {}, in no place", name, pythonName(d)),
              Remedy::Kind::CastArgument};
    break;
  }
  return {};
}

// Whether others may come to hold the memory of a tensor: engines give copies of what such a number picks.
bool isHandedOut(const Value* value, OverloadCache& overloads) {
  std::vector<const Value*> todo{value};
  std::unordered_set<const Value*> seen{value};
  while (!todo.empty()) {
    const Value* v = todo.back();
    todo.pop_back();
    for (const Use& u : v->uses()) {
      const Operator* op = u.user->hasBlocks() || u.user->isReturn() ? nullptr : overloads.resolve(*u.user);
      const bool isList = u.user->kind() == sym::ListConstruct;
      if (!op && !isList) return true;
      if (op && op->schema().isMutable() && !u.user->input(0)->type()->isTensor()) return true;  // puts it into a list
      if (isList || mayGiveViews(*op) || op->has(Trait::MayShare))
        for (const Value* o : u.user->outputs())
          if (seen.insert(o).second) todo.push_back(o);
    }
  }
  return false;
}

class ConversionSupport : public EngineSupport {
 public:
  explicit ConversionSupport(const OpRegistry& registry) : registry_(registry), overloads_(registry) {}
  Verdict accepts(const Node& node) const override { return nodeVerdict(node, overloads_, registry_); }
  bool takesNumber(const Node& node, size_t input) const override {
    if (!tscompile::takesNumber(node, input, overloads_)) return false;
    const Operator* op = overloads_.resolve(node);
    return numberUse(*op, input).kind != NumberUse::Kind::Index || !isHandedOut(node.output(), overloads_);
  }

 private:
  const OpRegistry& registry_;
  mutable OverloadCache overloads_;
};

}  // namespace

Verdict nodeVerdict(const Node& node, OverloadCache& overloads, const OpRegistry& registry) {
  if (node.kind() == sym::Constant) return {};
  if (node.kind() == sym::PythonOp) return {Reason::SideEffect, "calls Python", Remedy::Kind::WriteTorchScript};
  // Where it is known when an engine is planned; its blocks are asked for node by node.
  if (node.kind() == sym::If || node.kind() == sym::Loop) return {};
  if (node.hasBlocks())
    return {Reason::ControlFlow, fmt::format("{} is control flow", node.kind().text()), Remedy::Kind::CutBlocks};
  if (node.subgraph())
    return {Reason::ControlFlow, fmt::format("{} holds a graph of its own", node.kind().text()),
            Remedy::Kind::InlineGraph};
  if (node.kind() == sym::CallMethod || node.kind() == sym::CallFunction)
    return {Reason::ControlFlow, fmt::format("{} calls what is not inlined", node.kind().text()),
            Remedy::Kind::InlineCalls};
  if (structureHandler(node.kind())) return ofStructure(node, overloads);
  const Operator* op = overloads.resolve(node);
  return op ? ofOperator(node, *op) : withoutOperator(node, registry);
}

bool takesNumber(const Node& node, size_t input, OverloadCache& overloads) {
  if (node.hasBlocks() || node.subgraph() || !isNumber(node.input(input)->type())) return false;
  const Operator* op = overloads.resolve(node);
  const NumberUse::Kind kind = op ? numberUse(*op, input).kind : NumberUse::Kind::None;
  if (kind != NumberUse::Kind::Operand) return kind != NumberUse::Kind::None;
  return std::all_of(node.inputs().begin(), node.inputs().end(), [](const Use& u) {
    return !u.value->type()->isTensor() || isComputedAsItIs(u.value->type()->tensor().dtype);
  });
}

bool mayGiveViews(const Operator& op) {
  const Schema& s = op.schema();
  if (s.arguments.empty() || s.returns.empty() || !op.isImplemented() || !op.def().infer || s.isMutable()) return false;
  if (op.has(Trait::GivesViews)) return true;
  bool views =
      std::all_of(s.returns.begin(), s.returns.end(), [](const Argument& r) { return r.alias && !r.alias->isWrite; });
  // The elements of a second tensor would say where to cut.
  return views && std::none_of(s.arguments.begin() + 1, s.arguments.end(), takesTensor);
}

EngineUse engineUse(const Operator& op) {
  if (!op.isImplemented() || !op.def().inEngines) return {};
  const OpDef& def = op.def();
  if ((def.has(Trait::Random) && !op.mayDrawNothing()) || (def.has(Trait::SideEffects) && !def.convert) ||
      def.has(Trait::ChangesGeometry) || op.outCount())
    return {};
  if (def.has(Trait::ReadsGeometry) || def.scalar) return {"", "always"};
  if (op.schema().isMutable()) return {"kernel", ""};
  if (def.has(Trait::DependsOnElements) || (!def.infer && !def.convert)) return {"", "if known"};
  if (mayGiveViews(op) && !def.hasSessionConverter()) return {"view", "if known"};
  return {def.convert ? "native" : "kernel", "if known"};
}

EngineUse engineUseOfStructure(Symbol kind) {
  if (kind == sym::Constant || StructureRunner::runs(kind)) return {"", "always"};
  return {};
}

std::unique_ptr<EngineSupport> engineSupport(const OpRegistry& registry) {
  return std::make_unique<ConversionSupport>(registry);
}

}  // namespace tscompile
