// What the grammar sees: the tokens, the builders that its actions call, and the sink for statements.
#pragma once

#include "frontend/text/literal_builder.h"
#include "frontend/text/schema_builder.h"
#include "frontend/text/token_rules.h"
#include "frontend/text/type_builder.h"

#include <vector>

namespace tscompile::frontend {

// Takes the statements of a text one by one. What they point to lives until the call returns.
class StatementSink {
 public:
  virtual ~StatementSink() = default;
  virtual void onNode(NodeSyntax& node, const PlaceSyntax* place, Span span) = 0;
  virtual void onHeader(HeaderSyntax& header, Span span) = 0;
  virtual void onSubgraph(Name kind, HeaderSyntax& header, Span span) = 0;
  virtual void onBlockEnd(Slice<Name> results, Span span) = 0;
  virtual void onReturn(Slice<Name> results, Span span) = 0;
  virtual void onBrace(Span span) = 0;
  virtual void onModule(std::string_view line, Span span) = 0;
  virtual void onSection(std::string_view line, Span span) = 0;
  virtual void onMethod(std::string_view line, Span span) = 0;
  virtual void onSetting(std::string_view line, Span span) = 0;
  // A statement could not be read; `line` is its text.
  virtual void onRecovery(std::string_view line, Span span) = 0;
};

class ParseContext : public ParseState {
 public:
  // The context must not outlive the source, the diagnostics, the limits and the sink.
  ParseContext(const SourceFile& source, Diagnostics& diagnostics, const Limits& limits, StatementSink* sink);
  // False if anything was reported.
  bool parse(StartAt start);

  TokenRules tokens;
  TypeBuilder types;
  LiteralBuilder literals;
  SchemaBuilder schema;

  // ---- results of the starts Type and Value ----
  TypePtr typeResult = nullptr;
  Literal* literalResult = nullptr;

  // ---- called by the grammar ----
  // Kinds of symbols as the generated parser numbers them.
  void syntaxError(Span where, int found, const std::vector<int>& expected);

  void onNode(NodeSyntax* node, const PlaceSyntax* place, Span span);
  void onHeader(HeaderSyntax& header, Span span);
  void onSubgraph(Name kind, HeaderSyntax& header, Span span);
  void onBlockEnd(Slice<Name> results, Span span);
  void onReturn(Slice<Name> results, Span span);
  void onBrace(Span span);
  void onModule(std::string_view line, Span span);
  void onSection(std::string_view line, Span span);
  void onMethod(std::string_view line, Span span);
  void onSetting(std::string_view line, Span span);
  void onRecovery(Span span);

  NodeSyntax* node(std::string_view kind, Span span);
  NodeSyntax* pythonNode(std::string_view name, Span span, Slice<AttributeSyntax>* attributes,
                         std::string_view scalars);

 private:
  StatementSink* sink_;
};

}  // namespace tscompile::frontend
