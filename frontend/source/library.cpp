#include "frontend/source/library.h"

#include "frontend/source/emitter.h"
#include "frontend/source/reader.h"
#include "frontend/source/upgraders.h"
#include "ir/support/text.h"

#include <fmt/core.h>

namespace tscompile::source {

using K = Expr::Kind;
using S = Stmt::Kind;

const AttributeInfo* ClassInfo::attribute(std::string_view name) const {
  for (const AttributeInfo& a : attributes)
    if (a.name == name) return &a;
  return nullptr;
}

MethodInfo* ClassInfo::method(std::string_view name) const {
  for (const auto& m : methods)
    if (m->name == name) return m.get();
  return nullptr;
}

std::string dottedName(const Expr& e) {
  if (e.is(K::Name)) return std::string(e.text);
  if (!e.is(K::Attribute)) return {};
  std::string before = dottedName(*e.item());
  return before.empty() ? before : before + "." + std::string(e.text);
}

CodeLocation Library::placeOf(const SourceFile* file, uint32_t byte) const {
  if (CodeLocation origin = origins_ ? origins_(file, byte) : CodeLocation(); origin.present()) return origin;
  LineColumn at = file->lineColumn(byte);
  return {Symbol::of(file->path()), at.line, at.column - 1};
}

bool Library::report(const SourceFile* file, const SourceError& e) {
  failed_ = true;
  Diagnostic& d = diagnostics_.error({file, e.span.begin, e.span.end}, e.message, e.kind);
  if (!e.note.empty()) d.note(e.note);
  noteOrigin(d, file, e.span);
  return false;
}

void Library::noteOrigin(Diagnostic& d, const SourceFile* file, Span span) const {
  if (CodeLocation origin = origins_ ? origins_(file, span.begin) : CodeLocation(); origin.present())
    d.note(fmt::format("written at {}:{} of the model's own source", origin.file.text(), origin.line));
}

void Library::meetUnknown(const SourceFile* file, Span span, Symbol kind) {
  ++unknownCalls_;
  if (unknown_ == UnknownOperators::Kept) return;
  failed_ = true;
  if (!unknownMet_.insert(kind).second) return;
  Diagnostic& d =
      diagnostics_.error({file, span.begin, span.end}, fmt::format("unknown operator {}", abbreviate(kind.text(), 80)),
                         ErrorKind::Unsupported);
  adviseUnknown(d, registry_, kind.text());
  noteOrigin(d, file, span);
}

// ---- files ----

ClassInfo* Library::findClass(const std::string& name) {
  size_t dot = name.rfind('.');
  if (dot == std::string::npos) return nullptr;
  readModule(name.substr(0, dot));
  auto at = classByName_.find(name);
  return at == classByName_.end() ? nullptr : at->second;
}

MethodInfo* Library::findFunction(const std::string& name) {
  size_t dot = name.rfind('.');
  if (dot == std::string::npos) return nullptr;
  readModule(name.substr(0, dot));
  auto at = functionByName_.find(name);
  return at == functionByName_.end() ? nullptr : at->second;
}

MethodInfo& Library::unbound(MethodInfo& method) {
  MethodInfo*& known = unbound_[&method];
  if (!known) {
    known = functions_.emplace_back(std::make_unique<MethodInfo>()).get();
    known->name = method.name;
    known->qualifiedName = method.qualifiedName;
    known->file = method.file;
    known->def = method.def;
    known->owner = method.owner;
  }
  return *known;
}

MethodInfo* Library::before(const Operator& op, const SourceFile* file) {
  for (const Upgrader& u : upgradersOf(op.kind().text())) {
    if (version_ >= u.changedAt || u.overload != op.overload()) continue;
    MethodInfo* f = findFunction(fmt::format("{}.{}", kUpgraderModule, u.function));
    // What these functions are made of has today's meaning.
    return f && f->file != file ? f : nullptr;
  }
  return nullptr;
}

void Library::readModule(const std::string& module) {
  if (!modules_.insert(module).second) return;
  SourcePtr source = module == kUpgraderModule ? upgraderSource() : read_(module);
  if (!source) return;
  diagnostics_.keepAlive(source);
  sources_.push_back(source);
  Reader reader(*source, diagnostics_, limits_, arena_);
  const Slice<Stmt*>* statements = reader.read();
  if (!statements) {
    failed_ = true;
    return;
  }
  for (const Stmt* s : *statements) addDefinition(module, source.get(), *s);
}

void Library::addDefinition(const std::string& module, const SourceFile* file, const Stmt& s) {
  if (s.kind == S::DefineClass) return addClass(module, file, *s.made);
  // Old files begin with `op_version_set = 1`.
  if (s.kind != S::Define) return;
  auto f = std::make_unique<MethodInfo>();
  f->name = s.def->name;
  f->qualifiedName = module + "." + f->name;
  f->file = file;
  f->def = s.def;
  functionByName_.emplace(f->qualifiedName, f.get());
  functions_.push_back(std::move(f));
}

void Library::addClass(const std::string& module, const SourceFile* file, const Class& c) {
  auto info = std::make_unique<ClassInfo>();
  info->name = module + "." + std::string(c.name);
  info->file = file;
  info->syntax = &c;
  info->kind = c.base == "Module"                                     ? ClassKind::Module
               : c.base == "NamedTuple"                               ? ClassKind::NamedTuple
               : c.base == "Enum"                                     ? ClassKind::Enum
               : c.base == "Interface" || c.base == "ModuleInterface" ? ClassKind::Interface
                                                                      : ClassKind::Plain;
  info->type = info->kind == ClassKind::Enum        ? enumType(info->name)
               : info->kind == ClassKind::Interface ? interfaceType(info->name)
                                                    : classType(info->name);
  for (const Stmt* s : c.body) {
    if (s->kind != S::Define) continue;
    auto m = std::make_unique<MethodInfo>();
    m->name = s->def->name;
    m->qualifiedName = info->name + "." + m->name;
    m->file = file;
    m->def = s->def;
    m->owner = info.get();
    info->methods.push_back(std::move(m));
  }
  if (classByName_.emplace(info->name, info.get()).second) classes_.push_back(std::move(info));
}

// ---- classes ----

ClassInfo* Library::declared(const std::string& name) {
  ClassInfo* info = findClass(name);
  if (!info) return nullptr;
  try {
    declare(*info);
    return info;
  } catch (const SourceError& e) {
    report(info->file, e);
    return nullptr;
  }
}

void Library::declare(ClassInfo& info) {
  if (info.declared) return;
  info.declared = true;
  try {
    declareMembers(info);
  } catch (const SourceError& e) {
    report(info.file, e);
    throw SourceError{{0, 0}, fmt::format("class {} cannot be used", info.name)};
  }
}

namespace {

void markListed(ClassInfo& info, const Expr& list, bool AttributeInfo::*flag) {
  for (const Expr* e : list.items)
    for (AttributeInfo& a : info.attributes)
      if (e->is(K::String) && a.name == e->text) a.*flag = true;
}

}  // namespace

void Library::declareMembers(ClassInfo& info) {
  if (info.kind == ClassKind::NamedTuple) info.type = nullptr;  // until its fields are known
  for (const Stmt* s : info.syntax->body)
    if (s->kind == S::Declare || s->kind == S::Assign) declareAttribute(info, *s);
  for (const Stmt* s : info.syntax->body) {
    if (s->kind != S::Assign || !s->value->is(K::List)) continue;
    if (s->targets[0]->isName("__parameters__")) markListed(info, *s->value, &AttributeInfo::isParameter);
    if (s->targets[0]->isName("__buffers__")) markListed(info, *s->value, &AttributeInfo::isBuffer);
  }
  if (info.kind != ClassKind::NamedTuple) return;
  std::vector<TypePtr> types;
  std::vector<std::string> fields, defaults;
  for (const AttributeInfo& a : info.attributes) {
    types.push_back(a.type);
    fields.push_back(a.name);
  }
  info.type = namedTupleType(info.name, types, std::move(fields), std::move(defaults));
}

// `name : type`, `name : Final[int] = 3`, `__annotations__["0"] = type`, `RED = 1`.
void Library::declareAttribute(ClassInfo& info, const Stmt& s) {
  const Expr& target = *s.targets[0];
  AttributeInfo a;
  const Expr* type = s.kind == S::Declare ? s.value : s.type;
  if (target.is(K::Subscript) && target.item()->isName("__annotations__") && target.item(1)->is(K::String)) {
    a.name = target.item(1)->text;
    type = s.value;
  } else if (target.is(K::Name)) {
    a.name = target.text;
  } else {
    throw SourceError{target.span, "expected an attribute of the class"};
  }
  if (!type) {
    if (info.kind == ClassKind::Enum)
      info.members.emplace_back(a.name, IValue(Ref<EnumValue>::make(info.type, a.name, literal(*s.value, nullptr))));
    return;  // `__parameters__ = [...]`
  }
  // What class files of PyTorch before 1.5 say of constants and overloads has no type of its own.
  if (startsWith(a.name, "__") && endsWith(a.name, "__") && s.kind == S::Declare) return;
  a.type = typeOf(*type);
  if (s.kind == S::Assign && s.type) a.constant = literal(*s.value, a.type);
  info.attributes.push_back(std::move(a));
}

// ---- types ----

TypePtr Library::namedType(const std::string& name, const Expr& e) {
  static const std::unordered_map<std::string_view, TypeKind> kNames = {{"Tensor", TypeKind::Tensor},
                                                                        {"int", TypeKind::Int},
                                                                        {"float", TypeKind::Float},
                                                                        {"bool", TypeKind::Bool},
                                                                        {"str", TypeKind::String},
                                                                        {"complex", TypeKind::Complex},
                                                                        {"number", TypeKind::Number},
                                                                        {"None", TypeKind::None},
                                                                        {"NoneType", TypeKind::None},
                                                                        {"Device", TypeKind::Device},
                                                                        {"Any", TypeKind::Any},
                                                                        {"Generator", TypeKind::Generator},
                                                                        {"Stream", TypeKind::Stream},
                                                                        {"Storage", TypeKind::Storage},
                                                                        {"Function", TypeKind::Function},
                                                                        {"Quantizer", TypeKind::Quantizer},
                                                                        {"QScheme", TypeKind::QScheme},
                                                                        {"Capsule", TypeKind::Capsule},
                                                                        {"PyObject", TypeKind::PyObject},
                                                                        {"list", TypeKind::AnyList},
                                                                        {"tuple", TypeKind::AnyTuple},
                                                                        {"AnyEnumType", TypeKind::AnyEnum},
                                                                        {"AnyClassType", TypeKind::AnyClass},
                                                                        {"torch.device", TypeKind::Device},
                                                                        {"torch.Tensor", TypeKind::Tensor},
                                                                        {"Layout", TypeKind::Int},
                                                                        {"Dtype", TypeKind::Int},
                                                                        {"ScalarType", TypeKind::Int},
                                                                        {"MemoryFormat", TypeKind::Int},
                                                                        {"SymInt", TypeKind::Int}};
  if (auto known = kNames.find(name); known != kNames.end()) return simpleType(known->second);
  if (ClassInfo* info = startsWith(name, "__torch__.") ? findClass(name) : nullptr) {
    if (info->kind == ClassKind::NamedTuple) declare(*info);
    if (!info->type) throw SourceError{e.span, "a named tuple holds itself"};
    return info->type;
  }
  if (startsWith(name, "__torch__.torch.classes.")) return classType(name);
  throw SourceError{e.span, "unknown type"};
}

TypePtr Library::genericType(const Expr& e) {
  std::string name = dottedName(*e.item());
  std::vector<TypePtr> of;
  bool empty = e.items.size == 2 && e.item(1)->is(K::Tuple) && e.item(1)->items.size == 0;
  for (size_t i = 1; i < e.items.size && !empty; ++i) {
    if (!e.item(i)) throw SourceError{e.span, "expected a type"};
    of.push_back(typeOf(*e.item(i)));
  }
  if (name == "Tuple") return tupleType(of);
  if (name == "Union" && !of.empty()) return unionType(of);
  if (name == "Dict" && of.size() == 2) return dictType(of[0], of[1]);
  if (of.size() == 1) {
    if (name == "List") return listType(of[0]);
    if (name == "Optional") return optionalType(of[0]);
    if (name == "Final") return of[0];
    if (name == "Future") return futureType(of[0]);
    if (name == "Await") return awaitType(of[0]);
    if (name == "RRef") return rrefType(of[0]);
  }
  throw SourceError{e.span, "unknown type"};
}

TypePtr Library::typeOf(const Expr& e) {
  TypePtr t = nullptr;
  if (e.is(K::None))
    t = types().none;
  else if (e.is(K::Subscript))
    t = genericType(e);
  else if (std::string name = dottedName(e); !name.empty())
    t = namedType(name, e);
  else
    throw SourceError{e.span, "expected a type"};
  if (t->depth() > limits_.typeDepth) throw SourceError{e.span, "the types are nested too deeply", ErrorKind::Limit};
  return t;
}

TypePtr Library::typeOfText(std::string_view text) {
  SourcePtr source = SourceFile::make("<type>", std::string(text));
  Diagnostics ignored;
  Reader reader(*source, ignored, limits_, arena_);
  const Expr* e = reader.readExpression();
  try {
    return e ? typeOf(*e) : nullptr;
  } catch (const SourceError&) {
    return nullptr;
  }
}

// ---- constants and literals ----

const IValue* Library::constant(std::string_view name) const {
  if (!startsWith(name, "c") || name.size() < 2 || name.size() > 10) return nullptr;
  size_t index = 0;
  for (char c : name.substr(1)) {
    if (c < '0' || c > '9') return nullptr;
    index = index * 10 + static_cast<size_t>(c - '0');
  }
  return index < constants_.size() ? &constants_[index] : nullptr;
}

namespace {

std::optional<double> special(const Expr& e) {
  if (e.isName("inf")) return std::numeric_limits<double>::infinity();
  if (e.isName("nan")) return std::numeric_limits<double>::quiet_NaN();
  return std::nullopt;
}

IValue negated(const IValue& v, const Expr& e) {
  if (v.isInt()) return static_cast<int64_t>(-static_cast<uint64_t>(v.toInt()));
  if (v.isFloat()) return -v.toFloat();
  if (v.isComplex()) return -v.toComplex();
  throw SourceError{e.span, "expected a number after the minus"};
}

// What every element has; Any if they differ.
TypePtr commonType(const std::vector<IValue>& items, TypePtr ifEmpty) {
  TypePtr common = nullptr;
  for (const IValue& v : items) {
    TypePtr t = withoutRefinement(dynamicType(v));
    common = !common ? t : common == t ? t : types().any;
  }
  return common ? common : ifEmpty;
}

}  // namespace

IValue Library::literal(const Expr& e, TypePtr type) {
  if (type && type->is(TypeKind::Optional)) type = type->element();
  auto items = [&](TypePtr (*elementOf)(TypePtr, size_t)) {
    std::vector<IValue> out;
    for (size_t i = 0; i < e.items.size; ++i) out.push_back(literal(*e.item(i), type ? elementOf(type, i) : nullptr));
    return out;
  };
  auto only = [](TypePtr t, size_t) { return t->is(TypeKind::List) ? t->element() : nullptr; };
  auto each = [](TypePtr t, size_t i) {
    return t->is(TypeKind::Tuple) && i < t->elements().size() ? t->element(i)
           : t->is(TypeKind::List)                            ? t->element()
                                                              : nullptr;
  };
  switch (e.kind) {
    case K::Integer:
      if (type && type->is(TypeKind::Float)) return static_cast<double>(e.integer);
      return e.integer;
    case K::Float:
      return e.number;
    case K::Imaginary:
      return std::complex<double>(0, e.number);
    case K::String:
      return IValue(e.text);
    case K::True:
      return true;
    case K::False:
      return false;
    case K::None:
      return {};
    case K::List: {
      std::vector<IValue> values = items(only);
      TypePtr element = type && type->is(TypeKind::List) ? type->element() : commonType(values, types().tensor);
      return IValue(Ref<ListValue>::make(element, std::move(values)));
    }
    case K::Tuple: {
      std::vector<IValue> values = items(each);
      if (type && type->is(TypeKind::List)) return IValue(Ref<ListValue>::make(type->element(), std::move(values)));
      return IValue(Ref<TupleValue>::make(std::move(values), type && type->isNamedTuple() ? type : nullptr));
    }
    case K::Dict: {
      if (!type || !type->is(TypeKind::Dict)) break;
      auto dict = Ref<DictValue>::make(type->element(0), type->element(1));
      for (size_t i = 0; i < e.items.size; i += 2)
        dict->set(literal(*e.item(i), type->element(0)), literal(*e.item(i + 1), type->element(1)));
      return IValue(std::move(dict));
    }
    case K::Unary:
      if (e.text == "-") return negated(literal(*e.item(), type), e);
      break;
    case K::Call:
      if (e.item()->isName("annotate") && e.items.size == 3) return literal(*e.item(2), typeOf(*e.item(1)));
      if (dottedName(*e.item()) == "torch.device" && e.items.size == 2 && e.item(1)->is(K::String))
        if (std::optional<Device> d = deviceFromText(e.item(1)->text)) return *d;
      break;
    case K::Attribute:
      if (e.item()->isName("CONSTANTS"))
        if (const IValue* v = constant(e.text)) return *v;
      if (ClassInfo* info = findClass(dottedName(*e.item())); info && info->kind == ClassKind::Enum) {
        declare(*info);
        for (const auto& [name, value] : info->members)
          if (name == e.text) return anew(value);
      }
      break;
    default:
      if (std::optional<double> v = special(e)) return *v;
  }
  throw SourceError{e.span, "expected a literal"};
}

// ---- signatures ----

const Schema& Library::schemaOf(MethodInfo& method) {
  if (method.schema) return *method.schema;
  Schema s;
  s.name = method.qualifiedName;
  for (const Parameter& p : method.def->parameters) {
    Argument a;
    a.name = p.name;
    bool isSelf = method.owner && s.arguments.empty();
    if (!p.type && !isSelf) throw SourceError{p.span, "the parameter has no type"};
    // Loaded as what it is, whatever the text says: mangled names may be those of another file.
    a.type = isSelf ? method.owner->type : typeOf(*p.type);
    a.schemaType = a.type;
    a.keywordOnly = p.keywordOnly;
    if (p.defaultValue) a.defaultValue = literal(*p.defaultValue, a.type);
    s.arguments.push_back(std::move(a));
  }
  if (method.owner && s.arguments.empty()) throw SourceError{method.def->span, "the method has no 'self'"};
  Argument result;
  result.type = result.schemaType = method.def->returns ? typeOf(*method.def->returns) : types().none;
  s.returns.push_back(std::move(result));
  return method.schema.emplace(std::move(s));
}

// ---- compiling ----

void Library::request(MethodInfo& method) {
  if (method.requested || (method.owner && method.owner->kind == ClassKind::Interface)) return;
  method.requested = true;
  queue_.push_back(&method);
}

const std::string& Library::callName(MethodInfo& function) {
  auto [at, isNew] = callNames_.emplace(&function, function.name);
  if (isNew) {
    if (!functionByCall_.emplace(function.name, &function).second) at->second = function.qualifiedName;
    called_.push_back(&function);
  }
  return at->second;
}

std::vector<MethodInfo*> Library::functionsRead() const {
  std::vector<MethodInfo*> out;
  for (const auto& f : functions_) out.push_back(f.get());
  return out;
}

bool Library::compile() {
  while (true) {
    while (!queue_.empty() && !diagnostics_.full()) {
      MethodInfo* m = queue_.front();
      queue_.pop_front();
      const size_t before = unknownCalls_;
      try {
        m->graph = compileDefinition(*this, *m);
      } catch (const SourceError& e) {
        if (unknown_ == UnknownOperators::Kept || unknownCalls_ == before) report(m->file, e);
      }
    }
    // What is called through an interface may be of any class.
    for (const auto& info : classes_)
      for (const auto& m : info->methods)
        if (openCalls_.count(m->name)) request(*m);
    if (queue_.empty() || diagnostics_.full()) return !failed_;
  }
}

}  // namespace tscompile::source
