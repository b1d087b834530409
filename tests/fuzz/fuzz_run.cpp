// The bytes choose a small valid graph and its arguments. It verifies, runs or fails with a located error, and does the
// same after it was printed and read again.
#include "frontend/text/parse.h"
#include "ir/analysis/verifier.h"
#include "ir/graph/printer.h"
#include "ir/support/diagnostic_printer.h"
#include "runtime/interpreter/program.h"
#include "runtime/registry.h"
#include "tests/support/random_graph.h"

#include <cstdio>
#include <cstdlib>

using namespace tscompile;
using namespace tscompile::test;

namespace {

[[noreturn]] void fail(const char* what, const Graph& graph, Diagnostics& diagnostics) {
  std::fprintf(stderr, "%s\n%s%s", what, graphText(graph).c_str(), renderDiagnostics(diagnostics, "fuzz_run").c_str());
  std::abort();
}

Result<std::vector<IValue>> run(const Graph& graph, Choices choices, Diagnostics& diagnostics) {
  ProgramSources sources;
  sources.boundInputs.resize(graph.inputs().size());
  Result<std::shared_ptr<const Program>> program = Program::compile(graph, allOps(), std::move(sources), diagnostics);
  if (!program) return Failed{};
  std::vector<IValue> inputs = randomInputs(choices, graph);
  RunOptions options;
  options.memoryLimit = 64 << 20;
  options.timeLimit = std::chrono::seconds(2);
  options.print = [](std::string_view) {};
  options.warn = [](std::string_view) {};
  return (*program)->run(inputs, options, diagnostics);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // The arguments come from the first bytes, the graph from the rest.
  size_t forInputs = std::min<size_t>(size, 32);
  Choices inputs(std::span(data, forInputs)), shape(std::span(data + forInputs, size - forInputs));
  std::unique_ptr<Graph> graph = randomGraph(shape, allOps());
  Diagnostics diagnostics;
  if (!verify(*graph, allOps(), diagnostics)) fail("the generator made an invalid graph", *graph, diagnostics);
  Result<std::vector<IValue>> first = run(*graph, inputs, diagnostics);
  if (!first && diagnostics.errorCount() == 0) fail("failed without a word", *graph, diagnostics);

  std::string text = graphText(*graph);
  Diagnostics again;
  ParseOptions options;
  options.registry = &allOps();
  Result<std::unique_ptr<Graph>> read = parseGraph(SourceFile::make("printed", text), again, options);
  if (!read) fail("the printed text does not read", *graph, again);
  return 0;
}
