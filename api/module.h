// Models: a text and its weights, ready to be run.
#pragma once

#include "ir/graph/module.h"
#include "ir/operators/op_registry.h"
#include "ir/support/diagnostics.h"
#include "ir/support/limits.h"
#include "ir/support/result.h"
#include "ir/values/ivalue.h"
#include "runtime/call/run_state.h"
#include "runtime/interpreter/program.h"

#include <initializer_list>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace tscompile {

class Extensions;

struct LoadOptions {
  // Files of weights (docs/files.md). Of a text, tensors are found by attribute path ("layer1.0.conv1.weight") for
  // prim::GetAttr chains from %self, and by value name for constants whose text does not carry their data. Into a model
  // file they are loaded, as load_state_dict() does. Two files with one name are an error.
  std::vector<std::string> weights = {};
  Limits limits = {};
  // Operators and converters of your own, which the module keeps alive. See api/extensions.h.
  std::shared_ptr<const Extensions> extensions = nullptr;
  // All operators there are, if there are no extensions; null: those that are built in. Must outlive the module.
  const OpRegistry* registry = nullptr;
  // Weights that are in memory, beside those in files.
  std::vector<std::pair<std::string, Tensor>> tensors = {};
  // What engines call their source, whose path lasts no longer than loading; empty: the name of the file.
  std::string name = {};

  bool hasWeights() const { return !weights.empty() || !tensors.empty(); }
};

class CallInputs;
class SegmentCalls;
struct CompileSpec;
struct EngineInfo;
struct LowerOptions;
struct RefitSource;

// An input or output of a method.
struct ValueInfo {
  std::string name;  // without "%"
  TypePtr type = nullptr;
};

// A method that was prepared to run. Immutable: any number of threads may run it at once, each run seeing the module as
// it was loaded, unless RunOptions::state tells what earlier runs have written (runtime/call/run_state.h).
class Method {
 public:
  // What run() takes, in order. The module itself (%self) is not counted.
  const std::vector<ValueInfo>& inputs() const;
  std::vector<ValueInfo> outputs() const;
  // Has the operators of its module.
  const OpRegistry& registry() const;

  // Runs it. `inputs` are values for inputs(), of their types; the last ones may be left out where Module::defaults()
  // has them or their type allows None, and integers stand for floats. They are borrowed: tensors over memory of the
  // caller (Tensor::borrow) are read where they lie, and a graph that writes to an input writes there. The results are
  // those that the graph returns, in order; a returned tuple is one value. They may share memory with inputs or
  // weights. On failure a diagnostic tells the node. Its kind is Input for inputs that are missing, too many or of
  // other types; Model where the model fails, and for tensors of another dtype, rank or size than it was compiled or
  // exported for; or Unsupported, Limit or Interrupted.
  Result<std::vector<IValue>> run(std::span<const IValue> inputs, Diagnostics& diagnostics,
                                  const RunOptions& options = {}) const;
  Result<std::vector<IValue>> run(std::initializer_list<IValue> inputs, Diagnostics& diagnostics,
                                  const RunOptions& options = {}) const {
    return run(std::span(inputs.begin(), inputs.size()), diagnostics, options);
  }

 private:
  friend class Module;

  std::shared_ptr<const struct ModuleState> state_;
  std::shared_ptr<const Program> program_;
  std::shared_ptr<const CallInputs> call_;
};

struct ModuleValues {
  std::map<std::string, Tensor> tensors;          // by attribute path or name of the value
  std::set<std::string> constants;                // of these, the ones that are named by values
  std::map<std::string, std::string> attributes;  // texts of those that are no tensors, by path
};

// A loaded text with its weights. Copies share it; methods that were prepared keep it alive. Not for several threads at
// once.
class Module {
 public:
  // Reads `path` (graph text, a module dump; or with weights inside: a TorchScript archive, a file of
  // torch.export.save, an engine file, which takes no others) and the weights. Reports
  // everything that is wrong with them (kinds Input, Io, Limit, and Incompatible for engine files).
  static Result<Module> load(const std::string& path, const LoadOptions& options, Diagnostics& diagnostics);
  // The same from a text in memory; `name` stands for the path in messages.
  static Result<Module> fromText(std::string text, const std::string& name, const LoadOptions& options,
                                 Diagnostics& diagnostics);
  static Result<Module> fromSource(SourcePtr source, const LoadOptions& options, Diagnostics& diagnostics);

  // The model that an engine file was made from.
  static Result<Module> fromRefitSource(const RefitSource& source, const LoadOptions& options,
                                        Diagnostics& diagnostics);

  // Names of the methods: those of the dump's outermost module, or "forward" for plain graph text.
  std::vector<std::string> methods() const;
  // What inputs of a method of an archive are where a caller in Python leaves them out, by name; empty for texts, which
  // do not say it.
  std::map<std::string, IValue> defaults(const std::string& method = "forward") const;
  // The graph of a method; null if there is none of this name. It lives as long as the module, as does the text.
  const Graph* graph(std::string_view method = "forward") const;
  // What an exported program asks of the inputs of a graph of this module; empty for others.
  const struct ExportedInputs& exportedInputs(const Graph& graph) const;
  const ParsedText& text() const;
  const OpRegistry& registry() const;

  // Verifies and compiles a method for the interpreter. Reports operators that are missing, calls of what the text does
  // not hold, and tensors whose data is needed but was not supplied.
  Result<Method> prepare(Diagnostics& diagnostics, std::string_view method = "forward") const;
  // Prepares at the first call, and runs.
  Result<std::vector<IValue>> forward(std::span<const IValue> inputs, Diagnostics& diagnostics,
                                      const RunOptions& options = {}) const;
  Result<std::vector<IValue>> forward(std::initializer_list<IValue> inputs, Diagnostics& diagnostics,
                                      const RunOptions& options = {}) const {
    return forward(std::span(inputs.begin(), inputs.size()), diagnostics, options);
  }

  // One method as a module of its own: a graph without calls, whose attributes are constants as far as they are known
  // and never written. Its only method is "forward". Weights may be missing: what they hold stays an attribute. See
  // api/lower.h.
  Result<Module> lowered(const LowerOptions& options, Diagnostics& diagnostics) const;
  // One method with its segments as engines: a module that runs as this one does, faster. Its only method is "forward".
  // What no engine can take stays as it is. See api/compile.h.
  Result<Module> compiled(const CompileSpec& spec, Diagnostics& diagnostics) const;
  // The same with all of the method in one engine. Fails with a report of each node that is in the way (Unsupported).
  Result<Module> convertToEngine(const CompileSpec& spec, Diagnostics& diagnostics) const;
  // Writes a compiled module, which must be able to run, to an engine file, which load() reads. See api/engine_file.h.
  bool save(const std::string& path, Diagnostics& diagnostics, const Limits& limits = {}) const;
  // How a compiled module was made, loaded ones included; null for others.
  const EngineInfo* engineInfo() const;
  // The checksum of what a compiled module was made of; empty if it is not known.
  std::string sourceHash() const;
  // What its file has for api/refit.h; null if it is nothing.
  const RefitSource* refitSource() const;
  // A module with this graph as its only method, "forward", which has the weights and calls of this one. What an
  // exported program asks of the sizes of inputs holds for it as well, unless its own are `otherInputs`.
  Module withGraph(std::unique_ptr<Graph> graph, bool otherInputs = false) const;
  // Writes a lowered module to `path`, and what its text cannot say to a safetensors file beside it: OUT.ir,
  // OUT.safetensors. Loaded together they are the same module. See api/lower.h.
  bool write(const std::string& path, Diagnostics& diagnostics, const Limits& limits = {}) const;

  // What write() would put there: what a lowered module reads.
  Result<ModuleValues> values(Diagnostics& diagnostics) const;

  // Tensors of the weights files that no prepared method has used.
  std::vector<std::string> unusedWeights() const;

 private:
  friend class EngineVerifier;
  static Result<Module> parsed(SourcePtr source, std::shared_ptr<struct ModuleState> state, const LoadOptions& options,
                               Diagnostics& diagnostics);
  static Result<Module> loadArchive(const std::string& path, const LoadOptions& options, Diagnostics& diagnostics);
  static Result<Module> loadEngine(const std::string& path, const LoadOptions& options, Diagnostics& diagnostics);
  static Result<Module> loadExport(const std::string& path, const LoadOptions& options, Diagnostics& diagnostics);
  // The same as graph(); reports a method that is not there.
  const Graph* findGraph(std::string_view method, Diagnostics& diagnostics) const;
  Result<Method> prepare(Diagnostics& diagnostics, std::string_view method, SegmentCalls* calls) const;

  std::shared_ptr<struct ModuleState> state_;
};

}  // namespace tscompile
