#include "frontend/text/parse_context.h"

#include "frontend/text/grammar.h"
#include "ir/support/remedy.h"
#include "ir/support/text.h"

#include <algorithm>

namespace tscompile::frontend {

using Token = Parser::token;

ParseContext::ParseContext(const SourceFile& source, Diagnostics& diagnostics, const Limits& limits,
                           StatementSink* sink)
    : source_(source), text_(source.text()), diagnostics_(diagnostics), limits_(limits), sink_(sink) {}

bool ParseContext::parse(StartAt start) {
  start_ = start;
  if (text_.size() > limits_.textBytes || text_.size() >= UINT32_MAX) {
    limitError({0, 0}, &Limits::textBytes);
    return false;
  }
  attributesAt_ = start == StartAt::Value ? 1 : 0;
  scanner_ = makeScanner(text_, this, start == StartAt::Value);
  Parser parser(*this);
  parser.parse();
  destroyScanner(scanner_);
  scanner_ = nullptr;
  return !failed_;
}

int ParseContext::nextToken(Semantic& value, Span& span) {
  if (!started_) {
    started_ = true;
    span = {0, 0};
    switch (start_) {
      case StartAt::Text:
        return Token::TOK_START_TEXT;
      case StartAt::Schema:
        return Token::TOK_START_SCHEMA;
      case StartAt::Type:
        return Token::TOK_START_TYPE;
      case StartAt::Value:
        return Token::TOK_START_VALUE;
    }
  }
  // Enough mistakes were shown: the rest of a hopeless text is not worth its time.
  givenUp_ |= diagnostics_.full();
  if (givenUp_ || (lineStart_ && stop_ && stop_())) {
    span = {textSize(), textSize()};
    return Token::TOK_END;
  }
  int token = scanToken(scanner_, value, span);
  // Types and literals take at most two brackets for a level: `annotate(List[...], [`.
  if (brackets_.size() > 2 * limits_.typeDepth + 16) limitError(span, &Limits::typeDepth);
  if (lineStart_) statementBegin_ = span.begin;
  tokenBeforeLast_ = lastToken_;
  lastToken_ = token;
  lastSpan_ = span;
  lineStart_ = token == Token::TOK_NEWLINE;
  if (token == Token::TOK_SCALARS || lineStart_) sawPython_ = false;
  return token;
}

// ---- mistakes ----

Diagnostic& ParseContext::error(Span span, std::string message, ErrorKind kind) {
  failed_ = true;
  return diagnostics_.error(range(span), std::move(message), kind);
}

void ParseContext::limitError(Span span, uint64_t Limits::*limit) {
  if (givenUp_) return;
  givenUp_ = true;
  for (const LimitName& name : kLimitNames) {
    if (name.field != limit) continue;
    error(span, "more than " + std::to_string(limits_.*limit) + " " + name.what, ErrorKind::Limit)
        .note(tscompile::textOf(Remedy(Remedy::Kind::RaiseLimit, {name.name})));
  }
}

// ---- statements ----

void ParseContext::onNode(NodeSyntax* node, const PlaceSyntax* place, Span span) {
  sink_->onNode(*node, place, span);
  endStatement();
}
void ParseContext::onHeader(HeaderSyntax& header, Span span) {
  sink_->onHeader(header, span);
  endStatement();
}
void ParseContext::onSubgraph(Name kind, HeaderSyntax& header, Span span) {
  sink_->onSubgraph(kind, header, span);
  endStatement();
}
void ParseContext::onBlockEnd(Slice<Name> results, Span span) {
  sink_->onBlockEnd(results, span);
  endStatement();
}
void ParseContext::onReturn(Slice<Name> results, Span span) {
  sink_->onReturn(results, span);
  endStatement();
}
void ParseContext::onBrace(Span span) { sink_->onBrace(span); }
void ParseContext::onModule(std::string_view line, Span span) { sink_->onModule(line, span); }
void ParseContext::onSection(std::string_view line, Span span) { sink_->onSection(line, span); }
void ParseContext::onMethod(std::string_view line, Span span) { sink_->onMethod(line, span); }
void ParseContext::onSetting(std::string_view line, Span span) { sink_->onSetting(line, span); }

void ParseContext::onRecovery(Span span) {
  sink_->onRecovery(text_.substr(recoveryBegin_, span.end - recoveryBegin_), {recoveryBegin_, span.end});
  endStatement();
}

NodeSyntax* ParseContext::node(std::string_view kind, Span span) {
  auto* n = make<NodeSyntax>();
  n->kind = kind;
  n->kindSpan = span;
  return n;
}

NodeSyntax* ParseContext::pythonNode(std::string_view name, Span span, Slice<AttributeSyntax>* attributes,
                                     std::string_view scalars) {
  NodeSyntax* n = node(name, span);
  n->python = true;
  n->brackets = attributes != nullptr;
  if (attributes) n->attributes = *attributes;
  n->scalars = scalars;
  return n;
}

// ---- values ----

Literal* ParseContext::literal(Literal::Kind kind, Span span) {
  auto* l = make<Literal>();
  l->kind = kind;
  l->span = span;
  return l;
}

Literal* ParseContext::textLiteral(Literal::Kind kind, std::string_view text, Span span) {
  Literal* l = literal(kind, span);
  l->text = text;
  return l;
}

Literal* ParseContext::boolLiteral(bool v, Span span) {
  Literal* l = literal(Literal::Kind::Bool, span);
  l->boolean = v;
  return l;
}

Literal* ParseContext::integerLiteral(int64_t v, Span span) {
  // The scanner hands 2^63 on as the least integer; without its sign it does not fit.
  if (v == INT64_MIN && textOf(span).find('-') == std::string_view::npos)
    error(span, "integer does not fit in 64 bits");
  Literal* l = literal(Literal::Kind::Integer, span);
  l->integer = v;
  return l;
}

Literal* ParseContext::floatLiteral(double v, Span span) {
  Literal* l = literal(Literal::Kind::Float, span);
  l->number = v;
  return l;
}

Literal* ParseContext::complexLiteral(Literal* real, double imaginary, Span span) {
  Literal* l = literal(Literal::Kind::Imaginary, span);
  l->number = imaginary;
  if (real) l->real = real->kind == Literal::Kind::Integer ? static_cast<double>(real->integer) : real->number;
  return l;
}

Literal* ParseContext::container(Literal::Kind kind, Slice<Literal*>* items, Span span) {
  Literal* l = literal(kind, span);
  l->items = *items;
  for (Literal* item : l->items) l->depth = std::max<uint16_t>(l->depth, static_cast<uint16_t>(item->depth + 1));
  if (l->depth > limits_.typeDepth) {
    limitError(span, &Limits::typeDepth);
    l->items = Slice<Literal*>::none();
    l->depth = 0;
  }
  return l;
}

Literal* ParseContext::pair(Literal* key, Literal* value, Span span) {
  auto* items = list<Literal*>(key);
  append(items, value);
  return container(Literal::Kind::Tuple, items, span);
}

Literal* ParseContext::scalarTensor(Literal* number, Span span) {
  auto isNumber = [](const Literal* l) { return l->kind == Literal::Kind::Integer || l->kind == Literal::Kind::Float; };
  bool isComplex = number->kind == Literal::Kind::Tuple && number->items.size == 2 && isNumber(number->items[0]) &&
                   isNumber(number->items[1]);
  if (!isNumber(number) && !isComplex) error(number->span, "expected a number in a tensor of one element");
  Literal* l = textLiteral(Literal::Kind::Scalar, textOf(span), span);
  l->items.push(arena, number);
  return l;
}

Literal* ParseContext::typeLiteral(TypePtr type, Span span) {
  Literal* l = textLiteral(Literal::Kind::Type, textOf(span), span);
  l->type = type;
  return l;
}

TypePtr ParseContext::literalAsType(const Literal& l) {
  if (l.kind == Literal::Kind::Type) return l.type;
  if (l.kind == Literal::Kind::None) return types().none;
  if (l.kind == Literal::Kind::Qualified) return classType(std::string(l.text));
  if (l.kind != Literal::Kind::Tuple) return nullptr;
  std::vector<TypePtr> elements;
  for (Literal* item : l.items) {
    TypePtr t = literalAsType(*item);
    if (!t) return nullptr;
    elements.push_back(t);
  }
  return tupleType(elements);
}

Literal* ParseContext::suffixedType(Literal* l, char suffix, Span span) {
  TypePtr type = literalAsType(*l);
  if (!type) {
    error(span, "expected a type before this suffix");
    type = types().any;
  }
  if (suffix == '?') return typeLiteral(optionalOf(type, span), span);
  if (suffix == '[') return typeLiteral(listOf(type, span), span);
  return typeLiteral(undefinedTensor(type, span), span);
}

Literal* ParseContext::annotated(TypePtr annotation, Literal* value, Span span) {
  value->type = annotation;
  value->span = span;
  return value;
}

// ---- types ----

TypePtr ParseContext::checkDepth(TypePtr type, Span span) {
  if (type->depth() <= limits_.typeDepth) return type;
  limitError(span, &Limits::typeDepth);
  return types().any;
}

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

}  // namespace

namespace {
// What stands in graph text for a type of Python's annotations.
std::string_view graphFormOf(std::string_view name) {
  if (name == "List") return "int[] for List[int]";
  if (name == "Optional") return "int? for Optional[int]";
  if (name == "Tuple") return "(int, str) for Tuple[int, str]";
  return {};
}
}  // namespace

TypePtr ParseContext::namedType(std::string_view name, Span span) {
  for (const SimpleName& s : kSimpleNames) {
    if (s.name != name) continue;
    TypePtr t = simpleType(s.kind);
    // Schemas keep and print SymInt, ScalarType, Layout and MemoryFormat, but not these two.
    bool kept = start_ == StartAt::Schema && s.kind != TypeKind::Dimname && s.kind != TypeKind::ConstQuantizerPtr;
    return kept ? t : graphType(t);
  }
  if (auto dtype = dtypeOfTensorName(name)) {
    TensorFacts facts;
    facts.dtype = *dtype;
    return tensorType(facts);
  }
  if (isLower(name[0])) return variableType(std::string(name));
  if (start_ == StartAt::Text && diagnostics_.full()) return types().tensor;
  unknownTypeEnd_ = span.end;
  Diagnostic& d = error(span, "unknown type '" + abbreviate(name, 80) + "'");
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

TypePtr ParseContext::qualifiedType(std::string_view name) { return classType(std::string(name)); }

TypePtr ParseContext::tupleOf(Slice<TypePtr> elements, Span span) {
  return checkDepth(tupleType({elements.data, elements.size}), span);
}

TypePtr ParseContext::undefinedTensor(TypePtr type, Span span) {
  if (!type->isTensor()) {
    error(span, "only a tensor type can be marked [Undefined]");
    return type;
  }
  TensorFacts facts = type->tensor();
  facts.undefinedTensor = true;
  return tensorType(facts);
}

TypePtr ParseContext::refinedTensor(std::string_view name, TensorItems* items, Span span) {
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
    Diagnostic& d = error(span, "unknown tensor type '" + abbreviate(name, 80) + "'");
    NearestName nearest(name);
    for (int i = 0; i < kDTypeCount; ++i) nearest.consider(graphName(static_cast<DType>(i)));
    if (nearest.found()) d.note("did you mean '" + nearest.name() + "'?");
    return types().tensor;
  }
  if (items->sizes.size > kMaxRank) {
    error(span, "a tensor has at most " + std::to_string(kMaxRank) + " dimensions", ErrorKind::Limit);
    return types().tensor;
  }
  facts.hasRank = ranked;
  if (ranked) facts.sizes.append(items->sizes.begin(), items->sizes.end());
  facts.hasStrides = items->hasStrides || items->strideForEach;
  if (facts.hasStrides) {
    facts.strides.append(items->strides.begin(), items->strides.end());
    if (facts.strides.size() != facts.sizes.size()) {
      error(span, "a tensor type of " + std::to_string(facts.sizes.size()) +
                      (facts.sizes.size() == 1 ? " size has " : " sizes has ") + std::to_string(facts.strides.size()) +
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

TypePtr ParseContext::parametricType(std::string_view name, Slice<TypePtr> arguments, Span span) {
  auto expect = [&](uint32_t count) {
    if (arguments.size == count) return true;
    error(span, std::string(name) + " takes " + std::to_string(count) + (count == 1 ? " type, not " : " types, not ") +
                    std::to_string(arguments.size));
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

TypePtr ParseContext::bracketedType(std::string_view name, Slice<TypePtr> arguments, Span span) {
  if (name != "Dict" && name != "Union") return parametricType(name, arguments, span);
  std::string form = join(arguments, ", ", [](TypePtr t) { return typeText(t); });
  error(span, std::string(name) + " takes its types in parentheses")
      .note("graph text writes " + std::string(name) + "(" + abbreviate(form, 80) + ")");
  return types().any;
}

TypePtr ParseContext::genericType(TypePtr type, Span span) {
  // `List` itself was reported.
  bool reported = unknownTypeEnd_ > span.begin && unknownTypeEnd_ <= span.end;
  if (!reported) error(span, typeText(type) + " takes no types in brackets");
  return types().any;
}

TypePtr ParseContext::wrappedType(std::string_view wrapper, std::string_view name, Span span) {
  if (wrapper == "InterfaceType") return interfaceType(std::string(name));
  if (wrapper == "Enum") return enumType(std::string(name));
  if (wrapper == "ClassType") {
    // PyTorch 1.2 and 1.3 print the bare name of what later versions qualify.
    bool bare = name.find('.') == std::string_view::npos;
    return classType((bare ? "__torch__." : "") + std::string(name));
  }
  error(span, "unknown type '" + std::string(wrapper) + "<...>'");
  return types().any;
}

TypePtr ParseContext::namedTuple(FieldsSyntax* fields, Span span) {
  std::vector<std::string> names, defaults;
  for (std::string_view n : fields->names) names.emplace_back(n);
  for (std::string_view d : fields->defaults) defaults.emplace_back(d);
  return checkDepth(namedTupleType("", {fields->types.data, fields->types.size}, names, defaults), span);
}

TypePtr ParseContext::pythonType(std::string_view name, Slice<TypePtr>* arguments, Span span) {
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
    error(span, "unknown type '" + abbreviate(name, 80) + "[...]'");
    return types().any;
  }
  if (name == "number") return types().number;
  if (name.find('.') != std::string_view::npos) return qualifiedType(name);
  return namedType(name, span);
}

// ---- items of tensor types ----

TensorItems* ParseContext::sizeItem(int64_t size, const int64_t* stride) {
  auto* item = make<TensorItems>();
  // Negative sizes are symbols; the grammar writes the open size "*" as -1.
  item->sizes.push(arena, size);
  if (stride) {
    item->strideForEach = true;
    item->strides.push(arena, *stride);
  }
  return item;
}

TensorItems* ParseContext::strideItem(std::string_view name, Slice<int64_t>* strides, Span span) {
  auto* item = make<TensorItems>();
  if (name != "strides") {
    error(span, "expected 'strides', 'requires_grad' or 'device'");
    return item;
  }
  item->hasStrides = true;
  item->strides = *strides;
  return item;
}

TensorItems* ParseContext::flagItem(std::string_view name, int64_t value, Span span) {
  auto* item = make<TensorItems>();
  if (name != "requires_grad")
    error(span, "expected 'strides', 'requires_grad' or 'device'");
  else
    item->requiresGrad = value != 0;
  return item;
}

TensorItems* ParseContext::deviceItem(std::string_view name, std::string_view device, int64_t index, Span span) {
  auto* item = make<TensorItems>();
  std::string text(device);
  if (index >= 0) text += ":" + std::to_string(index);
  auto known = deviceFromText(text);
  if (name != "device") {
    error(span, "expected 'strides', 'requires_grad' or 'device'");
  } else if (!known) {
    error(span, "unknown device '" + text + "'");
  } else {
    item->hasDevice = true;
    item->device = *known;
  }
  return item;
}

TensorItems* ParseContext::mergeItems(TensorItems* into, TensorItems* item, Span span) {
  for (int64_t s : item->sizes) into->sizes.push(arena, s);
  if (item->strideForEach && into->sizes.size != into->strides.size + 1 && !into->hasStrides)
    error(span, "a stride is given for some sizes only");
  if (item->hasStrides || item->strideForEach)
    for (int64_t s : item->strides) into->strides.push(arena, s);
  into->hasStrides |= item->hasStrides;
  into->strideForEach |= item->strideForEach;
  if (item->requiresGrad >= 0) into->requiresGrad = item->requiresGrad;
  if (item->hasDevice) {
    into->hasDevice = true;
    into->device = item->device;
  }
  return into;
}

int64_t ParseContext::symbolicSize(int64_t symbol) {
  // SS(-1) is a symbol of its own; "*" is kUnknownSize.
  return symbol == INT64_MIN ? INT64_MIN : -symbol - 1;
}

FieldsSyntax* ParseContext::field(FieldsSyntax* fields, std::string_view name, TypePtr type, std::string_view text) {
  fields->names.push(arena, name);
  fields->types.push(arena, type);
  fields->defaults.push(arena, text);
  return fields;
}

// ---- schemas ----

ArgumentSyntax* ParseContext::argument(ArgumentSyntax::Kind kind, Span span) {
  auto* a = make<ArgumentSyntax>();
  a->kind = kind;
  a->span = span;
  return a;
}

ArgumentSyntax* ParseContext::argument(SchemaTypeSyntax* type, std::string_view name, Literal* defaultValue,
                                       Span span) {
  ArgumentSyntax* a = argument(ArgumentSyntax::Kind::Argument, span);
  a->type = type;
  a->name = name;
  a->defaultValue = defaultValue;
  return a;
}

SchemaTypeSyntax* ParseContext::schemaNamed(std::string_view name, AliasSyntax* alias, Span span) {
  auto* t = make<SchemaTypeSyntax>();
  t->type = namedType(name, span);
  t->alias = alias;
  t->span = span;
  if (t->type->isTensor() && t->type != types().tensor) error(span, "a schema cannot refine a tensor type");
  return t;
}

SchemaTypeSyntax* ParseContext::schemaQualified(std::string_view name, Span span) {
  auto* t = make<SchemaTypeSyntax>();
  t->type = qualifiedType(name);
  t->span = span;
  if (!startsWith(name, "__torch__.torch.classes.")) error(span, "expected a class of __torch__.torch.classes");
  return t;
}

SchemaTypeSyntax* ParseContext::schemaTuple(Slice<SchemaTypeSyntax*>* elements, Span span) {
  auto* types = list<TypePtr>();
  for (SchemaTypeSyntax* e : *elements) append(types, e->type);
  auto* t = make<SchemaTypeSyntax>();
  t->type = tupleOf(*types, span);
  t->span = span;
  return t;
}

SchemaTypeSyntax* ParseContext::schemaParametric(std::string_view name, Slice<SchemaTypeSyntax*>* arguments,
                                                 AliasSyntax* alias, Span span) {
  auto* types = list<TypePtr>();
  for (SchemaTypeSyntax* e : *arguments) append(types, e->type);
  auto* t = make<SchemaTypeSyntax>();
  t->type = parametricType(name, *types, span);
  t->alias = alias;
  t->span = span;
  return t;
}

SchemaTypeSyntax* ParseContext::schemaList(SchemaTypeSyntax* element, int64_t fixedSize, AliasSyntax* alias,
                                           Span span) {
  auto* t = make<SchemaTypeSyntax>();
  t->type = listOf(element->type, span);
  t->elementAlias = element->alias;
  t->alias = alias;
  t->fixedSize = static_cast<int32_t>(std::clamp<int64_t>(fixedSize, -1, INT32_MAX));
  t->span = span;
  return t;
}

SchemaTypeSyntax* ParseContext::schemaOptional(SchemaTypeSyntax* element, Span span) {
  SchemaTypeSyntax* t = make<SchemaTypeSyntax>(*element);
  t->type = optionalOf(element->type, span);
  t->span = span;
  return t;
}

AliasSyntax* ParseContext::alias(Slice<std::string_view>* before, bool write, Slice<std::string_view>* after) {
  auto* a = make<AliasSyntax>();
  a->before = *before;
  a->write = write;
  a->arrow = after != nullptr;
  if (after) a->after = *after;
  return a;
}

// `Tensor!`: written, in a set of its own; PyTorch calls those of a schema $0, $1, and so on.
AliasSyntax* ParseContext::bareWrite() {
  auto* a = make<AliasSyntax>();
  a->before.push(arena, arena.copy("$" + std::to_string(unnamedSets_++)));
  a->write = true;
  a->arrow = true;
  return a;
}

}  // namespace tscompile::frontend
