// `tscompile generate` runs what `tscompile build` made.
#include "api/generation_files.h"
#include "api/language_model.h"
#include "ir/support/json_fields.h"
#include "ir/support/text.h"
#include "runtime/llm/stop_texts.h"
#include "runtime/llm/tokenizer.h"
#include "tools/commands/commands.h"
#include "tools/options/option_parts.h"
#include "tools/session/process.h"
#include "tools/tasks/generation_settings.h"

#include <fmt/core.h>

#include <chrono>
#include <map>

namespace tscompile {
namespace {

struct GenerateCommand {
  std::vector<std::string> prompts, promptIds;
  std::string tokenizer, promptFile;
  uint64_t threads = 0;
  bool stream = false;
  TextRequest settings;  // of all requests
};

using Clock = std::chrono::steady_clock;

std::string idsText(TokenSpan tokens) {
  return join(tokens, ",", [](TokenId t) { return std::to_string(t); });
}

// A text on its way.
struct Asked {
  TextRequest request;
  SourcePtr source;   // that it comes from, if it is a file; of standard input its line alone
  SourceRange place;  // in it
  size_t line = 0;    // of standard input
  std::optional<RequestId> id;
  std::unique_ptr<StreamDecoder> decoder;
  std::unique_ptr<StopTexts> stop;
  std::string text;    // as far as it is known
  std::string failed;  // what is wrong with it
  RequestResult result;
};

constexpr std::string_view kEvent = "tscompile.generate_event/1";

struct HypothesisFields {
  const Hypothesis& h;
  std::optional<std::string> text;

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("score", h.score);
    visit("log_prob", h.logProb);
    visit("tokens", h.tokens);
    visit("text", text);
  }
};

struct ResultFields {
  size_t prompt;
  bool isEvent = false;  // a line of --stream
  std::optional<std::string> id = {};
  std::string finished = {};
  std::optional<std::string> limit = {};  // that ended it, if it is not its own
  std::optional<std::string> error = {};
  std::vector<TokenId> tokens = {};
  std::optional<std::string> text = {};
  std::optional<std::vector<double>> logProbs = {};
  std::optional<std::vector<HypothesisFields>> beams = {};

  template <class Visit>
  void fields(Visit&& visit) const {
    if (isEvent) visit("schema", kEvent);
    visit("prompt", prompt);
    visit("id", id);
    visit("finished", finished);
    visit("limit", limit);
    visit("error", error);
    visit("tokens", tokens);
    visit("text", text);
    visit("log_probs", logProbs);
    visit("beams", beams);
  }
};

struct TokenFields {
  size_t prompt;
  std::optional<std::string> id;
  TokenId token;
  std::optional<std::string> text;
  std::optional<double> logProb;

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("schema", kEvent);
    visit("prompt", prompt);
    visit("id", id);
    visit("token", token);
    visit("text", text);
    visit("log_prob", logProb);
  }
};

struct ResultList {
  std::vector<ResultFields> results;

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("schema", "tscompile.generate/1");
    visit("results", Lines{results, true});
  }
};

// One run of `generate`.
class Generation {
 public:
  Generation(const GenerateCommand& command, Session& session) : command_(command), session_(session) {}

  int run(const std::string& folder) {
    if (!readRequests()) return session_.finish();
    InterruptScope interrupts(kGrace);  // whoever waits for requests ends at once
    LanguageModel::Options options;
    options.threads = static_cast<int>(command_.threads);
    options.load.limits = session_.common.limits;
    options.run = session_.runLimits();
    options.run.interrupt = &interrupts.interrupted();
    model_ = LanguageModel::load(folder, options, session_.diagnostics);
    if (!model_ || !openTokenizerFile(folder) || !findEndTokens(folder)) return session_.finish();
    batcher_ = Batcher::make(*model_, model_->cache(), model_->limits(), session_.diagnostics);
    if (!batcher_) return session_.finish();
    streamsText_ = count_ == 1 && !isJson() && asked_[0].request.sampling.beamWidth == 1;
    for (size_t i = 0; i < count_; ++i) add(i);
    Rates rates = serve(interrupts);
    for (auto& [index, a] : asked_) takeResult(a);
    if (!command_.stream)
      printResults();
    else
      while (!asked_.empty()) printLine(asked_.begin()->first);
    if (interrupts.signal()) return finishInterrupted(interrupts.signal());
    noteCut();
    if (generated_ == 0) return finish();
    session_.note(fmt::format("{} in {:.3f} s; prompts: {}; then: {}; KV cache {:.1f} MB", counted(generated_, "token"),
                              rates.prompts.seconds + rates.rest.seconds, rates.prompts.text(), rates.rest.text(),
                              static_cast<double>(model_->cacheBytes()) / 1e6));
    return finish();
  }

 private:
  static constexpr std::chrono::microseconds kGrace{10'000'000};  // a step may be long

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
  Rates serve(const InterruptScope& interrupts) {
    Rates rates;
    const BatchCounters& c = batcher_->counters();
    for (bool more = true; (more || mayCome()) && !interrupts.signal();) {
      if (lines_) takeLines(!more);
      BatchCounters before = c;
      auto begin = Clock::now();
      Diagnostics told;  // again with each result
      more = batcher_->step(told);
      if (command_.stream) printFinished();
      session_.out.flush();
      if (command_.stream) reportAtOnce();
      int64_t prompt = c.contextTokens - before.contextTokens;
      Rate& rate = prompt ? rates.prompts : rates.rest;
      rate.seconds += std::chrono::duration<double>(Clock::now() - begin).count();
      rate.tokens += prompt ? prompt : c.generationTokens - before.generationTokens;
    }
    return rates;
  }

  bool isJson() const { return session_.common.json || command_.stream; }

  // ---- what is asked for ----

  Asked& append() {
    Asked& a = asked_[count_++];
    a.request = command_.settings;
    return a;
  }

  bool readRequests() {
    for (const std::string& ids : command_.promptIds) append().request.promptIds = parseIds("--prompt-ids", ids);
    for (const std::string& text : command_.prompts) append().request.prompt = text;
    if (command_.promptFile == "-" && command_.stream) {
      Result<InputLines> lines = session_.readLines();
      if (!lines) return false;
      lines_ = std::move(*lines);
    } else if (!command_.promptFile.empty() && !readLines()) {
      return false;
    }
    if (asked_.empty() && command_.promptFile.empty())
      throw UsageError{"generate needs --prompt, --prompt-ids or --prompts"};
    return true;
  }

  // A request in each line that is not empty. What is wrong with one is told with its result.
  bool readLines() {
    Result<std::string> read = session_.read(command_.promptFile);
    if (!read) return false;
    SourcePtr source = SourceFile::make(command_.promptFile == "-" ? "<stdin>" : command_.promptFile, std::move(*read));
    std::string_view text = source->text();
    for (size_t begin = 0, end; begin < text.size(); begin = end + 1) {
      end = std::min(text.find('\n', begin), text.size());
      if (trim(text.substr(begin, end - begin)).empty()) continue;
      readLine(source, begin, end);
    }
    return true;
  }

  // False if the line asks for no text.
  bool readLine(const SourcePtr& source, size_t begin, size_t end) {
    Diagnostics wrong;
    Result<JsonTree> tree = JsonTree::parse(source, begin, end, wrong);
    if (std::optional<std::string> id = tree && lines_ ? idToCancel(tree->root()) : std::nullopt) {
      cancel(*id);
      return false;
    }
    Asked& a = append();
    a.source = source;
    a.place = {source.get(), static_cast<uint32_t>(begin), static_cast<uint32_t>(end)};
    a.line = lineNumber_;
    if (!tree || !readRequest(tree->root(), a.request, wrong)) fail(a, wrong);
    return true;
  }

  // Ends those of that id with what they have. There may be none: one can end while whoever asked for it turns away.
  void cancel(const std::string& id) {
    for (auto& [index, a] : asked_)
      if (a.id && a.request.id == id) batcher_->cancel(*a.id);
  }

  // Whether standard input may bring more.
  bool mayCome() const { return lines_ && !lines_->ended(); }

  // Adds what standard input has; `wait` waits for it. Not more than can begin soon: the rest waits outside.
  void takeLines(bool wait) {
    constexpr size_t kMostWaiting = 64;
    for (; batcher_->waiting() < kMostWaiting; wait = false) {
      const std::optional<std::string> line = lines_->next(wait);
      if (!line) break;
      ++lineNumber_;
      if (trim(*line).empty()) continue;
      if (readLine(SourceFile::make("<stdin>", *line), 0, line->size())) add(count_ - 1);
    }
    if (!mayCome() && !lines_->failure().empty() && !session_.diagnostics.hasErrors())
      session_.diagnostics.fileError("<stdin>", {}, lines_->failure(), ErrorKind::Io);
  }

  // Tells what is wrong so far: whoever feeds a stream is not to wait for its end.
  void reportAtOnce() {
    if (session_.diagnostics.list().empty()) return;
    if (session_.diagnostics.hasErrors() && !failed_) failed_ = exitCode(session_.diagnostics.firstErrorKind());
    session_.report();
  }
  int finish() { return session_.finish(failed_.value_or(kExitDone)); }

  // Ends a request before it has begun.
  void fail(Asked& a, const Diagnostics& wrong) {
    a.result.reason = FinishReason::Failed;
    // A line of standard input is told with those before it, so that it has its place.
    const auto before = static_cast<uint32_t>(a.line ? a.line - 1 : 0);
    SourcePtr whole = a.source;
    if (before) whole = SourceFile::make("<stdin>", std::string(before, '\n') + std::string(a.source->text()));
    if (whole && !session_.diagnostics.full()) session_.diagnostics.keepAlive(whole);
    for (Diagnostic d : wrong.list()) {
      if (a.failed.empty()) a.failed = d.message;
      if (!d.range.valid() && d.path.empty()) d.range = a.place;
      if (before && d.range.file == a.source.get())
        d.range = {whole.get(), d.range.begin + before, d.range.end + before};
      session_.diagnostics.add(std::move(d));
    }
  }

  bool needsTokenizer() const {
    return std::any_of(asked_.begin(), asked_.end(), [](const auto& a) { return needsTokenizer(a.second.request); });
  }
  static bool needsTokenizer(const TextRequest& r) { return r.prompt || !r.stop.empty() || !r.badWords.empty(); }

  bool openTokenizerFile(const std::string& folder) {
    std::optional<std::string> own = tokenizerIn(folder);
    if (!command_.tokenizer.empty())
      tokenizer_ = openTokenizer(command_.tokenizer, session_.diagnostics);
    else if (!needsTokenizer() && !lines_)
      return true;
    else if (own)
      tokenizer_ = openTokenizer(*own, session_.diagnostics);
    else if (model_->vocabularySize() == 256)
      tokenizer_ = makeByteTokenizer();
    else if (!needsTokenizer())
      return true;
    else
      reportNoTokenizer(session_.diagnostics);
    if (tokenizer_ && tokenizer_->vocabularySize() > model_->vocabularySize()) {
      session_.diagnostics.error(fmt::format("the tokenizer has {} tokens, but the model {}",
                                             tokenizer_->vocabularySize(), model_->vocabularySize()),
                                 ErrorKind::Input);
      return false;
    }
    return tokenizer_ != nullptr;
  }

  void reportNoTokenizer(Diagnostics& diagnostics) const {
    diagnostics.error(
        fmt::format("the model has {} tokens: a prompt in text needs --tokenizer", model_->vocabularySize()),
        ErrorKind::Input);
  }

  bool findEndTokens(const std::string& folder) {
    Result<std::vector<TokenId>> found = endTokensIn(folder, tokenizer_.get(), session_.diagnostics);
    if (!found) return false;
    // A tokenizer may have more tokens than the model.
    for (TokenId t : *found)
      if (t < model_->vocabularySize()) endIds_.push_back(t);
    return true;
  }

  Result<Request> requestOf(const Asked& a, Diagnostics& diagnostics) const {
    const TextRequest& asked = a.request;
    if (needsTokenizer(asked) && !tokenizer_) {
      reportNoTokenizer(diagnostics);
      return Failed{};
    }
    Request request;
    request.sampling = asked.sampling;
    request.maxNewTokens = asked.maxNewTokens;
    request.prompt = asked.promptIds;
    if (asked.prompt) {
      Result<std::vector<TokenId>> tokens = tokenizer_->encode(*asked.prompt, diagnostics);
      if (!tokens) return Failed{};
      request.prompt = std::move(*tokens);
    }
    SamplingConfig& s = request.sampling;
    const std::vector<TokenId>& ends = asked.endIds.empty() ? endIds_ : asked.endIds;
    if (!ends.empty()) {
      s.endId = ends[0];
      s.stopIds.assign(ends.begin() + 1, ends.end());
    }
    for (const std::string& word : asked.badWords) {
      Result<std::vector<TokenId>> tokens = tokenizer_->encode(word, diagnostics, {.frame = false});
      if (!tokens) return Failed{};
      s.badWords.push_back(std::move(*tokens));
    }
    constexpr double kAll = 1;  // draws from all tokens
    if (asked.draws && s.temperature > 0 && s.beamWidth == 1 && !isRandom(s)) s.topP = kAll;
    if (s.beamWidth > 1 && !asked.stop.empty()) {
      diagnostics.error("a beam search takes end tokens, no stop texts", ErrorKind::Unsupported);
      return Failed{};
    }
    if (s.beamWidth > model_->config().maxBeamWidth) {
      diagnostics.error(fmt::format("the model was built for max_beam_width {}; --set max_beam_width=N of build "
                                    "changes it",
                                    model_->config().maxBeamWidth),
                        ErrorKind::Input);
      return Failed{};
    }
    return request;
  }

  void add(size_t index) {
    Asked& a = asked_[index];
    if (a.result.reason != FinishReason::Failed) begin(index, a);
    if (a.id)
      indexOf_[*a.id] = index;
    else if (command_.stream)
      printLine(index);
  }

  void begin(size_t index, Asked& a) {
    Diagnostics wrong;
    Result<Request> request = requestOf(a, wrong);
    if (!request) return fail(a, wrong);
    if (tokenizer_) a.decoder = std::make_unique<StreamDecoder>(*tokenizer_);
    if (!a.request.stop.empty()) a.stop = std::make_unique<StopTexts>(a.request.stop);
    if (request->sampling.beamWidth == 1 && (a.stop || streamsText_ || command_.stream))
      request->onToken = [this, index](const TokenEvent& e) { return takeToken(index, e); };
    Result<RequestId> id = batcher_->add(std::move(*request), wrong);
    if (!id) return fail(a, wrong);
    a.id = *id;
  }

  // ---- what comes ----

  // One token as it comes; false where a stop text was.
  bool takeToken(size_t index, const TokenEvent& e) {
    Asked& a = asked_[index];
    std::string piece = a.decoder ? a.decoder->push(e.token) : "";
    if (a.stop) piece = a.stop->push(piece);
    a.text += piece;
    if (command_.stream)
      writeJson(session_.out, TokenFields{index, a.request.id, e.token, a.decoder ? std::optional(piece) : std::nullopt,
                                          a.request.sampling.logProbs ? std::optional(e.logProb) : std::nullopt});
    else if (streamsText_ && a.decoder)
      session_.out << piece;
    else if (streamsText_)
      session_.out << (e.index ? "," : "") << e.token;
    return !a.stop || !a.stop->found();
  }

  // Whether the model ended it: there is no room for more tokens.
  static bool isCut(const Asked& a) {
    return a.id && a.result.reason == FinishReason::Length &&
           static_cast<int64_t>(a.result.tokens.size()) < a.request.maxNewTokens;
  }
  void noteCut() {
    if (cut_)
      session_.note(fmt::format("{} ended at max_seq_len, {} with the prompt, before --max-new-tokens",
                                counted(cut_, "text"),
                                counted(static_cast<uint64_t>(model_->config().maxSeqLen), "token")));
  }

  bool hasStopped(const Asked& a) const { return a.stop && a.stop->found(); }

  // Of one that is not done, what it has.
  void takeResult(Asked& a) {
    if (!a.id) return;
    if (batcher_->cancel(*a.id)) ++unfinished_;
    a.result = *batcher_->take(*a.id);
    indexOf_.erase(*a.id);
    generated_ += a.result.tokens.size();
    if (a.result.failure && a.result.failure->kind != ErrorKind::Interrupted) {
      Diagnostics wrong;
      wrong.add(*a.result.failure);
      fail(a, wrong);
    } else if (a.result.failure) {
      a.result.reason = FinishReason::Cancelled;
      ++unfinished_;
    }
    if (isCut(a)) ++cut_;
    std::string rest = a.decoder ? a.decoder->finish() : "";
    if (a.stop) rest = a.stop->push(rest), rest += a.stop->finish();
    if (streamsText_ && a.decoder) session_.out << rest;
    a.text = a.stop ? a.text + rest : a.decoder ? tokenizer_->decode(a.result.tokens) : "";
  }

  // The lines of those that have ended, which are forgotten.
  void printFinished() {
    while (!batcher_->finished().empty()) {
      const size_t index = indexOf_.at(*batcher_->finished().begin());
      takeResult(asked_[index]);
      printLine(index);
    }
  }
  void printLine(size_t index) {
    writeJson(session_.out, fieldsOf(index, asked_[index]));
    asked_.erase(index);
  }

  ResultFields fieldsOf(size_t index, const Asked& a) const {
    auto textOf = [&](TokenSpan tokens) {
      return tokenizer_ ? std::optional(tokenizer_->decode(tokens)) : std::nullopt;
    };
    ResultFields out{.prompt = index,
                     .isEvent = command_.stream,
                     .id = a.request.id,
                     .finished = hasStopped(a) ? "stop" : std::string(finishReasonName(a.result.reason))};
    if (isCut(a)) out.limit = "max_seq_len";
    if (!a.failed.empty()) out.error = a.failed;
    out.tokens = a.result.tokens;
    if (a.id && tokenizer_) out.text = a.text;
    if (a.id && a.request.sampling.logProbs && a.request.sampling.beamWidth == 1) out.logProbs = a.result.logProbs;
    if (!a.result.hypotheses.empty()) {
      out.beams.emplace();
      for (const Hypothesis& h : a.result.hypotheses) out.beams->push_back({h, textOf(h.tokens)});
    }
    return out;
  }

  void printResults() {
    if (session_.common.json) {
      ResultList list;
      for (const auto& [index, a] : asked_) list.results.push_back(fieldsOf(index, a));
      return writeJson(session_.out, list);
    }
    for (const auto& [index, a] : asked_) printText(a);
  }

  // A line for each text that is finished; of beams the best ones with their scores.
  void printText(const Asked& a) {
    bool isAlone = asked_.size() == 1;
    if (!a.id && isAlone) return;
    auto textOf = [&](TokenSpan tokens) { return tokenizer_ ? tokenizer_->decode(tokens) : idsText(tokens); };
    if (streamsText_)
      session_.out << "\n";
    else if (a.result.hypotheses.size() > 1)
      for (const Hypothesis& h : a.result.hypotheses)
        session_.out << fmt::format("{:.6f} {}\n", h.score, textOf(h.tokens));
    else if (a.result.reason == FinishReason::Failed || (a.result.reason == FinishReason::Cancelled && !hasStopped(a)))
      session_.out << (isAlone ? "" : "\n");
    else
      session_.out << (tokenizer_ ? a.text : idsText(a.result.tokens)) << "\n";
  }

  int finishInterrupted(int signal) {
    session_.out.flush();
    session_.diagnostics.error(
        fmt::format("interrupted: {} of {} are not finished", unfinished_, counted(count_, "text")),
        ErrorKind::Interrupted);
    session_.finish();
    return 128 + signal;
  }

  const GenerateCommand& command_;
  Session& session_;
  std::unique_ptr<LanguageModel> model_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::unique_ptr<Batcher> batcher_;
  std::vector<TokenId> endIds_;
  std::map<size_t, Asked> asked_;  // by number, those whose lines are not printed
  std::map<RequestId, size_t> indexOf_;
  size_t count_ = 0;
  std::optional<InputLines> lines_;  // that come while others are served
  size_t lineNumber_ = 0;
  std::optional<int> failed_;  // the exit code of what was reported already
  bool streamsText_ = false;
  size_t generated_ = 0, unfinished_ = 0, cut_ = 0;
};

TextRequest& settingsOf(Options& o) { return o.own.of<GenerateCommand>().settings; }

OptionSpecs generateOptions() {
  return OptionSpecs{
             {"--prompt", "TEXT", "what the text begins with; several are served at the same time",
              [](Options& o, const std::string& v) { o.own.of<GenerateCommand>().prompts.push_back(v); }, true},
             {"--prompt-ids", "IDS", "the same as tokens: 12,7,99",
              [](Options& o, const std::string& v) { o.own.of<GenerateCommand>().promptIds.push_back(v); }, true},
             {"--prompts", "FILE", "a request in each line, as JSON with settings of its own; -: standard input",
              [](Options& o, const std::string& v) { o.own.of<GenerateCommand>().promptFile = v; }},
             {"--tokenizer", "FILE",
              "tokenizer.json, vocab.json or a plain vocabulary; without it the one in the folder, or bytes",
              [](Options& o, const std::string& v) { o.own.of<GenerateCommand>().tokenizer = v; }},
             {"--stream", "",
              "a line of JSON for each token as it comes, and for each text when it ends; with --prompts - also while "
              "more requests come",
              [](Options& o, const std::string&) { o.own.of<GenerateCommand>().stream = true; }},
         } +
         generationOptions(settingsOf) +
         OptionSpecs{{"--threads", "N", "threads to use at most", [](Options& o, const std::string& v) {
                        o.own.of<GenerateCommand>().threads = static_cast<uint64_t>(threadCount(v, v));
                      }}};
}

int runGenerate(const Options& options, Session& session) {
  const GenerateCommand& command = options.own.of<GenerateCommand>();
  if (command.promptFile.empty()) checkGenerationOptions(options, command.settings);
  if (command.settings.sampling.logProbs && !session.common.json && !command.stream)
    throw UsageError{"--log-probs are told with --format json or --stream"};
  return Generation(command, session).run(options.arguments[0]);
}

}  // namespace

VerbSpec generateCommand() {
  return {.name = "generate",
          .summary = "continue texts with a language model that was built",
          .argument = "FOLDER",
          .argumentHelp = "what build has made",
          .argumentRequired = true,
          .details =
              "A request that fails is told, and the others go on. An interrupt prints what is finished.\n\n"
              "Examples:\n  tscompile generate built --prompt 'The graph' --max-new-tokens 100\n"
              "  tscompile generate built --prompt-ids 464,4823 --top-k 50 --seed 7\n"
              "  tscompile generate built --prompts requests.jsonl --format json\n"
              "where a line of requests.jsonl is {\"prompt\": \"The graph\", \"top_k\": 50, \"stop\": [\"\\n\"]}\n",
          .options = generateOptions(),
          .command = runGenerate};
}

}  // namespace tscompile
