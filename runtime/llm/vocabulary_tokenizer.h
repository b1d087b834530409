// The tokenizer of tokenizer.json files: byte-pair encoding (Sennrich et al. 2016) of characters, which stand for bytes
// in most (Radford et al. 2019), and other models of words.
#pragma once

#include "runtime/llm/normalizers.h"
#include "runtime/llm/pre_tokenizers.h"
#include "runtime/llm/prefix_tree.h"
#include "runtime/llm/tokenizer.h"
#include "runtime/llm/word_models.h"

#include <array>
#include <optional>
#include <unordered_map>
#include <unordered_set>

namespace tscompile {

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

struct TextHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
};
using TokenNumbers = std::unordered_map<std::string, TokenId, TextHash, std::equal_to<>>;

struct VocabularyModel {
  enum class Kind : uint8_t { Merges, Unigram, WordPiece, Words };
  Kind kind = Kind::Merges;
  std::vector<std::string> texts;  // of tokens as the file writes them, by number; "": no token
  std::vector<std::string> bytes;  // what they stand for
  TokenNumbers ids;                // by text; none of those that are added alone
  UnigramModel unigram;
  WordPieceModel wordPiece;
  std::string goesOn, endOfWord;  // stand before all characters but the first, behind the last, of what is merged
  bool fallsBack = false;         // from characters that are no token to their bytes, <0x0A>
  bool fusesUnknown = false;
  TokenId unknown = -1;  // for what is no token
  bool dropsFirstSpace = false, dropsLastSpace = false;
  PreTokenizers preTokenizers;
  std::vector<Normalizer> normalizers;  // of all but added tokens that are not `normalized`
  bool wholeWords = false;              // a piece that is a token needs no merges
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
  int64_t vocabularySize() const override { return static_cast<int64_t>(model_.texts.size()); }
  Result<std::vector<TokenId>> encode(std::string_view text, Diagnostics& diagnostics,
                                      EncodeOptions options) const override;
  std::optional<std::string_view> bytes(TokenId token) const override;
  bool isSpecial(TokenId token) const override;
  std::optional<TokenId> find(std::string_view bytes) const override;
  bool dropsFirstSpace() const override { return model_.dropsFirstSpace; }
  bool dropsLastSpace() const override { return model_.dropsLastSpace; }

 private:
  const AddedToken* addedAt(std::string_view text, size_t at, bool normalized) const;
  // Cuts text at the added tokens of one form and encodes what stands between them by `rest`.
  template <class Rest>
  bool encodeAround(std::string_view text, bool normalized, std::vector<TokenId>& out, const Rest& rest) const;
  std::string normalForm(std::string_view text) const;
  bool encodePlain(std::string_view text, bool isFirst, std::vector<TokenId>& out, Diagnostics& diagnostics) const;
  bool encodePiece(std::string_view piece, std::vector<TokenId>& out, Diagnostics& diagnostics) const;
  bool encodeCharacters(std::string_view piece, std::vector<TokenId>& out, Diagnostics& diagnostics) const;
  TokenId numberOf(std::string_view text) const;  // -1: none
  bool appendUnknown(std::string_view text, std::vector<TokenId>& out, Diagnostics& diagnostics) const;

  VocabularyModel model_;
  std::string kind_;
  std::unordered_map<std::string_view, TokenId> ids_;
  std::array<TokenId, 256> byteIds_;   // of those that characters fall back to; -1: none
  std::vector<TokenId> characterIds_;  // of the first characters of Unicode
  PrefixTree added_[2];                // of the texts as they are, and of normalized ones
  std::unordered_set<TokenId> special_;
};

}  // namespace tscompile
