// Loads a model and runs it; compiles it for the size of its input, and runs it again.
#include "samples/compiling/sample.h"

using namespace tscompile;

int main() {
  Diagnostics diagnostics;
  Module mod = loadLeNet(diagnostics);
  Tensor in = randomTensor("1x1x32x32");
  Tensor out = runOne(mod, in, diagnostics);
  std::printf("forward gives %s\n", dimsText(out.sizes()).c_str());

  std::vector<CompileInput> inputSizes{{{1, 1, 32, 32}}};
  Result<Module> compiled = compile(mod, inputSizes, diagnostics);
  if (!compiled) stop(diagnostics);
  std::printf("interpreter and engines %s\n", sameText(runOne(*compiled, in, diagnostics), out));
}
