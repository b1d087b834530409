// Recognises rotary positions by what they do to queries and keys.
#pragma once

#include "passes/serving/serving_passes.h"

#include <optional>
#include <span>

namespace tscompile {

struct Rotary {
  HeadSource source;         // before the rotation
  bool interleaved = false;  // components 2i and 2i + 1 turn together (GPT-J), else i and i + dim / 2 (NeoX)
  int64_t dim = 0;           // of the components that turn, the first of each head
  double base = 0, scale = 1;
  bool sameTurn(const Rotary& o) const {
    return interleaved == o.interleaved && dim == o.dim && base == o.base && scale == o.scale;
  }
};

// How heads are turned by the positions [batch, tokens]; nothing if they are not, or otherwise.
std::optional<Rotary> findRotary(const HeadSource& turned, const AttentionChoices& choices, RewriteContext& context,
                                 std::span<const SmallInstance* const> instances);

}  // namespace tscompile
