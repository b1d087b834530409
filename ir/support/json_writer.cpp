#include "ir/support/json_writer.h"

#include "ir/support/text.h"

#include <charconv>
#include <cmath>

namespace tscompile {

std::string shortestNumber(double v) {
  if (std::isnan(v)) return "nan";
  if (std::isinf(v)) return v > 0 ? "inf" : "-inf";
  char buffer[40];
  auto [end, failure] = std::to_chars(buffer, buffer + sizeof buffer, v);
  return std::string(buffer, end);
}

void JsonWriter::separate() {
  if (afterKey_) {
    afterKey_ = false;
    return;
  }
  if (!isFirst_.empty()) {
    if (!isFirst_.back()) text_ += newLine_ ? "," : ", ";
    isFirst_.back() = false;
  }
  if (newLine_) text_ += '\n';
  newLine_ = false;
}

void JsonWriter::raw(std::string_view text) {
  separate();
  text_ += text;
  if (text_.size() > (size_t{64} << 10)) flush();
}

void JsonWriter::begin(char bracket) {
  raw(std::string_view(&bracket, 1));
  isFirst_.push_back(true);
}

void JsonWriter::end(char bracket) {
  if (newLine_) text_ += '\n';
  newLine_ = false;
  text_ += bracket;
  isFirst_.pop_back();
}

void JsonWriter::key(std::string_view name) {
  separate();
  text_ += jsonQuote(name);
  text_ += ": ";
  afterKey_ = true;
}

void JsonWriter::value(std::string_view v) { raw(jsonQuote(v)); }

void JsonWriter::value(double v) {
  std::string text = shortestNumber(v);
  // A number of its own kind: 3 is written 3.0.
  if (std::isfinite(v) && text.find_first_of(".e") == std::string::npos) text += ".0";
  raw(std::isfinite(v) ? text : jsonQuote(text));
}

void JsonWriter::finish() {
  text_ += '\n';
  flush();
}

void JsonWriter::flush() {
  out_ << text_;
  text_.clear();
}

}  // namespace tscompile
