// The names of the reasons.
#include "ir/operators/engine_support.h"

#include <array>

namespace tscompile {

std::string_view reasonCode(Reason reason) {
  static constexpr std::array<std::string_view, kReasonCount> codes = {
      "OK",          "NO_OP",        "NO_OVERLOAD", "DTYPE",       "RANK",   "DYNAMIC_SHAPE", "DATA_DEPENDENT",
      "ALIASING",    "CONTROL_FLOW", "NON_TENSOR",  "SIDE_EFFECT", "RANDOM", "CONST_ARG",     "USER_EXCLUDED",
      "SMALL_BLOCK", "DEPENDENCY",   "INTERFACE",   "LIMIT",
  };
  return codes[static_cast<size_t>(reason)];
}

}  // namespace tscompile
