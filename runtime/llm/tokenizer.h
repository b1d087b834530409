// Text to tokens and back.
//
// What can be read: tokenizer.json of the `tokenizers` library (BPE of bytes, or of characters as SentencePiece has
// it, Unigram, WordPiece, WordLevel), vocab.json with merges.txt beside it (GPT-2's public files), and a plain
// vocabulary: one token a line, the line's number from 0 is the token. In a plain vocabulary \n, \r, \t, \\ and \xHH
// stand for bytes, and text is cut into the longest tokens from its beginning on.
#pragma once

#include "ir/support/diagnostics.h"
#include "ir/support/result.h"
#include "runtime/llm/tokens.h"

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tscompile {

struct EncodeOptions {
  bool addedTokens = true;  // tokens such as <|endoftext|> are found in the text; otherwise it is plain text
  bool frame = true;        // put before and after it what the tokenizer's template asks for
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // "gpt2-bpe": for messages and reports.
  virtual std::string_view kind() const = 0;
  // Tokens are less than this; not all need be there.
  virtual int64_t vocabularySize() const = 0;
  // Any bytes; those that are no valid UTF-8 come back from bytes() as they were. Reports text that the vocabulary does
  // not cover.
  virtual Result<std::vector<TokenId>> encode(std::string_view text, Diagnostics& diagnostics,
                                              EncodeOptions options = {}) const = 0;
  // What a token stands for, not always whole characters; none for a number that is no token.
  virtual std::optional<std::string_view> bytes(TokenId token) const = 0;
  virtual bool isSpecial(TokenId) const { return false; }
  // The token that stands for just these bytes.
  virtual std::optional<TokenId> find(std::string_view bytes) const = 0;

  // Whether texts are encoded with a space before them, which is none of theirs.
  virtual bool dropsFirstSpace() const { return false; }
  // Whether tokens that end words have a space, which is none of a text that ends there.
  virtual bool dropsLastSpace() const { return false; }

  // The bytes of all tokens; those of numbers that are no token are U+FFFD.
  std::string decodeBytes(TokenSpan tokens) const;
  // The same as text: what is not UTF-8 becomes U+FFFD, once for each maximal part (as Python's errors="replace").
  std::string decode(TokenSpan tokens) const;
  // Of tokens that go on with a text: nothing at their beginning is dropped.
  std::string continuation(TokenSpan tokens) const;
};

// Text while it comes: holds back bytes that may be the beginning of a character. All pieces together are what
// continuation() gives for all tokens.
class StreamDecoder {
 public:
  explicit StreamDecoder(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}
  std::string push(TokenId token);
  // What is still held back, as U+FFFD.
  std::string finish();

 private:
  const Tokenizer& tokenizer_;
  std::string held_;
};

// Appends to `out` what `bytes` are as text; with `more` to come, leaves in `bytes` the beginning of a character.
void appendUtf8(std::string& bytes, bool more, std::string& out);

// 256 tokens: the bytes.
std::unique_ptr<Tokenizer> makeByteTokenizer();
// Any of the files named above, by its name: vocab.json, any other *.json, anything else. Of a folder, its
// tokenizer.json or else its vocab.json. Null after a report.
std::unique_ptr<Tokenizer> openTokenizer(const std::string& path, Diagnostics& diagnostics);

// The same from memory. Null after a report with places in the texts.
std::unique_ptr<Tokenizer> parseTokenizerJson(SourcePtr json, Diagnostics& diagnostics);
std::unique_ptr<Tokenizer> parseGpt2Tokenizer(SourcePtr vocabularyJson, SourcePtr merges, Diagnostics& diagnostics);
std::unique_ptr<Tokenizer> parsePlainVocabulary(SourcePtr text, Diagnostics& diagnostics);

inline constexpr uint64_t kMaxTokenizerBytes = uint64_t{1} << 27;

}  // namespace tscompile
