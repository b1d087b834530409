// Calls: of methods, functions, classes and operators, and how arguments become what schemas ask for.
#include "frontend/source/emitter.h"
#include "ir/support/text.h"

#include <fmt/core.h>

#include <algorithm>

namespace tscompile::source {

using K = Expr::Kind;
using M = Meaning::Kind;

Given Emitter::arguments(const Expr& e, size_t from) {
  Given given;
  for (size_t i = from; i < e.items.size; ++i) {
    const Expr& a = *e.item(i);
    if (a.is(K::Keyword)) {
      given.keywords.emplace_back(a.text, value(*a.item()));
    } else if (a.is(K::Star)) {
      Value* v = value(*a.item());
      if (!v->type()->is(TypeKind::Tuple)) fail("expected a tuple after the star");
      for (Value* part : unpack(v, v->type()->elements().size())) given.values.push_back(part);
    } else {
      given.values.push_back(value(a));
    }
  }
  return given;
}

Meaning Emitter::call(const Expr& e, TypePtr hint) {
  Meaning of = meaning(*e.item());
  auto is = [](Value* v) { return Meaning{M::Value, v}; };
  switch (of.kind) {
    case M::Special:
      if (of.value) {  // `x.tolist()`
        if (!hint) fail("tolist needs a type from annotate");
        TypePtr element = hint;
        int64_t depth = 0;
        for (; element->is(TypeKind::List); element = element->element()) ++depth;
        int64_t kind = element->is(TypeKind::Int)     ? 0
                       : element->is(TypeKind::Float) ? 1
                       : element->is(TypeKind::Bool)  ? 2
                                                      : 3;
        Value *dim = constant(depth), *code = constant(kind);
        return is(make(Symbol::of("prim::tolist"), {of.value, dim, code}, hint));
      }
      return callSpecial(of.text, e, hint);
    case M::Function:
      return is(emitFunction(*of.method, arguments(e)));
    case M::Method:
      return is(emitMethod(of.value, *of.method, arguments(e)));
    case M::Class:
      return is(emitInstance(*of.info, arguments(e)));
    case M::Maker:
      return is(make(sym::CreateObject, {}, of.info->type));
    case M::Cast:
      return is(emitCast(of, arguments(e)));
    case M::Builtin: {
      Given given = arguments(e);
      if (of.value) given.values.insert(given.values.begin(), of.value);
      return is(emitBuiltin(of.symbol, std::move(given)));
    }
    default:
      fail("this cannot be called");
  }
}

// ---- what is no operator ----

Meaning Emitter::callSpecial(const std::string& name, const Expr& e, TypePtr hint) {
  auto is = [](Value* v) { return Meaning{M::Value, v}; };
  size_t count = e.items.size - 1;
  auto needs = [&](size_t least, size_t most) {
    if (count < least || count > most) fail(fmt::format("'{}' got {} arguments", name, count));
  };
  if (name == "annotate") {
    needs(2, 2);
    TypePtr type = library_.typeOf(*e.item(1));
    Value* v = converted(value(*e.item(2), type), type, true);
    if (!isSubtype(v->type(), type)) fail("expected " + typeText(type) + ", found " + typeText(v->type()));
    // None remembers what it is the absence of.
    return is(type->is(TypeKind::Optional) && v->type()->is(TypeKind::None) ? constant({}, type) : v);
  }
  if (name == "unchecked_cast") {
    needs(2, 2);
    Value* v = value(*e.item(2));
    return is(make(sym::unchecked_cast, {v}, library_.typeOf(*e.item(1))));
  }
  if (name == "uninitialized") {
    needs(1, 1);
    return is(make(sym::Uninitialized, {}, library_.typeOf(*e.item(1))));
  }
  if (name == "getattr" || name == "hasattr") {
    needs(2, 3);
    if (!e.item(2)->is(K::String)) fail("expected the name of an attribute");
    Meaning of = meaning(*e.item(1));
    if (name == "getattr") return attribute(of, e.item(2)->text);
    ClassInfo* info = infoOf(asValue(of)->type());
    return is(constant(info && (info->attribute(e.item(2)->text) || info->method(e.item(2)->text))));
  }
  if (name == "isinstance") {
    needs(2, 2);
    return is(instanceCondition(e).value);
  }
  if (name == "fork") return is(emitFork(e, sym::fork, futureType));
  if (name == "awaitable") return is(emitFork(e, Symbol::of("prim::awaitable"), awaitType));
  if (name == "range" || name == "zip" || name == "enumerate") {
    needs(1, name == "zip" ? 1 << 20 : name == "range" ? 3 : 2);
    Meaning m{.kind = M::Dynamic, .text = name};
    for (size_t i = 1; i <= count; ++i) m.parts.push_back(meaning(*e.item(i)));
    if (name != "range") return m;
    if (count == 2) m.parts.push_back(is(constant(1)));
    for (Meaning& part : m.parts) part = is(converted(asValue(part), types().integer, true));
    return m;
  }
  if (name == "tuple") {
    needs(1, 1);
    return is(value(*e.item(1), hint));
  }
  fail(fmt::format("'{}' is not written by PyTorch's serialiser", name), ErrorKind::Unsupported);
}

// The closure becomes a subgraph, what it reads of this function its inputs.
Value* Emitter::emitFork(const Expr& e, Symbol kind, TypePtr (*wrap)(TypePtr)) {
  Meaning of = e.items.size == 2 ? meaning(*e.item(1)) : Meaning{};
  if (of.kind != M::Closure) fail("expected a function to run beside this one");
  auto graph = std::make_unique<Graph>();
  for (const SourcePtr& s : graph_.sources()) graph->keepAlive(s);
  Emitter inside(library_, file_, *graph, this);
  inside.emitClosure(*of.def);
  Node* n = insert(kind, inside.captured());
  n->output()->setType(wrap(graph->output(0)->type()));
  n->setAttribute(sym::Subgraph, std::move(graph));
  return n->output();
}

Value* Emitter::emitCast(const Meaning& m, Given given) {
  if (given.values.size() == 1 && given.keywords.empty()) {
    if (isSubtype(given.values[0]->type(), m.type)) return given.values[0];
  } else if (given.values.empty()) {
    return m.type->is(TypeKind::Int) ? constant(0) : m.type->is(TypeKind::Bool) ? constant(false) : constant(0.0);
  }
  return emitBuiltin(m.symbol, std::move(given));
}

Value* Emitter::emitInstance(ClassInfo& info, Given given) {
  library_.declare(info);
  if (info.kind == ClassKind::NamedTuple) {
    Schema schema;
    schema.name = info.name;
    for (const AttributeInfo& a : info.attributes) {
      Argument& field = schema.arguments.emplace_back();
      field.name = a.name;
      field.type = field.schemaType = a.type;
      field.defaultValue = a.constant;
    }
    return tuple(matchSignature(schema, given), info.type);
  }
  Value* object = make(sym::CreateObject, {}, info.type);
  MethodInfo* init = info.method("__init__");
  if (!init) fail(fmt::format("{} has no '__init__'", info.name));
  emitMethod(object, *init, std::move(given));
  return object;
}

Value* Emitter::emitMethod(Value* self, MethodInfo& method, Given given) {
  given.values.insert(given.values.begin(), self);
  const Schema& schema = library_.schemaOf(method);
  std::vector<Value*> inputs = matchSignature(schema, given);
  library_.request(method);
  if (method.owner->kind == ClassKind::Interface) library_.requestCalls(method.name);
  Node* n = insert(sym::CallMethod, inputs);
  n->setAttribute(sym::name, IValue(method.name));
  n->output()->setType(schema.returns[0].type);
  return n->output();
}

Value* Emitter::emitFunction(MethodInfo& function, Given given) {
  const Schema& schema = library_.schemaOf(function);
  Value* callee = asValue({.kind = M::Function, .method = &function});
  std::vector<Value*> inputs = matchSignature(schema, given);
  inputs.insert(inputs.begin(), callee);
  Node* n = insert(sym::CallFunction, inputs);
  n->output()->setType(schema.returns[0].type);
  return n->output();
}

std::vector<Value*> Emitter::matchSignature(const Schema& schema, Given& given) {
  CallPlan plan;
  std::string why;
  if (!fits(schema, given, true, plan, why)) fail(fmt::format("the call does not fit {}: {}", schema.name, why));
  return inputsOf(plan, given);
}

// ---- operators ----

Value* Emitter::builtin(std::string_view kind, std::initializer_list<Value*> inputs) {
  return emitBuiltin(Symbol::of(kind), {{inputs}, {}});
}

// Of what it gives no more is known than how many values are taken out of it: see unpack().
Value* Emitter::emitUnknown(Symbol kind, const Given& given) {
  library_.meetUnknown(file_, span_, kind);
  std::vector<Value*> inputs = given.values;
  for (const auto& [name, v] : given.keywords) inputs.push_back(v);
  Value* result = insert(kind, inputs)->output();
  result->setType(types().tensor);
  unknown_.insert(result);
  return result;
}

// Nodes that have more than arguments: constants, subgraphs, the types of what they give.
void Emitter::failWithoutAttributes(Symbol kind) {
  const bool isOfOneDnn =
      kind.text().find("mkldnn") != std::string_view::npos || kind.text().find("MKLDNN") != std::string_view::npos;
  fail(fmt::format("the archive does not hold what {} needs", kind.text()), ErrorKind::Input,
       isOfOneDnn ? "PyTorch does not save it, and cannot open this archive either; save the model before "
                    "torch.jit.optimize_for_inference"
                  : "attributes of nodes are not in archives; graph text has them");
}

Value* Emitter::emitBuiltin(Symbol kind, Given given) {
  static const Symbol kDevice = Symbol::of("aten::device");
  if (kind == kDevice && given.values.size() == 1 && given.values[0]->node())
    if (const IValue* text = given.values[0]->node()->attributeValue(sym::value); text && text->isString())
      if (std::optional<Device> device = deviceFromText(text->toString())) return constant(*device);
  if (Value* sorted = emitObjectSort(kind, given)) return sorted;
  auto overloads = library_.registry().overloads(kind);
  if (overloads.empty()) return emitUnknown(kind, given);
  std::string why;
  for (bool convert : {false, true}) {
    if (!convert && overloads.size() == 1) continue;
    for (const Operator* op : overloads) {
      CallPlan plan;
      if (MethodInfo* before = library_.before(*op, file_)) {
        if (fits(library_.schemaOf(*before), given, convert, plan, why)) return emitFunction(*before, std::move(given));
        continue;
      }
      if (!fits(op->schema(), given, convert, plan, why)) continue;
      std::vector<Value*> inputs = inputsOf(plan, given);
      const Schema& schema = op->schema();
      if (schema.varReturns) failWithoutAttributes(kind);
      Node* n = insert(kind, inputs, schema.returns.size());
      for (size_t i = 0; i < schema.returns.size(); ++i) {
        TypePtr t = substituteTypeVariables(schema.returns[i].type, plan.bindings);
        if (!t) fail(fmt::format("the type that {} returns is open", kind.text()));
        n->output(i)->setType(t);
      }
      return schema.returns.size() == 1 ? n->output() : tuple(n->outputs());
    }
  }
  std::string given_;
  for (Value* v : given.values) given_ += (given_.empty() ? "" : ", ") + typeText(withoutRefinement(v->type()));
  for (const auto& [name, v] : given.keywords)
    given_ += fmt::format("{}{}={}", given_.empty() ? "" : ", ", name, typeText(withoutRefinement(v->type())));
  fail(fmt::format("no overload of {} takes ({})", kind.text(), abbreviate(given_, 200)), ErrorKind::Input,
       "the last that was tried: " + why);
}

namespace {

bool isListOfTuple(TypePtr tuple, TypePtr list) {
  if (!tuple->is(TypeKind::Tuple) || !list->is(TypeKind::List) || tuple->elements().empty()) return false;
  return std::all_of(tuple->elements().begin(), tuple->elements().end(),
                     [&](TypePtr e) { return isSubtype(e, list->element()); });
}

// `zeros(2, 3)` for `zeros([2, 3])`; not for a list that may be None.
bool takesRest(const Schema& schema, size_t i) {
  const Argument& a = schema.arguments[i];
  TypePtr t = a.type;
  bool last = i + 1 == schema.arguments.size() || schema.arguments[i + 1].keywordOnly;
  return last && t->is(TypeKind::List) && !t->element()->is(TypeKind::Variable) && !a.fixedSize;
}

// One number for each of a fixed number of elements.
bool isRepeated(const Argument& a, Value* v) {
  TypePtr list = withoutOptional(a.type), t = v->type();
  return a.fixedSize && list->is(TypeKind::List) && list->element() == t &&
         (t->is(TypeKind::Int) || t->is(TypeKind::Float));
}

Value* keywordOf(const Given& given, std::string_view name) {
  for (const auto& [keyword, v] : given.keywords)
    if (keyword == name) return v;
  return nullptr;
}

}  // namespace

bool Emitter::fits(const Schema& schema, const Given& given, bool convert, CallPlan& plan, std::string& why) {
  using How = CallPlan::Slot::How;
  plan.schema = &schema;
  plan.convert = convert;
  size_t used = 0, keywords = 0;
  for (size_t i = 0; i < schema.arguments.size(); ++i) {
    const Argument& a = schema.arguments[i];
    if (!a.keywordOnly && used < given.values.size()) {
      Value* v = given.values[used];
      TypePtr t = v->type();
      if (convert && takesRest(schema, i) && !t->is(TypeKind::List) && !isListOfTuple(t, a.type)) {
        TypePtr element = a.type->element();
        for (size_t k = used; k < given.values.size(); ++k)
          if (!converts(given.values[k], given.values[k]->type(), element, true))
            return why = fmt::format("'{}' cannot be a list of {}", a.name, typeText(element)), false;
        plan.slots.push_back({How::Collect, nullptr, used, a.type, &a});
        used = given.values.size();
        continue;
      }
      ++used;
      if (!planArgument(a, v, plan, why)) return false;
    } else if (Value* v = keywordOf(given, a.name)) {
      ++keywords;
      if (!planArgument(a, v, plan, why)) return false;
    } else if (a.defaultValue) {
      plan.slots.push_back({How::Default, nullptr, 0, a.type, &a});
    } else {
      return why = fmt::format("'{}' is missing", a.name), false;
    }
  }
  if (used < given.values.size() && !schema.varArguments) return why = "too many arguments", false;
  for (; used < given.values.size(); ++used) plan.slots.push_back({How::Value, given.values[used], 0, types().any});
  if (keywords < given.keywords.size()) return why = "a keyword is unknown or given twice", false;
  return true;
}

bool Emitter::planArgument(const Argument& a, Value* v, CallPlan& plan, std::string& why) {
  using How = CallPlan::Slot::How;
  if (isRepeated(a, v)) {
    plan.slots.push_back({How::Repeat, v, 0, a.type, &a});
    return true;
  }
  TypePtr formal = a.type;
  if (formal->hasVariables()) {
    bool bound = bindTypeVariables(formal, withoutRefinement(v->type()), plan.bindings);
    TypePtr concrete = bound ? substituteTypeVariables(formal, plan.bindings) : nullptr;
    // None for an optional of anything.
    if (!concrete && formal->is(TypeKind::Optional) && v->type()->is(TypeKind::None)) concrete = types().none;
    if (!concrete) return why = fmt::format("'{}' cannot be {}", a.name, typeText(v->type())), false;
    formal = concrete;
  }
  if (!converts(v, v->type(), formal, plan.convert))
    return why = fmt::format("'{}' cannot be {}", a.name, typeText(v->type())), false;
  plan.slots.push_back({How::Value, v, 0, formal, &a});
  return true;
}

std::vector<Value*> Emitter::inputsOf(const CallPlan& plan, const Given& given) {
  using How = CallPlan::Slot::How;
  std::vector<Value*> inputs;
  for (const CallPlan::Slot& s : plan.slots) {
    if (s.how == How::Value) {
      inputs.push_back(converted(s.value, s.type, plan.convert));
    } else if (s.how == How::Default) {
      const IValue& v = *s.argument->defaultValue;
      inputs.push_back(constant(v, v.isList() ? withoutOptional(s.type) : nullptr));
    } else {
      TypePtr list = withoutOptional(s.type);
      std::vector<Value*> parts(given.values.begin() + static_cast<ptrdiff_t>(s.from), given.values.end());
      if (s.how == How::Repeat) parts.assign(static_cast<size_t>(*s.argument->fixedSize), s.value);
      for (Value*& v : parts) v = converted(v, list->element(), true);
      inputs.push_back(insert(sym::ListConstruct, parts)->output());
      inputs.back()->setType(list);
    }
  }
  return inputs;
}

// ---- conversions ----

namespace {

// The operator that makes a number of a tensor, or a certain number of any; "" if there is none.
std::string_view implicitCast(TypePtr from, TypePtr to) {
  bool tensor = from->isTensor(), number = from->is(TypeKind::Number);
  if (!tensor && !number) return {};
  switch (to->kind()) {
    case TypeKind::Float:
      return tensor ? "aten::FloatImplicit" : "aten::Float";
    case TypeKind::Int:
      return tensor ? "aten::IntImplicit" : "aten::Int";
    case TypeKind::Complex:
      return tensor ? "aten::ComplexImplicit" : "aten::Complex";
    case TypeKind::Number:
      return tensor ? "aten::ScalarImplicit" : "";
    default:
      return {};
  }
}

}  // namespace

bool Emitter::converts(Value* v, TypePtr from, TypePtr to, bool implicitly) {
  if (isSubtype(from, to)) return true;
  if (to->is(TypeKind::Optional) && !from->is(TypeKind::Optional) && !from->is(TypeKind::None)) to = to->element();
  if (v && emptyLists_.count(v) && to->is(TypeKind::List)) return true;
  if (isListOfTuple(from, to)) return true;
  if (from->is(TypeKind::Tuple) && to->is(TypeKind::Tuple) && from->elements().size() == to->elements().size()) {
    for (size_t i = 0; i < to->elements().size(); ++i)
      if (!converts(nullptr, from->element(i), to->element(i), implicitly)) return false;
    return true;
  }
  if (implicitly && !implicitCast(from, to).empty()) return true;
  if (implicitly && from->is(TypeKind::String) && to->is(TypeKind::Device)) return true;
  return isSubtype(from, to);
}

Value* Emitter::converted(Value* v, TypePtr to, bool implicitly) {
  TypePtr from = v->type();
  if (to->is(TypeKind::Optional) && !from->is(TypeKind::Optional) && !from->is(TypeKind::None)) to = to->element();
  if (emptyLists_.count(v) && to->is(TypeKind::List)) {
    if (v->hasUses()) {
      v = insert(sym::ListConstruct, {})->output();
    } else {
      emptyLists_.erase(v);
    }
    v->setType(to);
    return v;
  }
  if (isSubtype(from, to) && !(from->is(TypeKind::Tuple) && to->is(TypeKind::List))) return v;
  if (from->is(TypeKind::Tuple)) {
    bool toList = isListOfTuple(from, to);
    if (!toList && (!to->is(TypeKind::Tuple) || to->elements().size() != from->elements().size())) return v;
    std::vector<Value*> parts = unpack(v, from->elements().size());
    if (!toList) {
      for (size_t i = 0; i < parts.size(); ++i) parts[i] = converted(parts[i], to->element(i), implicitly);
      return tuple(parts, to->isNamedTuple() ? to : nullptr);
    }
    v = insert(sym::ListConstruct, parts)->output();
    v->setType(to);
    return v;
  }
  if (!implicitly) return v;
  if (std::string_view kind = implicitCast(from, to); !kind.empty()) return builtin(kind, {v});
  if (from->is(TypeKind::String) && to->is(TypeKind::Device)) return builtin("aten::device", {v});
  return v;
}

}  // namespace tscompile::source
