// The options of partitioning, which several verbs take.
#include "api/engine_file.h"
#include "ir/support/text.h"
#include "tools/options.h"
#include "tools/quantities.h"

#include <cstdlib>

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
  char* end = nullptr;
  double percent = v.empty() ? 100 : std::strtod(v.c_str(), &end);
  if ((end && *end) || !(percent >= 0 && percent <= 100))
    throw UsageError{"--require-full takes a percentage from 0 to 100, not '" + abbreviate(v, 80) + "'"};
  o.partition.requireFull = percent / 100;
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

}  // namespace

std::vector<OptionSpec> partitioningOptionSpecs() {
  return {
      {"-w,--weights", "FILE", "tensors by attribute path or value name, in safetensors format",
       [](Options& o, const std::string& v) { o.partition.weights.push_back(v); }, true},
      {"--method", "NAME", "the method to take (default: forward)",
       [](Options& o, const std::string& v) { o.partition.method = v; }},
      {"--min-block-size", "N", "no engines of fewer nodes, unless one is the whole graph (default: 3)",
       [](Options& o, const std::string& v) { o.partition.minBlockSize = blockSize("--min-block-size", v); }},
      {"--torch-executed-op", "OP", "keep an operator (aten::add) or an overload (aten::add.Tensor) out of engines",
       [](Options& o, const std::string& v) { o.partition.operators.push_back(v); }, true},
      {"--torch-executed-module", "MODULE", "keep modules of this class, or the one at this path, out of engines",
       [](Options& o, const std::string& v) { o.partition.modules.push_back(v); }, true},
      {"--torch-executed-node", "NAME", "keep the node that makes this value out of engines",
       [](Options& o, const std::string& v) { o.partition.nodes.push_back(v); }, true},
      {"--strategy", "greedy|dependency|minimal|cost", "how to cut (default: dependency)", setStrategy},
      {"--shape", "NAME=SIZES", "sizes of an input, such as x=1..8x3x224x224 or x=2x10:i64",
       [](Options& o, const std::string& v) { o.partition.shapes.push_back(v); }, true},
      {"--opt-shape", "NAME=SIZES", "sizes to estimate with (default: the largest of --shape)",
       [](Options& o, const std::string& v) { o.partition.usualShapes.push_back(v); }, true},
      {"--no-lower", "", "take the graph as it is", [](Options& o, const std::string&) { o.partition.lower = false; }},
  };
}

namespace {

const OptionSpec kRequireFull = {
    "--require-full", "PERCENT", "fail unless so many of the nodes run in engines (default: 100)",
    setRequireFull,   false,     true};

}  // namespace

std::vector<OptionSpec> compileOptionSpecs() {
  std::vector<OptionSpec> specs = partitioningOptionSpecs();
  specs.push_back(kRequireFull);
  specs.push_back({"--precision", "f32|f16|bf16|int8", "how engines store weights of products (default: f32)",
                   [](Options& o, const std::string& v) { o.partition.precision = *precisionFromName(v); }});
  specs.push_back({"-o,--output", "FILE", "the engine file to write",
                   [](Options& o, const std::string& v) { o.partition.output = v; }});
  return specs;
}

std::vector<OptionSpec> partitionOptionSpecs() {
  std::vector<OptionSpec> specs = partitioningOptionSpecs();
  const OptionSpec own[] = {
      kRequireFull,
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

}  // namespace tscompile
