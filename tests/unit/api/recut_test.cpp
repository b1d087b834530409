// What is announced is what runs: engines that turn down the sizes of a run are cut around what is in the way, and
// partition, compile, verify and profile count the same nodes.
#include "api/compiler.h"
#include "api/extensions.h"
#include "api/support/deep_copy.h"
#include "api/verify.h"
#include "ir/graph/clone.h"
#include "runtime/call/run_observer.h"
#include "runtime/engine/network/network.h"
#include "runtime/engine/refusal_watch.h"
#include "tests/support/module_checks.h"
#include "tests/support/property.h"
#include "tests/support/random_graph.h"
#include "tests/support/random_network.h"

namespace tscompile::test {
namespace {

// What has run, layer by layer and node by node.
class Seen : public RunObserver {
 public:
  void onLayer(const Network& network, size_t layer, Clock::time_point, Clock::time_point) override {
    layers.push_back(network.layers[layer]->name());
  }
  void onEngine(const Network&, Clock::time_point, Clock::time_point) override { ++engines; }
  void onNode(const Node* node, size_t, Clock::time_point begin, Clock::time_point end) override {
    EXPECT_LE(begin, end);
    if (!node || node->kind() == sym::Constant || node->isReturn()) return;
    nodes.push_back(std::string(node->kind().text()));
  }
  std::vector<std::string> layers, nodes;
  size_t engines = 0;
};

// A module on engines, next to itself on the interpreter.
class RecutCase {
 public:
  explicit RecutCase(const std::string& text, std::shared_ptr<const Extensions> extensions = nullptr) {
    LoadOptions load;
    load.extensions = std::move(extensions);
    Result<Module> module = Module::fromText(text, "recut.ir", load, diagnostics_);
    EXPECT_TRUE(module.ok()) << renderDiagnostics(diagnostics_, "test");
    Result<Module> compiled = module->compiled({}, diagnostics_);
    EXPECT_TRUE(compiled.ok()) << renderDiagnostics(diagnostics_, "test");
    plain_ = *module->prepare(diagnostics_);
    engines_ = *compiled->prepare(diagnostics_);
  }

  // Runs both and compares them. "2 of 4: aten::stride ..." of each engine that did not run as a whole.
  std::vector<std::string> run(std::vector<IValue> inputs) {
    seen = Seen();
    RefusalWatch watch;
    const Result<std::vector<IValue>> got = observed(inputs);
    std::vector<std::string> rows;
    for (const RefusalWatch::Row& r : watch.rows())
      rows.push_back(std::to_string(r.nodes) + ": " + (r.refusal ? r.refusal->verdict.detail : ""));
    Result<std::vector<IValue>> want = plain_->run(inputs, diagnostics_);
    EXPECT_TRUE(got.ok() && want.ok()) << renderDiagnostics(diagnostics_, "test");
    for (size_t i = 0; got && want && i < want->size(); ++i) {
      Difference d = difference((*got)[i], (*want)[i], {});
      EXPECT_TRUE(d.within) << d.largest << d.wrong;
    }
    return rows;
  }
  std::string messageOf(std::vector<IValue> inputs) {
    Diagnostics d;
    EXPECT_FALSE(engines_->run(inputs, d).ok());
    return renderDiagnostics(d, "test");
  }
  std::string plainMessageOf(std::vector<IValue> inputs) {
    Diagnostics d;
    EXPECT_FALSE(plain_->run(inputs, d).ok());
    return renderDiagnostics(d, "test");
  }

  Seen seen;

 private:
  Result<std::vector<IValue>> observed(const std::vector<IValue>& inputs) {
    ObserverScope observing(seen);
    return engines_->run(inputs, diagnostics_);
  }

  Diagnostics diagnostics_;
  std::optional<Method> plain_, engines_;
};

constexpr const char* kSwish = R"(graph(%x : Tensor):
  %1 : int = prim::Constant[value=1]()
  %a : Tensor = aten::tanh(%x)
  %b : Tensor = aten::mul(%a, %x)
  %c : Tensor = aten::exp(%b)
  %s : Tensor = aten::mish(%c)
  %d : Tensor = aten::add(%s, %a, %1)
  %e : Tensor = aten::sin(%d)
  %f : Tensor = aten::abs(%e)
  return (%f, %c)
)";

std::shared_ptr<const Extensions> refusingWide() {
  auto extensions = std::make_shared<Extensions>();
  Diagnostics d;
  EXPECT_TRUE(extensions->addConverter(
      "aten::mish",
      [](ConvertCall& call) {
        if (call.tensor(0).size(0) > 4) call.refuse(Reason::Limit, "no more than four rows");
        convertToKernel(call);
      },
      d));
  return extensions;
}

TEST(Recut, WhatSizesForbidIsInterpretedBetweenTwoEngines) {
  RecutCase c(kSwish, refusingWide());
  for (int turn = 0; turn < 2; ++turn) {
    EXPECT_TRUE(c.run({IValue(Tensor::zeros(DType::Float32, Dims{4, 3}))}).empty());
    EXPECT_EQ(c.seen.engines, 1u);
    EXPECT_EQ(c.run({IValue(Tensor::zeros(DType::Float32, Dims{5, 3}))}),
              std::vector<std::string>{"1: no more than four rows"});
    EXPECT_EQ(c.seen.engines, 2u);
    EXPECT_EQ(c.seen.nodes, (std::vector<std::string>{"aten::mish", "tscompile::Engine"}));
  }
}

// Whatever a number decides, a call does not depend on those before it.
TEST(Recut, NumbersThatDecideHaveAPlanForEachValue) {
  RecutCase c(R"(graph(%x : Tensor, %t : int, %n : int):
  %0 : int = prim::Constant[value=0]()
  %1 : int = prim::Constant[value=1]()
  %p : bool = aten::gt(%t, %0)
  %a : Tensor = aten::tanh(%x)
  %b : Tensor = aten::mul(%a, %x)
  %c : Tensor = aten::exp(%b)
  %d : Tensor = prim::If(%p)
    block0():
      %d0 : Tensor = aten::add(%c, %t, %1)
      -> (%d0)
    block1():
      -> (%c)
  %e : Tensor = aten::slice(%d, %0, %0, %n, %1)
  %f : Tensor = aten::sin(%e)
  %g : Tensor = aten::mul(%f, %e)
  %h : Tensor = aten::sigmoid(%g)
  return (%h)
)");
  const Tensor x = Tensor::zeros(DType::Float32, Dims{40, 3});
  for (int64_t n = -2; n < 40; ++n) EXPECT_TRUE(c.run({IValue(x), IValue(int64_t{0}), IValue(n)}).empty()) << n;
  EXPECT_EQ(c.seen.engines, 1u);
  for (int64_t t = 1; t < 40; ++t) EXPECT_TRUE(c.run({IValue(x), IValue(t), IValue(int64_t{7})}).empty()) << t;
  EXPECT_EQ(c.seen.engines, 1u);
}

TEST(Recut, LoopsOfManyTurnsAreInterpretedAndWhatIsBesideThemIsNot) {
  RecutCase c(R"(graph(%x : Tensor, %y : Tensor):
  %0 : int = prim::Constant[value=0]()
  %1 : int = prim::Constant[value=1]()
  %yes : bool = prim::Constant[value=1]()
  %a : Tensor = aten::tanh(%y)
  %b : Tensor = aten::sin(%a)
  %c : Tensor = aten::mul(%b, %a)
  %n : int = aten::size(%x, %0)
  %l : Tensor = prim::Loop(%n, %yes, %c)
    block0(%i : int, %h : Tensor):
      %r : Tensor = aten::select(%x, %0, %i)
      %p : Tensor = aten::add(%h, %r, %1)
      %q : Tensor = aten::tanh(%p)
      -> (%yes, %q)
  %d : Tensor = aten::exp(%l)
  %e : Tensor = aten::sin(%d)
  %f : Tensor = aten::mul(%e, %d)
  return (%f)
)");
  auto rows = [&](int64_t n) {
    return c.run({IValue(Tensor::zeros(DType::Float32, Dims{n, 4})), IValue(Tensor::zeros(DType::Float32, Dims{4}))});
  };
  EXPECT_TRUE(rows(5).empty());
  ASSERT_EQ(rows(2000).size(), 1u);
  EXPECT_GE(c.seen.engines, 2u);
}

// Each refusal is cut out of the engine that is left of the one before.
TEST(Recut, SeveralRefusalsOfOneRun) {
  std::string text = "graph(%x : Tensor):\n  %v0 : Tensor = aten::tanh(%x)\n";
  for (int i = 0; i < 40; ++i) {
    const char* op = i % 5 == 2 ? "mish" : i % 2 ? "sin" : "cos";
    text += "  %v" + std::to_string(i + 1) + " : Tensor = aten::" + op + "(%v" + std::to_string(i) + ")\n";
  }
  RecutCase c(text + "  return (%v40)\n", refusingWide());
  EXPECT_TRUE(c.run({IValue(Tensor::zeros(DType::Float32, Dims{4}))}).empty());
  EXPECT_EQ(c.run({IValue(Tensor::zeros(DType::Float32, Dims{6}))}).size(), 8u);
  EXPECT_EQ(c.seen.engines, 8u);
}

TEST(Recut, ErrorsAreThoseOfTheInterpreter) {
  RecutCase c(R"(graph(%x : Tensor, %i : Tensor):
  %0 : int = prim::Constant[value=0]()
  %a : Tensor = aten::tanh(%x)
  %b : Tensor = aten::mish(%a)
  %c : Tensor = aten::exp(%b)
  %d : Tensor = aten::sin(%c)
  %e : Tensor = aten::index_select(%d, %0, %i)
  %f : Tensor = aten::abs(%e)
  return (%f)
)",
              refusingWide());
  const std::vector<int64_t> indices{1, 9};
  std::vector<IValue> inputs{IValue(Tensor::zeros(DType::Float32, Dims{6})),
                             IValue(Tensor::of<int64_t>(Dims{2}, indices))};
  EXPECT_EQ(c.messageOf(inputs), c.plainMessageOf(inputs));
}

// ---- what is announced ----

// Compiles a graph, and holds what partition says against what the compiled graph has and what runs.
void checkAnnounced(const Graph& graph, const std::vector<IValue>& inputs, size_t& engines) {
  Diagnostics d;
  Result<Module> any = Module::fromText("graph(%x : Tensor):\n  return (%x)\n", "announced.ir", {}, d);
  ASSERT_TRUE(any.ok());
  const Module module = any->withGraph(cloneGraph(graph));
  if (!module.forward(deepCopy(inputs), d)) return;
  size_t announced = 0, count = 0;
  CompileSpec spec;
  spec.onPartition = [&](const Prepared&, const Partition& cut) {
    announced = cut.acceleratedCount();
    count = cut.count(Target::Accelerated);
    for (const Segment& s : cut.segments)
      for (const Node* n : s.nodes)
        EXPECT_EQ(cut.decisions[n].accelerated(), s.target == Target::Accelerated) << graphText(graph);
  };
  Result<VerifyReport> report = verifyEngines(module, spec, inputs, {}, d);
  ASSERT_TRUE(report.ok()) << renderDiagnostics(d, "test") << graphText(graph);
  size_t held = 0, placed = 0;
  forEachNode(*report->compiled->graph(), [&](const Node* n) {
    if (n->kind() != sym::Engine) return;
    ++placed;
    GivenNodes given(*n->subgraph());
    forEachNode(*n->subgraph(), [&](const Node* inner) { held += !given.contains(inner); });
  });
  EXPECT_EQ(placed, count) << graphText(graph);
  EXPECT_GE(held, announced) << graphText(graph);  // numbers are computed in several
  EXPECT_TRUE(report->passed()) << graphText(graph);
  Result<Method> method = report->compiled->prepare(d);
  ASSERT_TRUE(method.ok());
  Seen seen;
  RefusalWatch watch;
  {
    ObserverScope observing(seen);
    ASSERT_TRUE(method->run(deepCopy(inputs), d).ok()) << renderDiagnostics(d, "test") << graphText(graph);
  }
  size_t calls = 0, planned = 0, cut = 0;
  for (const EngineCheck& e : report->engines) calls += e.calls, planned += e.planned, cut += e.cut;
  EXPECT_LE(planned + cut, calls);
  EXPECT_EQ(planned == calls, watch.rows().empty()) << graphText(graph);
  EXPECT_GE(seen.engines, planned) << graphText(graph);
  engines += seen.engines;
}

TEST(Announced, IsWhatRunsOfRandomPrograms) {
  size_t engines = 0;
  forEachSeed(2000, [&](uint64_t seed) {
    Choices c(seed);
    std::unique_ptr<Graph> graph = randomGraph(c, allOps());
    std::vector<IValue> inputs = randomInputs(c, *graph);
    if (isRepeatable(*graph)) checkAnnounced(*graph, inputs, engines);
  });
  EXPECT_GT(engines, 10u);
}

TEST(Announced, IsWhatRunsOfRandomNetworks) {
  size_t engines = 0;
  forEachSeed(60, [&](uint64_t seed) {
    Choices c(seed);
    RandomNetwork n = randomNetwork(c, allOps());
    checkAnnounced(*n.graph, n.inputs, engines);
  });
  EXPECT_GT(engines, 5u);
}

}  // namespace
}  // namespace tscompile::test
