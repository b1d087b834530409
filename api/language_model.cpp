#include "api/language_model.h"

#include "api/bounded_json.h"
#include "api/compile.h"
#include "api/engine_file.h"
#include "api/lower.h"
#include "api/saved_plugins.h"
#include "frontend/file_io.h"
#include "frontend/section_file.h"
#include "ir/clone.h"
#include "ir/support/text.h"
#include "passes/serving.h"
#include "passes/serving/attention_node.h"
#include "runtime/evaluator.h"
#include "runtime/plugin/plugin_operators.h"

#include <fmt/core.h>

#include <cstring>
#include <filesystem>
#include <map>

namespace tscompile {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kEngine = "rank0.engine";
constexpr int kFormat = 1;

// ---- building ----

// Rows of the table that position_ids look up in; 0 if there is none.
int64_t positionsOf(const Graph& graph) {
  int64_t rows = 0;
  forEachNode(graph, [&](const Node* n) {
    if (n->kind().text() != "aten::embedding" || n->inputCount() < 2 || n->input(1) != graph.input(1)) return;
    const Node* table = n->input(0)->node();
    const IValue* v = table ? table->attributeValue(sym::value) : nullptr;
    if (v && v->isTensor() && v->tensorImpl() && v->tensorImpl()->rank() > 0) rows = v->toTensor().size(0);
    TypePtr t = n->input(0)->type();
    if (!rows && t->isTensor() && t->tensor().hasRank && !t->tensor().sizes.empty() &&
        isKnownSize(t->tensor().sizes[0]))
      rows = t->tensor().sizes[0];
  });
  return rows;
}

Precision precisionOf(const BuildConfig& c) {
  if (c.weightPrecision == "float16") return Precision::F16;
  if (c.weightPrecision == "bfloat16") return Precision::BF16;
  return c.weightPrecision == "int8" ? Precision::Int8 : Precision::F32;
}

DType cacheType(const BuildConfig& c) {
  return c.kvCacheDtype == "int8" ? DType::Int8 : c.kvCacheDtype == "fp8" ? DType::Float8E4M3FN : DType::Float32;
}

double cacheScale(const BuildConfig& c) {
  if (c.kvCacheScale > 0) return c.kvCacheScale;
  return c.kvCacheDtype == "int8" ? 1.0 / 32 : 1.0;
}

// Sizes of an input of the serving graph, from least to most.
CompileInput rangeOf(const std::string& name, const BuildConfig& c, const LanguageModelShape& s,
                     const KvCacheConfig& k) {
  int64_t rows = c.maxBatchSize, tokens = c.maxNumTokens, usual = c.optNumTokens ? c.optNumTokens : c.maxBatchSize;
  usual = std::min(usual, tokens);
  int64_t blocks = k.blocksFor(c.maxSeqLen);
  if (name == "input_ids" || name == "position_ids") return {{1, 1}, {1, usual}, {1, tokens}, DType::Int64};
  if (name == "host_max_attention_window_sizes") return {{s.layers}, DType::Int32};
  if (name == "host_sink_token_length") return {{1}, DType::Int32};
  if (name == "kv_cache_block_offsets") return {{1, 2, blocks}, {rows, 2, blocks}, {rows, 2, blocks}, DType::Int32};
  if (startsWith(name, "kv_cache_pool_")) {
    DType stored = cacheType(c) == DType::Float8E4M3FN ? DType::UInt8 : cacheType(c);
    Dims least{1, 2, s.kvHeads, c.tokensPerBlock, s.headSize}, most = least, most1 = least;
    most[0] = k.blocks;
    most1[0] = int64_t{1} << 28;
    return {least, most, most1, stored};
  }
  if (startsWith(name, "kv_cache_") && endsWith(name, "_scale")) return {{1}, DType::Float32};
  return {{1}, {rows}, {rows}, DType::Int32};
}

KvCacheConfig cacheOf(const BuildConfig& c, const LanguageModelShape& s) {
  KvCacheConfig k;
  k.layers = 1;
  k.kvHeads = s.kvHeads;
  k.headSize = s.headSize;
  k.tokensPerBlock = c.tokensPerBlock;
  k.dtype = cacheType(c);
  k.window = c.window;
  k.sinks = c.sinks;
  k.reuse = c.window == 0;
  k.blocks = c.kvCacheBlocks ? c.kvCacheBlocks : c.maxBatchSize * k.blocksFor(c.maxSeqLen);
  return k;
}

Json shapeJson(const LanguageModelShape& s) {
  return {{"num_hidden_layers", s.layers},
          {"num_attention_heads", s.heads},
          {"num_key_value_heads", s.kvHeads},
          {"head_size", s.headSize},
          {"hidden_size", s.hidden},
          {"vocab_size", s.vocabulary},
          {"max_position_embeddings", s.positions}};
}

// The plugins that the graph needs, each once.
Json pluginsJson(const Graph& graph, const OpRegistry& registry) {
  std::map<std::string, Json> seen;
  forEachPluginNode(graph, registry, [&](const Node& node, const PluginOperators& operators) {
    std::shared_ptr<const PluginInstance> plugin = operators.instanceOf(node, nullptr);
    if (!plugin) return;
    const PluginCreator& c = plugin->creator();
    seen[c.key.text()] = {{"namespace", c.key.ns},
                          {"name", c.key.name},
                          {"version", c.key.version},
                          {"fields_version", c.table().fields_version}};
  });
  Json out = Json::array();
  for (auto& [key, plugin] : seen) out.push_back(plugin);
  return out;
}

std::string configText(const BuildConfig& config, const LanguageModelShape& shape, const Json& plugins,
                       const ServingModel& serving, uint64_t engineBytes, const std::string& checksum) {
  Json out = {{"version", std::string(libraryVersion())},
              {"format", kFormat},
              {"pretrained_config", shapeJson(shape)},
              {"build_config", Json::parse(buildConfigJson(config))},
              {"plugins", plugins},
              {"inputs", serving.inputs},
              {"engine", {{"file", kEngine}, {"bytes", engineBytes}, {"checksum", checksum}}}};
  return out.dump(4) + "\n";
}

// A checksum of the beginning of an engine file, where the checksums of all its sections are.
std::optional<std::string> headOf(const std::string& path, Diagnostics& diagnostics) {
  constexpr uint64_t kHead = 4096;
  Result<std::string> head = readFileStart(path, kHead, diagnostics);
  if (!head) return std::nullopt;
  return fmt::format("{:016x}", checksumOf(*head));
}

bool failIn(const std::string& path, std::string what, Diagnostics& diagnostics, ErrorKind kind = ErrorKind::Input) {
  diagnostics.fileError(path, {}, std::move(what), kind);
  return false;
}

// Takes what the model says for settings that were left open, and refuses what it cannot do.
bool settle(BuildConfig& config, const LanguageModelShape& shape, Diagnostics& diagnostics) {
  if (config.maxSeqLen == 0) {
    constexpr int64_t kUsual = 1024;
    config.maxSeqLen = std::max(shape.positions ? shape.positions : kUsual, config.maxInputLen);
  }
  if (config.maxInputLen == 0) config.maxInputLen = config.maxSeqLen;
  if (shape.positions && config.maxSeqLen > shape.positions) {
    diagnostics.error(
        fmt::format("max_seq_len is {}, but the model has {} positions", config.maxSeqLen, shape.positions),
        ErrorKind::Input);
    return false;
  }
  return true;
}

}  // namespace

bool buildLanguageModel(const Module& module, const BuildConfig& given, const std::string& folder,
                        Diagnostics& diagnostics) {
  BuildConfig config = given;
  LowerOptions lowering;
  Result<Module> lowered = module.lowered(lowering, diagnostics);
  if (!lowered) return false;
  std::unique_ptr<Graph> graph = cloneGraph(*lowered->graph());
  LanguageModelShape shape;
  shape.positions = graph->inputs().size() > 1 ? positionsOf(*graph) : 0;
  std::unique_ptr<Evaluator> evaluator = makeEvaluator(module.registry());
  ServingOptions serving;
  serving.tokensPerBlock = config.tokensPerBlock;
  serving.kvCacheQuantMode = config.kvCacheDtype == "int8" ? 64 : config.kvCacheDtype == "fp8" ? 128 : 0;
  serving.gatherContextLogits = config.gatherContextLogits;
  Result<ServingModel> served = prepareForServing(*graph, module.registry(), *evaluator, serving, diagnostics);
  if (!served) return false;
  shape.layers = served->layers, shape.heads = served->heads, shape.kvHeads = served->kvHeads;
  shape.headSize = served->headSize, shape.hidden = served->hidden, shape.vocabulary = served->vocabulary;
  if (!settle(config, shape, diagnostics)) return false;
  KvCacheConfig cache = cacheOf(config, shape);
  if (!validateKvCache(cache, diagnostics)) return false;
  // Each layer has a pool of its own, which is written where it lies.
  for (AttentionNode& node : AttentionNode::all(*graph)) node.set("inplace", IValue(1));

  CompileSpec spec;
  for (const std::string& name : served->inputs) spec.inputs.push_back(rangeOf(name, config, shape, cache));
  spec.minBlockSize = 1;
  spec.engine.precision = precisionOf(config);
  if (config.weightPrecision == "int8") spec.enabledPrecisions = {DType::Float32, DType::Int8};
  if (config.weightPrecision == "float16") spec.enabledPrecisions = {DType::Float32, DType::Float16};
  if (config.weightPrecision == "bfloat16") spec.enabledPrecisions = {DType::Float32, DType::BFloat16};
  Result<Module> compiled = lowered->withGraph(std::move(graph)).compiled(spec, diagnostics);
  if (!compiled) return false;

  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return failIn(folder, "the folder cannot be made: " + error.message(), diagnostics, ErrorKind::Io);
  std::string engine = folder + "/" + kEngine;
  if (!compiled->save(engine, diagnostics, lowering.limits)) return false;
  uint64_t bytes = std::filesystem::file_size(engine, error);
  std::optional<std::string> checksum = headOf(engine, diagnostics);
  if (!checksum) return false;
  Json plugins = pluginsJson(*compiled->graph(), module.registry());
  FileWriter file(folder + "/config.json", diagnostics);
  return file.write(configText(config, shape, plugins, *served, bytes, *checksum)) && file.commit();
}

// ---- running ----

std::unique_ptr<LanguageModel> LanguageModel::load(const std::string& folder, const Options& options,
                                                   Diagnostics& diagnostics) {
  std::string path = folder + "/config.json";
  Result<std::string> text = readFile(path, uint64_t{1} << 24, diagnostics);
  if (!text) return nullptr;
  auto fail = [&](std::string what, ErrorKind kind = ErrorKind::Input) -> std::unique_ptr<LanguageModel> {
    failIn(path, std::move(what), diagnostics, kind);
    return nullptr;
  };
  Json json = parseBoundedJson(*text);
  auto number = [&](const Json& at, const char* name) -> int64_t {
    auto it = at.is_object() ? at.find(name) : at.end();
    return it != at.end() && it->is_number_integer() ? it->get<int64_t>() : -1;
  };
  if (!json.is_object() || !json.contains("pretrained_config") || !json.contains("build_config") ||
      !json.contains("engine") || !json.contains("inputs"))
    return fail("this is no config.json of a language model that was built");
  if (number(json, "format") != kFormat)
    return fail(fmt::format("the model was built in format {}, and this tscompile {} reads format {}",
                            number(json, "format"), libraryVersion(), kFormat),
                ErrorKind::Incompatible);
  std::unique_ptr<LanguageModel> m(new LanguageModel);
  Result<BuildConfig> config = parseBuildConfig(json["build_config"].dump(), path, diagnostics);
  if (!config || !checkBuildConfig(*config, diagnostics)) return nullptr;
  m->config_ = std::move(*config);
  const Json& p = json["pretrained_config"];
  LanguageModelShape& s = m->shape_;
  s = {number(p, "num_hidden_layers"),
       number(p, "num_attention_heads"),
       number(p, "num_key_value_heads"),
       number(p, "head_size"),
       number(p, "hidden_size"),
       number(p, "vocab_size"),
       number(p, "max_position_embeddings")};
  for (int64_t v : {s.layers, s.heads, s.kvHeads, s.headSize, s.vocabulary})
    if (v < 1 || v > (int64_t{1} << 24)) return fail("pretrained_config is not what a build writes");
  if (m->config_.maxSeqLen < 1) return fail("build_config has no max_seq_len");

  std::string engine = folder + "/" + kEngine;
  std::error_code error;
  uint64_t bytes = std::filesystem::file_size(engine, error);
  std::optional<std::string> checksum = headOf(engine, diagnostics);
  if (!checksum) return nullptr;
  const Json& named = json["engine"];
  bool isIt = named.is_object() && named.contains("checksum") && named["checksum"] == *checksum;
  if (error || static_cast<int64_t>(bytes) != number(named, "bytes") || !isIt)
    return fail("the engine beside it is another than it was built with: build the model again",
                ErrorKind::Incompatible);
  Result<Module> module = Module::load(engine, options.load, diagnostics);
  if (!module) return nullptr;
  m->module_ = std::make_unique<Module>(std::move(*module));
  Result<Method> method = m->module_->prepare(diagnostics);
  if (!method) return nullptr;
  m->method_ = std::make_unique<Method>(std::move(*method));
  for (const Json& name : json["inputs"])
    if (name.is_string()) m->inputs_.push_back(name.get<std::string>());
  if (m->inputs_.size() != m->method_->inputs().size())
    return fail("the inputs that it names are not those of the engine", ErrorKind::Incompatible);

  m->cache_ = cacheOf(m->config_, s);
  if (options.cacheBlocks) m->cache_.blocks = options.cacheBlocks;
  if (!validateKvCache(m->cache_, diagnostics)) return nullptr;
  try {
    for (int64_t layer = 0; layer < s.layers; ++layer) {
      Tensor pool = makeKvPool(m->cache_);
      Dims sizes{m->cache_.blocks, 2, s.kvHeads, m->cache_.tokensPerBlock, s.headSize};
      DType type = pool.dtype();
      if (m->cache_.dtype == DType::Float8E4M3FN) type = DType::UInt8;
      m->pools_.push_back(Tensor::view(type, pool.storage(), sizes, contiguousStrides(sizes), 0));
    }
  } catch (const ExecutionError& e) {
    diagnostics.error("the KV cache: " + e.message(), e.kind());
    return nullptr;
  }
  m->threads_ = options.threads;
  return m;
}

BatchLimits LanguageModel::limits() const {
  BatchLimits l;
  l.maxBatchSize = config_.maxBatchSize;
  l.maxNumTokens = config_.maxNumTokens;
  l.maxSequenceLength = config_.maxSeqLen;
  return l;
}

int64_t LanguageModel::cacheBytes() const { return shape_.layers * cache_.blocks * cache_.bytesPerBlock(); }

Result<std::vector<IValue>> LanguageModel::inputsOf(const StepBatch& batch, Diagnostics& diagnostics) const {
  int64_t tokens = static_cast<int64_t>(batch.tokens.size()), rows = batch.rows();
  int64_t blocks = cache_.blocksFor(config_.maxSeqLen);
  auto ints = [](const std::vector<int32_t>& v) {
    return Tensor::of<int32_t>(Dims{static_cast<int64_t>(v.size())}, v);
  };
  // As many columns for every step: engines are made for sizes.
  auto table = [&] {
    Tensor t = Tensor::empty(DType::Int32, Dims{rows, 2, blocks});
    std::fill_n(t.data<int32_t>(), t.numel(), -1);
    for (int64_t r = 0; r < rows * 2; ++r)
      std::copy_n(batch.blockTable.data() + r * batch.maxBlocks, std::min(batch.maxBlocks, blocks),
                  t.data<int32_t>() + r * blocks);
    return t;
  };
  auto scale = [&](double v) { return Tensor::of<float>(Dims{1}, std::vector<float>{static_cast<float>(v)}); };
  std::vector<IValue> out;
  size_t layer = 0;
  for (const std::string& name : inputs_) {
    if (name == "input_ids")
      out.emplace_back(Tensor::of<int64_t>(Dims{1, tokens}, batch.tokens));
    else if (name == "position_ids")
      out.emplace_back(Tensor::of<int64_t>(Dims{1, tokens}, batch.positions));
    else if (name == "sequence_length")
      out.emplace_back(ints(batch.sequenceLengths));
    else if (name == "host_past_key_value_lengths")
      out.emplace_back(ints(batch.pastLengths));
    else if (name == "context_lengths")
      out.emplace_back(ints(batch.contextLengths));
    else if (name == "host_request_types")
      out.emplace_back(ints(batch.requestTypes));
    else if (name == "last_token_ids")
      out.emplace_back(ints(batch.lastTokenIds));
    else if (name == "kv_cache_block_offsets")
      out.emplace_back(table());
    else if (name == "host_max_attention_window_sizes")
      out.emplace_back(
          ints(std::vector<int32_t>(static_cast<size_t>(shape_.layers),
                                    static_cast<int32_t>(config_.window ? config_.window : config_.maxSeqLen))));
    else if (name == "host_sink_token_length")
      out.emplace_back(ints({static_cast<int32_t>(config_.sinks)}));
    else if (name == "kv_cache_quantization_scale")
      out.emplace_back(scale(1 / cacheScale(config_)));
    else if (name == "kv_cache_dequantization_scale")
      out.emplace_back(scale(cacheScale(config_)));
    else if (startsWith(name, "kv_cache_pool_") && layer < pools_.size())
      out.emplace_back(pools_[layer++]);
    else {
      diagnostics.error("the model has an input " + abbreviate(name, 80) + " that nothing is known of",
                        ErrorKind::Incompatible);
      return Failed{};
    }
  }
  return out;
}

Result<Tensor> LanguageModel::step(const StepBatch& batch, Diagnostics& diagnostics) {
  for (const Tensor& pool : pools_) copyBlocks(cache_, pool, batch.copies);
  Result<std::vector<IValue>> inputs = inputsOf(batch, diagnostics);
  if (!inputs) return Failed{};
  RunOptions options;
  options.threads = threads_;
  Result<std::vector<IValue>> out = method_->run(*inputs, diagnostics, options);
  if (!out) return Failed{};
  Tensor logits = out->at(0).isTensor() ? out->at(0).toTensor() : Tensor();
  int64_t rows = config_.gatherContextLogits ? static_cast<int64_t>(batch.tokens.size()) : batch.rows();
  if (!logits.defined() || logits.dtype() != DType::Float32 || logits.rank() == 0 ||
      logits.size(logits.rank() - 1) != shape_.vocabulary || logits.numel() != rows * shape_.vocabulary) {
    diagnostics.error(
        fmt::format("the engine does not give float32 logits of {} tokens for {} rows, as config.json says",
                    shape_.vocabulary, rows),
        ErrorKind::Incompatible);
    return Failed{};
  }
  Dims flat{logits.numel() / shape_.vocabulary, shape_.vocabulary};
  logits = logits.withGeometry(flat, contiguousStrides(flat), logits.offset());
  if (!config_.gatherContextLogits) return logits;
  allLogits_ = logits;
  Tensor last = Tensor::empty(DType::Float32, Dims{batch.rows(), shape_.vocabulary});
  for (int64_t r = 0; r < batch.rows(); ++r)
    std::memcpy(last.data<float>() + r * shape_.vocabulary,
                logits.data<float>() + (batch.lastTokenIds[static_cast<size_t>(r)] - 1) * shape_.vocabulary,
                static_cast<size_t>(shape_.vocabulary) * sizeof(float));
  return last;
}

}  // namespace tscompile
