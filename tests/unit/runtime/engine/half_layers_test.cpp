// Tensors of 16 bits in engines: computed in f32 and rounded where the operators' kernels round.
#include "ir/values/encoded.h"
#include "runtime/engine/engine.h"
#include "tests/support/engine_case.h"

#include <fmt/core.h>

#include <cmath>

namespace tscompile::test {
namespace {

// x, rounded.
Tensor halves(const Tensor& x, DType dtype) { return encode(x, dtype, 0).values; }

std::string text(std::string_view body, std::string_view result, int dtype) {
  return graphWithConstants("%x : Tensor, %y : Tensor",
                            fmt::format("  %dtype : int = prim::Constant[value={}]()\n{}", dtype, body), result);
}

constexpr std::string_view kLayers = R"(  %sizes : int[] = prim::ListConstruct(%w)
  %eps : float = prim::Constant[value=1.0000000000000001e-05]()
  %n : Tensor = aten::layer_norm(%x, %sizes, %none, %none, %eps, %f)
  %m : Tensor = aten::matmul(%n, %y)
  %g : Tensor = aten::silu(%m)
  %tenth : float = prim::Constant[value=0.10000000000000001]()
  %h : Tensor = aten::mul(%g, %tenth)
  %s : Tensor = aten::softmax(%h, %last, %none)
  %z : Tensor = aten::add(%s, %x, %one)
  %c : Tensor = aten::gt(%z, %tenth)
  %r : Tensor = aten::where(%c, %z, %n)
)";

}  // namespace

TEST(HalfLayers, AreLayersOfFloatsThatRound) {
  const std::string body = "  %w : int = prim::Constant[value=32]()\n" + std::string(kLayers);
  for (DType dtype : {DType::Float16, DType::BFloat16}) {
    const EngineCase c(text(body, "%r", static_cast<int>(dtype)));
    const std::vector<IValue> inputs{halves(randn({24, 32}, 1), dtype), halves(randn({32, 32}, 2), dtype)};
    const std::string layers = c.layers(inputs);
    EXPECT_EQ(layers.find("kernel"), std::string::npos) << layers;
    EXPECT_EQ(c.run(inputs)[0].toTensor().dtype(), dtype);
    c.expectClose(inputs, dtype == DType::Float16 ? 2e-3 : 1.6e-2);
  }
}

// (x + 1) - 1 has lost what 16 bits do not hold beside 1, and a conversion rounds though nothing is stored.
TEST(HalfLayers, RoundWhereOperatorsDo) {
  for (DType dtype : {DType::Float16, DType::BFloat16}) {
    const EngineCase sums(text("  %a : Tensor = aten::add(%x, %one, %one)\n  %r : Tensor = aten::sub(%a, %one, %one)\n",
                               "%r", static_cast<int>(dtype)));
    const std::vector<IValue> inputs{halves(floats({1e-4f, 0.30078125f, 3.0f}), dtype), IValue(floats({1}))};
    const Tensor got = sums.run(inputs)[0].toTensor();
    const Tensor want = sums.interpret(inputs)[0].toTensor();
    EXPECT_EQ(got.real(0), 0);
    for (int64_t i = 0; i < want.numel(); ++i) EXPECT_EQ(got.real(i), want.real(i));

    const EngineCase casts(
        text("  %h : Tensor = aten::to(%x, %dtype, %f, %f, %none)\n"
             "  %float : int = prim::Constant[value=6]()\n"
             "  %r : Tensor = aten::to(%h, %float, %f, %f, %none)\n",
             "%r", static_cast<int>(dtype)));
    const Tensor x = randn({50}, 3), rounded = casts.run({x, IValue(floats({1}))})[0].toTensor();
    ASSERT_EQ(rounded.dtype(), DType::Float32);
    for (int64_t i = 0; i < x.numel(); ++i) EXPECT_EQ(rounded.real(i), halves(x, dtype).real(i));
  }
}

// Numbers meet halves as halves, but as factors; what a dtype can hold is that of halves.
TEST(HalfLayers, KnowTheirOwnDType) {
  const EngineCase c(
      text("  %big : float = prim::Constant[value=100.04]()\n"
           "  %same : Tensor = aten::eq(%x, %big)\n"
           "  %r : Tensor = aten::nan_to_num(%x, %none, %none, %none)\n",
           "%same, %r", 5));
  const std::vector<IValue> inputs{halves(floats({100.0625f, INFINITY, -INFINITY, NAN}), DType::Float16),
                                   IValue(floats({1}))};
  const std::vector<IValue> got = c.run(inputs), want = c.interpret(inputs);
  for (size_t k = 0; k < want.size(); ++k)
    for (int64_t i = 0; i < 4; ++i) EXPECT_EQ(got[k].toTensor().real(i), want[k].toTensor().real(i)) << k << ", " << i;
  EXPECT_EQ(want[0].toTensor().real(0), 1);
  EXPECT_EQ(want[1].toTensor().real(1), 65504);
}

}  // namespace tscompile::test
