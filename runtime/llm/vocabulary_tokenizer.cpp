// Byte-pair encoding (Sennrich, Haddow, Birch 2016): merging bytes, or characters, into tokens, the pair of the lowest
// rank first, with a priority queue of the pairs and a linked list of the symbols, in O(n log n).
#include "runtime/llm/vocabulary_tokenizer.h"

#include "ir/support/text.h"

#include <fmt/core.h>

#include <algorithm>
#include <queue>

namespace tscompile {
namespace {

std::string withMarks(std::string_view text) { return replaced(text, " ", kSpaceMark); }

bool printsAsItself(unsigned byte) { return (byte >= 33 && byte <= 126) || (byte >= 161 && byte != 173); }

// A piece of bytes as a list of symbols that merge with their neighbours.
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

bool bytesOfAlphabet(std::string_view text, std::string& bytes) {
  static const std::vector<int> table = [] {
    std::vector<int> byteOf(256 + 256, -1);
    size_t others = 0;
    for (int b = 0; b < 256; ++b)
      byteOf[printsAsItself(static_cast<unsigned>(b)) ? static_cast<size_t>(b) : 256 + others++] = b;
    return byteOf;
  }();
  for (size_t i = 0; i < text.size();) {
    Character c = characterAt(text, i);
    if (c.code >= table.size() || table[c.code] < 0) return false;
    bytes += static_cast<char>(table[c.code]);
    i += c.bytes;
  }
  return true;
}

VocabularyTokenizer::VocabularyTokenizer(VocabularyModel model, std::string_view kind)
    : model_(std::move(model)), kind_(kind) {
  byteIds_.fill(-1);
  ids_.reserve(model_.tokens.size());
  for (size_t id = 0; id < model_.tokens.size(); ++id) {
    const std::string& token = model_.tokens[id];
    if (token.empty()) continue;
    ids_.emplace(token, static_cast<TokenId>(id));
    if (token.size() == 1 && !model_.characters) {
      TokenId& byte = byteIds_[static_cast<unsigned char>(token[0])];
      if (byte < 0) byte = static_cast<TokenId>(id);
    }
  }
  for (size_t b = 0; b < byteIds_.size() && model_.characters && model_.characters->fallsBack; ++b)
    if (auto found = model_.characters->ids.find(fmt::format("<0x{:02X}>", b)); found != model_.characters->ids.end())
      byteIds_[b] = found->second;
  for (uint32_t i = 0; i < model_.added.size(); ++i) {
    AddedToken& token = model_.added[i];
    if (token.normalized) token.text = normalForm(token.text);
    added_[token.normalized].add(token.text, i);
    if (token.special) special_.insert(token.id);
    if (!token.inVocabulary) outside_.insert(token.id);
  }
}

size_t TextCut::pieceEnd(std::string_view text, size_t at) const {
  if (pattern) return pattern->pieceEnd(text, at);
  return digits != DigitRule::None ? tscompile::pieceEnd(digits, text, at) : tscompile::pieceEnd(rule, text, at);
}

std::optional<std::string_view> VocabularyTokenizer::bytes(TokenId token) const {
  if (token < 0 || token >= vocabularySize() || model_.tokens[static_cast<size_t>(token)].empty()) return std::nullopt;
  return model_.tokens[static_cast<size_t>(token)];
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

bool VocabularyTokenizer::encodePiece(std::string_view piece, std::vector<TokenId>& out,
                                      Diagnostics& diagnostics) const {
  if (model_.wholeWords)
    if (std::optional<TokenId> whole = find(piece); whole && !outside_.contains(*whole)) {
      out.push_back(*whole);
      return true;
    }
  std::vector<TokenId> symbols(piece.size());
  for (size_t i = 0; i < piece.size(); ++i) {
    symbols[i] = byteIds_[static_cast<unsigned char>(piece[i])];
    if (symbols[i] >= 0) continue;
    diagnostics.error(
        fmt::format("the vocabulary has no token for the byte 0x{:02x}", static_cast<unsigned char>(piece[i])),
        ErrorKind::Input);
    return false;
  }
  Merger(model_, std::move(symbols)).run(out);
  return true;
}

std::string VocabularyTokenizer::normalForm(std::string_view text) const {
  std::string out(text);
  for (const Normalizer& n : model_.normalizers) out = n(out);
  return out;
}

TokenId VocabularyTokenizer::wholeToken(std::string_view text) const {
  auto found = model_.characters->ids.find(std::string(text));
  return found == model_.characters->ids.end() || outside_.contains(found->second) ? TokenId{-1} : found->second;
}

// Text that is no token.
bool VocabularyTokenizer::appendUnknown(std::string_view text, std::vector<TokenId>& out,
                                        Diagnostics& diagnostics) const {
  auto byteId = [&](char b) { return byteIds_[static_cast<unsigned char>(b)]; };
  if (std::ranges::all_of(text, [&](char b) { return byteId(b) >= 0; })) {
    std::ranges::transform(text, std::back_inserter(out), byteId);
    return true;
  }
  if (model_.characters->unknown < 0) {
    diagnostics.error(fmt::format("the vocabulary has no token for the character {}", jsonQuote(text)),
                      ErrorKind::Input);
    return false;
  }
  out.push_back(model_.characters->unknown);
  return true;
}

// Characters that are tokens, bytes of others, or one token for all that are unknown; these are merged.
bool VocabularyTokenizer::encodeCharacters(std::string_view piece, std::vector<TokenId>& out,
                                           Diagnostics& diagnostics) const {
  const CharacterRules& rules = *model_.characters;
  if (const TokenId whole = model_.wholeWords ? wholeToken(piece) : -1; whole >= 0) {
    out.push_back(whole);
    return true;
  }
  std::vector<TokenId> symbols;
  bool wasUnknown = false;
  for (size_t at = 0; at < piece.size();) {
    const std::string_view c = piece.substr(at, characterAt(piece, at).bytes);
    at += c.size();
    const bool endsWord = at == piece.size() && !rules.endOfWord.empty();
    if (const TokenId own = wholeToken(endsWord ? std::string(c) + rules.endOfWord : std::string(c)); own >= 0) {
      symbols.push_back(own);
      wasUnknown = false;
      continue;
    }
    const size_t before = symbols.size();
    if (!appendUnknown(c, symbols, diagnostics)) return false;
    const bool isUnknown = symbols.back() == rules.unknown;
    if (isUnknown && wasUnknown && rules.fusesUnknown) symbols.resize(before);
    wasUnknown = isUnknown;
  }
  Merger(model_, std::move(symbols)).run(out);
  return true;
}

bool VocabularyTokenizer::encodeWord(std::string_view word, bool isFirst, std::vector<TokenId>& out,
                                     Diagnostics& diagnostics) const {
  const CharacterRules& rules = *model_.characters;
  std::string marked(word);
  if (rules.prefix != CharacterRules::Prefix::None) {
    marked = withMarks(marked);
    const bool isAsked = rules.prefix == CharacterRules::Prefix::Missing ||
                         (rules.prefix == CharacterRules::Prefix::MissingAtFirst && isFirst);
    if (!marked.empty() && isAsked && !marked.starts_with(kSpaceMark)) marked.insert(0, kSpaceMark);
  }
  for (size_t at = 0, end; at < marked.size(); at = end) {
    end = rules.cutsWords ? std::min(marked.find(kSpaceMark, at + 1), marked.size()) : marked.size();
    const std::string_view piece = std::string_view(marked).substr(at, end - at);
    bool isDone = true;
    auto known = [&](std::string_view text) {
      const TokenId id = wholeToken(text);
      if (id >= 0) out.push_back(id);
      return id >= 0;
    };
    switch (rules.model) {
      case CharacterRules::Model::Merges:
        isDone = encodeCharacters(piece, out, diagnostics);
        break;
      case CharacterRules::Model::Unigram: {
        const auto unknown = bytes(rules.unknown).value_or("");
        rules.unigram.encode(piece, unknown, [&](std::string_view part) {
          isDone = isDone && (known(part) || appendUnknown(part, out, diagnostics));
        });
        break;
      }
      case CharacterRules::Model::WordPiece:
        isDone = rules.wordPiece.encode(piece, out) || appendUnknown(piece, out, diagnostics);
        break;
      case CharacterRules::Model::Words:
        isDone = known(piece) || appendUnknown(piece, out, diagnostics);
        break;
    }
    if (!isDone) return false;
  }
  return true;
}

bool VocabularyTokenizer::encodePlain(std::string_view text, bool isFirst, std::vector<TokenId>& out,
                                      Diagnostics& diagnostics) const {
  if (model_.characters) {
    std::vector<std::string_view> words;
    if (!text.empty()) words.push_back(text);
    for (const WordRule rule : model_.characters->words) {
      std::vector<std::string_view> parts;
      for (std::string_view w : words) std::ranges::copy(wordsOf(rule, w), std::back_inserter(parts));
      words = std::move(parts);
    }
    return std::ranges::all_of(
        words, [&](std::string_view w) { return encodeWord(w, isFirst && w.data() == text.data(), out, diagnostics); });
  }
  std::string spaced;
  if (model_.addPrefixSpace && !text.empty() && text[0] != ' ') {
    spaced = " ";
    spaced += text;
    text = spaced;
  }
  // Where the tokens of a piece already are: words come again and again.
  std::unordered_map<std::string_view, std::pair<size_t, size_t>> done;
  std::vector<size_t> parts(model_.cuts.size(), 0);  // where the pieces of each cut end
  for (size_t at = 0, end; at < text.size(); at = end) {
    end = text.size();
    for (size_t i = 0; i < parts.size(); end = parts[i++])
      if (at == parts[i]) parts[i] = model_.cuts[i].pieceEnd(text.substr(0, end), at);
    end = pieceEnd(model_.split, text.substr(0, end), at);
    std::string_view piece = text.substr(at, end - at);
    auto [known, isNew] = done.try_emplace(piece, out.size(), out.size());
    auto& [first, last] = known->second;
    if (!isNew) {
      for (size_t i = first; i < last; ++i) out.push_back(out[i]);
      continue;
    }
    if (!encodePiece(piece, out, diagnostics)) return false;
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
  auto plain = [&](std::string_view rest) { return encodePlain(rest, out.size() == framed, out, diagnostics); };
  auto normalized = [&](std::string_view rest) {
    const std::string form = normalForm(rest);
    return options.addedTokens ? encodeAround(form, true, out, plain) : plain(form);
  };
  if (!(options.addedTokens ? encodeAround(text, false, out, normalized) : normalized(text))) return Failed{};
  if (options.frame) out.insert(out.end(), model_.after.begin(), model_.after.end());
  return out;
}

}  // namespace tscompile
