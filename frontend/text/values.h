// Value literals to IValues.
#pragma once

#include "frontend/text/parse_context.h"
#include "ir/graph/graph.h"

namespace tscompile::frontend {

// What a literal means where a value of type `expected` (may be null) stands. PyTorch's text does not tell bool from
// int, or large floats from ints: the type does. Mistakes are reported to `ctx`.
Attribute::Payload attributePayload(ParseContext& ctx, Literal& literal, TypePtr expected);
IValue literalValue(ParseContext& ctx, Literal& literal, TypePtr expected);

// The tensor behind inline text such as ` 1  2 [ CPULongType{2} ]`, as far as the text tells it.
IValue tensorLiteral(std::string_view text);
// `{1.5}`; `type` tells dtype and shape.
IValue scalarTensorLiteral(std::string_view text, Literal& number, TypePtr type);

}  // namespace tscompile::frontend
