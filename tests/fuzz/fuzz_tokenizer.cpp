// Any bytes as a tokenizer.json, as a plain vocabulary, and, cut at a line "---", as vocab.json and merges.txt. What
// can be read encodes the bytes themselves and gives them back.
#include "ir/support/text.h"
#include "runtime/llm/tokenizer.h"

#include <cstdlib>

using namespace tscompile;

namespace {

void check(const std::unique_ptr<Tokenizer>& t, const Diagnostics& diagnostics, std::string_view text) {
  if ((t == nullptr) != diagnostics.hasErrors()) std::abort();
  for (const Diagnostic& d : diagnostics.list()) {
    if (d.message.empty() || !d.range.valid()) std::abort();
    if (d.range.begin > d.range.end || d.range.end > d.range.file->text().size()) std::abort();
  }
  if (!t) return;
  Diagnostics refused;
  EncodeOptions plain;
  plain.addedTokens = plain.frame = false;
  Result<std::vector<TokenId>> tokens = t->encode(text, refused, plain);
  if (tokens.ok() == refused.hasErrors()) std::abort();
  if (!t->encode(text, refused) && !refused.hasErrors()) std::abort();
  if (!tokens) return;
  std::string back = t->decodeBytes(*tokens), streamed;
  // A tokenizer may put a space before the text.
  if (!endsWith(back, text) || back.size() > text.size() + 1) std::abort();
  StreamDecoder stream(*t);
  for (TokenId token : *tokens) {
    if (token < 0 || token >= t->vocabularySize()) std::abort();
    streamed += stream.push(token);
  }
  if (streamed + stream.finish() != t->decode(*tokens)) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  SourcePtr whole = SourceFile::make("fuzz", std::string(text));
  Diagnostics json, plain, parts;
  check(parseTokenizerJson(whole, json), json, text);
  check(parsePlainVocabulary(whole, plain), plain, text);
  constexpr std::string_view kCut = "\n---\n";
  size_t cut = std::min(text.find(kCut), size);
  SourcePtr vocabulary = SourceFile::make("vocabulary", std::string(text.substr(0, cut)));
  SourcePtr merges = SourceFile::make("merges", std::string(text.substr(std::min(cut + kCut.size(), size))));
  check(parseGpt2Tokenizer(vocabulary, merges, parts), parts, text);
  return 0;
}
