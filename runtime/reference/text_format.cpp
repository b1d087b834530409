#include "runtime/reference/text_format.h"

#include "ir/support/text.h"
#include "ir/values/literal.h"
#include "runtime/call/run_context.h"
#include "runtime/reference/loops/scalars.h"

#include <charconv>
#include <cmath>

namespace tscompile {

void checkTextSize(size_t bytes) {
  constexpr size_t kMaxText = size_t{1} << 30;
  if (bytes > kMaxText) throw ExecutionError(ErrorKind::Limit, "a string has at most 2^30 bytes");
  MemoryBudget* budget = BudgetScope::current();
  // Outside of runs graphs are analysed: nobody needs long strings there.
  constexpr size_t kMaxOutside = size_t{1} << 20;
  if (!budget && bytes > kMaxOutside)
    throw ExecutionError(ErrorKind::Limit, "a long string is made when the graph runs");
  if (!budget) return;
  chargeBudget(budget, bytes);
  budget->refund(bytes);
}

void appendText(const IValue& value, std::string& out) {
  size_t checked = out.size();
  appendValue(value, LiteralStyle::Stream, out, [&checked](const std::string& text) {
    RunContext::current().checkInterrupt();
    constexpr size_t kStep = 64 << 10;
    if (text.size() - checked < kStep) return;
    checked = text.size();
    checkTextSize(checked);
  });
  checkTextSize(out.size());
}

std::string textOf(const IValue& value) {
  std::string out;
  appendText(value, out);
  return out;
}

std::string shortText(const IValue& value, size_t bytes, LiteralStyle style) {
  struct Enough {};
  std::string out;
  try {
    appendValue(value, style, out, [bytes](const std::string& text) {
      if (text.size() > bytes) throw Enough();
    });
  } catch (const Enough&) {
  }
  return abbreviate(out, bytes);
}

std::string formatBraces(const std::string& format, const IValue* const* arguments, size_t count) {
  std::string out;
  size_t used = 0, from = 0;
  for (size_t at; (at = format.find("{}", from)) != std::string::npos; from = at + 2) {
    out.append(format, from, at - from);
    if (used == count) failRun("Too few arguments for format string: " + abbreviate(format, 80));
    appendText(*arguments[used++], out);
  }
  out.append(format, from);
  checkTextSize(out.size());
  return out;
}

namespace {

double numberArgument(char key, const IValue& v) {
  if (!v.isInt() && !v.isFloat())
    failRun(std::string("%") + key + " requires a number for formatting, but got " +
            typeText(withoutRefinement(dynamicType(v))));
  return v.toDouble();
}

// Floats pass through 32 bits on their way: PyTorch's rule.
int32_t intArgument(char key, const IValue& v) {
  double d = numberArgument(key, v);
  return d > -2147483649.0 && d < 2147483648.0 ? static_cast<int32_t>(d) : INT32_MIN;
}

void appendFixed(double argument, bool scientific, bool upper, std::string& out) {
  auto v = static_cast<float>(argument);
  std::string text;
  if (std::isfinite(v)) {
    char buffer[64];
    auto style = scientific ? std::chars_format::scientific : std::chars_format::fixed;
    auto [end, error] = std::to_chars(buffer, buffer + sizeof buffer, static_cast<double>(v), style, 6);
    text.assign(buffer, end);
  } else {
    text = std::isnan(v) ? (std::signbit(v) ? "-nan" : "nan") : v > 0 ? "inf" : "-inf";
  }
  if (upper)
    for (char& c : text)
      if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  out += text;
}

void appendFormatted(char key, const IValue& v, std::string& out) {
  switch (key) {
    case 'd':
    case 'i':
      out += std::to_string(v.isInt() ? v.toInt() : intArgument(key, v));
      return;
    case 'e':
    case 'E':
      appendFixed(numberArgument(key, v), true, key == 'E', out);
      return;
    case 'f':
    case 'F':
      appendFixed(numberArgument(key, v), false, false, out);
      return;
    case 'c':
      if (v.isInt())
        out += static_cast<char>(v.toInt());
      else if (v.isString() && v.toString().size() == 1)
        out += v.toString();
      else
        failRun("%c requires an int or char for formatting, but got " + typeText(withoutRefinement(dynamicType(v))));
      return;
    case 's':
      appendText(v, out);
      return;
    default:
      failRun(std::string("The specifier %") + key + " is not supported in TorchScript format strings");
  }
}

}  // namespace

std::string formatPercent(const std::string& format, const IValue& arguments) {
  const IValue* items = arguments.isTuple() ? arguments.toTuple().items.data() : &arguments;
  size_t count = arguments.isTuple() ? arguments.toTuple().items.size() : 1, used = 0, from = 0;
  std::string out;
  for (size_t at; (at = format.find('%', from)) != std::string::npos; from = at + 2) {
    if (at + 1 == format.size()) failRun("the format string ends in an incomplete specifier");
    out.append(format, from, at - from);
    if (format[at + 1] == '%') {
      out += '%';
      continue;
    }
    if (used == count) failRun("Too few arguments for format string");
    appendFormatted(format[at + 1], items[used++], out);
  }
  if (used != count) failRun("Too many arguments for format string");
  out.append(format, from);
  checkTextSize(out.size());
  return out;
}

}  // namespace tscompile
