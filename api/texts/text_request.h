// What a request for a text may say, by one table: a line of JSON, and options of the command line.
#pragma once

#include "frontend/files/json_tree.h"
#include "runtime/llm/sampling.h"

#include <optional>
#include <span>
#include <string>
#include <variant>
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
  bool draws = false;  // asks for chance, as another temperature or seed than the usual ones does
};

struct TextSetting {
  // Where it goes, by its kind.
  using Place = std::variant<int64_t& (*)(TextRequest&), uint64_t& (*)(TextRequest&), double& (*)(TextRequest&),
                             bool& (*)(TextRequest&), std::vector<TokenId>& (*)(TextRequest&),
                             std::vector<std::string>& (*)(TextRequest&)>;

  const char* name;    // in a line; the option has dashes instead of _
  const char* option;  // where it is another word
  const char* value;
  const char* help;  // other settings in braces
  Place place;
  bool draws = false;  // asks for chance
};
std::span<const TextSetting> textSettings();

// Changes what an object says: {"id": "a7", "prompt": "The", "top_k": 20, "stop": ["\n"]}; a string is a prompt.
// Reports everything that is wrong with it.
bool readRequest(const JsonTree::Value& line, TextRequest& request, Diagnostics& diagnostics);

// Of {"cancel": "a7"}: whose request is to end; nothing of any other line.
std::optional<std::string> idToCancel(const JsonTree::Value& line);

}  // namespace tscompile
