// One configured plugin: what a node computes with. Instances keep their creator, and so its library, and may be used
// by many threads at once: each run has a context of its own, which is a clone.
#pragma once

#include "runtime/call/function_ref.h"
#include "runtime/call/kernel_call.h"
#include "runtime/plugin/fields.h"
#include "runtime/plugin/plugin_composite.h"
#include "runtime/plugin/plugin_host.h"

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace tscompile {

// A tensor argument or result of a plugin: undefined if it is absent.
using PluginTensors = std::vector<Tensor>;

class PluginInstance {
 public:
  // Null after setting `problem`. `fields`: all of the table, checked (fieldsOf). `operators`: that decompositions may
  // consist of; must outlive the instance.
  static std::shared_ptr<PluginInstance> create(PluginCreatorPtr creator, std::vector<tsc::Field> fields,
                                                const OpRegistry& operators, uint32_t phase, std::string_view label,
                                                OperatorProblem& problem);
  ~PluginInstance();
  PluginInstance(const PluginInstance&) = delete;

  const PluginCreator& creator() const { return *creator_; }
  const std::vector<tsc::Field>& fields() const { return fields_; }
  size_t outputs() const { return aliases_.size(); }
  // The input that an output may be written over, or -1.
  int alias(size_t output) const { return aliases_[output]; }
  // Whether its first size is a bound, and run() tells it.
  bool mayHaveFewerRows(size_t output) const { return creator_->outputs()[output].flags & TSC_PORT_FEWER_ROWS; }
  bool isDeterministic() const { return creator_->table().flags & TSC_DETERMINISTIC; }

  // What is known of an input: dtype TSC_NONE if it is absent.
  struct Input {
    int32_t dtype = TSC_NONE;
    Dims sizes = {};                     // may hold unknown sizes
    std::vector<int64_t> elements = {};  // of inputs that shapes depend on
    bool elementsKnown = false;
  };
  // Checks the inputs against the table and computes dtypes and sizes of the outputs; those that are not known are
  // unknown sizes. Throws ExecutionError.
  std::vector<TensorSpec> infer(std::span<const Input> inputs) const;

  // Tells the sizes that it is built for: sizes of its inputs, some of which may not be known. Throws ExecutionError.
  void configure(std::span<const Input> least, std::span<const Input> usual, std::span<const Input> most) const;
  // Its ways to compute, for the sizes that it was configured for last.
  std::vector<int32_t> tactics() const;
  // The name under which times of tactics may be kept; empty: they may not.
  std::string timingId() const;

  // The outputs of a run on these inputs. One that may be written over an input is that input, with `inPlace`; else the
  // input is copied into it, and becomes it. All others are what `make(output)` gives.
  PluginTensors outputsFor(PluginTensors& inputs, bool inPlace, FunctionRef<Tensor(size_t)> make) const;
  // Runs on tensors that fit what infer() said: contiguous, outputs allocated. Throws ExecutionError. `rows`: of each
  // output, how many the plugin said it has, or -1. `tactic`: one of tactics(); 0: the first.
  void run(const PluginTensors& inputs, const PluginTensors& outputs, RunContext* context, int threads,
           std::vector<int64_t>* rows = nullptr, int32_t tactic = 0) const;

  // The fields as the plugin gives them for an engine file. Throws ExecutionError.
  std::vector<tsc::Field> saved() const;
  // Graph text of the same function for such inputs; empty if it has none.
  std::string decomposition(std::span<const Input> inputs) const;

  // Checks around every run: undeclared writes, results that are not written, use past the end of memory, results that
  // differ from run to run. For all instances of the process; slow.
  // Returns what it was before.
  static bool verifyRuns(bool yes);

 private:
  friend class PluginVerifier;
  // A clone that one run at a time uses.
  struct Context {
    void* self = nullptr;
    bool initialized = false;    // it was made by create(), and so is to be terminated
    std::vector<int64_t> sizes;  // that it was configured for: dtypes, ranks and sizes of all tensors
    size_t workspaceBytes = 0;
    Ref<Storage> workspace;
    int32_t tactic = 0;  // the first
    bool fresh = true;
    std::shared_ptr<const PluginComposite> composite;  // of plugins without run()
  };
  PluginInstance(PluginCreatorPtr creator, std::vector<tsc::Field> fields, const OpRegistry& operators)
      : creator_(std::move(creator)), fields_(std::move(fields)), operators_(operators) {}
  std::unique_ptr<Context> takeContext() const;
  void giveBack(std::unique_ptr<Context> context) const;
  void prepare(Context& context, const PluginTensors& inputs, const PluginTensors& outputs, RunContext* run) const;
  void destroy(Context& context) const;
  void call(Context& context, const PluginTensors& inputs, const PluginTensors& outputs, PluginRun& run) const;
  std::shared_ptr<const PluginComposite> compositeFor(const PluginTensors& inputs) const;
  void initializeOnce() const;
  [[noreturn]] void fail(tsc_status status, const std::string& problem) const;

  const PluginCreatorPtr creator_;
  const std::vector<tsc::Field> fields_;
  const OpRegistry& operators_;
  void* self_ = nullptr;
  std::vector<int> aliases_;  // by output
  mutable std::mutex mutex_;  // of all calls on self_, and of what is below
  mutable bool initialized_ = false;
  mutable std::vector<std::unique_ptr<Context>> free_;
  mutable std::map<std::string, std::shared_ptr<const PluginComposite>> composites_;  // by text
};

}  // namespace tscompile
