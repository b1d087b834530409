// What a request of `generate` may say, on the command line and in a line of a file of requests, by one table.
#pragma once

#include "frontend/files/json_tree.h"
#include "runtime/llm/sampling.h"
#include "tools/options/option_parts.h"

#include <optional>
#include <string>
#include <vector>

namespace tscompile {

struct TextRequest {
  std::optional<std::string> id;  // what its results are called by
  std::optional<std::string> prompt;
  std::vector<TokenId> promptIds;  // in its stead
  int64_t maxNewTokens = 64;
  SamplingConfig sampling;
  std::vector<TokenId> endIds;
  std::vector<std::string> stop, badWords;
  bool draws = false;  // a temperature or a seed was given
};

// Those of the command line; `requestOf` tells where they go.
OptionSpecs generationOptions(TextRequest& (*requestOf)(Options&));

// Throws UsageError for an option of the command line that changes nothing without another one.
void checkGenerationOptions(const Options& options, const TextRequest& request);

// Changes what an object says: {"id": "a7", "prompt": "The", "top_k": 20, "stop": ["\n"]}; a string is a prompt.
// Reports everything that is wrong with it.
bool readRequest(const JsonTree::Value& line, TextRequest& request, Diagnostics& diagnostics);

// Of {"cancel": "a7"}: whose request is to end; nothing of any other line.
std::optional<std::string> idToCancel(const JsonTree::Value& line);

// "1,2,3"; throws UsageError.
std::vector<TokenId> parseIds(std::string_view option, const std::string& text);

}  // namespace tscompile
