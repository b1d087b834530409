#include "runtime/llm/tokenizer.h"

#include "frontend/files/json_tree.h"
#include "ir/support/diagnostic_printer.h"
#include "ir/values/random.h"
#include "runtime/llm/normal_forms.h"
#include "runtime/llm/split_pattern.h"
#include "runtime/llm/text_split.h"
#include "runtime/llm/vocabulary_tokenizer.h"
#include "tests/support/json.h"
#include "tests/support/text_file.h"

#include <gtest/gtest.h>

namespace tscompile::test {
namespace {

std::string dataPath(const std::string& name) { return std::string(TSCOMPILE_TESTS_DIR) + "/data/llm/" + name; }

std::unique_ptr<Tokenizer> open(const std::string& name) {
  Diagnostics diagnostics;
  std::unique_ptr<Tokenizer> t = openTokenizer(name, diagnostics);
  EXPECT_EQ(renderDiagnostics(diagnostics, "test"), "");
  return t;
}

std::vector<TokenId> ids(const Json& list) {
  std::vector<TokenId> out;
  for (const Json& t : list.items) out.push_back(static_cast<TokenId>(t.number));
  return out;
}

std::vector<TokenId> encode(const Tokenizer& t, std::string_view text, EncodeOptions options = {}) {
  Diagnostics diagnostics;
  Result<std::vector<TokenId>> tokens = t.encode(text, diagnostics, options);
  EXPECT_EQ(renderDiagnostics(diagnostics, "test"), "");
  return tokens ? *tokens : std::vector<TokenId>{};
}

void replace(std::string& text, std::string_view from, std::string_view to) {
  size_t at = text.find(from);
  ASSERT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
}

// A tokenizer.json around four tokens.
std::string tiny(std::string_view from = "", std::string_view to = "") {
  std::string json = R"({
  "added_tokens": [{"id": 4, "content": "<e>", "special": true}],
  "normalizer": null,
  "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false},
  "post_processor": null,
  "decoder": {"type": "ByteLevel"},
  "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2, "Ġ": 3}, "merges": ["a b"]}
})";
  if (!from.empty()) replace(json, from, to);
  return json;
}

std::unique_ptr<Tokenizer> parseTiny(std::string_view from = "", std::string_view to = "") {
  Diagnostics diagnostics;
  std::unique_ptr<Tokenizer> t = parseTokenizerJson(SourceFile::make("t.json", tiny(from, to)), diagnostics);
  EXPECT_EQ(renderDiagnostics(diagnostics, "test"), "");
  return t;
}

// The golden tokenizer with the pattern of Qwen's and Llama's.
std::string withSplit(std::string_view digits, std::string_view normalizer = "null") {
  std::string json = readText(dataPath("tokenizer.json"));
  std::string rule = R"("pre_tokenizer": {"type": "Sequence",
      "pretokenizers": [{"type": "Split", "pattern": {"Regex": "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|DIGITS| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"},
      "behavior": "Isolated", "invert": false}, {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}]},
      "unused": {)";
  replace(rule, "DIGITS", digits);
  replace(json, "\"pre_tokenizer\": {", rule);
  replace(json, "\"normalizer\": null", "\"normalizer\": " + std::string(normalizer));
  return json;
}

// The first line of the message.
std::string problem(std::string_view from, std::string_view to) {
  Diagnostics diagnostics;
  EXPECT_EQ(parseTokenizerJson(SourceFile::make("t.json", tiny(from, to)), diagnostics), nullptr);
  std::string text = renderDiagnostics(diagnostics, "test");
  return text.substr(0, text.find('\n'));
}

std::string problemOfPlain(std::string text) {
  Diagnostics diagnostics;
  EXPECT_EQ(parsePlainVocabulary(SourceFile::make("v.txt", std::move(text)), diagnostics), nullptr);
  std::string rendered = renderDiagnostics(diagnostics, "test");
  return rendered.substr(0, rendered.find('\n'));
}

std::string problemOfGpt2(std::string vocabulary, std::string merges) {
  Diagnostics diagnostics;
  EXPECT_EQ(parseGpt2Tokenizer(SourceFile::make("vocab.json", std::move(vocabulary)),
                               SourceFile::make("merges.txt", std::move(merges)), diagnostics),
            nullptr);
  std::string rendered = renderDiagnostics(diagnostics, "test");
  return rendered.substr(0, rendered.find('\n'));
}

std::vector<std::string> pieces(SplitRule rule, std::string_view text) {
  std::vector<std::string> out;
  for (size_t at = 0, end; at < text.size(); at = end) {
    end = pieceEnd(rule, text, at);
    out.emplace_back(text.substr(at, end - at));
  }
  return out;
}

std::string randomBytes(uint64_t seed, size_t count) {
  std::string out;
  for (size_t i = 0; i < count; ++i) out += static_cast<char>(random::bits(seed, i) >> 20);
  return out;
}

}  // namespace

// Goldens of an independent encoder: tests/tools/make_tokenizer_files.py.
TEST(Tokenizer, EncodesAsGpt2Does) {
  Json cases = readJson(dataPath("encodings.json"));
  ASSERT_GT(cases.size(), 150u);
  std::unique_ptr<Tokenizer> whole = open(dataPath("tokenizer.json")), parts = open(dataPath("vocab.json"));
  ASSERT_TRUE(whole && parts);
  EXPECT_EQ(whole->vocabularySize(), 657);
  EXPECT_EQ(parts->vocabularySize(), 657);
  for (const Json& c : cases.items) {
    std::string text = c["text"].text;
    EXPECT_EQ(encode(*whole, text), ids(c["gpt2"])) << text;
    EXPECT_EQ(encode(*parts, text), ids(c["gpt2"])) << text;
    EncodeOptions plain;
    plain.addedTokens = false;
    EXPECT_EQ(encode(*whole, text, plain), ids(c["plain"])) << text;
    EXPECT_EQ(whole->decode(ids(c["gpt2"])), text);
  }
}

TEST(Tokenizer, CutsAsNewerFilesSay) {
  Json cases = readJson(dataPath("encodings.json"));
  for (auto [name, digits] : {std::pair("word_digit", "\\\\p{N}"), {"word_digits3", "\\\\p{N}{1,3}"}}) {
    std::string json = withSplit(digits);
    Diagnostics diagnostics;
    std::unique_ptr<Tokenizer> t = parseTokenizerJson(SourceFile::make("t", json), diagnostics);
    ASSERT_TRUE(t) << renderDiagnostics(diagnostics, "test");
    for (const Json& c : cases.items) EXPECT_EQ(encode(*t, c["text"].text), ids(c[name])) << c["text"].text;
  }
}

// Goldens of Hugging Face's tokenizers: tests/tools/make_nfc_encodings.py.
TEST(Tokenizer, NormalizesAsQwenDoes) {
  Diagnostics diagnostics;
  std::unique_ptr<Tokenizer> t =
      parseTokenizerJson(SourceFile::make("t", withSplit("\\\\p{N}", "{\"type\": \"NFC\"}")), diagnostics);
  ASSERT_TRUE(t) << renderDiagnostics(diagnostics, "test");
  Json cases = readJson(dataPath("nfc_encodings.json"));
  ASSERT_GT(cases.size(), 20u);
  for (const Json& c : cases.items) EXPECT_EQ(encode(*t, c["text"].text), ids(c["tokens"])) << c["text"].text;
}

// Goldens of Hugging Face's tokenizers: tests/tools/make_word_encodings.py.
TEST(Tokenizer, EncodesWordsAndPiecesWithScores) {
  Json kinds = readJson(dataPath("word_encodings.json"));
  ASSERT_GT(kinds.size(), 8u);
  for (const Json& kind : kinds.items) {
    Diagnostics diagnostics;
    std::unique_ptr<Tokenizer> t =
        parseTokenizerJson(SourceFile::make("t.json", std::string(kind["tokenizer"].text)), diagnostics);
    ASSERT_TRUE(t) << renderDiagnostics(diagnostics, "test");
    for (const Json& c : kind["texts"].items) {
      EXPECT_EQ(encode(*t, c["text"].text), ids(c["tokens"])) << c["text"].text << kind["tokenizer"].text;
      EXPECT_EQ(t->decode(ids(c["tokens"])), c["decoded"].text) << kind["tokenizer"].text;
    }
  }
}

// As Hugging Face's tokenizers.
TEST(Tokenizer, OfEqualPiecesTheLastCounts) {
  Diagnostics diagnostics;
  std::unique_ptr<Tokenizer> t = parseTokenizerJson(SourceFile::make("t.json", R"({
    "pre_tokenizer": {"type": "Metaspace", "prepend_scheme": "never"}, "decoder": {"type": "Metaspace"},
    "model": {"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0], ["a", -3], ["aa", -1], ["aa", -9]]}})"),
                                                    diagnostics);
  ASSERT_TRUE(t) << renderDiagnostics(diagnostics, "test");
  EXPECT_EQ(encode(*t, "aa"), (std::vector<TokenId>{1, 1}));
}

TEST(Tokenizer, NormalForms) {
  const auto toNfc = [](std::string_view text) { return toNormalForm(text, NormalForm::Nfc); };
  EXPECT_EQ(toNfc("e\u0301 \u0958 \u1100\u1161\u11a8"), "\u00e9 \u0915\u093c \uac01");
  EXPECT_EQ(toNfc("a\u0301\u0323"), "\u1ea1\u0301");
  EXPECT_EQ(toNfc("\uac00\u11a7 \uac00\u11a8"), "\uac00\u11a7 \uac01");
  EXPECT_EQ(toNormalForm("ﬁ\u00e9", NormalForm::Nfkd), "fie\u0301");
  EXPECT_EQ(toNormalForm("\u00bde\u0301", NormalForm::Nfkc), "1\u20442\u00e9");
  // Bytes that are no text stay, and keep apart what is beside them.
  EXPECT_EQ(toNfc("e\xff\u0301\xcc"), "e\xff\u0301\xcc");
  // A hundred thousand marks in the wrong order.
  std::string above, below;
  for (int i = 0; i < 100000; ++i) above += "\u0305", below += "\u0316";
  EXPECT_EQ(toNfc("x" + above + below), "x" + below + above);
}

TEST(Tokenizer, Pieces) {
  using Pieces = std::vector<std::string>;
  EXPECT_EQ(pieces(SplitRule::Gpt2, "I'll  go\n\n  x"), (Pieces{"I", "'ll", " ", " go", "\n\n ", " x"}));
  EXPECT_EQ(pieces(SplitRule::Gpt2, "it'S 12a  "), (Pieces{"it", "'", "S", " 12", "a", "  "}));
  EXPECT_EQ(pieces(SplitRule::WordDigit, "it'S 12a\n\n b;\n"),
            (Pieces{"it", "'S", " ", "1", "2", "a", "\n\n", " b", ";\n"}));
  EXPECT_EQ(pieces(SplitRule::WordDigits3, "12345 é"), (Pieces{"123", "45", " é"}));
  EXPECT_EQ(pieces(SplitRule::Gpt2, "a\xff\xc3"), (Pieces{"a", "\xff\xc3"}));
  EXPECT_EQ(pieces(SplitRule::Whole, "a b"), (Pieces{"a b"}));
}

// Any bytes survive, and pieces of a stream are the whole.
TEST(Tokenizer, RoundTripsBytes) {
  std::unique_ptr<Tokenizer> bpe = open(dataPath("tokenizer.json")), bytes = makeByteTokenizer();
  for (const Tokenizer* t : {bpe.get(), bytes.get()})
    for (uint64_t seed = 0; seed < 300; ++seed) {
      std::string text = randomBytes(seed, seed % 40);
      if (seed % 2 == 0) text += "中🙂é";
      if (seed % 3 == 0) text += std::string("\xe4\xb8\xad").substr(0, 1 + seed % 2);
      std::vector<TokenId> tokens = encode(*t, text);
      EXPECT_EQ(t->decodeBytes(tokens), text);
      StreamDecoder stream(*t);
      std::string streamed;
      for (TokenId token : tokens) streamed += stream.push(token);
      streamed += stream.finish();
      EXPECT_EQ(streamed, t->decode(tokens));
    }
}

TEST(Tokenizer, HoldsBackHalfCharacters) {
  std::unique_ptr<Tokenizer> bytes = makeByteTokenizer();
  StreamDecoder stream(*bytes);
  EXPECT_EQ(stream.push(0xf0), "");
  EXPECT_EQ(stream.push(0x9f), "");
  EXPECT_EQ(stream.push(0x99), "");
  EXPECT_EQ(stream.push(0x82), "🙂");
  EXPECT_EQ(stream.push(0xe4), "");
  EXPECT_EQ(stream.push('x'), "\ufffdx");
  EXPECT_EQ(stream.push(0xc3), "");
  EXPECT_EQ(stream.finish(), "\ufffd");
  EXPECT_EQ(stream.finish(), "");
  EXPECT_EQ(stream.push(300), "\ufffd");
}

// As bytes.decode(errors="replace") of Python has it.
TEST(Tokenizer, ReplacesMaximalParts) {
  auto decoded = [](std::string bytes) {
    std::string out;
    appendUtf8(bytes, false, out);
    return out;
  };
  EXPECT_EQ(decoded("\xf0\x9f\x99"), "\ufffd");
  EXPECT_EQ(decoded("\xf0\x9f\x41"), "\ufffd\x41");
  EXPECT_EQ(decoded("\xed\xa0\x80"), "\ufffd\ufffd\ufffd");
  EXPECT_EQ(decoded("\xe0\x80\x80"), "\ufffd\ufffd\ufffd");
  EXPECT_EQ(decoded("\xf4\x90\x80\x80"), "\ufffd\ufffd\ufffd\ufffd");
  EXPECT_EQ(decoded("\xc0\xafok\xff"), "\ufffd\ufffdok\ufffd");
}

TEST(Tokenizer, AddedTokensAndFrames) {
  std::unique_ptr<Tokenizer> t = parseTiny();
  ASSERT_TRUE(t);
  EXPECT_EQ(encode(*t, "ab<e> ba"), (std::vector<TokenId>{2, 4, 3, 1, 0}));
  EXPECT_TRUE(t->isSpecial(4));
  EXPECT_FALSE(t->isSpecial(2));
  EXPECT_EQ(t->find("ab"), 2);
  EXPECT_EQ(t->find("<e>"), 4);
  EXPECT_EQ(t->find("bb"), std::nullopt);
  EXPECT_EQ(t->bytes(3), " ");
  EXPECT_EQ(t->bytes(5), std::nullopt);
  t = parseTiny("null,\n  \"decoder\"", R"({"type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "<e>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
    "special_tokens": {"<e>": {"id": "<e>", "ids": [4], "tokens": ["<e>"]}}}, "decoder")");
  EXPECT_EQ(encode(*t, "ab"), (std::vector<TokenId>{4, 2}));
  EncodeOptions bare;
  bare.frame = false;
  EXPECT_EQ(encode(*t, "ab", bare), (std::vector<TokenId>{2}));
  t = parseTiny("\"add_prefix_space\": false", "\"add_prefix_space\": true");
  EXPECT_EQ(encode(*t, "ab"), (std::vector<TokenId>{3, 2}));
  EXPECT_EQ(encode(*t, " ab"), (std::vector<TokenId>{3, 2}));
  t = parseTiny("\"merges\": [\"a b\"]", "\"merges\": [[\"a\", \"b\"]]");
  EXPECT_EQ(encode(*t, "ab"), (std::vector<TokenId>{2}));
  t = parseTiny("\"merges\": [\"a b\"]", "\"merges\": [], \"ignore_merges\": true");
  EXPECT_EQ(encode(*t, "ab ab"), (std::vector<TokenId>{2, 3, 0, 1}));
}

// As Hugging Face's tokenizers.
TEST(Tokenizer, AddedTokensAreNormalizedAsTexts) {
  std::string json = tiny("\"normalizer\": null", "\"normalizer\": {\"type\": \"NFC\"}");
  replace(json, "\"<e>\", \"special\": true}",
          "\"be\u0301\", \"normalized\": true}, {\"id\": 5, \"content\": \"o\u0301\"}");
  Diagnostics diagnostics;
  std::unique_ptr<Tokenizer> t = parseTokenizerJson(SourceFile::make("t.json", json), diagnostics);
  ASSERT_TRUE(t) << renderDiagnostics(diagnostics, "test");
  EXPECT_EQ(encode(*t, "abe\u0301 a"), (std::vector<TokenId>{0, 4, 3, 0}));
  EXPECT_EQ(encode(*t, "ab\u00e9 a"), (std::vector<TokenId>{0, 4, 3, 0}));
  EXPECT_EQ(encode(*t, "ao\u0301"), (std::vector<TokenId>{0, 5}));
  EXPECT_EQ(t->decode(std::vector<TokenId>{4}), "be\u0301");
  EXPECT_FALSE(t->encode("a\u00f3", diagnostics));
}

TEST(Tokenizer, ReadsWhatChangesNothing) {
  const char* kSplit = R"({"type": "Sequence", "pretokenizers": [{"type": "Split", "pattern": {"Regex":
      "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"}, "behavior": "BEHAVIOR",
      "invert": INVERT}, {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}]})";
  for (auto [behavior, invert, isRead] : {std::tuple("Isolated", true, true),
                                          {"Removed", true, true},
                                          {"MergedWithNext", false, true},
                                          {"Merged", false, false},
                                          {"Contiguous", true, true}}) {
    std::string split = kSplit;
    replace(split, "BEHAVIOR", behavior);
    replace(split, "INVERT", invert ? "true" : "false");
    std::string json = tiny(R"({"type": "ByteLevel", "add_prefix_space": false})", split);
    Diagnostics diagnostics;
    std::unique_ptr<Tokenizer> t = parseTokenizerJson(SourceFile::make("t.json", json), diagnostics);
    EXPECT_EQ(t != nullptr, isRead) << behavior;
    if (t) {
      EXPECT_EQ(encode(*t, "ab a"), (std::vector<TokenId>{2, 3, 0})) << behavior;
    }
  }
  for (auto [from, to] :
       {std::pair(R"("BPE")", R"("BPE", "dropout": 0.0)"),
        {R"({"type": "ByteLevel"})", R"({"type": "Sequence", "decoders": [{"type": "ByteLevel"}]})"}}) {
    std::unique_ptr<Tokenizer> t = parseTiny(from, to);
    ASSERT_TRUE(t);
    EXPECT_EQ(encode(*t, "ab"), (std::vector<TokenId>{2}));
  }
  // Of a merge that is there twice, the later one counts.
  std::string json = tiny("\"Ġ\": 3", "\"Ġ\": 3, \"c\": 5, \"bc\": 6");
  replace(json, "[\"a b\"]", "[\"a b\", \"b c\", \"a b\"]");
  Diagnostics diagnostics;
  std::unique_ptr<Tokenizer> t = parseTokenizerJson(SourceFile::make("t.json", json), diagnostics);
  ASSERT_TRUE(t) << renderDiagnostics(diagnostics, "test");
  EXPECT_EQ(encode(*t, "abc"), (std::vector<TokenId>{0, 6}));
}

// Where tokens are words, those that are not of the vocabulary are none.
// Rows of the tokenizers library, of vocabularies of characters as Llama, Mistral and Gemma have them.
TEST(Tokenizer, EncodesCharactersAsSentencePieceDoes) {
  constexpr std::string_view kModel = R"({"added_tokens": [{"id": 1, "content": "<s>", "special": true}], "model":
    {"type": "BPE", "unk_token": "<unk>", "fuse_unk": true, "byte_fallback": true,
     "vocab": {"<unk>": 0, "<s>": 1, "<0x0A>": 2, "<0xC3>": 3, "<0xA9>": 4, "▁": 5, "a": 6, "b": 7, "ab": 8, "▁a": 9,
               "▁ab": 10, "b▁": 11}, "merges": ["a b", "▁ a", "▁ ab", "b ▁"]}, )";
  const std::string spaces = R"({"type": "Replace", "pattern": {"String": " "}, "content": "▁"})";
  const std::string text =
      R"({"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"})";
  const std::string strips = R"("decoder": {"type": "Sequence", "decoders": [)" + text +
                             R"(, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}})";
  auto metaspace = [&](std::string_view scheme, std::string_view split) {
    return R"("pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": ")" + std::string(scheme) +
           R"(", "split": )" + std::string(split) + "}, " + strips;
  };
  const std::string llama =
      R"("normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"}, )" + spaces + "]}, " +
      strips;
  const std::string gemma =
      "\"normalizer\": " + spaces +
      R"(, "pre_tokenizer": {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious"},
      "decoder": {"type": "Sequence", "decoders": [)" +
      text + "]}}";
  struct Row {
    std::string rest;
    std::vector<std::pair<std::string_view, std::vector<TokenId>>> encoded;
    std::string_view decoded;  // of the third
  };
  for (const Row& row : std::vector<Row>{
           {llama,
            {{"ab ab", {10, 10}},
             {"a<s>ab b", {9, 1, 10, 5, 7}},
             {"  b a", {5, 5, 5, 7, 9}},
             {"\nbé", {5, 2, 7, 3, 4}},
             {"zz z", {5, 0, 5, 0}},
             {"", {}},
             {"<s>a<s> b", {1, 9, 1, 5, 5, 7}}},
            "  b a"},
           {metaspace("first", "false"),
            {{"ab ab", {10, 10}},
             {"a<s>ab b", {9, 1, 8, 5, 7}},
             {"  b a", {5, 5, 7, 9}},
             {"<s>a<s> b", {1, 6, 1, 5, 7}}},
            " b a"},
           {metaspace("always", "true"),
            {{"ab ab", {10, 10}}, {"a<s>ab b", {9, 1, 10, 5, 7}}, {"  b a", {5, 5, 7, 9}}},
            " b a"},
           {metaspace("never", "false"), {{"ab ab", {8, 10}}, {"\nbé", {2, 7, 3, 4}}, {"  b a", {5, 5, 7, 9}}}, " b a"},
           {gemma, {{"ab ab", {8, 10}}, {"zz z", {0, 5, 0}}, {"  b a", {5, 5, 7, 9}}}, "  b a"}}) {
    Diagnostics diagnostics;
    std::unique_ptr<Tokenizer> t =
        parseTokenizerJson(SourceFile::make("t.json", std::string(kModel) + row.rest), diagnostics);
    ASSERT_EQ(renderDiagnostics(diagnostics, "test"), "") << row.rest;
    for (const auto& [given, tokens] : row.encoded) EXPECT_EQ(encode(*t, given), tokens) << given << row.rest;
    EXPECT_EQ(t->decode(row.encoded[2].second), row.decoded) << row.rest;
    EXPECT_EQ(t->continuation(std::vector<TokenId>{9, 3, 4}), " aé");
  }
}

TEST(Tokenizer, CutsDigitsFirst) {
  const std::string json = tiny(R"({"type": "ByteLevel", "add_prefix_space": false})",
                                R"({"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": true},
                                {"type": "ByteLevel", "add_prefix_space": false}]})");
  Diagnostics diagnostics;
  std::unique_ptr<Tokenizer> t = parseTokenizerJson(SourceFile::make("t.json", json), diagnostics);
  ASSERT_EQ(renderDiagnostics(diagnostics, "test"), "");
  EXPECT_EQ(encode(*t, "ab  ab"), (std::vector<TokenId>{2, 3, 3, 2}));
}

// Rows of the tokenizers library, of the expressions of GPT-4o, DeepSeek and BLOOM.
TEST(Tokenizer, CutsByPatternsOfFiles) {
  auto cut = [](std::string_view expression, std::string_view text) {
    const std::optional<SplitPattern> pattern = SplitPattern::parse(expression);
    std::vector<std::string> out;
    for (size_t at = 0, begin = 0; pattern && at < text.size();) {
      const size_t end = pattern->matchEnd(text, at), next = end > at ? end : pattern->afterMiss(text, at);
      if (end > at && at > begin) out.emplace_back(text.substr(begin, at - begin));
      if (end > at || next == text.size()) out.emplace_back(text.substr(end > at ? at : begin)), begin = next;
      if (end > at) out.back().resize(end - at);
      at = next;
    }
    return out;
  };
  using Pieces = std::vector<std::string>;
  constexpr std::string_view kWords =
      R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
  EXPECT_EQ(cut(kWords, "HelloWorld it'S 12345  x\n\n/ y"),
            (Pieces{"Hello", "World", " it'S", " ", "123", "45", " ", " x", "\n\n", "/", " y"}));
  EXPECT_EQ(cut(kWords, "ÀBc ABC"), (Pieces{"ÀBc", " ABC"}));
  EXPECT_EQ(
      cut(R"([!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
          "a.b foo_bar, x  \n y2"),
      (Pieces{"a", ".b", " foo", "_bar", ",", " x", "  \n", " y", "2"}));
  EXPECT_EQ(cut(" ?[^(\\s|[.,!?…。，、।۔،])]+", "Hi, you (a|b) !"),
            (Pieces{"Hi", ",", " you", " (", "a", "|", "b", ") !"}));
  EXPECT_EQ(cut(R"(\p{N}{1,3})", "ab12345c"), (Pieces{"ab", "123", "45", "c"}));
  EXPECT_EQ(cut(R"(\p{L}++|\p{N}{1,3}+|\s++$|\s)", "ab12345  \n"), (Pieces{"ab", "12345", "  \n"}));
  EXPECT_EQ(cut(R"(\w+)", "a\u00bd_ \u00e9\u200d"), (Pieces{"a\u00bd_", " ", "\u00e9", "\u200d"}));
  EXPECT_EQ(cut(R"([\w]+|\x{2a}|\u0021)", "a\u00bd_*!"), (Pieces{"a", "\u00bd", "_", "*", "!"}));
  for (const char* other :
       {"a*?", "(?<=a)b", "^a", "[a&&b]", "\\bx", "\\p{Han}", "(a", "a)", "[b-a]", "x{2,1}", "(?:ab)+"})
    EXPECT_FALSE(SplitPattern::parse(other)) << other;
  EXPECT_FALSE(SplitPattern::parse(std::string(5000, 'a')));
}

// Rows of the tokenizers library: pieces of several cuts, and none.
TEST(Tokenizer, CutsOneAfterTheOther) {
  auto tokens = [](std::string_view preTokenizer, std::string_view text) {
    Diagnostics diagnostics;
    std::unique_ptr<Tokenizer> t = parseTokenizerJson(
        SourceFile::make("t.json", tiny(R"({"type": "ByteLevel", "add_prefix_space": false})", preTokenizer)),
        diagnostics);
    EXPECT_EQ(renderDiagnostics(diagnostics, "test"), "");
    return t ? encode(*t, text) : std::vector<TokenId>();
  };
  constexpr std::string_view kCut = R"({"type": "Sequence", "pretokenizers": [
    {"type": "Split", "pattern": {"Regex": "b+"}, "behavior": "Isolated"}, {"type": "Digits"},
    {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}]})";
  EXPECT_EQ(tokens(kCut, "aab b"), (std::vector<TokenId>{0, 0, 1, 3, 1}));
  EXPECT_EQ(tokens(R"({"type": "ByteLevel", "add_prefix_space": false, "use_regex": false})", "aab b"),
            (std::vector<TokenId>{0, 2, 3, 1}));
}

TEST(Tokenizer, PlainTextHasNoAddedTokens) {
  std::string json = tiny("[\"a b\"]}", "[\"a b\"], \"ignore_merges\": true}");
  replace(json, "\"<e>\"", "\"abab\"");
  Diagnostics diagnostics;
  std::unique_ptr<Tokenizer> t = parseTokenizerJson(SourceFile::make("t.json", json), diagnostics);
  ASSERT_TRUE(t) << renderDiagnostics(diagnostics, "test");
  EncodeOptions plain;
  plain.addedTokens = false;
  EXPECT_EQ(encode(*t, "abab"), (std::vector<TokenId>{4}));
  EXPECT_EQ(encode(*t, "abab", plain), (std::vector<TokenId>{2, 2}));
}

TEST(Tokenizer, RefusesTextThatItCannotEncode) {
  std::unique_ptr<Tokenizer> t = parseTiny();
  Diagnostics diagnostics;
  EXPECT_FALSE(t->encode("abc", diagnostics));
  EXPECT_EQ(diagnostics.list().back().message, "the vocabulary has no token for the byte 0x63");
}

TEST(Tokenizer, ProblemsHavePlaces) {
  EXPECT_EQ(problem("\"ab\": 2", "\"ab\": 1"), "t.json:7:60: error: two tokens have the number 1");
  EXPECT_EQ(problem("\"ab\": 2", "\"ab\": 99999"),
            "t.json:7:60: error: the token number 99999 is too large for this vocabulary, whose limit is 1032");
  EXPECT_EQ(problem("\"ab\": 2", "\"ab\": -1"), "t.json:7:60: error: expected the number of a token, 0 or more");
  EXPECT_EQ(problem("\"ab\": 2", "\"ab\": 2.5"), "t.json:7:60: error: expected the number of a token, 0 or more");
  EXPECT_EQ(problem("\"ab\": 2", "\"a\": 2"), "t.json:7:59: error: the object has the key \"a\" twice");
  EXPECT_EQ(problem("\"ab\": 2", "\"" + std::string(5000, 'b') + "\": 2"),
            "t.json:7:5058: error: a token has 5000 bytes; 4096 are the most");
  EXPECT_EQ(problem("\"a b\"", "\"a c\""), "t.json:7:84: error: \"c\" is no token of the vocabulary");
  EXPECT_EQ(problem("\"a b\"", "\"b a\""), "t.json:7:84: error: \"ba\" is no token of the vocabulary");
  EXPECT_EQ(problem("\"a b\"", "\"ab\""), "t.json:7:84: error: expected two tokens with one space between them");
  EXPECT_EQ(problem("\"a b\"", "[\"a\"]"), "t.json:7:84: error: expected two strings to merge");
  EXPECT_EQ(problem("\"a b\"", "7"), "t.json:7:84: error: expected a merge, found a number");
  EXPECT_EQ(problem("\"model\"", "\"modell\""), "t.json:1:1: error: a tokenizer needs a model");
  EXPECT_EQ(problem("\"BPE\"", "\"Bigram\""), "t.json:7:21: error: a tokenizer of type \"Bigram\" is not supported");
  EXPECT_EQ(problem("\"type\": \"BPE\"", "\"dropout\": 0.1"),
            "t.json:7:24: error: dropout in a BPE model is not supported");
  EXPECT_EQ(problem("\"normalizer\": null", "\"normalizer\": {\"type\": \"Nmx\"}"),
            "t.json:3:17: error: the normalizer \"Nmx\" is not supported");
  for (const char* empty : {"$", "a*(?!b)", "b|(?:a?)"})
    EXPECT_EQ(problem("null", "{\"type\": \"Replace\", \"pattern\": {\"Regex\": \"" + std::string(empty) +
                                  "\"}, \"content\": \"x\"}"),
              "t.json:3:17: error: the normalizer \"Replace\" is not supported");
  const std::string longer =
      R"({"type": "Replace", "pattern": {"String": "a"}, "content": ")" + std::string(40, 'a') + "\"}";
  EXPECT_EQ(problem("null", "{\"type\": \"Sequence\", \"normalizers\": [" + longer + ", " + longer + "]}"),
            "t.json:3:158: error: the normalizers may make a text more than 1024 times as long");
  const std::string bytes = R"({"type": "ByteLevel"})",
                    twice = R"({"type": "Replace", "pattern": {"String": "a"}, "content": "aa"})";
  std::string cuts = bytes, decoders = twice;
  for (int i = 0; i < 9; ++i) cuts += ", " + bytes, decoders += ", " + twice;
  EXPECT_EQ(problem("{\"type\": \"ByteLevel\", \"add_prefix_space\": false}",
                    "{\"type\": \"Sequence\", \"pretokenizers\": [" + cuts + "]}"),
            "t.json:4:20: error: a text may become more than 4096 times as long before it is encoded");
  EXPECT_EQ(problem("\"decoder\": {\"type\": \"ByteLevel\"}",
                    "\"decoder\": {\"type\": \"Sequence\", \"decoders\": [" + decoders + "]}"),
            "t.json:6:312: error: the decoder \"Replace\" is not supported");
  decoders = R"({"type": "WordPiece"})";
  for (int i = 0; i < 4; ++i) decoders += R"(, {"type": "WordPiece"})";
  EXPECT_EQ(problem("\"decoder\": {\"type\": \"ByteLevel\"}",
                    "\"decoder\": {\"type\": \"Sequence\", \"decoders\": [" + decoders + "]}"),
            "t.json:6:140: error: the decoder \"WordPiece\" is not supported");
  EXPECT_EQ(problem("\"special\": true", "\"special\": 1"),
            "t.json:2:59: error: expected true or false as special, found a number");
  EXPECT_EQ(problem("\"id\": 4", "\"id\": 2"), "t.json:2:27: error: two tokens have the number 2");
  EXPECT_EQ(problem("\"<e>\"", "\"ab\""),
            "t.json:2:27: error: the added token \"ab\" has the number 4, but 2 in the vocabulary");
  EXPECT_EQ(problem("{\"type\": \"ByteLevel\", \"add", "{\"type\": \"UnicodeScripts\", \"add"),
            "t.json:4:20: error: the pre_tokenizer \"UnicodeScripts\" is not supported");
  EXPECT_EQ(problem("{\"type\": \"ByteLevel\", \"add",
                    "{\"type\": \"Split\", \"pattern\": {\"Regex\": \"a*\"}, \"behavior\": \"Isolated\", \"add"),
            "t.json:4:59: error: splitting by this pattern is not supported");
  EXPECT_EQ(problem("\"decoder\": {\"type\": \"ByteLevel\"", "\"decoder\": {\"type\": \"CTC\""),
            "t.json:6:14: error: the decoder \"CTC\" is not supported");
  EXPECT_EQ(problem("\"special\": true}", "\"special\": true"),
            "t.json:2:63: error: the text is not JSON: unexpected \"]\"");
  EXPECT_EQ(problem("[\"a b\"]}\n}", "[\"a b\"]"), "t.json:7:90: error: the text is not JSON: it ends too early");
  EXPECT_EQ(problem("\"<e>\"", "\"\xff\""), "t.json:2:42: error: the text is not UTF-8");
  EXPECT_EQ(problem("null,", "1e999,"), "t.json:3:21: error: the number is too large");
  EXPECT_EQ(problem("null,", std::string(100, '[') + std::string(100, ']') + ","),
            "t.json:3:80: error: values are nested deeper than 64");
}

TEST(Tokenizer, ProblemsOfGpt2Files) {
  std::string vocabulary = R"({"a": 0, "b": 1, "ab": 2})";
  EXPECT_EQ(problemOfGpt2(vocabulary, "#version: 0.2\na b\nab\n"),
            "merges.txt:3:1: error: expected two tokens with one space between them");
  EXPECT_EQ(problemOfGpt2(vocabulary, "a b c\n"),
            "merges.txt:1:1: error: expected two tokens with one space between them");
  EXPECT_EQ(problemOfGpt2(vocabulary, "a b\r\n\nb c"), "merges.txt:3:1: error: \"c\" is no token of the vocabulary");
  EXPECT_EQ(problemOfGpt2("[1]", ""),
            "vocab.json:1:1: error: expected an object of tokens and their numbers, found a list");
  EXPECT_EQ(problemOfGpt2(R"({"a": 0, "中": 1})", ""),
            "vocab.json:1:17: error: the token \"中\" has characters that stand for no byte");
  EXPECT_EQ(problemOfGpt2("{}", ""), "vocab.json:1:1: error: the vocabulary has no tokens");
}

TEST(Tokenizer, PlainVocabulariesTakeTheLongest) {
  Diagnostics diagnostics;
  std::unique_ptr<Tokenizer> t =
      parsePlainVocabulary(SourceFile::make("v.txt", "a\nab\nabcd\nc\r\n \n\\n\n\\\\\n\\xff\n中"), diagnostics);
  ASSERT_TRUE(t);
  EXPECT_EQ(t->vocabularySize(), 9);
  EXPECT_EQ(encode(*t, "abca abcd\n\\\xff中"), (std::vector<TokenId>{1, 3, 0, 4, 2, 5, 6, 7, 8}));
  EXPECT_EQ(t->find("abcd"), 2);
  EXPECT_FALSE(t->encode("abd", diagnostics));
  EXPECT_EQ(diagnostics.list().back().message, "the vocabulary has no token for the text at byte 2: \"d\"");
  EXPECT_EQ(problemOfPlain(""), "v.txt:1:1: error: the vocabulary has no tokens");
  EXPECT_EQ(problemOfPlain("a\n\nb"),
            "v.txt:2:1: error: expected a token, found an empty line (a line end is written \\n)");
  EXPECT_EQ(problemOfPlain("a\nb\na\n"), "v.txt:3:1: error: the token is there already, in line 1");
  EXPECT_EQ(problemOfPlain("a\nb\\q"), "v.txt:2:2: error: expected \\n, \\r, \\t, \\\\ or \\xHH");
  EXPECT_EQ(problemOfPlain("\\x4"), "v.txt:1:1: error: expected \\n, \\r, \\t, \\\\ or \\xHH");
  EXPECT_EQ(problemOfPlain(std::string(300, 'a')), "v.txt:1:1: error: the token has more than 256 bytes");
}

TEST(Tokenizer, OpensByName) {
  TemporaryFolder folder;
  Diagnostics diagnostics;
  EXPECT_EQ(openTokenizer(folder / "none.json", diagnostics), nullptr);
  EXPECT_EQ(diagnostics.firstErrorKind(), ErrorKind::Io);
  EXPECT_EQ(open(folder.write("words.txt", "a\nb\n"))->kind(), "plain vocabulary");
  Diagnostics letters;
  EXPECT_EQ(openTokenizer(folder.write("letters.txt", "\nb\na\nc\nd\n"), letters), nullptr);
  EXPECT_EQ(letters.list().front().message, "expected a token, found an empty line (a line end is written \\n)");
  folder.write("vocab.json", R"({"a": 0})");
  folder.write("merges.txt", "#version: 0.2\n");
  EXPECT_EQ(open(folder.path())->kind(), "gpt2");
  EXPECT_EQ(open(folder / "vocab.json")->kind(), "gpt2");
  folder.write("tokenizer.json", tiny());
  EXPECT_EQ(open(folder.path())->kind(), "tokenizer.json");
  for (auto [name, text, found] : {std::tuple("ranks.tiktoken", std::string_view("IQ== 0\nIg== 1\n"),
                                              "ranks of tiktoken, which do not say how text is cut"),
                                   {"tokenizer.model", std::string_view("\n\x0e\n\x05<unk>\x15\0\0\0\0\x18\x02", 16),
                                    "a model of SentencePiece"}}) {
    Diagnostics told;
    EXPECT_EQ(openTokenizer(folder.write(name, std::string(text)), told), nullptr);
    EXPECT_EQ(told.list().front().message, "expected a tokenizer.json, found " + std::string(found));
    EXPECT_EQ(told.list().front().notes.size(), 1u);
  }
}

// One piece of a megabyte takes no more than n log n.
TEST(Tokenizer, LongPiecesAreNoTrap) {
  std::unique_ptr<Tokenizer> t = open(dataPath("tokenizer.json"));
  std::string text(1 << 20, 'e');
  std::vector<TokenId> tokens = encode(*t, text);
  EXPECT_EQ(t->decodeBytes(tokens), text);
}

// Nor do words of many parts, and spaces that each belong to a token before them.
TEST(Tokenizer, LongWordsAndSpacesAreNoTrap) {
  Diagnostics diagnostics;
  std::unique_ptr<Tokenizer> t = parseTokenizerJson(SourceFile::make("t.json", R"({
    "added_tokens": [{"id": 2, "content": " ", "rstrip": true}], "pre_tokenizer": {"type": "WhitespaceSplit"},
    "normalizer": {"type": "Replace", "pattern": {"Regex": "\\s+$"}, "content": ""},
    "model": {"type": "WordPiece", "vocab": {"x": 0, "##x": 1}, "max_input_chars_per_word": 9999999}})"),
                                                    diagnostics);
  ASSERT_TRUE(t) << renderDiagnostics(diagnostics, "test");
  constexpr size_t kCount = 1 << 20;
  EXPECT_EQ(encode(*t, std::string(kCount, 'x')).size(), kCount);
  EXPECT_EQ(encode(*t, std::string(kCount, ' ')).size(), kCount);
  EXPECT_EQ(encode(*t, std::string(kCount, '\t') + "x").size(), 1u);
}

TEST(JsonTree, ReadsValues) {
  Diagnostics diagnostics;
  Result<JsonTree> tree = JsonTree::parse(
      SourceFile::make("j", R"( {"a" : [1, -2.5, "x\n", true, null, {}], "b": {"c": 12345678901234567890}} )"),
      diagnostics);
  ASSERT_TRUE(tree);
  JsonTree::Value root = tree->root(), a = root.find("a");
  EXPECT_EQ(root.count(), 2u);
  EXPECT_EQ(a.range().text(), R"([1, -2.5, "x\n", true, null, {}])");
  JsonTree::Value v = a.first();
  EXPECT_EQ(v.integer(), 1);
  v = v.next();
  EXPECT_EQ(v.range().text(), "-2.5");
  EXPECT_EQ(v.integer(), std::nullopt);
  v = v.next();
  EXPECT_EQ(v.text(), "x\n");
  EXPECT_EQ(v.range().text(), R"("x\n")");
  v = v.next();
  EXPECT_TRUE(v.truth());
  v = v.next();
  EXPECT_TRUE(v && !v.present());
  v = v.next();
  EXPECT_FALSE(v.first());
  EXPECT_FALSE(v.next());
  EXPECT_EQ(root.find("b").find("c").integer(), std::nullopt);
  EXPECT_FALSE(root.find("b").find("d").find("e"));
}

}  // namespace tscompile::test
