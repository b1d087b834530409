// What the samples of compiling share.
#pragma once

#include "api/compiler.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace tscompile {

// Writes what was reported, and ends the program.
[[noreturn]] inline void stop(const Diagnostics& diagnostics) {
  std::fputs(renderDiagnostics(diagnostics, "sample").c_str(), stderr);
  std::exit(1);
}

inline std::string modelPath(const std::string& file) { return TSCOMPILE_SAMPLES "/models/" + file; }

// LeNet with its weights.
inline Module loadLeNet(Diagnostics& diagnostics) {
  LoadOptions options;
  options.weights = {modelPath("lenet_scripted/weights.safetensors")};
  Result<Module> module = Module::load(modelPath("lenet_scripted/model.ir"), options, diagnostics);
  if (!module) stop(diagnostics);
  return std::move(*module);
}

inline Tensor randomTensor(const std::string& sizes) {
  Diagnostics diagnostics;
  Result<IValue> value = parseValueText(sizes + ":f32:randn(seed=0)", "x", diagnostics);
  if (!value) stop(diagnostics);
  return value->toTensor();
}

inline Tensor runOne(const Module& module, const Tensor& x, Diagnostics& diagnostics) {
  Result<std::vector<IValue>> outputs = module.forward(std::vector<IValue>{x}, diagnostics);
  if (!outputs) stop(diagnostics);
  return (*outputs)[0].toTensor();
}

inline const char* sameText(const Tensor& a, const Tensor& b) {
  if (a.numel() != b.numel()) return "differ in size";
  for (int64_t i = 0; i < a.numel(); ++i)
    if (std::fabs(a.real(i) - b.real(i)) > 1e-5) return "differ";
  return "agree";
}

inline void printSegments(const CompiledPartition& cut) {
  for (const Segment& s : cut.partition.segments)
    std::printf("segment %u: %s, %zu nodes, %zu in, %zu out\n", s.id, std::string(targetName(s.target)).c_str(),
                s.nodes.size(), s.inputs.size(), s.outputs.size());
}

}  // namespace tscompile
