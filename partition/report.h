// What partitioning tells people and programs.
#pragma once

#include "ir/graph/node_text.h"
#include "ir/graph/printer.h"
#include "ir/values/bounded_text.h"
#include "partition/partition.h"

#include <functional>
#include <ostream>
#include <string>

namespace tscompile {

// "Segment Block @0:", the target and the graph of each segment, an empty line between them. False if the text would
// be longer than options.maxBytes.
bool printSegments(const Partition& partition, const TextSink& sink, const PrintOptions& options = {});

// Partitions the same graph again, for "what if".
using Repartition = std::function<Partition(PartitionOptions)>;
// A table of the segments, why nodes are not in engines, and what would come of it if they could be (if `again` is
// given).
std::string explainSegments(const Graph& graph, const Partition& partition, const Repartition& again = nullptr);
// Where one node runs, why, by which chain of causes, what of it crosses a border, what would change it, and what else
// there is once that is changed (if `again` is given). `kernel`: why its engine calls a kernel for it; may be empty.
std::string explainNode(const Node* node, const Partition& partition, const Repartition& again = nullptr,
                        std::string_view kernel = {});

// As "tscompile.partition/1": nodes and segments.
void writePartitionJson(const Graph& graph, const OpRegistry& registry, const Partition& partition, std::ostream& out);
// Some nodes in the same form, as "tscompile.explain/1"; `inputs`: names that were asked for and no node makes.
void writeNodesJson(const Graph& graph, const OpRegistry& registry, const Partition& partition,
                    const std::unordered_set<const Node*>& nodes, const std::vector<std::string>& inputs,
                    std::ostream& out);
// A graph for Graphviz, segments as clusters.
void writePartitionDot(const Graph& graph, const Partition& partition, std::ostream& out);

// Part of all nodes that run in engines, from 0 to 1.
double coverage(const Partition& partition);

}  // namespace tscompile
