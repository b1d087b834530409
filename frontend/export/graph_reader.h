// The graphs of an exported program, nodes and all that is nested in them.
#pragma once

#include "frontend/export/export_builder.h"

namespace tscompile::exported {

// Appends the nodes of `graph`, a `Graph` of the file whose scope was entered and whose inputs are bound. False after
// a report.
bool readNodes(ExportBuilder& builder, Json graph);

}  // namespace tscompile::exported
