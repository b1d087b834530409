// A named attribute of a node: a constant value, types, or subgraphs.
#pragma once

#include "ir/values/ivalue.h"
#include "ir/values/symbol.h"

#include <memory>
#include <variant>
#include <vector>

namespace tscompile {

class Graph;

struct Attribute {
  using Payload =
      std::variant<IValue, TypePtr, std::vector<TypePtr>, std::unique_ptr<Graph>, std::vector<std::unique_ptr<Graph>>>;
  Attribute(Symbol name, Payload payload);
  Attribute(Attribute&&) noexcept;
  Attribute& operator=(Attribute&&) noexcept;
  ~Attribute();

  Symbol name;
  Payload payload;

  const IValue* value() const { return std::get_if<IValue>(&payload); }
  TypePtr type() const {
    auto* t = std::get_if<TypePtr>(&payload);
    return t ? *t : nullptr;
  }
  Graph* graph() const {
    auto* g = std::get_if<std::unique_ptr<Graph>>(&payload);
    return g ? g->get() : nullptr;
  }
};

}  // namespace tscompile
