// Nodes that hold graphs: conditions, and regions whose setting changes nothing here.
#pragma once

#include "frontend/export/export_builder.h"

namespace tscompile::exported {

// Appends a node whose target is "torch.ops.higher_order....". False after a report.
bool readHigherOrder(ExportBuilder& builder, Json node, std::string_view target);

}  // namespace tscompile::exported
