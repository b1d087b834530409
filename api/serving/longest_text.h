// The longest text that a model runs with, whose tables and caches end somewhere.
#pragma once

#include "runtime/llm/tokens.h"

#include <cstdint>
#include <functional>
#include <vector>

namespace tscompile {

// Tokens of a text that tells lengths: any, and those alone that mean nothing, which may take other rows of a table.
struct LongText {
  std::vector<TokenId> any, plain;
};
LongText longText(int64_t tokens, int64_t vocabulary, const std::vector<int64_t>& marked);

// Up to which length texts run, `most` if they all do, and 0 if that many do not and `isAsked`, or none was found.
// `likely` is where a cache ends, or 0.
int64_t longestThatRuns(int64_t most, int64_t likely, bool isAsked, const std::function<bool(int64_t)>& runs);

}  // namespace tscompile
