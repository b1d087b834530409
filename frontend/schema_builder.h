// The parsed pieces of a schema to a Schema, with the checks that its grammar cannot express.
#pragma once

#include "frontend/parse_context.h"
#include "ir/schema.h"

namespace tscompile::frontend {

bool buildSchema(ParseContext& ctx, Schema& schema);

}  // namespace tscompile::frontend
