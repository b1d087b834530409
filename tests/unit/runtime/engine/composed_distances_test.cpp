// Distances, log-sums, complex products and what is put at indices: computed as other operators or by layers of their
// own, with what the interpreter gives.
#include "tests/support/engine_case.h"

#include <limits>

namespace tscompile::test {
namespace {

std::string textOf(std::string_view body) { return graphWithConstants("%x : Tensor, %y : Tensor", body, "%z"); }

void expectNative(std::string_view body, const std::vector<IValue>& in, double tolerance = 1e-5) {
  SCOPED_TRACE(body);
  EngineCase c(textOf(body));
  const std::string layers = c.layers(in, true);
  EXPECT_EQ(layers.find("kernel"), std::string::npos) << layers;
  c.expectClose(in, tolerance);
}

Tensor numbers(const Dims& sizes, std::vector<int64_t> values) {
  Tensor t = Tensor::empty(DType::Int64, sizes);
  std::copy(values.begin(), values.end(), t.data<int64_t>());
  return t;
}

Tensor complexOf(const Dims& sizes, uint64_t seed) {
  Dims pairs(sizes);
  pairs.push_back(2);
  const Tensor parts = randn(pairs, seed);
  Tensor t = Tensor::empty(DType::Complex64, sizes);
  std::copy_n(parts.data<float>(), parts.numel(), reinterpret_cast<float*>(t.data<std::complex<float>>()));
  return t;
}

}  // namespace

TEST(ComposedDistances, LogSumExp) {
  const float inf = std::numeric_limits<float>::infinity();
  const std::string one = "  %d : int[] = prim::Constant[value=[1]]()\n  %z : Tensor = aten::logsumexp(%x, %d, %f)\n";
  const std::string both =
      "  %d : int[] = prim::Constant[value=[1, -1]]()\n  %z : Tensor = aten::logsumexp(%x, %d, %t)\n";
  expectNative(one, {randn({20, 30}, 1), randn({1}, 2)});
  expectNative(both, {randn({4, 20, 9}, 1), randn({1}, 2)});
  Tensor x = randn({20, 30}, 3);
  for (int64_t i = 0; i < 30; ++i) x.data<float>()[i] = -inf;
  x.data<float>()[30] = inf;
  x.data<float>()[61] = -inf;
  x.data<float>()[90] = 1e30f;
  EngineCase c(textOf(one));
  const Tensor got = c.run({x, x})[0].toTensor(), want = c.interpret({x, x})[0].toTensor();
  for (int64_t i = 0; i < 20; ++i) {
    if (std::isinf(want.real(i)))
      EXPECT_EQ(got.real(i), want.real(i)) << i;
    else
      EXPECT_NEAR(got.real(i), want.real(i), 1e-5 * (1 + std::fabs(want.real(i)))) << i;
  }
  x.data<float>()[64] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(c.run({x, x})[0].toTensor().real(2)));
}

TEST(ComposedDistances, CosinesAndDistancesOfAllPairs) {
  const std::string cosine =
      "  %eps : float = prim::Constant[value=1e-08]()\n"
      "  %z : Tensor = aten::cosine_similarity(%x, %y, %last, %eps)\n";
  expectNative(cosine, {randn({6, 1, 20}, 1), randn({5, 20}, 2)});
  expectNative(cosine, {randn({2, 7, 4}, 1), randn({2, 1, 4}, 2)});
  expectNative(cosine, {randn({3, 1}, 1), randn({3, 5}, 2)});
  for (const char* p : {"1.", "2."}) {
    const std::string all = fmt::format(
        "  %p : float = prim::Constant[value={}]()\n"
        "  %z : Tensor = aten::cdist(%x, %y, %p, %none)\n",
        p);
    expectNative(all, {randn({7, 6}, 1), randn({9, 6}, 2)});
    expectNative(all, {randn({2, 7, 6}, 1), randn({9, 6}, 2)});
    expectNative(all, {randn({40, 6}, 1), randn({50, 6}, 2)}, 1e-4);
  }
}

TEST(ComposedDistances, ComplexProducts) {
  for (auto [a, b] :
       {std::pair(Dims{5, 6}, Dims{6, 4}), {Dims{2, 5, 6}, Dims{6, 4}}, {Dims{2, 3, 5, 6}, Dims{3, 6, 4}}}) {
    EngineCase c(textOf("  %z : Tensor = aten::matmul(%x, %y)\n"));
    const std::vector<IValue> in{complexOf(a, 1), complexOf(b, 2)};
    EXPECT_EQ(c.layers(in).find("kernel"), std::string::npos) << c.layers(in, true);
    const Tensor got = c.run(in)[0].toTensor(), want = c.interpret(in)[0].toTensor();
    ASSERT_EQ(got.dtype(), DType::Complex64);
    for (int64_t i = 0; i < want.numel(); ++i)
      EXPECT_LE(std::abs(got.data<std::complex<float>>()[i] - want.data<std::complex<float>>()[i]), 1e-5f);
  }
}

TEST(ComposedDistances, WhatIsPutAtAnIndex) {
  const std::string put = "  %i : Tensor? = prim::Constant()\n  %l : Tensor?[] = prim::ListConstruct(%i, %n)\n";
  for (const char* accumulates : {"%t", "%f"})
    for (const std::string& list : {std::string("  %l : Tensor?[] = prim::ListConstruct(%n)\n"), put}) {
      const std::string text =
          graphWithConstants("%x : Tensor, %n : Tensor, %y : Tensor",
                             list + "  %z : Tensor = aten::index_put(%x, %l, %y, " + accumulates + ")\n", "%z");
      SCOPED_TRACE(text);
      EngineCase c(text);
      const Tensor values = list == put ? randn({6, 4, 3}, 2) : randn({4, 7, 3}, 2);
      for (const Tensor& v : {values, randn({3}, 4)}) {
        const std::vector<IValue> in{randn({6, 7, 3}, 1), numbers({4}, {2, -1, 2, 0}), v};
        EXPECT_EQ(c.layers(in).find("kernel"), std::string::npos) << c.layers(in, true);
        c.expectClose(in);
      }
    }
  EngineCase mask(graphWithConstants("%x : Tensor, %y : Tensor",
                                     "  %m : Tensor = aten::gt(%y, %zero)\n  %l : Tensor?[] = prim::ListConstruct(%m)\n"
                                     "  %v : Tensor = prim::Constant[value={2.5}]()\n"
                                     "  %z : Tensor = aten::index_put(%x, %l, %v, %f)\n",
                                     "%z"));
  for (const Dims& sizes : {Dims{6}, Dims{6, 7}}) {
    const std::vector<IValue> in{randn({6, 7}, 1), randn(sizes, 2)};
    EXPECT_EQ(mask.layers(in).find("kernel"), std::string::npos) << mask.layers(in, true);
    mask.expectClose(in, 0);
  }
}

TEST(ComposedDistances, NumbersThatLieApartAreMoved) {
  const std::vector<IValue> in{randn({5, 4}, 1), numbers({3, 2}, {0, 4, 3, 1, 0, 2})};
  expectNative(
      "  %c : Tensor = aten::select(%y, %one, %zero)\n  %v : Tensor = aten::slice(%x, %zero, %one, %none, %one)\n"
      "  %u : Tensor = aten::slice(%v, %zero, %none, %last, %one)\n"
      "  %z : Tensor = aten::index_add(%x, %zero, %c, %u, %one)\n",
      in);
  expectNative("  %c : Tensor = aten::t(%y)\n  %z : Tensor = aten::contiguous(%c, %zero)\n", in, 0);
}

}  // namespace tscompile::test
