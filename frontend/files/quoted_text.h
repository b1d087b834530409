// Strings of the value grammar: JSON's, but any byte above 0x7f may stand for itself.
#pragma once

#include "frontend/files/text_cursor.h"
#include "ir/support/limits.h"

#include <string>
#include <string_view>

namespace tscompile {

// Reads the string whose opening quote is here; false after a report.
bool readQuotedText(TextCursor& cursor, const Limits& limits, std::string& out);
// In double quotes, so that readQuotedText gives the same bytes.
void appendQuotedText(std::string_view text, std::string& out);

}  // namespace tscompile
