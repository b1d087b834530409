#include "tests/support/json.h"

#include "tests/support/text_file.h"

#include <nlohmann/json.hpp>

namespace tscompile::test {
namespace {

Json convert(const nlohmann::json& from) {
  Json to;
  if (from.is_boolean()) {
    to.kind = Json::Kind::Bool;
    to.boolean = from.get<bool>();
  } else if (from.is_number()) {
    to.kind = Json::Kind::Number;
    to.number = from.get<double>();
  } else if (from.is_string()) {
    to.kind = Json::Kind::String;
    to.text = from.get<std::string>();
  } else if (from.is_array()) {
    to.kind = Json::Kind::Array;
    for (const auto& item : from) to.items.push_back(convert(item));
  } else if (from.is_object()) {
    to.kind = Json::Kind::Object;
    for (const auto& [key, value] : from.items()) to.fields.emplace(key, convert(value));
  }
  return to;
}

}  // namespace

const Json& Json::operator[](const std::string& key) const {
  static const Json null;
  auto it = fields.find(key);
  return it == fields.end() ? null : it->second;
}

Json parseJson(const std::string& text) {
  nlohmann::json parsed = nlohmann::json::parse(text, nullptr, false);
  return parsed.is_discarded() ? Json() : convert(parsed);
}

Json readJson(const std::string& path) { return parseJson(readText(path)); }

}  // namespace tscompile::test
