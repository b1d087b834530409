// What graphs and module dumps hold, in figures and names.
#pragma once

#include "ir/graph/module.h"
#include "ir/support/json_fields.h"

#include <optional>
#include <string>
#include <vector>

namespace tscompile {

struct GraphSummary {
  struct Named {
    std::string name, type;

    template <class Visit>
    void fields(Visit&& visit) const {
      visit("name", name);
      visit("type", type);
    }
  };
  struct Counted {
    std::string name;
    size_t count = 0;
  };
  std::optional<std::string> name;  // of one among several that have names
  std::vector<Named> inputs, outputs;
  std::vector<Counted> operators;  // the most frequent first
  std::vector<Named> attributes;   // paths that chains of prim::GetAttr read: what weights have to supply
  std::vector<Named> missing;      // constants whose data the text does not hold
  size_t nodes = 0, constants = 0, depth = 0, subgraphs = 0;

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("name", name);
    visit("nodes", nodes);
    visit("constants", constants);
    visit("depth", depth);
    visit("subgraphs", subgraphs);
    visit("inputs", inputs);
    visit("outputs", outputs);
    visit("operators", Members{operators});
    visit("attributes", attributes);
    visit("missing", missing);
  }
};

GraphSummary summarize(const Graph& graph);

void writeSummary(const GraphSummary& summary, const std::string& margin, std::string& out);

}  // namespace tscompile
