// Graphs that are run by an engine and by the interpreter.
#pragma once

#include "runtime/engine/engine.h"
#include "runtime/registry.h"
#include "tests/support/module_checks.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace tscompile::test {

inline Tensor randn(const Dims& dims, uint64_t seed) {
  Tensor t = Tensor::empty(DType::Float32, dims);
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  for (int64_t i = 0; i < t.numel(); ++i) t.data<float>()[i] = normal(random);
  return t;
}

// A residual block: convolutions with norms, an activation and what goes around them.
inline constexpr const char* kBottleneck = R"(graph(%x : Tensor):
  %none : NoneType = prim::Constant()
  %f : bool = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %zero : int = prim::Constant[value=0]()
  %eps : float = prim::Constant[value=1.0000000000000001e-05]()
  %ones : int[] = prim::ListConstruct(%one, %one)
  %zeros : int[] = prim::ListConstruct(%zero, %zero)
  %w : Float(32, 32, 3, 3) = prim::Constant[value={0}]()
  %scale : Float(32) = prim::Constant[value={0}]()
  %shift : Float(32) = prim::Constant[value={0}]()
  %mean : Float(32) = prim::Constant[value={0}]()
  %var : Float(32) = prim::Constant[value={0}]()
  %y : Tensor = aten::_convolution(%x, %w, %none, %ones, %ones, %ones, %f, %zeros, %one, %f, %f, %f, %f)
  %n : Tensor = aten::batch_norm(%y, %scale, %shift, %mean, %var, %f, %eps, %eps, %f)
  %s : Tensor = aten::add(%n, %x, %one)
  %r : Tensor = aten::relu(%s)
  return (%r)
)";

// The text of a graph with the constants that most calls need.
inline std::string graphWithConstants(std::string_view inputs, std::string_view body, std::string_view result) {
  return fmt::format(R"(graph({}):
  %none : NoneType = prim::Constant()
  %f : bool = prim::Constant[value=0]()
  %t : bool = prim::Constant[value=1]()
  %zero : int = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %two : int = prim::Constant[value=2]()
  %last : int = prim::Constant[value=-1]()
{}  return ({})
)",
                     inputs, body, result);
}

// A graph whose constants named "w..." get random values; with its engine and its program.
class EngineCase {
 public:
  explicit EngineCase(const std::string& text, EngineOptions options = {}) : graph_(readGraph(text)) {
    uint64_t seed = 100;
    forEachNode(*graph_, [&](Node* n) {
      if (n->kind() != sym::Constant || !n->output()->type()->isTensor()) return;
      const TensorFacts& f = n->output()->type()->tensor();
      Tensor t = Tensor::empty(DType::Float32, f.sizes);
      std::mt19937_64 random(seed++);
      std::uniform_real_distribution<float> uniform(0.1f, 1.0f);
      for (int64_t i = 0; i < t.numel(); ++i) t.data<float>()[i] = uniform(random);
      t.storage()->makeReadOnly();
      n->setAttribute(sym::value, IValue(t));
    });
    std::optional<Refusal> refusal;
    engine_ = Engine::make(*graph_, allOps(), {}, options, refusal);
    EXPECT_TRUE(engine_) << (refusal ? refusal->verdict.detail : "");
    Diagnostics d;
    Result<std::shared_ptr<const Program>> program = Program::compile(*graph_, allOps(), {}, d);
    EXPECT_TRUE(program.ok()) << renderDiagnostics(d, "test");
    if (program) program_ = *program;
  }

  std::vector<IValue> run(std::vector<IValue> inputs, int threads = 1) const {
    RunOptions options;
    options.threads = threads;
    RunContext context(options);
    RunScope scope(context);
    std::vector<IValue> outputs(graph_->outputs().size());
    EXPECT_TRUE(engine_->run(inputs, outputs, context));
    return outputs;
  }
  // Whether the engine gives results; where it does not, the interpreter tells why.
  bool tryRun(std::vector<IValue> inputs, RunContext& context) const {
    std::vector<IValue> outputs(graph_->outputs().size());
    return engine_->run(inputs, outputs, context);
  }
  std::vector<IValue> interpret(std::vector<IValue> inputs) const {
    Diagnostics d;
    Result<std::vector<IValue>> r = program_->run(inputs, {}, d);
    EXPECT_TRUE(r.ok()) << renderDiagnostics(d, "test");
    return r ? *r : std::vector<IValue>();
  }
  // "matmul+relu, softmax"; with `reasons`, "kernel aten::linear: the weight is an input"
  std::string layers(std::vector<IValue> inputs, bool reasons = false) const {
    RunOptions options;
    RunContext context(options);
    RunScope scope(context);
    std::optional<Refusal> refusal;
    std::shared_ptr<const EnginePlan> plan = engine_->planFor(inputs, context, &refusal);
    if (!plan) return "refused: " + (refusal ? refusal->verdict.detail : "");
    std::string names;
    for (const auto& layer : plan->network().layers) {
      names += (names.empty() ? "" : ", ") + layer->name();
      if (reasons && !layer->whyKernel().empty()) names += ": " + std::string(layer->whyKernel());
    }
    return names;
  }
  const EnginePlan* plan(std::vector<IValue> inputs) const {
    RunOptions options;
    RunContext context(options);
    RunScope scope(context);
    return engine_->planFor(inputs, context).get();
  }
  void expectClose(std::vector<IValue> inputs, double tolerance = 1e-5) const {
    std::vector<IValue> got = run(inputs), expected = interpret(inputs);
    ASSERT_EQ(got.size(), expected.size());
    for (size_t i = 0; i < got.size(); ++i) {
      Tensor g = got[i].toTensor(), e = expected[i].toTensor();
      ASSERT_EQ(dimsText(g.sizes()), dimsText(e.sizes()));
      for (int64_t k = 0; k < e.numel(); ++k) {
        if (std::isnan(g.real(k)) && std::isnan(e.real(k))) continue;
        ASSERT_LE(std::fabs(g.real(k) - e.real(k)), tolerance * (1 + std::fabs(e.real(k)))) << "element " << k;
      }
    }
  }

 private:
  std::unique_ptr<Graph> graph_;
  std::shared_ptr<Engine> engine_;
  std::shared_ptr<const Program> program_;
};

}  // namespace tscompile::test
