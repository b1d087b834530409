// The structure of graphs as JSON: "tscompile.graph/1", described in docs/cli.md.
#pragma once

#include "ir/graph/module.h"
#include "ir/support/json_writer.h"

namespace tscompile {

void writeGraphJson(const ParsedText& text, JsonWriter& json);

}  // namespace tscompile
