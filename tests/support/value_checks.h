// Values as tests write and compare them.
#pragma once

#include "api/value_text.h"
#include "tests/support/files.h"

#include <cmath>

namespace tscompile::test {

inline IValue parsedValue(const std::string& text) {
  Diagnostics d;
  Result<IValue> v = parseValueText(text, "value", d);
  EXPECT_TRUE(v.ok()) << shown(d);
  return v ? *v : IValue();
}

// Leaves of containers, in order; None is left out.
inline void flatten(const IValue& v, std::vector<IValue>& out) {
  if (v.isTuple() || v.isList()) {
    for (const IValue& item : v.isTuple() ? v.toTuple().items : v.toList().items) flatten(item, out);
  } else if (v.isDict()) {
    v.toDict().forEach([&](const IValue&, const IValue& item) { flatten(item, out); });
  } else if (!v.isNone()) {
    out.push_back(v);
  }
}

// To 1e-5 of each element and besides.
inline void expectNear(const IValue& got, const IValue& want) {
  if (!want.isTensor()) {
    EXPECT_EQ(valueToText(got), valueToText(want));
    return;
  }
  Tensor a = got.toTensor(), b = want.toTensor();
  ASSERT_EQ(a.dtype(), b.dtype());
  ASSERT_EQ(Dims(a.sizes()), Dims(b.sizes()));
  for (int64_t i = 0; i < a.numel(); ++i) {
    if (a.real(i) == b.real(i)) continue;  // also infinities
    EXPECT_LE(std::abs(a.real(i) - b.real(i)), 1e-5 + 1e-5 * std::abs(b.real(i))) << i;
  }
}

}  // namespace tscompile::test
