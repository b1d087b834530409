// Random networks that are lowered first, with all that is default and with what makes runs faster, give on engines
// what their operators' kernels give one by one.
#include "ir/graph/printer.h"
#include "ir/support/diagnostic_printer.h"
#include "passes/catalog.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/network/poison.h"
#include "runtime/interpreter/evaluator.h"
#include "runtime/registry.h"
#include "tests/support/network_checks.h"
#include "tests/support/property.h"
#include "tests/support/random_network.h"

namespace tscompile::test {
namespace {

// Whether types tell sizes, and how graphs are lowered, by the seed.
void lowerSome(uint64_t seed, RandomNetwork& made) {
  static const std::unique_ptr<Evaluator> kEvaluator = makeEvaluator(allOps());
  if (seed % 2)
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

}  // namespace tscompile::test
