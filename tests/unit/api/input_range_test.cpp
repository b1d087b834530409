// Sizes of inputs as they are given: numbers, ranges and expressions of symbols.
#include "api/symbolic_ranges.h"
#include "ir/support/diagnostic_printer.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tscompile {
namespace {

std::vector<InputRange> ranges(std::initializer_list<const char*> texts) {
  std::vector<InputRange> out;
  for (const char* text : texts) {
    std::optional<InputRange> r = parseInputRange(text);
    EXPECT_TRUE(r) << text;
    if (r) addInputRange(out, *r);
  }
  return out;
}

TEST(InputRange, TextsAreReadAgain) {
  for (const char* text : {"x=", "x=3", "x=1..8x3x224x224:float32", "x=N[1..8]x3", "x=2*N[1..8]+1x4",
                           "x=max(3,N[1..8])x8x2", "x=floordiv(N[0..64],2):int64"}) {
    std::optional<InputRange> r = parseInputRange(text);
    ASSERT_TRUE(r) << text;
    EXPECT_EQ(inputRangeText(*r), text);
  }
  for (const char* text : {"x", "=3", "x=3..1", "x=-1", "x=Nx", "x=N-N-1", "x=N+", "x=N[3..1]", "x=N[1..2", "x=3:what",
                           "x=f(N)", "x=1.5", "x=N/2"})
    EXPECT_FALSE(parseInputRange(text)) << text;
}

TEST(InputRange, SymbolsGetTheirBounds) {
  for (const auto& all : {ranges({"x=Nx8", "N=1..8", "y=2*Nx3"}), ranges({"N=1..8", "x=Nx8", "y=2*Nx3"}),
                          ranges({"x=Nx8", "y=2*Nx3", "N=1..8"}), ranges({"x=N[1..8]x8", "y=2*Nx3"})}) {
    ASSERT_EQ(all.size(), 2u);
    EXPECT_EQ(inputRangeText(all[0]), "x=N[1..8]x8");
    EXPECT_EQ(inputRangeText(all[1]), "y=2*N[1..8]x3");
  }
  std::vector<InputRange> all = ranges({"x=Nx8", "y=2*Nx3", "N=1..8"});
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(boundsOf(all[1], 0), (SizeRange{2, 16}));
  EXPECT_EQ(withoutExpressions(all[1]).most, Dims({16, 3}));
  // Without a symbol of this name it is an input.
  EXPECT_EQ(ranges({"x=Mx8", "N=1..8"}).size(), 2u);
}

TEST(InputRange, SymbolsAreOneNumber) {
  std::vector<InputRange> all = ranges({"x=Nx8", "y=2*Nx3", "N=1..8"});
  TypePtr tensor = types().tensor;
  std::vector<ValueInfo> inputs{{"x", tensor}, {"y", tensor}};
  auto check = [&](Dims x, Dims y) {
    std::vector<IValue> values{IValue(Tensor::zeros(DType::Float32, x)), IValue(Tensor::zeros(DType::Float32, y))};
    Diagnostics diagnostics;
    bool good = checkInputRanges(all, inputs, values, diagnostics);
    return good ? std::string() : diagnostics.list().at(0).message;
  };
  EXPECT_EQ(check({2, 8}, {4, 3}), "");
  EXPECT_EQ(check({2, 8}, {6, 3}), "dimension 0 of input %y is 6, but 2*N is 4");
  EXPECT_EQ(check({9, 8}, {18, 3}), "dimension 0 of input %x is 9, outside of 1..8");
}

}  // namespace
}  // namespace tscompile
