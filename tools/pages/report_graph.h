// The rows of a report: the nodes of a graph as it is cut, in the order in which they run, each with where it runs and
// why.
#pragma once

#include "partition/partition.h"

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace tscompile {

class RunProfile;

struct ReportRow {
  enum class Kind : uint8_t { Input, Node, Result } kind = Kind::Node;
  const Node* node = nullptr;          // of the stitched graph or of an engine's; null for inputs and the result
  const Value* value = nullptr;        // of Input
  const Decision* decision = nullptr;  // null: not known
  const Node* cause = nullptr;         // the node of the cut graph because of which it is not in an engine
  uint32_t segment = 0, depth = 0;
  std::vector<uint32_t> inputs;  // rows that make what it takes, each once
  std::string module;
  bool isGuessed = false;               // the module: from those of its neighbours
  double us = 0, flops = 0, bytes = 0;  // of one run
  double calls = 0;
  std::string layer;  // what computes it; empty: part of another one, or nothing is known
};

struct ReportSegment {
  bool isEngine = false;
  size_t nodes = 0;
  double us = 0;
  const Segment* source = nullptr;  // null: not known
};

class ReportGraph {
 public:
  // `stitched` is what came of `partition`, which may be null (engine files). Both must outlive this.
  ReportGraph(const Graph& stitched, const Partition* partition);
  // Times of layers and nodes; what belongs to no row is left out.
  void addTimes(const RunProfile& profile);

  std::vector<ReportRow> rows;
  std::vector<ReportSegment> segments;

  // The row of a node of the graph that was cut.
  std::optional<uint32_t> rowOf(const Node* source) const;

 private:
  void matchNodes(const Graph& stitched);
  void addRows(const Graph& graph, uint32_t segment, uint32_t depth, bool inEngine);
  void addInputs(const Graph& graph);
  void addResult(const Graph& graph);
  void nameModules();
  uint32_t interpreterSegment(const Node* node);
  void take(const Value* value, std::vector<uint32_t>& into) const;

  const Partition* partition_;
  std::unordered_map<const Node*, const Node*> sources_;     // of nodes in both kinds of graphs
  std::unordered_map<const Node*, const Segment*> engines_;  // of nodes tscompile::Engine
  std::unordered_map<const Node*, uint32_t> rowOfNode_, rowOfSource_;
  std::unordered_map<const Value*, uint32_t> makers_;
  bool afterEngine_ = true;
};

}  // namespace tscompile
