// Operators that engines compute as others, and layers of signals and grids: which layers they become, and that they
// compute what the interpreter does; tests/ops has their values.
#include "tests/support/engine_case.h"

#include <fmt/core.h>

namespace tscompile::test {
namespace {

void expectLayers(std::string_view body, std::string_view layers, const std::vector<IValue>& in,
                  double tolerance = 1e-5) {
  SCOPED_TRACE(body);
  EngineCase c(graphWithConstants("%x : Tensor, %y : Tensor", body, "%z"));
  EXPECT_EQ(c.layers(in, true), layers);
  c.expectClose(in, tolerance);
}

std::string einsum(std::string_view equation) {
  return fmt::format(
      "  %e : str = prim::Constant[value=\"{}\"]()\n  %l : Tensor[] = prim::ListConstruct(%x, %y)\n"
      "  %z : Tensor = aten::einsum(%e, %l, %none)\n",
      equation);
}

}  // namespace

TEST(ComposedLayers, EinsumIsProducts) {
  Tensor q = randn({2, 3, 5, 8}, 1), k = randn({2, 3, 7, 8}, 2);
  expectLayers(einsum("bhid,bhjd->bhij"), "batched_matmul", {q, k});
  expectLayers(einsum("bhid,bhjd->bjih"), "batched_matmul, copy", {q, k});
  expectLayers(einsum("...id,...jd->...ij"), "batched_matmul", {q, k});
  Tensor x = randn({2, 6, 4, 5}, 3), w = randn({7, 6}, 4);
  expectLayers(einsum("bchw,kc->bkhw"), "copy, batched_matmul, copy", {x, w});
  expectLayers(einsum("bchw,bchw->bc"), "batched_matmul", {x, randn({2, 6, 4, 5}, 5)});
  expectLayers(einsum("i,j->ij"), "pointwise", {randn({5}, 1), randn({6}, 2)});
}

TEST(ComposedLayers, ProductsOfVectorsAndManyBatches) {
  expectLayers("  %z : Tensor = aten::matmul(%x, %y)\n", "batched_matmul", {randn({5, 6}, 1), randn({6}, 2)});
  expectLayers("  %z : Tensor = aten::matmul(%x, %y)\n", "batched_matmul", {randn({6}, 1), randn({3, 6, 2}, 2)});
  expectLayers("  %z : Tensor = aten::matmul(%x, %y)\n", "batched_matmul",
               {randn({2, 3, 2, 4, 5}, 1), randn({2, 3, 2, 5, 3}, 2)});
  expectLayers("  %z : Tensor = aten::linear(%x, %y, %none)\n", "batched_matmul",
               {randn({2, 4, 6}, 1), randn({3, 6}, 2)});
  // One matrix and many vectors, which are rows for its transpose.
  const std::string weight = "  %w : Float(3, 6) = prim::Constant[value={0.25}]()\n";
  expectLayers(weight + "  %z : Tensor = aten::matmul(%w, %x)\n", "matmul", {randn({7, 6, 1}, 1), randn({1}, 2)});
  expectLayers("  %z : Tensor = aten::matmul(%x, %y)\n", "batched_matmul", {randn({3, 6}, 1), randn({2, 7, 6, 1}, 2)});
  // Many matrices and one: rows that lie at one distance, and others.
  const Tensor wide = randn({4, 6, 10}, 3);
  for (const Tensor& x : {randn({4, 7, 6}, 1), wide.withGeometry(Dims{4, 6, 6}, Dims{60, 10, 1}, 2),
                          wide.withGeometry(Dims{4, 10, 6}, Dims{60, 1, 10}, 0)})
    expectLayers("  %z : Tensor = aten::matmul(%x, %y)\n", "batched_matmul", {x, randn({6, 5}, 2)});
}

TEST(ComposedLayers, SmallProducts) {
  for (const int64_t rows : {2, 3, 5, 7, 8, 15, 33})
    for (const int64_t depth : {1, 3, 17})
      for (const int64_t columns : {2, 4, 15, 16})
        expectLayers("  %z : Tensor = aten::matmul(%x, %y)\n", "batched_matmul",
                     {randn({20, rows, depth}, 1), randn({20, depth, columns}, 2)});
  expectLayers("  %m : Tensor = aten::transpose(%x, %one, %two)\n  %z : Tensor = aten::matmul(%m, %y)\n",
               "batched_matmul", {randn({20, 6, 3}, 1), randn({20, 6, 4}, 2)});
  expectLayers("  %z : Tensor = aten::baddbmm(%x, %y, %y, %one, %two)\n", "batched_matmul, pointwise of 2",
               {randn({20, 4, 4}, 1), randn({20, 4, 4}, 2)});
}

TEST(ComposedLayers, Norms) {
  Tensor x = randn({2, 3, 8}, 1);
  expectLayers(
      "  %d : int[] = prim::Constant[value=[-1]]()\n"
      "  %z : Tensor = aten::linalg_vector_norm(%x, %two, %d, %t, %none)\n",
      "pointwise+sum, pointwise", {x, x});
}

// Operands may be whole, a row for all, a number for each row or a part of something larger; rows may be longer than
// what is kept, or read twice.
TEST(ComposedLayers, WhatIsReducedIsMadeAsItIs) {
  const Tensor x = randn({40, 3, 70}, 1), rows = randn({40, 3, 1}, 2), row = randn({70}, 3);
  const std::string body =
      "  %d : int[] = prim::Constant[value=[-1]]()\n  %a : Tensor = aten::sub(%x, %y, %one)\n"
      "  %b : Tensor = aten::mul(%a, %a)\n";
  const std::string sum = "  %z : Tensor = aten::sum(%b, %d, %t, %none)\n",
                    mean = "  %z : Tensor = aten::mean(%b, %d, %f, %none)\n",
                    largest = "  %z : Tensor = aten::amax(%b, %d, %f)\n";
  for (const Tensor& y : {x, rows, row, randn({1}, 4)}) {
    expectLayers(body + sum, "pointwise of 2+sum", {x, y});
    expectLayers(body + mean, "pointwise of 2+mean", {x, y});
    expectLayers(body + largest, "pointwise of 2+max", {x, y});
  }
  expectLayers(body + "  %e : int[] = prim::Constant[value=[1, 2]]()\n  %z : Tensor = aten::sum(%b, %e, %f, %none)\n",
               "pointwise of 2+sum", {x, x});
  const Tensor long_ = randn({3, 5000}, 5);
  expectLayers(body + sum, "pointwise of 2, sum", {long_, long_});
  expectLayers("  %n : int = prim::Constant[value=3]()\n  %x0 : Tensor = aten::slice(%x, %last, %n, %none, %two)\n" +
                   std::string("  %d : int[] = prim::Constant[value=[-1]]()\n  %b : Tensor = aten::exp(%x0)\n") + sum,
               "pointwise+sum", {x, x});
}

// Rows of another shape than that of what is made, which may end within its dimensions.
TEST(ComposedLayers, WhatIsReducedMayHaveAnotherShape) {
  const Tensor x = randn({12, 3, 10}, 1);
  auto body = [](int row) {
    return fmt::format(
        "  %shape : int[] = prim::Constant[value=[-1, {}]]()\n  %d : int[] = prim::Constant[value=[-1]]()\n"
        "  %a : Tensor = aten::minimum(%x, %y)\n  %b : Tensor = aten::reshape(%a, %shape)\n"
        "  %z : Tensor = aten::mean(%b, %d, %t, %none)\n",
        row);
  };
  for (int row : {2, 5, 15, 30, 60, 90}) expectLayers(body(row), "pointwise+mean", {x, randn({1}, 2)});
  for (int row : {2, 15, 90}) expectLayers(body(row), "pointwise, mean", {x, randn({10}, 3)});
  expectLayers(body(10), "pointwise+mean", {x, randn({10}, 3)});
  expectLayers(body(30), "pointwise+mean", {x, randn({3, 1}, 3)});
}

// A loop over what is seen in another order, whose result is wanted in the order of the memory.
TEST(ComposedLayers, LoopsWriteInTheOrderThatIsWanted) {
  const Tensor x = randn({3, 5, 14}, 1), row = randn({5}, 2), column = randn({14, 1}, 3), number = randn({1}, 4);
  const std::string loop =
      "  %s : Tensor = aten::transpose(%x, %one, %last)\n  %a : Tensor = aten::mul(%s, %y)\n"
      "  %b : Tensor = aten::exp(%a)\n";
  const std::string whole =
      "  %c : Tensor = aten::transpose(%b, %one, %two)\n  %z : Tensor = aten::contiguous(%c, %zero)\n";
  const std::string part =
      "  %d : Tensor = aten::slice(%b, %one, %two, %none, %two)\n"
      "  %c : Tensor = aten::transpose(%d, %one, %two)\n  %z : Tensor = aten::contiguous(%c, %zero)\n";
  for (const Tensor& y : {row, column, number}) expectLayers(loop + whole, "pointwise of 2", {x, y});
  for (const Tensor& y : {row, number}) expectLayers(loop + part, "pointwise of 2", {x, y});
  // Half of the operands would be gathered.
  expectLayers(loop + whole, "pointwise of 2, copy", {x, randn({3, 14, 5}, 5)});
}

// Windows share their elements, and lie in rows of rows.
TEST(ComposedLayers, WhatIsReducedMayBeWindows) {
  const std::string numbers =
      "  %size : int = prim::Constant[value=16]()\n  %step : int = prim::Constant[value=5]()\n"
      "  %d : int[] = prim::Constant[value=[-1]]()\n  %both : int[] = prim::Constant[value=[-1, -2]]()\n"
      "  %w : Tensor = aten::unfold(%x, %one, %size, %step)\n";
  const Tensor x = randn({7, 301}, 1), images = randn({6, 37, 42}, 2);
  expectLayers(numbers + "  %z : Tensor = aten::sum(%w, %d, %t, %none)\n", "pointwise+sum", {x, x});
  expectLayers(numbers + "  %b : Tensor = aten::mul(%w, %w)\n  %z : Tensor = aten::mean(%b, %d, %f, %none)\n",
               "pointwise+mean", {x, x});
  expectLayers(numbers + "  %z : Tensor = aten::sum(%w, %both, %t, %none)\n", "copy, sum", {images, images});
  expectLayers(numbers +
                   "  %v : Tensor = aten::unfold(%w, %two, %two, %one)\n  %u : Tensor = aten::abs(%v)\n"
                   "  %z : Tensor = aten::amax(%u, %both, %f)\n",
               "pointwise, max", {images, images});
}

TEST(ComposedLayers, PoolsOfVolumesAndWithoutBatch) {
  std::string lists =
      "  %k : int[] = prim::Constant[value=[2, 3, 2]]()\n  %s : int[] = prim::Constant[value=[2, 2, 1]]()\n"
      "  %p : int[] = prim::Constant[value=[1, 1, 0]]()\n  %d : int[] = prim::Constant[value=[1, 1, 1]]()\n";
  Tensor x = randn({2, 3, 5, 7, 6}, 1), one = randn({3, 5, 7, 6}, 2);
  for (const Tensor& t : {x, one}) {
    expectLayers(lists + "  %z : Tensor = aten::max_pool3d(%x, %k, %s, %p, %d, %f)\n", "max_pool2d, max_pool2d",
                 {t, t});
    for (const char* counts : {"%t", "%f"})
      for (const char* divisor : {"%none", "%two"})
        expectLayers(lists + "  %z : Tensor = aten::avg_pool3d(%x, %k, %s, %p, %f, " + counts + ", " + divisor + ")\n",
                     "avg_pool2d, avg_pool2d", {t, t});
  }
  expectLayers(
      "  %k : int[] = prim::Constant[value=[2, 3]]()\n  %p : int[] = prim::Constant[value=[0, 0]]()\n"
      "  %z : Tensor = aten::avg_pool2d(%x, %k, %k, %p, %f, %t, %none)\n",
      "avg_pool2d", {randn({3, 7, 6}, 1), x});
}

TEST(ComposedLayers, TruthIsElementwise) {
  expectLayers(
      "  %a : Tensor = aten::gt(%x, %zero)\n  %b : Tensor = aten::gt(%y, %zero)\n"
      "  %c : Tensor = aten::__and__(%a, %b)\n  %e : Tensor = aten::bitwise_not(%c)\n"
      "  %z : Tensor = aten::where(%e, %x, %y)\n",
      "pointwise, pointwise, pointwise, pointwise, pointwise", {randn({4, 5}, 1), randn({4, 5}, 2)});
}

TEST(ComposedLayers, SoftmaxOverAnyDimension) {
  expectLayers("  %z : Tensor = aten::softmax(%x, %one, %none)\n", "softmax", {randn({2, 21, 5, 6}, 1), randn({1}, 1)});
  expectLayers("  %z : Tensor = aten::log_softmax(%x, %zero, %none)\n", "log_softmax",
               {randn({7, 300}, 1), randn({1}, 1)});
}

TEST(ComposedLayers, Grids) {
  Tensor x = randn({2, 3, 6, 5}, 1), grid = randn({2, 4, 100, 2}, 2);
  const Tensor volume = randn({2, 3, 4, 6, 5}, 3), places = randn({2, 4, 10, 9, 3}, 4);
  grid.data<float>()[3] = NAN;
  places.data<float>()[4] = NAN;
  for (const char* padding : {"%zero", "%one", "%two"})
    for (const char* mode : {"%zero", "%one"})
      expectLayers(fmt::format("  %z : Tensor = aten::grid_sampler(%x, %y, {}, {}, %t)\n", mode, padding),
                   "grid_sampler", {volume, places});
  for (const char* padding : {"%zero", "%one", "%two"})
    for (const char* mode : {"%zero", "%one", "%two"})
      expectLayers(fmt::format("  %g : Tensor = aten::grid_sampler(%x, %y, {}, {}, %f)\n"
                               "  %h : Tensor = aten::isnan(%g)\n  %z : Tensor = aten::masked_fill(%g, %h, %one)\n",
                               mode, padding),
                   "grid_sampler, pointwise, pointwise", {x, grid});
}

// Many channels are read as vectors where pixels lie in blocks.
TEST(ComposedLayers, GridsOfManyChannels) {
  const Tensor x = randn({2, 21, 6, 5}, 1), grid = randn({2, 4, 100, 2}, 2);
  const Tensor volume = randn({2, 16, 4, 6, 5}, 3), places = randn({2, 4, 10, 9, 3}, 4);
  for (const char* padding : {"%zero", "%one", "%two"})
    for (const char* mode : {"%zero", "%one", "%two"})
      expectLayers(fmt::format("  %z : Tensor = aten::grid_sampler(%x, %y, {}, {}, %f)\n", mode, padding),
                   "reorder, grid_sampler, reorder", {x, grid});
  expectLayers("  %z : Tensor = aten::grid_sampler(%x, %y, %zero, %one, %t)\n", "reorder, grid_sampler, reorder",
               {volume, places});
  // Few places of a large image.
  expectLayers("  %z : Tensor = aten::grid_sampler(%x, %y, %zero, %one, %t)\n", "grid_sampler",
               {x, randn({2, 1, 3, 2}, 5)});
}

TEST(ComposedLayers, FourierTransforms) {
  Tensor x = randn({4, 6, 20}, 1);
  std::string pairs = "  %z : Tensor = aten::view_as_real(%a)\n";
  expectLayers("  %a : Tensor = aten::fft_rfft(%x, %none, %last, %none)\n" + pairs, "fourier", {x, x});
  // A result lies as PyTorch's, with the transformed dimension last.
  expectLayers("  %a : Tensor = aten::fft_rfft(%x, %none, %one, %none)\n" + pairs, "fourier, move", {x, x});
  expectLayers(
      "  %d : int[] = prim::Constant[value=[-2, -1]]()\n  %a : Tensor = aten::fft_rfft2(%x, %none, %d, %none)\n" +
          pairs,
      "fourier, fourier", {x, x});
  expectLayers(
      "  %a : Tensor = aten::fft_rfft(%x, %none, %last, %none)\n"
      "  %b : Tensor = aten::transpose(%a, %one, %last)\n  %z : Tensor = aten::fft_irfft(%b, %none, %one, %none)\n",
      "fourier, copy, fourier", {x, x});
}

// Odd radices of any kind, and convolutions where a prime factor is large; pairs of what has one.
TEST(ComposedLayers, FouriersOfLargePrimes) {
  for (int64_t points : {17, 19, 31, 37, 58, 62, 67, 74, 127, 254, 361, 509}) {
    SCOPED_TRACE(points);
    const Tensor x = randn({5, points}, 1), y = randn({2, points, 9}, 2);
    expectLayers("  %a : Tensor = aten::fft_rfft(%x, %none, %last, %none)\n  %z : Tensor = aten::view_as_real(%a)\n",
                 "fourier", {x, x});
    expectLayers(fmt::format("  %n : int = prim::Constant[value={}]()\n"
                             "  %a : Tensor = aten::fft_fft(%y, %none, %one, %none)\n"
                             "  %z : Tensor = aten::fft_irfft(%a, %n, %one, %none)\n",
                             points),
                 "fourier, fourier", {x, y});
  }
}

}  // namespace tscompile::test
