// Readers of tokenizer files. They may come from anybody: what is in them is checked before it is used, and what would
// change tokens but is not done here is refused by its name.
#include "frontend/files/json_tree.h"
#include "ir/support/text.h"
#include "runtime/llm/vocabulary_tokenizer.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>

namespace tscompile {
namespace {

using Value = JsonTree::Value;
using Kind = JsonTree::Kind;

class VocabularyReader {
 public:
  explicit VocabularyReader(Diagnostics& diagnostics) : diagnostics_(diagnostics) {}

  bool vocabulary(const Value& object);
  bool mergesOfJson(const Value& list);
  bool mergesOfText(const SourcePtr& source);
  bool tokenizerJson(const Value& root);
  VocabularyModel& model() { return model_; }
  // All tokens of the vocabulary must be bytes, or added tokens.
  bool checkAlphabet();

 private:
  bool fail(SourceRange at, std::string message, ErrorKind kind = ErrorKind::Input) {
    diagnostics_.error(at, std::move(message), kind);
    return false;
  }
  bool unsupported(const Value& at, std::string what) {
    return fail(at.range(), what + " is not supported", ErrorKind::Unsupported);
  }
  bool expected(const Value& at, std::string_view wanted) {
    return fail(at.range(), fmt::format("expected {}, found {}", wanted, at.kindText()));
  }
  std::string_view typeOf(const Value& v) {
    Value type = v.find("type");
    return type && type.is(Kind::String) ? type.text() : "";
  }
  bool flag(const Value& object, std::string_view name, bool otherwise, bool& value);
  bool tokenNumber(const Value& v, size_t limit, TokenId& id);
  bool isShort(std::string_view token, SourceRange at);
  bool name(TokenId id, std::string bytes, SourceRange at);
  bool merge(std::string_view left, std::string_view right, SourceRange at);
  bool piecesOf(std::string_view text, SourceRange at, TokenId& id);
  bool modelOf(const Value& model);
  bool isOfBytes(const Value& preTokenizer);
  std::optional<std::string> bytesOf(std::string_view text) const;
  bool characterModel(const Value& model);
  bool unigram(const Value& model);
  bool wordModel(const Value& model);
  void spellWords(const Value& decoder);
  bool pairFrame(const Value& v, std::string_view name, std::vector<TokenId>& frame);
  bool words(const Value& v);
  bool replacesSpaces(const Value& v, bool isBack);
  bool metaspace(const Value& v);
  bool stepOfDecoder(const Value& v);
  bool refuseIfSet(const Value& object, std::string_view name, bool stringMayBeEmpty);
  bool addedTokens(const Value& list);
  bool normalizer(const Value& v);
  bool preTokenizer(const Value& v);
  bool split(const Value& v, TextCut& cut);
  bool cut(const Value& v);
  bool byteLevel(const Value& v);
  bool postProcessor(const Value& v);
  bool templateFrame(const Value& v);
  bool decoder(const Value& v);

  Diagnostics& diagnostics_;
  VocabularyModel model_;
  std::unordered_map<std::string, TokenId> ids_;              // by the text in the file
  std::unordered_map<TokenId, SourceRange> outsideAlphabet_;  // tokens that are no bytes
  uint32_t ranks_ = 0;
  bool marksSpaces_ = false;  // where text is normalized
  double growth_ = 1;         // of the length of texts, there
};

bool VocabularyReader::flag(const Value& object, std::string_view name, bool otherwise, bool& value) {
  Value v = object.find(name);
  value = otherwise;
  if (!v.present()) return true;
  if (!v.is(Kind::Bool)) return expected(v, fmt::format("true or false as {}", name));
  value = v.truth();
  return true;
}

// Numbers may have gaps, but no more than there are tokens: memory is taken by the greatest of them.
bool VocabularyReader::tokenNumber(const Value& v, size_t limit, TokenId& id) {
  std::optional<int64_t> number = v.integer();
  if (!number || *number < 0) return fail(v.range(), "expected the number of a token, 0 or more");
  if (static_cast<uint64_t>(*number) >= limit)
    return fail(v.range(),
                fmt::format("the token number {} is too large for this vocabulary, whose limit is {}", *number, limit),
                ErrorKind::Limit);
  id = static_cast<TokenId>(*number);
  return true;
}

// Texts are compared with tokens from each of their characters on.
bool VocabularyReader::isShort(std::string_view token, SourceRange at) {
  constexpr size_t kMostBytes = 4096;
  return token.size() <= kMostBytes ||
         fail(at, fmt::format("a token has {} bytes; {} are the most", token.size(), kMostBytes), ErrorKind::Limit);
}

bool VocabularyReader::name(TokenId id, std::string bytes, SourceRange at) {
  if (!isShort(bytes, at)) return false;
  if (model_.tokens.size() <= static_cast<size_t>(id)) model_.tokens.resize(static_cast<size_t>(id) + 1);
  std::string& token = model_.tokens[static_cast<size_t>(id)];
  if (!token.empty()) return fail(at, fmt::format("two tokens have the number {}", id));
  token = std::move(bytes);
  return true;
}

bool VocabularyReader::vocabulary(const Value& object) {
  if (!object.is(Kind::Object)) return expected(object, "an object of tokens and their numbers");
  size_t count = object.count(), limit = 2 * count + 1024;
  ids_.reserve(count);
  model_.tokens.reserve(count);
  for (Value v = object.first(); v; v = v.next()) {
    TokenId id;
    if (!tokenNumber(v, limit, id)) return false;
    if (v.key().empty()) return fail(v.range(), "a token has no characters");
    std::optional<std::string> bytes = bytesOf(v.key());
    if (!bytes) {
      bytes = v.key();
      outsideAlphabet_.emplace(id, v.range());
    }
    if (!name(id, std::move(*bytes), v.range())) return false;
    ids_.emplace(v.key(), id);
  }
  if (ids_.empty()) return fail(object.range(), "the vocabulary has no tokens");
  return true;
}

// None if a character stands for no byte.
std::optional<std::string> VocabularyReader::bytesOf(std::string_view text) const {
  std::string out;
  if (!model_.characters) return bytesOfAlphabet(text, out) ? std::optional(out) : std::nullopt;
  constexpr size_t kLength = 6;  // <0x0A>
  unsigned byte = 0;
  const char* digits = text.data() + 3;
  if (model_.characters->fallsBack && text.size() == kLength && text.starts_with("<0x") && text.ends_with('>') &&
      std::from_chars(digits, digits + 2, byte, 16).ptr == digits + 2)
    return std::string(1, static_cast<char>(byte));
  const std::string& end = model_.characters->endOfWord;
  return replaced(text, end.empty() ? kSpaceMark : std::string_view(end), " ");
}

bool VocabularyReader::checkAlphabet() {
  for (const AddedToken& a : model_.added) outsideAlphabet_.erase(a.id);
  if (outsideAlphabet_.empty()) return true;
  auto earliest = std::min_element(outsideAlphabet_.begin(), outsideAlphabet_.end(),
                                   [](const auto& a, const auto& b) { return a.second.begin < b.second.begin; });
  return fail(earliest->second,
              fmt::format("the token {} has characters that stand for no byte",
                          jsonQuote(abbreviate(model_.tokens[static_cast<size_t>(earliest->first)], 200))));
}

bool VocabularyReader::piecesOf(std::string_view text, SourceRange at, TokenId& id) {
  auto found = ids_.find(std::string(text));
  if (found == ids_.end())
    return fail(at, fmt::format("{} is no token of the vocabulary", jsonQuote(abbreviate(text, 200))));
  id = found->second;
  return true;
}

bool VocabularyReader::merge(std::string_view left, std::string_view right, SourceRange at) {
  TokenId l, r, both;
  std::string joined(left);
  joined += right;
  if (!piecesOf(left, at, l) || !piecesOf(right, at, r) || !piecesOf(joined, at, both)) return false;
  model_.merges[VocabularyModel::pairKey(l, r)] = {ranks_++, both};  // of two that are the same, the later one counts
  return true;
}

// "a b", or ["a", "b"] in newer files.
bool VocabularyReader::mergesOfJson(const Value& list) {
  if (!list.is(Kind::Array)) return expected(list, "a list of merges");
  model_.merges.reserve(list.count());
  for (Value v = list.first(); v; v = v.next()) {
    if (v.is(Kind::Array)) {
      Value left = v.first(), right = left ? left.next() : Value();
      if (!right || right.next() || !left.is(Kind::String) || !right.is(Kind::String))
        return fail(v.range(), "expected two strings to merge");
      if (!merge(left.text(), right.text(), v.range())) return false;
      continue;
    }
    if (!v.is(Kind::String)) return expected(v, "a merge");
    size_t space = v.text().find(' ');
    if (space == std::string_view::npos || v.text().find(' ', space + 1) != std::string_view::npos)
      return fail(v.range(), "expected two tokens with one space between them");
    if (!merge(v.text().substr(0, space), v.text().substr(space + 1), v.range())) return false;
  }
  return true;
}

bool VocabularyReader::mergesOfText(const SourcePtr& source) {
  diagnostics_.keepAlive(source);
  std::string_view text = source->text();
  for (size_t begin = 0, end; begin < text.size(); begin = end + 1) {
    end = std::min(text.find('\n', begin), text.size());
    std::string_view line = text.substr(begin, end - begin);
    if (endsWith(line, "\r")) line.remove_suffix(1);
    if (line.empty() || (begin == 0 && startsWith(line, "#version"))) continue;
    SourceRange at{source.get(), static_cast<uint32_t>(begin), static_cast<uint32_t>(begin + line.size())};
    size_t space = line.find(' ');
    if (space == std::string_view::npos || line.find(' ', space + 1) != std::string_view::npos)
      return fail(at, "expected two tokens with one space between them");
    if (!merge(line.substr(0, space), line.substr(space + 1), at)) return false;
  }
  return true;
}

bool VocabularyReader::refuseIfSet(const Value& object, std::string_view name, bool stringMayBeEmpty) {
  Value v = object.find(name);
  if (!v.present() || (v.is(Kind::Bool) && !v.truth()) || v.real() == 0.0) return true;
  if (stringMayBeEmpty && v.is(Kind::String) && v.text().empty()) return true;
  return unsupported(v, fmt::format("{} in a BPE model", name));
}

bool VocabularyReader::modelOf(const Value& model) {
  if (!model.is(Kind::Object)) return expected(model, "an object as model");
  const std::string_view kind = typeOf(model);
  if (model_.characters && kind == "Unigram") return unigram(model);
  if (model_.characters && (kind == "WordPiece" || kind == "WordLevel")) return wordModel(model);
  if (Value type = model.find("type"); type.present() && kind != "BPE")
    return unsupported(type, type.is(Kind::String)
                                 ? fmt::format("a tokenizer of type {}", jsonQuote(abbreviate(type.text(), 100)))
                                 : "this type of tokenizer");
  Value vocab = model.find("vocab"), merges = model.find("merges");
  if (!vocab) return fail(model.range(), "the model has no vocab");
  if (!merges) return fail(model.range(), "the model has no merges");
  // A token for what is unknown is never needed: bytes that are no token are refused.
  return flag(model, "ignore_merges", false, model_.wholeWords) && refuseIfSet(model, "dropout", false) &&
         refuseIfSet(model, "continuing_subword_prefix", true) &&
         (model_.characters
              ? characterModel(model)
              : refuseIfSet(model, "end_of_word_suffix", true) && refuseIfSet(model, "byte_fallback", false)) &&
         vocabulary(vocab) && mergesOfJson(merges);
}

bool VocabularyReader::characterModel(const Value& model) {
  if (const Value suffix = model.find("end_of_word_suffix"); suffix && suffix.is(Kind::String))
    model_.characters->endOfWord = suffix.text();
  return flag(model, "byte_fallback", false, model_.characters->fallsBack) &&
         flag(model, "fuse_unk", false, model_.characters->fusesUnknown);
}

// Its vocabulary is a list of tokens with the logarithms of their probabilities; of equal ones the last counts.
bool VocabularyReader::unigram(const Value& model) {
  CharacterRules& rules = *model_.characters;
  rules.model = CharacterRules::Model::Unigram;
  const Value vocab = model.find("vocab"), unknown = model.find("unk_id");
  if (!flag(model, "byte_fallback", false, rules.fallsBack)) return false;
  if (!vocab || !vocab.is(Kind::Array)) return fail(model.range(), "the model has no vocab, a list");
  std::vector<double> scores;
  for (Value v = vocab.first(); v; v = v.next()) {
    const Value text = v.is(Kind::Array) ? v.first() : Value(), score = text ? text.next() : Value();
    if (!score || !text.is(Kind::String) || !score.real()) return expected(v, "a token and its score");
    if (!isShort(text.text(), text.range())) return false;
    if (!text.text().empty())
      ids_.insert_or_assign(std::string(text.text()), static_cast<TokenId>(model_.tokens.size()));
    model_.tokens.push_back(bytesOf(text.text()).value_or(std::string()));
    scores.push_back(*score.real());
  }
  for (const auto& [text, id] : ids_) rules.unigram.add(text, scores[static_cast<size_t>(id)]);
  return !unknown.present() || tokenNumber(unknown, model_.tokens.size(), rules.unknown);
}

bool VocabularyReader::wordModel(const Value& model) {
  CharacterRules& rules = *model_.characters;
  const bool isPieces = typeOf(model) == "WordPiece";
  rules.model = isPieces ? CharacterRules::Model::WordPiece : CharacterRules::Model::Words;
  const Value vocab = model.find("vocab"), prefix = model.find("continuing_subword_prefix");
  const Value most = model.find("max_input_chars_per_word");
  if (!vocab) return fail(model.range(), "the model has no vocab");
  if (prefix && prefix.is(Kind::String)) rules.wordPiece.goesOn = prefix.text();
  if (most && most.integer())
    rules.wordPiece.mostCharacters = static_cast<size_t>(std::max<int64_t>(0, *most.integer()));
  if (!vocabulary(vocab)) return false;
  for (const auto& [text, id] : ids_) rules.wordPiece.add(text, id);
  return true;
}

// Words are decoded with spaces between them, but for parts of words and, if that is asked for, before punctuation.
void VocabularyReader::spellWords(const Value& decoder) {
  const bool isPieces = typeOf(decoder) == "WordPiece";
  const Value prefix = decoder.find("prefix"), cleanup = decoder.find("cleanup");
  const std::string goesOn(prefix && prefix.is(Kind::String) ? prefix.text() : "##");
  const bool cleans = isPieces && !(cleanup && cleanup.is(Kind::Bool) && !cleanup.truth());
  for (const auto& [text, id] : ids_) {
    const bool isPart = isPieces && text.starts_with(goesOn);
    std::string spelled = isPart ? text.substr(goesOn.size()) : " " + text;
    static constexpr std::pair<std::string_view, std::string_view> kCleaned[] = {
        {" .", "."},   {" ?", "?"},           {" !", "!"},   {" ,", ","},     {" ' ", "'"},    {" n't", "n't"},
        {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"},
    };
    for (const auto& [from, to] : kCleaned)
      if (cleans) spelled = replaced(spelled, from, to);
    model_.tokens[static_cast<size_t>(id)] = std::move(spelled);
  }
  model_.characters->dropsFirstSpace = true;
}

bool VocabularyReader::addedTokens(const Value& list) {
  if (!list.is(Kind::Array)) return expected(list, "a list of added tokens");
  size_t limit = 2 * (model_.tokens.size() + list.count()) + 1024;
  for (Value v = list.first(); v; v = v.next()) {
    Value content = v.find("content"), id = v.find("id");
    if (!content || !content.is(Kind::String) || content.text().empty())
      return fail(v.range(), "an added token needs its content, a string that is not empty");
    if (!id) return fail(v.range(), "an added token needs its id");
    AddedToken token;
    if (!tokenNumber(id, limit, token.id) || !flag(v, "special", false, token.special) ||
        !flag(v, "normalized", false, token.normalized) || !flag(v, "single_word", false, token.isWord) ||
        !flag(v, "lstrip", false, token.takesSpacesBefore) || !flag(v, "rstrip", false, token.takesSpacesAfter))
      return false;
    token.text = content.text();
    auto known = ids_.find(token.text);
    if (known == ids_.end()) {
      token.inVocabulary = false;
      if (!name(token.id, token.text, id.range())) return false;
      ids_.emplace(token.text, token.id);
    } else if (known->second != token.id) {
      return fail(id.range(), fmt::format("the added token {} has the number {}, but {} in the vocabulary",
                                          jsonQuote(abbreviate(token.text, 200)), token.id, known->second));
    }
    model_.tokens[static_cast<size_t>(token.id)] =
        model_.characters ? bytesOf(token.text).value_or(token.text) : token.text;
    model_.added.push_back(std::move(token));
  }
  return true;
}

// Replace of " " by the mark, or back.
bool VocabularyReader::replacesSpaces(const Value& v, bool isBack) {
  const Value pattern = v.find("pattern").find("String"), content = v.find("content");
  if (typeOf(v) != "Replace" || !pattern || !pattern.is(Kind::String) || !content || !content.is(Kind::String))
    return false;
  return pattern.text() == (isBack ? kSpaceMark : " ") && content.text() == (isBack ? " " : kSpaceMark);
}

// Several may bring any text to any length.
constexpr double kMostGrowth = 1024;

bool VocabularyReader::normalizer(const Value& v) {
  std::string_view type = typeOf(v);
  marksSpaces_ = marksSpaces_ || replacesSpaces(v, false);
  if (type == "Sequence")
    if (Value list = v.find("normalizers"); list && list.is(Kind::Array)) {
      for (Value n = list.first(); n; n = n.next())
        if (!normalizer(n)) return false;
      return true;
    }
  Normalizer step = readNormalizer(v, growth_);
  if (!step) return unsupported(v, fmt::format("the normalizer {}", jsonQuote(abbreviate(type, 100))));
  if (growth_ > kMostGrowth)
    return fail(v.range(), fmt::format("the normalizers may make a text more than {} times as long", kMostGrowth),
                ErrorKind::Limit);
  model_.normalizers.push_back(std::move(step));
  return true;
}

bool VocabularyReader::byteLevel(const Value& v) {
  bool cut;
  if (!flag(v, "use_regex", true, cut) || !flag(v, "add_prefix_space", true, model_.addPrefixSpace)) return false;
  model_.split = cut ? SplitRule::Gpt2 : SplitRule::Whole;
  return true;
}

// Whether a Split gives the matches of its pattern, one by one. Those of all rules that are known cover the text, so
// that there is nothing between them to be merged with, or removed.
bool isolates(std::string_view behavior, bool inverted) {
  return behavior == "Isolated" || behavior == "MergedWithPrevious" || behavior == "MergedWithNext" ||
         (behavior == "Removed" && inverted);
}

bool VocabularyReader::split(const Value& v, TextCut& cut) {
  Value pattern = v.find("pattern"), regex = pattern.find("Regex");
  Value behavior = v.find("behavior");
  bool inverted;
  if (!flag(v, "invert", false, inverted)) return false;
  if (!behavior || !behavior.is(Kind::String) || !isolates(behavior.text(), inverted))
    return unsupported(v, "a Split that is not Isolated");
  const std::string_view text = regex && regex.is(Kind::String) ? regex.text() : "";
  if (const std::optional<SplitRule> rule = splitRuleOf(text))
    cut.rule = *rule;
  else if (behavior.text() == "Isolated")
    cut.pattern = SplitPattern::parse(text);
  return cut.pattern || cut.rule != SplitRule::Whole || unsupported(regex ? regex : v, "splitting by this pattern");
}

// Of characters.
bool VocabularyReader::words(const Value& v) {
  const std::string_view type = typeOf(v);
  bool isEach = false;
  if (type == "Digits" && !flag(v, "individual_digits", false, isEach)) return false;
  const Value behavior = v.find("behavior");
  const bool isIsolated = !behavior || (behavior.is(Kind::String) && behavior.text() == "Isolated");
  const std::optional<WordRule> rule = type == "WhitespaceSplit"             ? std::optional(WordRule::Spaces)
                                       : type == "Whitespace"                ? std::optional(WordRule::Words)
                                       : type == "BertPreTokenizer"          ? std::optional(WordRule::Bert)
                                       : type == "Punctuation" && isIsolated ? std::optional(WordRule::Punctuation)
                                       : type == "Digits" && isEach          ? std::optional(WordRule::DigitsEach)
                                       : type == "Digits"                    ? std::optional(WordRule::DigitsTogether)
                                                                             : std::nullopt;
  if (!rule) return unsupported(v, fmt::format("the pre_tokenizer {}", jsonQuote(abbreviate(type, 100))));
  model_.characters->words.push_back(*rule);
  return true;
}

bool VocabularyReader::cut(const Value& v) {
  if (model_.characters) return words(v);
  TextCut& cut = model_.cuts.emplace_back();
  if (typeOf(v) == "Split") return split(v, cut);
  bool isEach;
  if (typeOf(v) != "Digits")
    return unsupported(v, fmt::format("the pre_tokenizer {} before another", jsonQuote(abbreviate(typeOf(v), 100))));
  if (!flag(v, "individual_digits", false, isEach)) return false;
  cut.digits = isEach ? DigitRule::Each : DigitRule::Together;
  return true;
}

bool VocabularyReader::metaspace(const Value& v) {
  Value mark = v.find("replacement"), scheme = v.find("prepend_scheme");
  if (mark.present() && !(mark.is(Kind::String) && mark.text() == kSpaceMark))
    return unsupported(mark, "another mark than U+2581 for spaces");
  if (!flag(v, "split", true, model_.characters->cutsWords)) return false;
  bool prepends;
  if (!flag(v, "add_prefix_space", true, prepends)) return false;  // of older files
  using Prefix = CharacterRules::Prefix;
  Prefix& prefix = model_.characters->prefix;
  prefix = prepends ? Prefix::Missing : Prefix::Never;
  if (!scheme.present()) return true;
  const std::string_view name = scheme.is(Kind::String) ? scheme.text() : "";
  if (name != "always" && name != "first" && name != "never") return unsupported(scheme, "this prepend_scheme");
  prefix = name == "always" ? Prefix::Missing : name == "first" ? Prefix::MissingAtFirst : Prefix::Never;
  return true;
}

// Whether tokens are made of bytes: text becomes such before it is cut.
bool VocabularyReader::isOfBytes(const Value& preTokenizer) {
  if (typeOf(preTokenizer) != "Sequence") return typeOf(preTokenizer) == "ByteLevel";
  for (Value v = preTokenizer.find("pretokenizers").first(); v; v = v.next())
    if (typeOf(v) == "ByteLevel") return true;
  return false;
}

bool VocabularyReader::preTokenizer(const Value& v) {
  std::string_view type = typeOf(v);
  if (type == "ByteLevel") return byteLevel(v);
  if (model_.characters && type == "Metaspace") return metaspace(v);
  // There are no spaces left where these became marks.
  if (Value by = v.find("pattern").find("String");
      type == "Split" && model_.characters && marksSpaces_ && by && by.is(Kind::String) && by.text() == " ")
    return true;
  if (type == "Sequence")
    for (Value p = v.find("pretokenizers").first(); p; p = p.next()) {
      if (p.next() ? !cut(p) : !preTokenizer(p)) return false;
      if (p.next()) continue;
      return !model_.addPrefixSpace || model_.cuts.empty() || unsupported(p, "add_prefix_space after a Split");
    }
  if (model_.characters) return words(v);
  return unsupported(v, fmt::format("the pre_tokenizer {}", jsonQuote(abbreviate(type, 100))));
}

// Each of the template's references brings as many as it names.
constexpr size_t kMostFrameTokens = 4096;

bool VocabularyReader::templateFrame(const Value& v) {
  Value single = v.find("single"), specials = v.find("special_tokens");
  if (!single || !single.is(Kind::Array)) return fail(v.range(), "a TemplateProcessing needs a list as single");
  bool after = false;
  for (Value part = single.first(); part; part = part.next()) {
    if (part.find("Sequence")) {
      if (std::exchange(after, true)) return unsupported(part, "a template with two texts");
      continue;
    }
    Value token = part.find("SpecialToken"), name = token.find("id");
    if (!name || !name.is(Kind::String)) return fail(part.range(), "expected a Sequence or a SpecialToken with its id");
    Value entry = specials.find(name.text());
    Value ids = entry.find("ids");
    if (!ids || !ids.is(Kind::Array)) return fail(name.range(), "special_tokens has no ids for this token");
    for (Value id = ids.first(); id; id = id.next()) {
      TokenId number;
      if (!tokenNumber(id, model_.tokens.size(), number)) return false;
      if (model_.after.size() + model_.before.size() >= kMostFrameTokens)
        return fail(id.range(), fmt::format("the template puts more than {} tokens around a text", kMostFrameTokens),
                    ErrorKind::Limit);
      (after ? model_.after : model_.before).push_back(number);
    }
  }
  return true;
}

// ["[CLS]", 101]
bool VocabularyReader::pairFrame(const Value& v, std::string_view name, std::vector<TokenId>& frame) {
  const Value pair = v.find(name), text = pair && pair.is(Kind::Array) ? pair.first() : Value();
  const Value id = text ? text.next() : Value();
  return id ? tokenNumber(id, model_.tokens.size(), frame.emplace_back())
            : fail(v.range(), fmt::format("expected a token and its number as {}", name));
}

bool VocabularyReader::postProcessor(const Value& v) {
  std::string_view type = typeOf(v);
  if (type == "ByteLevel") return true;  // moves offsets, not tokens
  if (type == "BertProcessing" || type == "RobertaProcessing")
    return pairFrame(v, "cls", model_.before) && pairFrame(v, "sep", model_.after);
  if (type == "TemplateProcessing") return templateFrame(v);
  if (type == "Sequence")
    if (Value list = v.find("processors"); list && list.is(Kind::Array)) {
      for (Value p = list.first(); p; p = p.next())
        if (!postProcessor(p)) return false;
      return true;
    }
  return unsupported(v, fmt::format("the post_processor {}", jsonQuote(abbreviate(type, 100))));
}

// Of characters: marks become spaces, tokens of bytes these bytes, and the space that was put before a text is dropped.
bool VocabularyReader::stepOfDecoder(const Value& v) {
  const std::string_view type = typeOf(v);
  if (type == "Metaspace") {
    model_.characters->dropsFirstSpace = model_.characters->prefix != CharacterRules::Prefix::Never;
    return true;
  }
  if (type == "ByteFallback" || type == "Fuse" || replacesSpaces(v, true)) return true;
  if (const Value suffix = v.find("suffix");
      type == "BPEDecoder" && suffix && suffix.is(Kind::String) && suffix.text() == model_.characters->endOfWord)
    return true;
  const Value content = v.find("content");
  const bool isOne = type == "Strip" && content && content.is(Kind::String) && content.text() == " " &&
                     v.find("start").integer() == 1 && v.find("stop").integer() == 0;
  if (isOne) return model_.characters->dropsFirstSpace = true;
  return unsupported(v, fmt::format("the decoder {}", jsonQuote(abbreviate(type, 100))));
}

bool VocabularyReader::decoder(const Value& v) {
  if (model_.characters) {
    if (typeOf(v) != "Sequence") return stepOfDecoder(v);
    for (Value step = v.find("decoders").first(); step; step = step.next())
      if (!stepOfDecoder(step)) return false;
    return true;
  }
  if (typeOf(v) == "ByteLevel") return true;
  if (typeOf(v) == "Sequence")
    if (Value first = v.find("decoders").first(); first && !first.next()) return decoder(first);
  return unsupported(v, fmt::format("the decoder {}", jsonQuote(abbreviate(typeOf(v), 100))));
}

// Settings for truncation and padding are the business of who fills batches, and passed over.
bool VocabularyReader::tokenizerJson(const Value& root) {
  Value model = root.find("model"), before = root.find("pre_tokenizer");
  if (!model) return fail(root.range(), "a tokenizer needs a model");
  if (!isOfBytes(before)) model_.characters.emplace();
  if (!modelOf(model)) return false;
  if (Value v = root.find("added_tokens"); v.present() && !addedTokens(v)) return false;
  if (Value v = root.find("normalizer"); v.present() && !normalizer(v)) return false;
  if (before.present() && !preTokenizer(before)) return false;
  CharacterRules* rules = model_.characters ? &*model_.characters : nullptr;
  // Without these tokens are whole texts, and words of which nothing is left of what stood between them.
  const bool marks = marksSpaces_ || (rules && rules->prefix != CharacterRules::Prefix::None);
  const bool isOfWords = rules && rules->model > CharacterRules::Model::Unigram;
  const bool hasEnds = rules && !rules->endOfWord.empty() && !rules->words.empty() && !marks;
  if (rules && !rules->endOfWord.empty() && !hasEnds)
    return unsupported(before ? before : root, "end_of_word_suffix without words");
  if (rules && !marks && !isOfWords && !hasEnds)
    return unsupported(before ? before : root, "a tokenizer without a pre_tokenizer");
  if (Value v = root.find("post_processor"); v.present() && !postProcessor(v)) return false;
  const Value decodes = root.find("decoder");
  if (isOfWords && (!decodes.present() || typeOf(decodes) == "WordPiece"))
    spellWords(decodes);
  else if (decodes.present() && !decoder(decodes))
    return false;
  if (!rules) return checkAlphabet();
  if (!decodes.present() && !isOfWords)
    return unsupported(decodes ? decodes : root, "a tokenizer of characters without a decoder");
  if (Value unknown = model.find("unk_token"); unknown.present() && unknown.is(Kind::String))
    if (auto found = ids_.find(std::string(unknown.text())); found != ids_.end()) rules->unknown = found->second;
  rules->ids = std::move(ids_);
  return true;
}

}  // namespace

std::unique_ptr<Tokenizer> parseTokenizerJson(SourcePtr json, Diagnostics& diagnostics) {
  Result<JsonTree> tree = JsonTree::parse(std::move(json), diagnostics);
  VocabularyReader reader(diagnostics);
  if (!tree || !reader.tokenizerJson(tree->root())) return nullptr;
  return std::make_unique<VocabularyTokenizer>(std::move(reader.model()), "tokenizer.json");
}

std::unique_ptr<Tokenizer> parseGpt2Tokenizer(SourcePtr vocabularyJson, SourcePtr merges, Diagnostics& diagnostics) {
  Result<JsonTree> tree = JsonTree::parse(std::move(vocabularyJson), diagnostics);
  VocabularyReader reader(diagnostics);
  if (!tree || !reader.vocabulary(tree->root()) || !reader.mergesOfText(merges)) return nullptr;
  // The files do not say which token ends texts; GPT-2's own is this one.
  constexpr std::string_view kEnd = "<|endoftext|>";
  VocabularyModel& model = reader.model();
  auto end = std::find(model.tokens.begin(), model.tokens.end(), kEnd);
  if (end != model.tokens.end())
    model.added.push_back({static_cast<TokenId>(end - model.tokens.begin()), std::string(kEnd), true});
  if (!reader.checkAlphabet()) return nullptr;
  return std::make_unique<VocabularyTokenizer>(std::move(model), "gpt2");
}

}  // namespace tscompile
