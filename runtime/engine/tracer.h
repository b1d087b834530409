// From the graph of a segment to a network: the graph is run once on symbolic tensors, which have sizes but no
// elements. What can be computed then (sizes, numbers, lists, weights) is; the rest becomes layers.
#pragma once

#include "ir/analysis/alias.h"
#include "ir/graph/graph.h"
#include "ir/graph/side_table.h"
#include "ir/operators/op_registry.h"
#include "runtime/engine/network/convert_call.h"
#include "runtime/interpreter/machine.h"
#include "runtime/interpreter/program.h"
#include "runtime/interpreter/structure_runner.h"

#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

namespace tscompile {

// What all tracings of one graph share. Immutable.
class TracedGraph {
 public:
  // Nothing, and the reason with its node, if some node can be in no engine.
  // keepStrides: results of networks lie as the interpreter's would, for strideAsker.
  static std::optional<TracedGraph> make(const Graph& graph, const OpRegistry& registry, const ProgramSources& sources,
                                         std::optional<Refusal>& refusal, bool keepStrides = false,
                                         const std::string& strideAsker = {});

  // The network for inputs like these; only dtypes, sizes and strides of tensors are looked at. Throws Refusal, or
  // ExecutionError where the run would fail too. `native`: converters are asked for layers; else kernels do it all.
  std::unique_ptr<Network> trace(std::span<const IValue> inputs, RunContext& context, bool native) const;
  const Graph& graph() const { return *graph_; }
  // Whether an input of the graph is a number that plans do not depend on.
  bool isNumberOfRun(size_t input) const { return numbers_[input]; }

 private:
  friend class Tracer;
  friend class TracedGraphMaker;
  struct Body;
  struct Step {
    const Node* node = nullptr;
    const Operator* op = nullptr;  // null: a structure node or a constant
    IValue constant;
    std::vector<uint32_t> inputs, outputs;  // slots
    bool isConstant = false;
    bool isFixed = false;      // made of constants alone
    bool isWritten = false;    // some node may write what an output refers to
    std::vector<Body> bodies;  // of control flow: the sizes say which of them run, and how often
    Verdict obstacle;          // inside of such: why no network can have it, if it is run
  };
  struct Body {
    std::vector<Step> steps;
    std::vector<uint32_t> parameters, results;  // slots
  };
  const Graph* graph_ = nullptr;
  const OpRegistry* registry_ = nullptr;
  Body body_;
  uint32_t slotCount_ = 0;
  bool hasWrites_ = false;
  bool asksForStrides_ = false;  // some operator asks how its arguments lie
  bool keepStrides_ = false;
  std::string strideAsker_;
  std::vector<bool> numbers_;  // by input
  std::shared_ptr<const StructureRunner> structures_;
  // Tensors and packed weights that nodes make of constants, by slot: the first tracing makes them, so that all plans
  // find the same ones in the store.
  struct Fixed {
    std::mutex mutex;
    std::unordered_map<uint32_t, IValue> values;  // None: nobody asks for it any more
    bool isThinned = false;
  };
  std::shared_ptr<Fixed> fixed_ = std::make_shared<Fixed>();
};

}  // namespace tscompile
