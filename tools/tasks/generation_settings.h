// What the command line says of requests of `generate`.
#pragma once

#include "api/texts/text_request.h"
#include "tools/options/option_parts.h"

#include <string>
#include <vector>

namespace tscompile {

// The settings of requests as options; `requestOf` tells where they go.
OptionSpecs generationOptions(TextRequest& (*requestOf)(Options&));

// Throws UsageError for an option of the command line that changes nothing without another one.
void checkGenerationOptions(const Options& options, const TextRequest& request);

// Throws UsageError for a number that no model takes.
void checkGenerationRanges(const TextRequest& request);

// "1,2,3"; throws UsageError.
std::vector<TokenId> parseIds(std::string_view option, const std::string& text);

}  // namespace tscompile
