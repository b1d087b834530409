// What is reduced, and what is broadcast, next to convolutions stays in blocks of channels.
#include "tests/support/engine_case.h"

#include <fmt/core.h>

namespace tscompile::test {
namespace {

// A convolution of one pixel of 16 channels gives %y of `channels`, in one or two dimensions; the body makes %o of it.
std::string graphOf(int64_t channels, int dimensions, std::string_view body) {
  const std::string_view ones = dimensions == 2 ? "1, 1" : "1", zeros = dimensions == 2 ? "0, 0" : "0";
  return fmt::format(R"(graph(%x : Tensor):
  %none : NoneType = prim::Constant()
  %keep : bool = prim::Constant[value=1]()
  %drop : bool = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %two : int = prim::Constant[value=2]()
  %b : Float({0}) = prim::Constant[value={{0.25}}]()
  %w0 : Float({0}, 16, {1}) = prim::Constant[value={{0}}]()
  %half : float = prim::Constant[value=0.5]()
  %w : Tensor = aten::sub(%w0, %half, %one)
  %s : int[] = prim::Constant[value=[{1}]]()
  %z : int[] = prim::Constant[value=[{2}]]()
  %y : Tensor = aten::conv{3}d(%x, %w, %b, %s, %z, %s, %one)
{4}  return (%o)
)",
                     channels, ones, zeros, dimensions, body);
}

void expectLayers(std::string_view body, const Dims& sizes, const std::string& layers, bool holdsNan = false) {
  for (int64_t channels : {32, 24}) {
    EngineCase c(graphOf(channels, static_cast<int>(sizes.size()) - 2, body));
    Tensor x = randn(sizes, 1);
    if (holdsNan) x.data<float>()[5] = NAN;
    EXPECT_EQ(c.layers({x}), layers) << channels << body;
    c.expectClose({x}, 1e-4);
  }
}

}  // namespace

TEST(BlockedReductions, RowsAndColumnsOfImages) {
  for (std::string_view d : {"2", "3"})
    expectLayers(fmt::format(R"(  %d : int[] = prim::Constant[value=[{}]]()
  %m : Tensor = aten::mean(%y, %d, %keep, %none)
  %o : Tensor = aten::sub(%y, %m, %one)
)",
                             d),
                 {2, 16, 9, 14}, "reorder, conv direct, mean, pointwise, reorder");
  expectLayers(R"(  %d : int[] = prim::Constant[value=[2]]()
  %m : Tensor = aten::amin(%y, %d, %drop)
  %three : int = prim::Constant[value=3]()
  %n : Tensor = aten::unsqueeze(%m, %two)
  %o : Tensor = aten::mul(%y, %n)
)",
               {2, 16, 5, 30}, "reorder, conv direct, min, pointwise, reorder");
}

TEST(BlockedReductions, WholeImages) {
  const std::string_view largest = R"(  %d : int[] = prim::Constant[value=[-1, -2]]()
  %o : Tensor = aten::amax(%y, %d, %drop)
)";
  for (bool holdsNan : {false, true}) expectLayers(largest, {3, 16, 9, 14}, "reorder, conv direct, max", holdsNan);
  expectLayers(R"(  %o : Tensor, %i : Tensor = aten::max(%y, %two, %drop)
)",
               {2, 16, 33}, "reorder, conv direct, max", true);
  expectLayers(R"(  %d : int[] = prim::Constant[value=[2]]()
  %o : Tensor = aten::mean(%y, %d, %drop, %none)
)",
               {2, 16, 1000}, "reorder, conv direct, mean");
}

TEST(BlockedReductions, ChannelsOfPixels) {
  expectLayers(R"(  %d : int[] = prim::Constant[value=[1]]()
  %m : Tensor = aten::mean(%y, %d, %keep, %none)
  %c : Tensor = aten::sub(%y, %m, %one)
  %q : Tensor = aten::mul(%c, %c)
  %v : Tensor = aten::mean(%q, %d, %keep, %none)
  %o : Tensor = aten::mul(%c, %v)
)",
               {2, 16, 9, 14}, "reorder, conv direct, mean, pointwise, pointwise, mean, pointwise, reorder");
  expectLayers(R"(  %m : Tensor, %i : Tensor = aten::max(%y, %one, %keep)
  %o : Tensor = aten::mul(%y, %m)
)",
               {1, 16, 21}, "reorder, conv direct, max, pointwise, reorder", true);
}

// A number for each pixel that the images share, and one for each image.
TEST(BlockedReductions, OperandsOfPixels) {
  expectLayers(R"(  %p : Float(9, 14) = prim::Constant[value={0.5}]()
  %r : Float(1, 14) = prim::Constant[value={-2}]()
  %a : Tensor = aten::mul(%y, %p)
  %o : Tensor = aten::add(%a, %r, %one)
)",
               {2, 16, 9, 14}, "reorder, conv direct, pointwise of 2, reorder");
}

}  // namespace tscompile::test
