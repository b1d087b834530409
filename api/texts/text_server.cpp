#include "api/texts/text_server.h"

#include "api/support/generation_files.h"

#include <fmt/core.h>

#include <algorithm>

namespace tscompile {
namespace {

// Whether the model ended it: there is no room for more tokens.
bool isCut(const TextRequest& request, const RequestResult& result) {
  return result.reason == FinishReason::Length && static_cast<int64_t>(result.tokens.size()) < request.maxNewTokens;
}

// Milliseconds, to a microsecond.
double between(std::chrono::steady_clock::time_point begin, std::chrono::steady_clock::time_point end) {
  return static_cast<double>(std::chrono::duration_cast<std::chrono::microseconds>(end - begin).count()) / 1000;
}

}  // namespace

std::unique_ptr<TextServer> TextServer::open(const std::string& folder, Options options, Diagnostics& diagnostics) {
  std::unique_ptr<TextServer> out(new TextServer);
  out->options_ = std::move(options);
  out->model_ = LanguageModel::load(folder, out->options_.model, diagnostics);
  if (!out->model_ || !out->openTokenizerFile(folder, diagnostics) || !out->findEndTokens(folder, diagnostics))
    return nullptr;
  out->batcher_ = Batcher::make(*out->model_, out->model_->cache(), out->model_->limits(), diagnostics);
  return out->batcher_ ? std::move(out) : nullptr;
}

bool TextServer::needsTokenizer(const TextRequest& r) { return r.prompt || !r.stop.empty() || !r.badWords.empty(); }

bool TextServer::openTokenizerFile(const std::string& folder, Diagnostics& diagnostics) {
  const std::optional<std::string> own = tokenizerIn(folder);
  if (!options_.tokenizer.empty())
    tokenizer_ = openTokenizer(options_.tokenizer, diagnostics);
  else if (!options_.opensTokenizer)
    return true;
  else if (own)
    tokenizer_ = openTokenizer(*own, diagnostics);
  else if (model_->vocabularySize() == 256)
    tokenizer_ = makeByteTokenizer();
  else if (!options_.needsTokenizer)
    return true;
  else
    reportNoTokenizer("prompts, stop texts and words to avoid need", diagnostics);
  if (tokenizer_ && tokenizer_->vocabularySize() > model_->vocabularySize()) {
    diagnostics.error(fmt::format("the tokenizer has {} tokens, but the model {}", tokenizer_->vocabularySize(),
                                  model_->vocabularySize()),
                      ErrorKind::Input);
    return false;
  }
  return tokenizer_ != nullptr;
}

void TextServer::reportNoTokenizer(std::string_view needs, Diagnostics& diagnostics) const {
  diagnostics
      .error(fmt::format("the model has {} tokens: {} a tokenizer", model_->vocabularySize(), needs), ErrorKind::Input)
      .note("name its file, or put it into the folder: tokenizer.json, or vocab.json with merges.txt");
}

bool TextServer::findEndTokens(const std::string& folder, Diagnostics& diagnostics) {
  Result<std::vector<TokenId>> found = endTokensIn(folder, tokenizer_.get(), diagnostics);
  if (!found) return false;
  // A tokenizer may have more tokens than the model.
  for (TokenId t : *found)
    if (t < model_->vocabularySize()) endIds_.push_back(t);
  return true;
}

Result<Request> TextServer::requestOf(const TextRequest& asked, Diagnostics& diagnostics) const {
  if (needsTokenizer(asked) && !tokenizer_) {
    reportNoTokenizer(asked.prompt          ? "a prompt in text needs"
                      : !asked.stop.empty() ? "stop texts need"
                                            : "words to avoid need",
                      diagnostics);
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
  const SamplingConfig usual;
  const bool draws = asked.draws || s.temperature != usual.temperature || s.randomSeed != usual.randomSeed;
  if (draws && s.temperature > 0 && s.beamWidth == 1 && !isRandom(s)) s.topP = kAll;
  if (s.beamWidth > 1 && !asked.stop.empty()) {
    diagnostics.error("a beam search takes end tokens, no stop texts", ErrorKind::Unsupported);
    return Failed{};
  }
  if (s.beamWidth > model_->config().maxBeamWidth) {
    diagnostics
        .error(fmt::format("the model was built for max_beam_width {}", model_->config().maxBeamWidth),
               ErrorKind::Input)
        .note("the setting max_beam_width of the build changes it");
    return Failed{};
  }
  return request;
}

size_t TextServer::add(TextRequest request, Diagnostics& wrong) {
  const size_t number = count_++;
  Text& text = texts_[number];
  text.request = std::move(request);
  text.added = Clock::now();
  if (wrong.hasErrors() || !begin(number, text, wrong)) {
    text.failed = wrong.list().front().message;
    refused_.insert(number);
  }
  return number;
}

bool TextServer::begin(size_t number, Text& text, Diagnostics& wrong) {
  Result<Request> request = requestOf(text.request, wrong);
  if (!request) return false;
  if (tokenizer_) text.decoder = std::make_unique<StreamDecoder>(*tokenizer_);
  if (!text.request.stop.empty()) text.stop = std::make_unique<StopTexts>(text.request.stop);
  if (request->sampling.beamWidth == 1)
    request->onToken = [this, number](const TokenEvent& e) { return takeToken(number, e); };
  Result<RequestId> id = batcher_->add(std::move(*request), wrong);
  if (!id) return false;
  text.id = *id;
  numberOf_[*id] = number;
  return true;
}

// False where a stop text was.
bool TextServer::takeToken(size_t number, const TokenEvent& e) {
  Text& t = texts_.at(number);
  t.last = Clock::now();
  if (!t.first) t.first = t.last;
  std::string piece = t.decoder ? t.decoder->push(e.token) : "";
  if (t.stop) piece = t.stop->push(piece);
  t.text += piece;
  if (options_.onToken)
    options_.onToken({.request = number,
                      .id = t.request.id,
                      .token = e.token,
                      .text = t.decoder ? std::optional(std::move(piece)) : std::nullopt,
                      .logProb = t.request.sampling.logProbs ? std::optional(e.logProb) : std::nullopt,
                      .ms = between(t.added, *t.last),
                      .isFirst = e.index == 0});
  return !t.hasStopped();
}

void TextServer::cancel(const std::string& id) {
  for (auto& [number, text] : texts_)
    if (text.request.id == id) cancel(number);
}
void TextServer::cancel(size_t request) {
  auto text = texts_.find(request);
  if (text != texts_.end() && text->second.id) batcher_->cancel(*text->second.id);
}

bool TextServer::step() {
  Diagnostics told;  // again with each result
  return batcher_->step(told);
}

std::vector<size_t> TextServer::ended() const {
  std::vector<size_t> out(refused_.begin(), refused_.end());
  for (RequestId id : batcher_->finished()) out.push_back(numberOf_.at(id));
  std::ranges::sort(out);
  return out;
}

std::vector<size_t> TextServer::pending() const {
  std::vector<size_t> out;
  for (const auto& [number, text] : texts_) out.push_back(number);
  return out;
}

std::optional<std::string> TextServer::textOf(TokenSpan tokens) const {
  return tokenizer_ ? std::optional(tokenizer_->decode(tokens)) : std::nullopt;
}

std::optional<TextResult> TextServer::take(size_t request, Diagnostics& wrong) {
  const auto found = texts_.find(request);
  if (found == texts_.end()) return std::nullopt;
  Text& t = found->second;
  TextResult out{.request = request, .id = t.request.id};
  RequestResult made;
  made.reason = FinishReason::Failed;
  if (t.id) {
    out.isUnfinished = batcher_->cancel(*t.id);
    made = std::move(*batcher_->take(*t.id));
    numberOf_.erase(*t.id);
    if (made.failure && made.failure->kind == ErrorKind::Interrupted) {
      made.reason = FinishReason::Cancelled;
      out.isUnfinished = true;
    } else if (made.failure) {
      t.failed = made.failure->message;
      wrong.add(std::move(*made.failure));
    }
    out.rest = t.decoder ? t.decoder->finish() : "";
    if (t.stop) out.rest = t.stop->push(out.rest), out.rest += t.stop->finish();
    if (tokenizer_) out.text = t.stop ? t.text + out.rest : tokenizer_->continuation(made.tokens);
    if (t.request.sampling.logProbs && t.request.sampling.beamWidth == 1) out.logProbs = std::move(made.logProbs);
    if (t.first) out.firstTokenMs = between(t.added, *t.first);
    out.ms = between(t.added, t.last.value_or(Clock::now()));
  }
  out.finished = t.hasStopped() ? "stop" : std::string(finishReasonName(made.reason));
  if (t.id && isCut(t.request, made)) out.limit = "max_seq_len";
  if (!t.failed.empty()) out.error = t.failed;
  if (!made.hypotheses.empty()) {
    out.beams.emplace();
    for (const Hypothesis& h : made.hypotheses) out.beams->push_back({h.score, h.logProb, h.tokens, textOf(h.tokens)});
  }
  out.tokens = std::move(made.tokens);
  texts_.erase(request);
  refused_.erase(request);
  return out;
}

}  // namespace tscompile
