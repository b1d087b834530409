// Readers of tokenizer files. They may come from anybody: what is in them is checked before it is used, and what would
// change tokens but is not done here is refused by its name.
#include "frontend/files/json_tree.h"
#include "ir/support/text.h"
#include "runtime/llm/token_spelling.h"
#include "runtime/llm/vocabulary_tokenizer.h"

#include <fmt/core.h>

#include <algorithm>

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
  // Of vocab.json: all tokens must be bytes.
  bool checkAlphabet();
  // What tokens stand for, once all are known.
  void spell(const TokenSpelling& spelling);

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
  bool name(TokenId id, std::string_view text, SourceRange at);
  bool merge(std::string_view left, std::string_view right, SourceRange at);
  bool piecesOf(std::string_view text, SourceRange at, TokenId& id);
  bool modelOf(const Value& model);
  bool mergeModel(const Value& model);
  bool unigram(const Value& model);
  bool wordModel(const Value& model);
  bool pairFrame(const Value& v, std::string_view name, std::vector<TokenId>& frame);
  bool refuseIfSet(const Value& object, std::string_view name);
  bool addedTokens(const Value& list);
  bool normalizer(const Value& v);
  bool preTokenizer(const Value& v);
  bool postProcessor(const Value& v);
  bool templateFrame(const Value& v);

  Diagnostics& diagnostics_;
  VocabularyModel model_;
  TokenNumbers ids_;  // by the text in the file
  std::unordered_map<TokenId, SourceRange> places_;
  uint32_t ranks_ = 0;
  double growth_ = 1;  // of the length of texts, there
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

bool VocabularyReader::name(TokenId id, std::string_view text, SourceRange at) {
  if (!isShort(text, at)) return false;
  if (model_.texts.size() <= static_cast<size_t>(id)) model_.texts.resize(static_cast<size_t>(id) + 1);
  std::string& token = model_.texts[static_cast<size_t>(id)];
  if (!token.empty()) return fail(at, fmt::format("two tokens have the number {}", id));
  token = text;
  return true;
}

bool VocabularyReader::vocabulary(const Value& object) {
  if (!object.is(Kind::Object)) return expected(object, "an object of tokens and their numbers");
  size_t count = object.count(), limit = 2 * count + 1024;
  ids_.reserve(count);
  model_.texts.reserve(count);
  for (Value v = object.first(); v; v = v.next()) {
    TokenId id;
    if (!tokenNumber(v, limit, id)) return false;
    if (v.key().empty()) return fail(v.range(), "a token has no characters");
    if (!name(id, v.key(), v.range())) return false;
    places_.emplace(id, v.range());
    ids_.emplace(v.key(), id);
  }
  if (ids_.empty()) return fail(object.range(), "the vocabulary has no tokens");
  return true;
}

bool VocabularyReader::checkAlphabet() {
  std::optional<TokenId> first;
  for (const auto& [text, id] : ids_) {
    std::string bytes;
    if (!bytesOfAlphabet(text, bytes) && (!first || places_.at(id).begin < places_.at(*first).begin)) first = id;
  }
  return !first ||
         fail(places_.at(*first), fmt::format("the token {} has characters that stand for no byte",
                                              jsonQuote(abbreviate(model_.texts[static_cast<size_t>(*first)], 200))));
}

void VocabularyReader::spell(const TokenSpelling& spelling) {
  std::unordered_set<TokenId> added;
  for (const AddedToken& token : model_.added) {
    added.insert(token.id);
    if (!token.inVocabulary) ids_.erase(token.text);
  }
  model_.bytes.resize(model_.texts.size());
  for (size_t id = 0; id < model_.texts.size(); ++id)
    model_.bytes[id] = spelling(model_.texts[id], added.contains(static_cast<TokenId>(id)));
  model_.dropsFirstSpace = spelling.dropsFirstSpace;
  model_.dropsLastSpace = spelling.dropsLastSpace;
  model_.ids = std::move(ids_);
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
  joined += right.substr(std::min(model_.goesOn.size(), right.size()));
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

bool VocabularyReader::refuseIfSet(const Value& object, std::string_view name) {
  Value v = object.find(name);
  if (!v.present() || (v.is(Kind::Bool) && !v.truth()) || v.real() == 0.0) return true;
  return unsupported(v, fmt::format("{} in a BPE model", name));
}

bool VocabularyReader::modelOf(const Value& model) {
  if (!model.is(Kind::Object)) return expected(model, "an object as model");
  const std::string_view kind = typeOf(model);
  if (kind == "Unigram") return unigram(model);
  if (kind == "WordPiece" || kind == "WordLevel") return wordModel(model);
  if (Value type = model.find("type"); type.present() && kind != "BPE")
    return unsupported(type, type.is(Kind::String)
                                 ? fmt::format("a tokenizer of type {}", jsonQuote(abbreviate(type.text(), 100)))
                                 : "this type of tokenizer");
  return mergeModel(model);
}

bool VocabularyReader::mergeModel(const Value& model) {
  Value vocab = model.find("vocab"), merges = model.find("merges");
  if (!vocab) return fail(model.range(), "the model has no vocab");
  if (!merges) return fail(model.range(), "the model has no merges");
  for (auto& [name, mark] :
       {std::pair("continuing_subword_prefix", &model_.goesOn), {"end_of_word_suffix", &model_.endOfWord}})
    if (const Value text = model.find(name); text && text.is(Kind::String)) *mark = text.text();
  return flag(model, "ignore_merges", false, model_.wholeWords) && refuseIfSet(model, "dropout") &&
         flag(model, "byte_fallback", false, model_.fallsBack) && flag(model, "fuse_unk", false, model_.fusesUnknown) &&
         vocabulary(vocab) && mergesOfJson(merges);
}

// Its vocabulary is a list of tokens with the logarithms of their probabilities; of equal ones the last counts.
bool VocabularyReader::unigram(const Value& model) {
  model_.kind = VocabularyModel::Kind::Unigram;
  const Value vocab = model.find("vocab"), unknown = model.find("unk_id");
  if (!flag(model, "byte_fallback", false, model_.fallsBack)) return false;
  if (!vocab || !vocab.is(Kind::Array)) return fail(model.range(), "the model has no vocab, a list");
  std::vector<double> scores;
  for (Value v = vocab.first(); v; v = v.next()) {
    const Value text = v.is(Kind::Array) ? v.first() : Value(), score = text ? text.next() : Value();
    if (!score || !text.is(Kind::String) || !score.real()) return expected(v, "a token and its score");
    if (!isShort(text.text(), text.range())) return false;
    if (!text.text().empty())
      ids_.insert_or_assign(std::string(text.text()), static_cast<TokenId>(model_.texts.size()));
    model_.texts.emplace_back(text.text());
    scores.push_back(*score.real());
  }
  for (const auto& [text, id] : ids_) model_.unigram.add(text, scores[static_cast<size_t>(id)]);
  return !unknown.present() || tokenNumber(unknown, model_.texts.size(), model_.unknown);
}

bool VocabularyReader::wordModel(const Value& model) {
  model_.kind = typeOf(model) == "WordPiece" ? VocabularyModel::Kind::WordPiece : VocabularyModel::Kind::Words;
  const Value vocab = model.find("vocab"), prefix = model.find("continuing_subword_prefix");
  const Value most = model.find("max_input_chars_per_word");
  if (!vocab) return fail(model.range(), "the model has no vocab");
  if (prefix && prefix.is(Kind::String)) model_.wordPiece.goesOn = prefix.text();
  if (most && most.integer())
    model_.wordPiece.mostCharacters = static_cast<size_t>(std::max<int64_t>(0, *most.integer()));
  if (!vocabulary(vocab)) return false;
  for (const auto& [text, id] : ids_) model_.wordPiece.add(text, id);
  return true;
}

bool VocabularyReader::addedTokens(const Value& list) {
  if (!list.is(Kind::Array)) return expected(list, "a list of added tokens");
  size_t limit = 2 * (model_.texts.size() + list.count()) + 1024;
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
    model_.added.push_back(std::move(token));
  }
  return true;
}

// Several may bring any text to any length.
constexpr double kMostGrowth = 1024;

bool VocabularyReader::normalizer(const Value& v) {
  std::string_view type = typeOf(v);
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
      if (!tokenNumber(id, model_.texts.size(), number)) return false;
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
  return id ? tokenNumber(id, model_.texts.size(), frame.emplace_back())
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

// Settings for truncation and padding are the business of who fills batches, and passed over.
bool VocabularyReader::tokenizerJson(const Value& root) {
  const Value model = root.find("model"), cuts = root.find("pre_tokenizer"), decodes = root.find("decoder");
  if (!model) return fail(root.range(), "a tokenizer needs a model");
  if (!modelOf(model)) return false;
  if (Value v = root.find("added_tokens"); v.present() && !addedTokens(v)) return false;
  if (Value v = root.find("normalizer"); v.present() && !normalizer(v)) return false;
  Unsupported why;
  if (cuts.present() && !readPreTokenizer(cuts, model_.preTokenizers, why)) return unsupported(why.at, why.what);
  constexpr double kMostWithCuts = 4 * kMostGrowth;
  if (growth_ * model_.preTokenizers.growth > kMostWithCuts)
    return fail(cuts.range(),
                fmt::format("a text may become more than {} times as long before it is encoded", kMostWithCuts),
                ErrorKind::Limit);
  if (Value v = root.find("post_processor"); v.present() && !postProcessor(v)) return false;
  TokenSpelling spelling =
      decodes.present() ? TokenSpelling() : TokenSpelling::without(model_.preTokenizers.makesBytes);
  if (decodes.present() && !spelling.read(decodes, why)) return unsupported(why.at, why.what);
  if (Value unknown = model.find("unk_token"); unknown.present() && unknown.is(Kind::String))
    if (auto found = ids_.find(unknown.text()); found != ids_.end()) model_.unknown = found->second;
  spell(spelling);
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
  auto end = std::find(model.texts.begin(), model.texts.end(), kEnd);
  if (end != model.texts.end())
    model.added.push_back({static_cast<TokenId>(end - model.texts.begin()), std::string(kEnd), true});
  if (!reader.checkAlphabet()) return nullptr;
  model.preTokenizers = gpt2PreTokenizer();
  reader.spell(TokenSpelling::without(true));
  return std::make_unique<VocabularyTokenizer>(std::move(model), "gpt2");
}

}  // namespace tscompile
