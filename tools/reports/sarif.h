// Findings as SARIF 2.1.0, which editors and code hosts show beside the text.
#pragma once

#include "ir/support/diagnostics.h"

#include <ostream>
#include <span>

namespace tscompile {

// One run; notes of a finding that have a place are related locations, the others follow its message.
void writeSarif(std::ostream& out, std::span<const Diagnostic> findings, std::string_view version);

}  // namespace tscompile
