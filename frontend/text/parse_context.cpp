#include "frontend/text/parse_context.h"

#include "frontend/text/grammar.h"

namespace tscompile::frontend {

ParseContext::ParseContext(const SourceFile& source, Diagnostics& diagnostics, const Limits& limits,
                           StatementSink* sink)
    : ParseState(source, diagnostics, limits),
      tokens(*this),
      types(*this),
      literals(*this, types),
      schema(*this, types),
      sink_(sink) {}

bool ParseContext::parse(StartAt start) {
  setStart(start);
  if (text().size() > limits().textBytes || text().size() >= UINT32_MAX) {
    limitError({0, 0}, &Limits::textBytes);
    return false;
  }
  tokens.begin();
  Parser(*this).parse();
  return !failed();
}

void ParseContext::onNode(NodeSyntax* node, const PlaceSyntax* place, Span span) {
  sink_->onNode(*node, place, span);
  arena.clear();
}
void ParseContext::onHeader(HeaderSyntax& header, Span span) {
  sink_->onHeader(header, span);
  arena.clear();
}
void ParseContext::onSubgraph(Name kind, HeaderSyntax& header, Span span) {
  sink_->onSubgraph(kind, header, span);
  arena.clear();
}
void ParseContext::onBlockEnd(Slice<Name> results, Span span) {
  sink_->onBlockEnd(results, span);
  arena.clear();
}
void ParseContext::onReturn(Slice<Name> results, Span span) {
  sink_->onReturn(results, span);
  arena.clear();
}
void ParseContext::onBrace(Span span) { sink_->onBrace(span); }
void ParseContext::onModule(std::string_view line, Span span) { sink_->onModule(line, span); }
void ParseContext::onSection(std::string_view line, Span span) { sink_->onSection(line, span); }
void ParseContext::onMethod(std::string_view line, Span span) { sink_->onMethod(line, span); }
void ParseContext::onSetting(std::string_view line, Span span) { sink_->onSetting(line, span); }

void ParseContext::onRecovery(Span span) {
  Span all{tokens.recoveryBegin(), span.end};
  sink_->onRecovery(textOf(all), all);
  arena.clear();
}

NodeSyntax* ParseContext::node(std::string_view kind, Span span) {
  auto* n = make<NodeSyntax>();
  n->kind = kind;
  n->kindSpan = span;
  return n;
}

NodeSyntax* ParseContext::pythonNode(std::string_view name, Span span, Slice<AttributeSyntax>* attributes,
                                     std::string_view scalars) {
  NodeSyntax* n = node(name, span);
  n->python = true;
  n->brackets = attributes != nullptr;
  if (attributes) n->attributes = *attributes;
  n->scalars = scalars;
  return n;
}

}  // namespace tscompile::frontend
