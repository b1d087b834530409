// Operators that nobody knows.
#pragma once

#include "ir/operators/op_registry.h"
#include "ir/support/diagnostics.h"

#include <cstdint>
#include <string_view>

namespace tscompile {

// What reading a model does with calls of them. Kept: they are nodes as far as the file tells what they give.
enum class UnknownOperators : uint8_t { Refused, Kept };

// Whether somebody's library may have it: it has a namespace that is none of PyTorch's own.
bool mayBeSupplied(std::string_view kind);
// Adds to a report of one what may help: the nearest name, or where operators are loaded from.
void adviseUnknown(Diagnostic& report, const OpRegistry& registry, std::string_view kind);

}  // namespace tscompile
