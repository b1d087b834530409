// What removeDeadCode takes away, and what it must leave.
#include "ir/graph/printer.h"
#include "tests/support/pass_checks.h"

#include <gtest/gtest.h>

namespace tscompile::test {
namespace {

void expectLeft(const std::string& before, const std::string& after) {
  EXPECT_EQ(afterPass(removeDeadCode, before), printed(after));
}

TEST(RemoveDeadCode, DropsChainsThatNothingUses) {
  expectLeft(R"(graph(%x : Tensor):
  %one : int = prim::Constant[value=1]()
  %dead : Tensor = aten::relu(%x)
  %deader : Tensor = aten::neg(%dead)
  %y : Tensor = aten::neg(%x)
  return (%y)
)",
             R"(graph(%x : Tensor):
  %y : Tensor = aten::neg(%x)
  return (%y)
)");
}

TEST(RemoveDeadCode, LeavesAGraphWithoutDeadCodeAlone) {
  const char* text = R"(graph(%x : Tensor, %c : bool):
  %y : Tensor = prim::If(%c)
    block0():
      %a : Tensor = aten::relu(%x)
      -> (%a)
    block1():
      -> (%x)
  return (%y)
)";
  expectLeft(text, text);
}

TEST(RemoveDeadCode, DropsResultsOfBranches) {
  expectLeft(R"(graph(%x : Tensor, %c : bool):
  %y : Tensor, %unused : Tensor, %z : Tensor = prim::If(%c)
    block0():
      %a : Tensor = aten::relu(%x)
      %b : Tensor = aten::neg(%x)
      -> (%a, %b, %x)
    block1():
      %d : Tensor = aten::neg(%x)
      -> (%x, %d, %x)
  return (%z, %y)
)",
             R"(graph(%x : Tensor, %c : bool):
  %y : Tensor, %z : Tensor = prim::If(%c)
    block0():
      %a : Tensor = aten::relu(%x)
      -> (%a, %x)
    block1():
      -> (%x, %x)
  return (%z, %y)
)");
}

TEST(RemoveDeadCode, DropsWholeBranchesAndLoops) {
  expectLeft(R"(graph(%x : Tensor, %c : bool):
  %n : int = prim::Constant[value=3]()
  %true : bool = prim::Constant[value=1]()
  %y : Tensor = prim::If(%c)
    block0():
      %a : Tensor = aten::relu(%x)
      -> (%a)
    block1():
      %s : Tensor = prim::Loop(%n, %true, %x)
        block0(%i : int, %t : Tensor):
          %u : Tensor = aten::relu(%t)
          -> (%true, %u)
      -> (%s)
  return (%x)
)",
             R"(graph(%x : Tensor, %c : bool):
  return (%x)
)");
}

TEST(RemoveDeadCode, DropsCarriedValuesThatOnlyFeedThemselves) {
  expectLeft(R"(graph(%x : Tensor):
  %n : int = prim::Constant[value=3]()
  %true : bool = prim::Constant[value=1]()
  %a : Tensor, %b : Tensor, %d : Tensor = prim::Loop(%n, %true, %x, %x, %x)
    block0(%i : int, %p : Tensor, %q : Tensor, %r : Tensor):
      %u : Tensor = aten::relu(%p)
      %v : Tensor = aten::add(%q, %p, %n)
      %w : Tensor = aten::add(%v, %r, %n)
      -> (%true, %r, %w, %u)
  return (%a)
)",
             R"(graph(%x : Tensor):
  %n : int = prim::Constant[value=3]()
  %true : bool = prim::Constant[value=1]()
  %a : Tensor, %d : Tensor = prim::Loop(%n, %true, %x, %x)
    block0(%i : int, %p : Tensor, %r : Tensor):
      %u : Tensor = aten::relu(%p)
      -> (%true, %r, %u)
  return (%a)
)");
}

TEST(RemoveDeadCode, KeepsEffectsAndWhatLeadsToThem) {
  const char* text = R"(graph(%x : Tensor, %c : bool):
  %n : int = prim::Constant[value=2]()
  %true : bool = prim::Constant[value=1]()
  %message : str = prim::Constant[value="no"]()
  %none : NoneType = prim::Constant()
   = prim::Loop(%n, %true)
    block0(%i : int):
       = prim::If(%c)
        block0():
           = prim::RaiseException(%message, %none)
          -> ()
        block1():
           = prim::Print(%i)
          -> ()
      -> (%true)
  %drawn : Tensor = aten::rand_like(%x, %none, %none, %none, %none, %none)
  return (%x)
)";
  expectLeft(text, text);
}

TEST(RemoveDeadCode, KeepsWritesThatSomebodySees) {
  const char* text = R"(graph(%x : Tensor, %y : Tensor):
  %n : int = prim::Constant[value=0]()
  %1 : Tensor = aten::zero_(%x)
  %a : Tensor = aten::relu(%y)
  %v : Tensor = aten::unsqueeze(%a, %n)
  %2 : Tensor = aten::zero_(%v)
  return (%a)
)";
  expectLeft(text, text);
}

TEST(RemoveDeadCode, KeepsNormalizationThatTrains) {
  const char* text = R"(graph(%x : Tensor, %m : Tensor, %v : Tensor, %eps : float):
  %on : bool = prim::Constant[value=1]()
  %none : NoneType = prim::Constant()
  %1 : Tensor = aten::batch_norm(%x, %none, %none, %m, %v, %on, %eps, %eps, %on)
  return (%x)
)";
  expectLeft(text, text);
}

// Random numbers that are drawn, or not, change those that are drawn later.
TEST(RemoveDeadCode, DropsWhatDrawsNothing) {
  auto text = [](const char* train) {
    return std::string(R"(graph(%x : Tensor, %h : Tensor, %w : Tensor[], %p : float, %asked : bool):
  %on : bool = prim::Constant[value=1]()
  %off : bool = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %y : Tensor, %z : Tensor = aten::gru(%x, %h, %w, %on, %one, %p, )") +
           train + R"(, %off, %off)
  return (%x)
)";
  };
  for (const char* train : {"%on", "%asked"})
    EXPECT_NE(afterPass(removeDeadCode, text(train)).find("aten::gru"), std::string::npos);
  EXPECT_EQ(afterPass(removeDeadCode, text("%off")).find("aten::gru"), std::string::npos);
}

TEST(RemoveDeadCode, DropsWritesToMemoryThatNobodyReads) {
  expectLeft(R"(graph(%x : Tensor, %c : bool):
  %a : Tensor = aten::relu(%x)
  %b : Tensor = aten::relu_(%a)
  %list : Tensor[] = prim::ListConstruct(%b)
   = prim::If(%c)
    block0():
      %l : Tensor[] = aten::append(%list, %x)
      %d : Tensor = aten::zero_(%a)
      -> ()
    block1():
      -> ()
  return (%x)
)",
             R"(graph(%x : Tensor, %c : bool):
  return (%x)
)");
}

TEST(RemoveDeadCode, OneWriteMayKeepAnother) {
  expectLeft(R"(graph(%x : Tensor):
  %n : int = prim::Constant[value=1]()
  %a : Tensor = aten::relu(%x)
  %b : Tensor = aten::neg(%x)
  %d : Tensor = aten::neg(%x)
  %1 : Tensor = aten::add_(%a, %x, %n)
  %2 : Tensor = aten::add_(%b, %a, %n)
  %3 : Tensor = aten::add_(%d, %a, %n)
  return (%b)
)",
             R"(graph(%x : Tensor):
  %n : int = prim::Constant[value=1]()
  %a : Tensor = aten::relu(%x)
  %b : Tensor = aten::neg(%x)
  %1 : Tensor = aten::add_(%a, %x, %n)
  %2 : Tensor = aten::add_(%b, %a, %n)
  return (%b)
)");
}

TEST(RemoveDeadCode, DeepNestingCostsNoStack) {
  std::string text = "graph(%x : Tensor, %c : bool):\n", end;
  for (int depth = 0; depth < 2000; ++depth)
    text += " = prim::If(%c)\nblock0():\n", end = "-> ()\nblock1():\n-> ()\n" + end;
  std::unique_ptr<Graph> graph = readGraph(text + " = prim::Print(%x)\n" + end + "return (%x)\n");
  EXPECT_FALSE(applyPass(removeDeadCode, *graph));
  graph = readGraph(text + end + "return (%x)\n");
  EXPECT_TRUE(applyPass(removeDeadCode, *graph));
  EXPECT_EQ(graph->nodeCount(), 0u);
}

}  // namespace
}  // namespace tscompile::test
