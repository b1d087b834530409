// A graph as it is written to files: its text, and beside it the tensors that text cannot hold.
#pragma once

#include "frontend/files/weights.h"
#include "ir/graph/graph.h"
#include "ir/values/bounded_text.h"
#include "ir/values/ivalue.h"

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tscompile {

// What an engine file says of weights that were numbers in the code of an archive, "constant:NAME".
inline constexpr std::string_view kConstantOf = "constant:";

struct GraphParts {
  std::unique_ptr<Graph> graph;
  std::vector<std::pair<std::string, Tensor>> tensors;  // the names differ
  std::set<std::string> constants;                      // names of those that are no attributes
  Metadata metadata;                                    // attributes that are no tensors, as "attribute:PATH"
};

// Constants go by the names of their values, in subgraphs as well; lists of tensors as NAME.0, NAME.1 and so on;
// attributes that the graph still reads by their path below `self` (the object behind its first input; may be null).
// Values of the copy are renamed where their tensors would be taken for others. What attributes share they share in
// files (frontend/files/shared_parts.h), unless each is to have all that is its own. Nothing after a report.
std::optional<GraphParts> separateTensors(const Graph& graph, const ObjectValue* self, Diagnostics& diagnostics,
                                          bool keepsSharing = true);

// Prints the graph in pieces to `sink`; reports a text that is longer than may be printed.
bool printParts(const GraphParts& parts, bool locations, const Limits& limits, const TextSink& sink,
                Diagnostics& diagnostics);

// Whether a text and weights that say that they were written together were written by one command. Either may say
// nothing. False after a report.
bool checkPair(const SourceFile& text, const Metadata& weights, Diagnostics& diagnostics);

}  // namespace tscompile
