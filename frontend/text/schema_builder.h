// The grammar's actions for schemas, and the checks that a grammar cannot express.
#pragma once

#include "frontend/text/type_builder.h"
#include "ir/operators/schema.h"

namespace tscompile::frontend {

// What was read of a schema.
struct SchemaSyntax {
  std::string_view name, overload;
  Span span;
  Slice<ArgumentSyntax*>* arguments = nullptr;
  Slice<ArgumentSyntax*>* returns = nullptr;
};

class SchemaBuilder {
 public:
  SchemaBuilder(ParseState& state, TypeBuilder& types) : state_(state), types_(types) {}

  void name(std::string_view name, std::string_view overload, Span span) { syntax_ = {name, overload, span}; }
  ArgumentSyntax* argument(ArgumentSyntax::Kind kind, Span span);
  ArgumentSyntax* argument(SchemaTypeSyntax* type, std::string_view name, Literal* defaultValue, Span span);
  SchemaTypeSyntax* namedType(std::string_view name, AliasSyntax* alias, Span span);
  SchemaTypeSyntax* qualifiedType(std::string_view name, Span span);
  SchemaTypeSyntax* tupleType(Slice<SchemaTypeSyntax*>* elements, Span span);
  SchemaTypeSyntax* parametricType(std::string_view name, Slice<SchemaTypeSyntax*>* arguments, AliasSyntax* alias,
                                   Span span);
  SchemaTypeSyntax* listType(SchemaTypeSyntax* element, int64_t fixedSize, AliasSyntax* alias, Span span);
  SchemaTypeSyntax* optionalType(SchemaTypeSyntax* element, Span span);
  AliasSyntax* alias(Slice<std::string_view>* before, bool write, Slice<std::string_view>* after);
  AliasSyntax* bareWrite();
  void finish(Slice<ArgumentSyntax*>* arguments, Slice<ArgumentSyntax*>* returns) {
    syntax_.arguments = arguments;
    syntax_.returns = returns;
  }

  // The schema that was read; false if it does not hold together.
  bool build(Schema& schema) const;

 private:
  ParseState& state_;
  TypeBuilder& types_;
  SchemaSyntax syntax_;
  uint32_t unnamedSets_ = 0;
};

}  // namespace tscompile::frontend
