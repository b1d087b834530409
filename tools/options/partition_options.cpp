// The options of partitioning, which several verbs take.
#include "api/compile_settings.h"
#include "ir/support/quantities.h"
#include "ir/support/split.h"
#include "ir/support/text.h"
#include "runtime/engine/network/tactics.h"
#include "tools/options/options.h"

#include <utility>

namespace tscompile {
namespace {

size_t blockSize(std::string_view option, const std::string& text) {
  std::optional<uint64_t> n = parseCount(text);
  if (!n || *n == 0)
    throw UsageError{std::string(option) + " takes a number from 1 up, not '" + abbreviate(text, 80) + "'"};
  return *n;
}

void setSweep(Options& o, const std::string& v) {
  constexpr std::string_view kName = "min-block-size=";
  if (!startsWith(v, kName)) throw UsageError{"--sweep takes min-block-size=N,N..., not '" + abbreviate(v, 80) + "'"};
  for (std::string_view size : split(std::string_view(v).substr(kName.size()), ','))
    o.partition.sweep.push_back(blockSize("--sweep min-block-size", std::string(size)));
}

// As torchtrtc writes dtypes.
void enablePrecision(Options& o, const std::string& v) {
  constexpr std::pair<std::string_view, DType> kNames[] = {
      {"f32", DType::Float32},   {"fp32", DType::Float32}, {"float32", DType::Float32}, {"float", DType::Float32},
      {"f16", DType::Float16},   {"fp16", DType::Float16}, {"float16", DType::Float16}, {"half", DType::Float16},
      {"bf16", DType::BFloat16}, {"i8", DType::Int8},      {"int8", DType::Int8},       {"char", DType::Int8}};
  for (const auto& [name, precision] : kNames) {
    if (v != name) continue;
    // float32 is what is there when nothing is enabled.
    if (precision != DType::Float32) o.partition.spec.engine.precision = precision;
    return;
  }
  throw UsageError{"--enable-precision takes f32, f16, bf16 or int8, not '" + abbreviate(v, 80) + "'"};
}

double tolerance(std::string_view option, const std::string& v) {
  std::optional<double> value = parseReal(v);
  if (!value || !(*value >= 0))
    throw UsageError{std::string(option) + " takes a number from 0 up, not '" + abbreviate(v, 80) + "'"};
  return *value;
}

// The option of a setting, with other names that it has on the command line.
OptionSpec settingOption(std::string_view name, const std::string& aliases = "") {
  const CompileSetting& s = *findCompileSetting(name);
  const std::string option = "--" + std::string(name);
  std::string help;
  for (char c : s.text) help += c == '{' ? "--" : c == '}' ? "" : std::string(1, c);
  return {aliases + option,
          s.value,
          help,
          [&s, option](Options& o, const std::string& v) {
            if (s.set(o.partition.spec, v)) return;
            throw UsageError{option + " takes " + std::string(s.takes) + ", not '" + abbreviate(v, 80) + "'"};
          },
          s.repeats,
          s.valueOptional};
}

}  // namespace

std::string_view reasonWithoutOption(std::string_view name) {
  constexpr std::string_view kGpu = "engines run on the CPU",
                             kLevel = "-q reports errors only, and --explain tells why";
  constexpr std::pair<std::string_view, std::string_view> kReasons[] = {
      {"--verbose", kLevel},
      {"-v", kLevel},
      {"--info", kLevel},
      {"--i", kLevel},
      {"--warnings", kLevel},
      {"--build-debuggable-engine", "engines always know the nodes that they were made of"},
      {"--allow-gpu-fallback", kGpu},
      {"--disable-tf32", "float32 is computed in float32"},
      {"--sparse-weights", "engines have no sparse kernels"},
      {"--device-type", kGpu},
      {"-d", kGpu},
      {"--gpu-id", kGpu},
      {"--dla-core", kGpu},
      {"--dla-sram-size", kGpu},
      {"--dla-local-dram-size", kGpu},
      {"--dla-global-dram-size", kGpu},
      {"--engine-capability", kGpu},
      {"--calibration-cache-file", "nothing is calibrated"},
      {"--embed-engine", "an engine file holds the whole graph, and runs as it is"},
      {"--truncate", "64-bit numbers stay 64-bit numbers"},
      {"--truncate-long-double", "64-bit numbers stay 64-bit numbers"},
      {"--truncate-64bit", "64-bit numbers stay 64-bit numbers"},
      {"--allow-shape-tensors", "sizes are known when an engine meets its inputs"},
  };
  for (const auto& [option, reason] : kReasons)
    if (option == name) return reason;
  return {};
}

std::vector<OptionSpec> cuttingOptionSpecs() {
  return {settingOption("min-block-size", "--mbs,"), settingOption("torch-executed-op", "--teo,"),
          settingOption("torch-executed-module", "--tem,--torch-executed-mod,"), settingOption("torch-executed-node"),
          settingOption("strategy")};
}

std::vector<OptionSpec> partitioningOptionSpecs() {
  std::vector<OptionSpec> specs = {
      {"-w,--weights", "FILE", "tensors by attribute path or value name, in safetensors format",
       [](Options& o, const std::string& v) { o.partition.weights.push_back(v); }, true},
      settingOption("method"),
  };
  const std::vector<OptionSpec> cutting = cuttingOptionSpecs();
  specs.insert(specs.end(), cutting.begin(), cutting.end());
  specs.push_back(settingOption("without-converter"));
  specs.push_back({"--custom-torch-ops,--custom-converters", "LIB",
                   "a shared library with operators and converters; see docs/writing_converters.md",
                   [](Options& o, const std::string& v) { o.partition.libraries.push_back(v); }, true});
  for (const char* name : {"shape", "opt-shape", "no-lower"}) specs.push_back(settingOption(name));
  return specs;
}

namespace {

OptionSpec requireFull() { return settingOption("require-full", "--require-full-compilation,"); }

const OptionSpec kEnablePrecision = {"-p,--enable-precision", "DTYPE",
                                     "the same as --precision in the words of torchtrtc: half, fp16, char",
                                     enablePrecision, true};

}  // namespace

std::vector<OptionSpec> compileOptionSpecs() {
  std::vector<OptionSpec> specs = partitioningOptionSpecs();
  specs.push_back(requireFull());
  specs.push_back(settingOption("precision"));
  specs.push_back(kEnablePrecision);
  specs.push_back(settingOption("tactics"));
  specs.push_back({"--timing-cache", "FILE",
                   "what earlier measurements have found, which comes first; new ones are added to it",
                   [](Options& o, const std::string& v) { o.partition.timingCache = v; }});
  specs.push_back(settingOption("threads"));
  specs.push_back({"--num-avg-timing-iters", "N", "how often to time a kernel, to take the median of (default: 9)",
                   [](Options& o, const std::string& v) {
                     std::optional<uint64_t> n = parseCount(v);
                     if (!n || *n == 0 || *n > 1'000'000)
                       throw UsageError{"--num-avg-timing-iters takes a number from 1 to 1000000, not '" +
                                        abbreviate(v, 80) + "'"};
                     EngineOptions& engine = o.partition.spec.engine;
                     if (!engine.tactics) engine.tactics = std::make_shared<TacticCache>();
                     engine.tactics->timingRuns = static_cast<int>(*n);
                   }});
  specs.push_back(settingOption("workspace-size"));
  specs.push_back(settingOption("refittable"));
  specs.push_back({"--save-engine", "", "make one engine of the whole method, or fail",
                   [](Options& o, const std::string&) { o.partition.oneEngine = true; }});
  specs.push_back({"--profile", "text|json", "write what compiling and each rewrite cost to standard error",
                   [](Options& o, const std::string& v) {
                     o.rewrite.profile = v == "json" ? ProfileForm::Json : ProfileForm::Text;
                   }});
  specs.push_back({"-o,--output", "FILE", "the engine file to write",
                   [](Options& o, const std::string& v) { o.partition.output = v; }});
  return specs;
}

std::vector<OptionSpec> partitionOptionSpecs() {
  std::vector<OptionSpec> specs = partitioningOptionSpecs();
  const OptionSpec own[] = {
      requireFull(),
      {"--check-method-support", "METHOD",
       "list what engines cannot take of a method, instead; exit 1 if there is some",
       [](Options& o, const std::string& v) { o.partition.checkSupport = v; }},
      {"--sweep", "LIST", "tell what min-block-size=1,2,4 would give, instead of the segments", setSweep},
      {"--format", "text|json|dot", "form of the output (default: text)",
       [](Options& o, const std::string& v) {
         o.partition.form = v == "json" ? PartitionForm::Json : v == "dot" ? PartitionForm::Dot : PartitionForm::Text;
         o.common.json = v == "json";
       }},
      {"--explain", "", "add a table of the segments, with the reasons for what is not in engines",
       [](Options& o, const std::string&) { o.partition.explain = true; }},
      {"--emit", "segments|graph", "print the segments (default), or one graph that has engines as nodes",
       [](Options& o, const std::string& v) { o.partition.emitGraph = v == "graph"; }},
      {"-o,--output", "FILE", "write the graph there, and the tensors to FILE with .safetensors in place of .ir",
       [](Options& o, const std::string& v) { o.partition.output = v; }},
  };
  specs.insert(specs.end(), std::begin(own), std::end(own));
  return specs;
}

std::vector<OptionSpec> verifyOptionSpecs() {
  std::vector<OptionSpec> specs = partitioningOptionSpecs();
  const OptionSpec own[] = {
      requireFull(),
      kEnablePrecision,
      {"-i,--input", "NAME=VALUE", "an input; without it, --shape gives the sizes of random numbers",
       [](Options& o, const std::string& v) { o.verify.inputs.push_back(v); }, true},
      {"--rtol", "X", "part of an element that a difference may be (default: 0.001)",
       [](Options& o, const std::string& v) { o.verify.relative = tolerance("--rtol", v); }},
      {"--atol", "X", "that a difference may be besides (default: 0.0001)",
       [](Options& o, const std::string& v) { o.verify.absolute = tolerance("--atol", v); }},
      {"--no-threshold-check", "", "tell the differences; the exit code is 0 whatever they are",
       [](Options& o, const std::string&) { o.verify.checkThreshold = false; }},
      {"--bisect", "", "find the node inside the first engine that is out of tolerance",
       [](Options& o, const std::string&) { o.verify.bisect = true; }},
  };
  specs.insert(specs.end(), std::begin(own), std::end(own));
  return specs;
}

}  // namespace tscompile
