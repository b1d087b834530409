// An engine: a segment of a graph compiled for the sizes that it meets.
#pragma once

#include "ir/graph/graph.h"
#include "ir/operators/op_registry.h"
#include "ir/support/diagnostics.h"
#include "runtime/engine/network/engine_options.h"
#include "runtime/engine/network/refusal.h"
#include "runtime/engine/network/weight_store.h"
#include "runtime/engine/plan.h"
#include "runtime/interpreter/program.h"

#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace tscompile {

class TracedGraph;

// Made once from a graph; then immutable: any number of threads may run it at once. For each combination of dtypes,
// sizes and strides of its inputs it makes a plan at the first run and keeps the latest of them, as many as are small.
class Engine : public CompiledSegment {
 public:
  // The graph must outlive the engine. Nothing, and why, if a node of it can be in no engine.
  static std::shared_ptr<Engine> make(const Graph& graph, const OpRegistry& registry, const ProgramSources& sources,
                                      const EngineOptions& options, std::optional<Refusal>& refusal);
  ~Engine() override;

  // The plan for inputs like these, made if it is not there yet. Null if these inputs cannot be planned for: the graph
  // is to be interpreted then, which computes the result or tells the error. `refusal` then has the reason, if it is
  // one.
  std::shared_ptr<const EnginePlan> planFor(std::span<const IValue> inputs, RunContext& context,
                                            std::optional<Refusal>* refusal = nullptr) const;
  // False also if the inputs cannot be planned for, or a layer fails for them.
  bool run(std::span<const IValue> inputs, std::span<IValue> outputs, RunContext& context) const override;

  const Graph& graph() const override;

 private:
  Engine() = default;
  // What a plan depends on, as numbers.
  using Signature = std::vector<int64_t>;
  // Of all inputs. False if they cannot be planned for.
  bool sign(std::span<const IValue> inputs, Signature& into, std::vector<Tensor>& tensors) const;
  static bool sign(const IValue& value, Signature& into, std::vector<Tensor>& tensors, int depth = 0);

  std::unique_ptr<const TracedGraph> traced_;
  EngineOptions options_;
  mutable WeightStore store_;
  std::shared_ptr<ArenaPool> arenas_ = std::make_shared<ArenaPool>();
  struct Entry {
    Signature signature;
    std::shared_ptr<const EnginePlan> plan;  // null: refused
    std::optional<Refusal> refusal;
    size_t bytes() const { return plan ? plan->bytes() : 0; }
  };
  std::shared_ptr<const EnginePlan> find(const Signature& signature, std::span<const IValue> inputs,
                                         RunContext& context, std::optional<Refusal>* refusal) const;
  void forgetOldest() const;
  bool compute(std::span<const IValue> inputs, std::span<IValue> outputs, RunContext& context,
               std::optional<Refusal>& refusal) const;
  mutable std::mutex mutex_;
  using Plans = std::list<std::shared_ptr<Entry>>;
  struct SignatureHash {
    size_t operator()(const Signature& signature) const;
  };
  mutable Plans plans_;           // the latest first
  mutable size_t planBytes_ = 0;  // of all of them
  mutable std::unordered_map<Signature, Plans::iterator, SignatureHash> places_;
};

// Engines with these options, for ProgramSources.
SegmentCompiler engineCompiler(EngineOptions options = {});

}  // namespace tscompile
