// Layers are offered to the plugins that there are for them: what these take computes the same, and the rest is told
// with a reason.
#include "passes/serving/layer_offers.h"

#include "api/lower.h"
#include "api/module.h"
#include "ir/graph/clone.h"
#include "ir/graph/printer.h"
#include "ir/support/diagnostic_printer.h"

#include <gtest/gtest.h>

namespace tscompile::test {
namespace {

class LayerOffers : public testing::Test {
 protected:
  // Of x [2, 3, 4] in float32 and a weight [4].
  std::string offered(const std::string& body, const std::string& dtype = "Float") {
    const std::string text = "graph(%x : " + dtype +
                             "(2, 3, 4)):\n"
                             "  %1 : int = prim::Constant[value=1]()\n  %2 : int = prim::Constant[value=2]()\n"
                             "  %last : int[] = prim::Constant[value=[-1]]()\n"
                             "  %first : int[] = prim::Constant[value=[0]]()\n"
                             "  %yes : bool = prim::Constant[value=1]()\n  %none : NoneType = prim::Constant()\n"
                             "  %eps : float = prim::Constant[value=0.001]()\n"
                             "  %6 : int = prim::Constant[value=6]()\n  %4 : int = prim::Constant[value=4]()\n"
                             "  %w.n : Tensor = aten::arange(%4, %6, %none, %none, %none)\n"
                             "  %w : Tensor = aten::add(%w.n, %eps, %2)\n" +
                             body + "  return (%y)\n";
    Diagnostics diagnostics;
    Result<Module> given = Module::fromText(text, "norm.ir", {}, diagnostics);
    Result<Module> module = given ? given->lowered({}, diagnostics) : Result<Module>(Failed{});
    EXPECT_TRUE(module) << renderDiagnostics(diagnostics, "test") << text;
    if (!module) return "";
    std::unique_ptr<Graph> graph = cloneGraph(*module->graph());
    const std::string told = offersText(offerLayers(*graph, module->registry(), "of a reason", diagnostics));
    const std::vector<IValue> x{numbers()};
    if (dtype == "Float") expectSame(*module, module->withGraph(std::move(graph)), x);
    return told;
  }

  static Tensor numbers() {
    Tensor t = Tensor::empty(DType::Float32, Dims{2, 3, 4});
    for (int64_t i = 0; i < t.numel(); ++i) t.data<float>()[i] = static_cast<float>((i * 7) % 11 - 5) / 3;
    return t;
  }

  static void expectSame(const Module& a, const Module& b, const std::vector<IValue>& inputs) {
    Diagnostics diagnostics;
    Result<std::vector<IValue>> x = a.forward(inputs, diagnostics), y = b.forward(inputs, diagnostics);
    ASSERT_TRUE(x && y) << renderDiagnostics(diagnostics, "test") << graphText(*b.graph());
    Tensor s = x->at(0).toTensor(), t = y->at(0).toTensor();
    for (int64_t i = 0; i < s.numel(); ++i) EXPECT_NEAR(s.real(i), t.real(i), 1e-6) << i;
  }
};

const std::string kMean =
    "  %s : Tensor = aten::mul(%x, %x)\n  %m : Tensor = aten::mean(%s, %last, %yes, %none)\n"
    "  %e : Tensor = aten::add(%m, %eps, %1)\n";

TEST_F(LayerOffers, NormsThatAreWrittenOutAreTaken) {
  const std::string taken = "   1 norm  tensorrt_llm::Rmsnorm  taken: %y (aten::mul)\n";
  EXPECT_EQ(offered("  %s : Tensor = aten::pow(%x, %2)\n  %m : Tensor = aten::mean(%s, %last, %yes, %none)\n"
                    "  %e : Tensor = aten::add(%m, %eps, %1)\n  %r : Tensor = aten::rsqrt(%e)\n"
                    "  %n : Tensor = aten::mul(%x, %r)\n  %y : Tensor = aten::mul(%n, %w)\n"),
            taken);
  EXPECT_EQ(offered(kMean + "  %r : Tensor = aten::rsqrt(%e)\n  %y : Tensor = aten::mul(%r, %x)\n"), taken);
  EXPECT_EQ(offered(kMean + "  %r : Tensor = aten::sqrt(%e)\n  %n : Tensor = aten::div(%x, %r)\n"
                            "  %y : Tensor = aten::mul(%w, %n)\n"),
            taken);
}

TEST_F(LayerOffers, WhatIsNoSuchNormIsLeft) {
  const std::string end =
      "  %r : Tensor = aten::rsqrt(%e)\n  %n : Tensor = aten::mul(%x, %r)\n"
      "  %y : Tensor = aten::mul(%n, %w)\n";
  EXPECT_EQ(offered("  %s : Tensor = aten::mul(%x, %x)\n  %m : Tensor = aten::mean(%s, %first, %yes, %none)\n"
                    "  %e : Tensor = aten::add(%m, %eps, %1)\n" +
                    end),
            "   1 norm  tensorrt_llm::Rmsnorm  not taken: it is not over the last dimension; %r (aten::rsqrt)\n");
  EXPECT_EQ(offered(kMean + end, "Half"),
            "   1 norm  tensorrt_llm::Rmsnorm  not taken: it is not computed in float32; %r (aten::rsqrt)\n");
  // The root is of another mean, or is read by others.
  EXPECT_EQ(offered("  %s : Tensor = aten::abs(%x)\n  %m : Tensor = aten::mean(%s, %last, %yes, %none)\n"
                    "  %e : Tensor = aten::add(%m, %eps, %1)\n" +
                    end),
            "");
  EXPECT_EQ(
      offered(kMean + "  %r : Tensor = aten::rsqrt(%e)\n  %n : Tensor = aten::mul(%x, %r)\n"
                      "  %y : Tensor = aten::mul(%n, %r)\n"),
      "   1 norm  tensorrt_llm::Rmsnorm  not taken: what is scaled is not what the mean is of; %r (aten::rsqrt)\n");
}

TEST_F(LayerOffers, OthersAreToldWithTheirReason) {
  EXPECT_EQ(offered("  %sizes : int[] = prim::Constant[value=[4]]()\n"
                    "  %drop : float = prim::Constant[value=0.]()\n  %no : bool = prim::Constant[value=0]()\n"
                    "  %o : Tensor = aten::scaled_dot_product_attention(%x, %x, %x, %none, %drop, %no)\n"
                    "  %y : Tensor = aten::layer_norm(%o, %sizes, %none, %none, %eps, %no)\n"),
            "   1 attention  tensorrt_llm::GPTAttention  not taken: of a reason; %o "
            "(aten::scaled_dot_product_attention)\n"
            "   1 norm       tensorrt_llm::Layernorm     not taken: engines have a layer of their own for it; %y "
            "(aten::layer_norm)\n");
}

}  // namespace
}  // namespace tscompile::test
