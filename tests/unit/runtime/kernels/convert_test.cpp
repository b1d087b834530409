#include "runtime/kernels/elements/convert.h"

#include "ir/values/dtype.h"
#include "runtime/kernels/elements/convert_element.h"
#include "tests/support/engine_reference.h"

#include <array>
#include <cstring>
#include <memory>

namespace tscompile::test {

// Vectors and what is left behind them, against one element after the other.
TEST(EngineConvert, EachElementIsAsAlone) {
  std::vector<double> values = {0.0,   -0.0,  1,    -1,   0.5,    -0.5,     2.5,       127.9,   -128.9, 255.5,
                                256,   -1.5,  3e9,  -3e9, 0x1p31, -0x1p31,  0x1p63,    -0x1p63, 1e300,  -1e300,
                                65504, 65520, 1e-8, 6e-8, NAN,    INFINITY, -INFINITY, 1e-40,   3.3e38, 16777217};
  for (float v : randomFloats(170, 3, -300, 300)) values.push_back(v);
  atEachSimdLevel([&] {
    for (auto from = DType::UInt8; from <= DType::BFloat16; from = static_cast<DType>(static_cast<int>(from) + 1))
      for (auto to = DType::UInt8; to <= DType::BFloat16; to = static_cast<DType>(static_cast<int>(to) + 1))
        visitDType(from, [&]<class From>(From) {
          visitDType(to, [&]<class To>(To) {
            if constexpr (!kIsComplex<From> && !kIsComplex<To>) {
              const size_t count = values.size();
              const auto source = std::make_unique<From[]>(count);
              const auto got = std::make_unique<To[]>(count + 1);
              for (size_t i = 0; i < count; ++i) source[i] = convertElement<From>(values[i]);
              std::memset(static_cast<void*>(got.get()), 1, (count + 1) * sizeof(To));
              elementConversion(from, to)(reinterpret_cast<const std::byte*>(source.get()),
                                          reinterpret_cast<std::byte*>(got.get()), static_cast<int64_t>(count));
              for (size_t i = 0; i < count; ++i) {
                const To want = convertElement<To>(source[i]);
                ASSERT_EQ(std::memcmp(&want, &got[i], sizeof want), 0)
                    << pythonName(from) << " to " << pythonName(to) << " of " << values[i];
              }
              const To last = got[count];
              std::array<std::byte, sizeof(To)> untouched;
              untouched.fill(std::byte{1});
              EXPECT_EQ(std::memcmp(&last, untouched.data(), sizeof last), 0) << "behind the last element";
            }
          });
        });
  });
}

}  // namespace tscompile::test
