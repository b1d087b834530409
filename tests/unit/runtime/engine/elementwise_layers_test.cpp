// Which element-wise operators become one loop, alone, as chains and after products.
#include "runtime/engine/engine.h"
#include "runtime/reference/loops/copy.h"
#include "runtime/registry.h"
#include "tests/support/engine_case.h"

#include <fmt/core.h>

#include <cmath>

namespace tscompile::test {
namespace {

TEST(Engine, ElementwiseChainsAreOneLoop) {
  EngineCase c(R"(graph(%x : Tensor, %y : Tensor):
  %one : int = prim::Constant[value=1]()
  %a : Tensor = aten::add(%x, %y, %one)
  %b : Tensor = aten::tanh(%a)
  %c : Tensor = aten::mul(%b, %x)
  %d : Tensor = aten::exp(%c)
  %e : Tensor = aten::div(%d, %y)
  return (%e)
)");
  std::vector<IValue> inputs{randn({4, 1, 33}, 1), randn({5, 33}, 2)};
  EXPECT_EQ(c.layers(inputs), "pointwise of 5");
  c.expectClose(inputs, 1e-5);
}

// Chains that meet: inputs of the second are known to the loop only after steps of the first.
TEST(Engine, ChainsThatMeetAreOneLoop) {
  EngineCase c(R"(graph(%x : Tensor, %t : Tensor, %v : Tensor):
  %one : int = prim::Constant[value=1]()
  %two : int = prim::Constant[value=2]()
  %half : float = prim::Constant[value=0.5]()
  %a : Tensor = aten::log(%v)
  %b : Tensor = aten::sub(%x, %t, %one)
  %c : Tensor = aten::pow(%b, %two)
  %d : Tensor = aten::div(%c, %v)
  %e : Tensor = aten::add(%a, %d, %one)
  %f : Tensor = aten::mul(%e, %half)
  return (%f)
)");
  std::vector<IValue> inputs{floats({1, 2, 3}), floats({2, 2, 1}), floats({0.5f, 1, 2})};
  EXPECT_EQ(c.layers(inputs), "pointwise of 6");
  c.expectClose(inputs);
}

// Between floats, integers and bools; a strided argument too.
TEST(Engine, ConversionsAreLayers) {
  for (DType from : {DType::Float32, DType::Float64, DType::Int64, DType::Int32, DType::UInt8, DType::Bool})
    for (DType to : {DType::Float32, DType::Float64, DType::Int64}) {
      if (from == to) continue;
      SCOPED_TRACE(fmt::format("{} to {}", pythonName(from), pythonName(to)));
      EngineCase c(fmt::format(R"(graph(%x : Tensor):
  %dtype : int = prim::Constant[value={}]()
  %f : bool = prim::Constant[value=0]()
  %none : NoneType = prim::Constant()
  %zero : int = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %t : Tensor = aten::transpose(%x, %zero, %one)
  %y : Tensor = aten::to(%t, %dtype, %f, %f, %none)
  %z : Tensor = aten::to(%x, %dtype, %f, %f, %none)
  return (%y, %z)
)",
                               static_cast<int>(to)));
      const Tensor x = convertTensor(randn({300, 70}, 1), from == DType::UInt8 ? DType::Bool : from);
      const std::vector<IValue> inputs{convertTensor(x, from)};
      EXPECT_EQ(c.layers(inputs).find("kernel"), std::string::npos) << c.layers(inputs, true);
      c.expectClose(inputs, 0);
    }
}

TEST(Engine, OperatorsThatAreOneStep) {
  for (const char* call : {"sign(%x)",
                           "sgn(%x)",
                           "round(%x)",
                           "logical_not(%x)",
                           "isnan(%x)",
                           "deg2rad(%x)",
                           "rad2deg(%x)",
                           "rsub(%x, %half, %two)",
                           "fmod(%x, %y)",
                           "fmod(%x, %half)",
                           "remainder(%x, %y)",
                           "remainder(%half, %x)",
                           "floor_divide(%x, %y)",
                           "floor_divide(%x, %half)",
                           "logical_and(%x, %y)",
                           "logical_or(%x, %y)",
                           "logical_xor(%x, %y)",
                           "subtract(%x, %y, %one)",
                           "true_divide(%x, %y)",
                           "arctan(%x)",
                           "clip(%x, %half, %two)",
                           "max(%x, %y)",
                           "clamp(%x, %y, %none)",
                           "div(%x, %y, %floor)"}) {
    SCOPED_TRACE(call);
    EngineCase c(fmt::format(R"(graph(%x : Tensor, %y : Tensor):
  %none : NoneType = prim::Constant()
  %half : float = prim::Constant[value=0.5]()
  %one : int = prim::Constant[value=1]()
  %two : int = prim::Constant[value=2]()
  %floor : str = prim::Constant[value="floor"]()
  %r : Tensor = aten::{}
  return (%r)
)",
                             call));
    std::vector<IValue> inputs{randn({3, 70}, 1), randn({3, 70}, 2)};
    EXPECT_EQ(c.layers(inputs), "pointwise");
    c.expectClose(inputs, 1e-6);
  }
}

// Whatever record has a converter: new ones need no line here.
TEST(Engine, ElementwiseOperatorsOfOneTensorAreOneLoop) {
  Tensor x = randn({3, 70}, 1);
  for (int64_t i = 0; i < x.numel(); ++i) x.data<float>()[i] = 0.1f + std::fabs(x.data<float>()[i]);
  Tensor truth = Tensor::empty(DType::Bool, Dims{3, 70});
  for (int64_t i = 0; i < truth.numel(); ++i) truth.data<bool>()[i] = i % 3 == 0;
  size_t seen = 0;
  for (Symbol kind : allOps().kinds(true)) {
    for (const Operator* op : allOps().overloads(kind)) {
      if (!op->isImplemented() || !op->has(Trait::Elementwise) || !op->def().convert) continue;
      if (op->schema().arguments.size() != 1 || op->schema().isMutable()) continue;
      SCOPED_TRACE(op->fullName());
      EngineCase c(fmt::format("graph(%x : Tensor):\n  %r : Tensor = {}(%x)\n  return (%r)\n", kind.text()));
      const RunOptions options;
      RunContext context(options);
      RunScope scope(context);
      const Tensor& taken = c.tryRun({x}, context) ? x : truth;  // what is no number's takes truth values
      const std::string layer = c.layers({taken}, true);
      EXPECT_TRUE(layer.starts_with("pointwise") || layer == "map") << layer;
      c.expectClose({taken}, 1e-5);
      ++seen;
    }
  }
  EXPECT_GT(seen, 30u);
}

// The layer is called by its product and by what it takes in, of whatever name.
TEST(Engine, ProductsTakeEveryActivation) {
  constexpr const char* kCalls[][2] = {{"relu(%a)", "+relu"},       {"leaky_relu(%a, %half)", "+leaky_relu"},
                                       {"silu(%a)", "+silu"},       {"hardswish(%a)", "+hard_swish"},
                                       {"mish(%a)", "+mish"},       {"log_sigmoid(%a)", "+log_sigmoid"},
                                       {"tanh(%a)", "+tanh"},       {"softplus(%a, %one, %twenty)", "+softplus"},
                                       {"sigmoid(%a)", "+sigmoid"}, {"hardsigmoid(%a)", "+hard_sigmoid"}};
  for (const auto& [call, name] : kCalls) {
    SCOPED_TRACE(call);
    EngineCase c(fmt::format(R"(graph(%x : Tensor):
  %none : NoneType = prim::Constant()
  %half : float = prim::Constant[value=0.5]()
  %one : int = prim::Constant[value=1]()
  %twenty : int = prim::Constant[value=20]()
  %w : Float(8, 40) = prim::Constant[value={{0}}]()
  %a : Tensor = aten::linear(%x, %w, %none)
  %r : Tensor = aten::{}
  return (%r)
)",
                             call));
    Tensor x = randn({5, 40}, 2);
    EXPECT_EQ(c.layers({x}), std::string("matmul") + name);
    c.expectClose({x}, 1e-5);
  }
}

}  // namespace
}  // namespace tscompile::test
