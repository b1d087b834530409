#include "frontend/text/parse.h"

#include "frontend/text/graph_builder.h"
#include "frontend/text/partial_parse.h"
#include "frontend/text/tuple_names.h"
#include "frontend/text/values.h"

namespace tscompile {

using namespace frontend;

ParsedText parsePartly(SourcePtr source, Diagnostics& diagnostics, const ParseOptions& options) {
  GraphBuilder builder(source, options, diagnostics);
  ParseContext ctx(*source, diagnostics, options.limits, &builder);
  builder.setContext(&ctx);
  ctx.tokens.patterns = options.pattern;
  diagnostics.keepAlive(source);
  ctx.tokens.stopWhen([&] { return builder.stopped(); });
  size_t before = diagnostics.errorCount();
  ctx.parse(StartAt::Text);
  if (diagnostics.errorCount() == before) builder.finish();
  ParsedText result = builder.take();
  // Most texts have no such types: to walk through deep ones takes memory.
  const bool mayHideNames =
      source->text().find("Dict(") != std::string_view::npos || source->text().find("Union[") != std::string_view::npos;
  if (!options.likeParseIr && mayHideNames) joinTupleNames(result);
  if (diagnostics.errorCount() == before && result.graphs.empty() && !result.module)
    ctx.error({0, 0}, "the text holds no graph");
  return result;
}

Result<ParsedText> parseText(SourcePtr source, Diagnostics& diagnostics, const ParseOptions& options) {
  const size_t before = diagnostics.errorCount();
  ParsedText result = parsePartly(std::move(source), diagnostics, options);
  if (diagnostics.errorCount() != before) return Failed{};
  return result;
}

Result<std::unique_ptr<Graph>> parseGraph(SourcePtr source, Diagnostics& diagnostics, const ParseOptions& options) {
  Result<ParsedText> parsed = parseText(source, diagnostics, options);
  if (!parsed) return Failed{};
  if (parsed->graphs.size() != 1 || parsed->module) {
    diagnostics.error({source.get(), 0, 0}, "expected exactly one graph");
    return Failed{};
  }
  return std::move(parsed->graphs[0]);
}

Result<std::unique_ptr<Graph>> parseGraph(std::string_view text, Diagnostics& diagnostics,
                                          const ParseOptions& options) {
  return parseGraph(SourceFile::make("<text>", std::string(text)), diagnostics, options);
}

Result<Schema> parseSchema(SourcePtr source, Diagnostics& diagnostics) {
  Limits limits;
  diagnostics.keepAlive(source);
  ParseContext ctx(*source, diagnostics, limits, nullptr);
  if (!ctx.parse(StartAt::Schema)) return Failed{};
  Schema schema;
  if (!ctx.schema.build(schema)) return Failed{};
  return schema;
}

Result<Schema> parseSchema(std::string_view text, Diagnostics& diagnostics) {
  SourcePtr source = SourceFile::make("<schema>", std::string(text));
  return parseSchema(source, diagnostics);
}

bool readSchema(std::string_view text, Schema& schema) {
  Diagnostics diagnostics;
  Result<Schema> parsed = parseSchema(text, diagnostics);
  if (!parsed) return false;
  schema = std::move(*parsed);
  return true;
}

Result<TypePtr> parseType(std::string_view text, Diagnostics& diagnostics) {
  SourcePtr source = SourceFile::make("<type>", std::string(text));
  Limits limits;
  diagnostics.keepAlive(source);
  ParseContext ctx(*source, diagnostics, limits, nullptr);
  if (!ctx.parse(StartAt::Type)) return Failed{};
  return ctx.typeResult;
}

Result<IValue> parseValue(std::string_view text, Diagnostics& diagnostics, TypePtr expected) {
  SourcePtr source = SourceFile::make("<value>", std::string(text));
  Limits limits;
  diagnostics.keepAlive(source);
  ParseContext ctx(*source, diagnostics, limits, nullptr);
  if (!ctx.parse(StartAt::Value)) return Failed{};
  size_t before = diagnostics.errorCount();
  IValue value = literalValue(ctx, *ctx.literalResult, expected);
  if (diagnostics.errorCount() != before) return Failed{};
  return value;
}

}  // namespace tscompile
