// Graphs that write what they keep of earlier tokens become graphs of whole texts.
#include "passes/serving/static_caches.h"

#include "frontend/text/parse.h"
#include "ir/graph/printer.h"
#include "ir/support/diagnostic_printer.h"
#include "passes/serving/forms/example_sizes.h"
#include "passes/serving/one_token.h"
#include "passes/serving/several_texts.h"
#include "passes/serving/states/state_sizes.h"
#include "runtime/registry.h"

#include <gtest/gtest.h>

namespace tscompile::test {
namespace {

std::unique_ptr<Graph> graphOfCaches(const std::string& text) {
  Diagnostics diagnostics;
  Result<std::unique_ptr<Graph>> graph = parseGraph(text, diagnostics);
  EXPECT_TRUE(graph) << renderDiagnostics(diagnostics, "test");
  return graph ? std::move(*graph) : nullptr;
}

std::string writingKeys(const std::string& ids, const std::string& rest) {
  return "graph(%self : __torch__.Decoder, %ids : " + ids +
         ", %input_pos : Tensor):\n  %1 : int = prim::Constant[value=1]()\n"
         "  %k : Tensor = prim::GetAttr[name=\"keys\"](%self)\n" +
         rest + "  return (%y)\n";
}
const std::string kKeysWritten = "  %all : Tensor = aten::index_copy_(%k, %1, %input_pos, %ids)\n";

TEST(StaticCaches, PlacesCountAndWhatIsReadAgainIsWhatWasWritten) {
  std::unique_ptr<Graph> g =
      graphOfCaches(writingKeys("Tensor", kKeysWritten + "  %again : Tensor = prim::GetAttr[name=\"keys\"](%self)\n"
                                                         "  %y : Tensor = aten::relu(%again)\n"));
  ASSERT_EQ(readWholeTexts(*g, allOps()), StaticCaches::WholeText);
  EXPECT_EQ(g->inputs().size(), 2u);
  const std::string text = graphText(*g);
  EXPECT_NE(text.find("aten::arange("), std::string::npos) << text;
  const size_t copy = text.find(" : Tensor = aten::clone(%k"), name = text.rfind('%', copy);
  ASSERT_NE(copy, std::string::npos) << text;
  EXPECT_NE(text.find("aten::relu(" + text.substr(name, copy - name) + ")"), std::string::npos) << text;
}

// A number by any name, where keys are written at it.
TEST(StaticCaches, PlacesMayBeNumbers) {
  std::unique_ptr<Graph> g = graphOfCaches(
      "graph(%self : __torch__.Decoder, %ids : Long(1, 1), %t : Long()):\n  %1 : int = prim::Constant[value=1]()\n"
      "  %one : int[] = prim::Constant[value=[1]]()\n  %k : Tensor = prim::GetAttr[name=\"keys\"](%self)\n"
      "  %at : Tensor = aten::reshape(%t, %one)\n  %all : Tensor = aten::index_copy_(%k, %1, %at, %ids)\n"
      "  %y : Tensor = aten::relu(%k)\n  return (%y)\n");
  ASSERT_EQ(readWholeTexts(*g, allOps()), StaticCaches::OneByOne);
  EXPECT_EQ(g->inputs().size(), 2u) << graphText(*g);
}

TEST(StaticCaches, AGraphForOneTokenRunsForEach) {
  std::unique_ptr<Graph> g =
      graphOfCaches(writingKeys("Long(1, 1)", kKeysWritten + "  %y : Tensor = aten::relu(%k)\n"));
  ASSERT_EQ(readWholeTexts(*g, allOps()), StaticCaches::OneByOne);
  const std::string text = graphText(*g);
  EXPECT_NE(text.find("prim::Loop("), std::string::npos) << text;
  EXPECT_EQ(text.find("%input_pos"), std::string::npos) << text;
}

const std::string kReplaced =
    "  %all : Tensor = aten::index_copy(%k, %1, %input_pos, %ids)\n"
    "  %n : NoneType = prim::SetAttr[name=\"keys\"](%self, %all)\n"
    "  %again : Tensor = prim::GetAttr[name=\"keys\"](%self)\n  %y : Tensor = aten::relu(%again)\n";

TEST(StaticCaches, AttributesThatBecomeOtherTensorsAreReadAfterIt) {
  std::unique_ptr<Graph> g = graphOfCaches(writingKeys("Tensor", kReplaced));
  ASSERT_EQ(readWholeTexts(*g, allOps()), StaticCaches::WholeText);
  const std::string text = graphText(*g);
  EXPECT_EQ(text.find("prim::SetAttr"), std::string::npos) << text;
  EXPECT_NE(text.find("aten::relu(%all)"), std::string::npos) << text;
}

TEST(StaticCaches, OtherGraphsStayAsTheyAre) {
  for (const auto& [ids, rest] : {std::pair("Tensor", std::string("  %y : Tensor = aten::add(%k, %ids, %1)\n")),
                                  std::pair("Long(1, 1)", kReplaced)}) {
    std::unique_ptr<Graph> g = graphOfCaches(writingKeys(ids, rest));
    const std::string before = graphText(*g);
    EXPECT_EQ(readWholeTexts(*g, allOps()), StaticCaches::None) << rest;
    EXPECT_EQ(graphText(*g), before);
  }
}

TEST(StaticCaches, MasksAsLongAsTheyAreShowWhatIsWritten) {
  const std::string rest =
      "  %all : Float(1, 6) = aten::index_copy_(%k, %1, %input_pos, %ids)\n"
      "  %y : Tensor = aten::mul(%all, %attention_mask)\n";
  for (const char* ids : {"Long(1, *)", "Long(1, 1)"}) {
    std::string text = writingKeys(ids, rest);
    const std::string places = "%input_pos : Tensor";
    text.replace(text.find(places), places.size(), places + ", %attention_mask : Long(1, 6)");
    std::unique_ptr<Graph> g = graphOfCaches(text);
    StaticCacheFacts facts;
    ASSERT_NE(readWholeTexts(*g, allOps(), &facts), StaticCaches::None);
    EXPECT_EQ(facts.mask, "attention_mask");
    EXPECT_EQ(facts.tokens, 6);
    EXPECT_EQ(g->inputs().size(), 2u);
    EXPECT_NE(graphText(*g).find("aten::le("), std::string::npos) << graphText(*g);
  }
}

// Keys are written at those of one input, the first or not, and others say where the tokens of a text are.
TEST(StaticCaches, PlacesAreThoseThatKeysAreWrittenAt) {
  for (const auto& [places, isOneByOne] : {std::pair("%position_ids : Long(*), %input_pos : Long(*)", false),
                                           {"%input_pos : Long(*), %position_ids : Long(*)", false},
                                           {"%position_ids : Long(1, 1), %input_pos : Long(1)", true}}) {
    std::string text = writingKeys(isOneByOne ? "Long(1, 1)" : "Long(1, *)",
                                   kKeysWritten + "  %y : Tensor = aten::add(%all, %position_ids, %1)\n");
    const std::string one = "%input_pos : Tensor";
    text.replace(text.find(one), one.size(), places);
    std::unique_ptr<Graph> g = graphOfCaches(text);
    ASSERT_EQ(readWholeTexts(*g, allOps()), isOneByOne ? StaticCaches::OneByOne : StaticCaches::WholeText) << places;
    EXPECT_EQ(graphText(*g).find("%input_pos"), std::string::npos) << graphText(*g);
    EXPECT_EQ(g->inputs().size(), isOneByOne ? 2u : 3u) << graphText(*g);
  }
}

TEST(StaticCaches, WhatIsWrittenForTheNextCallAloneGoes) {
  std::unique_ptr<Graph> g =
      graphOfCaches(writingKeys("Tensor", kKeysWritten + "  %y : Tensor = aten::relu(%all)\n"
                                                         "  %next : Tensor = aten::add_(%k, %1, %1)\n"));
  ASSERT_EQ(readWholeTexts(*g, allOps()), StaticCaches::WholeText);
  EXPECT_EQ(graphText(*g).find("aten::add_"), std::string::npos) << graphText(*g);
}

// [1, 1, 8] -> [1, 8] -> [1, 1, 2, 4] -> [1, 2, 1, 4]
TEST(OneToken, SizesOfTokensBecomeOpen) {
  const std::string ids = "graph(%ids : Long(1, 1), %table : Float(9, 8)):\n";
  const std::string rest =
      "  %m1 : int = prim::Constant[value=-1]()\n  %1 : int = prim::Constant[value=1]()\n"
      "  %2 : int = prim::Constant[value=2]()\n  %no : bool = prim::Constant[value=0]()\n"
      "  %rows : int[] = prim::Constant[value=[1, 8]]()\n  %heads : int[] = prim::Constant[value=[1, 1, 2, 4]]()\n"
      "  %x : Float(1, 1, 8) = aten::embedding(%table, %ids, %m1, %no, %no)\n"
      "  %r : Float(1, 8) = aten::reshape(%x, %rows)\n  %h : Float(1, 1, 2, 4) = aten::reshape(%r, %heads)\n"
      "  %y : Float(1, 2, 1, 4) = aten::transpose(%h, %1, %2)\n  return (%y)\n";
  std::unique_ptr<Graph> g = graphOfCaches(ids + rest);
  ASSERT_TRUE(widenToTexts(*g, allOps()));
  std::string text = graphText(*g);
  EXPECT_NE(text.find("%ids : Long(1, *)"), std::string::npos) << text;
  EXPECT_NE(text.find("%y : Float(1, 2, *, 4)"), std::string::npos) << text;
  EXPECT_FALSE(widenToTexts(*graphOfCaches("graph(%ids : Long(1, 3)):\n  return (%ids)\n"), allOps()));
}

// [3, tokens, 8] -> [3 * 2, tokens, 4] -> [3, tokens, 8]
TEST(SeveralTexts, TheFirstOneIsLeft) {
  const std::string text =
      "graph(%ids : Long(3, *), %table : Float(9, 8)):\n"
      "  %m1 : int = prim::Constant[value=-1]()\n  %no : bool = prim::Constant[value=0]()\n"
      "  %apart : int[] = prim::Constant[value=[6, -1, 4]]()\n  %whole : int[] = prim::Constant[value=[3, -1, 8]]()\n"
      "  %x : Float(3, *, 8) = aten::embedding(%table, %ids, %m1, %no, %no)\n"
      "  %h : Float(6, *, 4) = aten::reshape(%x, %apart)\n  %r : Float(6, *, 4) = aten::relu(%h)\n"
      "  %y : Float(3, *, 8) = aten::reshape(%r, %whole)\n  return (%y)\n";
  std::unique_ptr<Graph> g = graphOfCaches(text);
  EXPECT_EQ(fixedTexts(*g), 3);
  ASSERT_TRUE(narrowToOneText(*g, allOps()));
  EXPECT_NE(graphText(*g).find("%ids : Long(1, *)"), std::string::npos) << graphText(*g);
  EXPECT_NE(graphText(*g).find("%r : Float(2, *, 4)"), std::string::npos) << graphText(*g);
  EXPECT_NE(graphText(*g).find("%y : Float(1, *, 8)"), std::string::npos) << graphText(*g);

  g = graphOfCaches(text);
  ASSERT_TRUE(repeatText(*g));
  EXPECT_EQ(fixedTexts(*g), 0);
  EXPECT_NE(graphText(*g).find(" : Long(3, *) = aten::expand(%ids, "), std::string::npos) << graphText(*g);
  EXPECT_NE(graphText(*g).find(" : Float(1, *, 8) = aten::slice(%y, "), std::string::npos) << graphText(*g);

  g = graphOfCaches("graph(%ids : Long(1, *)):\n  return (%ids)\n");
  EXPECT_EQ(fixedTexts(*g), 0);
  EXPECT_FALSE(repeatText(*g));
  EXPECT_FALSE(narrowToOneText(*g, allOps()));
}

TEST(ExampleSizes, AreThoseThatTheGraphRunsWith) {
  const std::string text = "graph(%ids : Tensor, %pos : Tensor):\n  %y : Tensor = aten::relu(%ids)\n  return (%y)\n";
  auto sized = [&](const std::function<bool(const Dims& ids, const Dims& positions)>& fits) {
    std::unique_ptr<Graph> g = graphOfCaches(text);
    auto run = [&](const std::vector<IValue>& inputs, const Graph*) -> std::vector<IValue> {
      auto sizes = [&](size_t i) {
        const Tensor t = inputs.at(i).toTensor();
        return Dims(t.sizes().begin(), t.sizes().end());
      };
      const Tensor places = inputs.at(1).toTensor();
      for (int64_t i = 0; sizes(1) == Dims{sizes(0).back()} && i < places.numel(); ++i)
        EXPECT_EQ(places.integer(i), i);  // tokens at one place would overwrite each other
      if (!fits(sizes(0), sizes(1))) return {};
      return {Tensor::zeros(DType::Float32, Dims{1})};
    };
    std::string doubt;
    return findExampleSizes(*g, allOps(), {}, 64, run, doubt) ? graphText(*g) : "";
  };
  EXPECT_EQ(sized([](const Dims&, const Dims&) { return true; }), "");
  EXPECT_EQ(sized([](const Dims&, const Dims&) { return false; }), "");
  std::string one = sized([](const Dims& ids, const Dims& at) { return ids == Dims{1, 1} && at.empty(); });
  EXPECT_NE(one.find("%ids : Long(1, 1),\n      %pos : Long()"), std::string::npos) << one;
  one = sized([](const Dims& ids, const Dims& at) { return ids[0] == 4 && at == Dims{ids[1]}; });
  EXPECT_NE(one.find("%ids : Long(4, *),\n      %pos : Long(*)"), std::string::npos) << one;
  one = sized([](const Dims& ids, const Dims& at) { return ids[0] == 1 && at == Dims{ids[1]}; });
  EXPECT_NE(one.find("%ids : Tensor,\n      %pos : Long(*)"), std::string::npos) << one;
}

TEST(StateSizes, AreNoneForWhichTheGraphRaises) {
  const std::unique_ptr<Graph> g = graphOfCaches(R"(graph(%x : Tensor, %h : Tensor):
  %none : NoneType = prim::Constant()
  %1 : int = prim::Constant[value=1]()
  %3 : int = prim::Constant[value=3]()
  %10 : int = prim::Constant[value=10]()
  %message : str = prim::Constant[value="three dimensions"]()
  %unset : Tensor? = prim::Uninitialized()
  %rank : int = aten::dim(%h)
  %isOther : bool = aten::ne(%rank, %3)
  %given : Tensor? = prim::If(%isOther)
    block0():
       = prim::RaiseException(%message)
      -> (%unset)
    block1():
      -> (%h)
  %isNone : bool = aten::__is__(%given, %none)
  %state : Tensor = prim::If(%isNone)
    block0():
      %zeros : Tensor = aten::zeros_like(%x, %none, %none, %none, %none, %none)
      -> (%zeros)
    block1():
      %cast : Tensor = prim::unchecked_cast(%given)
      -> (%cast)
  %y : Tensor = aten::add(%x, %state, %1)
  %last : Tensor = aten::narrow(%y, %1, %10, %1)
  return (%y, %last)
)");
  ASSERT_TRUE(g);
  constexpr int64_t kTokens = 11;
  ShapeOptions known;
  known.inputs.resize(2);
  known.inputs[0] = symbolicTensor(DType::Float32, Dims{1, kTokens, 4});
  const auto found = findStateSizes(*g, allOps(), known, kTokens, {64}, {GivenState{{g->inputs()[1]}}},
                                    [](const std::vector<GivenState>&) { return StateVerdict::Right; });
  ASSERT_TRUE(found);
  EXPECT_EQ(found->front().sizes, (Dims{1, 1, 4}));
}

// Windows of convolutions, one in each layer.
TEST(StateSizes, AreFoundInManyLayers) {
  constexpr size_t kLayers = 150;
  constexpr int64_t kTokens = 11;
  std::string inputs, body, outputs;
  for (size_t i = 0; i < kLayers; ++i) {
    const std::string n = std::to_string(i), next = std::to_string(i + 1);
    inputs += ", %w" + n + " : Tensor";
    body += "  %both" + n + " : Tensor[] = prim::ListConstruct(%w" + n + ", %x" + n + ")\n  %all" + n +
            " : Tensor = aten::cat(%both" + n + ", %2)\n  %y" + n + " : Tensor = aten::conv1d(%all" + n +
            ", %kernel, %none, %ones, %zeros, %ones, %8)\n  %x" + next + " : Tensor = aten::add(%x" + n + ", %y" + n +
            ", %1)\n  %last" + n + " : Tensor = aten::slice(%all" + n + ", %2, %minus, %none, %1)\n";
    outputs += ", %last" + n;
  }
  const std::unique_ptr<Graph> g =
      graphOfCaches("graph(%x0 : Tensor, %kernel : Tensor" + inputs +
                    "):\n  %none : NoneType = prim::Constant()\n  %1 : int = prim::Constant[value=1]()\n"
                    "  %2 : int = prim::Constant[value=2]()\n  %8 : int = prim::Constant[value=8]()\n"
                    "  %minus : int = prim::Constant[value=-2]()\n  %ones : int[] = prim::Constant[value=[1]]()\n"
                    "  %zeros : int[] = prim::Constant[value=[0]]()\n" +
                    body + "  return (%x" + std::to_string(kLayers) + outputs + ")\n");
  ASSERT_TRUE(g);
  ShapeOptions known;
  known.inputs.resize(g->inputs().size());
  known.inputs[0] = symbolicTensor(DType::Float32, Dims{1, 8, kTokens});
  known.inputs[1] = symbolicTensor(DType::Float32, Dims{8, 1, 3});
  std::vector<GivenState> states;
  for (size_t i = 0; i < kLayers; ++i) states.push_back({{g->input(2 + i)}});
  const auto found = findStateSizes(*g, allOps(), known, kTokens, {64}, states,
                                    [](const std::vector<GivenState>&) { return StateVerdict::Right; });
  ASSERT_TRUE(found);
  for (const GivenState& s : *found) EXPECT_EQ(s.sizes, (Dims{1, 8, 2}));
}

}  // namespace
}  // namespace tscompile::test
