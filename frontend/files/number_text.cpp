#include "frontend/files/number_text.h"

#include "ir/support/check.h"

#include <fmt/core.h>

#include <charconv>
#include <cmath>

namespace tscompile {
namespace {

bool isHexDigit(char c) { return isDigit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

void skipDigits(TextCursor& c, bool hex = false) {
  while (hex ? isHexDigit(c.peek()) : isDigit(c.peek())) c.skip(1);
}

// A number without an imaginary part.
struct Real {
  double value = 0;
  bool isInteger = false;
  std::string_view text;
};

class NumberReader {
 public:
  NumberReader(TextCursor& cursor, const Limits& limits) : c_(cursor), limits_(limits) {}

  bool read(NumberText& out);

 private:
  bool readReal(Real& out, bool plus);
  bool readHexadecimal(Real& out, size_t begin);
  bool readDecimal(Real& out, size_t begin);
  bool convert(Real& out, size_t begin, std::string_view digits, std::chars_format format);
  bool isWordBehind() const {
    return isLetter(c_.peek()) || isDigit(c_.peek()) || c_.peek() == '_' || c_.peek() == '.';
  }

  TextCursor& c_;
  const Limits& limits_;
};

bool NumberReader::convert(Real& out, size_t begin, std::string_view digits, std::chars_format format) {
  if (digits.size() > limits_.numberBytes)
    return c_.failLimit(begin, fmt::format("the number has more than {} bytes", limits_.numberBytes), "number");
  auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), out.value, format);
  if (error == std::errc::result_out_of_range) return c_.fail(begin, "the number is out of the range of 64-bit floats");
  TS_CHECK(error == std::errc() && end == digits.data() + digits.size());
  return true;
}

// `0x1.8p+1`: the exponent tells it from a shape such as 0x3.
bool NumberReader::readHexadecimal(Real& out, size_t begin) {
  c_.skip(2);
  size_t digits = c_.at();
  skipDigits(c_, true);
  size_t count = c_.at() - digits;
  if (c_.take('.')) {
    skipDigits(c_, true);
    count = c_.at() - digits - 1;
  }
  bool exponent = c_.take('p') || c_.take('P');
  if (!c_.take('-')) c_.take('+');
  bool power = isDigit(c_.peek());
  skipDigits(c_);
  if (count == 0 || !exponent || !power) return c_.fail(begin, "a hexadecimal number looks like 0x1.8p+1");
  return convert(out, begin, c_.from(digits), std::chars_format::hex);
}

bool NumberReader::readDecimal(Real& out, size_t begin) {
  size_t digits = c_.at();
  skipDigits(c_);
  size_t count = c_.at() - digits;
  out.isInteger = c_.peek() != '.' && c_.peek() != 'e' && c_.peek() != 'E';
  if (c_.take('.')) {
    skipDigits(c_);
    count = c_.at() - digits - 1;
  }
  if (count == 0) return c_.expected("a digit");
  if (c_.take('e') || c_.take('E')) {
    if (!c_.take('-')) c_.take('+');
    if (!isDigit(c_.peek())) return c_.expected("the digits of an exponent");
    skipDigits(c_);
  }
  out.text = c_.from(begin);
  return convert(out, begin, c_.from(digits), std::chars_format::general);
}

bool NumberReader::readReal(Real& out, bool plus) {
  size_t begin = c_.at();
  bool negative = c_.take('-');
  if (plus && !negative) c_.take('+');
  if (c_.take("inf")) {
    out.value = INFINITY;
  } else if (c_.take("nan")) {
    out.value = NAN;
    return true;  // whose sign means nothing
  } else if (c_.peek() == '0' && (c_.peek(1) == 'x' || c_.peek(1) == 'X')) {
    if (!readHexadecimal(out, begin)) return false;
  } else if (!readDecimal(out, begin)) {
    return false;
  }
  if (negative) out.value = -out.value;
  return true;
}

bool NumberReader::read(NumberText& out) {
  size_t begin = c_.at();
  Real first, second;
  if (!readReal(first, false)) return false;
  out = {};
  out.value = first.value;
  if (c_.take('j')) {
    out.kind = NumberText::Kind::Complex;
    out.value = {0, first.value};
  } else if (c_.peek() == '+' || c_.peek() == '-') {
    size_t sign = c_.at();
    if (!readReal(second, true)) return false;
    if (!c_.take('j')) return c_.fail(sign, "the imaginary part of a complex number ends in 'j'");
    out.kind = NumberText::Kind::Complex;
    out.value = {first.value, second.value};
  } else if (!first.isInteger) {
    out.kind = NumberText::Kind::Float;
  } else {
    const char* end = first.text.data() + first.text.size();
    out.integerFits = std::from_chars(first.text.data(), end, out.integer).ec == std::errc();
  }
  if (!isWordBehind()) return true;
  while (isWordBehind()) c_.skip(1);
  return c_.fail(begin, fmt::format("'{}' is not a number", c_.from(begin).substr(0, 40)));
}

}  // namespace

bool startsNumber(const TextCursor& c) {
  std::string_view rest = c.rest();
  if (rest.substr(0, 1) == "-") rest.remove_prefix(1);
  if (rest.empty()) return false;
  return isDigit(rest[0]) || rest[0] == '.' || rest.substr(0, 3) == "inf" || rest.substr(0, 3) == "nan";
}

bool readNumber(TextCursor& cursor, const Limits& limits, NumberText& out) {
  return NumberReader(cursor, limits).read(out);
}

void appendNumber(double value, std::string& out) {
  if (std::isnan(value)) {
    out += "nan";
    return;
  }
  char buffer[32];
  size_t begin = out.size();
  out.append(buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr);
  if (out.find_first_not_of("-0123456789", begin) == std::string::npos) out += ".0";
}

void appendNumber(std::complex<double> value, std::string& out) {
  appendNumber(value.real(), out);
  size_t sign = out.size();
  appendNumber(value.imag(), out);
  if (out[sign] != '-') out.insert(sign, "+");
  out += 'j';
}

}  // namespace tscompile
