// What operators on integers make of sizes that are expressions.
#pragma once

#include "ir/values/size_expression.h"

#include <optional>
#include <span>
#include <string_view>

namespace tscompile {

// The integer that an operator gives; unknown if it is none of those that sizes are computed with.
SizeExpression integerResult(std::string_view kind, std::span<const SizeExpression> arguments);
// What a comparison of two integers, or of two lists of them, gives in every run.
std::optional<bool> decided(std::string_view kind, SizeExpression a, SizeExpression b);
std::optional<bool> decided(std::string_view kind, DimSpan a, DimSpan b);

}  // namespace tscompile
