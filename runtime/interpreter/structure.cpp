// The prim:: nodes that build and take apart values, and those that depend on attributes, output types or the module.
#include "ir/analysis/context_kind.h"
#include "ir/support/text.h"
#include "ir/values/encoded.h"
#include "ir/values/literal.h"
#include "runtime/call/caller_function.h"
#include "runtime/call/kernel_call.h"
#include "runtime/interpreter/machine.h"
#include "runtime/reference/loops/copy.h"
#include "runtime/reference/text_format.h"

#include <fmt/core.h>

#include <algorithm>

namespace tscompile {
namespace {

IValue& result(Machine& m, const Instruction* in, size_t i = 0) { return m.slots[in->output(i)]; }
const IValue& argument(Machine& m, const Instruction* in, size_t i) { return m.slots[in->input(i)]; }

void needInputs(const Instruction* in, size_t count) {
  if (in->inputs != count) Machine::fail(fmt::format("takes {} inputs, not {}", count, in->inputs));
}

std::vector<IValue> all(Machine& m, const Instruction* in) {
  std::vector<IValue> items;
  items.reserve(in->inputs);
  for (uint32_t i = 0; i < in->inputs; ++i) items.push_back(argument(m, in, i));
  return items;
}

TypePtr outputType(const Instruction* in) {
  TypePtr t = in->node->output()->type();
  return t->is(TypeKind::Optional) ? t->element() : t;
}

// ---- lists, tuples, dicts ----

const Instruction* listConstruct(Machine& m, const Instruction* in) {
  TypePtr t = outputType(in);
  TypePtr element = t->is(TypeKind::List) ? withoutRefinement(t->element()) : types().any;
  result(m, in) = Ref<ListValue>::make(element, all(m, in));
  return in + 1;
}

void unpack(Machine& m, const Instruction* in, const std::vector<IValue>& items, const char* what) {
  if (items.size() != in->outputs)
    Machine::fail(fmt::format("expected {} elements in a {} but found {}", in->outputs, what, items.size()));
  // The outputs may reuse what the container holds the last reference to, so it is kept while they are written.
  IValue keep = argument(m, in, 0);
  for (uint32_t i = 0; i < in->outputs; ++i) result(m, in, i) = items[i];
}

const Instruction* listUnpack(Machine& m, const Instruction* in) {
  needInputs(in, 1);
  const IValue& v = argument(m, in, 0);
  if (!v.isList()) Machine::fail("expected a list");
  unpack(m, in, v.toList().items, "list");
  return in + 1;
}

const Instruction* tupleConstruct(Machine& m, const Instruction* in) {
  TypePtr t = outputType(in);
  result(m, in) = Ref<TupleValue>::make(all(m, in), t->isNamedTuple() ? t : nullptr);
  return in + 1;
}

const Instruction* tupleUnpack(Machine& m, const Instruction* in) {
  needInputs(in, 1);
  const IValue& v = argument(m, in, 0);
  if (!v.isTuple()) Machine::fail("expected a tuple");
  unpack(m, in, v.toTuple().items, "tuple");
  return in + 1;
}

const Instruction* tupleIndex(Machine& m, const Instruction* in) {
  needInputs(in, 2);
  const IValue& v = argument(m, in, 0);
  const IValue& index = argument(m, in, 1);
  if (!v.isTuple() || !index.isInt()) Machine::fail("expected a tuple and an int");
  const auto& items = v.toTuple().items;
  int64_t i = index.toInt();
  if (i < 0) i += static_cast<int64_t>(items.size());
  if (i < 0 || i >= static_cast<int64_t>(items.size())) Machine::fail("tuple index out of range");
  IValue item = items[static_cast<size_t>(i)];
  result(m, in) = std::move(item);
  return in + 1;
}

const Instruction* tupleSlice(Machine& m, const Instruction* in) {
  needInputs(in, 1);
  const IValue& v = argument(m, in, 0);
  const IValue* begin = in->node->attributeValue(Symbol::of("beg"));
  const IValue* end = in->node->attributeValue(Symbol::of("end"));
  if (!v.isTuple() || !begin || !begin->isInt() || !end || !end->isInt())
    Machine::fail("expected a tuple and the attributes 'beg' and 'end'");
  const auto& items = v.toTuple().items;
  auto size = static_cast<int64_t>(items.size());
  int64_t from = std::clamp<int64_t>(begin->toInt(), 0, size), to = std::clamp<int64_t>(end->toInt(), from, size);
  result(m, in) = tuple({items.begin() + from, items.begin() + to});
  return in + 1;
}

const Instruction* dictConstruct(Machine& m, const Instruction* in) {
  TypePtr t = outputType(in);
  bool typed = t->is(TypeKind::Dict);
  auto dict = Ref<DictValue>::make(typed ? withoutRefinement(t->element(0)) : types().any,
                                   typed ? withoutRefinement(t->element(1)) : types().any);
  if (in->inputs % 2) Machine::fail("takes keys and values in turn");
  for (uint32_t i = 0; i < in->inputs; i += 2) dict->set(argument(m, in, i), argument(m, in, i + 1));
  result(m, in) = IValue(std::move(dict));
  return in + 1;
}

// ---- objects ----

std::string_view attributeName(const Instruction* in) {
  const IValue* name = in->node->attributeValue(sym::name);
  if (!name || !name->isString()) Machine::fail("has no attribute 'name'");
  return name->toString();
}

const Instruction* getAttr(Machine& m, const Instruction* in) {
  needInputs(in, 1);
  const IValue& object = argument(m, in, 0);
  std::string_view name = attributeName(in);
  if (object.isTuple() && object.toTuple().type) {
    const auto& fields = object.toTuple().type->fields();
    for (size_t i = 0; i < fields.size(); ++i)
      if (fields[i] == name) {
        IValue item = object.toTuple().items[i];
        result(m, in) = std::move(item);
        return in + 1;
      }
  }
  if (!object.isObject()) Machine::fail(fmt::format("expected an object with an attribute '{}'", name));
  ObjectValue& o = object.toObject();
  Symbol symbol = Symbol::of(name);
  if (o.shared)
    if (const IValue* set = m.state().find(o, symbol)) {
      IValue copy = *set;
      result(m, in) = std::move(copy);
      return in + 1;
    }
  IValue* value = o.find(symbol);
  if (!value) Machine::fail(fmt::format("{} has no attribute '{}'", o.type->name(), name));
  if (value->isLiteral() && !in->node->output()->type()->isTensor())
    throw ExecutionError(ErrorKind::Input,
                         fmt::format("the value of attribute '{}' is not part of the text: give the weights", name));
  IValue copy = o.shared && m.state().isCopied(*value) ? m.state().ownCopy(*value) : *value;
  result(m, in) = std::move(copy);
  return in + 1;
}

const Instruction* getAttrToWrite(Machine& m, const Instruction* in) {
  const Instruction* next = getAttr(m, in);
  const IValue& object = argument(m, in, 0);
  if (!object.isObject() || !object.toObject().shared || !RunState::isShared(result(m, in))) return next;
  IValue copy = m.state().ownCopy(result(m, in));
  m.state().set(object.toObject(), Symbol::of(attributeName(in)), copy);
  result(m, in) = std::move(copy);
  return next;
}

const Instruction* notImplemented(Machine& m, const Instruction* in) {
  const Operator* op = m.program.registry().resolve(*in->node);
  throw ExecutionError(ErrorKind::Unsupported,
                       fmt::format("operator {} is not implemented", op ? op->fullName() : in->node->kind().text()));
}

const Instruction* setAttr(Machine& m, const Instruction* in) {
  needInputs(in, 2);
  const IValue& object = argument(m, in, 0);
  if (!object.isObject()) Machine::fail("expected an object to set an attribute of");
  Symbol name = Symbol::of(attributeName(in));
  ObjectValue& o = object.toObject();
  // A loaded module is shared by all runs: what a run sets is seen by this run only.
  if (o.shared)
    m.state().set(o, name, argument(m, in, 1));
  else
    o.set(name, argument(m, in, 1));
  return in + 1;
}

const Instruction* createObject(Machine& m, const Instruction* in) {
  result(m, in) = Ref<ObjectValue>::make(outputType(in));
  return in + 1;
}

// What is left of torch.no_grad(): the answer of torch.is_grad_enabled().
void switchGradients(Machine& m, ObjectValue& context, bool isEnter) {
  static const Symbol kPrevious = Symbol::of("prev");
  bool& enabled = m.context.gradEnabled;
  if (isEnter) context.set(kPrevious, enabled);
  const IValue* previous = context.find(kPrevious);
  enabled = !isEnter && previous && previous->isBool() && previous->toBool();
}

// `with` statements: contexts that change more than modes run their own methods.
const Instruction* context(Machine& m, const Instruction* in, const char* method) {
  needInputs(in, 1);
  const IValue& object = argument(m, in, 0);
  if (!object.isObject()) Machine::fail("expected an object as the context");
  const std::string& name = object.toObject().type->name();
  if (const ContextKind kind = contextKindOf(name); kind != ContextKind::Other) {
    if (name.ends_with(".no_grad")) switchGradients(m, object.toObject(), method == std::string_view("__enter__"));
    const IValue given = kind == ContextKind::Autocast ? object : IValue();
    for (uint32_t i = 0; i < in->outputs; ++i) result(m, in, i) = given;
    return in + 1;
  }
  if (const Function* f = m.program.method(object.toObject().type, method)) {
    // `__exit__` is told of no exception: where one is raised, the run ends.
    constexpr size_t kException = 3;
    return m.call(*f, in, 1, nullptr, f->parameters.size() == 1 + kException ? kException : 0);
  }
  throw ExecutionError(ErrorKind::Unsupported, fmt::format("method '{}' of {} is not part of the text", method, name));
}
const Instruction* enter(Machine& m, const Instruction* in) { return context(m, in, "__enter__"); }
const Instruction* exit(Machine& m, const Instruction* in) { return context(m, in, "__exit__"); }

const Instruction* enumName(Machine& m, const Instruction* in) {
  needInputs(in, 1);
  const IValue& v = argument(m, in, 0);
  if (!v.isEnum()) Machine::fail("expected an enum");
  result(m, in) = IValue(v.toEnum().member);
  return in + 1;
}

const Instruction* enumValue(Machine& m, const Instruction* in) {
  needInputs(in, 1);
  const IValue& v = argument(m, in, 0);
  if (!v.isEnum()) Machine::fail("expected an enum");
  if (v.toEnum().value.isNone())
    throw ExecutionError(ErrorKind::Unsupported, fmt::format("the value of {}.{} is not part of the text",
                                                             v.toEnum().type->name(), v.toEnum().member));
  IValue value = v.toEnum().value;
  result(m, in) = std::move(value);
  return in + 1;
}

// ---- types ----

const Instruction* isinstance(Machine& m, const Instruction* in) {
  needInputs(in, 1);
  const Attribute* a = in->node->attribute(sym::types);
  const auto* list = a ? std::get_if<std::vector<TypePtr>>(&a->payload) : nullptr;
  const IValue& v = argument(m, in, 0);
  bool is = false;
  if (list) {
    for (TypePtr t : *list) is |= isInstance(v, t);
  } else if (a && a->type()) {
    is = isInstance(v, a->type());
  } else {
    Machine::fail("has no attribute 'types'");
  }
  result(m, in) = is;
  return in + 1;
}

// The value as it is: refinements, profiling nodes, guards.
const Instruction* identity(Machine& m, const Instruction* in) {
  for (uint32_t i = 0; i < in->outputs; ++i) {
    if (i >= in->inputs) Machine::fail("has more outputs than inputs");
    IValue copy = argument(m, in, i);
    result(m, in, i) = std::move(copy);
  }
  return in + 1;
}

const Instruction* uncheckedUnwrap(Machine& m, const Instruction* in) {
  needInputs(in, 1);
  if (argument(m, in, 0).isNone()) Machine::fail("unwrapping null optional");
  return identity(m, in);
}

// Guards of profiled graphs: what they protect is a generic subgraph here, which is right for every input.
const Instruction* typeCheck(Machine& m, const Instruction* in) {
  if (in->outputs == 0) Machine::fail("has no output");
  for (uint32_t i = 0; i + 1 < in->outputs; ++i) {
    if (i >= in->inputs) Machine::fail("has more outputs than inputs");
    IValue copy = argument(m, in, i);
    result(m, in, i) = std::move(copy);
  }
  result(m, in, in->outputs - 1) = true;
  return in + 1;
}

const Instruction* uninitialized(Machine& m, const Instruction* in) {
  for (uint32_t i = 0; i < in->outputs; ++i) result(m, in, i) = IValue::uninitialized();
  return in + 1;
}

// ---- effects ----

const Instruction* raiseException(Machine& m, const Instruction* in) {
  if (in->inputs == 0) Machine::fail("the model raised an exception");
  const IValue& message = argument(m, in, 0);
  std::string text = message.isString() ? message.toString() : shortText(message, size_t{1} << 16, LiteralStyle::Plain);
  std::string type = in->inputs > 1 && argument(m, in, 1).isString() ? argument(m, in, 1).toString() : "";
  if (startsWith(type, "builtins.")) type.erase(0, 9);
  throw ExecutionError(ErrorKind::Model, "the model raised an exception: " + (type.empty() ? "" : type + ": ") + text);
}

const Instruction* print(Machine& m, const Instruction* in) {
  std::string line;
  for (uint32_t i = 0; i < in->inputs; ++i) {
    if (i) line += ' ';
    appendText(argument(m, in, i), line);
  }
  line += '\n';
  if (const auto& sink = m.context.options().print) callCallers(sink, "the function that takes what is printed", line);
  for (uint32_t i = 0; i < in->outputs; ++i) result(m, in, i).reset();
  return in + 1;
}

const Instruction* wait(Machine& m, const Instruction* in) {
  needInputs(in, 1);
  const IValue& v = argument(m, in, 0);
  if (!v.isFuture()) Machine::fail("expected a future");
  IValue value = v.toFuture().value;
  result(m, in) = std::move(value);
  return in + 1;
}

const Instruction* nowait(Machine& m, const Instruction* in) {
  needInputs(in, 1);
  result(m, in) = Ref<FutureValue>::make(argument(m, in, 0));
  return in + 1;
}

// ---- nodes of fused graphs ----

int64_t integerAttribute(const Instruction* in, const char* name) {
  const IValue* v = in->node->attributeValue(Symbol::of(name));
  if (!v || !v->isInt()) Machine::fail(fmt::format("has no attribute '{}'", name));
  return v->toInt();
}

const Instruction* constantChunk(Machine& m, const Instruction* in) {
  needInputs(in, 1);
  const IValue& v = argument(m, in, 0);
  if (!v.isTensor() || !v.tensorImpl()) Machine::fail("expected a tensor");
  Tensor t = v.toTensor();
  int64_t chunks = integerAttribute(in, "chunks"), dim = integerAttribute(in, "dim");
  if (!wrapDim(dim, t.rank()) || t.rank() == 0 || chunks < 1) Machine::fail("dimension out of range");
  int64_t size = t.size(static_cast<int>(dim)), step = (size + chunks - 1) / chunks;
  for (uint32_t i = 0; i < in->outputs; ++i) {
    int64_t from = std::min<int64_t>(size, i * step);
    Dims sizes(t.sizes());
    sizes[dim] = std::min(step, size - from);
    result(m, in, i) = t.withGeometry(sizes, t.strides(), t.offset() + from * t.stride(static_cast<int>(dim)));
  }
  return in + 1;
}

// The dtype that `tolist` expects where it is told that elements are of this type.
DType listedAs(TypePtr element) {
  switch (element->kind()) {
    case TypeKind::Int:
      return DType::Int64;
    case TypeKind::Bool:
      return DType::Bool;
    case TypeKind::Complex:
      return DType::Complex64;
    default:
      return DType::Float32;
  }
}
bool lists(DType expected, DType dtype) {
  if (expected == DType::Float32) return dtype == DType::Float32 || dtype == DType::Float64;
  return expected == dtype || (isComplex(expected) && isComplex(dtype));
}

// `prim::tolist(%tensor, %dim, %type)`: nested lists of the tensor's elements.
const Instruction* toList(Machine& m, const Instruction* in) {
  needInputs(in, 3);
  const IValue& v = argument(m, in, 0);
  if (!v.isTensor() || !v.tensorImpl()) Machine::fail("expected a tensor");
  Tensor t = contiguous(v.toTensor());
  TypePtr type = outputType(in);
  int depth = 0;
  TypePtr element = type;
  for (; element->is(TypeKind::List); element = element->element()) ++depth;
  DType expected = listedAs(element);
  if (!lists(expected, t.dtype()))
    Machine::fail(
        fmt::format("output annotation element type and runtime tensor element type must match for tolist(): "
                    "{} vs {}",
                    graphName(expected), graphName(t.dtype())));
  if (depth != t.rank())
    Machine::fail("output annotation list dimension and runtime tensor dimension must match for tolist()");
  std::vector<IValue> items;
  for (int64_t i = 0; i < t.numel(); ++i) {
    m.context.checkInterrupt();
    if (element->is(TypeKind::Int))
      items.emplace_back(t.integer(i));
    else if (element->is(TypeKind::Bool))
      items.emplace_back(t.integer(i) != 0);
    else if (element->is(TypeKind::Complex))
      items.emplace_back(t.complex(i));
    else
      items.emplace_back(t.real(i));
  }
  // Group the innermost dimension first.
  std::vector<TypePtr> elementTypes;
  for (TypePtr e = type; e->is(TypeKind::List); e = e->element()) elementTypes.push_back(e->element());
  for (int d = t.rank(); d-- > 0;) {
    int64_t length = t.size(d), groups = 1;
    for (int k = 0; k < d; ++k) groups *= t.size(k);
    std::vector<IValue> lists;
    for (int64_t g = 0; g < groups; ++g) {
      m.context.checkInterrupt();
      auto from = items.begin() + g * length;
      lists.emplace_back(Ref<ListValue>::make(
          elementTypes[static_cast<size_t>(d)],
          std::vector<IValue>(std::make_move_iterator(from), std::make_move_iterator(from + length))));
    }
    items = std::move(lists);
  }
  result(m, in) = items.empty() ? IValue() : std::move(items[0]);
  return in + 1;
}

struct Entry {
  const char* kind;
  Handler handler;
};
constexpr Entry kHandlers[] = {
    {"prim::ListConstruct", listConstruct},
    {"prim::ListUnpack", listUnpack},
    {"prim::TupleConstruct", tupleConstruct},
    {"prim::TupleUnpack", tupleUnpack},
    {"prim::TupleIndex", tupleIndex},
    {"prim::TupleSlice", tupleSlice},
    {"prim::DictConstruct", dictConstruct},
    {"prim::GetAttr", getAttr},
    {"prim::SetAttr", setAttr},
    {"prim::CreateObject", createObject},
    {"prim::Enter", enter},
    {"prim::Exit", exit},
    {"prim::EnumName", enumName},
    {"prim::EnumValue", enumValue},
    {"prim::isinstance", isinstance},
    {"prim::unchecked_cast", identity},
    {"prim::unchecked_unwrap_optional", uncheckedUnwrap},
    {"prim::profile", identity},
    {"prim::profile_ivalue", identity},
    {"prim::Guard", identity},
    {"prim::TypeCheck", typeCheck},
    {"prim::RequiresGradCheck", typeCheck},
    {"prim::Uninitialized", uninitialized},
    {"prim::RaiseException", raiseException},
    {"prim::Print", print},
    {"aten::wait", wait},
    {"prim::awaitable_wait", wait},
    {"prim::awaitable_nowait", nowait},
    {"prim::ConstantChunk", constantChunk},
    {"prim::tolist", toList},
};

}  // namespace

const Handler kGetAttrToWrite = getAttrToWrite;
const Handler kNotImplemented = notImplemented;

Handler structureHandler(Symbol kind) {
  static const auto kTable = [] {
    std::unordered_map<Symbol, Handler> table;
    for (const Entry& e : kHandlers) table.emplace(Symbol::of(e.kind), e.handler);
    return table;
  }();
  auto it = kTable.find(kind);
  return it == kTable.end() ? nullptr : it->second;
}

std::vector<Symbol> structureKinds() {
  std::vector<Symbol> kinds;
  for (const Entry& e : kHandlers) kinds.push_back(Symbol::of(e.kind));
  for (const char* k : {"prim::Constant", "prim::If", "prim::Loop", "prim::CallMethod", "prim::CallFunction",
                        "prim::fork", "prim::awaitable", "prim::DifferentiableGraph", "prim::TensorExprGroup",
                        "prim::FusionGroup", "prim::CudaFusionGroup", "prim::StaticSubgraph"})
    kinds.push_back(Symbol::of(k));
  return kinds;
}

}  // namespace tscompile
