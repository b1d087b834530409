#include "api/build_config.h"

#include "api/support/bounded_json.h"
#include "ir/support/split.h"
#include "ir/support/text.h"

#include <fmt/core.h>

#include <algorithm>
#include <variant>

namespace tscompile {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kMost = int64_t{1} << 31;

// A setting: its name, where it goes, and the numbers or texts that it may be.
struct Setting {
  std::string_view name;
  std::variant<int64_t BuildConfig::*, double BuildConfig::*, bool BuildConfig::*, std::string BuildConfig::*,
               std::vector<std::string> BuildConfig::*, KvCacheType BuildConfig::*, DType BuildConfig::*>
      member;
  int64_t least = 0, most = kMost;
  std::string_view choices = {};  // "a|b": names of what an enum may be
  bool implemented = true;        // else only its default is
};

constexpr std::string_view kCacheTypes = "auto|paged|continuous|disabled|state";  // as the enum has them

std::string nameOf(KvCacheType type) { return std::string(split(kCacheTypes, '|')[static_cast<size_t>(type)]); }
std::string nameOf(DType dtype) { return dtype == DType::Float8E4M3FN ? "fp8" : std::string(pythonName(dtype)); }

// The enumerator of a name that there is.
KvCacheType named(std::string_view name, KvCacheType) {
  const std::vector<std::string_view> names = split(kCacheTypes, '|');
  return static_cast<KvCacheType>(std::find(names.begin(), names.end(), name) - names.begin());
}
DType named(std::string_view name, DType) { return name == "fp8" ? DType::Float8E4M3FN : *dtypeFromName(name); }

template <class T>
Json jsonOf(const T& value) {
  if constexpr (std::is_enum_v<T>)
    return nameOf(value);
  else
    return value;
}

using B = BuildConfig;
const Setting kBuildSettings[] = {
    {"max_batch_size", &B::maxBatchSize, 1, 1 << 16},
    {"max_input_len", &B::maxInputLen, 0, 1 << 24},
    {"max_seq_len", &B::maxSeqLen, 0, 1 << 24},
    {"max_beam_width", &B::maxBeamWidth, 1, 1024},
    {"max_num_tokens", &B::maxNumTokens, 1, 1 << 24},
    {"opt_num_tokens", &B::optNumTokens, 0, 1 << 24},
    {"tokens_per_block", &B::tokensPerBlock, 1, 1 << 16},
    {"kv_cache_blocks", &B::kvCacheBlocks, 0, 1 << 28},
    {"max_attention_window_size", &B::window, 0, 1 << 24},
    {"sink_token_length", &B::sinks, 0, 1 << 24},
    {"kv_cache_type", &B::kvCacheType, 0, 0, kCacheTypes},
    {"kv_cache_dtype", &B::kvCacheDtype, 0, 0, "float32|int8|fp8"},
    {"kv_cache_scale", &B::kvCacheScale},
    {"weight_precision", &B::weightPrecision, 0, 0, "float32|float16|bfloat16|int8"},
    {"gather_context_logits", &B::gatherContextLogits},
    {"use_refit", &B::useRefit},
    {"max_prompt_embedding_table_size", &B::maxPromptEmbeddingTableSize, 0, kMost, {}, false},
    {"max_draft_len", &B::maxDraftLen, 0, kMost, {}, false},
    {"max_encoder_input_len", &B::maxEncoderInputLen, 0, kMost, {}, false},
    {"max_decoder_input_len", &B::maxDecoderInputLen, 0, kMost, {}, false},
    {"mrope_rotary_cos_sin_size", &B::mropeRotaryCosSinSize, 0, kMost, {}, false},
    {"speculative_decoding_mode", &B::speculativeDecodingMode, 0, 0, {}, false},
    {"spec_decoding_is_generation_length_variable", &B::specDecodingIsGenerationLengthVariable, 0, 0, {}, false},
    {"lora_target_modules", &B::loraTargetModules, 0, 0, {}, false},
};

const Setting* settingOf(std::string_view name) {
  for (const Setting& s : kBuildSettings)
    if (s.name == name) return &s;
  return nullptr;
}

class Reader {
 public:
  Reader(BuildConfig& config, std::string path, Diagnostics& diagnostics)
      : config_(config), path_(std::move(path)), diagnostics_(diagnostics) {}

  void set(const std::string& name, const Json& value) {
    const Setting* s = settingOf(name);
    if (!s) return unknown(name);
    std::visit([&](auto member) { take(*s, config_.*member, value); }, s->member);
  }

  bool good() const { return good_; }

  // What settings mean together.
  void check() {
    auto isPowerOfTwo = [](int64_t v) { return v > 0 && (v & (v - 1)) == 0; };
    if (!isPowerOfTwo(config_.tokensPerBlock)) fail("tokens_per_block must be a power of two");
    if (!config_.window && config_.sinks) fail("sink_token_length needs max_attention_window_size");
    if (config_.window && config_.sinks >= config_.window)
      fail("sink_token_length must be less than max_attention_window_size");
    if (config_.maxSeqLen && config_.maxInputLen > config_.maxSeqLen)
      fail(fmt::format("max_input_len {} is more than max_seq_len {}", config_.maxInputLen, config_.maxSeqLen));
    if (config_.maxSeqLen == 1) fail("max_seq_len 1 leaves no token to generate");
    if (config_.maxNumTokens < config_.maxBatchSize)
      fail(fmt::format("max_num_tokens {} is less than max_batch_size {}: each row of a step has a token",
                       config_.maxNumTokens, config_.maxBatchSize));
    if (config_.optNumTokens > config_.maxNumTokens) fail("opt_num_tokens is more than max_num_tokens");
    if (config_.maxBeamWidth > config_.maxBatchSize)
      fail("max_beam_width is more than max_batch_size: each beam is a row of a step");
    if (!hasPools(config_.kvCacheType) && config_.window)
      fail("max_attention_window_size needs a cache of blocks, and kv_cache_type is " + nameOf(config_.kvCacheType));
    if (!hasPools(config_.kvCacheType) && config_.kvCacheDtype != DType::Float32)
      fail("kv_cache_dtype needs a cache of blocks, and kv_cache_type is " + nameOf(config_.kvCacheType));
  }

 private:
  void fail(std::string message, ErrorKind kind = ErrorKind::Input) {
    good_ = false;
    if (path_.empty())
      diagnostics_.error(std::move(message), kind);
    else
      diagnostics_.fileError(path_, {}, std::move(message), kind);
  }
  void unknown(const std::string& name) {
    NearestName nearest(name);
    for (const Setting& s : kBuildSettings) nearest.consider(s.name);
    fail(fmt::format("there is no setting {}{}", abbreviate(name, 80),
                     nearest.found() ? ", did you mean " + nearest.name() + "?"
                                     : ": there are " + join(kBuildSettings, ", ",
                                                             [](const Setting& s) { return std::string(s.name); })));
  }
  void wrong(const Setting& s, std::string_view expected, const Json& value) {
    fail(fmt::format("{} takes {}, not {}", s.name, expected, abbreviate(boundedJsonText(value), 80)));
  }
  // Settings without an implementation may be said to be what they are anyway.
  template <class T>
  void keep(const Setting& s, T& into, T value) {
    if (!s.implemented && !(value == into))
      return fail(fmt::format("{} is not implemented", s.name), ErrorKind::Unsupported);
    into = std::move(value);
  }

  void take(const Setting& s, int64_t& into, const Json& value) {
    std::string range = fmt::format("a number from {} to {}", s.least, s.most);
    bool fits = value.is_number_unsigned() ? value.get<uint64_t>() <= static_cast<uint64_t>(s.most)
                                           : value.is_number_integer() && value.get<int64_t>() <= s.most;
    if (!fits || value.get<int64_t>() < s.least) return wrong(s, range, value);
    keep(s, into, value.get<int64_t>());
  }
  void take(const Setting& s, double& into, const Json& value) {
    if (!value.is_number() || !(value.get<double>() >= 0 && value.get<double>() < 1e30))
      return wrong(s, "a number that is not negative", value);
    keep(s, into, value.get<double>());
  }
  void take(const Setting& s, bool& into, const Json& value) {
    if (!value.is_boolean()) return wrong(s, "true or false", value);
    keep(s, into, value.get<bool>());
  }
  void take(const Setting& s, std::string& into, const Json& value) {
    if (!value.is_string()) return wrong(s, "a text", value);
    keep(s, into, value.get<std::string>());
  }
  template <class E>
  requires std::is_enum_v<E>
  void take(const Setting& s, E& into, const Json& value) {
    if (!value.is_string()) return wrong(s, "a text", value);
    const std::vector<std::string_view> choices = split(s.choices, '|');
    if (std::find(choices.begin(), choices.end(), value.get<std::string>()) == choices.end())
      return wrong(s, "one of " + std::string(s.choices), value);
    keep(s, into, named(value.get<std::string>(), into));
  }
  void take(const Setting& s, std::vector<std::string>& into, const Json& value) {
    std::vector<std::string> items;
    for (const Json& item : value) {
      if (!value.is_array() || !item.is_string()) return wrong(s, "a list of texts", value);
      items.push_back(item.get<std::string>());
    }
    if (!value.is_array()) return wrong(s, "a list of texts", value);
    keep(s, into, std::move(items));
  }

  BuildConfig& config_;
  std::string path_;
  Diagnostics& diagnostics_;
  bool good_ = true;
};

}  // namespace

Result<BuildConfig> parseBuildConfig(std::string_view json, const std::string& path, Diagnostics& diagnostics) {
  Json parsed = parseBoundedJson(json);
  if (!parsed.is_object()) {
    diagnostics.fileError(path, {}, "expected a JSON object with the settings of a build");
    return Failed{};
  }
  // The config.json of what was built has them beside others.
  if (const auto built = parsed.find("build_config"); built != parsed.end() && built->is_object())
    parsed = Json(*built);
  BuildConfig config;
  Reader reader(config, path, diagnostics);
  for (const auto& [name, value] : parsed.items()) reader.set(name, value);
  if (!reader.good()) return Failed{};
  return config;
}

bool setBuildOption(BuildConfig& config, std::string_view assignment, Diagnostics& diagnostics) {
  Reader reader(config, "", diagnostics);
  size_t equal = assignment.find('=');
  std::string name(assignment.substr(0, equal));
  std::string value(equal == std::string_view::npos ? "" : assignment.substr(equal + 1));
  Json parsed = parseBoundedJson(value);
  const Setting* s = settingOf(name);
  bool isText = s && (std::holds_alternative<std::string BuildConfig::*>(s->member) || !s->choices.empty());
  reader.set(name, parsed.is_discarded() || isText ? Json(value) : parsed);
  return reader.good();
}

bool checkBuildConfig(const BuildConfig& config, Diagnostics& diagnostics) {
  BuildConfig copy = config;
  Reader reader(copy, "", diagnostics);
  reader.check();
  return reader.good();
}

int64_t usualTokens(const BuildConfig& config) {
  return std::min(config.optNumTokens ? config.optNumTokens : config.maxBatchSize, config.maxNumTokens);
}

std::vector<std::pair<std::string, std::string>> buildOptionTexts(const BuildConfig& config) {
  std::vector<std::pair<std::string, std::string>> out;
  for (const Setting& s : kBuildSettings) {
    if (!s.implemented) continue;
    Json value = std::visit([&](auto member) { return jsonOf(config.*member); }, s.member);
    out.emplace_back(s.name, value.is_string() ? value.get<std::string>() : boundedJsonText(value));
  }
  return out;
}

std::string buildConfigJson(const BuildConfig& config) {
  Json out = Json::object();
  for (const Setting& s : kBuildSettings)
    std::visit([&](auto member) { out[std::string(s.name)] = jsonOf(config.*member); }, s.member);
  return out.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace tscompile
