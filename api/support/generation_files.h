// What lies beside a language model and says how texts are made with it, in the files that models of transformers have:
// its tokenizer, and which tokens end a text.
#pragma once

#include "ir/support/diagnostics.h"
#include "ir/support/result.h"
#include "runtime/llm/tokenizer.h"

#include <optional>
#include <string>
#include <vector>

namespace tscompile {

// Copies tokenizer.json, tokenizer_config.json, vocab.json, merges.txt and generation_config.json as far as they are
// there, and removes the others from `to`, where they were those of another model. False after a report.
bool copyGenerationFiles(const std::string& from, const std::string& to, Diagnostics& diagnostics);

// The folder, if a tokenizer is in it that openTokenizer() looks for.
std::optional<std::string> tokenizerIn(const std::string& folder);

// Tokens that end texts: eos_token_id of generation_config.json, one or a list; else eos_token of
// tokenizer_config.json, which the tokenizer (if there is one) has a number for. None if no file says it. Reports files
// that are not what they should be.
Result<std::vector<TokenId>> endTokensIn(const std::string& folder, const Tokenizer* tokenizer,
                                         Diagnostics& diagnostics);

}  // namespace tscompile
