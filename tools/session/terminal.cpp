#include "tools/session/terminal.h"

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <string_view>
#include <sys/ioctl.h>
#include <unistd.h>
#include <utility>

namespace tscompile {
namespace {

int descriptorOf(const std::ostream& stream) {
  return &stream == &std::cerr ? STDERR_FILENO : &stream == &std::cout ? STDOUT_FILENO : -1;
}

constexpr std::pair<std::string_view, std::string_view> kSigns[] = {
    {"…", "..."}, {"→", "->"}, {"≥", ">="}, {"≤", "<="}, {"–", "-"}, {"—", "-"}, {"×", "x"}, {"·", "*"}, {"µ", "u"}};

}  // namespace

bool isTerminal(const std::ostream& stream) {
  const int descriptor = descriptorOf(stream);
  return descriptor >= 0 && isatty(descriptor);
}

size_t terminalWidth(const std::ostream& stream) {
  winsize size{};
  return isTerminal(stream) && ioctl(descriptorOf(stream), TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

namespace {
size_t columnsOfHelp = 0;
}
size_t helpColumns() { return columnsOfHelp; }
void setHelpColumns(size_t columns) { columnsOfHelp = columns; }

bool isUtf8Locale() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(name);
    if (!value || !*value) continue;
    std::string lower(value);
    std::transform(lower.begin(), lower.end(), lower.begin(),
                   [](unsigned char c) { return static_cast<char>(c | 0x20); });
    return lower.find("utf-8") != std::string::npos || lower.find("utf8") != std::string::npos;
  }
  return false;
}

PlainLetters::~PlainLetters() { flushHeld(); }

int PlainLetters::overflow(int c) {
  if (c == traits_type::eof()) return 0;
  held_ += static_cast<char>(c);
  for (const auto& [sign, plain] : kSigns) {
    if (!sign.starts_with(held_)) continue;
    if (sign.size() > held_.size()) return c;
    held_ = plain;
    break;
  }
  flushHeld();
  return c;
}

int PlainLetters::sync() { return to_->pubsync(); }

void PlainLetters::flushHeld() {
  to_->sputn(held_.data(), static_cast<std::streamsize>(held_.size()));
  held_.clear();
}

PlainLettersScope::PlainLettersScope() : plainOut_(std::cout.rdbuf()), plainErr_(std::cerr.rdbuf()) {
  if (isUtf8Locale()) return;
  err_ = std::cerr.rdbuf(&plainErr_);
  if (isTerminal(std::cout)) out_ = std::cout.rdbuf(&plainOut_);
}

PlainLettersScope::~PlainLettersScope() {
  if (err_) std::cerr.rdbuf(err_);
  if (out_) std::cout.rdbuf(out_);
}

}  // namespace tscompile
