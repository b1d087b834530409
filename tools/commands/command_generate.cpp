// `tscompile generate` runs what `tscompile build` made.
#include "api/texts/text_server.h"
#include "ir/support/json_fields.h"
#include "ir/support/text.h"
#include "tools/commands/commands.h"
#include "tools/options/option_parts.h"
#include "tools/session/process.h"
#include "tools/tasks/generation_settings.h"

#include <fmt/core.h>

#include <algorithm>
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

// Where a request comes from.
struct Origin {
  SourcePtr source = nullptr;  // if it is a file; of standard input its line alone
  SourceRange place = {};      // in it
  size_t line = 0;             // of standard input
};
struct Asked {
  TextRequest request;
  Origin origin = {};
  Diagnostics wrong = Diagnostics();  // with its line
};

struct ResultList {
  std::vector<TextResult> results;

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
    TextServer::Options options;
    options.model.threads = static_cast<int>(command_.threads);
    options.model.load.limits = session_.common.limits;
    options.model.run = session_.runLimits();
    options.model.run.interrupt = &interrupts.interrupted();
    options.tokenizer = command_.tokenizer;
    // Without one, a request for which there has to be one fails alone.
    const auto needs = [](const Asked& a) { return TextServer::needsTokenizer(a.request); };
    options.needsTokenizer = !asked_.empty() && std::ranges::all_of(asked_, needs);
    options.opensTokenizer = std::ranges::any_of(asked_, needs) || lines_;
    streamsText_ = asked_.size() == 1 && !lines_ && !isJson() && asked_[0].request.sampling.beamWidth == 1;
    if (streamsText_ || command_.stream) options.onToken = [this](const TextToken& t) { takeToken(t); };
    server_ = TextServer::open(folder, std::move(options), session_.diagnostics);
    if (!server_) return session_.finish();
    for (Asked& a : asked_) add(a);
    Rates rates = serve(interrupts);
    isLate_ = isOutOfTime();
    endTimeLimit();  // what there is is written
    for (size_t number : server_->pending()) take(number);
    if (!command_.stream) printResults();
    if (interrupts.signal()) return finishEarly("interrupted", ErrorKind::Interrupted, 128 + interrupts.signal());
    if (isLate_ && unfinished_) return finishEarly(timeLimitPassed(), ErrorKind::Limit, exitCode(ErrorKind::Limit));
    noteCut();
    if (generated_ == 0) return finish();
    session_.note(fmt::format("{} in {:.3f} s; prompts: {}; then: {}; KV cache {:.1f} MB", counted(generated_, "token"),
                              rates.prompts.seconds + rates.rest.seconds, rates.prompts.text(), rates.rest.text(),
                              static_cast<double>(server_->model().cacheBytes()) / 1e6));
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
    const BatchCounters& c = server_->counters();
    for (bool more = true; (more || mayCome()) && !interrupts.signal() && !isOutOfTime();) {
      if (lines_) takeLines(!more);
      BatchCounters before = c;
      auto begin = Clock::now();
      more = server_->step();
      if (command_.stream)
        for (size_t number : server_->ended()) take(number);
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
    asked_.push_back({.request = command_.settings});
    return asked_.back();
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
      if (!trim(text.substr(begin, end - begin)).empty()) readLine(append(), source, begin, end);
    }
    return true;
  }

  // False if the line asks for no text.
  bool readLine(Asked& a, const SourcePtr& source, size_t begin, size_t end) {
    Diagnostics said;
    Result<JsonTree> tree = JsonTree::parse(source, begin, end, said);
    a.wrong.keepAlive(source);
    for (Diagnostic d : said.list()) {
      d.note("a line is a prompt in quotes, or an object such as {\"prompt\": \"Once upon\", \"max_new_tokens\": 20}");
      a.wrong.add(std::move(d));
    }
    if (std::optional<std::string> id = tree && lines_ ? idToCancel(tree->root()) : std::nullopt) {
      server_->cancel(*id);
      return false;
    }
    a.origin = {source, {source.get(), static_cast<uint32_t>(begin), static_cast<uint32_t>(end)}, lineNumber_};
    if (tree) readRequest(tree->root(), a.request, a.wrong);
    return true;
  }

  // Whether standard input may bring more.
  bool mayCome() const { return lines_ && !lines_->ended(); }

  // Adds what standard input has; `wait` waits for it. Not more than can begin soon: the rest waits outside.
  void takeLines(bool wait) {
    constexpr size_t kMostWaiting = 64;
    for (; server_->waiting() < kMostWaiting; wait = false) {
      const std::optional<std::string> line = lines_->next(wait);
      if (!line) break;
      ++lineNumber_;
      if (trim(*line).empty()) continue;
      Asked a{.request = command_.settings};
      if (readLine(a, SourceFile::make("<stdin>", *line), 0, line->size())) add(a);
    }
    if (!mayCome() && !lines_->failure().empty() && !session_.diagnostics.hasErrors())
      session_.diagnostics.fileError("<stdin>", {}, lines_->failure(), ErrorKind::Io);
  }

  void add(Asked& a) {
    const size_t number = server_->add(std::move(a.request), a.wrong);
    origins_[number] = a.origin;
    report(a.origin, a.wrong);
    if (a.wrong.hasErrors() && command_.stream) take(number);
  }

  // Tells what is wrong so far: whoever feeds a stream is not to wait for its end.
  void reportAtOnce() {
    if (session_.diagnostics.list().empty()) return;
    if (session_.diagnostics.hasErrors() && !failed_) failed_ = exitCode(session_.diagnostics.firstErrorKind());
    session_.report();
  }
  int finish() { return session_.finish(failed_.value_or(kExitDone)); }

  // What is wrong with a request, with its place.
  void report(const Origin& origin, const Diagnostics& wrong) {
    // A line of standard input is told with those before it, so that it has its place.
    const auto before = static_cast<uint32_t>(origin.line ? origin.line - 1 : 0);
    SourcePtr whole = origin.source;
    if (before) whole = SourceFile::make("<stdin>", std::string(before, '\n') + std::string(whole->text()));
    if (whole && !wrong.list().empty() && !session_.diagnostics.full()) session_.diagnostics.keepAlive(whole);
    for (Diagnostic d : wrong.list()) {
      if (!d.range.valid() && d.path.empty()) d.range = origin.place;
      if (before && d.range.file == origin.source.get())
        d.range = {whole.get(), d.range.begin + before, d.range.end + before};
      session_.diagnostics.add(std::move(d));
    }
  }

  // ---- what comes ----

  void takeToken(const TextToken& t) {
    if (command_.stream)
      writeJson(session_.out, t);
    else if (t.text)
      session_.out << *t.text;
    else
      session_.out << (t.isFirst ? "" : ",") << t.token;
  }

  // The result of one that has ended, or what it has. The lines of a stream are all that is told of it.
  void take(size_t number) {
    Diagnostics wrong;
    TextResult result = *server_->take(number, wrong);
    if (isLate_ && wrong.hasErrors() && wrong.firstErrorKind() == ErrorKind::Limit) {
      // The step that the limit ended.
      wrong.clear();
      result.finished = "cancelled";
      result.error.reset();
      result.isUnfinished = true;
    }
    report(origins_[number], wrong);
    origins_.erase(number);
    ++taken_;
    generated_ += result.tokens.size();
    unfinished_ += result.isUnfinished;
    cut_ += result.limit.has_value();
    if (streamsText_ && result.text) session_.out << result.rest;
    if (command_.stream)
      writeJson(session_.out, TextEnd{result});
    else
      results_.push_back(std::move(result));
  }

  void noteCut() {
    if (cut_)
      session_.note(fmt::format("{} ended at max_seq_len, {} with the prompt, before --max-new-tokens",
                                counted(cut_, "text"),
                                counted(static_cast<uint64_t>(server_->model().config().maxSeqLen), "token")));
  }

  void printResults() {
    if (session_.common.json) return writeJson(session_.out, ResultList{std::move(results_)});
    for (const TextResult& r : results_) printText(r);
  }

  // A line for each text that is finished; of beams the best ones with their scores.
  void printText(const TextResult& r) {
    const bool isAlone = results_.size() == 1;
    const bool isBegun = r.ms.has_value();
    if (!isBegun && isAlone) return;
    if (streamsText_)
      session_.out << "\n";
    else if (r.beams && r.beams->size() > 1)
      for (const TextBeam& b : *r.beams)
        session_.out << fmt::format("{:.6f} {}\n", b.score, b.text.value_or(idsText(b.tokens)));
    else if (r.finished == "failed" || r.finished == "cancelled")
      session_.out << (isAlone ? "" : "\n");
    else
      session_.out << r.text.value_or(idsText(r.tokens)) << "\n";
  }

  int finishEarly(std::string_view why, ErrorKind kind, int code) {
    session_.out.flush();
    session_.diagnostics.error(fmt::format("{}: {} of {} {} not finished", why, unfinished_, counted(taken_, "text"),
                                           unfinished_ == 1 ? "is" : "are"),
                               kind);
    session_.finish();
    return code;
  }

  const GenerateCommand& command_;
  Session& session_;
  std::unique_ptr<TextServer> server_;
  std::vector<Asked> asked_;          // before the model runs
  std::map<size_t, Origin> origins_;  // of those that were not taken
  std::vector<TextResult> results_;   // that are printed at the end
  std::optional<InputLines> lines_;   // that come while others are served
  size_t lineNumber_ = 0;
  std::optional<int> failed_;  // the exit code of what was reported already
  bool streamsText_ = false, isLate_ = false;
  size_t generated_ = 0, unfinished_ = 0, cut_ = 0, taken_ = 0;
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
  checkGenerationRanges(command.settings);
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
