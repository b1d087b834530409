// Convolutions whose weights, or biases, are computed.
#include "runtime/kernels/simd.h"
#include "tests/support/engine_case.h"

#include <fmt/core.h>

namespace tscompile::test {
namespace {

struct InputConvCase {
  const char* op;
  Dims input, weights;
  int64_t groups;
  const char *stride, *padding, *dilation;
};

// `behind` makes %r of %y.
std::string inputConvGraph(const InputConvCase& c, bool computedBias, std::string_view behind) {
  return fmt::format(R"(graph(%x : Tensor, %w : Tensor, %computed : Tensor):
  %one : int = prim::Constant[value=1]()
  %g : int = prim::Constant[value={}]()
  %s : int[] = prim::Constant[value=[{}]]()
  %p : int[] = prim::Constant[value=[{}]]()
  %d : int[] = prim::Constant[value=[{}]]()
  %stored : Float({}) = prim::Constant[value={{0}}]()
  %y : Tensor = aten::{}(%x, %w, %{}, %s, %p, %d, %g)
{}
  return (%r)
)",
                     c.groups, c.stride, c.padding, c.dilation, c.weights[0], c.op,
                     computedBias ? "computed" : "stored", behind);
}

std::string expectInputConv(const std::string& graph, const InputConvCase& c, EngineOptions options = {},
                            double tolerance = 1e-4) {
  SCOPED_TRACE(graph);
  EngineCase made(graph, options);
  const std::vector<IValue> inputs{randn(c.input, 1), randn(c.weights, 2), randn({c.weights[0]}, 3)};
  made.expectClose(inputs, tolerance);
  // Results do not depend on the number of threads.
  const Tensor one = made.run(inputs, 1)[0].toTensor(), two = made.run(inputs, 2)[0].toTensor();
  for (int64_t i = 0; i < one.numel(); ++i) EXPECT_EQ(one.real(i), two.real(i));
  const std::string layers = made.layers(inputs);
  EXPECT_EQ(layers.find("kernel"), std::string::npos) << made.layers(inputs, true);
  EXPECT_NE(layers.find("input conv"), std::string::npos) << layers;
  return layers;
}

constexpr const char* kBehindRelu = "  %r : Tensor = aten::relu(%y)";

const std::vector<InputConvCase>& inputConvCases() {
  static const std::vector<InputConvCase> kInputConvCases{
      {"conv2d", {1, 64, 20, 19}, {96, 32, 3, 3}, 2, "1, 1", "1, 1", "1, 1"},
      {"conv2d", {1, 128, 9, 9}, {64, 32, 3, 3}, 4, "2, 2", "1, 1", "1, 1"},
      {"conv2d", {2, 64, 9, 9}, {64, 32, 3, 3}, 2, "1, 1", "1, 1", "2, 1"},
      {"conv2d", {1, 24, 10, 11}, {20, 12, 3, 3}, 2, "1, 1", "1, 1", "1, 1"},
      {"conv2d", {3, 32, 16, 16}, {48, 32, 3, 3}, 1, "1, 1", "1, 1", "1, 1"},
      {"conv2d", {2, 3, 16, 16}, {32, 3, 5, 5}, 1, "2, 2", "2, 2", "1, 1"},
      {"conv2d", {2, 40, 8, 8}, {24, 40, 1, 1}, 1, "1, 1", "0, 0", "1, 1"},
      {"conv2d", {1, 48, 15, 15}, {48, 1, 4, 4}, 48, "1, 1", "0, 0", "1, 1"},
      {"conv1d", {2, 32, 50}, {16, 16, 3}, 2, "1", "1", "1"},
      {"conv3d", {1, 16, 5, 6, 7}, {16, 16, 3, 3, 3}, 1, "1, 1, 1", "1, 1, 1", "1, 1, 1"},
      {"conv2d", {32, 12, 12}, {32, 32, 3, 3}, 1, "1, 1", "1, 1", "1, 1"},
  };
  return kInputConvCases;
}

}  // namespace

TEST(InputConvLayer, WeightsAreComputed) {
  for (const InputConvCase& c : inputConvCases())
    for (bool computedBias : {false, true}) expectInputConv(inputConvGraph(c, computedBias, kBehindRelu), c);
}

TEST(InputConvLayer, OnOtherProcessors) {
  for (SimdLevel level : {SimdLevel::Avx2, SimdLevel::Base}) {
    limitSimdLevel(level);
    for (const InputConvCase& c : inputConvCases()) expectInputConv(inputConvGraph(c, false, kBehindRelu), c);
  }
  limitSimdLevel(SimdLevel::Amx);
}

TEST(InputConvLayer, WeightsStayFloatsInOtherPrecisions) {
  for (DType precision : {DType::BFloat16, DType::Int8})
    expectInputConv(inputConvGraph(inputConvCases()[4], false, kBehindRelu), inputConvCases()[4],
                    {.precision = precision});
}

// What is added is done before results leave the registers; scales are not, for weights are not there before.
TEST(InputConvLayer, WhatFollowsIsTakenIn) {
  const InputConvCase c = inputConvCases()[4];
  const std::string sum = expectInputConv(inputConvGraph(c, false, R"(  %z : Tensor = aten::relu(%x)
  %other : Tensor = aten::conv2d(%z, %w, %stored, %s, %p, %d, %g)
  %a : Tensor = aten::add(%y, %other, %one)
  %r : Tensor = aten::relu(%a))"),
                                          c);
  EXPECT_NE(sum.find("+add+relu"), std::string::npos) << sum;
  expectInputConv(inputConvGraph(c, false, R"(  %scale : Float(48, 1, 1) = prim::Constant[value={0}]()
  %m : Tensor = aten::mul(%y, %scale)
  %r : Tensor = aten::add(%m, %scale, %one))"),
                  c);
}

// As modulated convolutions do it: samples are groups of one image, and images of their own between convolutions.
TEST(InputConvLayer, GroupsStayBlocksBetweenConvolutions) {
  const InputConvCase c{"conv2d", {1, 64, 12, 12}, {64, 32, 3, 3}, 2, "1, 1", "1, 1", "1, 1"};
  const std::string layers = expectInputConv(inputConvGraph(c, false, R"(  %slope : float = prim::Constant[value=0.2]()
  %samples : int[] = prim::Constant[value=[2, 32, 12, 12]]()
  %all : int[] = prim::Constant[value=[1, 64, 12, 12]]()
  %bias : Float(1, 32, 1, 1) = prim::Constant[value={0}]()
  %v : Tensor = aten::reshape(%y, %samples)
  %a : Tensor = aten::add(%v, %bias, %one)
  %l : Tensor = aten::leaky_relu(%a, %slope)
  %u : Tensor = aten::reshape(%l, %all)
  %small : Tensor = aten::mul(%w, %slope)
  %r : Tensor = aten::conv2d(%u, %small, %stored, %s, %p, %d, %g))"),
                                             c);
  size_t reorders = 0;
  for (size_t at = layers.find("reorder"); at != std::string::npos; at = layers.find("reorder", at + 1)) ++reorders;
  EXPECT_EQ(reorders, 2u) << layers;
}

}  // namespace tscompile::test
