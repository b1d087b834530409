#include "api/built_model.h"

#include "api/compile.h"
#include "api/engine_file.h"
#include "api/module.h"
#include "api/support/bounded_json.h"
#include "api/support/saved_plugins.h"
#include "frontend/files/archive_kind.h"
#include "frontend/files/file_io.h"
#include "frontend/files/section_file.h"
#include "frontend/files/weights_folder.h"
#include "ir/support/text.h"
#include "runtime/plugin/plugin_operators.h"
#include "runtime/trtllm/attention/params.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <fcntl.h>
#include <filesystem>
#include <map>
#include <sys/file.h>
#include <unistd.h>

namespace tscompile {

double cacheScaleOf(const BuildConfig& c) {
  if (c.kvCacheScale > 0) return c.kvCacheScale;
  return c.kvCacheDtype == DType::Int8 ? 1.0 / 32 : 1.0;
}

KvCacheConfig cacheOf(const BuildConfig& c, const LanguageModelShape& s) {
  KvCacheConfig k;
  k.layers = 1;
  bool isKept = hasPools(c.kvCacheType);  // else blocks only count tokens
  k.kvHeads = isKept ? s.kvHeads : 1;
  k.headSize = isKept ? s.headSize : 1;
  k.tokensPerBlock = c.tokensPerBlock;
  k.dtype = c.kvCacheDtype;
  k.window = c.window;
  k.sinks = c.sinks;
  k.reuse = isKept && c.window == 0;
  k.blocks = c.kvCacheBlocks ? c.kvCacheBlocks : c.maxBatchSize * k.blocksFor(c.maxSeqLen);
  return k;
}

BuildConfig BuiltModel::usedConfig() const {
  BuildConfig out = config;
  out.optNumTokens = usualTokens(config);
  out.kvCacheBlocks = cache.blocks;
  return out;
}

namespace {

using Json = nlohmann::ordered_json;

// A checksum of the beginning of an engine file, where the checksums of all its sections are.
std::optional<std::string> engineChecksum(const std::string& path, Diagnostics& diagnostics) {
  constexpr uint64_t kHead = 4096;
  Result<std::string> head = readFileStart(path, kHead, diagnostics);
  if (!head) return std::nullopt;
  return fmt::format("{:016x}", checksumOf(*head));
}

// rank0.engine, rank0-1234567890abcdef.engine
bool isEngineName(std::string_view name) {
  constexpr std::string_view kBefore = "rank0", kAfter = ".engine";
  return name.size() < 64 && startsWith(name, kBefore) && endsWith(name, kAfter) &&
         name.find('/') == std::string_view::npos;
}

// Reads config.json, and reports the first thing that is not what a build writes.
class ConfigReader {
 public:
  ConfigReader(const std::string& folder, Diagnostics& diagnostics)
      : folder_(folder), path_(folder + "/config.json"), diagnostics_(diagnostics) {
    out_.path = path_;
  }

  Result<BuiltModel> read() {
    if (!isFolder()) return Failed{};
    Result<std::string> text = readFile(path_, kMostConfigBytes, diagnostics_);
    if (!text) return Failed{};
    json_ = parseBoundedJson(*text);
    for (const char* part : {"pretrained_config", "build_config", "engine", "inputs"})
      if (!json_.is_object() || !json_.contains(part)) return failAsOther();
    if (number(json_, "format") != kBuiltModelFormat)
      return fail(fmt::format("the model was built in format {}, and this tscompile {} reads format {}",
                              number(json_, "format"), libraryVersion(), kBuiltModelFormat),
                  ErrorKind::Incompatible);
    Result<BuildConfig> config = parseBuildConfig(boundedJsonText(json_["build_config"]), path_, diagnostics_);
    if (!config || !checkBuildConfig(*config, diagnostics_)) return Failed{};
    out_.config = std::move(*config);
    if (!shape() || !states() || !engine()) return Failed{};
    names();
    out_.cache = cacheOf(out_.config, out_.shape);
    if (!cache()) return Failed{};
    return std::move(out_);
  }

 private:
  bool isFolder() {
    std::error_code ignored;
    if (std::filesystem::is_regular_file(folder_, ignored))
      refuseFile();
    else if (std::filesystem::is_directory(folder_, ignored) && !std::filesystem::exists(path_, ignored))
      refuseOtherFolder();
    else
      return true;
    return false;
  }

  void refuseOtherFolder() {
    noteWeightsInside(folder_,
                      diagnostics_.fileError(folder_, {}, "this folder has no config.json: build has not made it"));
  }

  void refuseFile() {
    constexpr const char* kWanted = "a folder that build has made";
    Ref<FileMapping> file = FileMapping::open(folder_, diagnostics_);
    if (!file) return;
    const FileKind kind = detectWholeFileKind(file->bytes());
    for (FileKind model : {FileKind::TorchScript, FileKind::ExportedProgram, FileKind::GraphText, FileKind::ModuleDump})
      if (kind == model) {
        diagnostics_.fileError(folder_, {}, fmt::format("expected {}, found {}", kWanted, describe(kind)))
            .note(fmt::format("of a language model 'tscompile build {} -o built' makes one", folder_));
        return;
      }
    reportFileKind(folder_, kWanted, kind, diagnostics_);
  }

  Failed fail(std::string what, ErrorKind kind = ErrorKind::Input) {
    diagnostics_.fileError(path_, {}, std::move(what), kind);
    return {};
  }
  // Folders of transformers have a config.json, too.
  Failed failAsOther() {
    std::string name = text(json_, "model_type");
    const auto classes = json_.is_object() ? json_.find("architectures") : json_.end();
    if (classes != json_.end() && classes->is_array() && !classes->empty() && classes->front().is_string())
      name = classes->front().get<std::string>();
    if (name.empty()) return fail("this is no config.json of a language model that was built");
    diagnostics_
        .fileError(path_, {}, fmt::format("this is the config.json of {} of transformers", abbreviate(name, 80)))
        .note("docs/language_models.md has the script that saves such a model as one file, which build takes");
    return {};
  }
  static int64_t number(const Json& at, const char* name) {
    auto it = at.is_object() ? at.find(name) : at.end();
    return it != at.end() && it->is_number_integer() ? it->get<int64_t>() : -1;
  }
  static std::string text(const Json& at, const char* name) {
    auto it = at.is_object() ? at.find(name) : at.end();
    return it != at.end() && it->is_string() ? it->get<std::string>() : "";
  }

  bool shape() {
    const Json& p = json_["pretrained_config"];
    LanguageModelShape& s = out_.shape;
    s = {number(p, "num_hidden_layers"),
         number(p, "num_attention_heads"),
         number(p, "num_key_value_heads"),
         number(p, "head_size"),
         number(p, "hidden_size"),
         number(p, "vocab_size"),
         number(p, "max_position_embeddings"),
         p.is_object() && p.contains("tokens_first")};
    const int64_t least = hasPools(out_.config.kvCacheType) ? 1 : 0;
    auto isSize = [](int64_t v, int64_t from) { return v >= from && v <= (int64_t{1} << 24); };
    bool good = isSize(s.vocabulary, 1);
    for (int64_t v : {s.layers, s.heads, s.kvHeads, s.headSize}) good = good && isSize(v, least);
    if (!good || (least == 0 && s.layers != 0)) return fail("pretrained_config is not what a build writes"), false;
    if (out_.config.maxSeqLen < 1) return fail("build_config has no max_seq_len"), false;
    return true;
  }

  bool states() {
    if (!json_.contains("states")) return true;
    constexpr size_t kMostDims = 16;
    for (const Json& from : json_["states"]) {
      KeptState s;
      std::optional<DType> dtype = dtypeFromName(text(from, "dtype"));
      const bool hasSizes = from.is_object() && from.contains("sizes") && from["sizes"].is_array();
      for (size_t i = 0; hasSizes && i < from["sizes"].size() && i < kMostDims; ++i)
        s.sizes.push_back(from["sizes"][i].is_number_integer() ? from["sizes"][i].get<int64_t>() : -1);
      s.dim = number(from, "dim"), s.most = number(from, "most"), s.batch = number(from, "batch");
      auto isSize = [](int64_t n) { return n >= 0 && n <= (int64_t{1} << 31); };
      bool good = dtype && isSupported(*dtype) && hasSizes && from["sizes"].size() <= kMostDims && isSize(s.most) &&
                  std::all_of(s.sizes.begin(), s.sizes.end(), isSize) && s.dim >= 0 &&
                  s.dim < static_cast<int64_t>(s.sizes.size()) && s.sizes[static_cast<size_t>(s.dim)] == 0 &&
                  s.batch < static_cast<int64_t>(s.sizes.size()) &&
                  (s.batch < 0 || s.sizes[static_cast<size_t>(s.batch)] > 0);
      if (!good) return fail("states are not what a build writes"), false;
      s.dtype = *dtype;
      out_.states.push_back(std::move(s));
    }
    return true;
  }

  bool engine() {
    const Json& named = json_["engine"];
    std::string file = text(named, "file");
    if (!isEngineName(file)) return fail("engine names no file that a build writes"), false;
    out_.engine = folder_ + "/" + file;
    std::error_code error;
    out_.engineBytes = std::filesystem::file_size(out_.engine, error);
    std::optional<std::string> checksum = engineChecksum(out_.engine, diagnostics_);
    if (!checksum) return false;
    bool isIt = text(named, "checksum") == *checksum;
    if (!error && static_cast<int64_t>(out_.engineBytes) == number(named, "bytes") && isIt) return true;
    // One that is cut or damaged is no other one.
    Ref<FileMapping> mapping = FileMapping::open(out_.engine, diagnostics_);
    if (!mapping || !parseSectionFile(mapping->bytes(), out_.engine, diagnostics_)) return false;
    return fail("the engine beside it is another than it was built with: build the model again",
                ErrorKind::Incompatible),
           false;
  }

  // Each number may be what a build writes, and all of them together more than there can be.
  bool cache() {
    const KvCacheConfig& c = out_.cache;
    Diagnostics wrong;
    if (!validateKvCache(c, wrong))
      return fail("the sizes are not what a build writes: " + wrong.list().front().message), false;
    if (out_.shape.layers > INT64_MAX / (c.blocks * c.bytesPerBlock()))
      return fail("the KV cache of all layers has more bytes than can be counted"), false;
    return true;
  }

  void names() {
    out_.version = text(json_, "version");
    for (const Json& name : json_["inputs"])
      if (name.is_string()) out_.inputs.push_back(name.get<std::string>());
    if (json_.contains("marked_ids") && json_["marked_ids"].is_array())
      for (const Json& id : json_["marked_ids"])
        if (id.is_number_integer()) out_.marked.push_back(id.get<int64_t>());
    if (json_.contains("plugins") && json_["plugins"].is_array())
      for (const Json& p : json_["plugins"])
        out_.plugins.push_back(
            fmt::format("{}::{} version {}", text(p, "namespace"), text(p, "name"), text(p, "version")));
  }

  std::string folder_, path_;
  Diagnostics& diagnostics_;
  Json json_;
  BuiltModel out_;
};

}  // namespace

Result<BuiltModel> readBuiltModel(const std::string& folder, Diagnostics& diagnostics) {
  return ConfigReader(folder, diagnostics).read();
}

namespace {

Json shapeJson(const LanguageModelShape& s) {
  Json out = {{"num_hidden_layers", s.layers},
              {"num_attention_heads", s.heads},
              {"num_key_value_heads", s.kvHeads},
              {"head_size", s.headSize},
              {"hidden_size", s.hidden},
              {"vocab_size", s.vocabulary},
              {"max_position_embeddings", s.positions}};
  if (s.tokensFirst) out["tokens_first"] = true;
  return out;
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

std::string configText(const BuiltModel& model, const Json& plugins, const EngineMade& engine) {
  Json out = {{"version", std::string(libraryVersion())},
              {"format", kBuiltModelFormat},
              {"pretrained_config", shapeJson(model.shape)},
              {"build_config", Json::parse(buildConfigJson(model.config))},
              {"plugins", plugins},
              {"inputs", model.inputs},
              {"engine", {{"file", engine.file}, {"bytes", engine.bytes}, {"checksum", engine.checksum}}}};
  if (!model.marked.empty()) out["marked_ids"] = model.marked;
  for (const KeptState& s : model.states)
    out["states"].push_back({{"dtype", std::string(pythonName(s.dtype))},
                             {"sizes", std::vector<int64_t>(s.sizes.begin(), s.sizes.end())},
                             {"dim", s.dim},
                             {"most", s.most},
                             {"batch", s.batch}});
  return out.dump(4) + "\n";
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
  diagnostics.fileError(folder + "/" + made.file, {}, "cannot write: " + error.message(), ErrorKind::Io);
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

// Removes engines that config.json does not name: those of builds before, and of builds that were not finished.
void removeOtherEngines(const std::string& folder, const std::string& named) {
  std::error_code error;
  std::vector<std::filesystem::path> others;
  for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    if (std::string name = it->path().filename().string(); isEngineName(name) && name != named)
      others.push_back(it->path());
  for (const std::filesystem::path& other : others) std::filesystem::remove(other, error);
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

}  // namespace

bool writeBuiltModel(const BuiltModel& model, const Module& compiled, const OpRegistry& registry,
                     const std::string& folder, const Limits& limits, Diagnostics& diagnostics) {
  FolderLock lock(folder);
  std::optional<EngineMade> engine = writeEngine(compiled, folder, limits, diagnostics);
  if (!engine) return false;
  const Json plugins = pluginsJson(*compiled.graph(), registry);
  auto writeConfig = [&] {
    return writeFile(folder + "/config.json", configText(model, plugins, *engine), diagnostics);
  };
  if (!writeConfig()) return false;
  if (engine->file != kBuiltModelEngine && linkAsUsual(folder, engine->file)) {
    engine->file = kBuiltModelEngine;
    if (!writeConfig()) return false;
  }
  removeOtherEngines(folder, engine->file);
  return true;
}

namespace {

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

}  // namespace

bool settle(BuildConfig& config, const LanguageModelShape& shape, int64_t exportedFor, Diagnostics& diagnostics) {
  if (config.maxSeqLen == 0) {
    config.maxSeqLen =
        std::min(std::max(shape.positions ? shape.positions : kUsualTokens, config.maxInputLen), exportedFor);
  }
  if (config.maxSeqLen > exportedFor) {
    diagnostics.error(fmt::format("max_seq_len is {}, but the program was exported for texts of at most {} tokens",
                                  config.maxSeqLen, exportedFor),
                      ErrorKind::Input);
    return false;
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

int64_t quantMode(DType stored) {
  return stored == DType::Int8 ? kInt8KvCache : stored == DType::Float8E4M3FN ? kFp8KvCache : 0;
}

CompileInput rangeOfServed(const std::string& name, const BuildConfig& c, const LanguageModelShape& s,
                           const KvCacheConfig& k) {
  const int64_t rows = c.maxBatchSize, tokens = c.maxNumTokens, usual = usualTokens(c);
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

}  // namespace tscompile
