// Writes JSON to a stream piece by piece, so that the size of a listing costs no memory.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace tscompile {

class JsonWriter {
 public:
  explicit JsonWriter(std::ostream& out) : out_(out) {}
  ~JsonWriter() { flush(); }
  JsonWriter(const JsonWriter&) = delete;

  void beginObject() { begin('{'); }
  void endObject() { end('}'); }
  void beginArray() { begin('['); }
  void endArray() { end(']'); }
  void key(std::string_view name);
  // The next element starts a new line.
  void newLine() { newLine_ = true; }

  void value(std::string_view v);
  void value(const char* v) { value(std::string_view(v)); }
  void value(const std::string& v) { value(std::string_view(v)); }
  // Non-finite numbers are written as the strings "inf", "-inf" and "nan".
  void value(double v);
  void value(bool v) { raw(v ? "true" : "false"); }
  template <class T>
  requires std::is_integral_v<T>
  void value(T v) { raw(std::to_string(v)); }
  void null() { raw("null"); }
  // A value that is JSON already.
  void verbatim(std::string_view json) { raw(json); }

  template <class T>
  void field(std::string_view name, const T& v) {
    key(name);
    value(v);
  }
  // Ends the text with a line end.
  void finish();

 private:
  void begin(char bracket);
  void end(char bracket);
  void raw(std::string_view text);
  void separate();
  void flush();

  std::ostream& out_;
  std::string text_;
  std::vector<bool> isFirst_;  // of each open container: nothing was written into it
  bool afterKey_ = false, newLine_ = false;
};

// The shortest decimal that reads back as the same double: "1.5", "1e-05", "inf".
std::string shortestNumber(double v);

}  // namespace tscompile
