#include "api/language_model.h"

#include "api/bounded_json.h"
#include "api/compile.h"
#include "api/engine_file.h"
#include "api/lower.h"
#include "api/saved_plugins.h"
#include "api/serving_proof.h"
#include "frontend/files/file_io.h"
#include "frontend/files/section_file.h"
#include "ir/graph/clone.h"
#include "ir/support/text.h"
#include "passes/serving/attention_node.h"
#include "passes/serving/entrance.h"
#include "passes/serving/serving.h"
#include "runtime/interpreter/evaluator.h"
#include "runtime/plugin/plugin_operators.h"
#include "runtime/reference/loops/copy.h"
#include "runtime/trtllm/attention/params.h"

#include <fmt/core.h>

#include <bit>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <map>
#include <sys/file.h>
#include <unistd.h>

namespace tscompile {
namespace {

using Json = nlohmann::ordered_json;

// ---- building ----

int64_t quantMode(DType stored) {
  return stored == DType::Int8 ? kInt8KvCache : stored == DType::Float8E4M3FN ? kFp8KvCache : 0;
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
    DType stored = c.kvCacheDtype == DType::Float8E4M3FN ? DType::UInt8 : c.kvCacheDtype;
    Dims least{1, 2, s.kvHeads, c.tokensPerBlock, s.headSize}, most = least, most1 = least;
    most[0] = k.blocks;
    most1[0] = int64_t{1} << 28;
    return {least, most, most1, stored};
  }
  if (startsWith(name, "kv_cache_") && endsWith(name, "_scale")) return {{1}, DType::Float32};
  return {{1}, {rows}, {rows}, DType::Int32};
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

struct EngineMade {
  std::string file;
  uint64_t bytes;
  std::string checksum;
};

std::string configText(const BuildConfig& config, const LanguageModelShape& shape, const Json& plugins,
                       const ServingModel& serving, const EngineMade& engine) {
  Json out = {{"version", std::string(libraryVersion())},
              {"format", kBuiltModelFormat},
              {"pretrained_config", shapeJson(shape)},
              {"build_config", Json::parse(buildConfigJson(config))},
              {"plugins", plugins},
              {"inputs", serving.inputs},
              {"engine", {{"file", engine.file}, {"bytes", engine.bytes}, {"checksum", engine.checksum}}}};
  return out.dump(4) + "\n";
}

bool failIn(const std::string& path, std::string what, Diagnostics& diagnostics, ErrorKind kind = ErrorKind::Input) {
  diagnostics.fileError(path, {}, std::move(what), kind);
  return false;
}

// Caches in which the keys of a sequence lie in one piece have one block for it.
bool settlePieces(BuildConfig& config, Diagnostics& diagnostics) {
  if (config.kvCacheType != KvCacheType::Continuous) return true;
  constexpr uint64_t kLongest = 1 << 16;
  bool isWindow = config.window && config.window < config.maxSeqLen;
  uint64_t tokens = static_cast<uint64_t>(isWindow ? config.window : config.maxSeqLen);
  if (tokens > kLongest) {
    diagnostics.error(fmt::format("kv_cache_type continuous has pieces of at most {} tokens, and {} is {}", kLongest,
                                  isWindow ? "max_attention_window_size" : "max_seq_len", tokens),
                      ErrorKind::Unsupported);
    return false;
  }
  config.tokensPerBlock = static_cast<int64_t>(std::bit_ceil(tokens));
  return true;
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
  if (config.maxInputLen > config.maxSeqLen) {
    diagnostics.error(fmt::format("max_input_len {} is more than max_seq_len {}", config.maxInputLen, config.maxSeqLen),
                      ErrorKind::Input);
    return false;
  }
  return settlePieces(config, diagnostics);
}

// Under a name of its own if there is a model, whose engine stays until config.json names this one.
std::optional<EngineMade> writeEngine(const Module& compiled, const std::string& folder, const Limits& limits,
                                      Diagnostics& diagnostics) {
  std::error_code error;
  bool isFirst = !std::filesystem::exists(folder + "/config.json", error);
  std::string path = folder + "/" + (isFirst ? kBuiltModelEngine : "rank0-new.engine");
  if (!compiled.save(path, diagnostics, limits)) return std::nullopt;
  std::optional<std::string> checksum = engineChecksum(path, diagnostics);
  if (!checksum) return std::nullopt;
  EngineMade made{kBuiltModelEngine, std::filesystem::file_size(path, error), *checksum};
  if (isFirst) return made;
  made.file = "rank0-" + *checksum + ".engine";
  std::filesystem::rename(path, folder + "/" + made.file, error);
  if (!error) return made;
  failIn(folder + "/" + made.file, "cannot write: " + error.message(), diagnostics, ErrorKind::Io);
  return std::nullopt;
}

// Gives an engine that config.json names its usual name as well. False where links are not possible.
bool linkAsUsual(const std::string& folder, const std::string& file) {
  const std::string link = folder + "/rank0-link.engine";
  std::error_code error;
  std::filesystem::remove(link, error);
  std::filesystem::create_hard_link(folder + "/" + file, link, error);
  if (!error) std::filesystem::rename(link, folder + "/" + kBuiltModelEngine, error);
  return !error;
}

// Builds in one folder follow each other.
class FolderLock {
 public:
  explicit FolderLock(const std::string& folder) : file_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    while (file_ >= 0 && ::flock(file_, LOCK_EX) != 0 && errno == EINTR) {
    }
  }
  ~FolderLock() {
    if (file_ >= 0) ::close(file_);
  }
  FolderLock(const FolderLock&) = delete;

 private:
  int file_;
};

// Of config.json; 0: there is none.
uint64_t sumOfConfig(const std::string& folder) {
  Diagnostics ignored;
  Result<std::string> text = readFile(folder + "/config.json", kMostConfigBytes, ignored);
  return text ? checksumOf(*text) : 0;
}

}  // namespace

bool buildLanguageModel(const Module& module, const BuildConfig& given, const std::string& folder,
                        Diagnostics& diagnostics) {
  BuildConfig config = given;
  LowerOptions lowering;
  // The sizes of a trace are those of its example.
  lowering.query = Query().including({"default", "any_sizes"});
  Result<Module> lowered = module.lowered(lowering, diagnostics);
  if (!lowered) return false;
  if (!lowered->prepare(diagnostics)) return false;  // reports weights that are missing
  std::unique_ptr<Graph> graph = cloneGraph(*lowered->graph());
  std::unique_ptr<Evaluator> evaluator = makeEvaluator(module.registry());
  Result<Entrance> entrance = openEntrance(*graph, module.registry(), *evaluator, diagnostics);
  if (!entrance) return false;
  std::unique_ptr<Graph> reference = cloneGraph(*graph);
  LanguageModelShape shape;
  shape.positions = entrance->positions;
  ServingOptions serving;
  if (!settle(config, shape, diagnostics)) return false;
  serving.tokensPerBlock = config.tokensPerBlock;
  serving.longest = config.maxSeqLen;
  serving.kvCacheQuantMode = quantMode(config.kvCacheDtype);
  serving.gatherContextLogits = config.gatherContextLogits;
  Result<ServingModel> served = prepareForServing(*graph, module.registry(), *evaluator, serving, diagnostics);
  if (!served) return false;
  shape.layers = served->layers, shape.heads = served->heads, shape.kvHeads = served->kvHeads;
  shape.headSize = served->headSize, shape.hidden = served->hidden, shape.vocabulary = served->vocabulary;
  KvCacheConfig cache = cacheOf(config, shape);
  if (!validateKvCache(cache, diagnostics)) return false;
  // Each layer has a pool of its own, which is written where it lies.
  for (AttentionNode& node : AttentionNode::all(*graph)) node.set("inplace", IValue(1));

  CompileSpec spec;
  std::vector<CompileInput> inputs;
  for (const std::string& name : served->inputs) inputs.push_back(rangeOf(name, config, shape, cache));
  spec.setInputs(inputs);
  spec.minBlockSize = 1;
  spec.refittable = config.useRefit;
  spec.isLanguageModel = true;
  spec.engine.precision = config.weightPrecision;
  Module packed = lowered->withGraph(std::move(graph));
  Result<Module> compiled = packed.compiled(spec, diagnostics);
  if (!compiled) return false;

  BuiltModel built;
  built.config = config, built.shape = shape, built.cache = cache, built.inputs = served->inputs;
  ServingSteps steps{module, *entrance, lowered->withGraph(std::move(reference)), packed, *compiled};
  if (!proveServing(steps, built, diagnostics)) return false;

  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return failIn(folder, "the folder cannot be made: " + error.message(), diagnostics, ErrorKind::Io);
  FolderLock lock(folder);
  std::optional<EngineMade> engine = writeEngine(*compiled, folder, lowering.limits, diagnostics);
  if (!engine) return false;
  Json plugins = pluginsJson(*compiled->graph(), module.registry());
  auto writeConfig = [&] {
    return writeFile(folder + "/config.json", configText(config, shape, plugins, *served, *engine), diagnostics);
  };
  if (!writeConfig()) return false;
  if (engine->file != kBuiltModelEngine && linkAsUsual(folder, engine->file)) {
    engine->file = kBuiltModelEngine;
    if (!writeConfig()) return false;
  }
  removeOtherEngines(folder, engine->file);
  return true;
}

bool refitLanguageModel(const std::string& folder, const RefitOptions& options, const std::string& output,
                        Diagnostics& diagnostics) {
  Result<BuiltModel> built = readBuiltModel(folder, diagnostics);
  if (!built) return false;
  LoadOptions load = options.load;
  load.weights.clear();
  Result<Module> old = Module::load(built->engine, load, diagnostics);
  if (!old) return false;
  std::shared_ptr<const RefitSource> source = refittedSource(built->engine, old->refitSource(), options, diagnostics);
  if (!source) return false;
  Result<Module> module = Module::fromRefitSource(*source, load, diagnostics);
  return module && buildLanguageModel(*module, built->config, output, diagnostics);
}

// ---- running ----

std::unique_ptr<LanguageModel> LanguageModel::load(const std::string& folder, const Options& options,
                                                   Diagnostics& diagnostics) {
  // A build in this place replaces config.json before it touches the engine that the old one names: what was read
  // between two equal ones belongs together.
  constexpr int kMostBuilds = 20;
  for (int i = 0;; ++i) {
    const uint64_t config = sumOfConfig(folder);
    Diagnostics failures;
    Result<BuiltModel> built = readBuiltModel(folder, failures);
    Result<Module> module = built ? Module::load(built->engine, options.load, failures) : Result<Module>(Failed{});
    if (i < kMostBuilds && sumOfConfig(folder) != config) continue;
    if (module) return of(*module, *built, options, diagnostics);
    for (const Diagnostic& d : failures.list()) diagnostics.add(d);
    return nullptr;
  }
}

std::unique_ptr<LanguageModel> LanguageModel::of(const Module& module, const BuiltModel& built, const Options& options,
                                                 Diagnostics& diagnostics) {
  std::unique_ptr<LanguageModel> m(new LanguageModel);
  m->module_ = std::make_unique<Module>(module);
  Result<Method> method = m->module_->prepare(diagnostics);
  if (!method) return nullptr;
  m->method_ = std::make_unique<Method>(std::move(*method));
  if (built.inputs.size() != m->method_->inputs().size()) {
    failIn(built.path, "the inputs that it names are not those of the engine", diagnostics, ErrorKind::Incompatible);
    return nullptr;
  }
  m->config_ = built.config;
  m->shape_ = built.shape;
  m->inputs_ = built.inputs;
  m->cache_ = built.cache;
  LanguageModelShape& s = m->shape_;
  // Before memory is taken for that many caches.
  auto isPool = [](const std::string& name) { return startsWith(name, "kv_cache_pool_"); };
  if (std::count_if(built.inputs.begin(), built.inputs.end(), isPool) != s.layers) {
    failIn(built.path, fmt::format("the engine has no caches of {} layers", s.layers), diagnostics,
           ErrorKind::Incompatible);
    return nullptr;
  }
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
  m->run_ = options.run;
  m->run_.threads = options.threads;
  return m;
}

BatchLimits LanguageModel::limits() const {
  BatchLimits l;
  l.maxBatchSize = config_.maxBatchSize;
  l.maxNumTokens = config_.maxNumTokens;
  l.maxSequenceLength = config_.maxSeqLen;
  l.maxPromptLength = config_.maxInputLen;
  l.maxBeamWidth = config_.maxBeamWidth;
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
      out.emplace_back(scale(1 / cacheScaleOf(config_)));
    else if (name == "kv_cache_dequantization_scale")
      out.emplace_back(scale(cacheScaleOf(config_)));
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

Result<std::vector<IValue>> LanguageModel::outputs(const StepBatch& batch, Diagnostics& diagnostics) {
  for (const Tensor& pool : pools_) copyBlocks(cache_, pool, batch.copies);
  Result<std::vector<IValue>> inputs = inputsOf(batch, diagnostics);
  if (!inputs) return Failed{};
  return method_->run(*inputs, diagnostics, run_);
}

Result<Tensor> LanguageModel::step(const StepBatch& batch, Diagnostics& diagnostics) {
  Result<std::vector<IValue>> out = outputs(batch, diagnostics);
  if (!out) return Failed{};
  Tensor logits = !out->empty() && out->at(0).isTensor() ? out->at(0).toTensor() : Tensor();
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
  logits = contiguous(logits);  // an engine may give one element expanded
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
