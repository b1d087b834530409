// Values as TorchScript prints them: print(), str(), format() and the % operator.
#pragma once

#include "ir/values/literal.h"

#include <string>

namespace tscompile {

// As the C++ stream of PyTorch has it: strings without quotes, also inside of containers; "1." and
// "0.10000000000000001"; tensors row by row. Stops at the run's limits.
void appendText(const IValue& value, std::string& out);
std::string textOf(const IValue& value);
// About the first `bytes` of it, for messages.
std::string shortText(const IValue& value, size_t bytes, LiteralStyle style = LiteralStyle::Stream);

// Fails with ErrorKind::Limit if a string of this size cannot be.
void checkTextSize(size_t bytes);

// `format` with each {} replaced by the next argument. Arguments that are left over are ignored, as PyTorch does.
std::string formatBraces(const std::string& format, const IValue* const* arguments, size_t count);
// `format` with %d %i %e %E %f %F %c %s %% replaced; `arguments` is a tuple or one value.
std::string formatPercent(const std::string& format, const IValue& arguments);

}  // namespace tscompile
