// Compiles with the least size of engines and with an operator that is to stay out of them; asks what no engine takes.
#include "samples/compiling/sample.h"

using namespace tscompile;

int main() {
  Diagnostics diagnostics;
  Module mod = loadLeNet(diagnostics);
  Tensor in = randomTensor("1x1x32x32");

  CompileSpec spec({{{1, 1, 32, 32}}});
  spec.minBlockSize = 2;
  spec.torchExecutedOps.push_back("aten::relu");
  Result<CompiledPartition> cut = partition(mod, spec, diagnostics);
  if (!cut) stop(diagnostics);
  printSegments(*cut);
  for (const Segment& s : cut->partition.segments) {
    const Value* made = s.outputs[0];
    std::printf("  %s : %s\n", std::string(made->name()).c_str(), typeText(made->type()).c_str());
    if (s.target != Target::Fallback) continue;
    const Decision& d = cut->partition.decisions[s.nodes[0]];
    std::printf("  %s: %s\n", std::string(reasonCode(d.reason)).c_str(), d.detail.c_str());
    break;
  }

  Result<Module> compiled = compile(mod, spec, diagnostics);
  if (!compiled) stop(diagnostics);
  std::printf("interpreter and engines %s\n",
              sameText(runOne(*compiled, in, diagnostics), runOne(mod, in, diagnostics)));

  Result<std::vector<UnsupportedNode>> unsupported = checkMethodOperatorSupport(mod, "forward", diagnostics);
  if (!unsupported) stop(diagnostics);
  std::printf("%zu nodes that no engine takes\n", unsupported->size());

  // Nothing may stay out now, so this cannot be.
  spec.requiredCoverage = 1;
  Diagnostics expected;
  if (compile(mod, spec, expected)) return 1;
  std::printf("required in full: %s\n", expected.list()[0].message.c_str());
}
