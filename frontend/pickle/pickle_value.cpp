#include "frontend/pickle/pickle_value.h"

namespace tscompile {

PickleRef PickleValue::find(std::string_view key) const {
  if (kind_ == Kind::Object && object().state) {
    const PickleValue& state = *object().state;
    return state.is(Kind::Dict) ? state.find(key) : nullptr;
  }
  if (kind_ != Kind::Dict) return nullptr;
  for (const Entry& e : entries())
    if (e.key->isString(key)) return e.value;
  return nullptr;
}

std::string_view describe(PickleValue::Kind kind) {
  constexpr std::string_view kTexts[] = {"None",      "a bool",   "an integer", "a large integer", "a float",
                                         "a complex", "a string", "bytes",      "a device",        "a name",
                                         "a storage", "a tensor", "a list",     "a tuple",         "a set",
                                         "a dict",    "an object"};
  return kTexts[static_cast<size_t>(kind)];
}

}  // namespace tscompile
