// What may run instead of interpreting a subgraph: an engine, which stands above the interpreter.
#pragma once

#include "ir/graph/graph.h"
#include "runtime/call/run_context.h"

#include <functional>
#include <memory>
#include <span>

namespace tscompile {

class OpRegistry;
struct ProgramSources;

// Immutable: any number of threads may run it at once.
class CompiledSegment {
 public:
  virtual ~CompiledSegment() = default;
  virtual const Graph& graph() const = 0;
  // False if it cannot compute these inputs; nothing was written then, and the graph is to be interpreted. Throws
  // ExecutionError if the run is interrupted, or fails after writing to memory of others.
  virtual bool run(std::span<const IValue> inputs, std::span<IValue> outputs, RunContext& context) const = 0;
};

// Makes one from the subgraph of a tscompile::Engine node; null if that cannot be.
using SegmentCompiler = std::function<std::shared_ptr<const CompiledSegment>(
    const Graph& graph, const OpRegistry& registry, const ProgramSources& sources)>;

// Takes the calls of compiled segments into its own hands.
class SegmentCalls {
 public:
  virtual ~SegmentCalls() = default;
  // Computes the outputs of a tscompile::Engine node. Throws ExecutionError.
  virtual void call(const Node& node, const CompiledSegment& segment, std::span<const IValue> inputs,
                    std::span<IValue> outputs, RunContext& context) = 0;
};

}  // namespace tscompile
