// Structs as JSON by one list of their fields:
//
//   struct Row {
//     int threads; std::optional<double> ratio;
//     template <class Visit> void fields(Visit&& visit) const { visit("threads", threads); visit("ratio", ratio); }
//   };
//   writeJson(json, Row{2, {}});  // {"threads": 2}
#pragma once

#include "ir/support/json_writer.h"

#include <concepts>
#include <optional>
#include <string_view>
#include <utility>

namespace tscompile {

struct AnyField {
  template <class T>
  void operator()(std::string_view, const T&) const {}
};
template <class T>
concept HasFields = requires(const T& t) {
  t.fields(AnyField());
};
template <class T>
concept JsonScalar = requires(JsonWriter& json, const T& t) {
  json.value(t);
};

// A list with each item on a line of its own.
template <class Range>
struct Lines {
  const Range& items;
  bool closes = false;  // the bracket too
};
template <class Range>
Lines(const Range&, bool = false) -> Lines<Range>;
// A field on a line of its own.
template <class T>
struct Line {
  const T& value;
};
template <class T>
Line(const T&) -> Line<T>;
// A value that is written as null if it is not there; a field that is an optional without a value is left out.
template <class T>
struct OrNull {
  std::optional<T> value;
};
// Pairs of a name and a value as an object.
template <class Range>
struct Members {
  const Range& pairs;
};
template <class Range>
Members(const Range&) -> Members<Range>;

template <class T>
void writeJson(JsonWriter& json, const T& value);

class FieldWriter {
 public:
  explicit FieldWriter(JsonWriter& json) : json_(json) {}
  template <class T>
  void operator()(std::string_view name, const T& value) const {
    json_.key(name);
    writeJson(json_, value);
  }
  template <class T>
  void operator()(std::string_view name, const std::optional<T>& value) const {
    if (value) (*this)(name, *value);
  }
  template <class T>
  void operator()(std::string_view name, const Line<T>& line) const {
    json_.newLine();
    (*this)(name, line.value);
  }

 private:
  JsonWriter& json_;
};

template <class Range>
void writeJson(JsonWriter& json, const Lines<Range>& lines) {
  json.beginArray();
  for (const auto& item : lines.items) {
    json.newLine();
    writeJson(json, item);
  }
  if (lines.closes) json.newLine();
  json.endArray();
}
template <class T>
void writeJson(JsonWriter& json, const OrNull<T>& v) {
  v.value ? writeJson(json, *v.value) : json.null();
}
template <class Range>
void writeJson(JsonWriter& json, const Members<Range>& members) {
  const FieldWriter field(json);
  json.beginObject();
  for (const auto& [name, value] : members.pairs) field(name, value);
  json.endObject();
}

template <class T>
void writeJson(JsonWriter& json, const T& value) {
  if constexpr (HasFields<T>) {
    json.beginObject();
    value.fields(FieldWriter(json));
    json.endObject();
  } else if constexpr (JsonScalar<T>) {
    json.value(value);
  } else {
    json.beginArray();
    for (const auto& item : value) writeJson(json, item);
    json.endArray();
  }
}

// The whole text, with a line end.
template <class T>
void writeJson(std::ostream& out, const T& value) {
  JsonWriter json(out);
  writeJson(json, value);
  json.finish();
}

}  // namespace tscompile
