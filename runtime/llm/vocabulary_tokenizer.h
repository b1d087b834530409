// The tokenizer of tokenizer.json files: byte-pair encoding of bytes (Sennrich et al. 2016; Radford et al. 2019) or of
// characters, as SentencePiece has it, other models of words, and the alphabet in which files write bytes.
#pragma once

#include "runtime/llm/normalizers.h"
#include "runtime/llm/prefix_tree.h"
#include "runtime/llm/split_pattern.h"
#include "runtime/llm/text_split.h"
#include "runtime/llm/tokenizer.h"
#include "runtime/llm/word_models.h"

#include <array>
#include <optional>
#include <unordered_map>
#include <unordered_set>

namespace tscompile {

// GPT-2's files write bytes as characters: those that Latin-1 prints as themselves, the others, in their order, as
// U+0100, U+0101 and so on. Appends the bytes that the text stands for; false if a character stands for none.
bool bytesOfAlphabet(std::string_view text, std::string& bytes);

// A token that is looked for in the text before anything else.
struct AddedToken {
  TokenId id = 0;
  std::string text;
  bool special = false;
  bool inVocabulary = true;  // false: pieces of text are never this token
  bool normalized = false;   // its normal form is looked for in the text's
  bool isWord = false;       // no part of one
  bool takesSpacesBefore = false, takesSpacesAfter = false;
};

// Cuts text before a SplitRule does.
struct TextCut {
  DigitRule digits = DigitRule::None;
  std::optional<SplitPattern> pattern = {};
  SplitRule rule = SplitRule::Whole;

  size_t pieceEnd(std::string_view text, size_t at) const;
};

// Vocabularies of characters: SentencePiece's, with a mark in place of spaces, and those of words. A character that is
// no token becomes its bytes, or what stands for all such.
struct CharacterRules {
  std::unordered_map<std::string, TokenId> ids;  // by the text in the file
  enum class Model : uint8_t { Merges, Unigram, WordPiece, Words };
  Model model = Model::Merges;
  UnigramModel unigram;
  WordPieceModel wordPiece;
  std::vector<WordRule> words;  // one after the other, before spaces are marked
  enum class Prefix : uint8_t { None, Never, Missing, MissingAtFirst };
  Prefix prefix = Prefix::None;  // a mark that a word gets if it has none, or only at the beginning of all
  bool cutsWords = false;        // at marks
  std::string endOfWord;         // stands behind the last character of a word, and for the space behind it
  bool fallsBack = false;        // to bytes
  bool fusesUnknown = false;
  bool dropsFirstSpace = false;  // of what is decoded
  TokenId unknown = -1;
};
inline constexpr std::string_view kSpaceMark = "\u2581";

struct VocabularyModel {
  std::optional<CharacterRules> characters;  // none: it is of bytes
  std::vector<TextCut> cuts;                 // one after the other, each in the pieces of the one before
  SplitRule split = SplitRule::Gpt2;
  bool addPrefixSpace = false;          // put a space before text that begins without
  std::vector<Normalizer> normalizers;  // of all but added tokens that are not `normalized`
  bool wholeWords = false;              // a piece that is a token needs no merges
  std::vector<std::string> tokens;      // bytes by number; "": no token
  struct Merge {
    uint32_t rank;  // lower ones are merged first
    TokenId result;
  };
  std::unordered_map<uint64_t, Merge> merges;  // by pairKey
  std::vector<AddedToken> added;
  std::vector<TokenId> before, after;  // frame of a text

  static uint64_t pairKey(TokenId left, TokenId right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  }
};

// Merges neighbours in the order of their rank, from left to right among equals, until no merge is left; n log n for a
// piece of n bytes.
class VocabularyTokenizer : public Tokenizer {
 public:
  // The parts must agree: numbers of merges and added tokens are those of tokens.
  VocabularyTokenizer(VocabularyModel model, std::string_view kind);

  std::string_view kind() const override { return kind_; }
  int64_t vocabularySize() const override { return static_cast<int64_t>(model_.tokens.size()); }
  Result<std::vector<TokenId>> encode(std::string_view text, Diagnostics& diagnostics,
                                      EncodeOptions options) const override;
  std::optional<std::string_view> bytes(TokenId token) const override;
  bool isSpecial(TokenId token) const override;
  std::optional<TokenId> find(std::string_view bytes) const override;
  bool dropsFirstSpace() const override { return model_.characters && model_.characters->dropsFirstSpace; }
  bool dropsLastSpace() const override { return model_.characters && !model_.characters->endOfWord.empty(); }

 private:
  const AddedToken* addedAt(std::string_view text, size_t at, bool normalized) const;
  // Cuts text at the added tokens of one form and encodes what stands between them by `rest`.
  template <class Rest>
  bool encodeAround(std::string_view text, bool normalized, std::vector<TokenId>& out, const Rest& rest) const;
  std::string normalForm(std::string_view text) const;
  bool encodePlain(std::string_view text, bool isFirst, std::vector<TokenId>& out, Diagnostics& diagnostics) const;
  bool encodeWord(std::string_view word, bool isFirst, std::vector<TokenId>& out, Diagnostics& diagnostics) const;
  bool encodeCharacters(std::string_view text, std::vector<TokenId>& out, Diagnostics& diagnostics) const;
  TokenId wholeToken(std::string_view text) const;  // -1: none
  bool appendUnknown(std::string_view text, std::vector<TokenId>& out, Diagnostics& diagnostics) const;
  bool encodePiece(std::string_view piece, std::vector<TokenId>& out, Diagnostics& diagnostics) const;

  VocabularyModel model_;
  std::string kind_;
  std::unordered_map<std::string_view, TokenId> ids_;
  std::array<TokenId, 256> byteIds_;               // -1: none
  PrefixTree added_[2];                            // of the texts as they are, and of normalized ones
  std::unordered_set<TokenId> special_, outside_;  // outside of the vocabulary
};

}  // namespace tscompile
