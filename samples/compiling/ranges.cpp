// Compiles for a range of sizes. Runs inside of it are right; others are refused with the name of the input.
#include "samples/compiling/sample.h"

using namespace tscompile;

int main() {
  Diagnostics diagnostics;
  Result<Module> mod = Module::fromText(
      R"(graph(%x : Tensor):
  %one : int = prim::Constant[value=1]()
  %r : Tensor = aten::relu(%x)
  %y : Tensor = aten::add(%r, %x, %one)
  %z : Tensor = aten::sigmoid(%y)
  return (%z)
)",
      "ranges", {}, diagnostics);
  if (!mod) stop(diagnostics);

  CompileSpec spec({CompileInput({1, 3, 224, 224}, {1, 3, 512, 512}, {1, 3, 1024, 1024})});
  Result<Module> compiled = compile(*mod, spec, diagnostics);
  if (!compiled) stop(diagnostics);
  for (const char* sizes : {"1x3x224x224", "1x3x300x512", "1x3x512x512"}) {
    Tensor in = randomTensor(sizes);
    std::printf("%s: interpreter and engines %s\n", sizes,
                sameText(runOne(*compiled, in, diagnostics), runOne(*mod, in, diagnostics)));
  }

  Diagnostics expected;
  if (compiled->forward(std::vector<IValue>{randomTensor("1x3x100x512")}, expected)) return 1;
  std::printf("1x3x100x512: %s\n", expected.list()[0].message.c_str());

  // What engines cannot do is said, not rounded away.
  spec.engine.precision = DType::Float64;
  Diagnostics refused;
  if (!compile(*mod, spec, refused)) std::printf("in float64: %s\n", refused.list()[0].message.c_str());
}
