#include "ir/analysis/instance_of.h"

#include <algorithm>
#include <vector>

namespace tscompile {

std::optional<bool> isInstanceOf(TypePtr own, std::span<const TypePtr> wanted) {
  // A union is always one of the wanted types if each of its members is, never if none may be.
  std::vector<TypePtr> members(1, own);
  if (own->is(TypeKind::Union)) members.assign(own->elements().begin(), own->elements().end());
  if (own->is(TypeKind::Optional)) members = {own->element(), types().none};
  auto fits = [&](auto&& does) { return std::any_of(wanted.begin(), wanted.end(), does); };
  bool always = true, never = true;
  for (TypePtr m : members) {
    const bool is = fits([&](TypePtr t) { return isSubtype(m, t); });
    always &= is;
    never &= !is && !fits([&](TypePtr t) { return isSubtype(t, m); });
  }
  if (always || never) return always;
  return std::nullopt;
}

}  // namespace tscompile
