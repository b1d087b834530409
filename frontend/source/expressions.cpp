// Expressions: literals, operators, containers, and what names and attributes mean.
#include "frontend/source/emitter.h"
#include "frontend/source/loops.h"
#include "frontend/source/scope.h"
#include "ir/analysis/instance_of.h"
#include "ir/support/text.h"

#include <fmt/core.h>

#include <limits>

namespace tscompile::source {

using K = Expr::Kind;
using M = Meaning::Kind;

Value* Emitter::value(const Expr& e, TypePtr hint) {
  Place place(*this, e.span);
  return asValue(meaning(e, hint));
}

Value* Emitter::asValue(const Meaning& m) {
  switch (m.kind) {
    case M::Value:
      return m.value;
    case M::Function: {
      Value* v = constant({}, types().function);
      v->node()->setAttribute(sym::name, IValue(library_.callName(*m.method)));
      library_.request(*m.method);
      return v;
    }
    case M::Dynamic: {
      std::vector<Value*> parts;
      if (m.text != "tuple") break;
      for (const Meaning& part : m.parts) parts.push_back(asValue(part));
      return tuple(parts);
    }
    case M::Namespace:
      fail(fmt::format("'{}' is not defined", m.text));
    default:
      break;
  }
  fail("expected a value");
}

Meaning Emitter::meaning(const Expr& e, TypePtr hint) {
  Place place(*this, e.span);
  auto is = [](Value* v) { return Meaning{M::Value, v}; };
  switch (e.kind) {
    case K::Name:
      return nameMeaning(e);
    case K::Attribute:
      return select(e);
    case K::Call:
      return call(e, hint);
    case K::Integer:
      return is(literal(e.integer));
    case K::Float:
      return is(literal(e.number));
    case K::Imaginary:
      return is(constant(IValue(std::complex<double>(0, e.number))));
    case K::String:
      return is(constant(IValue(e.text)));
    case K::True:
    case K::False:
      return is(constant(e.is(K::True)));
    case K::None:
      return is(constant({}));
    case K::Tuple:
      return is(emitTuple(e, hint));
    case K::List:
      return is(emitList(e, hint));
    case K::Dict:
      return is(emitDict(e, hint));
    case K::ListOf:
    case K::DictOf:
      return is(emitComprehension(e, hint));
    case K::Format:
      return is(emitFormat(e));
    case K::Subscript:
      return is(emitSubscript(e, hint));
    case K::Unary:
      return is(emitUnary(e));
    case K::Binary:
      return is(emitBinary(e));
    case K::And:
    case K::Or:
      return is(emitShortCircuit(e));
    case K::Conditional: {
      Condition c = condition(*e.item(1));
      if (c.known) return meaning(*e.item(*c.known ? 0 : 2), hint);
      auto branch = [&](bool holds) {
        return [this, &e, &c, hint, holds] {
          refine(c, holds);
          return value(*e.item(holds ? 0 : 2), hint);
        };
      };
      return is(emitChoice(c.value, branch(true), branch(false)));
    }
    default:
      fail("PyTorch's serialiser does not write this expression here", ErrorKind::Unsupported);
  }
}

// ---- names and attributes ----

Meaning Emitter::nameMeaning(const Expr& e) {
  if (const Meaning* m = find(e.text)) return *m;
  return resolveGlobal(std::string(e.text));
}

Meaning Emitter::resolveGlobal(const std::string& name) {
  static const std::unordered_map<std::string_view, std::pair<const char*, TypeKind>> kCasts = {
      {"float", {"aten::Float", TypeKind::Float}},       {"int", {"aten::Int", TypeKind::Int}},
      {"bool", {"aten::Bool", TypeKind::Bool}},          {"str", {"aten::str", TypeKind::String}},
      {"complex", {"aten::Complex", TypeKind::Complex}}, {"_to_tensor", {"prim::NumToTensor", TypeKind::Tensor}}};
  static const std::unordered_map<std::string_view, const char*> kFunctions = {
      {"len", "aten::len"},     {"hex", "aten::hex"},
      {"oct", "aten::oct"},     {"round", "aten::round"},
      {"hash", "aten::hash"},   {"id", "prim::id"},
      {"min", "prim::min"},     {"max", "prim::max"},
      {"abs", "prim::abs"},     {"all", "aten::all"},
      {"any", "aten::any"},     {"divmod", "aten::divmod"},
      {"sum", "aten::sum"},     {"ord", "aten::ord"},
      {"chr", "aten::chr"},     {"bin", "aten::bin"},
      {"pow", "aten::pow"},     {"sorted", "aten::sorted"},
      {"list", "aten::list"},   {"dict", "aten::dict"},
      {"print", "prim::Print"}, {"rangelist", "prim::rangelist"}};
  static const std::set<std::string_view> kSpecial = {
      "annotate",   "unchecked_cast", "uninitialized", "fork",      "awaitable", "getattr", "hasattr",
      "isinstance", "range",          "zip",           "enumerate", "tuple",     "super"};
  if (auto c = kCasts.find(name); c != kCasts.end())
    return {.kind = M::Cast, .symbol = Symbol::of(c->second.first), .type = simpleType(c->second.second)};
  if (auto f = kFunctions.find(name); f != kFunctions.end())
    return {.kind = M::Builtin, .symbol = Symbol::of(f->second)};
  if (kSpecial.count(name)) return {.kind = M::Special, .text = name};
  if (name == "torch" || name == "ops" || name == "CONSTANTS" || name == "__torch__")
    return {.kind = M::Namespace, .text = name};
  constexpr double kInfinity = std::numeric_limits<double>::infinity(), kNaN = std::numeric_limits<double>::quiet_NaN();
  if (name == "inf") return {M::Value, constant(kInfinity)};
  if (name == "nan") return {M::Value, constant(kNaN)};
  if (name == "infj") return {M::Value, constant(IValue(std::complex<double>(0, kInfinity)))};
  if (name == "nanj") return {M::Value, constant(IValue(std::complex<double>(0, kNaN)))};
  fail(fmt::format("'{}' is not defined", abbreviate(name, 80)));
}

Meaning Emitter::select(const Expr& e) {
  Meaning of = meaning(*e.item());
  return attribute(of, e.text);
}

Meaning Emitter::attribute(const Meaning& of, std::string_view name) {
  if (of.kind == M::Class) {
    if (name == "__new__") return {.kind = M::Maker, .info = of.info};
    library_.declare(*of.info);
    for (const auto& [member, value] : of.info->members)
      if (member == name) return {M::Value, constant(anew(value), of.info->type)};
    // Hooks are called with their module as an argument.
    if (MethodInfo* m = of.info->method(name)) return {.kind = M::Function, .method = &library_.unbound(*m)};
    fail(fmt::format("{} has no member '{}'", of.info->name, name));
  }
  if (of.kind != M::Namespace) return valueAttribute(asValue(of), name);
  std::string full = of.text + "." + std::string(name);
  if (of.text == "CONSTANTS") {
    if (const IValue* v = library_.constant(name)) return {M::Value, constant(*v)};
    fail("the archive has no such constant");
  }
  if (of.text == "torch") {
    if (name == "ops") return {.kind = M::Namespace, .text = "ops"};
    return {.kind = M::Builtin, .symbol = Symbol::of("aten::" + std::string(name))};
  }
  if (of.text == "ops") return {.kind = M::Namespace, .text = full};
  if (startsWith(of.text, "ops."))
    return {.kind = M::Builtin, .symbol = Symbol::of(of.text.substr(4) + "::" + std::string(name))};
  if (ClassInfo* info = library_.findClass(full)) return {.kind = M::Class, .info = info};
  if (MethodInfo* f = library_.findFunction(full)) return {.kind = M::Function, .method = f};
  return {.kind = M::Namespace, .text = full};
}

ClassInfo* Emitter::infoOf(TypePtr type) {
  if (!type->is(TypeKind::Class) && !type->is(TypeKind::Interface)) return nullptr;
  ClassInfo* info = library_.findClass(type->name());
  if (info) library_.declare(*info);
  return info;
}

Meaning Emitter::classAttribute(Value* v, ClassInfo& info, std::string_view name) {
  if (MethodInfo* m = info.method(name)) return {.kind = M::Method, .value = v, .method = m};
  const AttributeInfo* a = info.attribute(name);
  if (!a) fail(fmt::format("{} has no attribute '{}'", info.name, abbreviate(name, 80)));
  if (a->constant) return {M::Value, constant(*a->constant, a->type)};
  Value* got = make(sym::GetAttr, {v}, a->type);
  got->node()->setAttribute(sym::name, IValue(name));
  return {M::Value, got};
}

Meaning Emitter::valueAttribute(Value* v, std::string_view name) {
  static const std::set<std::string_view> kProperties = {"dtype",
                                                         "device",
                                                         "grad",
                                                         "data",
                                                         "shape",
                                                         "is_cuda",
                                                         "is_xpu",
                                                         "is_sparse",
                                                         "is_mkldnn",
                                                         "is_mps",
                                                         "is_quantized",
                                                         "is_vulkan",
                                                         "is_ipu",
                                                         "is_meta",
                                                         "is_leaf",
                                                         "is_nested",
                                                         "requires_grad",
                                                         "layout",
                                                         "T",
                                                         "H",
                                                         "mT",
                                                         "mH",
                                                         "itemsize",
                                                         "nbytes",
                                                         "ndim",
                                                         "name",
                                                         "retains_grad",
                                                         "is_sparse_csr",
                                                         "names"};
  TypePtr t = v->type();
  if (ClassInfo* info = infoOf(t)) return classAttribute(v, *info, name);
  if (t->isTensor() && (name == "real" || name == "imag"))
    return {M::Value, builtin("aten::" + std::string(name), {v})};
  if (t->isTensor() && kProperties.count(name)) {
    if (name == "shape") return {M::Value, builtin("aten::size", {v})};
    if (name == "ndim") return {M::Value, builtin("aten::dim", {v})};
    bool isAten = name == "T" || name == "H" || name == "mT" || name == "mH";
    std::string kind = isAten ? "aten::numpy_T" : "prim::" + std::string(name);
    if (isAten && name != "T") kind = name == "H" ? "aten::matrix_H" : "aten::" + std::string(name);
    return {M::Value, builtin(kind, {v})};
  }
  if (t->is(TypeKind::Device) && (name == "type" || name == "index"))
    return {M::Value, builtin("prim::" + std::string(name), {v})};
  if (t->is(TypeKind::Enum) && (name == "name" || name == "value")) {
    ClassInfo* info = library_.findClass(t->name());
    if (info) library_.declare(*info);
    TypePtr type = name == "name" || !info || info->members.empty()
                       ? types().string
                       : dynamicType(info->members[0].second.toEnum().value);
    return {M::Value, make(Symbol::of(name == "name" ? "prim::EnumName" : "prim::EnumValue"), {v}, type)};
  }
  if (t->isNamedTuple())
    for (size_t i = 0; i < t->fields().size(); ++i)
      if (t->fields()[i] == name) {
        Value* index = constant(static_cast<int64_t>(i));
        return {M::Value, make(sym::TupleIndex, {v, index}, t->element(i))};
      }
  if (t->isTensor() && name == "tolist") return {.kind = M::Special, .value = v, .text = "tolist"};
  return {.kind = M::Builtin, .value = v, .symbol = Symbol::of("aten::" + std::string(name))};
}

// ---- conditions ----

Value* Emitter::toBool(Value* v) { return v->type()->is(TypeKind::Bool) ? v : builtin("aten::Bool", {v}); }

Emitter::Condition Emitter::condition(const Expr& e) {
  Place place(*this, e.span);
  if (e.is(K::Unary) && e.text == "not") {
    Condition c = condition(*e.item());
    c.value = builtin("aten::__not__", {c.value});
    if (c.known) c.known = !*c.known;
    std::swap(c.ifTrue, c.ifFalse);
    return c;
  }
  if (e.is(K::Binary) && (e.text == "is" || e.text == "is not")) return isCondition(e);
  if (e.is(K::Call) && e.item()->isName("isinstance") && e.items.size == 3) return instanceCondition(e);
  Value* v = toBool(value(e));
  const IValue* known =
      v->node() && v->node()->kind() == sym::Constant ? v->node()->attributeValue(sym::value) : nullptr;
  return {v, known && known->isBool() ? std::optional(known->toBool()) : std::nullopt};
}

// `x is None`: known where the type says it, else x is refined.
Emitter::Condition Emitter::isCondition(const Expr& e) {
  bool isNot = e.text == "is not";
  Value *left = value(*e.item(0)), *right = value(*e.item(1));
  Condition c{builtin(isNot ? "aten::__isnot__" : "aten::__is__", {left, right}), std::nullopt};
  TypePtr t = left->type();
  if (!right->type()->is(TypeKind::None)) return c;
  if (t->is(TypeKind::None)) c.known = !isNot;
  bool open = t->is(TypeKind::Optional) || t->is(TypeKind::Union) || t->is(TypeKind::Any) || t->is(TypeKind::None);
  if (!open) c.known = isNot;
  if (t->is(TypeKind::Optional) && e.item(0)->is(K::Name)) {
    c.name = e.item(0)->text;
    (isNot ? c.ifTrue : c.ifFalse) = t->element();
  }
  if (c.known) c.value = constant(*c.known);
  return c;
}

Emitter::Condition Emitter::instanceCondition(const Expr& e) {
  Value* v = value(*e.item(1));
  std::vector<TypePtr> wanted;
  const Expr& list = *e.item(2);
  if (list.is(K::Tuple) || list.is(K::List))
    for (const Expr* t : list.items) wanted.push_back(library_.typeOf(*t));
  else
    wanted.push_back(library_.typeOf(list));
  if (std::optional<bool> known = isInstanceOf(v->type(), wanted)) return {constant(*known), known};
  Value* is = make(sym::isinstance, {v}, types().boolean);
  Condition c{is, std::nullopt};
  if (e.item(1)->is(K::Name)) {
    c.name = e.item(1)->text;
    c.ifTrue = unionType(wanted);
  }
  is->node()->setAttribute(sym::types, std::move(wanted));
  return c;
}

void Emitter::refine(const Condition& c, bool branch) {
  TypePtr type = branch ? c.ifTrue : c.ifFalse;
  const Meaning* m = type ? find(c.name) : nullptr;
  if (!m || m->kind != M::Value || m->value->type() == type) return;
  Value* cast = make(sym::unchecked_cast, {m->value}, type);
  frame_->names.insert_or_assign(c.name, Meaning{M::Value, cast});
}

Value* Emitter::emitShortCircuit(const Expr& e) {
  bool isOr = e.is(K::Or);
  Condition left = condition(*e.item(0));
  if (left.known && *left.known == isOr) return left.value;
  auto rest = [&] {
    refine(left, !isOr);
    return condition(*e.item(1)).value;
  };
  if (left.known) return rest();
  auto known = [&] { return constant(isOr); };
  return isOr ? emitChoice(left.value, known, rest) : emitChoice(left.value, rest, known);
}

// ---- operators ----

Value* Emitter::emitUnary(const Expr& e) {
  const Expr& of = *e.item();
  if (e.text == "not") return condition(e).value;
  if (e.text == "+") return value(of);
  if (e.text == "-") {
    // Arithmetic without overflow: the literal may be 2^63.
    if (of.is(K::Integer)) return literal(static_cast<int64_t>(-static_cast<uint64_t>(of.integer)));
    if (of.is(K::Float)) return literal(-of.number);
    if (of.isName("inf") || of.isName("nan")) {
      using Limits = std::numeric_limits<double>;
      return constant(of.isName("inf") ? -Limits::infinity() : Limits::quiet_NaN());
    }
  }
  return builtin(e.text == "-" ? "aten::neg" : "aten::bitwise_not", {value(of)});
}

namespace {

// The real part of a complex number that is written as a sum, `-1.+2.j`; empty if the expression is anything else.
std::optional<double> realPart(const Expr& e) {
  if (e.is(K::Float)) return e.number;
  if (e.is(K::Unary) && e.text == "-" && e.item()->is(K::Float)) return -e.item()->number;
  return std::nullopt;
}

}  // namespace

Value* Emitter::emitBinary(const Expr& e) {
  static const std::unordered_map<std::string_view, const char*> kKinds = {
      {"+", "aten::add"},       {"-", "aten::sub"},         {"*", "aten::mul"},        {"/", "aten::div"},
      {"//", "aten::floordiv"}, {"%", "aten::remainder"},   {"**", "aten::pow"},       {"@", "aten::matmul"},
      {"==", "aten::eq"},       {"!=", "aten::ne"},         {"<", "aten::lt"},         {"<=", "aten::le"},
      {">", "aten::gt"},        {">=", "aten::ge"},         {"&", "aten::__and__"},    {"|", "aten::__or__"},
      {"^", "aten::__xor__"},   {"<<", "aten::__lshift__"}, {">>", "aten::__rshift__"}};
  if (e.text == "is" || e.text == "is not") return isCondition(e).value;
  if (std::optional<double> real = e.item(1)->is(K::Imaginary) ? realPart(*e.item(0)) : std::nullopt)
    if (e.text == "+" || e.text == "-")
      return constant(IValue(std::complex<double>(*real, e.text == "+" ? e.item(1)->number : -e.item(1)->number)));
  Value *left = value(*e.item(0)), *right = value(*e.item(1));
  if (e.text == "in") return builtin("aten::__contains__", {right, left});
  if (e.text == "not in") return builtin("aten::__not__", {builtin("aten::__contains__", {right, left})});
  return builtin(kKinds.at(e.text), {left, right});
}

// ---- containers ----

Value* Emitter::emitTuple(const Expr& e, TypePtr hint) {
  bool fits = hint && hint->is(TypeKind::Tuple) && hint->elements().size() == e.items.size;
  std::vector<Value*> parts;
  for (size_t i = 0; i < e.items.size; ++i) parts.push_back(value(*e.item(i), fits ? hint->element(i) : nullptr));
  return tuple(parts);
}

// An item of a list or dict: of the type that is asked for, or of the one that it has in common with those before it.
Value* Emitter::emitEntry(const Expr& e, const TypePtr& wanted, TypePtr& common, const char* mismatch) {
  Value* v = value(e, wanted);
  if (wanted) v = converted(v, wanted, true);
  TypePtr type = withoutRefinement(v->type());
  common = wanted ? (isSubtype(v->type(), wanted) ? wanted : nullptr) : common ? unifyTypes(common, type) : type;
  if (!common) fail(mismatch);
  return v;
}

Value* Emitter::emitList(const Expr& e, TypePtr hint) {
  if (hint && hint->is(TypeKind::Optional)) hint = hint->element();
  TypePtr element = hint && hint->is(TypeKind::List) ? hint->element() : nullptr;
  std::vector<Value*> parts;
  TypePtr common = nullptr;
  for (const Expr* i : e.items)
    parts.push_back(emitEntry(*i, element, common, "the elements of a list have different types"));
  Value* list = insert(sym::ListConstruct, parts)->output();
  list->setType(listType(element ? element : common ? common : types().tensor));
  if (parts.empty() && !element) emptyLists_.insert(list);
  return list;
}

Value* Emitter::emitDict(const Expr& e, TypePtr hint) {
  if (hint && hint->is(TypeKind::Optional)) hint = hint->element();
  bool hinted = hint && hint->is(TypeKind::Dict);
  TypePtr common[2] = {};
  std::vector<Value*> parts;
  for (size_t i = 0; i < e.items.size; ++i)
    parts.push_back(emitEntry(*e.item(i), hinted ? hint->element(i % 2) : nullptr, common[i % 2],
                              "the entries of a dict have different types"));
  Value* dict = insert(Symbol::of("prim::DictConstruct"), parts)->output();
  dict->setType(hinted ? hint : common[0] ? dictType(common[0], common[1]) : dictType(types().string, types().tensor));
  return dict;
}

// A loop that appends.
Value* Emitter::emitComprehension(const Expr& e, TypePtr hint) {
  bool isDict = e.is(K::DictOf);
  size_t at = isDict ? 2 : 1;
  TypePtr wanted = isDict ? dictType(types().string, types().tensor) : types().tensorList;
  if (hint && hint->is(isDict ? TypeKind::Dict : TypeKind::List)) wanted = hint;
  Value* made = insert(isDict ? Symbol::of("prim::DictConstruct") : sym::ListConstruct, {})->output();
  made->setType(wanted);
  emitEach(meaning(*e.item(at + 1)), *e.item(at), {}, [&] {
    auto add = [&] {
      std::vector<Value*> parts;
      for (size_t i = 0; i < at; ++i) parts.push_back(value(*e.item(i), hint ? wanted->element(i) : nullptr));
      if (!hint && isDict) made->setType(dictType(parts[0]->type(), parts[1]->type()));
      if (!hint && !isDict) made->setType(listType(withoutRefinement(parts[0]->type())));
      isDict ? builtin("aten::_set_item", {made, parts[0], parts[1]}) : builtin("aten::append", {made, parts[0]});
      return constant({});
    };
    if (e.item(at + 2))
      emitChoice(condition(*e.item(at + 2)).value, add, [&] { return constant({}); });
    else
      add();
  });
  return made;
}

Value* Emitter::emitFormat(const Expr& e) {
  std::string pattern;
  Given given;
  given.values.push_back(nullptr);
  for (size_t i = 0; i < e.items.size; ++i) {
    pattern += i % 2 ? "{}" : std::string(e.item(i)->text);
    if (i % 2) given.values.push_back(value(*e.item(i)));
  }
  given.values[0] = constant(IValue(pattern));
  return emitBuiltin(Symbol::of("aten::format"), std::move(given));
}

// ---- subscripts ----

Value* Emitter::emitSubscript(const Expr& e, TypePtr hint) {
  Value* of = value(*e.item());
  TypePtr t = of->type();
  if (t->isTensor()) return emitTensorSubscript(of, e);
  const Expr& index = *e.item(1);
  if (e.items.size != 2) fail("expected one subscript");
  if (t->is(TypeKind::Tuple)) {
    size_t size = t->elements().size();
    if (!index.is(K::Slice)) return emitItem(of, value(index));
    if (index.item(2)) fail("a tuple has no slices with steps");
    int64_t from = index.item(0) ? constantBound(*index.item(0), size) : 0;
    int64_t to = index.item(1) ? constantBound(*index.item(1), size) : static_cast<int64_t>(size);
    Value* slice =
        make(Symbol::of("prim::TupleSlice"), {of}, tupleType(t->elements().subspan(from, std::max(to, from) - from)));
    slice->node()->setAttribute(Symbol::of("beg"), IValue(from));
    slice->node()->setAttribute(Symbol::of("end"), IValue(to));
    return slice;
  }
  if (index.is(K::Slice)) return emitSlice(of, index);
  if (ClassInfo* info = infoOf(t)) return emitModule(of, *info, value(index), hint);
  return builtin("aten::__getitem__", {of, value(index)});
}

// `layers[i]` of a list or dict of modules: the attribute of this name, chosen when it runs unless the index is a
// literal.
Value* Emitter::emitModule(Value* of, ClassInfo& info, Value* index, TypePtr hint) {
  std::vector<const AttributeInfo*> modules;
  for (const AttributeInfo& a : info.attributes)
    if (a.type && (a.type->is(TypeKind::Class) || a.type->is(TypeKind::Interface))) modules.push_back(&a);
  bool isList = index->type()->is(TypeKind::Int);
  if (!isList && !index->type()->is(TypeKind::String)) fail("expected a number or a text as the index of modules");
  auto count = static_cast<int64_t>(modules.size());
  const IValue* known =
      index->node() && index->node()->kind() == sym::Constant ? index->node()->attributeValue(sym::value) : nullptr;
  for (int64_t i = 0; known && i < count; ++i)
    if (isList ? known->toInt() == i || known->toInt() == i - count : known->toString() == modules[i]->name)
      return asValue(attribute({M::Value, of}, modules[i]->name));
  if (known || !hint || modules.empty()) fail("there is no such module");
  auto isAt = [&](int64_t i) {
    if (!isList) return builtin("aten::eq", {index, constant(IValue(modules[i]->name))});
    return builtin("aten::__or__",
                   {builtin("aten::eq", {index, constant(i)}), builtin("aten::eq", {index, constant(i - count)})});
  };
  std::function<Value*(int64_t)> from = [&](int64_t i) {
    if (i < count)
      return emitChoice(
          isAt(i),
          [&] {
            return asValue(attribute({M::Value, of}, modules[i]->name));
          },
          [&] { return from(i + 1); });
    Value* const message[] = {constant(IValue("the index is not one of a module"))};
    insert(sym::RaiseException, message, 0);
    return make(sym::Uninitialized, {}, hint);
  };
  Value* chosen = from(0);
  chosen->setType(hint);
  return chosen;
}

namespace {

std::optional<int64_t> knownInt(const Value* v) {
  const IValue* known =
      v->node() && v->node()->kind() == sym::Constant ? v->node()->attributeValue(sym::value) : nullptr;
  return known && known->isInt() ? std::optional(known->toInt()) : std::nullopt;
}

}  // namespace

// Which item is known only when it runs needs items of one type.
Value* Emitter::emitItem(Value* tuple, Value* index) {
  const auto elements = tuple->type()->elements();
  const auto size = static_cast<int64_t>(elements.size());
  std::optional<int64_t> i = knownInt(index);
  if (i && *i < 0) *i += size;
  if (size == 0 || (i && (*i < 0 || *i >= size))) fail("the index is out of the tuple's range");
  TypePtr item = elements[static_cast<size_t>(i.value_or(0))];
  if (!i && (!index->type()->is(TypeKind::Int) || std::count(elements.begin(), elements.end(), item) != size))
    fail("a tuple of several types needs a literal as its index");
  return make(sym::TupleIndex, {tuple, index}, item);
}

int64_t Emitter::constantBound(const Expr& e, size_t size) {
  std::optional<int64_t> i = knownInt(value(e));
  if (!i) fail("a slice of a tuple needs literals as its bounds");
  const auto length = static_cast<int64_t>(size);
  return std::clamp<int64_t>(*i < 0 ? *i + length : *i, 0, length);
}

Value* Emitter::emitSlice(Value* v, const Expr& slice) {
  auto part = [&](size_t i) { return slice.item(i) ? value(*slice.item(i)) : constant({}); };
  Value *from = part(0), *to = part(1);
  return builtin("aten::slice", {v, from, to, slice.item(2) ? value(*slice.item(2)) : constant(1)});
}

Value* Emitter::emitTensorSubscript(Value* v, const Expr& e) {
  int64_t dim = 0;
  std::vector<Value*> indices;
  bool indexed = false;
  for (size_t i = 1; i < e.items.size; ++i) {
    const Expr& s = *e.item(i);
    if (s.is(K::Slice)) {
      auto part = [&](size_t k) { return s.item(k) ? value(*s.item(k)) : constant({}); };
      Value *from = part(0), *to = part(1), *step = s.item(2) ? value(*s.item(2)) : constant(1);
      v = builtin("aten::slice", {v, constant(dim++), from, to, step});
      indices.push_back(nullptr);
    } else if (s.is(K::None)) {
      v = builtin("aten::unsqueeze", {v, constant(dim++)});
      indices.push_back(nullptr);
    } else if (Value* index = value(s); index->type()->isTensor()) {
      indices.push_back(index);
      indexed = true;
      ++dim;
    } else {
      v = builtin("aten::select", {v, constant(dim), index});
    }
  }
  if (!indexed) return v;
  for (Value*& i : indices)
    if (!i) i = constant({});
  Value* list = insert(sym::ListConstruct, indices)->output();
  list->setType(listType(optionalType(types().tensor)));
  return builtin("aten::index", {v, list});
}

}  // namespace tscompile::source
