// Number literals of the value grammar: integers, floats, hexadecimal floats, nan and inf, complex numbers.
#pragma once

#include "frontend/files/text_cursor.h"
#include "ir/support/limits.h"

#include <complex>
#include <string>

namespace tscompile {

struct NumberText {
  enum class Kind : uint8_t { Integer, Float, Complex };
  Kind kind = Kind::Integer;
  int64_t integer = 0;  // of an Integer that fits
  bool integerFits = true;
  std::complex<double> value;  // of every kind
};

// Whether a number may begin here.
bool startsNumber(const TextCursor& cursor);
// Reads `-12`, `2.5`, `1e-5`, `0x1.8p+1`, `inf`, `1+2j`. False after a report.
bool readNumber(TextCursor& cursor, const Limits& limits, NumberText& out);

// The shortest decimal text that readNumber takes for this double, with a point or exponent.
void appendNumber(double value, std::string& out);
void appendNumber(std::complex<double> value, std::string& out);

}  // namespace tscompile
