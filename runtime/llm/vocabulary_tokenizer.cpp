// Byte-pair encoding (Sennrich, Haddow, Birch 2016): merging bytes, or characters, into tokens, the pair of the lowest
// rank first, with a priority queue of the pairs and a linked list of the symbols, in O(n log n).
#include "runtime/llm/vocabulary_tokenizer.h"

#include "ir/support/text.h"
#include "runtime/llm/normal_forms.h"
#include "runtime/llm/text_split.h"

#include <fmt/core.h>

#include <algorithm>
#include <queue>

namespace tscompile {
namespace {

// A piece as a list of symbols that merge with their neighbours.
class Merger {
 public:
  Merger(const VocabularyModel& model, std::vector<TokenId> symbols) : model_(model), symbols_(std::move(symbols)) {
    size_t n = symbols_.size();
    next_.resize(n);
    previous_.resize(n);
    for (size_t i = 0; i < n; ++i) {
      next_[i] = static_cast<int64_t>(i) + 1;
      previous_[i] = static_cast<int64_t>(i) - 1;
    }
    for (size_t i = 0; i + 1 < n; ++i) offer(i);
  }

  void run(std::vector<TokenId>& out) {
    while (!queue_.empty()) {
      Offer best = queue_.top();
      queue_.pop();
      if (holds(best)) merge(best);
    }
    for (size_t i = 0; i < symbols_.size(); i = static_cast<size_t>(next_[i])) out.push_back(symbols_[i]);
  }

 private:
  static constexpr TokenId kGone = -1;
  struct Offer {
    uint32_t rank;
    size_t at;
    TokenId left, right, result;
    // priority_queue has the greatest on top.
    bool operator<(const Offer& other) const { return rank != other.rank ? rank > other.rank : at > other.at; }
  };

  size_t after(size_t at) const { return static_cast<size_t>(next_[at]); }
  bool holds(const Offer& o) const {
    return symbols_[o.at] == o.left && after(o.at) < symbols_.size() && symbols_[after(o.at)] == o.right;
  }
  void offer(size_t at) {
    size_t right = after(at);
    if (right >= symbols_.size()) return;
    auto found = model_.merges.find(VocabularyModel::pairKey(symbols_[at], symbols_[right]));
    if (found != model_.merges.end())
      queue_.push({found->second.rank, at, symbols_[at], symbols_[right], found->second.result});
  }
  void merge(const Offer& o) {
    size_t gone = after(o.at);
    symbols_[o.at] = o.result;
    symbols_[gone] = kGone;
    next_[o.at] = next_[gone];
    if (after(o.at) < symbols_.size()) previous_[after(o.at)] = static_cast<int64_t>(o.at);
    if (previous_[o.at] >= 0) offer(static_cast<size_t>(previous_[o.at]));
    offer(o.at);
  }

  const VocabularyModel& model_;
  std::vector<TokenId> symbols_;
  std::vector<int64_t> next_, previous_;
  std::priority_queue<Offer> queue_;
};

}  // namespace

VocabularyTokenizer::VocabularyTokenizer(VocabularyModel model, std::string_view kind)
    : model_(std::move(model)), kind_(kind) {
  ids_.reserve(model_.bytes.size());
  for (size_t id = 0; id < model_.bytes.size(); ++id)
    if (!model_.texts[id].empty()) ids_.emplace(model_.bytes[id], static_cast<TokenId>(id));
  for (size_t b = 0; b < byteIds_.size(); ++b)
    byteIds_[b] = model_.fallsBack ? numberOf(fmt::format("<0x{:02X}>", b)) : -1;
  constexpr uint32_t kFirst = 0x180;  // GPT-2's alphabet is among them
  for (uint32_t code = 0; code < kFirst; ++code) {
    std::string text;
    appendCharacter(code, text);
    characterIds_.push_back(numberOf(text));
  }
  for (uint32_t i = 0; i < model_.added.size(); ++i) {
    AddedToken& token = model_.added[i];
    if (token.normalized) token.text = normalForm(token.text);
    added_[token.normalized].add(token.text, i);
    if (token.special) special_.insert(token.id);
  }
}

std::optional<std::string_view> VocabularyTokenizer::bytes(TokenId token) const {
  if (token < 0 || token >= vocabularySize() || model_.texts[static_cast<size_t>(token)].empty()) return std::nullopt;
  return model_.bytes[static_cast<size_t>(token)];
}

bool VocabularyTokenizer::isSpecial(TokenId token) const { return special_.contains(token); }

std::optional<TokenId> VocabularyTokenizer::find(std::string_view bytes) const {
  auto found = ids_.find(bytes);
  if (found == ids_.end()) return std::nullopt;
  return found->second;
}

const AddedToken* VocabularyTokenizer::addedAt(std::string_view text, size_t at, bool normalized) const {
  std::optional<uint32_t> found = added_[normalized].longest(text.substr(at));
  return found ? &model_.added[*found] : nullptr;
}

std::string VocabularyTokenizer::normalForm(std::string_view text) const {
  std::string out(text);
  for (const Normalizer& n : model_.normalizers) out = n(out);
  return out;
}

TokenId VocabularyTokenizer::numberOf(std::string_view text) const {
  auto found = model_.ids.find(text);
  return found == model_.ids.end() ? TokenId{-1} : found->second;
}

// Text that is no token.
bool VocabularyTokenizer::appendUnknown(std::string_view text, std::vector<TokenId>& out,
                                        Diagnostics& diagnostics) const {
  auto byteId = [&](char b) { return byteIds_[static_cast<unsigned char>(b)]; };
  if (std::ranges::all_of(text, [&](char b) { return byteId(b) >= 0; })) {
    std::ranges::transform(text, std::back_inserter(out), byteId);
    return true;
  }
  if (model_.unknown >= 0) {
    out.push_back(model_.unknown);
    return true;
  }
  std::string bytes;
  const bool isByte = model_.preTokenizers.makesBytes && bytesOfAlphabet(text, bytes) && bytes.size() == 1;
  diagnostics.error("the vocabulary has no token for the " +
                        (isByte ? fmt::format("byte 0x{:02x}", static_cast<unsigned char>(bytes[0]))
                                : "character " + jsonQuote(text)),
                    ErrorKind::Input);
  return false;
}

// Characters that are tokens, bytes of others, or one token for all that are unknown; these are merged.
bool VocabularyTokenizer::encodeCharacters(std::string_view piece, std::vector<TokenId>& out,
                                           Diagnostics& diagnostics) const {
  std::vector<TokenId> symbols;
  bool wasUnknown = false;
  for (size_t at = 0; at < piece.size();) {
    const Character character = characterAt(piece, at);
    const std::string_view c = piece.substr(at, character.bytes);
    const bool goesOn = at > 0 && !model_.goesOn.empty();
    at += c.size();
    const bool isLast = at == piece.size() && !model_.endOfWord.empty();
    TokenId own = -1;
    std::string_view text = c;
    std::string marked;
    if (goesOn || isLast) {
      if (goesOn) marked = model_.goesOn;
      marked += c;
      if (isLast) marked += model_.endOfWord;
      own = numberOf(text = marked);
    } else {
      const bool isFirst = character.code < characterIds_.size() && (c.size() > 1 || character.code < 0x80);
      own = isFirst ? characterIds_[character.code] : numberOf(c);
    }
    if (own >= 0) {
      symbols.push_back(own);
      wasUnknown = false;
      continue;
    }
    const size_t before = symbols.size();
    if (!appendUnknown(text, symbols, diagnostics)) return false;
    const bool isUnknown = symbols.back() == model_.unknown;
    if (isUnknown && wasUnknown && model_.fusesUnknown) symbols.resize(before);
    wasUnknown = isUnknown;
  }
  Merger(model_, std::move(symbols)).run(out);
  return true;
}

bool VocabularyTokenizer::encodePiece(std::string_view piece, std::vector<TokenId>& out,
                                      Diagnostics& diagnostics) const {
  auto isKnown = [&](std::string_view text) {
    const TokenId id = numberOf(text);
    if (id >= 0) out.push_back(id);
    return id >= 0;
  };
  switch (model_.kind) {
    case VocabularyModel::Kind::Merges:
      return (model_.wholeWords && isKnown(piece)) || encodeCharacters(piece, out, diagnostics);
    case VocabularyModel::Kind::Unigram: {
      bool isDone = true;
      const std::string_view unknown =
          model_.unknown < 0 ? std::string_view() : model_.texts[static_cast<size_t>(model_.unknown)];
      model_.unigram.encode(piece, unknown, [&](std::string_view part) {
        isDone = isDone && (isKnown(part) || appendUnknown(part, out, diagnostics));
      });
      return isDone;
    }
    case VocabularyModel::Kind::WordPiece:
      return model_.wordPiece.encode(piece, out) || appendUnknown(piece, out, diagnostics);
    case VocabularyModel::Kind::Words:
      return isKnown(piece) || appendUnknown(piece, out, diagnostics);
  }
  return false;
}

bool VocabularyTokenizer::encodePlain(std::string_view text, bool isFirst, std::vector<TokenId>& out,
                                      Diagnostics& diagnostics) const {
  Pieces pieces(text, isFirst);
  for (const PreTokenizer& step : model_.preTokenizers.steps) step(pieces);
  // Where the tokens of a piece already are: words come again and again.
  std::unordered_map<std::string_view, std::pair<size_t, size_t>> done;
  for (const Piece& piece : pieces.list()) {
    auto [known, isNew] = done.try_emplace(piece.text, out.size(), out.size());
    auto& [first, last] = known->second;
    if (!isNew) {
      for (size_t i = first; i < last; ++i) out.push_back(out[i]);
      continue;
    }
    if (!encodePiece(piece.text, out, diagnostics)) return false;
    last = out.size();
  }
  return true;
}

template <class Rest>
bool VocabularyTokenizer::encodeAround(std::string_view text, bool normalized, std::vector<TokenId>& out,
                                       const Rest& rest) const {
  auto isSpace = [&](const Character& c) { return c.kind == CharClass::Space; };
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const AddedToken* token = addedAt(text, at, normalized);
    size_t first = at, last = token ? at + token->text.size() : at;
    if (token && token->isWord && (isOfWord(characterBefore(text, first)) || isOfWord(characterAt(text, last)))) {
      at = last;
      continue;
    }
    if (!token) {
      ++at;
      continue;
    }
    at = last;
    if (token->takesSpacesBefore)
      for (Character c; first > begin && isSpace(c = characterBefore(text, first));) first -= c.bytes;
    if (token->takesSpacesAfter)  // those up to `begin` are taken
      for (Character c; isSpace(c = characterAt(text, last = std::max(last, begin)));) last += c.bytes;
    if (first > begin && !rest(text.substr(begin, first - begin))) return false;
    out.push_back(token->id);
    begin = last;
  }
  return begin >= text.size() || rest(text.substr(begin));
}

Result<std::vector<TokenId>> VocabularyTokenizer::encode(std::string_view text, Diagnostics& diagnostics,
                                                         EncodeOptions options) const {
  std::vector<TokenId> out;
  if (options.frame) out = model_.before;
  const size_t framed = out.size();
  bool isWhole = true;  // nothing was dropped in front
  auto plain = [&](std::string_view rest) {
    return encodePlain(rest, isWhole && out.size() == framed, out, diagnostics);
  };
  auto normalized = [&](std::string_view rest) {
    const std::string form = normalForm(rest), first(rest.substr(0, characterAt(rest, 0).bytes));
    isWhole = out.size() != framed || normalForm(first + "x") != normalForm("x");
    return options.addedTokens ? encodeAround(form, true, out, plain) : plain(form);
  };
  if (!(options.addedTokens ? encodeAround(text, false, out, normalized) : normalized(text))) return Failed{};
  if (options.frame) out.insert(out.end(), model_.after.begin(), model_.after.end());
  return out;
}

}  // namespace tscompile
