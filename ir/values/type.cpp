#include "ir/values/type.h"

#include "ir/support/check.h"
#include "ir/values/size_expression.h"

#include <algorithm>
#include <mutex>
#include <unordered_map>

namespace tscompile {

// All types of the process. Candidates are compared shallowly: their elements are interned already.
class TypeTable {
 public:
  static TypeTable& instance() {
    static TypeTable* table = new TypeTable;  // leaked: types live as long as the process
    return *table;
  }

  TypePtr intern(TypeKind kind, std::span<const TypePtr> elements, std::string_view name = {},
                 const std::vector<std::string>* fields = nullptr, const std::vector<std::string>* defaults = nullptr,
                 const TensorFacts* facts = nullptr) {
    uint64_t hash = hashCombine(static_cast<uint64_t>(kind) + 1, hashText(name));
    for (TypePtr e : elements) hash = hashCombine(hash, e->hash());
    if (fields)
      for (const std::string& f : *fields) hash = hashCombine(hash, hashText(f));
    if (facts) hash = hashCombine(hash, hashFacts(*facts));

    std::lock_guard lock(mutex_);
    for (auto [it, end] = map_.equal_range(hash); it != end; ++it) {
      TypePtr t = it->second;
      if (t->kind_ == kind && t->name_ == name &&
          std::equal(elements.begin(), elements.end(), t->elements_.begin(), t->elements_.end()) &&
          t->fields_ == (fields ? *fields : kNoStrings) && t->defaults_ == (defaults ? *defaults : kNoStrings) &&
          (!facts || t->tensor_ == *facts))
        return t;
    }
    auto* t = new Type;
    t->kind_ = kind;
    t->hash_ = hash;
    t->elements_.assign(elements.begin(), elements.end());
    t->name_ = name;
    if (fields) t->fields_ = *fields;
    if (defaults) t->defaults_ = *defaults;
    if (facts) t->tensor_ = *facts;
    t->hasVariables_ = kind == TypeKind::Variable;
    for (TypePtr e : elements) {
      t->hasVariables_ |= e->hasVariables_;
      t->depth_ = std::max(t->depth_, e->depth_ + 1);
    }
    map_.emplace(hash, t);
    return t;
  }

 private:
  static uint64_t hashFacts(const TensorFacts& f) {
    uint64_t hash = static_cast<uint64_t>(f.dtype) | uint64_t{f.hasRank} << 8 | uint64_t{f.hasStrides} << 9 |
                    uint64_t{f.undefinedTensor} << 10 | static_cast<uint64_t>(f.requiresGrad + 1) << 11 |
                    uint64_t{f.hasDevice} << 13 | static_cast<uint64_t>(f.device.kind) << 16 |
                    static_cast<uint64_t>(static_cast<uint16_t>(f.device.index)) << 32;
    for (int64_t s : f.sizes) hash = hashCombine(hash, static_cast<uint64_t>(s));
    for (int64_t s : f.strides) hash = hashCombine(hash, static_cast<uint64_t>(s) + 17);
    return hash;
  }

  const std::vector<std::string> kNoStrings{};
  std::mutex mutex_;
  std::unordered_multimap<uint64_t, TypePtr> map_;
};

bool TensorFacts::hasAllSizes() const {
  return hasRank && std::all_of(sizes.begin(), sizes.end(), [](int64_t s) { return s >= 0; });
}

// ---- making types ----

TypePtr simpleType(TypeKind kind) {
  static const auto kTypes = [] {
    std::vector<TypePtr> all;
    for (int k = 0; k <= static_cast<int>(TypeKind::Dimname); ++k) {
      TensorFacts nothing;
      auto kind = static_cast<TypeKind>(k);
      all.push_back(
          TypeTable::instance().intern(kind, {}, {}, nullptr, nullptr, kind == TypeKind::Tensor ? &nothing : nullptr));
    }
    return all;
  }();
  return kTypes[static_cast<size_t>(kind)];
}

TypePtr tensorType(const TensorFacts& facts) {
  return TypeTable::instance().intern(TypeKind::Tensor, {}, {}, nullptr, nullptr, &facts);
}

namespace {
TypePtr wrap(TypeKind kind, TypePtr element) { return TypeTable::instance().intern(kind, {&element, 1}); }
}  // namespace

TypePtr listType(TypePtr element) { return wrap(TypeKind::List, element); }
TypePtr futureType(TypePtr element) { return wrap(TypeKind::Future, element); }
TypePtr awaitType(TypePtr element) { return wrap(TypeKind::Await, element); }
TypePtr rrefType(TypePtr element) { return wrap(TypeKind::RRef, element); }

TypePtr optionalType(TypePtr element) {
  switch (element->kind()) {
    case TypeKind::Optional:
    case TypeKind::None:
    case TypeKind::Any:
      return element;
    case TypeKind::Union: {
      std::vector<TypePtr> members(element->elements().begin(), element->elements().end());
      members.push_back(simpleType(TypeKind::None));
      return unionType(members);
    }
    default:
      return wrap(TypeKind::Optional, element);
  }
}

TypePtr withoutOptional(TypePtr t) { return t->is(TypeKind::Optional) ? t->element() : t; }

TypePtr tupleType(std::span<const TypePtr> elements) { return TypeTable::instance().intern(TypeKind::Tuple, elements); }

TypePtr namedTupleType(std::string name, std::span<const TypePtr> elements, std::vector<std::string> fields,
                       std::vector<std::string> defaults) {
  return TypeTable::instance().intern(TypeKind::Tuple, elements, name, &fields, &defaults);
}

TypePtr dictType(TypePtr key, TypePtr value) {
  TypePtr both[] = {key, value};
  return TypeTable::instance().intern(TypeKind::Dict, both);
}

TypePtr unionType(std::span<const TypePtr> members) {
  std::vector<TypePtr> flat, kept;
  auto add = [&flat](TypePtr t) { flat.push_back(t); };
  for (TypePtr m : members) {
    if (m->is(TypeKind::Union)) {
      for (TypePtr e : m->elements()) add(e);
    } else if (m->is(TypeKind::Optional)) {
      add(m->element());
      add(simpleType(TypeKind::None));
    } else if (m->is(TypeKind::Number)) {
      add(simpleType(TypeKind::Float));
      add(simpleType(TypeKind::Complex));
      add(simpleType(TypeKind::Int));
    } else {
      add(m);
    }
  }
  for (TypePtr t : flat) {
    bool covered = std::any_of(kept.begin(), kept.end(), [t](TypePtr k) { return isSubtype(t, k); });
    if (covered) continue;
    std::erase_if(kept, [t](TypePtr k) { return isSubtype(k, t); });
    kept.push_back(t);
  }
  std::sort(kept.begin(), kept.end(), [](TypePtr a, TypePtr b) {
    return a->kind() != b->kind() ? a->kind() < b->kind() : typeText(a) < typeText(b);
  });
  if (kept.size() == 1) return kept[0];
  if (kept.size() == 2) {
    if (kept[0]->is(TypeKind::None)) return optionalType(kept[1]);
    if (kept[1]->is(TypeKind::None)) return optionalType(kept[0]);
  }
  return TypeTable::instance().intern(TypeKind::Union, kept);
}

TypePtr classType(std::string qualifiedName) {
  return TypeTable::instance().intern(TypeKind::Class, {}, qualifiedName);
}
TypePtr interfaceType(std::string name) { return TypeTable::instance().intern(TypeKind::Interface, {}, name); }
TypePtr enumType(std::string qualifiedName) { return TypeTable::instance().intern(TypeKind::Enum, {}, qualifiedName); }
TypePtr variableType(std::string name) { return TypeTable::instance().intern(TypeKind::Variable, {}, name); }

TypePtr untypedInPattern() {
  static const TypePtr kType = variableType("_");
  return kType;
}

const CommonTypes& types() {
  static const CommonTypes kTypes = [] {
    CommonTypes t;
    t.any = simpleType(TypeKind::Any);
    t.none = simpleType(TypeKind::None);
    t.tensor = simpleType(TypeKind::Tensor);
    t.integer = simpleType(TypeKind::Int);
    t.floating = simpleType(TypeKind::Float);
    t.boolean = simpleType(TypeKind::Bool);
    t.string = simpleType(TypeKind::String);
    t.complex = simpleType(TypeKind::Complex);
    t.number = simpleType(TypeKind::Number);
    t.device = simpleType(TypeKind::Device);
    t.generator = simpleType(TypeKind::Generator);
    t.function = simpleType(TypeKind::Function);
    t.tensorList = listType(t.tensor);
    t.intList = listType(t.integer);
    t.floatList = listType(t.floating);
    t.boolList = listType(t.boolean);
    return t;
  }();
  return kTypes;
}

// ---- relations ----

namespace {

bool tensorIsSubtype(const TensorFacts& s, const TensorFacts& t) {
  if (t.dtype != DType::Undefined && t.dtype != s.dtype) return false;
  if (t.requiresGrad >= 0 && t.requiresGrad != s.requiresGrad) return false;
  if (t.hasDevice && !(s.hasDevice && s.device == t.device)) return false;
  if (t.undefinedTensor && !s.undefinedTensor) return false;
  if (!t.hasRank) return true;
  if (!s.hasRank || s.sizes.size() != t.sizes.size()) return false;
  for (size_t i = 0; i < t.sizes.size(); ++i)
    if (t.sizes[i] != kUnknownSize && t.sizes[i] != s.sizes[i]) return false;
  return !t.hasStrides || (s.hasStrides && s.strides == t.strides);
}

TypePtr mergeTensors(const TensorFacts& a, const TensorFacts& b) {
  TensorFacts m;
  if (a.dtype == b.dtype) m.dtype = a.dtype;
  if (a.requiresGrad == b.requiresGrad) m.requiresGrad = a.requiresGrad;
  if (a.hasDevice && b.hasDevice && a.device == b.device) {
    m.hasDevice = true;
    m.device = a.device;
  }
  m.undefinedTensor = a.undefinedTensor && b.undefinedTensor;
  if (a.hasRank && b.hasRank && a.sizes.size() == b.sizes.size()) {
    m.hasRank = true;
    for (size_t i = 0; i < a.sizes.size(); ++i) m.sizes.push_back(a.sizes[i] == b.sizes[i] ? a.sizes[i] : kUnknownSize);
    if (a.hasStrides && b.hasStrides && a.strides == b.strides) {
      m.hasStrides = true;
      m.strides = a.strides;
    }
  }
  return tensorType(m);
}

// Whether both are the same but for a named tuple that has its name in one of them only, as texts print some.
bool sameBesidesNames(TypePtr a, TypePtr b) {
  if (a == b) return true;
  if (a->kind() != b->kind() || a->elements().size() != b->elements().size() || a->elements().empty()) return false;
  if (a->fields() != b->fields() || (a->name() != b->name() && !a->name().empty() && !b->name().empty())) return false;
  return std::ranges::equal(a->elements(), b->elements(), sameBesidesNames);
}

bool isNumber(TypePtr t) {
  return t->is(TypeKind::Int) || t->is(TypeKind::Float) || t->is(TypeKind::Complex) || t->is(TypeKind::Number);
}

}  // namespace

bool isSubtype(TypePtr s, TypePtr t) {
  if (s == t || t->is(TypeKind::Any)) return true;
  if (s->is(TypeKind::Union)) {
    auto members = s->elements();
    return std::all_of(members.begin(), members.end(), [t](TypePtr m) { return isSubtype(m, t); });
  }
  if (s->is(TypeKind::Optional))
    return (t->is(TypeKind::Optional) || t->is(TypeKind::Union)) && isSubtype(s->element(), t) &&
           isSubtype(simpleType(TypeKind::None), t);
  switch (t->kind()) {
    case TypeKind::Union: {
      auto members = t->elements();
      return std::any_of(members.begin(), members.end(), [s](TypePtr m) { return isSubtype(s, m); });
    }
    case TypeKind::Optional:
      return s->is(TypeKind::None) || isSubtype(s, t->element());
    case TypeKind::Number:
      return isNumber(s);
    case TypeKind::Tensor:
      return s->isTensor() && tensorIsSubtype(s->tensor(), t->tensor());
    case TypeKind::AnyList:
      return s->is(TypeKind::List);
    case TypeKind::AnyTuple:
      return s->is(TypeKind::Tuple);
    case TypeKind::AnyEnum:
      return s->is(TypeKind::Enum);
    case TypeKind::AnyClass:
      return s->is(TypeKind::Class);
    // Texts do not say which methods a class has.
    case TypeKind::Interface:
      return s->is(TypeKind::Class) || s->is(TypeKind::Interface);
    case TypeKind::Tuple: {
      if (!s->is(TypeKind::Tuple) || s->elements().size() != t->elements().size()) return false;
      if (t->isNamedTuple() && s->fields() != t->fields()) return false;
      for (size_t i = 0; i < t->elements().size(); ++i)
        if (!isSubtype(s->element(i), t->element(i))) return false;
      return true;
    }
    case TypeKind::Future:
    case TypeKind::Await:
    case TypeKind::RRef:
      return s->kind() == t->kind() && isSubtype(s->element(), t->element());
    case TypeKind::List:
    case TypeKind::Dict:
      return sameBesidesNames(s, t);
    default:
      return false;
  }
}

TypePtr withoutRefinement(TypePtr type) {
  switch (type->kind()) {
    case TypeKind::Tensor:
      return types().tensor;
    case TypeKind::List:
    case TypeKind::Optional:
    case TypeKind::Future:
    case TypeKind::Await:
    case TypeKind::RRef:
    case TypeKind::Dict:
    case TypeKind::Tuple:
    case TypeKind::Union: {
      std::vector<TypePtr> elements;
      for (TypePtr e : type->elements()) elements.push_back(withoutRefinement(e));
      return TypeTable::instance().intern(type->kind(), elements, type->name(), &type->fields(), &type->defaults());
    }
    default:
      return type;
  }
}

TypePtr unifyTypes(TypePtr a, TypePtr b) {
  if (isSubtype(a, b)) return b;
  if (isSubtype(b, a)) return a;
  if (a->isTensor() && b->isTensor()) return mergeTensors(a->tensor(), b->tensor());
  if (a->is(TypeKind::None)) return optionalType(b);
  if (b->is(TypeKind::None)) return optionalType(a);
  if (a->is(TypeKind::Optional) || b->is(TypeKind::Optional)) {
    TypePtr inner = a->is(TypeKind::Optional) ? unifyTypes(a->element(), b) : unifyTypes(a, b->element());
    if (inner) return optionalType(inner);
  }
  if (a->is(TypeKind::Tuple) && b->is(TypeKind::Tuple) && a->elements().size() == b->elements().size()) {
    std::vector<TypePtr> elements;
    for (size_t i = 0; i < a->elements().size(); ++i) {
      TypePtr e = unifyTypes(a->element(i), b->element(i));
      if (!e) return nullptr;
      elements.push_back(e);
    }
    return tupleType(elements);
  }
  if (a->is(TypeKind::Future) && b->is(TypeKind::Future)) {
    TypePtr inner = unifyTypes(a->element(), b->element());
    return inner ? futureType(inner) : nullptr;
  }
  TypePtr plainA = withoutRefinement(a), plainB = withoutRefinement(b);
  if (isSubtype(plainA, plainB)) return plainB;
  if (isSubtype(plainB, plainA)) return plainA;
  return nullptr;
}

TypePtr graphType(TypePtr type) {
  switch (type->kind()) {
    case TypeKind::SymInt:
    case TypeKind::ScalarType:
    case TypeKind::Layout:
    case TypeKind::MemoryFormat:
    case TypeKind::DeviceIndex:
    case TypeKind::ConstQuantizerPtr:
      return types().integer;
    case TypeKind::Dimname:
      return types().string;
    default:
      break;
  }
  if (type->elements().empty()) return type;
  std::vector<TypePtr> elements;
  bool changed = false;
  for (TypePtr e : type->elements()) {
    elements.push_back(graphType(e));
    changed |= elements.back() != e;
  }
  if (!changed) return type;
  return TypeTable::instance().intern(type->kind(), elements, type->name(), &type->fields(), &type->defaults());
}

// ---- text ----

namespace {

std::string_view simpleName(TypeKind kind) {
  switch (kind) {
    case TypeKind::Any:
      return "Any";
    case TypeKind::AnyEnum:
      return "AnyEnumType";
    case TypeKind::Storage:
      return "Storage";
    case TypeKind::Number:
      return "Scalar";
    case TypeKind::Float:
      return "float";
    case TypeKind::Complex:
      return "complex";
    case TypeKind::Int:
      return "int";
    case TypeKind::None:
      return "NoneType";
    case TypeKind::String:
      return "str";
    case TypeKind::Generator:
      return "Generator";
    case TypeKind::Quantizer:
      return "Quantizer";
    case TypeKind::Bool:
      return "bool";
    case TypeKind::Device:
      return "Device";
    case TypeKind::Stream:
      return "Stream";
    case TypeKind::Function:
      return "Function";
    case TypeKind::PyObject:
      return "PyObject";
    case TypeKind::Capsule:
      return "Capsule";
    case TypeKind::QScheme:
      return "QScheme";
    case TypeKind::AnyList:
      return "list";
    case TypeKind::AnyTuple:
      return "tuple";
    case TypeKind::AnyClass:
      return "AnyClassType";
    case TypeKind::SymInt:
      return "SymInt";
    case TypeKind::ScalarType:
      return "ScalarType";
    case TypeKind::Layout:
      return "Layout";
    case TypeKind::MemoryFormat:
      return "MemoryFormat";
    case TypeKind::DeviceIndex:
      return "DeviceIndex";
    case TypeKind::ConstQuantizerPtr:
      return "ConstQuantizerPtr";
    case TypeKind::Dimname:
      return "Dimname";
    case TypeKind::Tensor:
      return "Tensor";
    default:
      return "";
  }
}

void appendUnion(TypePtr type, std::string& out) {
  auto members = type->elements();
  auto has = [&](TypeKind k) {
    return std::any_of(members.begin(), members.end(), [k](TypePtr m) { return m->is(k); });
  };
  bool allNumbers = has(TypeKind::Int) && has(TypeKind::Float) && has(TypeKind::Complex);
  out += "Union(";
  bool printed = false;
  for (size_t i = 0; i < members.size(); ++i) {
    if (allNumbers && isNumber(members[i])) continue;
    // PyTorch tests the position, not whether anything was printed: an empty first slot may remain.
    if (i > 0) out += ", ";
    printed = true;
    appendType(members[i], TypeStyle::Schema, out);
  }
  if (allNumbers) out += printed ? ", Scalar" : "Scalar";
  out += ")";
}

void appendPython(TypePtr type, std::string& out) {
  auto bracketed = [&](const char* name) {
    out += name;
    out += '[';
    for (size_t i = 0; i < type->elements().size(); ++i) {
      if (i) out += ", ";
      appendType(type->element(i), TypeStyle::Python, out);
    }
    out += ']';
  };
  switch (type->kind()) {
    case TypeKind::List:
      return bracketed("List");
    case TypeKind::Dict:
      return bracketed("Dict");
    case TypeKind::Optional:
      return bracketed("Optional");
    case TypeKind::Union:
      return bracketed("Union");
    case TypeKind::Future:
      return bracketed("Future");
    case TypeKind::Await:
      return bracketed("Await");
    case TypeKind::RRef:
      return bracketed("RRef");
    case TypeKind::Tuple:
      if (type->isNamedTuple()) {
        out += type->name().empty() ? "NamedTuple" : type->name();
      } else if (type->elements().empty()) {
        out += "Tuple[()]";
      } else {
        bracketed("Tuple");
      }
      return;
    case TypeKind::Number:
      out += "number";
      return;
    case TypeKind::Device:
      out += "Device";
      return;
    case TypeKind::Enum:
    case TypeKind::Class:
    case TypeKind::Interface:
    case TypeKind::Variable:
      out += type->name();
      return;
    default:
      out += simpleName(type->kind());
      return;
  }
}

void appendNamedTuple(TypePtr type, std::string& out) {
  out += "NamedTuple(";
  for (size_t i = 0; i < type->fields().size(); ++i) {
    if (i) out += ", ";
    out += type->fields()[i];
    out += " : ";
    appendType(type->element(i), TypeStyle::Graph, out);
    if (i < type->defaults().size() && !type->defaults()[i].empty()) {
      out += " = ";
      out += type->defaults()[i];
    }
  }
  out += ')';
}

void append(TypePtr type, TypeStyle style, int verbosity, std::string& out) {
  if (style == TypeStyle::Python) return appendPython(type, out);
  bool graph = style == TypeStyle::Graph;
  switch (type->kind()) {
    case TypeKind::Tensor:
      if (graph)
        appendTensorType(type->tensor(), verbosity, out);
      else
        out += "Tensor";
      return;
    case TypeKind::List:
      append(type->element(), style, verbosity, out);
      out += "[]";
      return;
    case TypeKind::Optional:
      append(type->element(), style, verbosity, out);
      out += '?';
      return;
    case TypeKind::Future:
    case TypeKind::Await:
    case TypeKind::RRef: {
      out += type->is(TypeKind::Future) ? "Future" : type->is(TypeKind::Await) ? "Await" : "RRef";
      bool square = graph && !type->is(TypeKind::Await);
      out += square ? '[' : '(';
      append(type->element(), style, verbosity, out);
      out += square ? ']' : ')';
      return;
    }
    case TypeKind::Tuple:
      if (type->isNamedTuple()) {
        if (!graph && !type->name().empty())
          out += type->name();
        else
          appendNamedTuple(type, out);
        return;
      }
      out += '(';
      for (size_t i = 0; i < type->elements().size(); ++i) {
        if (i) out += ", ";
        append(type->element(i), style, verbosity, out);
      }
      out += ')';
      return;
    case TypeKind::Dict:
      out += "Dict(";
      append(type->element(0), TypeStyle::Schema, verbosity, out);
      out += ", ";
      append(type->element(1), TypeStyle::Schema, verbosity, out);
      out += ')';
      return;
    case TypeKind::Union:
      return appendUnion(type, out);
    case TypeKind::Enum:
      out += "Enum<" + type->name() + ">";
      return;
    case TypeKind::Interface:
      // Without its module, as PyTorch prints it.
      out += "InterfaceType<" + type->name().substr(type->name().rfind('.') + 1) + ">";
      return;
    case TypeKind::Class:
    case TypeKind::Variable:
      out += type->name();
      return;
    default:
      out += simpleName(type->kind());
      return;
  }
}

}  // namespace

namespace {
// Symbols that PyTorch numbers are shown only where they are asked for, those of one analysis never.
std::string sizeText(int64_t size, int verbosity) {
  SizeExpression e = SizeExpression::ofSize(size);
  std::string text = e.isNamed() ? e.text() : "*";
  return verbosity < 20 && text.find("SS(") != std::string::npos ? "*" : text;
}
}  // namespace

void appendTensorType(const TensorFacts& f, int verbosity, std::string& out) {
  out += f.dtype == DType::Undefined ? std::string_view("Tensor") : graphName(f.dtype);
  if (!f.hasRank && f.dtype != DType::Undefined) out += "Tensor";
  bool open = false;
  auto item = [&] {
    out += open ? ", " : "(";
    open = true;
  };
  auto list = [&](const Dims& dims) {
    for (size_t i = 0; i < dims.size(); ++i) {
      if (i) out += ", ";
      if (dims[i] >= 0)
        out += std::to_string(dims[i]);
      else
        out += sizeText(dims[i], verbosity);
    }
  };
  if (f.hasRank) {
    out += '(';
    open = !f.sizes.empty();
    list(f.sizes);
    if (verbosity >= 2 && f.hasStrides && !f.sizes.empty()) {
      out += ", strides=[";
      list(f.strides);
      out += ']';
    }
  }
  if (verbosity >= 3) {
    auto parenthesis = [&] {
      if (!f.hasRank && !open)
        item();
      else if (open)
        out += ", ";
      else
        open = true;  // "Long(" of a tensor without dimensions is open already
    };
    if (f.requiresGrad >= 0) {
      parenthesis();
      out += f.requiresGrad ? "requires_grad=1" : "requires_grad=0";
    }
    if (f.hasDevice) {
      parenthesis();
      out += "device=" + deviceText(f.device);
    }
  }
  if (f.hasRank || open) out += ')';
  if (f.undefinedTensor) out += "[Undefined]";
}

void appendType(TypePtr type, TypeStyle style, std::string& out) { append(type, style, 3, out); }

void appendTypeAtVerbosity(TypePtr type, int verbosity, std::string& out) {
  append(type, TypeStyle::Graph, verbosity, out);
}

std::string typeText(TypePtr type, TypeStyle style) {
  std::string out;
  append(type, style, 3, out);
  return out;
}

}  // namespace tscompile
