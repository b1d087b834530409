#include "frontend/text/type_builder.h"

#include "ir/support/text.h"
#include "ir/values/size_symbols.h"

#include <optional>
#include <vector>

namespace tscompile::frontend {

namespace {

struct SimpleName {
  std::string_view name;
  TypeKind kind;
};
constexpr SimpleName kSimpleNames[] = {
    {"Tensor", TypeKind::Tensor},
    {"int", TypeKind::Int},
    {"float", TypeKind::Float},
    {"bool", TypeKind::Bool},
    {"str", TypeKind::String},
    {"complex", TypeKind::Complex},
    {"NoneType", TypeKind::None},
    {"None", TypeKind::None},
    {"Scalar", TypeKind::Number},
    {"Device", TypeKind::Device},
    {"Function", TypeKind::Function},
    {"Any", TypeKind::Any},
    {"Generator", TypeKind::Generator},
    {"Stream", TypeKind::Stream},
    {"Storage", TypeKind::Storage},
    {"QScheme", TypeKind::QScheme},
    {"Quantizer", TypeKind::Quantizer},
    {"Capsule", TypeKind::Capsule},
    {"AnyClassType", TypeKind::AnyClass},
    {"AnyEnumType", TypeKind::AnyEnum},
    {"list", TypeKind::AnyList},
    {"tuple", TypeKind::AnyTuple},
    {"PyObject", TypeKind::PyObject},
    {"ScalarType", TypeKind::ScalarType},
    {"Layout", TypeKind::Layout},
    {"MemoryFormat", TypeKind::MemoryFormat},
    {"SymInt", TypeKind::SymInt},
    {"Dimname", TypeKind::Dimname},
    {"DeviceIndex", TypeKind::DeviceIndex},
    {"ConstQuantizerPtr", TypeKind::ConstQuantizerPtr},
    {"Dynamic", TypeKind::Tensor},  // tensors without a known type before PyTorch 1.1
};

bool isLower(char c) { return (c >= 'a' && c <= 'z') || c == '_'; }

std::optional<DType> dtypeOfTensorName(std::string_view name) {
  constexpr std::string_view kSuffix = "Tensor";
  if (name.size() <= kSuffix.size() || !endsWith(name, kSuffix)) return std::nullopt;
  return dtypeFromGraphName(name.substr(0, name.size() - kSuffix.size()));
}

// What stands in graph text for a type of Python's annotations.
std::string_view graphFormOf(std::string_view name) {
  if (name == "List") return "int[] for List[int]";
  if (name == "Optional") return "int? for Optional[int]";
  if (name == "Tuple") return "(int, str) for Tuple[int, str]";
  return {};
}

}  // namespace

TypePtr TypeBuilder::checkDepth(TypePtr type, Span span) {
  if (type->depth() <= state_.limits().typeDepth) return type;
  state_.limitError(span, &Limits::typeDepth);
  return types().any;
}

TypePtr TypeBuilder::namedType(std::string_view name, Span span) {
  for (const SimpleName& s : kSimpleNames) {
    if (s.name != name) continue;
    TypePtr t = simpleType(s.kind);
    // Schemas keep and print SymInt, ScalarType, Layout and MemoryFormat, but not these two.
    bool kept =
        state_.start() == StartAt::Schema && s.kind != TypeKind::Dimname && s.kind != TypeKind::ConstQuantizerPtr;
    return kept ? t : graphType(t);
  }
  if (auto dtype = dtypeOfTensorName(name)) {
    TensorFacts facts;
    facts.dtype = *dtype;
    return tensorType(facts);
  }
  if (isLower(name[0])) return variableType(std::string(name));
  if (state_.start() == StartAt::Text && state_.isFull()) return types().tensor;
  unknownTypeEnd_ = span.end;
  Diagnostic& d = state_.error(span, "unknown type '" + abbreviate(name, 80) + "'");
  if (std::string_view form = graphFormOf(name); !form.empty()) {
    d.note("graph text writes " + std::string(form));
  } else if (dtypeFromGraphName(name)) {
    d.note("a tensor of this dtype is written " + std::string(name) + "(sizes), or " + std::string(name) +
           "Tensor where its rank is not known");
  } else {
    NearestName nearest(name);
    for (const SimpleName& s : kSimpleNames) nearest.consider(s.name);
    if (nearest.found()) d.note("did you mean '" + nearest.name() + "'?");
  }
  return types().any;
}

TypePtr TypeBuilder::qualifiedType(std::string_view name) { return classType(std::string(name)); }

TypePtr TypeBuilder::tupleOf(Slice<TypePtr> elements, Span span) {
  return checkDepth(tupleType({elements.data, elements.size}), span);
}

TypePtr TypeBuilder::undefinedTensor(TypePtr type, Span span) {
  if (!type->isTensor()) {
    state_.error(span, "only a tensor type can be marked [Undefined]");
    return type;
  }
  TensorFacts facts = type->tensor();
  facts.undefinedTensor = true;
  return tensorType(facts);
}

TypePtr TypeBuilder::refinedTensor(std::string_view name, TensorItems* items, Span span) {
  TensorFacts facts;
  bool ranked = true;
  if (name == "Tensor") {
    // `Tensor(requires_grad=0)` says nothing of the rank; `Tensor(2, 3)` does.
    ranked = items->sizes.size != 0;
  } else if (auto known = dtypeFromGraphName(name)) {
    facts.dtype = *known;
  } else if (auto unranked = dtypeOfTensorName(name)) {
    facts.dtype = *unranked;
    ranked = false;
  } else {
    Diagnostic& d = state_.error(span, "unknown tensor type '" + abbreviate(name, 80) + "'");
    NearestName nearest(name);
    for (int i = 0; i < kDTypeCount; ++i) nearest.consider(graphName(static_cast<DType>(i)));
    if (nearest.found()) d.note("did you mean '" + nearest.name() + "'?");
    return types().tensor;
  }
  if (items->sizes.size > kMaxRank) {
    state_.error(span, "a tensor has at most " + std::to_string(kMaxRank) + " dimensions", ErrorKind::Limit);
    return types().tensor;
  }
  facts.hasRank = ranked;
  if (ranked) facts.sizes.append(items->sizes.begin(), items->sizes.end());
  facts.hasStrides = items->hasStrides || items->strideForEach;
  if (facts.hasStrides) {
    facts.strides.append(items->strides.begin(), items->strides.end());
    if (facts.strides.size() != facts.sizes.size()) {
      state_.error(span, "a tensor type of " + std::to_string(facts.sizes.size()) +
                             (facts.sizes.size() == 1 ? " size has " : " sizes has ") +
                             std::to_string(facts.strides.size()) +
                             (facts.strides.size() == 1 ? " stride" : " strides"));
      facts.strides.clear();
      facts.hasStrides = false;
    }
  }
  facts.requiresGrad = items->requiresGrad;
  facts.hasDevice = items->hasDevice;
  facts.device = items->device;
  return tensorType(facts);
}

TypePtr TypeBuilder::parametricType(std::string_view name, Slice<TypePtr> arguments, Span span) {
  auto expect = [&](uint32_t count) {
    if (arguments.size == count) return true;
    state_.error(span, std::string(name) + " takes " + std::to_string(count) +
                           (count == 1 ? " type, not " : " types, not ") + std::to_string(arguments.size));
    return false;
  };
  if (name == "Dict") return expect(2) ? checkDepth(dictType(arguments[0], arguments[1]), span) : types().any;
  if (name == "Union") return checkDepth(unionType({arguments.data, arguments.size}), span);
  if (!expect(1)) return types().any;
  TypePtr t = name == "Future" ? futureType(arguments[0])
              : name == "RRef" ? rrefType(arguments[0])
                               : awaitType(arguments[0]);
  return checkDepth(t, span);
}

TypePtr TypeBuilder::bracketedType(std::string_view name, Slice<TypePtr> arguments, Span span) {
  if (name != "Dict" && name != "Union") return parametricType(name, arguments, span);
  std::string form = join(arguments, ", ", [](TypePtr t) { return typeText(t); });
  state_.error(span, std::string(name) + " takes its types in parentheses")
      .note("graph text writes " + std::string(name) + "(" + abbreviate(form, 80) + ")");
  return types().any;
}

TypePtr TypeBuilder::genericType(TypePtr type, Span span) {
  // `List` itself was reported.
  bool reported = unknownTypeEnd_ > span.begin && unknownTypeEnd_ <= span.end;
  if (!reported) state_.error(span, typeText(type) + " takes no types in brackets");
  return types().any;
}

TypePtr TypeBuilder::wrappedType(std::string_view wrapper, std::string_view name, Span span) {
  if (wrapper == "InterfaceType") return interfaceType(std::string(name));
  if (wrapper == "Enum") return enumType(std::string(name));
  if (wrapper == "ClassType") {
    // PyTorch 1.2 and 1.3 print the bare name of what later versions qualify.
    bool bare = name.find('.') == std::string_view::npos;
    return classType((bare ? "__torch__." : "") + std::string(name));
  }
  state_.error(span, "unknown type '" + std::string(wrapper) + "<...>'");
  return types().any;
}

TypePtr TypeBuilder::namedTuple(FieldsSyntax* fields, Span span) {
  std::vector<std::string> names, defaults;
  for (std::string_view n : fields->names) names.emplace_back(n);
  for (std::string_view d : fields->defaults) defaults.emplace_back(d);
  return checkDepth(namedTupleType("", {fields->types.data, fields->types.size}, names, defaults), span);
}

TypePtr TypeBuilder::pythonType(std::string_view name, Slice<TypePtr>* arguments, Span span) {
  if (size_t dot = name.rfind('.');
      dot != std::string_view::npos && (name.substr(0, dot) == "typing" || name == "torch.Tensor"))
    name = name.substr(dot + 1);
  size_t count = arguments ? arguments->size : 0;
  if (name == "List" && count == 1) return listOf((*arguments)[0], span);
  if (name == "Optional" && count == 1) return optionalOf((*arguments)[0], span);
  if (name == "Tuple" && arguments) return tupleOf(*arguments, span);
  if (arguments && (name == "Dict" || name == "Union" || name == "Future" || name == "RRef" || name == "Await"))
    return parametricType(name, *arguments, span);
  if (arguments) {
    state_.error(span, "unknown type '" + abbreviate(name, 80) + "[...]'");
    return types().any;
  }
  if (name == "number") return types().number;
  if (name.find('.') != std::string_view::npos) return qualifiedType(name);
  return namedType(name, span);
}

// ---- items of tensor types ----

TensorItems* TypeBuilder::sizeItem(int64_t size, const int64_t* stride) {
  auto* item = state_.make<TensorItems>();
  // Negative sizes are symbols; the grammar writes the open size "*" as -1.
  item->sizes.push(state_.arena, size);
  if (stride) {
    item->strideForEach = true;
    item->strides.push(state_.arena, *stride);
  }
  return item;
}

TensorItems* TypeBuilder::strideItem(std::string_view name, Slice<int64_t>* strides, Span span) {
  auto* item = state_.make<TensorItems>();
  if (name != "strides") {
    state_.error(span, "expected 'strides', 'requires_grad' or 'device'");
    return item;
  }
  item->hasStrides = true;
  item->strides = *strides;
  return item;
}

TensorItems* TypeBuilder::flagItem(std::string_view name, int64_t value, Span span) {
  auto* item = state_.make<TensorItems>();
  if (name != "requires_grad")
    state_.error(span, "expected 'strides', 'requires_grad' or 'device'");
  else
    item->requiresGrad = value != 0;
  return item;
}

TensorItems* TypeBuilder::deviceItem(std::string_view name, std::string_view device, int64_t index, Span span) {
  auto* item = state_.make<TensorItems>();
  std::string text(device);
  if (index >= 0) text += ":" + std::to_string(index);
  auto known = deviceFromText(text);
  if (name != "device") {
    state_.error(span, "expected 'strides', 'requires_grad' or 'device'");
  } else if (!known) {
    state_.error(span, "unknown device '" + text + "'");
  } else {
    item->hasDevice = true;
    item->device = *known;
  }
  return item;
}

TensorItems* TypeBuilder::mergeItems(TensorItems* into, TensorItems* item, Span span) {
  for (int64_t s : item->sizes) into->sizes.push(state_.arena, s);
  if (item->strideForEach && into->sizes.size != into->strides.size + 1 && !into->hasStrides)
    state_.error(span, "a stride is given for some sizes only");
  if (item->hasStrides || item->strideForEach)
    for (int64_t s : item->strides) into->strides.push(state_.arena, s);
  into->hasStrides |= item->hasStrides;
  into->strideForEach |= item->strideForEach;
  if (item->requiresGrad >= 0) into->requiresGrad = item->requiresGrad;
  if (item->hasDevice) {
    into->hasDevice = true;
    into->device = item->device;
  }
  return into;
}

int64_t TypeBuilder::numberedSymbol(int64_t number, Span span) {
  // SS(-1) is a symbol of its own; "*" is kUnknownSize.
  constexpr int64_t kMost = (int64_t{1} << 31) - 2;
  if (number > kMost) state_.error(span, "the number of the symbol is too large");
  return sizeAsInteger(kUnknownSize - std::min(number, kMost));
}

int64_t TypeBuilder::namedSymbol(std::string_view name) { return SizeExpression::symbol(name).integer(); }

int64_t TypeBuilder::callInSize(std::string_view name, Slice<int64_t> operands, Span span) {
  std::vector<SizeExpression> all(operands.begin(), operands.end());
  std::optional<SizeExpression> result = sizeCall(name, all);
  if (!result) state_.error(span, "expected floordiv of two numbers, or min, max or broadcast of some");
  return result.value_or(0).integer();
}

int64_t TypeBuilder::sizeOf(int64_t integer, Span span) {
  if (integer == kUnknownInteger) state_.error(span, "the size is too large an expression");
  if (!isUnknownInteger(integer) && integer < 0) state_.error(span, "sizes are not negative");
  return SizeExpression(integer).size();
}

FieldsSyntax* TypeBuilder::field(FieldsSyntax* fields, std::string_view name, TypePtr type, std::string_view text) {
  fields->names.push(state_.arena, name);
  fields->types.push(state_.arena, type);
  fields->defaults.push(state_.arena, text);
  return fields;
}

}  // namespace tscompile::frontend
