#include "runtime/plugin/plugin_composite.h"

#include "frontend/text/parse.h"
#include "ir/operators/nearest_overload.h"
#include "ir/support/text.h"
#include "ir/values/error.h"
#include "runtime/call/run_context.h"
#include "runtime/reference/loops/copy.h"

#include <fmt/core.h>

#include <algorithm>

namespace tscompile {
namespace {

const Diagnostic* firstError(const Diagnostics& diagnostics) {
  for (const Diagnostic& d : diagnostics.list())
    if (d.severity == Severity::Error) return &d;
  return nullptr;
}

[[noreturn]] void fail(ErrorKind kind, const std::string& why) {
  throw ExecutionError(kind, "its decomposition fails: " + why);
}

// Takes a result into the memory of an output; returns how many rows it has if they are fewer, else -1.
int64_t take(const Tensor& output, const IValue& result) {
  if (!result.isTensor() || !result.toTensor().defined()) fail(ErrorKind::Model, "a result is no tensor");
  Tensor given = result.toTensor();
  bool fits = given.dtype() == output.dtype() && given.rank() == output.rank(), fewer = false;
  for (int d = 0; fits && d < given.rank(); ++d) {
    bool less = d == 0 && given.size(0) < output.size(0);
    fewer |= less;
    fits = less || given.size(d) == output.size(d);
  }
  if (!fits) {
    auto text = [](const Tensor& t) {
      return fmt::format("[{}] of {}", join(t.sizes(), ", ", [](int64_t s) { return std::to_string(s); }),
                         pythonName(t.dtype()));
    };
    fail(ErrorKind::Model, fmt::format("it gives {}, the plugin's shapes say {}", text(given), text(output)));
  }
  Dims sizes(given.sizes());
  copyTensor(fewer ? output.withGeometry(sizes, contiguousStrides(sizes), output.offset()) : output, given);
  return fewer ? given.size(0) : -1;
}

}  // namespace

std::string problemOfDecomposition(const Graph& graph, const OpRegistry& operators) {
  std::string problem;
  forEachNode(graph, [&](const Node* n) {
    if (!problem.empty()) return;
    const std::string kind(n->kind().text());
    const std::string_view ns = n->kind().nameSpace();
    if (ns != "aten" && ns != "prim") {
      problem = fmt::format("its decomposition has a node {}: only aten and prim may stand there", kind);
    } else if (ns == "aten" && !operators.isKnown(n->kind())) {
      const std::string nearest = operators.nearestKind(kind);
      problem = fmt::format("its decomposition has a node {}: there is no such operator{}", kind,
                            nearest.empty() ? "" : ", did you mean " + nearest + "?");
    } else if (ns == "aten" && !operators.resolve(*n)) {
      problem = fmt::format("its decomposition has a node {}: {}", kind, nearestOverload(*n, operators).problem);
    }
  });
  return problem;
}

std::shared_ptr<const PluginComposite> PluginComposite::make(std::string_view text, const OpRegistry& operators,
                                                             std::string& problem) {
  std::shared_ptr<PluginComposite> made(new PluginComposite);
  Diagnostics diagnostics;
  ParseOptions options;
  options.registry = &operators;
  Result<std::unique_ptr<Graph>> graph = parseGraph(text, diagnostics, options);
  if (graph) problem = problemOfDecomposition(**graph, operators);
  if (graph && !problem.empty()) return nullptr;
  if (graph) {
    made->graph_ = std::move(*graph);
    Result<std::shared_ptr<const Program>> program = Program::compile(*made->graph_, operators, {}, diagnostics);
    if (program) made->program_ = std::move(*program);
  }
  if (made->program_) return made;
  const Diagnostic* why = firstError(diagnostics);
  problem = "its decomposition cannot be read: " + (why ? why->message : std::string("the text is no graph"));
  return nullptr;
}

void PluginComposite::run(std::span<const Tensor> inputs, std::span<const Tensor> outputs, PluginRun& run) const {
  RunOptions options = run.context ? run.context->options() : RunOptions();
  options.threads = run.threads;
  options.state = nullptr;  // of the module around
  if (run.context) options.memoryLimit -= std::min(options.memoryLimit, run.context->budget().used());
  std::vector<IValue> arguments(inputs.begin(), inputs.end());
  Diagnostics diagnostics;
  Result<std::vector<IValue>> results = program_->run(arguments, options, diagnostics);
  if (!results) {
    const Diagnostic* why = firstError(diagnostics);
    fail(why ? why->kind : ErrorKind::Model, why ? why->message : "no reason is known");
  }
  if (results->size() != outputs.size())
    fail(ErrorKind::Model, fmt::format("it gives {} results, the plugin has {}", results->size(), outputs.size()));
  // An output over an input must not change what another result still shows of that input.
  for (IValue& r : *results) {
    if (!r.isTensor() || !r.tensorImpl()) continue;
    Tensor t = r.toTensor();
    if (std::ranges::any_of(outputs, [&](const Tensor& o) { return o.storage() == t.storage(); })) r = cloneTensor(t);
  }
  for (size_t i = 0; i < outputs.size(); ++i)
    if (int64_t rows = take(outputs[i], (*results)[i]); rows >= 0 && i < run.rows.size()) run.rows[i] = rows;
}

}  // namespace tscompile
