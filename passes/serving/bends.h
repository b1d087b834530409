// Where what follows from the places of tokens may bend: the end of a window, the size of a chunk, the last place that
// counts.
#pragma once

#include "passes/serving/small_instance.h"

#include <span>

namespace tscompile {

struct Bends {
  static constexpr int64_t kAnywhere = INT64_MAX;
  int64_t tokens = 0;     // a text of so many is past all of them, as far as numbers tell; 0: there are none
  int64_t tableRows = 0;  // columns of the widest stored table; 0: there is none
};

// Of a value that follows from `positions`, from numbers of tokens and from what else is given; nothing if it needs
// more. Numbers count as they are used: factors move a bend, what is added or compared moves it by itself.
std::optional<Bends> bendsOf(const Value* value, const Value* positions, const std::vector<const Value*>& given,
                             std::span<const SmallInstance* const> instances, RewriteContext& context);

}  // namespace tscompile
