// Compiling: a method of a module is lowered, cut into segments, and its segments become engines.
#pragma once

#include "api/partition.h"
#include "runtime/engine/network/engine_options.h"

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tscompile {

// What an input of a method will be: {{1, 3, 224, 224}}, or from least to most sizes with those that are usual between.
struct CompileInput {
  CompileInput(Dims sizes, DType dtype = DType::Float32) : CompileInput(sizes, sizes, sizes, dtype) {}  // NOLINT
  CompileInput(Dims least, Dims usual, Dims most, DType dtype = DType::Float32)
      : least(std::move(least)), usual(std::move(usual)), most(std::move(most)), dtype(dtype) {}

  Dims least, usual, most;
  DType dtype;
};

// All of it: `engine` has what is said of engines alone. api/compile_settings.h lists what command lines and files
// know.
struct CompileSpec : PartitionSpec {
  CompileSpec() = default;
  CompileSpec(const std::vector<CompileInput>& inputs) { setInputs(inputs); }  // NOLINT: a spec may be its inputs

  // For each input that is a tensor, in order; or none, and engines adapt to what comes. A run refuses tensors that are
  // outside of their range (kind Model).
  void setInputs(const std::vector<CompileInput>& inputs);

  // The same of one more input, as command lines have it: "image=1..8x3x224x224:f32", or "1x3x224x224" for the next
  // tensor; of sizes that inputs share "x=Nx3", "y=Nx4" and "N=1..8". False after reporting what is wrong with the
  // text.
  bool addInput(std::string_view text, Diagnostics& diagnostics);
  // Makes a constant of an input: None for a tensor that is never given, a number that never changes. The name is that
  // of the source, or its position; compiling reports names that there are not, and values of other types.
  void bind(const std::string& name, IValue value);

  bool refittable = false;  // the file keeps what api/refit.h needs to replace weights
  EngineOptions engine;
  // Of api/language_model.h, which makes the graph before: whoever replaces weights has to start there.
  bool isLanguageModel = false;
  // Told of the graph that is cut, and of how it is; may be asked for reports.
  std::function<void(const Prepared&, const Partition&)> onPartition = nullptr;
};

// The settings of partitioning as they are for a method or graph with these inputs: all ranges have the names of
// tensors among them (null: there is no graph, which is for others to report). Nothing after reporting what no engine
// can do, or what is wrong with the ranges.
Result<PartitionSpec> partitionSpecOf(const CompileSpec& spec, const Graph* entry, Diagnostics& diagnostics);

// A method as it is compiled: cut, with all segments that are said to be engines really being ones.
struct CompiledPartition {
  Prepared prepared;
  Partition partition;
};
Result<CompiledPartition> partitionForCompile(const Module& module, const CompileSpec& spec, Diagnostics& diagnostics);

// The same as module.compiled(spec, diagnostics).
Result<Module> compile(const Module& module, const CompileSpec& spec, Diagnostics& diagnostics);

// How a method of a module, or a graph as it is, would be cut. Segments have their target, nodes, inputs and outputs,
// whose types have the sizes that are known; `partition.decisions` has the reason of each node.
Result<CompiledPartition> partition(const Module& module, const CompileSpec& spec, Diagnostics& diagnostics);
Result<CompiledPartition> partition(const Graph& graph, const CompileSpec& spec, Diagnostics& diagnostics);

// A node that no engine can take, and why.
struct UnsupportedNode {
  std::string op;      // "aten::nonzero", with the overload if it is known
  std::string schema;  // empty if it is not known
  std::string text;    // the node
  SourceRange place;   // in the text of the module
  Verdict verdict;
};
// Those of a method, lowered, blocks inside included; none: it can run in engines from end to end.
Result<std::vector<UnsupportedNode>> checkMethodOperatorSupport(const Module& module, const std::string& method,
                                                                Diagnostics& diagnostics);

}  // namespace tscompile
