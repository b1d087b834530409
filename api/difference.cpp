// How far two values are apart.
#include "api/verify.h"
#include "ir/support/text.h"

#include <fmt/core.h>

#include <cmath>
#include <limits>
#include <set>

namespace tscompile {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
// Bounds that are told must pass when they are given back: what rounding takes from them is added.
constexpr double kRounding = 4 * std::numeric_limits<double>::epsilon();

Difference ofNumbers(std::complex<double> got, std::complex<double> want, const Tolerance& t) {
  auto isNan = [](std::complex<double> c) { return std::isnan(c.real()) || std::isnan(c.imag()); };
  Difference d;
  d.notNumbers = isNan(got) && isNan(want);
  if (got == want || d.notNumbers) return d;
  double distance = std::abs(got - want), size = std::abs(want);
  if (!std::isfinite(distance)) return {kInfinite, kInfinite, kInfinite, false};
  d.noise = distance * distance;
  d.largest = distance;
  d.within = distance <= t.absolute + t.relative * size;
  const double slack = distance * kRounding;
  double rest = distance - t.absolute, other = distance - t.relative * size;
  d.relative = rest <= 0 ? 0 : size == 0 ? kInfinite : (rest + slack) / size;
  d.absolute = other <= 0 ? 0 : other + slack;
  d.relativeAlone = size == 0 ? kInfinite : (distance + slack) / size;
  return d;
}

Difference ofTensors(const Tensor& got, const Tensor& want, const Tolerance& t) {
  if (!got.impl() || !want.impl()) return got.impl() == want.impl() ? Difference() : wrongBy("one is undefined");
  if (got.dtype() != want.dtype())
    return wrongBy(fmt::format("it is {}, not {}", pythonName(got.dtype()), pythonName(want.dtype())));
  if (!std::equal(got.sizes().begin(), got.sizes().end(), want.sizes().begin(), want.sizes().end()))
    return wrongBy(fmt::format("its sizes are {}, not {}", dimsText(got.sizes()), dimsText(want.sizes())));
  Difference all;
  bool exact = isIntegral(want.dtype(), true);
  for (int64_t i = 0; i < want.numel(); ++i) {
    // Integers of 64 bits are more than a double holds.
    if (exact && got.integer(i) == want.integer(i)) continue;
    const std::complex<double> wanted = want.complex(i);
    all.add(ofNumbers(got.complex(i), wanted, t));
    if (const double size = std::norm(wanted); !exact && std::isfinite(size)) all.signal += size, ++all.numbers;
  }
  if (exact) all.noise = 0;
  return all;
}

// Pairs of values still to be compared; a pair of containers is looked into once, so that containers may be shared and
// hold themselves.
class Comparison {
 public:
  explicit Comparison(const Tolerance& tolerance) : tolerance_(tolerance) {}

  Difference run(const IValue& got, const IValue& want) {
    todo_.emplace_back(got, want);
    while (!todo_.empty()) {
      auto [g, w] = std::move(todo_.back());
      todo_.pop_back();
      all_.add(compare(g, w));
    }
    return all_;
  }

 private:
  Difference compare(const IValue& got, const IValue& want) {
    if (got.tag() != want.tag())
      return wrongBy(fmt::format("it is {}, not {}", typeText(dynamicType(got)), typeText(dynamicType(want))));
    if (got.isTensor()) return ofTensors(got.toTensor(), want.toTensor(), tolerance_);
    if (got.isComplex()) return ofNumbers(got.toComplex(), want.toComplex(), tolerance_);
    if (got.isFloat()) return ofNumbers(got.toFloat(), want.toFloat(), tolerance_);
    if (got.isList()) return ofItems(&got.toList(), &want.toList());
    if (got.isTuple()) return ofItems(&got.toTuple(), &want.toTuple());
    if (got.isDict()) return ofDicts(got.toDict(), want.toDict());
    if (got.isString()) return got.toString() == want.toString() ? Difference() : wrongBy("differs");
    return got.isReference() || got.isSame(want) ? Difference() : wrongBy("differs");
  }

  template <class C>
  Difference ofItems(const C* got, const C* want) {
    if (!seen_.emplace(got, want).second) return {};
    if (got->items.size() != want->items.size())
      return wrongBy(fmt::format("it has {}, not {}", counted(got->items.size(), "item"), want->items.size()));
    for (size_t i = want->items.size(); i-- > 0;) todo_.emplace_back(got->items[i], want->items[i]);
    return {};
  }

  Difference ofDicts(DictValue& got, DictValue& want) {
    if (!seen_.emplace(&got, &want).second) return {};
    if (got.size() != want.size())
      return wrongBy(fmt::format("it has {}, not {}", counted(got.size(), "key"), want.size()));
    Difference missing;
    // Tensors as keys are told apart by what they are, not by their elements: those of two runs go by their order.
    std::vector<std::pair<IValue, IValue>> byOrder;
    got.forEach([&](const IValue& key, const IValue& value) { byOrder.emplace_back(key, value); });
    size_t at = 0;
    want.forEach([&](const IValue& key, const IValue& value) {
      const auto& [otherKey, otherValue] = byOrder[at++];
      if (key.isTensor()) {
        todo_.emplace_back(otherKey, key);
        todo_.emplace_back(otherValue, value);
      } else if (const IValue* other = got.find(key)) {
        todo_.emplace_back(*other, value);
      } else {
        missing = wrongBy("its keys differ");
      }
    });
    return missing;
  }

  const Tolerance& tolerance_;
  Difference all_;
  std::vector<std::pair<IValue, IValue>> todo_;
  std::set<std::pair<const void*, const void*>> seen_;
};

}  // namespace

Difference wrongBy(std::string what) { return {kInfinite, kInfinite, kInfinite, false, std::move(what)}; }

double Difference::signalToNoise() const {
  return noise > 0 && signal > 0 ? 10 * std::log10(signal / noise) : kInfinite;
}

void Difference::add(const Difference& other) {
  signal += other.signal;
  numbers += other.numbers;
  notNumbers += other.notNumbers;
  noise += other.noise;
  largest = std::max(largest, other.largest);
  relative = std::max(relative, other.relative);
  absolute = std::max(absolute, other.absolute);
  relativeAlone = std::max(relativeAlone, other.relativeAlone);
  within &= other.within;
  if (wrong.empty()) wrong = other.wrong;
}

Difference difference(const IValue& got, const IValue& want, const Tolerance& tolerance) {
  return Comparison(tolerance).run(got, want);
}

}  // namespace tscompile
