// JSON data of tests.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace tscompile::test {

struct Json {
  enum class Kind { Null, Bool, Number, String, Array, Object } kind = Kind::Null;
  bool boolean = false;
  double number = 0;
  std::string text;
  std::vector<Json> items;
  std::map<std::string, Json> fields;

  bool isNull() const { return kind == Kind::Null; }
  bool has(const std::string& key) const { return fields.count(key) != 0; }
  // The field, or null.
  const Json& operator[](const std::string& key) const;
  const Json& operator[](size_t i) const { return items[i]; }
  size_t size() const { return items.size(); }
};

// The values of a file, or of a text; null if it is malformed.
Json readJson(const std::string& path);
Json parseJson(const std::string& text);

}  // namespace tscompile::test
