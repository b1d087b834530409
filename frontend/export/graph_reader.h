// The graphs of an exported program, nodes and all that is nested in them.
#pragma once

#include "frontend/export/export_builder.h"

namespace tscompile::exported {

// Appends the nodes of `graph`, a `Graph` of the file whose scope was entered and whose inputs are bound. False after
// a report.
bool readNodes(ExportBuilder& builder, Json graph);
// Appends the call of an operator ("torch.ops.aten.relu.default") and binds its results; `node` is what reports speak
// of. Arguments without a name are taken by their place. False after a report.
bool readCall(ExportBuilder& builder, Json node, std::string_view target, std::span<const Json> inputs,
              std::span<const Json> outputs);

}  // namespace tscompile::exported
