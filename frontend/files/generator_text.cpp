#include "frontend/files/generator_text.h"

#include "frontend/files/number_text.h"
#include "ir/support/number_of_text.h"
#include "ir/support/text.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace tscompile {
namespace {

using Rule = TensorGenerator::Rule;

struct RuleName {
  std::string_view name;
  Rule rule;
};
constexpr RuleName kRules[] = {{"randn", Rule::Randn}, {"uniform", Rule::Uniform}, {"randint", Rule::Randint},
                               {"zeros", Rule::Zeros}, {"ones", Rule::Ones},       {"arange", Rule::Arange}};

struct Argument {
  std::string_view name;  // empty: by position
  size_t begin = 0, valueBegin = 0, end = 0;
  NumberText number;
  bool isReal() const { return number.kind != NumberText::Kind::Complex && std::isfinite(number.value.real()); }
  bool isInteger() const { return number.kind == NumberText::Kind::Integer && number.integerFits; }
};

class GeneratorReader {
 public:
  GeneratorReader(TextCursor& cursor, const Limits& limits, TensorGenerator& out)
      : c_(cursor), limits_(limits), g_(out) {}

  bool read();

 private:
  bool readRule();
  bool readArguments();
  bool readArgument();
  bool setSeed(const Argument& a);
  bool setNamed(const Argument& a);
  bool setRange(const std::vector<Argument>& range);
  bool fail(const Argument& a, std::string message) {
    c_.moveTo(a.end);
    return c_.fail(a.begin, std::move(message));
  }

  TextCursor& c_;
  const Limits& limits_;
  TensorGenerator& g_;
  size_t begin_ = 0;
  std::vector<Argument> arguments_;
};

bool GeneratorReader::readRule() {
  begin_ = c_.at();
  std::string_view name = c_.takeWord();
  if (name.empty()) return c_.expected("a generator");
  auto found = std::find_if(std::begin(kRules), std::end(kRules), [&](const RuleName& r) { return r.name == name; });
  if (found == std::end(kRules)) {
    c_.error(begin_, fmt::format("unknown generator '{}'", abbreviate(name, 40)))
        .note("there are randn, uniform (PyTorch's rand), randint, zeros, ones and arange");
    return false;
  }
  g_.rule = found->rule;
  return true;
}

bool GeneratorReader::readArgument() {
  Argument a;
  a.begin = c_.at();
  if (!startsNumber(c_)) {
    a.name = c_.takeWord();
    c_.skipBlanks();
    if (a.name.empty() || !c_.take('=')) return c_.fail(a.begin, "expected a number, or a name and its number");
    c_.skipBlanks();
    if (!startsNumber(c_)) return c_.expected("a number");
  }
  a.valueBegin = c_.at();
  if (!readNumber(c_, limits_, a.number)) return false;
  a.end = c_.at();
  for (const Argument& other : arguments_)
    if (!a.name.empty() && other.name == a.name) return fail(a, fmt::format("'{}' is given twice", a.name));
  arguments_.push_back(a);
  return true;
}

bool GeneratorReader::readArguments() {
  if (!c_.take('(')) return true;
  c_.skipBlanks();
  while (!c_.take(')')) {
    if (!readArgument()) return false;
    c_.skipBlanks();
    if (c_.take(','))
      c_.skipBlanks();
    else if (c_.peek() != ')')
      return c_.expected("',' or ')'");
  }
  return true;
}

bool GeneratorReader::setSeed(const Argument& a) {
  const auto seed = numberOfText<decltype(g_.seed)>(c_.source()->text().substr(a.valueBegin, a.end - a.valueBegin));
  if (!seed) return fail(a, "a seed is an integer from 0 to 2^64 - 1");
  g_.seed = *seed;
  return true;
}

bool GeneratorReader::setNamed(const Argument& a) {
  bool random = g_.rule == Rule::Randn || g_.rule == Rule::Uniform || g_.rule == Rule::Randint;
  if (random && a.name == "seed") return setSeed(a);
  if (g_.rule != Rule::Randn || (a.name != "mean" && a.name != "std"))
    return fail(a, fmt::format("this generator has no argument '{}'", abbreviate(a.name, 40)));
  if (!a.isReal()) return fail(a, fmt::format("'{}' is a finite number", a.name));
  double v = a.number.value.real();
  if (a.name == "std" && v < 0) return fail(a, "'std' is not negative");
  (a.name == "mean" ? g_.mean : g_.deviation) = v;
  return true;
}

// The arguments without names.
bool GeneratorReader::setRange(const std::vector<Argument>& r) {
  if (g_.rule == Rule::Randint) {
    if (r.size() != 2 || !r[0].isInteger() || !r[1].isInteger())
      return c_.fail(begin_, "randint takes two integers: randint(lo,hi) makes numbers from lo to hi - 1");
    g_.first = r[0].number.integer;
    g_.end = r[1].number.integer;
    return g_.first < g_.end || c_.fail(begin_, "randint(lo,hi) needs lo < hi");
  }
  if (r.empty()) return true;
  if (g_.rule != Rule::Uniform) return fail(r[0], "this generator takes no arguments without a name");
  if (r.size() != 2 || !r[0].isReal() || !r[1].isReal())
    return c_.fail(begin_, "uniform takes two finite numbers or none: uniform(lo,hi)");
  g_.low = r[0].number.value.real();
  g_.high = r[1].number.value.real();
  return (g_.low <= g_.high && std::isfinite(g_.high - g_.low)) || c_.fail(begin_, "uniform(lo,hi) needs lo <= hi");
}

bool GeneratorReader::read() {
  if (!readRule() || !readArguments()) return false;
  size_t end = c_.at();
  std::vector<Argument> range;
  for (const Argument& a : arguments_) {
    if (a.name.empty())
      range.push_back(a);
    else if (!setNamed(a))
      return false;
  }
  c_.moveTo(end);
  return setRange(range);
}

}  // namespace

bool readGenerator(TextCursor& cursor, const Limits& limits, TensorGenerator& out) {
  return GeneratorReader(cursor, limits, out).read();
}

}  // namespace tscompile
