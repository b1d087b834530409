// `tscompile build` makes a folder that serves a language model, `tscompile generate` runs it.
#include "api/language_model.h"
#include "api/model_file.h"
#include "ir/support/json_fields.h"
#include "ir/support/quantities.h"
#include "ir/support/text.h"
#include "runtime/llm/tokenizer.h"
#include "tools/commands/commands.h"
#include "tools/options/option_parts.h"

#include <fmt/core.h>

#include <chrono>

namespace tscompile {
namespace {

struct BuildCommand {
  std::vector<std::string> weights;
  std::string config, output;         // a JSON file, a folder
  std::vector<std::string> settings;  // NAME=VALUE
};

struct GenerateCommand {
  std::vector<std::string> prompts, promptIds;
  std::string tokenizer;
  uint64_t maxNewTokens = 64, threads = 0;
  SamplingConfig sampling;
  bool draws = false;  // --temperature or --seed was given
};

using Clock = std::chrono::steady_clock;

double secondsSince(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

Result<BuildConfig> configOf(const BuildCommand& command, Session& session) {
  BuildConfig config;
  if (!command.config.empty()) {
    Result<std::string> text = session.read(command.config);
    if (!text) return Failed{};
    Result<BuildConfig> read = parseBuildConfig(*text, command.config, session.diagnostics);
    if (!read) return Failed{};
    config = std::move(*read);
  }
  bool good = true;
  for (const std::string& assignment : command.settings)
    good &= setBuildOption(config, assignment, session.diagnostics);
  if (!good || !checkBuildConfig(config, session.diagnostics)) return Failed{};
  return config;
}

// "1,2,3"
std::vector<TokenId> parseIds(const std::string& text) {
  std::vector<TokenId> ids;
  for (std::string_view word : split(text, ',')) {
    std::optional<uint64_t> id = parseCount(trim(word));
    if (!id || *id > INT32_MAX)
      throw UsageError{"--prompt-ids takes numbers with commas between them, not '" + abbreviate(text, 80) + "'"};
    ids.push_back(static_cast<TokenId>(*id));
  }
  return ids;
}

std::string idsText(TokenSpan tokens) {
  return join(tokens, ",", [](TokenId t) { return std::to_string(t); });
}

// One run of `generate`.
class Generation {
 public:
  Generation(const GenerateCommand& command, Session& session) : command_(command), session_(session) {}

  int run(const std::string& folder) {
    LanguageModel::Options options;
    options.threads = static_cast<int>(command_.threads);
    options.load.limits = session_.common.limits;
    model_ = LanguageModel::load(folder, options, session_.diagnostics);
    if (!model_ || !openTokenizerFile()) return session_.finish();
    batcher_ = Batcher::make(*model_, model_->cache(), model_->limits(), session_.diagnostics);
    if (!batcher_ || !addRequests()) return session_.finish();
    Rates rates = serve();
    if (session_.diagnostics.errorCount()) return session_.finish();
    printResults();
    session_.note(fmt::format("{} in {:.3f} s; prompts: {}; then: {}; KV cache {:.1f} MB", counted(generated_, "token"),
                              rates.prompts.seconds + rates.rest.seconds, rates.prompts.text(), rates.rest.text(),
                              static_cast<double>(model_->cacheBytes()) / 1e6));
    return session_.finish();
  }

 private:
  struct Rate {
    int64_t tokens = 0;
    double seconds = 0;

    std::string text() const {
      return tokens == 0 ? "none"
                         : fmt::format("{} at {:.1f} tokens/s", counted(static_cast<uint64_t>(tokens), "token"),
                                       static_cast<double>(tokens) / seconds);
    }
  };
  // Steps with tokens of prompts, in which others may go on, and steps without.
  struct Rates {
    Rate prompts, rest;
  };
  Rates serve() {
    Rates rates;
    const BatchCounters& c = batcher_->counters();
    for (bool more = true; more;) {
      BatchCounters before = c;
      auto begin = Clock::now();
      more = batcher_->step(session_.diagnostics);
      session_.out.flush();
      int64_t prompt = c.contextTokens - before.contextTokens;
      Rate& rate = prompt ? rates.prompts : rates.rest;
      rate.seconds += secondsSince(begin);
      rate.tokens += prompt ? prompt : c.generationTokens - before.generationTokens;
    }
    return rates;
  }

  bool openTokenizerFile() {
    if (!command_.tokenizer.empty())
      tokenizer_ = openTokenizer(command_.tokenizer, session_.diagnostics);
    else if (command_.prompts.empty())
      return true;
    else if (model_->vocabularySize() == 256)
      tokenizer_ = makeByteTokenizer();
    else
      session_.diagnostics.error(
          fmt::format("the model has {} tokens: a prompt in text needs --tokenizer", model_->vocabularySize()),
          ErrorKind::Input);
    if (tokenizer_ && tokenizer_->vocabularySize() > model_->vocabularySize()) {
      session_.diagnostics.error(fmt::format("the tokenizer has {} tokens, but the model {}",
                                             tokenizer_->vocabularySize(), model_->vocabularySize()),
                                 ErrorKind::Input);
      return false;
    }
    return tokenizer_ != nullptr;
  }

  bool addRequests() {
    std::vector<std::vector<TokenId>> prompts;
    for (const std::string& ids : command_.promptIds) prompts.push_back(parseIds(ids));
    for (const std::string& text : command_.prompts) {
      Result<std::vector<TokenId>> tokens = tokenizer_->encode(text, session_.diagnostics);
      if (!tokens) return false;
      prompts.push_back(std::move(*tokens));
    }
    if (prompts.empty()) throw UsageError{"generate needs --prompt or --prompt-ids"};
    bool streams = prompts.size() == 1 && command_.sampling.beamWidth == 1 && !session_.common.json;
    SamplingConfig sampling = command_.sampling;
    constexpr double kAll = 1;  // draws from all tokens
    if (command_.draws && sampling.temperature > 0 && sampling.beamWidth == 1 && !isRandom(sampling))
      sampling.topP = kAll;
    if (command_.sampling.beamWidth > model_->config().maxBeamWidth) {
      session_.diagnostics.error(
          fmt::format("the model was built for max_beam_width {}; --set max_beam_width=N of build changes it",
                      model_->config().maxBeamWidth),
          ErrorKind::Input);
      return false;
    }
    for (std::vector<TokenId>& prompt : prompts) {
      Request request;
      request.prompt = std::move(prompt);
      request.sampling = sampling;
      request.maxNewTokens = static_cast<int64_t>(command_.maxNewTokens);
      if (streams) request.onToken = [this](const TokenEvent& e) { return show(e); };
      Result<RequestId> id = batcher_->add(std::move(request), session_.diagnostics);
      if (!id) return false;
      ids_.push_back(*id);
    }
    streams_ = streams;
    if (tokenizer_) decoder_ = std::make_unique<StreamDecoder>(*tokenizer_);
    return true;
  }

  // One token as it comes.
  bool show(const TokenEvent& e) {
    if (decoder_)
      session_.out << decoder_->push(e.token);
    else
      session_.out << (e.index ? "," : "") << e.token;
    return true;
  }

  struct Generated {
    size_t prompt;
    std::string_view finished;
    std::vector<TokenId> tokens;
    std::optional<std::string> text;

    template <class Visit>
    void fields(Visit&& visit) const {
      visit("prompt", prompt);
      visit("finished", finished);
      visit("tokens", tokens);
      visit("text", text);
    }
  };
  struct GeneratedList {
    std::vector<Generated> results;

    template <class Visit>
    void fields(Visit&& visit) const {
      visit("schema", "tscompile.generate/1");
      visit("results", Lines{results, true});
    }
  };

  void printJson() {
    GeneratedList list;
    for (size_t i = 0; i < ids_.size(); ++i) {
      std::optional<RequestResult> r = batcher_->take(ids_[i]);
      if (!r) continue;
      generated_ += r->tokens.size();
      list.results.push_back({i, finishReasonName(r->reason), r->tokens, {}});
      if (tokenizer_) list.results.back().text = tokenizer_->decode(r->tokens);
    }
    writeJson(session_.out, list);
  }

  void printResults() {
    if (session_.common.json) return printJson();
    for (size_t i = 0; i < ids_.size(); ++i) {
      std::optional<RequestResult> r = batcher_->take(ids_[i]);
      if (!r) continue;
      generated_ += r->tokens.size();
      if (streams_) {
        if (decoder_) session_.out << decoder_->finish();
        session_.out << "\n";
      } else if (r->hypotheses.size() > 1) {
        for (const Hypothesis& h : r->hypotheses) session_.out << fmt::format("{:.6f} {}\n", h.score, textOf(h.tokens));
      } else {
        session_.out << textOf(r->tokens) << "\n";
      }
    }
  }
  std::string textOf(TokenSpan tokens) const { return tokenizer_ ? tokenizer_->decode(tokens) : idsText(tokens); }

  const GenerateCommand& command_;
  Session& session_;
  std::unique_ptr<LanguageModel> model_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::unique_ptr<Batcher> batcher_;
  std::unique_ptr<StreamDecoder> decoder_;
  std::vector<RequestId> ids_;
  bool streams_ = false;
  size_t generated_ = 0;
};

}  // namespace

static int runBuild(const Options& options, Session& session) {
  const BuildCommand& command = options.own.of<BuildCommand>();
  if (command.output.empty()) throw UsageError{"build needs -o FOLDER"};
  Result<BuildConfig> config = configOf(command, session);
  if (!config) return session.finish();
  const std::string& path = options.arguments[0];
  if (command.weights.empty() && modelFileOf(path) == ModelFile::Text)
    throw UsageError{"build needs the weights of the model",
                     {"name them with --weights FILE: safetensors, or a recipe of docs/values.md"}};
  Result<Module> module = session.loadModule(path, command.weights);
  if (!module) return session.finish();
  auto begin = Clock::now();
  session.progress.step("building " + command.output);
  if (!buildLanguageModel(*module, *config, command.output, session.diagnostics)) return session.finish();
  session.note(fmt::format("{} built in {:.2f} s", command.output, secondsSince(begin)));
  return session.finish();
}

static int runGenerate(const Options& options, Session& session) {
  return Generation(options.own.of<GenerateCommand>(), session).run(options.arguments[0]);
}

namespace {

OptionSpecs buildOptions() {
  return OptionSpecs{
      {"-w,--weights", "FILE", "weights: safetensors, or a recipe of docs/values.md",
       [](Options& o, const std::string& v) { o.own.of<BuildCommand>().weights.push_back(v); }, true},
      {"-o,--output", "FOLDER", "where config.json and the engine go",
       [](Options& o, const std::string& v) { o.own.of<BuildCommand>().output = v; }},
      {"--config", "FILE", "settings as a JSON object; see docs/language_models.md",
       [](Options& o, const std::string& v) { o.own.of<BuildCommand>().config = v; }},
      {"--set", "NAME=VALUE", "one setting, such as max_seq_len=512",
       [](Options& o, const std::string& v) { o.own.of<BuildCommand>().settings.push_back(v); }, true},
  };
}

OptionSpecs generateOptions() {
  return OptionSpecs{
      {"--prompt", "TEXT", "what the text begins with; several are served at the same time",
       [](Options& o, const std::string& v) { o.own.of<GenerateCommand>().prompts.push_back(v); }, true},
      {"--prompt-ids", "IDS", "the same as tokens: 12,7,99",
       [](Options& o, const std::string& v) { o.own.of<GenerateCommand>().promptIds.push_back(v); }, true},
      {"--tokenizer", "FILE", "tokenizer.json, vocab.json or a plain vocabulary; without it tokens are bytes",
       [](Options& o, const std::string& v) { o.own.of<GenerateCommand>().tokenizer = v; }},
      {"--max-new-tokens", "N", "tokens to generate at most (default: 64)",
       [](Options& o, const std::string& v) {
         o.own.of<GenerateCommand>().maxNewTokens = static_cast<uint64_t>(wholeNumber("--max-new-tokens", v));
       }},
      {"--temperature", "X", "draw tokens; logits are divided by it before. 0: the likeliest token",
       [](Options& o, const std::string& v) {
         o.own.of<GenerateCommand>().sampling.temperature = realNumber("--temperature", v);
         o.own.of<GenerateCommand>().draws = true;
       }},
      {"--top-k", "N", "draw from the N likeliest tokens",
       [](Options& o, const std::string& v) { o.own.of<GenerateCommand>().sampling.topK = wholeNumber("--top-k", v); }},
      {"--top-p", "X", "draw from the likeliest tokens whose probabilities sum to X",
       [](Options& o, const std::string& v) { o.own.of<GenerateCommand>().sampling.topP = realNumber("--top-p", v); }},
      {"--min-p", "X", "draw from tokens that are at least X times as likely as the likeliest",
       [](Options& o, const std::string& v) { o.own.of<GenerateCommand>().sampling.minP = realNumber("--min-p", v); }},
      {"--repetition-penalty", "X", "tokens that were there get less likely (above 1)",
       [](Options& o, const std::string& v) {
         o.own.of<GenerateCommand>().sampling.repetitionPenalty = realNumber("--repetition-penalty", v);
       }},
      {"--seed", "N", "draw tokens, with this seed (default: 0)",
       [](Options& o, const std::string& v) {
         o.own.of<GenerateCommand>().sampling.randomSeed = static_cast<uint64_t>(wholeNumber("--seed", v));
         o.own.of<GenerateCommand>().draws = true;
       }},
      {"--beam-width", "N", "search the likeliest texts with N beams",
       [](Options& o, const std::string& v) {
         o.own.of<GenerateCommand>().sampling.beamWidth = wholeNumber("--beam-width", v);
       }},
      {"--end-id", "N", "the token that ends a text",
       [](Options& o, const std::string& v) {
         o.own.of<GenerateCommand>().sampling.endId = wholeNumber("--end-id", v);
       }},
      {"--threads", "N", "threads to use at most",
       [](Options& o, const std::string& v) {
         o.own.of<GenerateCommand>().threads = static_cast<uint64_t>(threadCount(v, v));
       }},
  };
}

}  // namespace

VerbSpec buildCommand() {
  return {.name = "build",
          .summary = "make a folder that serves a language model",
          .argument = "MODEL",
          .argumentHelp = "a decoder: graph text, a TorchScript archive or a file of torch.export",
          .argumentRequired = true,
          .details = "Example:\n  tscompile build model.ir -w model.safetensors --set max_seq_len=512 -o built\n",
          .options = buildOptions(),
          .command = runBuild};
}

VerbSpec generateCommand() {
  return {.name = "generate",
          .summary = "continue texts with a language model that was built",
          .argument = "FOLDER",
          .argumentHelp = "what build has made",
          .argumentRequired = true,
          .details =
              "Examples:\n  tscompile generate built --prompt 'The graph' --max-new-tokens 100\n"
              "  tscompile generate built --prompt-ids 464,4823 --top-k 50 --seed 7\n",
          .options = generateOptions(),
          .command = runGenerate};
}

}  // namespace tscompile
