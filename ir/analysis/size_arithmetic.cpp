#include "ir/analysis/size_arithmetic.h"

#include <algorithm>
#include <iterator>

namespace tscompile {
namespace {

SizeExpression sum(SizeExpression a, SizeExpression b) { return a + b; }
SizeExpression difference(SizeExpression a, SizeExpression b) { return a - b; }
SizeExpression product(SizeExpression a, SizeExpression b) { return a * b; }
SizeExpression remainder(SizeExpression a, SizeExpression b) { return a - b * floorDiv(a, b); }

struct Binary {
  std::string_view kind;
  SizeExpression (*compute)(SizeExpression, SizeExpression);
};
constexpr Binary kBinary[] = {
    {"aten::add", sum},           {"aten::sub", difference},      {"aten::mul", product},
    {"aten::floordiv", floorDiv}, {"aten::remainder", remainder}, {"prim::min", least},
    {"prim::max", greatest},
};

std::optional<bool> negated(std::optional<bool> b) { return b ? std::optional(!*b) : b; }

}  // namespace

SizeExpression integerResult(std::string_view kind, std::span<const SizeExpression> a) {
  if (a.size() == 1) return kind == "aten::neg" ? SizeExpression(0) - a[0] : SizeExpression::unknown();
  if (a.size() != 2) return SizeExpression::unknown();
  const Binary* known =
      std::find_if(std::begin(kBinary), std::end(kBinary), [&](const Binary& b) { return b.kind == kind; });
  return known == std::end(kBinary) ? SizeExpression::unknown() : known->compute(a[0], a[1]);
}

std::optional<bool> decided(std::string_view kind, SizeExpression a, SizeExpression b) {
  if (kind == "aten::eq") return equal(a, b);
  if (kind == "aten::ne") return negated(equal(a, b));
  if (kind == "aten::le") return atMost(a, b);
  if (kind == "aten::ge") return atMost(b, a);
  if (kind == "aten::lt") return negated(atMost(b, a));
  if (kind == "aten::gt") return negated(atMost(a, b));
  return std::nullopt;
}

std::optional<bool> decided(std::string_view kind, DimSpan a, DimSpan b) {
  if (kind != "aten::eq" && kind != "aten::ne") return std::nullopt;
  std::optional<bool> same = a.size() == b.size();
  for (size_t i = 0; i < a.size() && i < b.size() && same != false; ++i) {
    std::optional<bool> one = equal(a[i], b[i]);
    if (one != true) same = one;
  }
  return kind == "aten::eq" ? same : negated(same);
}

}  // namespace tscompile
