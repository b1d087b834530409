// Tokens of a language model.
#pragma once

#include <cstdint>
#include <span>

namespace tscompile {

// The number of a token in its vocabulary: 0 to the vocabulary's size - 1.
using TokenId = int32_t;
using TokenSpan = std::span<const TokenId>;

}  // namespace tscompile
