// `tscompile tokenize`: texts as tokens, and tokens as texts.
#include "frontend/files/file_io.h"
#include "ir/support/json_fields.h"
#include "ir/support/text.h"
#include "runtime/llm/tokenizer.h"
#include "tools/commands/commands.h"
#include "tools/options/option_parts.h"
#include "tools/tasks/generation_settings.h"

namespace tscompile {
namespace {

struct TokenizeCommand {
  std::vector<std::string> texts, files, ids;
  EncodeOptions encode;
  bool pieces = false;
};

struct Tokenized {
  std::vector<TokenId> tokens;
  std::string text;
  std::vector<std::string> pieces;  // of each token what it stands for, as far as that is text

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("tokens", tokens);
    visit("text", text);
    visit("pieces", pieces);
  }
};

struct TokenizedList {
  std::string kind;
  int64_t vocabulary;
  std::vector<Tokenized> results;

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("schema", "tscompile.tokenize/1");
    visit("tokenizer", kind);
    visit("vocabulary", vocabulary);
    visit("results", Lines{results, true});
  }
};

class Tokenization {
 public:
  Tokenization(const TokenizeCommand& command, Session& session) : command_(command), session_(session) {}

  int run(const std::string& path) {
    tokenizer_ = path == "bytes" ? makeByteTokenizer() : openTokenizer(path, session_.diagnostics);
    if (!tokenizer_) return session_.finish();
    TokenizedList list{std::string(tokenizer_->kind()), tokenizer_->vocabularySize(), {}};
    for (const std::string& text : command_.texts) encode(text, list.results);
    for (const std::string& file : command_.files)
      if (Result<std::string> text = session_.read(file)) encode(*text, list.results);
    for (const std::string& ids : command_.ids) decode(parseIds("--ids", ids), list.results);
    if (session_.common.json)
      writeJson(session_.out, list);
    else
      for (size_t i = 0; i < list.results.size(); ++i) print(list.results[i], i >= list.results.size() - decoded_);
    return session_.finish();
  }

 private:
  void encode(const std::string& text, std::vector<Tokenized>& out) {
    Result<std::vector<TokenId>> tokens = tokenizer_->encode(text, session_.diagnostics, command_.encode);
    if (tokens) out.push_back({*tokens, text, piecesOf(*tokens)});
  }
  void decode(const std::vector<TokenId>& tokens, std::vector<Tokenized>& out) {
    out.push_back({tokens, tokenizer_->decode(tokens), piecesOf(tokens)});
    ++decoded_;
  }
  std::vector<std::string> piecesOf(TokenSpan tokens) const {
    std::vector<std::string> out;
    for (TokenId t : tokens) out.push_back(tokenizer_->continuation(TokenSpan(&t, 1)));
    return out;
  }

  void print(const Tokenized& t, bool isDecoded) const {
    if (command_.pieces)
      for (size_t i = 0; i < t.tokens.size(); ++i)
        session_.out << t.tokens[i] << "\t" << jsonQuote(t.pieces[i]) << "\n";
    else if (isDecoded)
      session_.out << t.text << "\n";
    else
      session_.out << join(t.tokens, ",", [](TokenId id) { return std::to_string(id); }) << "\n";
  }

  const TokenizeCommand& command_;
  Session& session_;
  std::unique_ptr<Tokenizer> tokenizer_;
  size_t decoded_ = 0;
};

OptionSpecs tokenizeOptions() {
  return OptionSpecs{
      {"--text", "TEXT", "a text to be made tokens of",
       [](Options& o, const std::string& v) { o.own.of<TokenizeCommand>().texts.push_back(v); }, true},
      {"--file", "FILE", "the same of a file; -: standard input",
       [](Options& o, const std::string& v) { o.own.of<TokenizeCommand>().files.push_back(v); }, true},
      {"--ids", "IDS", "tokens to be made a text of: 12,7,99",
       [](Options& o, const std::string& v) { o.own.of<TokenizeCommand>().ids.push_back(v); }, true},
      {"--pieces", "", "a line for each token, with what it stands for",
       [](Options& o, const std::string&) { o.own.of<TokenizeCommand>().pieces = true; }},
      {"--no-frame", "", "without what the tokenizer's template puts before and after a text",
       [](Options& o, const std::string&) { o.own.of<TokenizeCommand>().encode.frame = false; }},
      {"--plain", "", "names of added tokens in a text are text",
       [](Options& o, const std::string&) { o.own.of<TokenizeCommand>().encode.addedTokens = false; }},
  };
}

int runTokenize(const Options& options, Session& session) {
  const TokenizeCommand& command = options.own.of<TokenizeCommand>();
  const bool isEncoded = !command.texts.empty() || !command.files.empty();
  if (!isEncoded && command.ids.empty()) throw UsageError{"tokenize needs --text, --file or --ids"};
  for (const SaidOption& said : options.said)
    if (!isEncoded && (said.name == "--no-frame" || said.name == "--plain"))
      throw UsageError{said.name + " is for texts: --text or --file is missing"};
  return Tokenization(command, session).run(options.arguments[0]);
}

}  // namespace

VerbSpec tokenizeCommand() {
  return {
      .name = "tokenize",
      .summary = "make tokens of texts, or texts of tokens",
      .argument = "TOKENIZER",
      .argumentHelp =
          "tokenizer.json, vocab.json with merges.txt beside it, a plain vocabulary, a folder with one of the first "
          "two, or 'bytes'",
      .argumentRequired = true,
      .details =
          "Examples:\n  tscompile tokenize tokenizer.json --text 'The graph'\n"
          "  tscompile tokenize built --ids 464,4823\n",
      .options = tokenizeOptions(),
      .command = runTokenize};
}

}  // namespace tscompile
