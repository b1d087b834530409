// How long nodes are estimated to take, in an engine and elsewhere: the same numbers on every machine.
#pragma once

#include "partition/partition.h"

namespace tscompile {

// Operations and bytes of a node, from sizes that are known; unknown sizes give Work::known = false.
Work workOf(const Node* node, const ShapePropagation& shapes);

// In seconds. Nodes whose sizes are not known take as long as a node on small tensors.
double secondsOf(const Node* node, const Work& work, Target target);
// Of entering an engine once, without what crosses its border.
inline constexpr double kEngineEntrySeconds = 2e-6;
// Of bytes that cross a border and would otherwise stay inside.
double crossingSeconds(double bytes);
// Of one value; a guess if its sizes are not known.
double bytesOf(const Value* value, const ShapePropagation* shapes);

// Fills in the estimates of the segments and of the whole.
void estimate(Partition& partition, const PartitionOptions& options);

}  // namespace tscompile
