// JSON of a user's file, read so that no nesting is too deep for whoever walks it.
#pragma once

#include <nlohmann/json.hpp>

#include <string_view>

namespace tscompile {

// Values that are nested too deeply are left out: what is wrong with them is said by who misses them. Discarded if the
// text is no JSON.
inline nlohmann::ordered_json parseBoundedJson(std::string_view text) {
  using Json = nlohmann::ordered_json;
  constexpr int kDeepest = 16;
  return Json::parse(
      text, [](int depth, Json::parse_event_t, Json&) { return depth <= kDeepest; }, false);
}

}  // namespace tscompile
