#include "runtime/reference/loops/scalars.h"

#include "ir/values/carried_types.h"

#include <cmath>

namespace tscompile {

void failRun(std::string message) { throw ExecutionError(ErrorKind::Model, std::move(message)); }

void failArgument(const IValue& value, const char* expected) {
  std::string found = value.tag() == IValue::Tag::Uninitialized ? "an uninitialized value"
                                                                : typeText(withoutRefinement(dynamicType(value)));
  failRun(std::string("expected ") + expected + ", but found " + found);
}

// g++ 12 makes fused instructions of these where it vectorises, -ffp-contract=off or not.
#if defined(__GNUC__) && !defined(__clang__)
#define TS_UNFUSED __attribute__((optimize("no-tree-slp-vectorize")))
#else
#define TS_UNFUSED
#endif

TS_UNFUSED Complex128 multiplyComplex(Complex128 a, Complex128 b) {
  return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
}

TS_UNFUSED Complex128 divideComplex(Complex128 a, Complex128 b) {
  const double c = b.real(), d = b.imag();
  if (std::abs(c) >= std::abs(d)) {
    if (c == 0) return {a.real() / std::abs(c), a.imag() / std::abs(d)};
    const double ratio = d / c, scale = 1.0 / (c + d * ratio);
    return {(a.real() + a.imag() * ratio) * scale, (a.imag() - a.real() * ratio) * scale};
  }
  const double ratio = c / d, scale = 1.0 / (c * ratio + d);
  return {(a.real() * ratio + a.imag()) * scale, (a.imag() * ratio - a.real()) * scale};
}

namespace {
void checkChange(const ContainerValue& container, const char* what) {
  if (container.shared) failRun(std::string("the model changes a ") + what + " that is a constant, which runs share");
}
}  // namespace

ListValue& changedList(const IValue& v) {
  ListValue& list = listOf(v);
  checkChange(list, "list");
  return list;
}

DictValue& changedDict(const IValue& v) {
  DictValue& dict = dictOf(v);
  checkChange(dict, "dict");
  return dict;
}

IValue itemOf(const TensorImpl& t) {
  IValue item;
  bool known = visitStoredDType(t.dtype(), [&](auto sample) {
    using T = decltype(sample);
    T v;
    std::memcpy(static_cast<void*>(&v), t.data(), sizeof v);
    if constexpr (std::is_same_v<T, bool>)
      item = v;
    else if constexpr (std::is_integral_v<T>)
      item = static_cast<int64_t>(v);
    else if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16> || kIsSmallFloat<T>)
      item = static_cast<double>(static_cast<float>(v));
    else if constexpr (std::is_floating_point_v<T>)
      item = static_cast<double>(v);
    else
      item = IValue(Complex128(v));
  });
  if (!known)
    throw ExecutionError(ErrorKind::Unsupported,
                         "tensors of dtype " + std::string(pythonName(t.dtype())) + " are not supported");
  return item;
}

}  // namespace tscompile
