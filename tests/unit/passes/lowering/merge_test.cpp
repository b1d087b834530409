// What mergeCommonSubexpressions and poolConstants make one, and what they must keep apart.
#include "ir/graph/edit_log.h"
#include "ir/graph/printer.h"
#include "runtime/registry.h"
#include "tests/support/pass_checks.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tscompile::test {
namespace {

void expectMerged(const std::string& before, const std::string& after) {
  EXPECT_EQ(afterPass(mergeCommonSubexpressions, before), printed(after));
}
void expectPooled(const std::string& before, const std::string& after) {
  EXPECT_EQ(afterPass(poolConstants, before), printed(after));
}

TEST(Merge, ConstantsThenWhatUsesThem) {
  expectMerged(R"(graph(%x : Tensor, %y : Tensor):
  %1 : int = prim::Constant[value=1]()
  %one : int = prim::Constant[value=1]()
  %a : Tensor = aten::add(%x, %y, %1)
  %b : Tensor = aten::add(%x, %y, %one)
  %c : Tensor = aten::mul(%a, %b)
  return (%c)
)",
               R"(graph(%x : Tensor, %y : Tensor):
  %one : int = prim::Constant[value=1]()
  %a : Tensor = aten::add(%x, %y, %one)
  %c : Tensor = aten::mul(%a, %a)
  return (%c)
)");
}

TEST(Merge, ConstantsDifferByTypeAndBits) {
  std::unique_ptr<Graph> g = std::make_unique<Graph>();
  Builder b(*g);
  std::vector<Value*> all;
  for (int round = 0; round < 2; ++round) {
    for (double v : {0.0, -0.0, 1.0, std::nan(""), -std::nan("")}) all.push_back(b.constant(v));
    all.push_back(b.constant(1));
    all.push_back(b.constant(true));
    all.push_back(b.constant("1"));
    all.push_back(b.constant(IValue(), types().none));
    all.push_back(b.constant(IValue(), optionalType(types().integer)));
    all.push_back(b.constant(std::complex<double>(1.0, -0.0)));
    all.push_back(b.constant(std::complex<double>(1.0, 0.0)));
    all.push_back(b.constant(tuple({1, 2.0})));
    all.push_back(b.constant(tuple({1, 2})));
  }
  g->addOutput(b.tuple(all));
  EXPECT_TRUE(applyPass(mergeCommonSubexpressions, *g));
  EXPECT_EQ(g->nodeCount(), all.size() / 2 + 1);
}

TEST(Merge, TensorConstantsByTheirData) {
  std::unique_ptr<Graph> g = std::make_unique<Graph>();
  Builder b(*g);
  std::vector<Value*> all;
  for (int round = 0; round < 2; ++round) {
    all.push_back(b.constant(Tensor::of<float>(Dims{2}, std::vector<float>{1, 2})));
    all.push_back(b.constant(Tensor::of<float>(Dims{2}, std::vector<float>{1, 3})));
    all.push_back(b.constant(Tensor::of<float>(Dims{2, 1}, std::vector<float>{1, 2})));
    all.push_back(b.constant(Tensor::of<int64_t>(Dims{2}, std::vector<int64_t>{1, 2})));
  }
  Value* last = all[0];
  for (Value* v : all) last = b.call(Symbol::of("aten::mul"), {last, v}, types().tensor);
  g->addOutput(last);
  EXPECT_TRUE(applyPass(mergeCommonSubexpressions, *g));
  EXPECT_EQ(g->nodeCount(), 4 + all.size());
}

TEST(Merge, MissingTensorsStayApart) {
  const char* text = R"(graph(%x : Tensor):
  %a : Tensor = prim::Constant[value=<Tensor>]()
  %b : Tensor = prim::Constant[value=<Tensor>]()
  %c : Tensor = aten::mul(%a, %b)
  return (%c)
)";
  std::unique_ptr<Graph> g = readGraph(text);
  EXPECT_FALSE(applyPass(mergeCommonSubexpressions, *g));
}

TEST(Merge, AcrossBlocksOnlyWhatDominates) {
  expectMerged(R"(graph(%x : Tensor, %c : bool):
  %a : Tensor = aten::relu(%x)
  %y : Tensor = prim::If(%c)
    block0():
      %b : Tensor = aten::relu(%x)
      %d : Tensor = aten::neg(%b)
      -> (%d)
    block1():
      %e : Tensor = aten::neg(%a)
      %f : Tensor = aten::neg(%a)
      %g : Tensor = aten::mul(%e, %f)
      -> (%g)
  %h : Tensor = aten::neg(%a)
  %i : Tensor = aten::mul(%h, %y)
  return (%i)
)",
               R"(graph(%x : Tensor, %c : bool):
  %a : Tensor = aten::relu(%x)
  %y : Tensor = prim::If(%c)
    block0():
      %d : Tensor = aten::neg(%a)
      -> (%d)
    block1():
      %e : Tensor = aten::neg(%a)
      %g : Tensor = aten::mul(%e, %e)
      -> (%g)
  %h : Tensor = aten::neg(%a)
  %i : Tensor = aten::mul(%h, %y)
  return (%i)
)");
}

TEST(Merge, NothingThatIsWrittenOrRead) {
  const char* text = R"(graph(%x : Tensor, %n : int):
  %a : Tensor = aten::relu(%x)
  %b : Tensor = aten::relu(%x)
  %0 : Tensor = aten::add_(%a, %b, %n)
  %p : Tensor = aten::neg(%a)
  %1 : Tensor = aten::add_(%a, %b, %n)
  %q : Tensor = aten::neg(%a)
  %l : int[] = prim::ListConstruct(%n)
  %m : int[] = prim::ListConstruct(%n)
  %2 : int[] = aten::append(%l, %n)
  return (%p, %q, %l, %m)
)";
  expectMerged(text, text);
}

TEST(Merge, NeitherNormalizationThatTrains) {
  const char* text = R"(graph(%x : Tensor, %m : Tensor, %v : Tensor, %eps : float):
  %on : bool = prim::Constant[value=1]()
  %none : NoneType = prim::Constant()
  %a : Tensor = aten::batch_norm(%x, %none, %none, %m, %v, %on, %eps, %eps, %on)
  %p : Tensor = aten::neg(%m)
  %b : Tensor = aten::batch_norm(%x, %none, %none, %m, %v, %on, %eps, %eps, %on)
  %q : Tensor = aten::neg(%m)
  return (%a, %b, %p, %q)
)";
  expectMerged(text, text);
}

TEST(Merge, ReadsBesideWritesOfOtherMemory) {
  expectMerged(R"(graph(%x : Tensor, %n : int):
  %a : Tensor = aten::relu(%x)
  %b : Tensor = aten::neg(%x)
  %p : Tensor = aten::neg(%b)
  %0 : Tensor = aten::add_(%a, %b, %n)
  %q : Tensor = aten::neg(%b)
  %r : Tensor = aten::mul(%p, %q)
  return (%r, %a)
)",
               R"(graph(%x : Tensor, %n : int):
  %a : Tensor = aten::relu(%x)
  %b : Tensor = aten::neg(%x)
  %p : Tensor = aten::neg(%b)
  %0 : Tensor = aten::add_(%a, %b, %n)
  %r : Tensor = aten::mul(%p, %p)
  return (%r, %a)
)");
}

TEST(Merge, NodesWithoutInputs) {
  expectMerged(R"(graph():
  %a : () = prim::TupleConstruct[tag="one"]()
  %b : () = prim::TupleConstruct[tag="two"]()
  %c : () = prim::TupleConstruct[tag="one"]()
  %l : ((), (), ()) = prim::TupleConstruct(%a, %b, %c)
  return (%l)
)",
               R"(graph():
  %a : () = prim::TupleConstruct[tag="one"]()
  %b : () = prim::TupleConstruct[tag="two"]()
  %l : ((), (), ()) = prim::TupleConstruct(%a, %b, %a)
  return (%l)
)");
}

TEST(Merge, NeitherRandomNumbersNorEffects) {
  const char* text = R"(graph(%x : Tensor):
  %none : NoneType = prim::Constant()
  %a : Tensor = aten::rand_like(%x, %none, %none, %none, %none, %none)
  %b : Tensor = aten::rand_like(%x, %none, %none, %none, %none, %none)
   = prim::Print(%x)
   = prim::Print(%x)
  return (%a, %b)
)";
  expectMerged(text, text);
}

// The caller may write to one of them.
TEST(Merge, ResultsOfTheGraphStayTwo) {
  const char* text = R"(graph(%x : Tensor, %n : int):
  %a : Tensor = aten::relu(%x)
  %b : Tensor = aten::relu(%x)
  %v : Tensor = aten::unsqueeze(%b, %n)
  return (%a, %v)
)";
  expectMerged(text, text);
}

TEST(Merge, NeitherDoTheItemsOfResults) {
  const char* text = R"(graph(%x : Tensor):
  %a : Tensor = aten::relu(%x)
  %l : Tensor[] = prim::ListConstruct(%a)
  %b : Tensor = aten::relu(%x)
  %0 : Tensor[] = aten::append(%l, %b)
  return (%l)
)";
  expectMerged(text, text);
}

TEST(Merge, AttributesInAnyOrder) {
  std::unique_ptr<Graph> g = readGraph(R"(graph(%t : (Tensor, Tensor, Tensor)):
  %a : (Tensor, Tensor) = prim::TupleSlice[beg=0, end=2](%t)
  %b : (Tensor, Tensor) = prim::TupleSlice[end=2, beg=0](%t)
  %c : (Tensor, Tensor) = prim::TupleSlice[beg=1, end=3](%t)
  return (%a, %b, %c)
)");
  EXPECT_FALSE(applyPass(mergeCommonSubexpressions, *g));  // all are seen
  g = readGraph(R"(graph(%t : (int, int, int)):
  %a : (int, int) = prim::TupleSlice[beg=0, end=2](%t)
  %b : (int, int) = prim::TupleSlice[end=2, beg=0](%t)
  %c : (int, int) = prim::TupleSlice[beg=1, end=3](%t)
  return (%a, %b, %c)
)");
  EXPECT_TRUE(applyPass(mergeCommonSubexpressions, *g));
  EXPECT_EQ(graphText(*g), printed(R"(graph(%t : (int, int, int)):
  %a : (int, int) = prim::TupleSlice[beg=0, end=2](%t)
  %c : (int, int) = prim::TupleSlice[beg=1, end=3](%t)
  return (%a, %a, %c)
)"));
}

TEST(Merge, TheMoreSpecificTypeSurvives) {
  expectMerged(R"(graph(%x : Tensor, %c : bool):
  %a : Tensor = aten::relu(%x)
  %b : Float(*, *) = aten::relu(%x)
  %d : Tensor = aten::neg(%x)
  %e : Tensor = aten::mul(%a, %b)
  return (%e, %d)
)",
               R"(graph(%x : Tensor, %c : bool):
  %a : Float(*, *) = aten::relu(%x)
  %d : Tensor = aten::neg(%x)
  %e : Tensor = aten::mul(%a, %a)
  return (%e, %d)
)");
  // What a branch knows does not hold outside.
  expectMerged(R"(graph(%x : Tensor, %c : bool):
  %a : Tensor = aten::relu(%x)
  %y : Tensor = prim::If(%c)
    block0():
      %b : Float(*, *) = aten::relu(%x)
      %d : Tensor = aten::neg(%b)
      -> (%d)
    block1():
      -> (%a)
  return (%y)
)",
               R"(graph(%x : Tensor, %c : bool):
  %a : Tensor = aten::relu(%x)
  %y : Tensor = prim::If(%c)
    block0():
      %d : Tensor = aten::neg(%a)
      -> (%d)
    block1():
      -> (%a)
  return (%y)
)");
}

const char* kSwapped = R"(graph(%x : Tensor, %y : Tensor):
  %a : Tensor = aten::mul(%x, %y)
  %b : Tensor = aten::mul(%y, %x)
  %c : Tensor = aten::mul(%a, %b)
  return (%c)
)";

TEST(Merge, SwappedInputsOnlyIfAsked) {
  std::unique_ptr<Graph> g = readGraph(kSwapped);
  Diagnostics diagnostics;
  RewriteContext context(*g, allOps(), diagnostics);
  EXPECT_FALSE(mergeCommonSubexpressions(*g, context));
  context.arguments["commutative"] = true;
  EXPECT_TRUE(mergeCommonSubexpressions(*g, context));
  EXPECT_EQ(graphText(*g), printed(R"(graph(%x : Tensor, %y : Tensor):
  %a : Tensor = aten::mul(%x, %y)
  %c : Tensor = aten::mul(%a, %a)
  return (%c)
)"));
}

TEST(Merge, ScaledSumsDoNotCommute) {
  auto merges = [](const char* factor) {
    std::unique_ptr<Graph> g =
        readGraph("graph(%x : Tensor, %y : Tensor):\n  %n : int = prim::Constant[value=" + std::string(factor) +
                  "]()\n  %a : Tensor = aten::add(%x, %y, %n)\n  %b : Tensor = aten::add(%y, %x, %n)\n"
                  "  %c : Tensor = aten::mul(%a, %b)\n  return (%c)\n");
    Diagnostics diagnostics;
    RewriteContext context(*g, allOps(), diagnostics);
    context.arguments["commutative"] = true;
    return mergeCommonSubexpressions(*g, context);
  };
  EXPECT_TRUE(merges("1"));
  EXPECT_FALSE(merges("2"));
}

TEST(Merge, NoEditWhereNothingMerges) {
  std::unique_ptr<Graph> g = readGraph(kSwapped);
  EditLog log(*g);
  Diagnostics diagnostics;
  RewriteContext context(*g, allOps(), diagnostics);
  mergeCommonSubexpressions(*g, context);
  removeDeadCode(*g, context);
  EXPECT_EQ(log.position(), 0u);
}

TEST(PoolConstants, MovesThemToTheTopInOrder) {
  expectPooled(R"(graph(%x : Tensor, %c : bool):
  %1 : int = prim::Constant[value=1]()
  %a : Tensor = aten::add(%x, %x, %1)
  %2 : int = prim::Constant[value=2]()
  %y : Tensor = prim::If(%c)
    block0():
      %two : int = prim::Constant[value=2]()
      %3 : int = prim::Constant[value=3]()
      %b : Tensor = aten::add(%a, %two, %3)
      -> (%b)
    block1():
      %4 : int = prim::Constant[value=3]()
      %d : Tensor = aten::add(%a, %2, %4)
      -> (%d)
  return (%y)
)",
               R"(graph(%x : Tensor, %c : bool):
  %1 : int = prim::Constant[value=1]()
  %two : int = prim::Constant[value=2]()
  %3 : int = prim::Constant[value=3]()
  %a : Tensor = aten::add(%x, %x, %1)
  %y : Tensor = prim::If(%c)
    block0():
      %b : Tensor = aten::add(%a, %two, %3)
      -> (%b)
    block1():
      %d : Tensor = aten::add(%a, %two, %3)
      -> (%d)
  return (%y)
)");
}

TEST(PoolConstants, LeavesPooledOnesAlone) {
  const char* text = R"(graph(%x : Tensor):
  %1 : int = prim::Constant[value=1]()
  %2 : float = prim::Constant[value=1.]()
  %a : Tensor = aten::add(%x, %2, %1)
  return (%a)
)";
  expectPooled(text, text);
}

// A list that is written is another one in each iteration.
TEST(PoolConstants, LeavesWhatIsWritten) {
  const char* text = R"(graph(%n : int):
  %true : bool = prim::Constant[value=1]()
   = prim::Loop(%n, %true)
    block0(%i : int):
      %l : int[] = prim::Constant[value=[1, 2]]()
      %m : int[] = aten::append(%l, %i)
       = prim::Print(%m)
      -> (%true)
  return (%n)
)";
  expectPooled(text, text);
}

}  // namespace
}  // namespace tscompile::test
