// As the `tokenizers` library decodes (answers of it are rows of tests/data/llm), but for what depends on the place of
// a token in its text: a first token that is marked as part of a word, and bytes that are no UTF-8 together.
#include "runtime/llm/token_spelling.h"

#include "ir/support/text.h"
#include "runtime/llm/normalizers.h"
#include "runtime/llm/text_split.h"

#include <fmt/core.h>

#include <charconv>
#include <utility>

namespace tscompile {
namespace {

using Value = JsonTree::Value;
using Kind = JsonTree::Kind;

std::string_view textOf(const Value& v, std::string_view name, std::string_view otherwise = "") {
  const Value text = v.find(name);
  return text && text.is(Kind::String) ? text.text() : otherwise;
}

bool isFalse(const Value& v, std::string_view name) {
  const Value flag = v.find(name);
  return flag && flag.is(Kind::Bool) && !flag.truth();
}

// <0x0A>
std::string byteOfToken(std::string_view token) {
  constexpr size_t kLength = 6;
  unsigned byte = 0;
  const char* digits = token.data() + 3;
  const bool isByte = token.size() == kLength && token.starts_with("<0x") && token.ends_with('>') &&
                      std::from_chars(digits, digits + 2, byte, 16).ptr == digits + 2;
  return isByte ? std::string(1, static_cast<char>(byte)) : std::string(token);
}

std::string cleanedUp(std::string token) {
  static constexpr std::pair<std::string_view, std::string_view> kCleaned[] = {
      {" .", "."},   {" ?", "?"},           {" !", "!"},   {" ,", ","},     {" ' ", "'"},    {" n't", "n't"},
      {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"},
  };
  for (const auto& [from, to] : kCleaned) token = replaced(token, from, to);
  return token;
}

std::string inBytes(std::string_view token) {
  std::string bytes;
  return bytesOfAlphabet(token, bytes) ? bytes : std::string(token);
}

bool refuse(const Value& v, Unsupported& why) {
  why = {v, fmt::format("the decoder {}", jsonQuote(abbreviate(textOf(v, "type"), 100)))};
  return false;
}

}  // namespace

bool TokenSpelling::add(std::function<std::string(std::string_view)> step) {
  steps_.push_back({std::move(step)});
  return true;
}

TokenSpelling TokenSpelling::without(bool areBytes) {
  TokenSpelling out;
  out.dropsFirstSpace = !areBytes;
  if (areBytes)
    out.steps_.push_back({inBytes, false});
  else
    out.add([](std::string_view token) { return " " + std::string(token); });
  return out;
}

bool TokenSpelling::read(const JsonTree::Value& v, Unsupported& why) {
  const std::string_view type = textOf(v, "type");
  if (type == "Sequence") {
    for (JsonTree::Value step = v.find("decoders").first(); step; step = step.next())
      if (!read(step, why)) return false;
    return true;
  }
  if (type == "Fuse") return isFused_ = true;
  if (type == "Replace") return replace(v, why);
  if (type == "Strip") return strip(v, why);
  if (isFused_) return refuse(v, why);
  if (type == "ByteFallback") return add(byteOfToken);
  if (type == "ByteLevel") {
    steps_.push_back({inBytes, false});
    return isFused_ = true;
  }
  if (type == "Metaspace") {
    const std::string mark(textOf(v, "replacement", kSpaceMark));
    if (mark.empty()) return refuse(v, why);
    dropsFirstSpace = textOf(v, "prepend_scheme", isFalse(v, "add_prefix_space") ? "never" : "always") != "never";
    return add([=](std::string_view token) { return replaced(token, mark, " "); });
  }
  if (type == "WordPiece") return growsBy(2) ? wordPiece(v) : refuse(v, why);
  if (const std::string suffix(textOf(v, "suffix", "</w>")); type == "BPEDecoder" && !suffix.empty()) {
    dropsLastSpace = true;
    return add([=](std::string_view token) { return replaced(token, suffix, " "); });
  }
  return refuse(v, why);
}

// Of a whole text what has one character is replaced in each token as well.
bool TokenSpelling::replace(const JsonTree::Value& v, Unsupported& why) {
  const std::string_view what = textOf(v.find("pattern"), "String");
  if (isFused_ && (what.empty() || characterAt(what, 0).bytes != what.size())) return refuse(v, why);
  Normalizer step = readNormalizer(v, growth_);
  return step && growsBy(1) ? add(std::move(step)) : refuse(v, why);
}

// All tokens are spelled, and several steps could make them of any length.
bool TokenSpelling::growsBy(double factor) {
  constexpr double kMostGrowth = 16;
  growth_ *= factor;
  return growth_ <= kMostGrowth;
}

// As many times a character as are there, at most `start` before and `stop` behind.
bool TokenSpelling::strip(const JsonTree::Value& v, Unsupported& why) {
  const std::string content(textOf(v, "content"));
  const std::optional<int64_t> start = v.find("start").integer(), stop = v.find("stop").integer();
  if (content.empty() || !start || !stop || *start < 0 || *stop < 0) return refuse(v, why);
  if (isFused_) {
    if (content != " " || *start > 1 || *stop > 1) return refuse(v, why);
    dropsFirstSpace = dropsFirstSpace || *start == 1;
    dropsLastSpace = dropsLastSpace || *stop == 1;
    return true;
  }
  return add([=](std::string_view token) {
    for (int64_t i = 0; i < *start && token.starts_with(content); ++i) token.remove_prefix(content.size());
    for (int64_t i = 0; i < *stop && token.ends_with(content); ++i) token.remove_suffix(content.size());
    return std::string(token);
  });
}

// Words have spaces between them, but for parts of words and, if that is asked for, before punctuation.
bool TokenSpelling::wordPiece(const JsonTree::Value& v) {
  dropsFirstSpace = true;
  return add(
      [prefix = std::string(textOf(v, "prefix", "##")), cleans = !isFalse(v, "cleanup")](std::string_view token) {
        std::string spelled =
            token.starts_with(prefix) ? std::string(token.substr(prefix.size())) : " " + std::string(token);
        return cleans ? cleanedUp(std::move(spelled)) : spelled;
      });
}

std::string TokenSpelling::operator()(std::string_view token, bool isAdded) const {
  std::string out(token);
  for (const Step& step : steps_)
    if (!isAdded || step.isForAdded) out = step.spell(out);
  return out;
}

}  // namespace tscompile
