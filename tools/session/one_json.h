// Standard output with --format json: one object, whatever a command writes.
#pragma once

#include <ostream>
#include <streambuf>
#include <string>
#include <string_view>

namespace tscompile {

// Hands on what begins as an object. Text becomes a field of one ("tscompile.text/1"), and of a command that writes
// nothing it is told that it is done ("tscompile.done/1").
class OneJson : public std::streambuf {
 public:
  explicit OneJson(std::ostream& out) : out_(out) {}
  // After all that the command wrote; nothing is added to failures.
  void end(std::string_view command, int code);

 protected:
  int_type overflow(int_type c) override;
  std::streamsize xsputn(const char* text, std::streamsize count) override;

 private:
  std::ostream& out_;
  bool isObject_ = false;
  std::string text_;
};

}  // namespace tscompile
