// Products over a dimension that lies outermost, and what is read through copies.
#include "tests/support/engine_case.h"

namespace tscompile::test {
namespace {

void expectLayers(std::string_view body, std::string_view layers, const Tensor& x) {
  SCOPED_TRACE(body);
  const std::string lists = R"(  %three : int = prim::Constant[value=3]()
  %behind : int[] = prim::Constant[value=[0, 2, 3, 1]]()
  %back : int[] = prim::Constant[value=[0, 3, 1, 2]]()
  %w : Float(6, 4) = prim::Constant[value={0}]()
  %b : Float(6) = prim::Constant[value={0}]()
  %r : Tensor = aten::permute(%x, %behind)
)";
  EngineCase c(graphWithConstants("%x : Tensor", lists + std::string(body), "%y"));
  EXPECT_EQ(c.layers({x}, true), layers);
  c.expectClose({x}, 1e-5);
  const Tensor one = c.run({x}, 1)[0].toTensor(), three = c.run({x}, 3)[0].toTensor();
  EXPECT_EQ(std::memcmp(one.raw(), three.raw(), static_cast<size_t>(one.numel()) * sizeof(float)), 0);
}

constexpr std::string_view kMixed = "  %m : Tensor = aten::linear(%r, %w, %b)\n";

}  // namespace

// As attention that mixes its heads does.
TEST(MixLayer, HeadsAreMixedWhereTheyAre) {
  const std::string mixed(kMixed);
  const Tensor x = randn({2, 4, 20, 24}, 1);
  expectLayers(mixed + "  %p : Tensor = aten::permute(%m, %back)\n  %y : Tensor = aten::softmax(%p, %last, %none)\n",
               "mix 4x6, softmax", x);
  expectLayers(mixed +
                   "  %p : Tensor = aten::permute(%m, %back)\n  %q : Tensor = aten::transpose(%p, %two, %three)\n"
                   "  %y : Tensor = aten::matmul(%p, %q)\n",
               "mix 4x6, batched_matmul", x);
  expectLayers("  %m : Tensor = aten::linear(%r, %w, %none)\n  %y : Tensor = aten::relu(%m)\n",
               "mix 4x6, copy, pointwise", x);
}

// Results lie in row-major order, whoever sees them.
TEST(MixLayer, ResultsAreRows) {
  const std::string mixed(kMixed);
  const Tensor x = randn({2, 4, 20, 24}, 1);
  expectLayers("  %y : Tensor = aten::linear(%r, %w, %b)\n", "mix 4x6, copy", x);
  expectLayers("  %s : int[] = prim::Constant[value=[2, 480, 6]]()\n" + mixed +
                   "  %v : Tensor = aten::view(%m, %s)\n  %y : Tensor = aten::softmax(%v, %last, %none)\n",
               "mix 4x6, copy, softmax", x);
}

TEST(MixLayer, SmallPlanesBecomeRows) {
  expectLayers("  %y : Tensor = aten::linear(%r, %w, %b)\n", "copy, matmul", randn({2, 4, 5, 7}, 1));
}

// A part of a tensor, and one whose images overlap.
TEST(MixLayer, PlanesMayLieApart) {
  const std::string part =
      "  %n : Tensor = aten::narrow(%x, %one, %one, %four)\n"
      "  %k : Tensor = aten::permute(%n, %behind)\n";
  const std::string four = "  %four : int = prim::Constant[value=4]()\n";
  expectLayers(four + part + "  %y : Tensor = aten::linear(%k, %w, %b)\n", "mix 4x6, copy", randn({3, 9, 16, 16}, 1));
  expectLayers(
      four + "  %n : Tensor = aten::unfold(%x, %zero, %four, %one)\n  %y : Tensor = aten::linear(%n, %w, %b)\n",
      "mix 4x6, copy", randn({6, 4, 16, 16}, 1));
}

// Copies of copies read what the first was made of, where that costs no more.
TEST(ReadThroughCopies, OfPermutations) {
  const Tensor x = randn({2, 5, 6, 8}, 1);
  expectLayers(
      "  %c : Tensor = aten::contiguous(%r, %zero)\n  %p : Tensor = aten::permute(%c, %back)\n"
      "  %y : Tensor = aten::softmax(%p, %last, %none)\n",
      "copy, softmax", x);
  expectLayers(
      "  %c : Tensor = aten::contiguous(%r, %zero)\n  %p : Tensor = aten::narrow(%c, %last, %one, %two)\n"
      "  %y : Tensor = aten::softmax(%p, %one, %none)\n",
      "copy, copy, softmax", x);
}

}  // namespace tscompile::test
