// `tscompile build` makes a folder that serves a language model, `tscompile generate` runs it.
#include "api/engine_file.h"
#include "api/language_model.h"
#include "ir/support/json_writer.h"
#include "ir/support/quantities.h"
#include "ir/support/text.h"
#include "runtime/llm/tokenizer.h"
#include "tools/commands/commands.h"

#include <fmt/core.h>

#include <chrono>

namespace tscompile {
namespace {

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
  for (size_t at = 0; at <= text.size();) {
    size_t end = std::min(text.find(',', at), text.size());
    std::optional<uint64_t> id = parseCount(trim(std::string_view(text).substr(at, end - at)));
    if (!id || *id > INT32_MAX)
      throw UsageError{"--prompt-ids takes numbers with commas between them, not '" + abbreviate(text, 80) + "'"};
    ids.push_back(static_cast<TokenId>(*id));
    at = end + 1;
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

  void printJson() {
    JsonWriter json(session_.out);
    json.beginObject();
    json.field("schema", "tscompile.generate/1");
    json.key("results");
    json.beginArray();
    for (size_t i = 0; i < ids_.size(); ++i) {
      std::optional<RequestResult> r = batcher_->take(ids_[i]);
      if (!r) continue;
      generated_ += r->tokens.size();
      json.newLine();
      json.beginObject();
      json.field("prompt", i);
      json.field("finished", finishReasonName(r->reason));
      json.key("tokens");
      json.beginArray();
      for (TokenId t : r->tokens) json.value(t);
      json.endArray();
      if (tokenizer_) json.field("text", tokenizer_->decode(r->tokens));
      json.endObject();
    }
    json.newLine();
    json.endArray();
    json.endObject();
    json.finish();
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

int runBuild(const Options& options, Session& session) {
  const BuildCommand& command = options.build;
  if (command.output.empty()) throw UsageError{"build needs -o FOLDER"};
  Result<BuildConfig> config = configOf(command, session);
  if (!config) return session.finish();
  if (command.weights.empty() && !isEngineFile(options.arguments[0]))
    throw UsageError{"build needs the weights of the model",
                     {"name them with --weights FILE: safetensors, or a recipe of docs/values.md"}};
  Result<Module> module = session.loadModule(options.arguments[0], command.weights);
  if (!module) return session.finish();
  auto begin = Clock::now();
  session.progress.step("building " + command.output);
  if (!buildLanguageModel(*module, *config, command.output, session.diagnostics)) return session.finish();
  session.note(fmt::format("{} built in {:.2f} s", command.output, secondsSince(begin)));
  return session.finish();
}

int runGenerate(const Options& options, Session& session) {
  return Generation(options.generate, session).run(options.arguments[0]);
}

}  // namespace tscompile
