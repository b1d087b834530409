#include "ir/operators/unknown_operators.h"

#include "ir/support/remedy.h"

#include <algorithm>
#include <array>
#include <string>

namespace tscompile {

bool mayBeSupplied(std::string_view kind) {
  constexpr std::array<std::string_view, 4> kOwn = {"aten", "prim", "prims", "onnx"};
  const size_t colons = kind.find("::");
  return colons != std::string_view::npos && colons > 0 &&
         std::find(kOwn.begin(), kOwn.end(), kind.substr(0, colons)) == kOwn.end();
}

void adviseUnknown(Diagnostic& report, const OpRegistry& registry, std::string_view kind) {
  if (std::string nearest = registry.nearestKind(kind); !nearest.empty() && nearest != kind)
    report.note("did you mean " + nearest + "?");
  if (mayBeSupplied(kind)) report.note(textOf(Remedy::Kind::LoadOperators));
}

}  // namespace tscompile
