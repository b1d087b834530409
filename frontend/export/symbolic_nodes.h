// Python's operators on sizes and other numbers of a program: `_operator.add`, `math.ceil`, `torch.sym_max`.
#pragma once

#include "frontend/export/export_builder.h"

namespace tscompile::exported {

// Whether a node with this target is one of them.
bool isSymbolicTarget(std::string_view target);
// Appends what computes it and binds the result. False after a report.
bool readSymbolicNode(ExportBuilder& builder, Json node, std::string_view target);
// The number converted to what the file says that an output is ("as_sym_int"); null after a report.
Value* convertNumber(ExportBuilder& builder, Value* number, std::string_view kind, Json at);

}  // namespace tscompile::exported
