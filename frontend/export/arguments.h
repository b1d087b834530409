// Arguments of a node as values of the graph.
#pragma once

#include "frontend/export/export_builder.h"
#include "ir/operators/schema.h"

namespace tscompile::exported {

// The value of an `Argument` of the file for an argument of a schema; numbers and lists take its type. Numbers for a
// tensor stay numbers. Null after a report.
Value* readArgument(ExportBuilder& builder, Json argument, const Argument& formal);
// The same where no schema says what is wanted.
Value* readFreeArgument(ExportBuilder& builder, Json argument);
// The same for what may be a list: appends its items, or the one value. False after a report.
bool readItems(ExportBuilder& builder, Json argument, std::vector<Value*>& out);
// The names that an output or an argument stands for: one, or those of a list; empty for None.
std::vector<Json> namesOf(Json argument);

}  // namespace tscompile::exported
