// Decoding, the byte tokenizer, and which reader a file is for.
#include "runtime/llm/tokenizer.h"

#include "frontend/files/archive_kind.h"
#include "frontend/files/base64.h"
#include "frontend/files/file_io.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <filesystem>

namespace tscompile {
namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";

struct Part {
  size_t bytes;  // at least 1
  bool valid;    // a character
  bool open;     // the text ends inside a character
};

// The first character of the text, or the longest beginning of one (Unicode 14, section 3.9, table 3-7).
Part firstPart(std::string_view text) {
  auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  unsigned lead = byte(0);
  if (lead < 0x80) return {1, true, false};
  size_t length = lead >= 0xc2 && lead <= 0xdf   ? 2
                  : lead >= 0xe0 && lead <= 0xef ? 3
                  : lead >= 0xf0 && lead <= 0xf4 ? 4
                                                 : 0;
  if (length == 0) return {1, false, false};
  unsigned low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
  unsigned high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
  for (size_t i = 1; i < length; ++i, low = 0x80, high = 0xbf) {
    if (i == text.size()) return {i, false, true};
    if (byte(i) < low || byte(i) > high) return {i, false, false};
  }
  return {length, true, false};
}

class ByteTokenizer : public Tokenizer {
 public:
  ByteTokenizer() {
    for (size_t i = 0; i < 256; ++i) bytes_[i] = static_cast<char>(i);
  }
  std::string_view kind() const override { return "bytes"; }
  int64_t vocabularySize() const override { return 256; }
  Result<std::vector<TokenId>> encode(std::string_view text, Diagnostics&, EncodeOptions) const override {
    std::vector<TokenId> tokens;
    tokens.reserve(text.size());
    for (char c : text) tokens.push_back(static_cast<unsigned char>(c));
    return tokens;
  }
  std::optional<std::string_view> bytes(TokenId token) const override {
    if (token < 0 || token > 255) return std::nullopt;
    return std::string_view(&bytes_[static_cast<size_t>(token)], 1);
  }
  std::optional<TokenId> find(std::string_view bytes) const override {
    if (bytes.size() != 1) return std::nullopt;
    return static_cast<unsigned char>(bytes[0]);
  }

 private:
  std::array<char, 256> bytes_;
};

SourcePtr readText(const std::string& path, Diagnostics& diagnostics) {
  Result<std::string> text = readFile(path, kMaxTokenizerBytes, diagnostics);
  return text ? SourceFile::make(path, std::move(*text)) : nullptr;
}

std::string conversionOf(std::string_view file) {
  return fmt::format(
      "AutoTokenizer.from_pretrained(folder).save_pretrained(folder) of transformers makes a tokenizer.json of {}",
      file);
}

// A model of SentencePiece: messages, one for each piece, that begin with its text; its score or type follows.
bool isSentencePiece(std::string_view bytes) {
  constexpr char kText = '\n', kScore = 0x15, kType = 0x18;
  if (bytes.size() <= 4 || bytes[0] != kText || bytes[2] != kText || bytes[3] < 0 || bytes[3] >= bytes[1]) return false;
  const size_t behind = 4 + static_cast<size_t>(bytes[3]);
  return behind < bytes.size() && (bytes[behind] == kScore || bytes[behind] == kType);
}

// Lines of a token in base64 and its rank, which lack the expression that text is cut by.
bool isTiktoken(std::string_view text) {
  for (size_t begin = 0, end, rank = 0; begin < text.size(); begin = end + 1, ++rank) {
    end = std::min(text.find('\n', begin), text.size());
    std::string_view line = text.substr(begin, end - begin);
    if (line.ends_with('\r')) line.remove_suffix(1);
    const size_t space = line.find(' ');
    if (space == std::string_view::npos || line.substr(space + 1) != std::to_string(rank)) return false;
    const std::optional<std::string> token = bytesOfBase64(line.substr(0, space));
    if (!token || token->empty()) return false;
  }
  return !text.empty();
}

std::unique_ptr<Tokenizer> openGpt2(const std::filesystem::path& vocabulary, SourcePtr json, Diagnostics& diagnostics) {
  SourcePtr merges = readText((vocabulary.parent_path() / "merges.txt").string(), diagnostics);
  return merges ? parseGpt2Tokenizer(std::move(json), std::move(merges), diagnostics) : nullptr;
}

}  // namespace

void appendUtf8(std::string& bytes, bool more, std::string& out) {
  std::string_view rest = bytes;
  while (!rest.empty()) {
    Part part = firstPart(rest);
    if (part.open && more) break;
    out += part.valid ? rest.substr(0, part.bytes) : kReplacement;
    rest.remove_prefix(part.bytes);
  }
  bytes.erase(0, bytes.size() - rest.size());
}

std::string Tokenizer::decodeBytes(TokenSpan tokens) const {
  std::string out;
  for (TokenId t : tokens) out += bytes(t).value_or(kReplacement);
  return out;
}

std::string Tokenizer::decode(TokenSpan tokens) const {
  std::string out = continuation(tokens);
  if (dropsFirstSpace() && out.starts_with(' ')) out.erase(0, 1);
  if (dropsLastSpace() && out.ends_with(' ')) out.pop_back();
  return out;
}

std::string Tokenizer::continuation(TokenSpan tokens) const {
  std::string bytes = decodeBytes(tokens), out;
  appendUtf8(bytes, false, out);
  return out;
}

std::string StreamDecoder::push(TokenId token) {
  held_ += tokenizer_.bytes(token).value_or(kReplacement);
  std::string out;
  appendUtf8(held_, true, out);
  return out;
}

std::string StreamDecoder::finish() {
  std::string out;
  appendUtf8(held_, false, out);
  return out;
}

std::unique_ptr<Tokenizer> makeByteTokenizer() { return std::make_unique<ByteTokenizer>(); }

std::unique_ptr<Tokenizer> openTokenizer(const std::string& path, Diagnostics& diagnostics) {
  std::filesystem::path file = path;
  std::error_code unknown;
  if (std::filesystem::is_directory(file, unknown)) {
    bool whole = std::filesystem::exists(file / "tokenizer.json", unknown);
    if (!whole && !std::filesystem::exists(file / "vocab.json", unknown)) {
      diagnostics.fileError(path, {}, "the folder has neither tokenizer.json nor vocab.json", ErrorKind::Io)
          .note(std::filesystem::exists(file / "tokenizer.model", unknown)
                    ? conversionOf("tokenizer.model")
                    : "a model that reads bytes needs none: its tokens are the bytes of a text");
      return nullptr;
    }
    file /= whole ? "tokenizer.json" : "vocab.json";
  }
  SourcePtr source = readText(file.string(), diagnostics);
  if (!source) return nullptr;
  const bool isPieces = file.extension() != ".json" && isSentencePiece(source->text());
  if (isPieces || (file.extension() != ".json" && isTiktoken(source->text()))) {
    diagnostics
        .fileError(file.string(), {},
                   isPieces ? "expected a tokenizer.json, found a model of SentencePiece"
                            : "expected a tokenizer.json, found ranks of tiktoken, which do not say how text is cut",
                   ErrorKind::Unsupported)
        .note(conversionOf("it"));
    return nullptr;
  }
  if (file.extension() != ".json" && source->text().find('\0') != std::string_view::npos) {
    reportOtherKind(file.string(), "a tokenizer", diagnostics);
    return nullptr;
  }
  if (file.extension() != ".json") return parsePlainVocabulary(std::move(source), diagnostics);
  if (file.filename() != "vocab.json") return parseTokenizerJson(std::move(source), diagnostics);
  return openGpt2(file, std::move(source), diagnostics);
}

}  // namespace tscompile
