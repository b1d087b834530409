// Runs any model whose inputs are tensors, lists of tensors, and what has defaults: opens the file, makes engines, and
// prints what comes out. docs/cpp.md explains it.
//
//   run_model MODEL SIZES...      sizes of the tensors: 1x1x32x32, or 16000,9600 for a list of them
//
// With PROFILE in the environment it also prints where the time goes, as JSON.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <tscompile/compiler.h>
#include <vector>

using namespace tscompile;

namespace {

int report(const Diagnostics& diagnostics) {
  std::fputs(renderDiagnostics(diagnostics, "run_model").c_str(), stderr);
  return 1;
}

// A tensor of sizes such as "1x3x224x224", filled with a wave.
Tensor wave(const std::string& text) {
  Dims sizes;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('x', at), text.size());
    sizes.push_back(std::stoll(text.substr(at, end - at)));
    at = end + 1;
  }
  Tensor out = Tensor::zeros(DType::Float32, sizes);
  float* elements = out.data<float>();
  for (int64_t i = 0; i < out.numel(); ++i) elements[i] = static_cast<float>(i % 100) / 100;
  return out;
}

IValue inputOf(TypePtr type, const std::string& sizes) {
  if (!type->isListOf(TypeKind::Tensor)) return wave(sizes);
  std::vector<Tensor> items;
  for (size_t at = 0; at < sizes.size();) {
    const size_t end = std::min(sizes.find(',', at), sizes.size());
    items.push_back(wave(sizes.substr(at, end - at)));
    at = end + 1;
  }
  return tensorList(std::move(items));
}

void print(const std::string& name, const IValue& value) {
  if (value.isTensor()) {
    const Tensor& t = value.toTensor();
    std::printf("%s: %s %s\n", name.c_str(), std::string(shortName(t.dtype())).c_str(), dimsText(t.sizes()).c_str());
  } else if (value.isDict()) {
    value.toDict().forEach(
        [&](const IValue& key, const IValue& item) { print(name + "[" + valueToText(key) + "]", item); });
  } else {
    std::printf("%s: %s\n", name.c_str(), valueToText(value).c_str());
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: run_model MODEL SIZES...\n");
    return 2;
  }
  // Everything that goes wrong is reported here, with its place.
  Diagnostics diagnostics;
  Result<Module> module = Module::load(argv[1], {}, diagnostics);
  if (!module) return report(diagnostics);
  // Engines of what they can take; the interpreter runs the rest. Without ranges they adapt to the sizes that come.
  Result<Module> fast = module->compiled({}, diagnostics);
  if (!fast) return report(diagnostics);
  Result<Method> forward = fast->prepare(diagnostics);
  if (!forward) return report(diagnostics);

  const std::map<std::string, IValue> defaults = fast->defaults();
  std::vector<IValue> inputs;
  int given = 2;
  for (const ValueInfo& input : forward->inputs()) {
    auto standard = defaults.find(input.name);
    if (given < argc)
      inputs.push_back(inputOf(input.type, argv[given++]));
    else
      inputs.push_back(standard == defaults.end() ? IValue() : standard->second);
  }
  Result<std::vector<IValue>> outputs = forward->run(inputs, diagnostics);
  if (!outputs) return report(diagnostics);
  for (size_t i = 0; i < outputs->size(); ++i) print("output " + std::to_string(i), (*outputs)[i]);
  if (std::getenv("PROFILE")) {
    constexpr size_t kRuns = 20;
    Result<std::string> profile = profileJson(*forward, inputs, kRuns, {}, diagnostics);
    if (!profile) return report(diagnostics);
    std::puts(profile->c_str());
  }
  return 0;
}
