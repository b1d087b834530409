// What the alias analysis tells of views, writes, containers, branches and loops.
#include "ir/analysis/alias.h"

#include "frontend/text/parse.h"
#include "ir/support/diagnostic_printer.h"
#include "runtime/registry.h"

#include <gtest/gtest.h>

namespace tscompile {
namespace {

class Aliases : public ::testing::Test {
 protected:
  void analyse(const char* text) {
    Diagnostics diagnostics;
    ParseOptions options;
    options.registry = &allOps();
    Result<std::unique_ptr<Graph>> read = parseGraph(SourceFile::make("text", text), diagnostics, options);
    ASSERT_TRUE(read.ok()) << renderDiagnostics(diagnostics, "test");
    graph_ = std::move(*read);
    alias_ = std::make_unique<AliasAnalysis>(*graph_, allOps());
  }
  bool share(const char* a, const char* b) { return alias_->mayShareMemory(graph_->find(a), graph_->find(b)); }
  bool conflict(const char* a, const char* b) {
    return alias_->conflict(graph_->find(a)->node(), graph_->find(b)->node());
  }
  bool written(const char* a) { return alias_->isWritten(graph_->find(a)); }

  std::unique_ptr<Graph> graph_;
  std::unique_ptr<AliasAnalysis> alias_;
};

TEST_F(Aliases, ViewsShareWithTheirBase) {
  analyse(R"(graph(%x : Tensor, %n : int):
  %a : Tensor = aten::relu(%x)
  %v : Tensor = aten::select(%a, %n, %n)
  %b : Tensor = aten::neg(%v)
  return (%b)
)");
  EXPECT_TRUE(share("a", "v"));
  EXPECT_FALSE(share("x", "a"));
  EXPECT_FALSE(share("b", "v"));
  EXPECT_FALSE(alias_->graphHasWrites());
  EXPECT_FALSE(conflict("a", "b"));
}

// A list of numbers is no tensor; but it may be the same list under another name.
TEST_F(Aliases, PlainListsAreApartFromTensors) {
  analyse(R"(graph(%self : __torch__.M, %x : Tensor, %sizes : int[], %others : int[], %names : Dict(str, int),
      %tensors : Tensor[], %any : Any, %n : int):
  %w : Tensor = aten::relu_(%x)
  %len : int = aten::len(%sizes)
  %first : Tensor = aten::__getitem__(%tensors, %n)
  %held : int[] = prim::GetAttr[name="held"](%self)
  %inside : int[] = prim::unchecked_cast(%any)
  %m : int[] = aten::append(%others, %n)
  %keys : str[] = aten::keys(%names)
  %u : Tensor = other::unknown(%x)
  return (%w)
)");
  EXPECT_FALSE(conflict("w", "len"));
  EXPECT_FALSE(conflict("w", "keys"));
  EXPECT_FALSE(share("x", "sizes"));
  EXPECT_FALSE(share("first", "sizes"));
  EXPECT_TRUE(share("first", "x"));
  for (const char* list : {"others", "held", "inside", "names"}) EXPECT_TRUE(share("sizes", list)) << list;
  EXPECT_TRUE(conflict("m", "len"));
  EXPECT_TRUE(conflict("u", "len"));
  EXPECT_TRUE(alias_->hasEffects(graph_->find("m")->node()));
}

// So are lists of such lists; one that is taken out is any that comes from elsewhere, and one that is put in, too.
TEST_F(Aliases, NestedPlainListsAreApartFromTensors) {
  analyse(R"(graph(%x : Tensor, %groups : (int[], int[])[], %lists : int[][], %sizes : int[], %n : int):
  %w : Tensor = aten::relu_(%x)
  %len : int = aten::len(%groups)
  %both : (int[], int[]) = aten::__getitem__(%groups, %n)
  %known : int[], %unknown : int[] = prim::TupleUnpack(%both)
  %knownLen : int = aten::len(%known)
  %m : int[] = aten::append(%sizes, %n)
  %made : int[] = prim::ListConstruct(%n)
  %other : int[] = prim::ListConstruct(%n)
  %put : int[][] = aten::append(%lists, %made)
  %got : int[] = aten::__getitem__(%lists, %n)
  %q : int[] = aten::append(%got, %n)
  return (%w, %other)
)");
  EXPECT_FALSE(conflict("w", "len"));
  EXPECT_FALSE(conflict("w", "knownLen"));
  EXPECT_TRUE(share("known", "sizes"));
  EXPECT_TRUE(conflict("m", "knownLen"));
  EXPECT_TRUE(share("got", "made"));
  EXPECT_TRUE(written("made"));
  EXPECT_FALSE(written("other"));
}

TEST_F(Aliases, EnginesGiveNewMemoryOrViews) {
  analyse(R"(graph(%x : Tensor, %y : Tensor):
  %w : Tensor = prim::Constant[value={1}]()
  %a : Tensor, %v : Tensor, %c : Tensor = tscompile::Engine_0(%y, %w)
  %b : Tensor = tscompile::Engine_1(%a)
  %r : Tensor = aten::relu_(%a)
  return (%b, %v, %r, %c)
with tscompile::Engine_0 = graph(%p : Tensor, %q : Tensor):
  %0 : int = prim::Constant[value=0]()
  %1 : Tensor = aten::mul(%p, %q)
  %2 : Tensor = aten::select(%p, %0, %0)
  %3 : Tensor = aten::neg(%1)
  return (%1, %2, %3)
with tscompile::Engine_1 = graph(%p : Tensor):
  %1 : Tensor = aten::neg_(%p)
  return (%1)
)");
  EXPECT_TRUE(share("y", "v"));
  EXPECT_FALSE(share("y", "c"));
  EXPECT_FALSE(written("w"));    // what it reads stays as it is
  EXPECT_TRUE(share("a", "b"));  // one that writes may do anything
  EXPECT_TRUE(conflict("a", "b"));
}

TEST_F(Aliases, TheGreaterOfTwoListsIsOneOfThem) {
  analyse(R"(graph(%n : int):
  %a : int[] = prim::ListConstruct(%n)
  %b : int[] = prim::ListConstruct(%n, %n)
  %c : int[] = prim::max(%a, %b)
  %d : int[] = aten::append(%c, %n)
  return (%a)
)");
  EXPECT_TRUE(share("a", "c"));
  EXPECT_TRUE(share("b", "c"));
  EXPECT_FALSE(share("a", "b"));
  EXPECT_TRUE(written("a"));
}

// What others hold a view of, or a list with it, they can write.
TEST_F(Aliases, WhatEscapesUnderOneNameEscapesUnderAll) {
  analyse(R"(graph(%self : __torch__.M, %held : Tensor[], %x : Tensor, %n : int):
  %a : Tensor = aten::relu(%x)
  %v : Tensor = aten::unsqueeze(%a, %n)
   = prim::SetAttr[name="v"](%self, %v)
  %b : Tensor = aten::relu(%x)
  %l : Tensor[] = prim::ListConstruct(%b)
   = prim::SetAttr[name="l"](%self, %l)
  %c : Tensor = aten::relu(%x)
  %w : Tensor = aten::unsqueeze(%c, %n)
  %m : Tensor[] = aten::append(%held, %w)
  %d : Tensor = aten::relu(%x)
  %r : Tensor = prim::CallMethod[name="write"](%self)
  return (%a, %b, %c, %d)
)");
  for (const char* name : {"a", "b", "c"}) EXPECT_TRUE(written(name)) << name;
  EXPECT_FALSE(written("d"));
}

TEST_F(Aliases, WritesThroughViewsReachTheBase) {
  analyse(R"(graph(%x : Tensor, %n : int):
  %a : Tensor = aten::relu(%x)
  %c : Tensor = aten::relu(%x)
  %before : Tensor = aten::neg(%a)
  %v : Tensor = aten::select(%a, %n, %n)
  %w : Tensor = aten::add_(%v, %n, %n)
  %after : Tensor = aten::neg(%a)
  %other : Tensor = aten::neg(%c)
  return (%before, %after, %other)
)");
  EXPECT_TRUE(written("a"));
  EXPECT_FALSE(written("c"));
  EXPECT_TRUE(conflict("w", "after"));
  EXPECT_TRUE(conflict("before", "w"));
  EXPECT_FALSE(conflict("before", "after"));
  EXPECT_FALSE(conflict("w", "other"));
}

// Schemas do not say so.
TEST_F(Aliases, TrainingWritesRunningStatistics) {
  analyse(
      R"(graph(%x : Tensor, %m : Tensor, %v : Tensor, %p : Tensor, %q : Tensor, %r : Tensor, %eps : float, %asked : bool):
  %on : bool = prim::Constant[value=1]()
  %off : bool = prim::Constant[value=0]()
  %none : NoneType = prim::Constant()
  %w : Float(3) = prim::Constant[value={1}]()
  %a : Tensor = aten::batch_norm(%x, %none, %none, %m, %w, %on, %eps, %eps, %off)
  %b : Tensor = aten::batch_norm(%x, %none, %none, %p, %p, %off, %eps, %eps, %off)
  %c : Tensor = aten::instance_norm(%x, %none, %none, %q, %none, %asked, %eps, %eps, %off)
  %d : Tensor = aten::neg(%m)
  %e : Tensor = aten::neg(%v)
  return (%a, %b, %c, %d, %e)
)");
  for (const char* name : {"m", "q"}) EXPECT_TRUE(written(name)) << name;
  EXPECT_FALSE(written("w"));  // weights are kept
  EXPECT_TRUE(conflict("a", "d"));
  // Inputs may be the same tensor; what is new is not.
  for (const char* name : {"a", "b", "c", "d"}) EXPECT_FALSE(written(name)) << name;
}

TEST_F(Aliases, InputsMayBeTheSame) {
  analyse(R"(graph(%x : Tensor, %y : Tensor, %n : int):
  %w : Tensor = aten::add_(%x, %n, %n)
  %z : Tensor = aten::neg(%y)
  return (%z)
)");
  EXPECT_TRUE(share("x", "y"));
  EXPECT_TRUE(conflict("w", "z"));
}

TEST_F(Aliases, ListsHoldWhatIsPutIntoThem) {
  analyse(R"(graph(%x : Tensor, %n : int):
  %a : Tensor = aten::relu(%x)
  %b : Tensor = aten::relu(%x)
  %l : Tensor[] = prim::ListConstruct(%a)
  %k : Tensor[] = aten::append(%l, %b)
  %e : Tensor = aten::__getitem__(%l, %n)
  %w : Tensor = aten::add_(%e, %n, %n)
  %ra : Tensor = aten::neg(%a)
  %rb : Tensor = aten::neg(%b)
  return (%ra, %rb)
)");
  EXPECT_TRUE(share("e", "a"));
  EXPECT_TRUE(share("e", "b"));
  EXPECT_TRUE(conflict("w", "ra"));
  EXPECT_TRUE(conflict("w", "rb"));
  EXPECT_TRUE(conflict("k", "e"));
}

TEST_F(Aliases, BranchesGiveEitherValue) {
  analyse(R"(graph(%x : Tensor, %c : bool, %n : int):
  %a : Tensor = aten::relu(%x)
  %b : Tensor = aten::relu(%x)
  %d : Tensor = aten::relu(%x)
  %y : Tensor = prim::If(%c)
    block0():
      -> (%a)
    block1():
      -> (%b)
  %w : Tensor = aten::add_(%y, %n, %n)
  return (%y)
)");
  EXPECT_TRUE(share("y", "a"));
  EXPECT_TRUE(share("y", "b"));
  EXPECT_FALSE(share("y", "d"));
  EXPECT_TRUE(written("a"));
  EXPECT_FALSE(written("d"));
}

TEST_F(Aliases, LoopsCarryValuesAround) {
  analyse(R"(graph(%x : Tensor, %n : int, %t : bool):
  %a : Tensor = aten::relu(%x)
  %b : Tensor = aten::relu(%x)
  %p : Tensor, %q : Tensor = prim::Loop(%n, %t, %a, %b)
    block0(%i : int, %u : Tensor, %v : Tensor):
      %w : Tensor = aten::add_(%u, %n, %n)
      -> (%t, %v, %u)
  return (%p, %q)
)");
  // The body exchanges its values, so either can be the one that is written.
  EXPECT_TRUE(written("a"));
  EXPECT_TRUE(written("b"));
  EXPECT_TRUE(share("p", "b"));
  EXPECT_TRUE(share("q", "a"));
  EXPECT_FALSE(share("p", "x"));
}

TEST_F(Aliases, EffectsKeepTheirOrder) {
  analyse(R"(graph(%x : Tensor, %n : int, %s : int[]):
  %none : NoneType = prim::Constant()
  %r1 : Tensor = aten::rand(%s, %none, %none, %none, %none)
  %r2 : Tensor = aten::rand(%s, %none, %none, %none, %none)
  %y : Tensor = aten::relu(%x)
  %u : Tensor = mine::unknown(%x)
  return (%r1, %r2, %y, %u)
)");
  EXPECT_TRUE(conflict("r1", "r2"));
  EXPECT_FALSE(conflict("r1", "y"));
  EXPECT_TRUE(alias_->hasEffects(graph_->find("u")->node()));
  EXPECT_TRUE(share("u", "x"));
}

TEST_F(Aliases, ResultsThatMayBeArgumentsAreKnown) {
  analyse(R"(graph(%x : Tensor, %p : float, %no : bool):
  %a : Tensor = aten::relu(%x)
  %y : Tensor = aten::dropout(%a, %p, %no)
  return (%y)
)");
  EXPECT_TRUE(share("a", "y"));
}

TEST_F(Aliases, NumbersReferToNothing) {
  EXPECT_FALSE(AliasAnalysis::canRefer(types().integer));
  EXPECT_FALSE(AliasAnalysis::canRefer(optionalType(types().floating)));
  EXPECT_TRUE(AliasAnalysis::canRefer(types().tensor));
  EXPECT_TRUE(AliasAnalysis::canRefer(listType(types().integer)));
}

TEST_F(Aliases, TensorsThatTakeOverMemoryShareIt) {
  analyse(R"(graph(%x : Tensor):
  %a : Tensor = aten::relu(%x)
  %b : Tensor = aten::neg(%x)
  %c : Tensor = aten::exp(%x)
   = aten::set_data(%a, %b)
  return (%a, %b, %c)
)");
  EXPECT_TRUE(share("a", "b"));
  EXPECT_FALSE(share("a", "c"));
  analyse(R"(graph(%x : Tensor):
  %a : Tensor = aten::relu(%x)
  %b : Tensor = aten::neg(%x)
  %c : Tensor = aten::set_(%a, %b)
  return (%a, %b, %c)
)");
  EXPECT_TRUE(share("a", "b"));
}

// aten::select of a list gives one of its items, as aten::__getitem__ does.
TEST_F(Aliases, ItemsOfListsAreThoseThatWerePutIn) {
  analyse(R"(graph(%x : Tensor, %y : Tensor, %i : int):
  %a : Tensor = aten::relu(%x)
  %b : Tensor = aten::neg(%x)
  %list : Tensor[] = prim::ListConstruct(%a)
  %c : Tensor = aten::select(%list, %i)
  return (%c, %b, %y)
)");
  EXPECT_TRUE(share("a", "c"));
  EXPECT_FALSE(share("b", "c"));
  EXPECT_FALSE(share("y", "c"));
}

}  // namespace
}  // namespace tscompile
