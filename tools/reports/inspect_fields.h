// What `inspect --format json` tells of each kind of file.
#pragma once

#include "api/built_model.h"
#include "api/compile_settings.h"
#include "api/engine_file.h"
#include "api/exported_sizes.h"
#include "frontend/files/section_file.h"
#include "frontend/files/weights.h"
#include "ir/graph/graph.h"
#include "ir/graph/module.h"
#include "ir/support/json_fields.h"
#include "partition/partition.h"
#include "partition/store_weights.h"
#include "tools/reports/graph_summary.h"
#include "tools/reports/remedy_words.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace tscompile {

// Nodes that are neither constants nor weights, counted as `compile` tells them.
inline size_t workNodes(const Graph& graph) {
  size_t count = 0;
  forEachNode(graph, [&](const Node* n) { count += n->kind() != sym::Constant && !isStoredWeight(n); });
  return count;
}
inline size_t fallbackNodes(const Graph& graph) {
  const WrappingNodes wrapping(graph);
  const GivenNodes given(graph);
  size_t count = 0;
  forEachNode(graph,
              [&](const Node* n) { count += !given.contains(n) && !wrapping.contains(n) && n->kind() != sym::Engine; });
  return count;
}
inline std::vector<const Node*> enginesOf(const Graph& graph) {
  std::vector<const Node*> out;
  forEachNode(graph, [&](const Node* n) {
    if (n->kind() == sym::Engine && n->subgraph()) out.push_back(n);
  });
  return out;
}

struct BuiltModelFields {
  const std::string& path;
  const BuiltModel& built;
  int64_t tokenBytes;

  template <class Visit>
  void fields(Visit&& visit) const {
    const LanguageModelShape& s = built.shape;
    visit("path", path);
    visit("kind", "a language model that was built");
    visit("version", built.version);
    visit("layers", s.layers);
    visit("heads", s.heads);
    visit("kv_heads", s.kvHeads);
    visit("head_size", s.headSize);
    visit("vocabulary", s.vocabulary);
    visit("engine_bytes", built.engineBytes);
    visit("cache_bytes_per_token", tokenBytes);
    visit("cache_blocks", built.cache.blocks);
    visit("tokens_per_block", built.cache.tokensPerBlock);
    visit("plugins", built.plugins);
    visit("settings", Members{buildOptionTexts(built.usedConfig())});
  }
};

struct EngineNodeFields {
  EngineNodeFields(const Node* n) : node(n) {}  // NOLINT: as JSON has it
  const Node* node;

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("nodes", workNodes(*node->subgraph()));
    visit("inputs", node->inputCount());
    visit("outputs", node->outputCount());
  }
};

// "scale=1.5": what inputs are that a caller leaves out. Of what was compiled for a tensor, None is no default any
// more.
inline std::vector<std::string> defaultsIn(const EngineFile& file) {
  std::vector<std::string> out;
  for (const auto& [key, value] : file.metadata) {
    if (!key.starts_with(kDefaultOf)) continue;
    const std::string name = key.substr(kDefaultOf.size());
    const bool isGiven =
        value == "None" && std::ranges::any_of(file.info.inputs, [&](const InputRange& r) { return r.name == name; });
    if (!isGiven) out.push_back(name + "=" + value);
  }
  return out;
}

inline std::vector<std::string> exportedTexts(const EngineInfo& info) {
  std::vector<std::string> out;
  for (const ExportedInput& input : info.exported.tensors) out.push_back(exportedInputText(input));
  return out;
}
inline std::vector<std::string> conditionTexts(const ExportedInputs& exported) {
  std::vector<std::string> out;
  for (const InputCondition& condition : exported.conditions) out.push_back(condition.words());
  return out;
}

// Of the weights alone: the same for files with the same tensors under the same names.
inline std::string tensorChecksum(const EngineFile& file) {
  std::map<std::string, std::string> each;
  for (const auto& [name, t] : file.tensors) {
    const std::string_view bytes(reinterpret_cast<const char*>(t.raw()),
                                 static_cast<size_t>(t.numel()) * itemSize(t.dtype()));
    each.emplace(name, fmt::format("{} {} {:016x}\n", shortName(t.dtype()), dimsText(t.sizes()), checksumOf(bytes)));
  }
  std::string all;
  for (const auto& [name, text] : each) all += name + " " + text;
  return fmt::format("{:016x}", checksumOf(all));
}

struct EngineFileFields {
  const EngineFile& file;
  uint64_t size, tensorBytes;
  const Graph& graph;
  GraphSummary summary;
  std::vector<std::string> needs;  // operators and plugins that a library has to bring

  template <class Visit>
  void fields(Visit&& visit) const {
    const EngineInfo& info = file.info;
    std::vector<std::string> options, ranges;
    for (const std::string& setting : info.options)
      for (std::string& word : optionWords(setting)) options.push_back(std::move(word));
    for (const InputRange& range : info.inputs) ranges.push_back(inputRangeText(range));
    const std::vector<const Node*> engines = enginesOf(graph);
    visit("bytes", size);
    visit("format", kEngineFormat);
    visit("version", info.version);
    visit("cpu", info.cpu);
    visit("source", info.source);
    visit("source_hash", info.sourceHash);
    visit("weights", info.weights);
    visit("options", options);
    visit("ranges", ranges);
    if (!info.bound.empty()) visit("bound", info.bound);
    if (!info.exported.empty()) visit("exported", exportedTexts(info));
    if (!info.exported.conditions.empty()) visit("conditions", conditionTexts(info.exported));
    if (const std::vector<std::string> defaults = defaultsIn(file); !defaults.empty()) visit("defaults", defaults);
    visit("precision", precisionName(info.precision));
    if (!needs.empty()) visit("needs", needs);
    visit("tensors", file.tensors.size());
    visit("tensor_bytes", tensorBytes);
    visit("tensor_checksum", tensorChecksum(file));
    visit("engines", Lines{std::vector<EngineNodeFields>(engines.begin(), engines.end())});
    visit("fallback_nodes", fallbackNodes(graph));
    visit("graph", summary);
  }
};

struct MethodsFields {
  const std::vector<DumpedMethod>& methods;

  template <class Visit>
  void fields(Visit&& visit) const {
    for (const DumpedMethod& m : methods)
      visit(m.name, OrNull<GraphSummary>{m.graph ? std::optional(summarize(*m.graph)) : std::nullopt});
  }
};

struct ModuleFields {
  const DumpedModule& m;
  size_t depth, parameters;

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("class", m.className);
    visit("depth", depth);
    visit("parameters", parameters);
    visit("attributes", m.attributes.size() - parameters);
    visit("methods", MethodsFields{m.methods});
  }
};

struct TensorFields {
  TensorFields(const TensorEntry& t) : tensor(t) {}  // NOLINT: as JSON has it
  const TensorEntry& tensor;

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("name", tensor.name);
    visit("dtype", tensor.dtype);
    visit("shape", tensor.sizes);
    visit("bytes", tensor.end - tensor.begin);
  }
};

struct SafetensorsFields {
  const SafetensorsHeader& header;
  uint64_t bytes;

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("bytes", bytes);
    visit("metadata", Members{header.metadata});
    visit("tensors", Lines{std::vector<TensorFields>(header.tensors.begin(), header.tensors.end())});
  }
};

struct NpyFields {
  const NpyHeader& header;

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("dtype", pythonName(header.dtype));
    visit("shape", header.sizes);
    visit("fortran_order", header.fortranOrder);
  }
};

}  // namespace tscompile
