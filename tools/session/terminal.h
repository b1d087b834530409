// What the tool knows of the terminal: whether a stream is one, how wide it is, and whether it shows more than ASCII.
#pragma once

#include <cstddef>
#include <ostream>
#include <streambuf>
#include <string>

namespace tscompile {

// Of std::cout and std::cerr; other streams are none.
bool isTerminal(const std::ostream& stream);
// Its columns; 0: it is none, or does not tell.
size_t terminalWidth(const std::ostream& stream);
// Of the terminal that help is for; 0: it is for none. The tool sets it when it starts.
size_t helpColumns();
void setHelpColumns(size_t columns);
// By LC_ALL, LC_CTYPE and LANG, in this order.
bool isUtf8Locale();

// Writes the signs of our own messages that are not ASCII in ASCII: "..." for an ellipsis, "->" for an arrow. What else
// is not ASCII passes: names are bytes.
class PlainLetters : public std::streambuf {
 public:
  explicit PlainLetters(std::streambuf* to) : to_(to) {}
  ~PlainLetters() override;

 protected:
  int overflow(int c) override;
  int sync() override;

 private:
  void flushHeld();

  std::streambuf* to_;
  std::string held_;  // the start of a sign
};

// While it lives, standard error, and standard output if it is a terminal, are written so where the locale asks for it.
class PlainLettersScope {
 public:
  PlainLettersScope();
  ~PlainLettersScope();

 private:
  std::streambuf *out_ = nullptr, *err_ = nullptr;  // as they were
  PlainLetters plainOut_, plainErr_;
};

}  // namespace tscompile
