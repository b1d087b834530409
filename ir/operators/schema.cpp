#include "ir/operators/schema.h"

#include "ir/values/literal.h"
#include "ir/values/with_elements.h"

#include <algorithm>

namespace tscompile {

bool AliasInfo::isWildcardAfter() const { return std::find(after.begin(), after.end(), "*") != after.end(); }

bool Schema::isMutable() const {
  auto writes = [](const AliasInfo& a) {
    return a.isWrite ||
           std::any_of(a.contained.begin(), a.contained.end(), [](const AliasInfo& c) { return c.isWrite; });
  };
  return std::any_of(arguments.begin(), arguments.end(),
                     [&](const Argument& a) { return a.alias && writes(*a.alias); });
}

std::optional<size_t> Schema::argumentIndex(std::string_view argument) const {
  for (size_t i = 0; i < arguments.size(); ++i)
    if (arguments[i].name == argument) return i;
  return std::nullopt;
}

// ---- text ----

namespace {

void appendAlias(const AliasInfo& alias, std::string& out) {
  auto sets = [&out](const std::vector<std::string>& names) {
    for (size_t i = 0; i < names.size(); ++i) {
      if (i) out += '|';
      out += names[i];
    }
  };
  out += '(';
  sets(alias.before);
  if (alias.isWrite) out += '!';
  if (alias.before != alias.after) {
    out += " -> ";
    sets(alias.after);
  }
  out += ')';
}

void appendArgument(const Argument& a, std::string& out) {
  bool optional = a.schemaType->is(TypeKind::Optional);
  TypePtr type = optional ? a.schemaType->element() : a.schemaType;
  if (type->is(TypeKind::List)) {
    appendType(type->element(), TypeStyle::Schema, out);
    if (a.alias && !a.alias->contained.empty() && !a.alias->contained[0].before.empty())
      appendAlias(a.alias->contained[0], out);
    out += '[';
    if (a.fixedSize) out += std::to_string(*a.fixedSize);
    out += ']';
  } else {
    appendType(type, TypeStyle::Schema, out);
  }
  if (a.alias && !a.alias->before.empty()) appendAlias(*a.alias, out);
  if (optional) out += '?';
  if (!a.name.empty()) out += " " + a.name;
  if (!a.defaultValue) return;
  out += '=';
  // An int list of equal elements prints as one number, as the operators are declared: int[2] stride=1.
  if (a.schemaType->isListOf(TypeKind::Int)) {
    const auto& items = a.defaultValue->toList().items;
    if (items.size() > 1 &&
        std::all_of(items.begin(), items.end(), [&](const IValue& v) { return v.toInt() == items[0].toInt(); })) {
      appendValue(items[0], LiteralStyle::Schema, out);
      return;
    }
  }
  appendValue(*a.defaultValue, LiteralStyle::Schema, out);
}

}  // namespace

std::string schemaText(const Schema& schema) {
  std::string out = schema.fullName() + "(";
  bool keywords = false;
  for (size_t i = 0; i < schema.arguments.size(); ++i) {
    if (i) out += ", ";
    if (schema.arguments[i].keywordOnly && !keywords) {
      out += "*, ";
      keywords = true;
    }
    appendArgument(schema.arguments[i], out);
  }
  if (schema.varArguments) out += schema.arguments.empty() ? "..." : ", ...";
  out += ") -> ";

  std::string returns;
  for (size_t i = 0; i < schema.returns.size(); ++i) {
    if (i) returns += ", ";
    appendArgument(schema.returns[i], returns);
  }
  if (schema.varReturns) returns += schema.returns.empty() ? "..." : ", ...";
  size_t count = schema.returns.size() + (schema.varReturns ? 1 : 0);
  bool bare = count == 1 && returns[0] != '(';  // a single tuple type needs parentheses of its own
  return bare ? out + returns : out + "(" + returns + ")";
}

// ---- matching ----

bool bindTypeVariables(TypePtr formal, TypePtr actual, TypeBindings& bindings) {
  if (!formal->hasVariables()) return true;
  switch (formal->kind()) {
    case TypeKind::Variable: {
      for (auto& [name, bound] : bindings)
        if (name == formal->name()) return unifyTypes(bound, actual) != nullptr;
      bindings.emplace_back(formal->name(), actual);
      return true;
    }
    case TypeKind::List: {
      if (actual->is(TypeKind::List)) return bindTypeVariables(formal->element(), actual->element(), bindings);
      if (!actual->is(TypeKind::Tuple) || actual->elements().empty()) return false;
      TypePtr common = actual->element(0);
      for (TypePtr e : actual->elements())
        if (common) common = unifyTypes(common, e);
      return common && bindTypeVariables(formal->element(), common, bindings);
    }
    case TypeKind::Optional:
      if (actual->is(TypeKind::Optional)) return bindTypeVariables(formal->element(), actual->element(), bindings);
      // None fits without saying what the variable is.
      return actual->is(TypeKind::None) || bindTypeVariables(formal->element(), actual, bindings);
    default: {
      if (formal->kind() != actual->kind() || formal->elements().size() != actual->elements().size()) return false;
      for (size_t i = 0; i < formal->elements().size(); ++i)
        if (!bindTypeVariables(formal->element(i), actual->element(i), bindings)) return false;
      return true;
    }
  }
}

TypePtr substituteTypeVariables(TypePtr type, const TypeBindings& bindings) {
  if (!type->hasVariables()) return type;
  if (type->is(TypeKind::Variable)) {
    for (const auto& [name, bound] : bindings)
      if (name == type->name()) return bound;
    return nullptr;
  }
  std::vector<TypePtr> elements;
  for (TypePtr e : type->elements()) {
    TypePtr s = substituteTypeVariables(e, bindings);
    if (!s) return nullptr;
    elements.push_back(s);
  }
  return withElements(type, elements);
}

bool matchesSchema(const Schema& schema, std::span<const TypePtr> inputs, TypeBindings& bindings) {
  size_t formals = schema.arguments.size();
  if (schema.varArguments ? inputs.size() < formals : inputs.size() != formals) return false;
  for (size_t i = 0; i < formals; ++i) {
    TypePtr formal = schema.arguments[i].type;
    if (!bindTypeVariables(formal, inputs[i], bindings)) return false;
    if (TypePtr bound = substituteTypeVariables(formal, bindings)) formal = bound;
    if (!isSubtype(inputs[i], formal)) return false;
  }
  return true;
}

}  // namespace tscompile
