// The ways to cut one block whose nodes have their targets.
#pragma once

#include "partition/dependencies.h"

namespace tscompile {

// Nodes of a block, by number, that run one after the other on one target.
struct Run {
  Target target = Target::Fallback;
  std::vector<uint32_t> items;  // ascending
  bool doNotMerge = false;
};

std::vector<Run> greedyRuns(const BlockGraph& block);
std::vector<Run> dependencyRuns(const BlockGraph& block);
// As few as there can be. Control flow may join other nodes here.
std::vector<Run> minimalRuns(const BlockGraph& block);
std::vector<Run> runsOf(const BlockGraph& block, Strategy strategy);

// Joins neighbours of one target that may be joined.
std::vector<Run> merged(std::vector<Run> runs);

// Engines that would be too small when the block is walked in text order: a node that runs elsewhere and depends on one
// of the engine under way ends it. Returns those with fewer nodes than `least`.
std::vector<std::vector<uint32_t>> smallRuns(const BlockGraph& block, size_t least);

}  // namespace tscompile
