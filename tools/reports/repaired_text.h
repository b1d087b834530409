// Texts with mistakes, made readable: what is wrong elsewhere can be told as well.
#pragma once

#include "ir/support/diagnostics.h"
#include "ir/support/source.h"

#include <set>
#include <string>

namespace tscompile {

// What stands in place of a call that cannot be read.
inline constexpr const char* kLeftOut = "__left_out__";

// The text with the lines in which errors are as calls of kLeftOut that give the same values, of types that are Tensor
// where the error is in them, and take those that the line takes; lines stay where they are. `lines` gets their
// numbers. Empty if an error is where no call is.
std::string repairedText(const SourceFile& source, const Diagnostics& errors, std::set<uint32_t>& lines);

}  // namespace tscompile
