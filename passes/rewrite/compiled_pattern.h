// What reading, matching and building of patterns share: a pattern's text with everything looked up.
#pragma once

#include "ir/graph/side_table.h"
#include "ir/support/text.h"
#include "passes/rewrite/pattern.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace re2 {
class RE2;
}

namespace tscompile {

struct CompiledPattern {
  struct AttributeTest {
    Symbol name;
    const IValue* value = nullptr;  // must be equal; null for the forms below
    int variable = -1;              // index into `variables`
    std::shared_ptr<const re2::RE2> regex;
  };
  struct PatternNode {
    const Node* node;
    int kindVariable = -1;  // of any:: nodes: index into `kindVariables`
    int rest = -1;          // the value of the last input, if that is a rest
    std::vector<AttributeTest> attributes;
    bool isConstant = false;
  };

  std::unique_ptr<Graph> graph;
  std::vector<PatternNode> nodes;
  std::vector<const Value*> values;
  ValueTable<uint32_t> indexOf;   // of values
  NodeTable<uint32_t> nodeIndex;  // of nodes
  std::vector<std::string> variables, kindVariables;
  std::vector<uint32_t> outputs;

  int find(std::string_view name) const {
    const Value* v = graph->find(name);
    return v ? static_cast<int>(indexOf[v]) : -1;
  }
  static int indexIn(const std::vector<std::string>& names, std::string_view name) {
    auto it = std::find(names.begin(), names.end(), name);
    return it == names.end() ? -1 : static_cast<int>(it - names.begin());
  }
};

inline bool isRest(const Value* v) { return endsWith(v->givenName(), "..."); }
inline bool isAny(Symbol kind) { return kind.nameSpace() == "any"; }
// match::call is a call of a method or function, match::module an attribute that is a module: by their names.
inline const Symbol kMatchCall = Symbol::of("match::call"), kMatchModule = Symbol::of("match::module");
inline bool isNamed(Symbol kind) { return kind == kMatchCall || kind == kMatchModule; }

// The seeds of a rewrite that looks for nodes of all these kinds together: the rarest of them in the graph. Not if
// matches are found from their root alone.
std::function<std::optional<std::vector<Symbol>>(const KindTable&)> rarestOf(std::vector<Symbol> kinds, bool fromAny);

}  // namespace tscompile
