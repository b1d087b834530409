// Half precision: the weights of products are stored in 16 bits. The method becomes one engine, which is written to a
// file and runs from there.
#include "samples/compiling/sample.h"

#include <filesystem>
#include <unistd.h>

using namespace tscompile;

int main() {
  Diagnostics diagnostics;
  Module mod = loadLeNet(diagnostics);
  Tensor in = randomTensor("1x1x32x32");
  Tensor exact = runOne(mod, in, diagnostics);

  CompileSpec info({{{1, 1, 32, 32}}});
  info.engine.precision = DType::Float16;
  Result<Module> half = mod.convertToEngine(info, diagnostics);
  if (!half) stop(diagnostics);
  Tensor out = runOne(*half, in, diagnostics);
  double largest = 0;
  for (int64_t i = 0; i < out.numel(); ++i) largest = std::max(largest, std::fabs(out.real(i) - exact.real(i)));
  std::printf("weights of 16 bits are %s\n", largest == 0 ? "exact" : largest < 1e-3 ? "close" : "wrong");

  std::string path = std::filesystem::temp_directory_path() / ("half_" + std::to_string(getpid()) + ".tse");
  if (!half->save(path, diagnostics)) stop(diagnostics);
  Result<Module> loaded = Module::load(path, {}, diagnostics);
  std::filesystem::remove(path);
  if (!loaded) stop(diagnostics);
  std::printf("saved and loaded, the outputs %s\n", sameText(runOne(*loaded, in, diagnostics), out));
}
