#include "frontend/text/schema_builder.h"

#include "ir/support/text.h"

#include <algorithm>

namespace tscompile::frontend {
namespace {

constexpr std::string_view kReserved[] = {"def",      "if",       "else",   "elif",  "while",  "return", "is",
                                          "not",      "in",       "and",    "or",    "True",   "False",  "None",
                                          "NoneType", "Ellipsis", "global", "for",   "raise",  "assert", "break",
                                          "continue", "del",      "pass",   "class", "import", "with",   "as"};

struct NamedConstant {
  std::string_view name;
  int64_t value;
};
constexpr NamedConstant kConstants[] = {{"float", 6},   {"long", 4}, {"complex", 9},
                                        {"strided", 0}, {"Mean", 1}, {"contiguous_format", 0}};

// The checks, and the schema that passes them.
class Checker {
 public:
  Checker(ParseState& state, const SchemaSyntax& syntax, Schema& schema)
      : state_(state), syntax_(syntax), schema_(schema) {}

  bool build() {
    name();
    arguments();
    returns();
    return good_;
  }

 private:
  void fail(Span span, std::string message) {
    state_.error(span, std::move(message));
    good_ = false;
  }

  void name() {
    const auto& s = syntax_;
    schema_.name = s.name;
    schema_.overload = s.overload;
    // Without a namespace, the scanner takes `f.over` as one qualified name.
    if (schema_.name.find("::") == std::string::npos) {
      if (size_t dot = schema_.name.find('.'); dot != std::string::npos) {
        schema_.overload = schema_.name.substr(dot + 1);
        schema_.name.resize(dot);
      }
    }
    if (schema_.overload == "default" || startsWith(schema_.overload, "__") ||
        schema_.overload.find('.') != std::string::npos)
      fail(s.span, "'" + schema_.overload + "' is not a legal overload name");
  }

  void arguments() {
    bool keywords = false, defaults = false;
    const auto& list = *syntax_.arguments;
    for (uint32_t i = 0; i < list.size; ++i) {
      const ArgumentSyntax& a = *list[i];
      if (a.kind == ArgumentSyntax::Kind::Star) {
        keywords = true;
        continue;
      }
      if (a.kind == ArgumentSyntax::Kind::Ellipsis) {
        if (i + 1 != list.size) fail(a.span, "'...' stands last among the arguments");
        if (defaults) fail(a.span, "arguments before '...' cannot have defaults");
        schema_.varArguments = true;
        continue;
      }
      if (std::find(std::begin(kReserved), std::end(kReserved), a.name) != std::end(kReserved))
        fail(a.span, "'" + std::string(a.name) + "' is a reserved word");
      Argument arg = argument(a);
      arg.keywordOnly = keywords;
      if (arg.defaultValue)
        defaults = true;
      else if (defaults && !keywords && !arg.type->is(TypeKind::List))
        fail(a.span, "an argument without a default follows one that has a default");
      schema_.arguments.push_back(std::move(arg));
    }
  }

  void returns() {
    const auto& list = *syntax_.returns;
    for (uint32_t i = 0; i < list.size; ++i) {
      const ArgumentSyntax& a = *list[i];
      if (a.kind == ArgumentSyntax::Kind::Ellipsis) {
        if (i + 1 != list.size) fail(a.span, "'...' stands last among the returns");
        schema_.varReturns = true;
      } else {
        schema_.returns.push_back(argument(a));
      }
    }
  }

  static AliasInfo aliasOf(const AliasSyntax& a) {
    AliasInfo info;
    info.isWrite = a.write;
    for (std::string_view s : a.before) info.before.emplace_back(s);
    if (a.arrow)
      for (std::string_view s : a.after) info.after.emplace_back(s);
    else
      info.after = info.before;
    return info;
  }

  Argument argument(const ArgumentSyntax& a) {
    Argument arg;
    const SchemaTypeSyntax& t = *a.type;
    arg.name = a.name;
    arg.schemaType = t.type;
    arg.type = graphType(t.type);
    if (t.fixedSize >= 0) arg.fixedSize = t.fixedSize;
    if (t.alias) arg.alias = aliasOf(*t.alias);
    if (t.elementAlias) {
      if (!arg.alias) arg.alias.emplace();
      arg.alias->contained.push_back(aliasOf(*t.elementAlias));
    }
    if (a.defaultValue) arg.defaultValue = defaultOf(*a.defaultValue, arg);
    return arg;
  }

  IValue defaultOf(const Literal& l, const Argument& arg) {
    TypePtr type = arg.type;
    if (type->is(TypeKind::Optional)) {
      if (l.kind == Literal::Kind::None) return {};
      if (l.kind == Literal::Kind::List) {
        fail(l.span, "the default of an optional list is None or a single number");
        return {};
      }
      TypePtr element = type->element();
      bool number = l.kind == Literal::Kind::Integer || l.kind == Literal::Kind::Float;
      return scalar(l, number ? types().number : element);
    }
    if (type->is(TypeKind::List)) {
      TypePtr element = type->element();
      bool listable = element->is(TypeKind::Int) || element->is(TypeKind::Float) || element->is(TypeKind::Bool) ||
                      element->is(TypeKind::Complex);
      std::vector<IValue> items;
      if (!listable) {
        fail(l.span, "only lists of numbers can have a default");
      } else if (l.kind == Literal::Kind::List) {
        for (Literal* item : l.items) items.push_back(listItem(*item, element));
      } else if (arg.fixedSize) {
        items.assign(std::min(*arg.fixedSize, 1024), listItem(l, element));
      } else {
        fail(l.span, "expected a list as the default of a list");
      }
      return Ref<ListValue>::make(element, std::move(items));
    }
    return scalar(l, type);
  }

  // Items of lists must be of the element's type, which PyTorch does not ask of a single default.
  IValue listItem(const Literal& l, TypePtr element) {
    IValue v = scalar(l, element);
    bool fits = element->is(TypeKind::Int)     ? v.isInt()
                : element->is(TypeKind::Float) ? v.isFloat()
                : element->is(TypeKind::Bool)  ? v.isBool()
                                               : v.isComplex();
    if (!fits && good_) fail(l.span, "expected a default of type " + typeText(element));
    return v;
  }

  IValue scalar(const Literal& l, TypePtr type) {
    auto wrong = [&](const char* expected) {
      fail(l.span, std::string("expected ") + expected + " as the default");
      return IValue();
    };
    switch (type->kind()) {
      case TypeKind::Tensor:
      case TypeKind::Generator:
      case TypeKind::Quantizer:
        return l.kind == Literal::Kind::None ? IValue() : wrong("None");
      case TypeKind::String:
        return l.kind == Literal::Kind::String ? IValue(l.text) : wrong("a string");
      case TypeKind::Device: {
        auto device = l.kind == Literal::Kind::String ? deviceFromText(l.text) : std::nullopt;
        return device ? IValue(*device) : wrong("the name of a device");
      }
      case TypeKind::Complex:
        return l.kind == Literal::Kind::Imaginary ? IValue(std::complex<double>(l.real, l.number))
                                                  : wrong("an imaginary number");
      default:
        break;
    }
    switch (l.kind) {
      case Literal::Kind::Integer:
        return type->is(TypeKind::Float) ? IValue(static_cast<double>(l.integer)) : IValue(l.integer);
      case Literal::Kind::Float:
        return l.number;
      case Literal::Kind::Bool:
        return l.boolean;
      case Literal::Kind::None:
        return {};
      case Literal::Kind::Qualified:
        for (const NamedConstant& c : kConstants)
          if (c.name == l.text) return c.value;
        return wrong("a number");
      default:
        return wrong("a number");
    }
  }

  ParseState& state_;
  const SchemaSyntax& syntax_;
  Schema& schema_;
  bool good_ = true;
};

}  // namespace

bool SchemaBuilder::build(Schema& schema) const { return Checker(state_, syntax_, schema).build(); }

ArgumentSyntax* SchemaBuilder::argument(ArgumentSyntax::Kind kind, Span span) {
  auto* a = state_.make<ArgumentSyntax>();
  a->kind = kind;
  a->span = span;
  return a;
}

ArgumentSyntax* SchemaBuilder::argument(SchemaTypeSyntax* type, std::string_view name, Literal* defaultValue,
                                        Span span) {
  ArgumentSyntax* a = argument(ArgumentSyntax::Kind::Argument, span);
  a->type = type;
  a->name = name;
  a->defaultValue = defaultValue;
  return a;
}

SchemaTypeSyntax* SchemaBuilder::namedType(std::string_view name, AliasSyntax* alias, Span span) {
  auto* t = state_.make<SchemaTypeSyntax>();
  t->type = types_.namedType(name, span);
  t->alias = alias;
  t->span = span;
  if (t->type->isTensor() && t->type != types().tensor) state_.error(span, "a schema cannot refine a tensor type");
  return t;
}

SchemaTypeSyntax* SchemaBuilder::qualifiedType(std::string_view name, Span span) {
  auto* t = state_.make<SchemaTypeSyntax>();
  t->type = types_.qualifiedType(name);
  t->span = span;
  if (!startsWith(name, "__torch__.torch.classes.")) state_.error(span, "expected a class of __torch__.torch.classes");
  return t;
}

SchemaTypeSyntax* SchemaBuilder::tupleType(Slice<SchemaTypeSyntax*>* elements, Span span) {
  auto* types = state_.list<TypePtr>();
  for (SchemaTypeSyntax* e : *elements) state_.append(types, e->type);
  auto* t = state_.make<SchemaTypeSyntax>();
  t->type = types_.tupleOf(*types, span);
  t->span = span;
  return t;
}

SchemaTypeSyntax* SchemaBuilder::parametricType(std::string_view name, Slice<SchemaTypeSyntax*>* arguments,
                                                AliasSyntax* alias, Span span) {
  auto* types = state_.list<TypePtr>();
  for (SchemaTypeSyntax* e : *arguments) state_.append(types, e->type);
  auto* t = state_.make<SchemaTypeSyntax>();
  t->type = types_.parametricType(name, *types, span);
  t->alias = alias;
  t->span = span;
  return t;
}

SchemaTypeSyntax* SchemaBuilder::listType(SchemaTypeSyntax* element, int64_t fixedSize, AliasSyntax* alias, Span span) {
  auto* t = state_.make<SchemaTypeSyntax>();
  t->type = types_.listOf(element->type, span);
  t->elementAlias = element->alias;
  t->alias = alias;
  t->fixedSize = static_cast<int32_t>(std::clamp<int64_t>(fixedSize, -1, INT32_MAX));
  t->span = span;
  return t;
}

SchemaTypeSyntax* SchemaBuilder::optionalType(SchemaTypeSyntax* element, Span span) {
  SchemaTypeSyntax* t = state_.make<SchemaTypeSyntax>(*element);
  t->type = types_.optionalOf(element->type, span);
  t->span = span;
  return t;
}

AliasSyntax* SchemaBuilder::alias(Slice<std::string_view>* before, bool write, Slice<std::string_view>* after) {
  auto* a = state_.make<AliasSyntax>();
  a->before = *before;
  a->write = write;
  a->arrow = after != nullptr;
  if (after) a->after = *after;
  return a;
}

// `Tensor!`: written, in a set of its own; PyTorch calls those of a schema $0, $1, and so on.
AliasSyntax* SchemaBuilder::bareWrite() {
  auto* a = state_.make<AliasSyntax>();
  a->before.push(state_.arena, state_.arena.copy("$" + std::to_string(unnamedSets_++)));
  a->write = true;
  a->arrow = true;
  return a;
}

}  // namespace tscompile::frontend
