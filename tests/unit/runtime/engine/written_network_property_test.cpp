// Random networks that write into views of their values give, lowered, on engines and without, what their operators'
// kernels give one by one.
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

TEST(NetworkProperty, WritesIntoViewsReachWhatTheyShareMemoryWith) {
  const std::unique_ptr<Evaluator> evaluator = makeEvaluator(allOps());
  size_t networks = 0, ran = 0;
  forEachSeed(300, [&](uint64_t seed) {
    Choices c(seed);
    RandomNetwork made = randomNetwork(c, allOps(), 14, true);
    ++networks;
    const std::string text = graphText(*made.graph);
    Diagnostics d;
    RewriteContext context(*made.graph, allOps(), d);
    context.evaluator = evaluator.get();
    for (const IValue& v : made.inputs)
      if (!v.toTensor().isContiguous()) context.facts.takeInputsAnyhow();
    const Outcome outcome = loweringDatabase().query(Query().including({"default"})).run(context, {});
    ASSERT_FALSE(outcome.failed || !outcome.converged) << renderDiagnostics(d, "test");
    auto compare = [&](std::span<const IValue> got, const char* by) {
      for (size_t i = 0; i < got.size(); ++i)
        EXPECT_EQ(difference(got[i].toTensor(), made.expected[i].toTensor()), "") << by << ", output " << i << " of\n"
                                                                                  << text << "lowered:\n"
                                                                                  << graphText(*made.graph);
    };
    Result<std::shared_ptr<const Program>> program = Program::compile(*made.graph, allOps(), {}, d);
    Result<std::vector<IValue>> interpreted = program ? (*program)->run(made.inputs, {}, d) : Failed{};
    ASSERT_TRUE(interpreted) << renderDiagnostics(d, "test") << graphText(*made.graph);
    compare(*interpreted, "interpreter");
    const RunOptions options;
    RunContext run(options);
    RunScope scope(run);
    PoisonScope poison;
    std::optional<Refusal> refusal;
    std::shared_ptr<Engine> engine = Engine::make(*made.graph, allOps(), {}, {}, refusal);
    std::vector<IValue> got(made.expected.size());
    if (!engine || !engine->planFor(made.inputs, run, &refusal) || !engine->run(made.inputs, got, run)) return;
    ++ran;
    compare(got, "engine");
  });
  EXPECT_GE(ran * 10, networks * 9) << ran << " of " << networks;
}

}  // namespace tscompile::test
