// Which tensors that are joined, stacked or cut share memory in an engine.
#include "runtime/engine/engine.h"
#include "runtime/reference/loops/copy.h"
#include "tests/support/engine_case.h"

namespace tscompile::test {
namespace {

constexpr const char* kFire = R"(graph(%x : Tensor):
  %none : NoneType = prim::Constant()
  %f : bool = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %zero : int = prim::Constant[value=0]()
  %ones : int[] = prim::ListConstruct(%one, %one)
  %zeros : int[] = prim::ListConstruct(%zero, %zero)
  %w1 : Float(32, 3, 1, 1) = prim::Constant[value={0}]()
  %w2 : Float(16, 3, 3, 3) = prim::Constant[value={0}]()
  %w3 : Float(16, 48, 1, 1) = prim::Constant[value={0}]()
  %a : Tensor = aten::_convolution(%x, %w1, %none, %ones, %zeros, %ones, %f, %zeros, %one, %f, %f, %f, %f)
  %b : Tensor = aten::_convolution(%x, %w2, %none, %ones, %ones, %ones, %f, %zeros, %one, %f, %f, %f, %f)
  %parts : Tensor[] = prim::ListConstruct(%a, %b)
  %c : Tensor = aten::cat(%parts, %one)
  %d : Tensor = aten::_convolution(%c, %w3, %none, %ones, %zeros, %ones, %f, %zeros, %one, %f, %f, %f, %f)
  return (%d)
)";

TEST(Engine, JoinedChannelsOfOneImageAreMadeInPlace) {
  EngineCase c(kFire);
  // The images need no blocks for the first layers.
  const std::string convolutions = "conv first_layer, conv first_layer, conv direct, reorder";
  EXPECT_EQ(c.layers({randn({1, 3, 9, 7}, 1)}), convolutions);
  EXPECT_EQ(c.layers({randn({2, 3, 9, 7}, 1)}), "conv first_layer, conv first_layer, cat, conv direct, reorder");
  c.expectClose({randn({1, 3, 9, 7}, 1)}, 1e-4);
  c.expectClose({randn({2, 3, 9, 7}, 1)}, 1e-4);
}

TEST(Engine, WhatIsCopiedToBeJoinedIsReadWhereItLies) {
  EngineCase c(R"(graph(%x : Tensor, %y : Tensor):
  %one : int = prim::Constant[value=1]()
  %two : int = prim::Constant[value=2]()
  %chunks : Tensor[] = aten::chunk(%x, %two, %two)
  %a : Tensor, %b : Tensor = prim::ListUnpack(%chunks)
  %parts : Tensor[] = prim::ListConstruct(%b, %y, %a, %b)
  %c : Tensor = aten::cat(%parts, %two)
  %s : Tensor = aten::stack(%parts, %two)
  %again : Tensor = aten::stack(%parts, %one)
  return (%c, %s, %again)
)");
  EXPECT_EQ(c.layers({randn({3, 4, 10}, 1), randn({3, 4, 5}, 2)}), "cat, cat, cat");
  for (int64_t rows : {1, 4})
    for (DType type : {DType::Float32, DType::Int64}) {
      const std::vector<IValue> in{convertTensor(randn({3, rows, 10}, 1), type),
                                   convertTensor(randn({3, rows, 5}, 2), type)};
      c.expectClose(in, 0);
    }
}

// As in a dense block: each join is the beginning of the next one.
TEST(Engine, JoinsThatGrowShareTheirMemory) {
  EngineCase c(R"(graph(%x : Tensor, %past : Tensor):
  %none : NoneType = prim::Constant()
  %one : int = prim::Constant[value=1]()
  %a : Tensor = aten::tanh(%x)
  %b : Tensor = aten::exp(%a)
  %first : Tensor[] = prim::ListConstruct(%a, %b)
  %c : Tensor = aten::cat(%first, %one)
  %d : Tensor = aten::softmax(%c, %one, %none)
  %second : Tensor[] = prim::ListConstruct(%a, %b, %d)
  %e : Tensor = aten::cat(%second, %one)
  %f : Tensor = aten::softmax(%e, %one, %none)
  %third : Tensor[] = prim::ListConstruct(%e, %f)
  %g : Tensor = aten::cat(%third, %one)
  %h : Tensor = aten::softmax(%g, %one, %none)
  %i : Tensor = aten::add(%h, %g, %one)
  %j : Tensor[] = prim::ListConstruct(%past, %c)
  %k : Tensor = aten::cat(%j, %one)
  return (%i, %k)
)");
  for (int64_t batch : {1, 2}) {
    std::vector<IValue> inputs{randn({batch, 16, 8}, 1), randn({batch, 1, 8}, 2)};
    if (batch == 1) {
      EXPECT_EQ(c.layers(inputs), "pointwise, pointwise, softmax, softmax, softmax, pointwise, cat");
    }
    c.expectClose(inputs);
  }
}

// The second join's memory holds what the first one made, and not the other way round: that would be too small.
TEST(Engine, JoinsOfOneTensorMayBeginOthers) {
  EngineCase c(R"(graph(%x : Tensor):
  %zero : int = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %none : NoneType = prim::Constant()
  %a : Tensor = aten::tanh(%x)
  %alone : Tensor[] = prim::ListConstruct(%a)
  %b : Tensor = aten::cat(%alone, %zero)
  %all : Tensor[] = prim::ListConstruct(%b, %x)
  %c : Tensor = aten::cat(%all, %zero)
  %d : Tensor = aten::softmax(%x, %one, %none)
  %e : Tensor = aten::softmax(%d, %one, %none)
  %f : Tensor = aten::softmax(%c, %one, %none)
  return (%e, %f)
)");
  c.expectClose({randn({3, 64}, 1)});
}

TEST(Engine, PartsOfStacksAreMadeInPlace) {
  EngineCase c(R"(graph(%x : Tensor, %past : Tensor):
  %zero : int = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %a : Tensor = aten::tanh(%x)
  %first : Tensor[] = prim::ListConstruct(%past, %a)
  %k : Tensor = aten::cat(%first, %one)
  %b : Tensor = aten::exp(%a)
  %second : Tensor[] = prim::ListConstruct(%past, %b)
  %v : Tensor = aten::cat(%second, %one)
  %sum : Tensor = aten::add(%k, %v, %one)
  %all : Tensor[] = prim::ListConstruct(%k, %v)
  %s : Tensor = aten::stack(%all, %zero)
  return (%s, %sum)
)");
  std::vector<IValue> inputs{randn({4, 1, 8}, 1), randn({4, 3, 8}, 2)};
  EXPECT_EQ(c.layers(inputs), "pointwise, cat, pointwise, cat, pointwise");
  c.expectClose(inputs);
  // Parts whose place is not aligned are copied there.
  inputs = {randn({3, 1, 7}, 1), randn({3, 4, 7}, 2)};
  EXPECT_EQ(c.layers(inputs), "pointwise, cat, pointwise, cat, pointwise, cat");
  c.expectClose(inputs);
}

TEST(Engine, JoinsOfWhatIsNeededElsewhere) {
  EngineCase c(R"(graph(%x : Tensor):
  %zero : int = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %two : int = prim::Constant[value=2]()
  %last : int = prim::Constant[value=-1]()
  %w : Float(4, 16) = prim::Constant[value={0}]()
  %a : Tensor = aten::tanh(%x)
  %b : Tensor = aten::exp(%x)
  %d : Tensor = aten::sqrt(%b)
  %t : Tensor = aten::transpose(%a, %zero, %one)
  %twice : Tensor[] = prim::ListConstruct(%a, %a, %w, %x, %d)
  %p : Tensor = aten::cat(%twice, %zero)
  %again : Tensor[] = prim::ListConstruct(%d, %b)
  %q : Tensor = aten::cat(%again, %zero)
  %r : Tensor = aten::stack(%again, %one)
  %u : Tensor = aten::stack(%again, %last)
  %both : Tensor[] = prim::ListConstruct(%q, %q)
  %v : Tensor = aten::cat(%both, %one)
  %n : Tensor = aten::matmul(%t, %d)
  return (%p, %q, %r, %u, %v, %b, %n)
)");
  c.expectClose({randn({4, 16}, 3)}, 1e-4);
}

}  // namespace
}  // namespace tscompile::test
