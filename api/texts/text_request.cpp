#include "api/texts/text_request.h"

#include "ir/support/text.h"

#include <fmt/core.h>

namespace tscompile {
namespace {

using Kind = JsonTree::Kind;

#define TS_SETTING(type, field) +[](TextRequest& r) -> type& { return r.field; }
const TextSetting kSettings[] = {
    {"max_new_tokens", "", "N", "tokens to generate at most (default: 64)", TS_SETTING(int64_t, maxNewTokens)},
    {"min_new_tokens", "", "N", "tokens to generate before one may end the text",
     TS_SETTING(int64_t, sampling.minLength)},
    {"temperature", "", "X", "draw tokens; logits are divided by it before. 0: the likeliest token",
     TS_SETTING(double, sampling.temperature), true},
    {"top_k", "", "N", "draw from the N likeliest tokens", TS_SETTING(int64_t, sampling.topK)},
    {"top_p", "", "X", "draw from the likeliest tokens whose probabilities sum to X",
     TS_SETTING(double, sampling.topP)},
    {"top_p_decay", "", "X", "what {top-p} is multiplied by after each token", TS_SETTING(double, sampling.topPDecay)},
    {"top_p_min", "", "X", "what {top-p} does not fall below", TS_SETTING(double, sampling.topPMin)},
    {"top_p_reset_id", "", "N", "the token after which {top-p} is as at first",
     TS_SETTING(int64_t, sampling.topPResetIds)},
    {"min_p", "", "X", "draw from tokens that are at least X times as likely as the likeliest",
     TS_SETTING(double, sampling.minP)},
    {"seed", "", "N", "draw tokens, with this seed (default: 0)", TS_SETTING(uint64_t, sampling.randomSeed), true},
    {"repetition_penalty", "", "X", "tokens that were there get less likely (above 1)",
     TS_SETTING(double, sampling.repetitionPenalty)},
    {"presence_penalty", "", "X", "taken from the logits of tokens that were there",
     TS_SETTING(double, sampling.presencePenalty)},
    {"frequency_penalty", "", "X", "the same for each time that they were there",
     TS_SETTING(double, sampling.frequencyPenalty)},
    {"prompt_ignore_length", "", "N", "first tokens of the prompt that these two do not count",
     TS_SETTING(int64_t, sampling.promptIgnoreLength)},
    {"no_repeat_ngram_size", "", "N", "no N tokens come about twice", TS_SETTING(int64_t, sampling.noRepeatNgramSize)},
    {"end_ids", "end-id", "N", "a token that ends a text, instead of those that the model's files tell",
     TS_SETTING(std::vector<TokenId>, endIds)},
    {"stop", "", "TEXT", "a text that ends what is generated before it", TS_SETTING(std::vector<std::string>, stop)},
    {"bad_words", "bad-word", "TEXT", "a text whose tokens must not come about",
     TS_SETTING(std::vector<std::string>, badWords)},
    {"beam_width", "", "N", "search the likeliest texts with N beams", TS_SETTING(int64_t, sampling.beamWidth)},
    {"beam_diversity", "", "X", "taken from a beam for each better continuation of the same text",
     TS_SETTING(double, sampling.beamSearchDiversityRate)},
    {"length_penalty", "", "X", "scores of beams are divided by their length to the power of X (default: 0)",
     TS_SETTING(double, sampling.lengthPenalty)},
    {"early_stopping", "", "N", "when a beam search ends; see docs/language_models.md (default: 1)",
     TS_SETTING(int64_t, sampling.earlyStopping)},
    {"log_probs", "", "", "tell the log-probability of each token, in JSON", TS_SETTING(bool, sampling.logProbs)},
};
#undef TS_SETTING

// A value of a line; false if it is none.
bool take(const JsonTree::Value& v, int64_t& into) {
  std::optional<int64_t> n = v.integer();
  if (n) into = *n;
  return n.has_value();
}
bool take(const JsonTree::Value& v, uint64_t& into) {
  std::optional<int64_t> n = v.integer();
  if (!n || *n < 0) return false;
  into = static_cast<uint64_t>(*n);
  return true;
}
bool take(const JsonTree::Value& v, double& into) {
  std::optional<double> x = v.real();
  if (x) into = *x;
  return x.has_value();
}
bool take(const JsonTree::Value& v, bool& into) {
  if (v.is(Kind::Bool)) into = v.truth();
  return v.is(Kind::Bool);
}
bool takeItem(const JsonTree::Value& v, std::vector<TokenId>& into) {
  std::optional<int64_t> n = v.integer();
  if (!n || *n < 0 || *n > INT32_MAX) return false;
  into.push_back(static_cast<TokenId>(*n));
  return true;
}
bool takeItem(const JsonTree::Value& v, std::vector<std::string>& into) {
  if (!v.is(Kind::String) || v.text().empty()) return false;
  into.emplace_back(v.text());
  return true;
}
template <class T>
bool take(const JsonTree::Value& v, std::vector<T>& into) {
  into.clear();
  if (!v.is(Kind::Array)) return takeItem(v, into);
  for (JsonTree::Value item = v.first(); item; item = item.next())
    if (!takeItem(item, into)) return false;
  return true;
}

std::string_view wanted(const TextSetting::Place& place) {
  constexpr std::string_view kWanted[] = {"a number without a fraction",
                                          "a number from 0 up",
                                          "a number",
                                          "true or false",
                                          "a token, or a list of them",
                                          "a text that is not empty, or a list of them"};
  return kWanted[place.index()];
}

std::optional<std::string> idOf(const JsonTree::Value& v) {
  if (v.is(Kind::String)) return std::string(v.text());
  const std::optional<int64_t> number = v.integer();
  return number ? std::optional(std::to_string(*number)) : std::nullopt;
}

bool readMember(const JsonTree::Value& v, TextRequest& request, Diagnostics& diagnostics) {
  auto expected = [&](std::string_view what) {
    diagnostics.error(v.range(), fmt::format("{} takes {}", v.key(), what));
    return false;
  };
  if (v.key() == "prompt") {
    if (!v.is(Kind::String)) return expected("a text");
    request.prompt = std::string(v.text());
    return true;
  }
  if (v.key() == "id") {
    request.id = idOf(v);
    return request.id || expected("a text or a number without a fraction");
  }
  if (v.key() == "prompt_ids") return take(v, request.promptIds) || expected("a list of tokens");
  if (v.key() == "cancel") return expected("the id of a request, alone in a line of a stream");
  for (const TextSetting& s : kSettings) {
    if (v.key() != s.name) continue;
    request.draws |= s.draws;
    return std::visit([&](auto place) { return take(v, place(request)); }, s.place) || expected(wanted(s.place));
  }
  std::string key(v.key());
  NearestName nearest(key);
  for (std::string_view name : {"id", "prompt", "prompt_ids"}) nearest.consider(name);
  for (const TextSetting& s : kSettings) nearest.consider(s.name);
  diagnostics.error(v.range(), fmt::format("a request has no {}{}", abbreviate(key, 80),
                                           nearest.found() ? ", did you mean " + nearest.name() + "?" : ""));
  return false;
}

}  // namespace

std::span<const TextSetting> textSettings() { return kSettings; }

bool readRequest(const JsonTree::Value& line, TextRequest& request, Diagnostics& diagnostics) {
  if (line.is(Kind::String)) {
    request.prompt = std::string(line.text());
    return true;
  }
  if (!line.is(Kind::Object)) {
    diagnostics.error(line.range(),
                      fmt::format("expected an object or a text as a request, found {}", line.kindText()));
    return false;
  }
  bool good = true;
  for (JsonTree::Value v = line.first(); v; v = v.next()) good &= readMember(v, request, diagnostics);
  if (good && request.prompt.has_value() == !request.promptIds.empty()) {
    diagnostics.error(line.range(), "a request needs either prompt or prompt_ids");
    return false;
  }
  return good;
}

std::optional<std::string> idToCancel(const JsonTree::Value& line) {
  const JsonTree::Value only = line.is(Kind::Object) ? line.first() : JsonTree::Value();
  return only && !only.next() && only.key() == "cancel" ? idOf(only) : std::nullopt;
}

}  // namespace tscompile
