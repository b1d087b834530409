// JSON of a user's file, read so that no nesting is too deep for whoever walks it.
#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>

namespace tscompile {

// Values that are nested too deeply are left out, and so are keys beyond more than anybody writes: what is wrong with
// them is said by who misses them. Discarded if the text is no JSON.
inline nlohmann::ordered_json parseBoundedJson(std::string_view text) {
  using Json = nlohmann::ordered_json;
  constexpr int kDeepest = 16;
  constexpr int kMostKeys = 4096;
  int keys = 0;
  auto keeps = [&](int depth, Json::parse_event_t event, Json&) {
    return depth <= kDeepest && (event != Json::parse_event_t::key || ++keys <= kMostKeys);
  };
  return Json::parse(text, keeps, false);
}

// The value as JSON, for messages: bytes that are no UTF-8 are replaced.
inline std::string boundedJsonText(const nlohmann::ordered_json& value) {
  return value.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace tscompile
