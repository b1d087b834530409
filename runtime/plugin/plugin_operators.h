// Nodes of plugins as operators: the attributes of a node make an instance, which infers and computes in the
// interpreter and in engines as any operator does.
#pragma once

#include "ir/operators/op_registry.h"
#include "runtime/call/session_functions.h"
#include "runtime/plugin/plugin_instance.h"

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

namespace tscompile {

class PluginOperators : public ConfiguredOperators {
 public:
  // `registry` (of plugins) and `operators`, whose reader of schemas is used, must outlive it.
  PluginOperators(const PluginRegistry& registry, const OpRegistry& operators)
      : registry_(registry), operators_(operators) {
    registry_.addKeeper(this, [this] { forgetUnused(); });
  }
  ~PluginOperators() override { registry_.removeKeeper(this); }
  PluginOperators(const PluginOperators&) = delete;

  bool owns(Symbol kind) const override {
    std::string_view ns = kind.nameSpace();
    return ns != "prim" && ns != "aten" && registry_.hasKind(ns, kind.name());
  }
  const Operator* resolve(const Node& node, OperatorProblem* problem) const override;
  std::vector<Symbol> kinds() const override;

  const PluginRegistry& plugins() const { return registry_; }
  // The instance of a node of a plugin; null if resolve() finds nothing.
  std::shared_ptr<const PluginInstance> instanceOf(const Node& node, OperatorProblem* problem) const;
  // Which of the plugin's inputs each input of a node is; -1 in the plugin's order where there is none. A problem's
  // text in `problem` for names that are not in the table, and for too many.
  static std::vector<int> inputsOf(const Node& node, const PluginCreator& creator, std::string& problem);

 private:
  // A configured plugin with its operator.
  struct Bound {
    std::shared_ptr<PluginInstance> instance;
    std::vector<int> inputs;  // by input of the plugin: which argument it is, or -1
    std::string schema;
    bool inPlace = false;
    OpDef def;
    SessionFunctions functions;
    std::unique_ptr<Operator> op;

    std::vector<PluginInstance::Input> describe(const InferCall& call) const;
    std::vector<PluginInstance::Input> described(const PluginTensors& given) const;
    void infer(InferCall& call) const;
    void run(KernelCall& call) const;
  };
  const Bound* bind(const Node& node, OperatorProblem* problem) const;
  std::shared_ptr<Bound> make(const Node& node, OperatorProblem& problem) const;
  // Lets go of what no program uses.
  void forgetUnused() const;

  const PluginRegistry& registry_;
  const OpRegistry& operators_;
  mutable std::mutex mutex_;
  mutable std::unordered_map<std::string, std::shared_ptr<Bound>> bound_;  // programs hold those that they use
};

}  // namespace tscompile
