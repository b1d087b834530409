// Texts that a built model makes for requests: tokens and texts in, what comes as it comes, and what it became.
#pragma once

#include "api/language_model.h"
#include "api/texts/text_request.h"
#include "runtime/llm/stop_texts.h"
#include "runtime/llm/tokenizer.h"

#include <chrono>
#include <functional>
#include <map>
#include <set>

namespace tscompile {

inline constexpr std::string_view kTextEvent = "tscompile.generate_event/1";

// One token of a text, as it comes.
struct TextToken {
  size_t request;
  std::optional<std::string> id;
  TokenId token;
  std::optional<std::string> text;  // what is known by it
  std::optional<double> logProb;
  double ms;  // since the request was added
  bool isFirst;

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("schema", kTextEvent);
    visit("prompt", request);
    visit("id", id);
    visit("token", token);
    visit("text", text);
    visit("log_prob", logProb);
    visit("ms", ms);
  }
};

struct TextBeam {
  double score, logProb;
  std::vector<TokenId> tokens;
  std::optional<std::string> text;

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("score", score);
    visit("log_prob", logProb);
    visit("tokens", tokens);
    visit("text", text);
  }
};

// What became of a request.
struct TextResult {
  size_t request = 0;
  std::optional<std::string> id = {};
  std::string finished = {};              // end, length, stop, cancelled, failed
  std::optional<std::string> limit = {};  // that ended it, if it is not its own
  std::optional<std::string> error = {};
  std::vector<TokenId> tokens = {};
  std::optional<std::string> text = {};
  std::optional<std::vector<double>> logProbs = {};
  std::optional<std::vector<TextBeam>> beams = {};
  std::optional<double> firstTokenMs = {}, ms = {};  // since it was added; of one that has begun

  bool isUnfinished = false;  // it was taken, or the model interrupted, before its end
  std::string rest = {};      // of the text, after what came with tokens

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("prompt", request);
    visit("id", id);
    visit("finished", finished);
    visit("limit", limit);
    visit("error", error);
    visit("tokens", tokens);
    visit("text", text);
    visit("log_probs", logProbs);
    visit("beams", beams);
    visit("first_token_ms", firstTokenMs);
    visit("ms", ms);
  }
};

// The same as a line of a stream.
struct TextEnd {
  const TextResult& result;

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("schema", kTextEvent);
    result.fields(visit);
  }
};

// Makes texts for several requests at once: add() them, step() until it says that there is nothing to do, take() those
// that have ended. Not for several threads at once.
class TextServer {
 public:
  struct Options {
    LanguageModel::Options model = {};
    std::string tokenizer = {};   // a file; empty: what the folder has, else bytes where there are 256 tokens
    bool needsTokenizer = false;  // an error if there is none
    bool opensTokenizer = true;   // else texts are tokens alone
    std::function<void(const TextToken&)> onToken = nullptr;  // of requests that search no beams
  };
  // A folder that buildLanguageModel() has made. Null after a report.
  static std::unique_ptr<TextServer> open(const std::string& folder, Options options, Diagnostics& diagnostics);

  // Whether it has texts that are to become tokens.
  static bool needsTokenizer(const TextRequest& request);

  // Begins a text and gives its number, from 0. What is wrong with the request is reported and becomes its result, as
  // does what `wrong` has before.
  size_t add(TextRequest request, Diagnostics& wrong);
  // Ends all of that id with what they have. There may be none: one can end while whoever asked for it turns away.
  void cancel(const std::string& id);
  void cancel(size_t request);
  // Runs the model once. False if there is nothing to do.
  bool step();
  // Those that have ended and were not taken, by number.
  std::vector<size_t> ended() const;
  // The result of a request, which is forgotten; one that has not ended is cancelled. What made it fail is reported.
  // Nothing if there is no such request: it was never added, or was taken before.
  std::optional<TextResult> take(size_t request, Diagnostics& wrong);
  // Those that were not taken, by number.
  std::vector<size_t> pending() const;
  // How many wait for their turn.
  size_t waiting() const { return batcher_->waiting(); }

  LanguageModel& model() { return *model_; }
  const Tokenizer* tokenizer() const { return tokenizer_.get(); }
  const BatchCounters& counters() const { return batcher_->counters(); }

 private:
  using Clock = std::chrono::steady_clock;
  // A text on its way.
  struct Text {
    TextRequest request;
    Clock::time_point added;
    std::optional<Clock::time_point> first, last;  // tokens
    std::optional<RequestId> id;
    std::unique_ptr<StreamDecoder> decoder;
    std::unique_ptr<StopTexts> stop;
    std::string text;    // as far as it is known
    std::string failed;  // what is wrong with it

    bool hasStopped() const { return stop && stop->found(); }
  };

  TextServer() = default;
  bool openTokenizerFile(const std::string& folder, Diagnostics& diagnostics);
  bool findEndTokens(const std::string& folder, Diagnostics& diagnostics);
  void reportNoTokenizer(std::string_view needs, Diagnostics& diagnostics) const;
  Result<Request> requestOf(const TextRequest& asked, Diagnostics& diagnostics) const;
  bool begin(size_t number, Text& text, Diagnostics& wrong);
  bool takeToken(size_t number, const TokenEvent& event);
  std::optional<std::string> textOf(TokenSpan tokens) const;

  Options options_;
  std::unique_ptr<LanguageModel> model_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::unique_ptr<Batcher> batcher_;
  std::vector<TokenId> endIds_;
  std::map<size_t, Text> texts_;
  std::map<RequestId, size_t> numberOf_;  // of those that were begun
  std::set<size_t> refused_;              // that never were
  size_t count_ = 0;
};

}  // namespace tscompile
