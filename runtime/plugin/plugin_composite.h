// A plugin without a kernel of its own: its decomposition, run by the interpreter.
#pragma once

#include "ir/graph/graph.h"
#include "runtime/interpreter/program.h"
#include "runtime/plugin/plugin_host.h"

#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace tscompile {

// Why a graph cannot stand for a plugin; "" if it can. `operators`: that it may consist of.
std::string problemOfDecomposition(const Graph& graph, const OpRegistry& operators);

class PluginComposite {
 public:
  // Null after setting `problem`. `text`: what decompose() gave. `operators`: that it may consist of.
  static std::shared_ptr<const PluginComposite> make(std::string_view text, const OpRegistry& operators,
                                                     std::string& problem);

  // `inputs`: the present ones. Writes the outputs; fewer rows than an output has go to run.rows. Throws
  // ExecutionError. Several runs may go on at once.
  void run(std::span<const Tensor> inputs, std::span<const Tensor> outputs, PluginRun& run) const;

 private:
  PluginComposite() = default;
  std::unique_ptr<Graph> graph_;
  std::shared_ptr<const Program> program_;
};

}  // namespace tscompile
