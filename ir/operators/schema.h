// Function schemas: what an operator takes, returns, and writes to.
#pragma once

#include "ir/values/ivalue.h"
#include "ir/values/type.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tscompile {

// `(a! -> b|*)` after a type: the sets of memory that a value may belong to before and after the call.
struct AliasInfo {
  std::vector<std::string> before, after;  // set names; "*" is everything
  bool isWrite = false;
  std::vector<AliasInfo> contained;  // of the elements of a list, for `Tensor(a)[]`; entries without sets say nothing

  bool isWildcardAfter() const;
  friend bool operator==(const AliasInfo&, const AliasInfo&) = default;
};

struct Argument {
  std::string name;
  TypePtr type = nullptr;            // as graphs have it: what matching uses
  TypePtr schemaType = nullptr;      // as written: SymInt, ScalarType, Layout ...
  std::optional<int32_t> fixedSize;  // 2 of `int[2]`
  std::optional<IValue> defaultValue;
  std::optional<AliasInfo> alias;
  bool keywordOnly = false;

  bool isWritten() const { return alias && alias->isWrite; }
};

struct Schema {
  std::string name;      // "aten::add"
  std::string overload;  // "Tensor"; often empty
  std::vector<Argument> arguments;
  std::vector<Argument> returns;
  bool varArguments = false;  // ends in "..."
  bool varReturns = false;

  std::string fullName() const { return overload.empty() ? name : name + "." + overload; }
  bool isMutable() const;
  std::optional<size_t> argumentIndex(std::string_view argument) const;
};

// The schema in PyTorch's normal form.
std::string schemaText(const Schema& schema);

// The types that type variables stand for in one match, in the order of their binding.
using TypeBindings = std::vector<std::pair<std::string, TypePtr>>;

// Binds the variables of `formal` so that `actual` fits; false if they cannot.
bool bindTypeVariables(TypePtr formal, TypePtr actual, TypeBindings& bindings);
// The type with its variables replaced, or null if one is unbound.
TypePtr substituteTypeVariables(TypePtr type, const TypeBindings& bindings);

// Whether a node with inputs of these types means this schema, by PyTorch's rules: as many inputs as arguments, each a
// subtype, no conversions and no defaults. On success `bindings` holds the type variables.
bool matchesSchema(const Schema& schema, std::span<const TypePtr> inputs, TypeBindings& bindings);

}  // namespace tscompile
