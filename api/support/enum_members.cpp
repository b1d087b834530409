#include "api/support/enum_members.h"

#include "frontend/files/attribute_tensors.h"
#include "ir/support/text.h"

#include <fmt/core.h>

namespace tscompile {
namespace {

bool isOnlyNamed(const IValue& v) { return v.isEnum() && v.toEnum().value.isNone(); }

bool findMember(IValue& value, const Metadata& known, Diagnostics& diagnostics) {
  const TypePtr type = value.toEnum().type;
  const std::string& name = value.toEnum().member;
  IValue member(Ref<EnumValue>::make(type, name, IValue()));
  readEnumMembers(member, known);
  if (isOnlyNamed(member)) {
    Diagnostic& error =
        diagnostics.error(fmt::format("{} has no member {}", type->name(), abbreviate(name, 80)), ErrorKind::Input);
    const std::string start = memberKey(type, "");
    NearestName nearest(name);
    for (auto at = known.lower_bound(start); at != known.end() && at->first.starts_with(start); ++at)
      nearest.consider(at->first.substr(start.size()));
    if (nearest.found()) error.note("did you mean " + nearest.name() + "?");
    return false;
  }
  value = std::move(member);
  return true;
}

}  // namespace

bool lacksMembers(const IValue& value) {
  bool lacks = false;
  forEachPart(value, [&](const IValue& part) { lacks = lacks || isOnlyNamed(part); });
  return lacks;
}

bool findMembers(IValue& value, const Metadata& known, Diagnostics& diagnostics) {
  if (known.empty() || !lacksMembers(value)) return true;
  value = copyContainers(value, false);
  std::vector<IValue*> todo{&value};
  while (!todo.empty()) {
    IValue& v = *todo.back();
    todo.pop_back();
    if (isOnlyNamed(v) && !findMember(v, known, diagnostics)) return false;
    if (v.isList() || v.isTuple())
      for (IValue& item : v.isList() ? v.toList().items : v.toTuple().items) todo.push_back(&item);
    if (v.isDict()) v.toDict().forEachValue([&](IValue& item) { todo.push_back(&item); });
  }
  return true;
}

}  // namespace tscompile
