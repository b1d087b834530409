// The door of the frontend: text to graphs, schemas, types and values.
#pragma once

#include "ir/graph/module.h"
#include "ir/operators/op_registry.h"
#include "ir/operators/schema.h"
#include "ir/support/diagnostics.h"
#include "ir/support/limits.h"
#include "ir/support/result.h"

#include <memory>
#include <string_view>

namespace tscompile {

struct ParseOptions {
  // Gives types to outputs that the text leaves untyped; without it they are tensors.
  const OpRegistry* registry = nullptr;
  Limits limits;
  // Reads as torch._C.parse_ir does: names of node outputs are dropped, what follows the first graph is ignored,
  // constants are not converted to the type of their output.
  bool likeParseIr = false;
  // Reads a pattern: values without a type have the type variable `_`, attributes may be variables ($c) or regular
  // expressions (~"..."), values whose name ends in "..." stand for any number of values.
  bool pattern = false;
  // Remarks on names that are given to a second value of the same graph.
  bool noteRedefinitions = false;
};

// Reads one or several graphs, or a module dump. Several mistakes give several diagnostics. Checks syntax and names;
// types, dominance and arity are the verifier's.
Result<ParsedText> parseText(SourcePtr source, Diagnostics& diagnostics, const ParseOptions& options = {});
// Reads a text that holds exactly one graph.
Result<std::unique_ptr<Graph>> parseGraph(SourcePtr source, Diagnostics& diagnostics, const ParseOptions& options = {});
Result<std::unique_ptr<Graph>> parseGraph(std::string_view text, Diagnostics& diagnostics,
                                          const ParseOptions& options = {});

// `aten::relu(Tensor self) -> Tensor`
Result<Schema> parseSchema(SourcePtr source, Diagnostics& diagnostics);
Result<Schema> parseSchema(std::string_view text, Diagnostics& diagnostics);
// For OpRegistry: false if the text is malformed.
bool readSchema(std::string_view text, Schema& schema);

// A type as graph text writes it.
Result<TypePtr> parseType(std::string_view text, Diagnostics& diagnostics);
// A value as attributes have it, converted to `expected` if that is given.
Result<IValue> parseValue(std::string_view text, Diagnostics& diagnostics, TypePtr expected = nullptr);

}  // namespace tscompile
