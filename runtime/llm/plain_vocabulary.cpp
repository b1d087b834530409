// Vocabularies that are lines of text: the longest token wins.
#include "ir/support/text.h"
#include "runtime/llm/tokenizer.h"

#include <fmt/core.h>

#include <algorithm>

namespace tscompile {
namespace {

constexpr size_t kMaxTokenBytes = 256;

class PlainVocabulary : public Tokenizer {
 public:
  // Tokens differ and are not empty.
  explicit PlainVocabulary(std::vector<std::string> tokens) : tokens_(std::move(tokens)) {
    for (size_t i = 0; i < tokens_.size(); ++i) sorted_.push_back(static_cast<TokenId>(i));
    std::sort(sorted_.begin(), sorted_.end(), [&](TokenId a, TokenId b) { return text(a) < text(b); });
  }

  std::string_view kind() const override { return "plain vocabulary"; }
  int64_t vocabularySize() const override { return static_cast<int64_t>(tokens_.size()); }
  Result<std::vector<TokenId>> encode(std::string_view text, Diagnostics& diagnostics, EncodeOptions) const override;
  std::optional<std::string_view> bytes(TokenId token) const override {
    if (token < 0 || token >= vocabularySize()) return std::nullopt;
    return text(token);
  }
  std::optional<TokenId> find(std::string_view bytes) const override {
    auto at = std::lower_bound(sorted_.begin(), sorted_.end(), bytes,
                               [&](TokenId t, std::string_view b) { return text(t) < b; });
    if (at == sorted_.end() || text(*at) != bytes) return std::nullopt;
    return *at;
  }

 private:
  std::string_view text(TokenId token) const { return tokens_[static_cast<size_t>(token)]; }
  std::optional<TokenId> longest(std::string_view text) const;

  std::vector<std::string> tokens_;
  std::vector<TokenId> sorted_;  // by their bytes
};

// Narrows the sorted tokens byte by byte to those that the text begins like.
std::optional<TokenId> PlainVocabulary::longest(std::string_view wanted) const {
  std::optional<TokenId> best;
  auto begin = sorted_.begin(), end = sorted_.end();
  for (size_t i = 0; i < wanted.size() && begin != end; ++i) {
    auto byte = [&](TokenId t) { return i < text(t).size() ? static_cast<unsigned char>(text(t)[i]) : -1; };
    int next = static_cast<unsigned char>(wanted[i]);
    begin = std::lower_bound(begin, end, next, [&](TokenId t, int b) { return byte(t) < b; });
    end = std::upper_bound(begin, end, next, [&](int b, TokenId t) { return b < byte(t); });
    if (begin != end && text(*begin).size() == i + 1) best = *begin;
  }
  return best;
}

Result<std::vector<TokenId>> PlainVocabulary::encode(std::string_view text, Diagnostics& diagnostics,
                                                     EncodeOptions) const {
  std::vector<TokenId> out;
  for (size_t at = 0; at < text.size();) {
    std::optional<TokenId> token = longest(text.substr(at));
    if (!token) {
      diagnostics.error(fmt::format("the vocabulary has no token for the text at byte {}: {}", at,
                                    jsonQuote(abbreviate(text.substr(at), 20))),
                        ErrorKind::Input);
      return Failed{};
    }
    out.push_back(*token);
    at += bytes(*token)->size();
  }
  return out;
}

int hexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

// The byte of an escape sequence and its length; length 0 if there is no such sequence.
std::pair<char, size_t> unescape(std::string_view text) {
  if (text.size() < 2) return {0, 0};
  switch (text[1]) {
    case 'n':
      return {'\n', 2};
    case 'r':
      return {'\r', 2};
    case 't':
      return {'\t', 2};
    case '\\':
      return {'\\', 2};
    case 'x': {
      int high = text.size() > 3 ? hexDigit(text[2]) : -1, low = text.size() > 3 ? hexDigit(text[3]) : -1;
      if (high < 0 || low < 0) return {0, 0};
      return {static_cast<char>(high * 16 + low), 4};
    }
    default:
      return {0, 0};
  }
}

class LineReader {
 public:
  LineReader(const SourcePtr& source, Diagnostics& diagnostics) : source_(source), diagnostics_(diagnostics) {
    diagnostics.keepAlive(source);
  }

  bool read(std::vector<std::string>& tokens) {
    std::string_view text = source_->text();
    for (size_t begin = 0, end; begin < text.size(); begin = end + 1) {
      end = std::min(text.find('\n', begin), text.size());
      std::string_view line = text.substr(begin, end - begin);
      if (endsWith(line, "\r")) line.remove_suffix(1);
      if (!readToken(line, begin, tokens.emplace_back())) return false;
      lines_.emplace_back(begin, begin + line.size());
    }
    if (tokens.empty()) return fail(0, 0, "the vocabulary has no tokens");
    return checkDifferent(tokens);
  }

 private:
  bool fail(size_t begin, size_t end, std::string message, ErrorKind kind = ErrorKind::Input) {
    diagnostics_.error({source_.get(), static_cast<uint32_t>(begin), static_cast<uint32_t>(end)}, std::move(message),
                       kind);
    return false;
  }
  bool readToken(std::string_view line, size_t begin, std::string& token);
  bool checkDifferent(const std::vector<std::string>& tokens);

  const SourcePtr& source_;
  Diagnostics& diagnostics_;
  std::vector<std::pair<size_t, size_t>> lines_;
};

bool LineReader::readToken(std::string_view line, size_t begin, std::string& token) {
  if (line.empty()) return fail(begin, begin, "expected a token, found an empty line (a line end is written \\n)");
  for (size_t i = 0; i < line.size();) {
    if (line[i] != '\\') {
      token += line[i++];
      continue;
    }
    auto [byte, length] = unescape(line.substr(i));
    if (length == 0)
      return fail(begin + i, std::min(begin + i + 2, begin + line.size()), "expected \\n, \\r, \\t, \\\\ or \\xHH");
    token += byte;
    i += length;
  }
  if (token.size() > kMaxTokenBytes)
    return fail(begin, begin + line.size(), fmt::format("the token has more than {} bytes", kMaxTokenBytes),
                ErrorKind::Limit);
  return true;
}

bool LineReader::checkDifferent(const std::vector<std::string>& tokens) {
  std::vector<size_t> order(tokens.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return tokens[a] != tokens[b] ? tokens[a] < tokens[b] : a < b; });
  for (size_t i = 1; i < order.size(); ++i)
    if (tokens[order[i]] == tokens[order[i - 1]])
      return fail(lines_[order[i]].first, lines_[order[i]].second,
                  fmt::format("the token is there already, in line {}", order[i - 1] + 1));
  return true;
}

}  // namespace

std::unique_ptr<Tokenizer> parsePlainVocabulary(SourcePtr text, Diagnostics& diagnostics) {
  std::vector<std::string> tokens;
  if (!LineReader(text, diagnostics).read(tokens)) return nullptr;
  return std::make_unique<PlainVocabulary>(std::move(tokens));
}

}  // namespace tscompile
