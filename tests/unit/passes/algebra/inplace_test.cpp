// Where memory may be overwritten, and the phase that does it.
#include "ir/analysis/verifier.h"
#include "ir/graph/clone.h"
#include "ir/graph/printer.h"
#include "passes/catalog.h"
#include "passes/rewrite/destroy_handler.h"
#include "runtime/registry.h"
#include "tests/support/memory_program.h"
#include "tests/support/pass_checks.h"
#include "tests/support/property.h"

#include <gtest/gtest.h>

namespace tscompile::test {
namespace {

// The objection against writing over input 0 of the node that makes %y.
class Destroy {
 public:
  explicit Destroy(const std::string& body, const char* parameters = "%a : Float(2, 2), %b : Float(2, 2)")
      : graph_(readGraph("graph(" + std::string(parameters) + "):\n" + body)),
        context_(*graph_, allOps(), diagnostics_) {}
  Objection objection(bool tolerateSame = false) {
    return context_.facts.destroyHandler().objection(y(), 0, tolerateSame);
  }
  bool schedule() { return context_.facts.destroyHandler().schedule(y(), 0); }
  std::string order() {
    std::string out;
    for (Node* n : graph_->block()->nodes())
      if (n->kind() != sym::Constant) out += (out.empty() ? "" : " ") + n->output()->name();
    return out;
  }

 private:
  Node* y() { return graph_->find("y")->node(); }
  std::unique_ptr<Graph> graph_;
  Diagnostics diagnostics_;
  RewriteContext context_;
};

const std::string kOne = "  %one : int = prim::Constant[value=1]()\n";
const std::string kFresh = "  %x : Float(2, 2) = aten::neg(%a)\n";

// What the phase makes of a graph, with checks that runs stay the same and that a second run changes nothing.
bool inplacePhase(Graph& graph, RewriteContext& context) {
  Plan plan = loweringDatabase().query(Query().including({"inplace_elementwise"}));
  Outcome outcome = plan.run(context);
  EXPECT_FALSE(outcome.failed) << graphText(graph);
  return outcome.changed;
}
std::string inPlace(const std::string& text) {
  std::unique_ptr<Graph> graph = readGraph(text), before = cloneGraph(*graph);
  if (applyPass(inplacePhase, *graph)) {
    EXPECT_EQ(expectSameRuns(*before, *graph, 8, 0, memoryProgramInputs), 8);
  }
  return graphText(*graph);
}
// The body in which %y, %z ... are as given; all of it is to be expected.
std::string body(const std::string& statements) {
  return printed("graph(%a : Float(2, 2),\n      %b : Float(2, 2)):\n" + statements);
}

}  // namespace

TEST(DestroyHandler, TheSameValueTwice) {
  Destroy twice(kOne + kFresh + "  %y : Float(2, 2) = aten::add(%x, %x, %one)\n  return (%y)\n");
  EXPECT_EQ(twice.objection(), Objection::SameInput);
  EXPECT_EQ(twice.objection(true), Objection::None);
  Destroy view(kOne + kFresh +
               "  %v : Float(2, 2) = aten::t(%x)\n  %y : Float(2, 2) = aten::add(%x, %v, %one)\n  return (%y)\n");
  EXPECT_EQ(view.objection(true), Objection::SharedInput);
}

TEST(DestroyHandler, TwoThatDestroyThroughDifferentViews) {
  const std::string two = kFresh + "  %v : Float(2, 2) = aten::t(%x)\n  %w : Float(2, 2) = aten::detach(%x)\n";
  Destroy first(two + "  %y : Float(2, 2) = aten::relu(%v)\n  %z : Float(2, 2) = aten::relu_(%w)\n  return (%y)\n");
  EXPECT_EQ(first.objection(), Objection::ReadLater);
  EXPECT_FALSE(first.schedule()) << "what is overwritten cannot be read after that";
  // The last reader alone may.
  Destroy last(two + "  %z : Float(2, 2) = aten::relu(%w)\n  %y : Float(2, 2) = aten::relu(%v)\n  return (%y, %z)\n");
  EXPECT_EQ(last.objection(), Objection::None);
}

TEST(DestroyHandler, ReadersOfViewsRunBefore) {
  const std::string start = kFresh + "  %v : Float(2, 2) = aten::t(%x)\n  %y : Float(2, 2) = aten::relu(%x)\n";
  Destroy later(start + "  %z : Float(2, 2) = aten::neg(%v)\n  %u : Float(2, 2) = aten::exp(%y)\n  return (%u, %z)\n");
  EXPECT_EQ(later.objection(), Objection::ReadLater);
  EXPECT_TRUE(later.schedule());
  EXPECT_EQ(later.order(), "x v z y u");
  EXPECT_EQ(later.objection(), Objection::None);
  Destroy cycle(start + "  %z : Float(2, 2) = aten::mul(%v, %y)\n  return (%z)\n");
  EXPECT_FALSE(cycle.schedule());
  EXPECT_EQ(cycle.order(), "x v y z");
}

TEST(DestroyHandler, MemoryOfOthersIsProtected) {
  const std::string relu = "  %y : Float(2, 2) = aten::relu(%x)\n";
  EXPECT_EQ(Destroy("  %y : Float(2, 2) = aten::relu(%a)\n  return (%y)\n").objection(), Objection::NotOurs);
  EXPECT_EQ(Destroy("  %x : Float(2, 2) = aten::t(%a)\n" + relu + "  return (%y)\n").objection(), Objection::NotOurs);
  EXPECT_EQ(Destroy("  %x : Float(2, 2) = prim::Constant[value=<Tensor>]()\n" + relu + "  return (%y)\n").objection(),
            Objection::NotOurs);
  EXPECT_EQ(Destroy(kFresh + relu + "  return (%x, %y)\n").objection(), Objection::Returned);
  EXPECT_EQ(Destroy(kFresh + "  %l : Tensor[] = prim::ListConstruct(%x)\n" + relu + "  return (%y, %l)\n").objection(),
            Objection::Returned);
  EXPECT_EQ(Destroy(kFresh + relu + "  return (%y)\n").objection(), Objection::None);
}

TEST(DestroyHandler, BlocksAndIterations) {
  // An iteration that destroys what was made before the loop would find it destroyed the next time.
  const std::string parameters = "%a : Float(2, 2), %l : Tensor[], %n : int, %t : bool";
  Destroy outside(kFresh +
                      "  prim::Loop(%n, %t)\n    block0(%i : int):\n"
                      "      %y : Float(2, 2) = aten::relu(%x)\n      %u : Tensor[] = aten::append(%l, %y)\n"
                      "      -> (%t)\n  return (%l)\n",
                  parameters.c_str());
  EXPECT_EQ(outside.objection(), Objection::OtherBlock);
  // What is put into a list outlives the iteration.
  Destroy kept(
      "  %m : Tensor[] = prim::ListConstruct()\n  prim::Loop(%n, %t)\n    block0(%i : int):\n"
      "      %x : Float(2, 2) = aten::neg(%a)\n      %u : Tensor[] = aten::append(%m, %x)\n"
      "      %y : Float(2, 2) = aten::relu(%x)\n      %w : Tensor[] = aten::append(%l, %y)\n"
      "      -> (%t)\n  %s : Tensor = aten::cat(%m, %n)\n  return (%s)\n",
      parameters.c_str());
  EXPECT_EQ(kept.objection(), Objection::NotOurs);
  // The next iteration reads it above the node that would destroy it.
  Destroy next(
      "  %m : Tensor[] = prim::ListConstruct(%a)\n  prim::Loop(%n, %t)\n    block0(%i : int):\n"
      "      %z : Tensor = aten::__getitem__(%m, %i)\n      %v : Tensor[] = aten::append(%l, %z)\n"
      "      %x : Float(2, 2) = aten::neg(%a)\n      %u : Tensor[] = aten::append(%m, %x)\n"
      "      %y : Float(2, 2) = aten::relu(%x)\n      -> (%t)\n  return (%l)\n",
      parameters.c_str());
  EXPECT_EQ(next.objection(), Objection::NotOurs);
  Destroy iterated(
      "  %m : Tensor[] = prim::ListConstruct(%a)\n  prim::Loop(%n, %t)\n    block0(%i : int):\n"
      "      %z : Tensor = aten::__getitem__(%m, %i)\n       = prim::Print(%z)\n"
      "      %x : Float(2, 2) = aten::neg(%a)\n      %u : Tensor[] = aten::append(%m, %x)\n"
      "      %y : Float(2, 2) = aten::relu(%x)\n       = prim::Print(%y)\n      -> (%t)\n  return (%l)\n",
      parameters.c_str());
  EXPECT_EQ(iterated.objection(), Objection::NotOurs);
}

TEST(InPlacePhase, IsOffByDefaultAndBehindItsMarker) {
  const RewriteDatabase::Entry* e = nullptr;
  std::vector<RewriteDatabase::Entry> all = loweringDatabase().allEntries();
  for (const auto& entry : all)
    if (entry.name == "inplace_elementwise") e = &entry;
  ASSERT_TRUE(e);
  EXPECT_GE(e->position, 50);
  EXPECT_TRUE(e->tags.contains("inplace"));
  auto has = [](const Query& query) {
    return loweringDatabase().query(query).describe().find("inplace") != std::string::npos;
  };
  EXPECT_FALSE(has(Query().including({"default"})));
  EXPECT_TRUE(has(Query().including({"fast_run"})));
  EXPECT_FALSE(has(Query().including({"fast_run"}).excluding({"inplace"})));
  EXPECT_FALSE(has(Query().including({"fast_run"}).before(49.5)));
}

TEST(InPlacePhase, ChainsUseOneMemory) {
  EXPECT_EQ(inPlace(body(kOne + "  %x : Float(2, 2) = aten::neg(%a)\n  %y : Float(2, 2) = aten::relu(%x)\n"
                                "  %z : Float(2, 2) = aten::add(%y, %b, %one)\n  return (%z)\n")),
            body(kOne + "  %x : Float(2, 2) = aten::neg(%a)\n  %y : Float(2, 2) = aten::relu_(%x)\n"
                        "  %z : Float(2, 2) = aten::add_(%y, %b, %one)\n  return (%z)\n"));
}

TEST(InPlacePhase, TheSameValueTwiceIsFineForElements) {
  EXPECT_EQ(inPlace(body(kFresh + "  %y : Float(2, 2) = aten::mul(%x, %x)\n  return (%y)\n")),
            body(kFresh + "  %y : Float(2, 2) = aten::mul_(%x, %x)\n  return (%y)\n"));
}

TEST(InPlacePhase, WorksInBlocks) {
  auto text = [](const char* kind) {
    return printed(std::string("graph(%a : Float(2, 2),\n      %t : bool):\n  %r : Tensor = prim::If(%t)\n"
                               "    block0():\n      %x : Float(2, 2) = aten::neg(%a)\n"
                               "      %y : Float(2, 2) = aten::") +
                   kind +
                   "(%x)\n      -> (%y)\n"
                   "    block1():\n      -> (%a)\n  return (%r)\n");
  };
  EXPECT_EQ(inPlace(text("exp")), text("exp_"));
}

TEST(InPlacePhase, WhatWouldShowStays) {
  for (const std::string& statements : {
           // of the caller
           std::string("  %y : Float(2, 2) = aten::relu(%a)\n  return (%y)\n"),
           // returned
           kFresh + "  %y : Float(2, 2) = aten::relu(%x)\n  return (%x, %y)\n",
           // read later, by what needs the result
           kFresh + "  %y : Float(2, 2) = aten::relu(%x)\n  %z : Float(2, 2) = aten::mm(%x, %y)\n  return (%y, %z)\n",
           // another dtype
           kFresh + "  %y : Bool(2, 2) = aten::lt(%x, %b)\n  return (%y)\n",
           // a part has other strides than what would be made anew
           kFresh + "  %v : Float(2, 2) = aten::t(%x)\n  %y : Float(2, 2) = aten::relu(%v)\n  return (%y)\n",
       })
    EXPECT_EQ(inPlace(body(statements)), body(statements));
  std::string larger = printed(
      "graph(%a : Float(2, 1), %b : Float(2, 3)):\n  %x : Float(2, 1) = aten::neg(%a)\n"
      "  %y : Float(2, 3) = aten::mul(%x, %b)\n  return (%y)\n");
  EXPECT_EQ(inPlace(larger), larger);
}

// Twins are one value before anything is destroyed; what may not be destroyed then stays.
TEST(InPlacePhase, MergesBeforeItDestroys) {
  auto lowered = [](const std::string& statements) {
    std::unique_ptr<Graph> g = readGraph(body(statements)), before = cloneGraph(*g);
    Diagnostics diagnostics;
    RewriteContext context(*g, allOps(), diagnostics);
    loweringDatabase().query(Query().including({"merge1", "inplace"})).run(context);
    expectSameRuns(*before, *g, 8, 0, memoryProgramInputs);
    return graphText(*g);
  };
  const std::string twins = kFresh + "  %w : Float(2, 2) = aten::neg(%a)\n";
  // Both are destroyed: by the last that reads the one value.
  EXPECT_EQ(
      lowered(twins + "  %y : Float(2, 2) = aten::relu(%x)\n  %z : Float(2, 2) = aten::exp(%w)\n  return (%y, %z)\n"),
      body(kFresh + "  %z : Float(2, 2) = aten::exp(%x)\n  %y : Float(2, 2) = aten::relu_(%x)\n  return (%y, %z)\n"));
  // One is destroyed, and the reader of the other may run before.
  EXPECT_EQ(lowered(twins +
                    "  %y : Float(2, 2) = aten::relu(%x)\n  %z : Float(2, 2) = aten::mm(%w, %w)\n  return (%y, %z)\n"),
            body(kFresh +
                 "  %z : Float(2, 2) = aten::mm(%x, %x)\n  %y : Float(2, 2) = aten::relu_(%x)\n  return (%y, %z)\n"));
  // The reader needs what the destroyer would make.
  EXPECT_EQ(
      lowered(twins +
              "  %y : Float(2, 2) = aten::relu(%x)\n  %z : Float(2, 2) = aten::mm(%w, %y)\n  return (%y, %z)\n"),
      body(kFresh + "  %y : Float(2, 2) = aten::relu(%x)\n  %z : Float(2, 2) = aten::mm(%x, %y)\n  return (%y, %z)\n"));
}

// On random programs about memory, after everything else was lowered.
TEST(InPlacePhase, KeepsWhatMemoryHolds) {
  int changed = 0;
  forEachSeed(1000, [&](uint64_t seed) {
    Choices choices(seed);
    std::unique_ptr<Graph> graph = memoryProgram(choices, 4 + choices.below(24));
    for (Value* v : graph->inputs())
      if (v->type() == types().tensor) v->setType(graph->input(0)->type());
    Diagnostics diagnostics;
    RewriteContext context(*graph, allOps(), diagnostics);
    loweringDatabase().query(Query().including({"default"})).run(context);
    std::unique_ptr<Graph> before = cloneGraph(*graph);
    if (!applyPass(inplacePhase, *graph)) return;
    ++changed;
    expectSameRuns(*before, *graph, 4, seed, memoryProgramInputs);
  });
  EXPECT_GT(changed, 30);
}

}  // namespace tscompile::test
