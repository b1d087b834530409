// Random networks that are lowered first, with all that is default and with what makes runs faster, give on engines
// what their operators' kernels give one by one.
#include "ir/graph/clone.h"
#include "ir/graph/printer.h"
#include "ir/support/diagnostic_printer.h"
#include "passes/catalog.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/network/poison.h"
#include "runtime/interpreter/evaluator.h"
#include "runtime/interpreter/program.h"
#include "runtime/registry.h"
#include "tests/support/network_checks.h"
#include "tests/support/property.h"
#include "tests/support/random_network.h"

namespace tscompile::test {
namespace {

// Whether types tell sizes, and how graphs are lowered, by the seed.
void lowerSome(uint64_t seed, RandomNetwork& made, bool maySaySizes = true) {
  static const std::unique_ptr<Evaluator> kEvaluator = makeEvaluator(allOps());
  if (maySaySizes && seed % 2)
    for (size_t i = 0; i < made.inputs.size(); ++i) {
      const Tensor& t = made.inputs[i].toTensor();
      TensorFacts facts;
      facts.dtype = t.dtype();
      facts.hasRank = true;
      facts.sizes = Dims(t.sizes());
      made.graph->inputs()[i]->setType(tensorType(facts));
    }
  Diagnostics diagnostics;
  RewriteContext context(*made.graph, allOps(), diagnostics);
  context.evaluator = kEvaluator.get();
  Query query = Query().including({"default"});
  if (seed % 3 == 0) query = query.including({"fast_run"});
  PlanSettings settings;
  settings.verify = true;
  const Outcome outcome = loweringDatabase().query(query).run(context, settings);
  EXPECT_FALSE(outcome.failed || !outcome.converged) << renderDiagnostics(diagnostics, "test");
}

// The same inputs, but for one dimension of all that have it as the first one has: of other values and another size.
std::vector<IValue> resized(Choices& c, std::span<const IValue> inputs) {
  const Dims first = inputs[0].toTensor().sizes();
  const size_t d = c.below(first.size());
  constexpr int64_t kSizes[] = {1, 2, 3, 5, 16, 17, 0};
  const int64_t size = c.oneIn(4) ? first[d] + 1 : c.oneOf(kSizes);
  std::vector<IValue> out;
  for (const IValue& v : inputs) {
    Dims sizes = v.toTensor().sizes();
    if (d < sizes.size() && sizes[d] == first[d]) sizes[d] = size;
    Tensor t = Tensor::empty(DType::Float32, sizes);
    for (int64_t i = 0; i < t.numel(); ++i) t.data<float>()[i] = static_cast<float>(c.below(1 << 20)) / (1 << 19) - 1;
    out.emplace_back(std::move(t));
  }
  return out;
}

// Numbers of a size that rounding errors do not fill.
bool isComparable(const Tensor& t) {
  for (int64_t i = 0; i < t.numel(); ++i)
    if (!(std::fabs(t.real(i)) < 1e4)) return false;
  return true;
}

}  // namespace

TEST(NetworkProperty, LoweredNetworksGiveWhatKernelsGive) {
  size_t networks = 0, ran = 0;
  forEachSeed(600, [&](uint64_t seed) {
    Choices c(seed);
    RandomNetwork made = randomNetwork(c, allOps());
    const std::string text = graphText(*made.graph);
    ++networks;
    lowerSome(seed, made);
    const RunOptions options;
    RunContext context(options);
    RunScope scope(context);
    std::optional<Refusal> refusal;
    std::shared_ptr<Engine> engine = Engine::make(*made.graph, allOps(), {}, {}, refusal);
    std::vector<IValue> got(made.expected.size());
    PoisonScope poison;
    if (!engine || !engine->planFor(made.inputs, context, &refusal) || !engine->run(made.inputs, got, context)) return;
    ++ran;
    for (size_t i = 0; i < got.size(); ++i)
      EXPECT_EQ(difference(got[i].toTensor(), made.expected[i].toTensor()), "") << "output " << i << " of\n"
                                                                                << text << "lowered:\n"
                                                                                << graphText(*made.graph);
  });
  EXPECT_GE(ran * 20, networks * 19) << ran << " of " << networks;
}

// One engine at several sizes in turn. What raises in the interpreter is not for engines.
TEST(NetworkProperty, EnginesServeOtherSizesInTurn) {
  size_t sizes = 0, ran = 0;
  forEachSeed(300, [&](uint64_t seed) {
    Choices c(seed);
    RandomNetwork made = randomNetwork(c, allOps());
    const std::unique_ptr<Graph> original = cloneGraph(*made.graph);
    Diagnostics unheard;
    Result<std::shared_ptr<const Program>> program = Program::compile(*original, allOps(), {}, unheard);
    ASSERT_TRUE(program);
    const std::string text = graphText(*made.graph);
    if (seed % 3) lowerSome(seed, made, false);
    const RunOptions options;
    RunContext context(options);
    RunScope scope(context);
    std::optional<Refusal> refusal;
    std::shared_ptr<Engine> engine = Engine::make(*made.graph, allOps(), {}, {}, refusal);
    if (!engine) return;
    PoisonScope poison;
    std::vector<std::vector<IValue>> inputs{made.inputs, resized(c, made.inputs), resized(c, made.inputs), made.inputs};
    for (const std::vector<IValue>& given : inputs) {
      Diagnostics d;
      Result<std::vector<IValue>> want = (*program)->run(given, {}, d);
      if (!want) continue;
      ++sizes;
      std::vector<IValue> got(want->size());
      if (!engine->planFor(given, context, &refusal) || !engine->run(given, got, context)) continue;
      ++ran;
      for (size_t i = 0; i < got.size(); ++i)
        EXPECT_TRUE(!isComparable((*want)[i].toTensor()) ||
                    difference(got[i].toTensor(), (*want)[i].toTensor()).empty())
            << difference(got[i].toTensor(), (*want)[i].toTensor()) << ", output " << i << " of sizes "
            << dimsText(given[0].toTensor().sizes()) << "\n"
            << text << "lowered:\n"
            << graphText(*made.graph);
    }
  });
  EXPECT_GE(ran * 10, sizes * 9) << ran << " of " << sizes;
}

}  // namespace tscompile::test
