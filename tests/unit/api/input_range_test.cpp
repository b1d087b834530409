// Sizes of inputs as they are given: numbers, ranges and expressions of symbols.
#include "api/exported_sizes.h"
#include "api/named_inputs.h"
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

TEST(InputRange, WhatIsWrongWithATextIsTold) {
  auto told = [](const char* text) {
    Diagnostics d;
    EXPECT_FALSE(readInputRange(text, d).ok()) << text;
    return renderDiagnostics(d, "test");
  };
  const std::pair<const char*, const char*> cases[] = {
      {"image=8..1x3", "8 is more than 1"},    {"image=1,3,32,32", "an x is between two sizes, not a comma"},
      {"image=1x3:f31", "'f31' is no dtype"},  {"image=1x?x3", "a size that is not fixed needs its least and its most"},
      {"=1x3", "nothing stands before the ="}, {"", "'' is no size of an input"},
  };
  for (const auto& [text, why] : cases) EXPECT_NE(told(text).find(why), std::string::npos) << told(text);
  Diagnostics d;
  Result<InputRange> unnamed = readInputRange("1x3x32x32", d);
  ASSERT_TRUE(unnamed.ok()) << renderDiagnostics(d, "test");
  EXPECT_EQ(unnamed->name, "");
  EXPECT_EQ(unnamed->most, Dims({1, 3, 32, 32}));
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

IValue zeros(Dims sizes) { return IValue(Tensor::zeros(DType::Float32, sizes)); }

TEST(InputRange, TensorsInContainersHaveSizes) {
  TypePtr tensor = types().tensor;
  std::vector<ValueInfo> inputs{{"xs.1", listType(tensor)}, {"d", dictType(types().string, tensor)}};
  std::vector<InputRange> all = ranges({"xs.0=1..2x3", "xs.1=4", "d.layer.k=5", "1.b=2"}), usual;
  ASSERT_FALSE(nameInputRanges(all, usual, inputs));
  EXPECT_EQ(all[0].name, "xs.1.0");
  EXPECT_EQ(all[1].name, "xs.1.1");
  EXPECT_EQ(all[3].name, "d.b");
  auto check = [&](std::vector<IValue> xs, const char* key) {
    auto d = Ref<DictValue>::make(types().string, tensor);
    d->set(IValue(std::string(key)), zeros({5}));
    d->set(IValue(std::string("b")), zeros({2}));
    std::vector<IValue> values{IValue(Ref<ListValue>::make(tensor, std::move(xs))), IValue(d)};
    Diagnostics diagnostics;
    bool good = checkInputRanges(all, inputs, values, diagnostics);
    return good ? std::string() : diagnostics.list().at(0).message;
  };
  EXPECT_EQ(check({zeros({2, 3}), zeros({4})}, "layer.k"), "");
  EXPECT_EQ(check({zeros({3, 3}), zeros({4})}, "layer.k"), "dimension 0 of input %xs.1.0 is 3, outside of 1..2");
  EXPECT_EQ(check({zeros({2, 3})}, "layer.k"), "input %xs.1 has 1 item, and this was compiled for 2");
  EXPECT_EQ(check({zeros({2, 3}), zeros({4}), zeros({4})}, "layer.k"),
            "input %xs.1 has 3 items, and this was compiled for 2");
  EXPECT_EQ(check({zeros({2, 3}), zeros({4})}, "k"), "input %d has no 'layer.k'");
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

// ---- what a program of torch.export asks of its inputs once some of them are constants ----

ExportedInputs program() {
  ExportedInputs out;
  out.tensors.push_back({"x", {}, {{2, 8, "s0"}, {4, 4, ""}}});
  out.tensors.push_back({"y", {}, {{2, 8, "s0"}}});
  for (const char* text : {"L['n'] <= L['x'].size()[0]", "L['n'] != 1"})
    out.conditions.push_back(*InputCondition::parse(text));
  return out;
}

TEST(BoundExports, ConditionsAndSymbolsTakeTheValues) {
  Diagnostics diagnostics;
  const auto number = withBoundInputs(program(), {{"bind:n", IValue(3)}, {"x", IValue(9)}}, diagnostics);
  ASSERT_TRUE(number);
  ASSERT_EQ(number->conditions.size(), 1u);
  EXPECT_EQ(number->conditions[0].words(), "3 <= %x.size(0)");
  EXPECT_EQ(number->tensors.size(), 2u);

  const auto tensor =
      withBoundInputs(program(), {{"bind:x", IValue(Tensor::zeros(DType::Float32, Dims{5, 4}))}}, diagnostics);
  ASSERT_TRUE(tensor);
  ASSERT_EQ(tensor->tensors.size(), 1u);
  EXPECT_EQ(exportedInputText(tensor->tensors[0]), "y=s0[5]");
  EXPECT_EQ(tensor->conditions[0].words(), "%n <= 5");
}

TEST(BoundExports, OtherValuesAreRefused) {
  Diagnostics diagnostics;
  EXPECT_FALSE(withBoundInputs(program(), {{"bind:n", IValue(1)}}, diagnostics));
  EXPECT_EQ(diagnostics.list().at(0).message, "%n is 1, but the program was exported for inputs where %n != 1");
  diagnostics.clear();
  EXPECT_FALSE(
      withBoundInputs(program(), {{"bind:x", IValue(Tensor::zeros(DType::Float32, Dims{9, 4}))}}, diagnostics));
  EXPECT_EQ(diagnostics.list().at(0).message, "dimension 0 of input %x is 9, but the program was exported for 2..8");
}

}  // namespace
}  // namespace tscompile
