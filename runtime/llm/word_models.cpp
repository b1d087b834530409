#include "runtime/llm/word_models.h"

#include "runtime/llm/text_split.h"

#include <algorithm>

namespace tscompile {

void UnigramModel::add(std::string_view token, double score) {
  tokens_.add(token, static_cast<uint32_t>(scores_.size()));
  least_ = scores_.empty() ? score : std::min(least_, score);
  scores_.push_back(score);
}

void UnigramModel::encode(std::string_view text, std::string_view unknown, const Part& part) const {
  constexpr double kBelowLeast = 10;
  struct Best {
    double score = 0;
    size_t from = std::string_view::npos;
    bool isToken = true;
  };
  std::vector<Best> best(text.size() + 1);  // of what ends there
  for (size_t at = 0; at < text.size();) {
    const double before = best[at].score;
    auto offer = [&](size_t bytes, double score, bool isToken) {
      Best& b = best[at + bytes];
      if (b.from == std::string_view::npos || before + score > b.score) b = {before + score, at, isToken};
    };
    const size_t character = characterAt(text, at).bytes;
    bool isAlone = false;
    tokens_.each(text.substr(at), [&](size_t bytes, uint32_t index) {
      offer(bytes, scores_[index], text.substr(at, bytes) != unknown);
      isAlone = isAlone || bytes == character;
    });
    if (!isAlone) offer(character, least_ - kBelowLeast, false);
    at += character;
  }
  std::vector<size_t> begins;
  for (size_t at = text.size(); at > 0; at = best[at].from) begins.push_back(at);
  size_t begin = 0;
  for (size_t i = begins.size(); i-- > 0;) {
    const bool isToken = best[begins[i]].isToken;
    if (!isToken && i > 0 && !best[begins[i - 1]].isToken) continue;
    part(text.substr(begin, begins[i] - begin));
    begin = begins[i];
  }
}

void WordPieceModel::add(std::string_view token, TokenId id) {
  first_.add(token, static_cast<uint32_t>(id));
  if (token.starts_with(goesOn)) others_.add(token.substr(goesOn.size()), static_cast<uint32_t>(id));
}

bool WordPieceModel::encode(std::string_view word, std::vector<TokenId>& out) const {
  size_t characters = 0;
  for (size_t at = 0; at < word.size(); at += characterAt(word, at).bytes) ++characters;
  if (characters > mostCharacters) return false;
  const size_t before = out.size();
  for (size_t at = 0, end = 0; at < word.size(); at = end) {
    TokenId longest = 0;
    (at == 0 ? first_ : others_).each(word.substr(at), [&](size_t bytes, uint32_t token) {
      end = at + bytes, longest = static_cast<TokenId>(token);
    });
    if (end == at) return out.resize(before), false;
    out.push_back(longest);
  }
  return true;
}

}  // namespace tscompile
