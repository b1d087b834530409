// Operators that engines compute as others: complex numbers by their parts, patches, spectrograms, triangles.
// That no kernel is called, and that they compute what the interpreter does; tests/ops has their values.
#include "tests/support/engine_case.h"

#include <fmt/core.h>

namespace tscompile::test {
namespace {

void expectComposed(std::string_view body, const std::vector<IValue>& in, double tolerance = 1e-5) {
  SCOPED_TRACE(body);
  EngineCase c(graphWithConstants("%x : Tensor, %y : Tensor", body, "%z"));
  const std::string layers = c.layers(in, true);
  EXPECT_EQ(layers.find("kernel"), std::string::npos) << layers;
  c.expectClose(in, tolerance);
}

// `body` makes a complex tensor %c of %a and %b, which are complex.
std::string onComplex(std::string_view body) {
  return fmt::format(
      "  %a : Tensor = aten::view_as_complex(%x)\n  %b : Tensor = aten::view_as_complex(%y)\n{}"
      "  %z : Tensor = aten::view_as_real(%c)\n",
      body);
}

}  // namespace

TEST(ComposedOperators, ComplexNumbersByTheirParts) {
  Tensor x = randn({3, 5, 2}, 1), y = randn({3, 5, 2}, 2);
  expectComposed(onComplex("  %c : Tensor = aten::add(%a, %b, %one)\n"), {x, y});
  expectComposed(onComplex("  %c : Tensor = aten::mul(%a, %two)\n"), {x, y});
  expectComposed(onComplex("  %c : Tensor = aten::neg(%a)\n"), {x, y});
  expectComposed(onComplex("  %c : Tensor = aten::conj_physical(%a)\n"), {x, y});
  expectComposed(onComplex("  %r : Tensor = aten::real(%b)\n  %c : Tensor = aten::sub(%r, %a, %one)\n"), {x, y});
  expectComposed(onComplex("  %c : Tensor = aten::exp(%a)\n"), {x, y});
  expectComposed(
      onComplex("  %d : int[] = prim::Constant[value=[1]]()\n  %c : Tensor = aten::sum(%a, %d, %f, %none)\n"), {x, y});
}

TEST(ComposedOperators, ComplexNumbersOfPartsAndBack) {
  Tensor x = randn({3, 5, 2}, 1), r = randn({4, 6}, 3), angle = randn({4, 6}, 4);
  x.data<float>()[0] = x.data<float>()[1] = 0;
  x.data<float>()[4] = 3e38f;
  x.data<float>()[7] = 1e-38f;
  const std::string of = "  %a : Tensor = aten::view_as_complex(%x)\n";
  expectComposed(of + "  %z : Tensor = aten::abs(%a)\n", {x, x});
  expectComposed(of + "  %z : Tensor = aten::angle(%a)\n", {x, x});
  for (const char* name : {"complex", "polar"})
    expectComposed(fmt::format("  %c : Tensor = aten::{}(%x, %y)\n  %z : Tensor = aten::view_as_real(%c)\n", name),
                   {r, angle});
}

TEST(ComposedOperators, ReductionsOfDimensionsApart) {
  Tensor x = randn({4, 3, 5}, 1);
  expectComposed("  %d : int[] = prim::Constant[value=[0, 2]]()\n  %z : Tensor = aten::sum(%x, %d, %t, %none)\n",
                 {x, x});
  expectComposed("  %d : int[] = prim::Constant[value=[0, 2]]()\n  %z : Tensor = aten::amax(%x, %d, %f)\n", {x, x});
}

TEST(ComposedOperators, ProductsAndDifferences) {
  Tensor x = randn({4, 3, 5}, 1), y = randn({2, 7}, 2);
  for (const char* call : {"prod(%x, %none)", "prod(%x, %last, %f, %none)", "prod(%x, %one, %t, %none)", "kron(%x, %y)",
                           "kron(%y, %x)", "diff(%x, %one, %last, %none, %none)", "diff(%x, %one, %one, %none, %none)"})
    expectComposed(fmt::format("  %z : Tensor = aten::{}\n", call), {x, y});
}

// What is only reduced is made in tiles.
TEST(ComposedOperators, ReductionsOfLoops) {
  for (const Tensor& x : {randn({4, 3, 5}, 1), randn({3, 2500}, 2), randn({700, 2}, 3)}) {
    expectComposed("  %a : Tensor = aten::mul(%x, %y)\n  %z : Tensor = aten::sum(%a, %none)\n", {x, x});
    expectComposed(
        "  %d : int[] = prim::Constant[value=[-1]]()\n  %a : Tensor = aten::sub(%x, %y, %two)\n"
        "  %z : Tensor = aten::amax(%a, %d, %t)\n",
        {x, x});
    // Read twice, and by a view.
    expectComposed(
        "  %d : int[] = prim::Constant[value=[-1]]()\n  %a : Tensor = aten::exp(%x)\n"
        "  %b : Tensor = aten::mean(%a, %d, %t, %none)\n  %z : Tensor = aten::div(%a, %b)\n",
        {x, x});
    expectComposed(
        "  %s : int[] = prim::Constant[value=[-1]]()\n  %a : Tensor = aten::sin(%x)\n"
        "  %b : Tensor = aten::reshape(%a, %s)\n  %z : Tensor = aten::sum(%b, %s, %f, %none)\n",
        {x, x});
  }
}

TEST(ComposedOperators, Patches) {
  Tensor x = randn({2, 3, 7, 6}, 1), columns = randn({2, 24, 12}, 2);
  auto lists = [](const char* kernel, const char* dilation, const char* padding, const char* stride) {
    return fmt::format(
        "  %k : int[] = prim::Constant[value={}]()\n  %d : int[] = prim::Constant[value={}]()\n"
        "  %p : int[] = prim::Constant[value={}]()\n  %s : int[] = prim::Constant[value={}]()\n",
        kernel, dilation, padding, stride);
  };
  const char* unfold = "  %z : Tensor = aten::im2col(%x, %k, %d, %p, %s)\n";
  expectComposed(lists("[3, 2]", "[1, 1]", "[0, 0]", "[1, 1]") + unfold, {x, x});
  expectComposed(lists("[3, 2]", "[2, 1]", "[1, 2]", "[2, 3]") + unfold, {x, x});
  const char* fold =
      "  %o : int[] = prim::Constant[value=[9, 10]]()\n  %z : Tensor = aten::col2im(%x, %o, %k, %d, %p, %s)\n";
  expectComposed(lists("[4, 2]", "[1, 1]", "[1, 0]", "[3, 3]") + fold, {randn({2, 24, 9}, 3), x});
  const char* tiles =
      "  %o : int[] = prim::Constant[value=[8, 6]]()\n  %z : Tensor = aten::col2im(%x, %o, %k, %d, %p, %s)\n";
  expectComposed(lists("[4, 2]", "[1, 1]", "[0, 0]", "[4, 2]") + tiles, {randn({2, 24, 6}, 3), x});
}

TEST(ComposedOperators, SpectrogramsAndBack) {
  Tensor x = randn({2, 100}, 1);
  const std::string numbers =
      "  %n : int = prim::Constant[value=16]()\n  %h : int = prim::Constant[value=6]()\n"
      "  %w : Float(16) = prim::Constant[value={0}]()\n";
  const std::string forth = numbers + "  %c : Tensor = aten::stft(%x, %n, %h, %n, %w, %f, %t, %t, %none)\n";
  expectComposed(forth + "  %z : Tensor = aten::view_as_real(%c)\n", {x, x});
  expectComposed(forth + "  %z : Tensor = aten::istft(%c, %n, %h, %n, %w, %t, %f, %t, %none, %f)\n", {x, x});
}

TEST(ComposedOperators, ProductsOfVectorsAndTensors) {
  Tensor x = randn({4, 3, 5}, 1), y = randn({5, 3, 2}, 2);
  expectComposed(
      "  %d : int[] = prim::Constant[value=[2, 1]]()\n  %e : int[] = prim::Constant[value=[0, 1]]()\n"
      "  %z : Tensor = aten::tensordot(%x, %y, %d, %e)\n",
      {x, y});
  expectComposed(
      "  %w : Float(6, 5, 2) = prim::Constant[value={0}]()\n  %z : Tensor = aten::bilinear(%x, %y, %w, %none)\n",
      {x, randn({4, 3, 2}, 3)});
  expectComposed("  %z : Tensor = aten::inner(%x, %y)\n", {x, randn({2, 5}, 3)});
  expectComposed("  %z : Tensor = aten::linalg_cross(%x, %y, %one)\n", {x, randn({1, 3, 5}, 3)});
  expectComposed(
      "  %e : str = prim::Constant[value=\"ab,bc,cd->ad\"]()\n  %l : Tensor[] = prim::ListConstruct(%x, %y, %x)\n"
      "  %p : int[] = prim::Constant[value=[1, 2, 0, 1]]()\n  %z : Tensor = aten::einsum(%e, %l, %p)\n",
      {randn({4, 4}, 1), randn({4, 4}, 2)});
}

TEST(ComposedOperators, MovesAndTriangles) {
  Tensor x = randn({4, 6, 5}, 1);
  expectComposed("  %z : Tensor = aten::tril(%x, %one)\n", {x, x});
  expectComposed("  %z : Tensor = aten::triu(%x, %last)\n", {x, x});
  expectComposed("  %m : Tensor = aten::gt(%x, %y)\n  %z : Tensor = aten::tril(%m, %one)\n", {x, randn({4, 6, 5}, 2)});
  expectComposed(
      "  %i : int = prim::Constant[value=4]()\n  %m : Tensor = aten::to(%x, %i, %f, %f, %none)\n"
      "  %z : Tensor = aten::triu(%m, %one)\n",
      {x, x});
  expectComposed(
      "  %w : Float(1, 5) = prim::Constant[value={2}]()\n  %v : Tensor = aten::expand_as(%w, %x)\n"
      "  %z : Tensor = aten::mul(%x, %v)\n",
      {x, x});
  expectComposed("  %z : Tensor = aten::channel_shuffle(%x, %two)\n", {x, x});
  expectComposed("  %z : Tensor = aten::repeat_interleave(%x, %two, %one, %none)\n", {x, x});
  for (const char* turns : {"%one", "%two", "%last"})
    expectComposed(
        fmt::format("  %d : int[] = prim::Constant[value=[0, 2]]()\n  %z : Tensor = aten::rot90(%x, {}, %d)\n", turns),
        {x, x});
}

TEST(ComposedOperators, Grids) {
  expectComposed(
      "  %s : int[] = prim::Constant[value=[2, 3, 4, 5]]()\n"
      "  %z : Tensor = aten::affine_grid_generator(%x, %s, %f)\n",
      {randn({2, 2, 3}, 1), randn({1}, 1)});
}

TEST(ComposedOperators, Steps) {
  Tensor x = randn({7, 9}, 1), y = randn({7, 9}, 2);
  const std::string half = "  %h : float = prim::Constant[value=0.75]()\n";
  for (const char* call :
       {"aten::hypot(%x, %y)", "aten::logaddexp(%x, %y)", "aten::lerp(%x, %y, %h)", "aten::lerp(%y, %y, %x)",
        "aten::celu(%x, %h)", "aten::threshold(%x, %h, %two)", "aten::hardshrink(%x, %h)", "aten::softshrink(%x, %h)"})
    expectComposed(half + fmt::format("  %z : Tensor = {}\n", call), {x, y});
}

}  // namespace tscompile::test
