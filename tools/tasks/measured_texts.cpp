#include "tools/tasks/measured_texts.h"

#include "api/built_model.h"
#include "ir/support/quantities.h"
#include "ir/support/text.h"
#include "ir/values/random.h"
#include "passes/serving/marked_ids.h"
#include "tools/session/process.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <filesystem>

namespace tscompile {

bool isBuiltModel(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(path, ignored)) return false;
  Diagnostics unheard;
  return readBuiltModel(path, unheard).ok();
}

std::string builtEngineOf(const std::string& folder) {
  Diagnostics unheard;
  const Result<BuiltModel> built = readBuiltModel(folder, unheard);
  return built ? built->engine : "";
}

std::string builtModelOf(const std::string& engine) {
  std::string folder = std::filesystem::path(engine).parent_path();
  if (folder.empty()) folder = ".";
  std::error_code ignored;
  if (!std::filesystem::exists(folder + "/config.json", ignored)) return "";
  Diagnostics unheard;
  const Result<BuiltModel> built = readBuiltModel(folder, unheard);
  return built && std::filesystem::equivalent(built->engine, engine, ignored) ? folder : "";
}

void checkBuiltModelOptions(const Options& options, std::initializer_list<std::string_view> meant) {
  for (const SaidOption& said : options.said) {
    const auto isSaid = [&](const OptionSpec& o) { return std::ranges::count(namesOf(o), said.name) > 0; };
    if (std::ranges::any_of(options.verb->options, isSaid) && std::ranges::count(meant, said.name) == 0)
      throw UsageError{said.name + " is for other models: " + abbreviate(options.arguments[0], 80) +
                           " is a language model that was built, which takes texts",
                       {said.name == "--against" ? "'bench --format json' of each writes files that 'diff' compares"
                                                 : "their tokens are said by prompt=128 and new=64 among the sizes"}};
  }
}

std::unique_ptr<MeasuredTexts> MeasuredTexts::load(const std::string& folder, int threads, Session& session) {
  LanguageModel::Options options;
  options.threads = threads;
  options.load.limits = session.common.limits;
  options.run = session.runLimits();
  std::unique_ptr<MeasuredTexts> out(new MeasuredTexts);
  out->model_ = LanguageModel::load(folder, options, session.diagnostics);
  if (!out->model_) return nullptr;
  Diagnostics unheard;
  if (const Result<BuiltModel> built = readBuiltModel(folder, unheard))
    out->engine_ = built->engine, out->marked_ = built->marked;
  return out;
}

std::string MeasuredTexts::cacheText() const {
  switch (model_->config().kvCacheType) {
    case KvCacheType::Disabled:
      return "none: each step computes whole texts";
    case KvCacheType::State:
      return "of each text by itself";
    default:
      return fmt::format("blocks of {} tokens, {}", model_->cache().tokensPerBlock,
                         sizeText(static_cast<uint64_t>(model_->cacheBytes())));
  }
}

Result<TextLengths> MeasuredTexts::lengths(std::span<const InputRange> said, int64_t texts,
                                           Diagnostics& diagnostics) const {
  constexpr int64_t kPrompt = 128, kMore = 64;
  const BuildConfig& config = model_->config();
  std::optional<int64_t> prompt, more;
  for (const InputRange& r : said) {
    const bool isPrompt = r.name == "prompt" || r.name == "0";  // without a name
    if ((!isPrompt && r.name != "new") || r.most.size() != 1 || r.least != r.most) {
      UsageError error{"texts of a language model have sizes prompt=N and new=N, tokens, not '" +
                       abbreviate(inputRangeText(r), 80) + "'"};
      NearestName nearest(r.name);
      for (const char* name : {"prompt", "new"}) nearest.consider(name);
      if (nearest.found() && nearest.name() != r.name) error.notes.push_back("did you mean '" + nearest.name() + "'?");
      throw error;
    }
    (isPrompt ? prompt : more) = r.most[0];
  }
  const BatchLimits limits = model_->limits();
  const int64_t most = config.maxSeqLen, longest = std::min(config.maxInputLen, most - 1);
  TextLengths out;
  out.prompt = prompt.value_or(std::max<int64_t>(1, std::min({kPrompt, most / 2, longest})));
  out.more = more.value_or(std::max<int64_t>(0, std::min(kMore, most - out.prompt - 1)));
  const auto refuse = [&](std::string what, std::string note) {
    diagnostics.error(std::move(what), ErrorKind::Limit).note(std::move(note));
    return Failed{};
  };
  if (out.prompt < 1) throw UsageError{"a prompt has a token at least, not prompt=0"};
  if (texts > limits.maxBatchSize)
    return refuse(fmt::format("{} texts at a time are more than max_batch_size {}", texts, limits.maxBatchSize),
                  "the setting max_batch_size of the build changes it");
  if (out.prompt > longest)
    return refuse(fmt::format("prompt={} is more than the {} tokens that leave one to follow", out.prompt, longest),
                  "the settings max_seq_len and max_input_len of the build change it");
  if (out.prompt + out.more + 1 > most)
    return refuse(
        fmt::format("prompt={} and new={} are more than max_seq_len {}, with the token that follows the prompt",
                    out.prompt, out.more, most),
        "the setting max_seq_len of the build changes it");
  const KvCacheConfig& cache = model_->cache();
  if (hasPools(config.kvCacheType) && texts * cache.blocksFor(out.prompt + out.more + 1) > cache.blocks)
    return refuse(fmt::format("the cache has no room for {} texts of {} tokens", texts, out.prompt + out.more + 1),
                  "the setting kv_cache_blocks of the build changes it");
  return out;
}

bool MeasuredTexts::run(const TextLengths& lengths, int64_t texts, std::vector<double>& prompts,
                        std::vector<double>& steps, Diagnostics& diagnostics) {
  using Clock = std::chrono::steady_clock;
  const auto since = [](Clock::time_point start) {
    return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  };
  // A new one has seen none of the prompts.
  std::unique_ptr<Batcher> batcher = Batcher::make(*model_, model_->cache(), model_->limits(), diagnostics);
  if (!batcher) return false;
  std::vector<RequestId> requests;
  for (int64_t t = 0; t < texts; ++t) {
    Request request;
    for (int64_t i = 0; i < lengths.prompt; ++i)
      request.prompt.push_back(plainId(random::bits(7, drawn_++), model_->vocabularySize(), marked_));
    request.sampling.temperature = 0;
    request.maxNewTokens = lengths.more + 1;
    const Result<RequestId> id = batcher->add(std::move(request), diagnostics);
    if (!id) return false;
    requests.push_back(*id);
  }
  const auto step = [&] {
    if (isOutOfTime()) diagnostics.error(timeLimitPassed(), ErrorKind::Limit);
    if (!diagnostics.hasErrors()) batcher->step(diagnostics);
    return !diagnostics.hasErrors();
  };
  const auto isRead = [&](RequestId id) { return !batcher->result(id)->tokens.empty(); };
  Clock::time_point start = Clock::now();
  while (!std::ranges::all_of(requests, isRead))
    if (!step()) return false;
  prompts.push_back(since(start));
  while (!batcher->idle()) {
    start = Clock::now();
    if (!step()) return false;
    steps.push_back(since(start));
  }
  return true;
}

}  // namespace tscompile
