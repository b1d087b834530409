// What models remember from call to call is taken out of their graphs where it is used as caches are.
#include "passes/serving/drop_caches.h"

#include "frontend/text/parse.h"
#include "ir/graph/printer.h"
#include "ir/support/diagnostic_printer.h"
#include "runtime/registry.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

namespace tscompile::test {
namespace {

std::unique_ptr<Graph> parsed(const std::string& text) {
  Diagnostics diagnostics;
  Result<std::unique_ptr<Graph>> graph = parseGraph(text, diagnostics);
  EXPECT_TRUE(graph) << renderDiagnostics(diagnostics, "test");
  return graph ? std::move(*graph) : nullptr;
}

std::string withCache(const std::string& use) {
  return "graph(%x : Tensor, %past : Tensor):\n  %1 : int = prim::Constant[value=1]()\n"
         "  %2 : int = prim::Constant[value=2]()\n" +
         use + "  return (%y)\n";
}
const std::string kJoined =
    "  %both : Tensor[] = prim::ListConstruct(%past, %x)\n  %all : Tensor = aten::cat(%both, %2)\n";

TEST(DropCaches, WhatIsJoinedInFrontGoes) {
  std::unique_ptr<Graph> g =
      parsed(withCache(kJoined + "  %n : int = aten::size(%past, %2)\n  %y : Tensor = aten::add(%all, %n, %1)\n"));
  ASSERT_TRUE(dropCaches(*g, allOps()));
  ASSERT_EQ(g->inputs().size(), 1u);
  const std::string text = graphText(*g);
  EXPECT_EQ(text.find("aten::cat"), std::string::npos) << text;
  EXPECT_EQ(text.find("aten::size"), std::string::npos) << text;
  EXPECT_NE(text.find("aten::add(%x, "), std::string::npos) << text;
}

// Before, in one join with what is new, or in one of their own.
TEST(DropCaches, CachesMayBeJoinedToNothing) {
  const std::string empty =
      "  %0 : int[] = prim::Constant[value=[0]]()\n  %none : NoneType = prim::Constant()\n"
      "  %nothing : Float(0) = aten::zeros(%0, %none, %none, %none, %none)\n";
  const std::string together =
      "  %both : Tensor[] = prim::ListConstruct(%nothing, %past, %x)\n  %y : Tensor = aten::cat(%both, %2)\n";
  const std::string apart =
      "  %one : Tensor[] = prim::ListConstruct(%nothing, %past)\n  %same : Tensor = aten::cat(%one, %2)\n"
      "  %both : Tensor[] = prim::ListConstruct(%same, %x)\n  %y : Tensor = aten::cat(%both, %2)\n";
  for (const std::string& use : {together, apart}) {
    std::unique_ptr<Graph> g = parsed(withCache(empty + use));
    ASSERT_TRUE(dropCaches(*g, allOps())) << use;
    ASSERT_EQ(g->inputs().size(), 1u);
    EXPECT_EQ(graphText(*g).find("aten::cat"), std::string::npos) << graphText(*g);
  }
}

// A window sees no more of them than their last tokens, and has none of one that is empty.
TEST(DropCaches, WindowsOfCachesAreJoinedAsWell) {
  const std::string part =
      "  %0 : int = prim::Constant[value=0]()\n  %first : int = prim::Constant[value=-7]()\n"
      "  %max : int = prim::Constant[value=9223372036854775807]()\n"
      "  %whole : Tensor = aten::slice(%past, %0, %0, %max, %1)\n"
      "  %last : Tensor = aten::slice(%whole, {}, %first, %max, %1)\n"
      "  %both : Tensor[] = prim::ListConstruct(%last, %x)\n  %y : Tensor = aten::cat(%both, %2)\n";
  std::unique_ptr<Graph> g = parsed(withCache(fmt::format(fmt::runtime(part), "%2")));
  ASSERT_TRUE(dropCaches(*g, allOps()));
  EXPECT_EQ(g->inputs().size(), 1u);
  EXPECT_EQ(graphText(*g).find("aten::cat"), std::string::npos) << graphText(*g);
  const std::string some =
      "  %n : int = aten::size(%x, %1)\n  %part : Tensor = aten::slice(%past, %1, %n, %2, %1)\n"
      "  %both : Tensor[] = prim::ListConstruct(%part, %x)\n  %y : Tensor = aten::cat(%both, %2)\n";
  EXPECT_FALSE(dropCaches(*parsed(withCache(some)), allOps())) << "of heads others in each call";
}

TEST(DropCaches, DictsMayHoldThem) {
  std::unique_ptr<Graph> g = parsed(
      "graph(%x : Tensor, %past : Dict(str, Tensor)):\n  %2 : int = prim::Constant[value=2]()\n"
      "  %key : str = prim::Constant[value=\"keys\"]()\n  %k : Tensor = aten::__getitem__(%past, %key)\n"
      "  %both : Tensor[] = prim::ListConstruct(%k, %x)\n  %y : Tensor = aten::cat(%both, %2)\n  return (%y)\n");
  ASSERT_TRUE(dropCaches(*g, allOps()));
  EXPECT_EQ(g->inputs().size(), 1u);
}

TEST(DropCaches, ThereAreAsManyTextsAsIds) {
  for (const char* dim : {"%0", "%minus4"}) {
    std::unique_ptr<Graph> g = parsed(
        withCache(kJoined + "  %0 : int = prim::Constant[value=0]()\n  %minus4 : int = prim::Constant[value=-4]()\n" +
                  "  %n : int = aten::size(%past, " + dim + ")\n  %y : Tensor = aten::add(%all, %n, %1)\n"));
    ASSERT_TRUE(dropCaches(*g, allOps()));
    ASSERT_EQ(g->inputs().size(), 1u);
    EXPECT_NE(graphText(*g).find("aten::size(%x, "), std::string::npos) << graphText(*g);
  }
}

// The number of tokens may be asked of the stack, or of a cache that is joined elsewhere.
TEST(DropCaches, OneTensorMayHoldAllCaches) {
  const std::string constants =
      "  %0 : int = prim::Constant[value=0]()\n  %4 : int = prim::Constant[value=4]()\n"
      "  %keys : Tensor = aten::select(%layer, %0, %0)\n  %values : Tensor = aten::select(%layer, %0, %1)\n"
      "  %both.k : Tensor[] = prim::ListConstruct(%keys, %x)\n  %k : Tensor = aten::cat(%both.k, %2)\n"
      "  %both.v : Tensor[] = prim::ListConstruct(%values, %x)\n  %v : Tensor = aten::cat(%both.v, %2)\n"
      "  %all : Tensor = aten::add(%k, %v, %1)\n";
  const std::string select =
      "  %z : int = prim::Constant[value=0]()\n  %layer : Tensor = aten::select(%past, %z, %z)\n";
  for (const std::string& asked : {std::string("  %n : int = aten::size(%past, %4)\n"),
                                   std::string("  %same : Tensor = aten::select(%layer, %0, %0)\n"
                                               "  %n : int = aten::size(%same, %2)\n")}) {
    std::unique_ptr<Graph> g =
        parsed(withCache(select + constants + asked + "  %y : Tensor = aten::add(%all, %n, %1)\n"));
    ASSERT_TRUE(dropCaches(*g, allOps())) << asked;
    ASSERT_EQ(g->inputs().size(), 1u);
    const std::string text = graphText(*g);
    EXPECT_EQ(text.find("aten::select"), std::string::npos) << text;
    EXPECT_NE(text.find("aten::add(%x, %x"), std::string::npos) << text;
  }
}

// Whatever dimensions come before those of one cache, and in whatever order these are.
TEST(DropCaches, CachesAreCutFromOneTensor) {
  struct Case {
    const char *cut, *tokens, *texts;
  };
  for (const auto& [cut, tokens, texts] : std::initializer_list<Case>{
           {"  %a : Tensor = aten::select(%past, %1, %0)\n  %one : Tensor = aten::select(%a, %1, %0)\n", "%4", "%0"},
           {"  %a : Tensor = aten::slice(%past, %0, %1, %2, %1)\n  %one : Tensor = aten::squeeze(%a, %0)\n", "%3",
            "%1"},
           {"  %a : Tensor[] = aten::chunk(%past, %2, %last)\n  %one : Tensor, %b : Tensor = prim::ListUnpack(%a)\n",
            "%2", "%0"},
           {"  %a : Tensor[] = aten::unbind(%past, %1)\n  %one : Tensor, %b : Tensor = prim::ListUnpack(%a)\n", "%3",
            "%0"},
           {"  %one : Tensor = aten::slice(%past, %last, %0, %4, %1)\n", "%2", "%0"},
           {"  %one : Tensor = aten::transpose(%past, %1, %2)\n", "%1", "%0"},
           {"  %order : int[] = prim::Constant[value=[1, 2, 0, 3]]()\n  %one : Tensor = aten::permute(%past, %order)\n",
            "%0", "%1"}}) {
    std::unique_ptr<Graph> g = parsed(withCache(
        std::string("  %0 : int = prim::Constant[value=0]()\n  %3 : int = prim::Constant[value=3]()\n"
                    "  %4 : int = prim::Constant[value=4]()\n  %last : int = prim::Constant[value=-1]()\n"
                    "  %minus2 : int = prim::Constant[value=-2]()\n") +
        cut + "  %both : Tensor[] = prim::ListConstruct(%one, %x)\n  %all : Tensor = aten::cat(%both, %minus2)\n" +
        "  %n : int = aten::size(%past, " + tokens + ")\n  %b.1 : int = aten::size(%past, " + texts +
        ")\n  %p : Tensor = aten::add(%all, %n, %1)\n  %y : Tensor = aten::add(%p, %b.1, %1)\n"));
    ASSERT_TRUE(dropCaches(*g, allOps())) << cut;
    EXPECT_EQ(g->inputs().size(), 1u) << cut;
    const std::string text = graphText(*g);
    EXPECT_NE(text.find("aten::size(%x, "), std::string::npos) << text;
    EXPECT_EQ(text.find("aten::cat"), std::string::npos) << text;
  }
}

TEST(DropCaches, OtherUsesKeepIt) {
  std::unique_ptr<Graph> ids = parsed(
      "graph(%past : Tensor, %input_ids : Tensor, %end : Tensor):\n  %1 : int = prim::Constant[value=1]()\n"
      "  %both : Tensor[] = prim::ListConstruct(%input_ids, %end)\n  %y : Tensor = aten::cat(%both, %1)\n"
      "  return (%y)\n");
  EXPECT_FALSE(dropCaches(*ids, allOps())) << "ids are no cache of what comes behind them";
  for (const std::string& use :
       {kJoined + "  %y : Tensor = aten::add(%all, %past, %1)\n",                                   // read
        kJoined + "  %n : int = aten::size(%past, %1)\n  %y : Tensor = aten::add(%all, %n, %1)\n",  // its heads
        std::string(
            "  %both : Tensor[] = prim::ListConstruct(%x, %past)\n  %y : Tensor = aten::cat(%both, %2)\n"),  // behind
        std::string("  %none : NoneType = prim::Constant()\n"  // each call forgets one token
                    "  %rest : Tensor = aten::slice(%past, %2, %1, %none, %1)\n"
                    "  %both : Tensor[] = prim::ListConstruct(%rest, %x)\n  %y : Tensor = aten::cat(%both, %2)\n"),
        std::string("  %none : NoneType = prim::Constant()\n"  // every other layer
                    "  %part : Tensor = aten::slice(%past, %1, %none, %none, %2)\n"
                    "  %both : Tensor[] = prim::ListConstruct(%part, %x)\n  %y : Tensor = aten::cat(%both, %2)\n"),
        std::string("  %y : Tensor = aten::add(%x, %past, %1)\n")}) {
    std::unique_ptr<Graph> g = parsed(withCache(use));
    const std::string before = graphText(*g);
    EXPECT_FALSE(dropCaches(*g, allOps())) << use;
    EXPECT_EQ(graphText(*g), before);
  }
}

// A number that tokens are counted from is their place; one that a slice begins with may be any, unless there are
// caches.
TEST(BeginAtFirstPlace, WithoutCachesTokensAreCountedFromIt) {
  const std::string begin =
      "graph(%x : Tensor, %k : int):\n  %none : NoneType = prim::Constant()\n"
      "  %1 : int = prim::Constant[value=1]()\n";
  const std::string counted =
      "  %n : int = aten::size(%x, %1)\n  %end : int = aten::add(%k, %n)\n"
      "  %y : Tensor = aten::arange(%k, %end, %none, %none, %none, %none)\n  return (%y)\n";
  const std::string cut = "  %y : Tensor = aten::slice(%x, %1, %k, %none, %1)\n  return (%y)\n";
  for (bool hasCaches : {false, true}) {
    EXPECT_TRUE(beginAtFirstPlace(*parsed(begin + counted), hasCaches));
    EXPECT_EQ(beginAtFirstPlace(*parsed(begin + cut), hasCaches), hasCaches);
  }
  std::unique_ptr<Graph> ids = parsed(
      "graph(%x : Tensor, %w : Float(9, 4), %n : int):\n  %none : NoneType = prim::Constant()\n"
      "  %no : bool = prim::Constant[value=0]()\n  %1 : int = prim::Constant[value=1]()\n"
      "  %e : Tensor = aten::embedding(%w, %x, %1, %no, %no)\n"
      "  %count : Tensor = aten::arange(%n, %none, %none, %none, %none)\n"
      "  %y : Tensor = aten::add(%x, %count, %1)\n  return (%e, %y)\n");
  EXPECT_FALSE(beginAtFirstPlace(*ids, true)) << "ids that are hashed with their places";
}

std::string withAttribute(const std::string& rest) {
  return "graph(%self : __torch__.Rotary, %x : Tensor):\n  %no : bool = prim::Constant[value=0]()\n"
         "  %f : Tensor = prim::GetAttr[name=\"freq\"](%self)\n" +
         rest + "  return (%y)\n";
}

TEST(DropCaches, AttributesThatAreOnlyWrittenStayAsTheyAre) {
  std::unique_ptr<Graph> g = parsed(withAttribute("  %y : Tensor = aten::copy_(%f, %x, %no)\n"));
  ASSERT_TRUE(writeCopies(*g));
  const std::string text = graphText(*g);
  EXPECT_NE(text.find("aten::clone(%f"), std::string::npos) << text;
  EXPECT_EQ(text.find("aten::copy_(%f"), std::string::npos) << text;
  for (const char* rest :
       {"  %z : Tensor = aten::copy_(%f, %x, %no)\n  %y : Tensor = aten::relu(%f)\n",
        "  %g : Tensor = prim::GetAttr[name=\"freq\"](%self)\n  %z : Tensor = aten::copy_(%f, %x, %no)\n"
        "  %y : Tensor = aten::relu(%g)\n",
        "  %y : Tensor = aten::copy_(%x, %f, %no)\n"})
    EXPECT_FALSE(writeCopies(*parsed(withAttribute(rest)))) << rest;
}

}  // namespace
}  // namespace tscompile::test
