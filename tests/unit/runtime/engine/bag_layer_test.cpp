// embedding_bag in engines.
#include "tests/support/engine_case.h"

#include <fmt/core.h>

namespace tscompile::test {
namespace {

Tensor bagIntegers(DType dtype, const std::vector<int64_t>& values) {
  Tensor t = Tensor::empty(dtype, Dims{static_cast<int64_t>(values.size())});
  for (size_t i = 0; i < values.size(); ++i)
    if (dtype == DType::Int64)
      t.data<int64_t>()[i] = values[i];
    else
      t.data<int32_t>()[i] = static_cast<int32_t>(values[i]);
  return t;
}

std::string bagGraph(int mode, bool weighted, bool includeLast, const char* padding, const char* result = "y") {
  return fmt::format(R"(graph(%n : Tensor, %o : Tensor, %f : Tensor):
  %table : Float(9, 20) = prim::Constant[value={{0}}]()
  %none : NoneType = prim::Constant()
  %no : bool = prim::Constant[value=0]()
  %last : bool = prim::Constant[value={}]()
  %mode : int = prim::Constant[value={}]()
  %padding : {} = prim::Constant{}()
  %y : Tensor, %a : Tensor, %b : Tensor, %c : Tensor = aten::embedding_bag(%table, %n, %o, %no, %mode, %no, %{}, %last, %padding)
  return (%{})
)",
                     includeLast ? 1 : 0, mode, padding ? "int" : "NoneType",
                     padding ? fmt::format("[value={}]", padding) : "", weighted ? "f" : "none", result);
}

const std::vector<int64_t> kBagRows{3, 0, 8, 8, 2, 5, 7, 1, 4, 6, 8};

}  // namespace

TEST(BagLayer, JoinsAsTheInterpreterDoes) {
  for (DType dtype : {DType::Int64, DType::Int32})
    for (int mode : {0, 1, 2})
      for (bool weighted : {false, true})
        for (bool includeLast : {false, true})
          for (const char* padding : {static_cast<const char*>(nullptr), "8", "-1"}) {
            if (weighted && mode != 0) continue;
            const std::string graph = bagGraph(mode, weighted, includeLast, padding);
            SCOPED_TRACE(graph);
            EngineCase c(graph);
            const std::vector<IValue> inputs{bagIntegers(dtype, kBagRows), bagIntegers(dtype, {0, 2, 2, 6, 9}),
                                             randn({11}, 1)};
            EXPECT_EQ(c.layers(inputs), "bags");
            c.expectClose(inputs, 0);
          }
}

TEST(BagLayer, SizesOfBagsAreAKernels) {
  EngineCase c(bagGraph(1, false, false, nullptr, "b"));
  EXPECT_EQ(c.layers({bagIntegers(DType::Int64, kBagRows), bagIntegers(DType::Int64, {0, 4}), randn({11}, 1)}, true),
            "kernel aten::embedding_bag.padding_idx: more than the bags is read");
}

TEST(BagLayer, WhatIsOutOfRangeIsTold) {
  EngineCase c(bagGraph(0, false, false, nullptr));
  const RunOptions options;
  RunContext context(options);
  RunScope scope(context);
  for (const auto& [numbers, offsets] : {std::pair(std::vector<int64_t>{1, 9}, std::vector<int64_t>{0}),
                                         {{1, -1}, {0}},
                                         {{1, 2}, {0, 3}},
                                         {{1, 2}, {1}}})
    EXPECT_FALSE(
        c.tryRun({bagIntegers(DType::Int64, numbers), bagIntegers(DType::Int64, offsets), randn({2}, 1)}, context));
}

}  // namespace tscompile::test
