// The options of partitioning, which several verbs take.
#include "api/compile.h"
#include "api/engine_file.h"
#include "ir/support/text.h"
#include "tools/options/options.h"
#include "tools/options/quantities.h"

#include <cstdlib>
#include <utility>

namespace tscompile {
namespace {

size_t blockSize(std::string_view option, const std::string& text) {
  std::optional<uint64_t> n = parseCount(text);
  if (!n || *n == 0)
    throw UsageError{std::string(option) + " takes a number from 1 up, not '" + abbreviate(text, 80) + "'"};
  return *n;
}

void setStrategy(Options& o, const std::string& v) {
  for (Strategy s : {Strategy::Greedy, Strategy::Dependency, Strategy::Minimal, Strategy::Cost})
    if (v == strategyName(s)) o.partition.strategy = s;
}

void setRequireFull(Options& o, const std::string& v) {
  std::optional<double> part = v.empty() ? 1 : partOfPercent(v);
  if (!part || !(*part >= 0 && *part <= 1))
    throw UsageError{"--require-full takes a percentage from 0 to 100, not '" + abbreviate(v, 80) + "'"};
  o.partition.requireFull = part;
}

void setSweep(Options& o, const std::string& v) {
  constexpr std::string_view kName = "min-block-size=";
  if (!startsWith(v, kName)) throw UsageError{"--sweep takes min-block-size=N,N..., not '" + abbreviate(v, 80) + "'"};
  std::string_view list = std::string_view(v).substr(kName.size());
  for (size_t at = 0; at <= list.size();) {
    size_t end = std::min(list.find(',', at), list.size());
    o.partition.sweep.push_back(blockSize("--sweep min-block-size", std::string(list.substr(at, end - at))));
    at = end + 1;
  }
}

// As torchtrtc writes dtypes.
void enablePrecision(Options& o, const std::string& v) {
  constexpr std::pair<std::string_view, Precision> kNames[] = {
      {"f32", Precision::F32},   {"fp32", Precision::F32}, {"float32", Precision::F32}, {"float", Precision::F32},
      {"f16", Precision::F16},   {"fp16", Precision::F16}, {"float16", Precision::F16}, {"half", Precision::F16},
      {"bf16", Precision::BF16}, {"i8", Precision::Int8},  {"int8", Precision::Int8},   {"char", Precision::Int8}};
  for (const auto& [name, precision] : kNames) {
    if (v != name) continue;
    // float32 is what is there when nothing is enabled.
    if (precision != Precision::F32) o.partition.precision = precision;
    return;
  }
  throw UsageError{"--enable-precision takes f32, f16, bf16 or int8, not '" + abbreviate(v, 80) + "'"};
}

double tolerance(std::string_view option, const std::string& v) {
  char* end = nullptr;
  double value = std::strtod(v.c_str(), &end);
  if (v.empty() || *end || !(value >= 0))
    throw UsageError{std::string(option) + " takes a number from 0 up, not '" + abbreviate(v, 80) + "'"};
  return value;
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
  return {
      {"--mbs,--min-block-size", "N", "no engines of fewer nodes, unless one is the whole graph (default: 3)",
       [](Options& o, const std::string& v) { o.partition.minBlockSize = blockSize("--min-block-size", v); }},
      {"--teo,--torch-executed-op", "OP",
       "keep an operator (aten::add) or an overload (aten::add.Tensor) out of engines",
       [](Options& o, const std::string& v) { o.partition.operators.push_back(v); }, true},
      {"--tem,--torch-executed-mod,--torch-executed-module", "MODULE",
       "keep modules of this class, or the one at this path, out of engines",
       [](Options& o, const std::string& v) { o.partition.modules.push_back(v); }, true},
      {"--torch-executed-node", "NAME", "keep the node that makes this value out of engines",
       [](Options& o, const std::string& v) { o.partition.nodes.push_back(v); }, true},
      {"--strategy", "greedy|dependency|minimal|cost", "how to cut (default: dependency)", setStrategy},
  };
}

std::vector<OptionSpec> partitioningOptionSpecs() {
  std::vector<OptionSpec> specs = {
      {"-w,--weights", "FILE", "tensors by attribute path or value name, in safetensors format",
       [](Options& o, const std::string& v) { o.partition.weights.push_back(v); }, true},
      {"--method", "NAME", "the method to take (default: forward)",
       [](Options& o, const std::string& v) { o.partition.method = v; }},
  };
  const std::vector<OptionSpec> cutting = cuttingOptionSpecs();
  specs.insert(specs.end(), cutting.begin(), cutting.end());
  const OptionSpec rest[] = {
      {"--without-converter", "OP", "keep an operator out of engines as if it had no converter of ours",
       [](Options& o, const std::string& v) { o.partition.withoutConverters.push_back(v); }, true},
      {"--custom-torch-ops,--custom-converters", "LIB",
       "a shared library with operators and converters; see docs/writing_converters.md",
       [](Options& o, const std::string& v) { o.partition.libraries.push_back(v); }, true},
      {"--shape", "NAME=SIZES", "sizes of an input, such as x=1..8x3x224x224 or x=2x10:i64",
       [](Options& o, const std::string& v) { o.partition.shapes.push_back(v); }, true},
      {"--opt-shape", "NAME=SIZES", "sizes to estimate with (default: the largest of --shape)",
       [](Options& o, const std::string& v) { o.partition.usualShapes.push_back(v); }, true},
      {"--no-lower", "", "take the graph as it is", [](Options& o, const std::string&) { o.partition.lower = false; }},
  };
  specs.insert(specs.end(), std::begin(rest), std::end(rest));
  return specs;
}

namespace {

const OptionSpec kRequireFull = {"--require-full-compilation,--require-full",
                                 "PERCENT",
                                 "fail unless so many of the nodes run in engines (default: 100)",
                                 setRequireFull,
                                 false,
                                 true};

const OptionSpec kEnablePrecision = {"-p,--enable-precision", "DTYPE",
                                     "the same as --precision in the words of torchtrtc: half, fp16, char",
                                     enablePrecision, true};

}  // namespace

std::vector<OptionSpec> compileOptionSpecs() {
  std::vector<OptionSpec> specs = partitioningOptionSpecs();
  specs.push_back(kRequireFull);
  specs.push_back({"--precision", "f32|f16|bf16|int8", "how engines store weights of products (default: f32)",
                   [](Options& o, const std::string& v) { o.partition.precision = *precisionFromName(v); }});
  specs.push_back(kEnablePrecision);
  specs.push_back({"--tactics", "model|measure",
                   "choose kernels by a model of their costs (default), or by timing them on --opt-shape",
                   [](Options& o, const std::string& v) { o.partition.measure = v == "measure"; }});
  specs.push_back({"--timing-cache", "FILE",
                   "what earlier measurements have found, which comes first; new ones are added to it",
                   [](Options& o, const std::string& v) { o.partition.timingCache = v; }});
  specs.push_back({"--threads", "N",
                   "threads that --tactics measure times kernels on (default: one for each processor)",
                   [](Options& o, const std::string& v) { o.run.threads = static_cast<uint64_t>(threadCount(v, v)); }});
  specs.push_back({"--num-avg-timing-iters", "N", "how often to time a kernel, to take the median of (default: 9)",
                   [](Options& o, const std::string& v) {
                     std::optional<uint64_t> n = parseCount(v);
                     if (!n || *n == 0 || *n > 1'000'000)
                       throw UsageError{"--num-avg-timing-iters takes a number from 1 to 1000000, not '" +
                                        abbreviate(v, 80) + "'"};
                     o.partition.timingRuns = n;
                   }});
  specs.push_back({"--workspace-size", "SIZE",
                   "memory that a kernel may need for itself, such as 1M, where another one does with less",
                   [](Options& o, const std::string& v) {
                     o.partition.workspace = parseSize(v);
                     if (!o.partition.workspace)
                       throw UsageError{"--workspace-size takes a size such as 1M, not '" + abbreviate(v, 80) + "'"};
                   }});
  specs.push_back({"--refittable", "", "keep what 'tscompile refit' needs to replace weights later",
                   [](Options& o, const std::string&) { o.partition.refittable = true; }});
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
      kRequireFull,
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
      kRequireFull,
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
