// Loads the library that it is given, compiles a graph with a node of its plugin, writes the engine to a file, and runs
// what is read from there.
#include "samples/compiling/sample.h"

#include <filesystem>

using namespace tscompile;

namespace {

constexpr const char* kGraph = R"(graph(%x : Tensor, %w : Tensor):
  %h : Tensor = aten::matmul(%x, %w)
  %s : Tensor = sample::SquaredRelu[scale=0.5](%h)
  %y : Tensor = aten::tanh(%s)
  return (%y)
)";

std::vector<IValue> run(const Module& module, Diagnostics& diagnostics) {
  Result<std::vector<IValue>> out =
      module.forward(std::vector<IValue>{randomTensor("4x3"), randomTensor("3x5")}, diagnostics);
  if (!out) stop(diagnostics);
  return *out;
}

}  // namespace

int main(int count, char** arguments) {
  Diagnostics diagnostics;
  auto extensions = std::make_shared<Extensions>();
  if (count < 2 || !extensions->loadPlugins(arguments[1], diagnostics)) stop(diagnostics);
  for (const PluginCreatorPtr& plugin : extensions->plugins().list())
    if (!plugin->path.empty()) std::printf("loaded %s\n", plugin->key.text().c_str());

  LoadOptions options;
  options.extensions = extensions;
  Result<Module> module = Module::fromText(kGraph, "graph.ir", options, diagnostics);
  if (!module) stop(diagnostics);
  CompileSpec spec({{{4, 3}}, {{3, 5}}});
  spec.requiredCoverage = 1;
  Result<Module> compiled = compile(*module, spec, diagnostics);
  if (!compiled) stop(diagnostics);
  std::string file = (std::filesystem::temp_directory_path() / "squared_relu_sample.tse").string();
  if (!compiled->save(file, diagnostics)) stop(diagnostics);

  Result<Module> loaded = Module::load(file, options, diagnostics);
  if (!loaded) stop(diagnostics);
  std::printf("interpreter and engine file %s\n",
              sameText(run(*module, diagnostics)[0].toTensor(), run(*loaded, diagnostics)[0].toTensor()));

  // Without the library the file says what it needs.
  Diagnostics without;
  if (!Module::load(file, {}, without)) std::printf("without it: %s\n", without.list()[0].message.c_str());
  std::filesystem::remove(file);
}
