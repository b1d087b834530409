// The parsed pieces of a schema to a Schema, with the checks that its grammar cannot express.
#pragma once

#include "frontend/text/parse_context.h"
#include "ir/operators/schema.h"

namespace tscompile::frontend {

bool buildSchema(ParseContext& ctx, Schema& schema);

}  // namespace tscompile::frontend
