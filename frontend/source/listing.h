// What the sources of an archive say without being compiled: the methods of a class, and which operators are called how
// often in the text.
#pragma once

#include "ir/support/diagnostics.h"
#include "ir/support/limits.h"
#include "ir/support/result.h"

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tscompile {

struct SourceListing {
  std::vector<std::pair<std::string, std::string>> methods;  // name, and "(x: Tensor) -> Tensor" without self
  std::map<std::string, size_t> operators;                   // calls in the text of "aten::relu"
};

// Adds what a source says to the listing. `className`: the class whose methods are asked for, as the file has it, or
// empty. False after a report.
bool listSource(const SourcePtr& source, std::string_view className, const Limits& limits, Diagnostics& diagnostics,
                SourceListing& out);

}  // namespace tscompile
