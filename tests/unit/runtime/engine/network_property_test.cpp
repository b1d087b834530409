// Random networks on engines give what their operators' kernels give one by one, and the same bits by any number of
// threads.
#include "ir/graph/printer.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/network/poison.h"
#include "runtime/engine/network/tactics.h"
#include "runtime/kernels/simd.h"
#include "runtime/reference/loops/copy.h"
#include "runtime/registry.h"
#include "tests/support/network_checks.h"
#include "tests/support/property.h"
#include "tests/support/random_network.h"
#include "tests/support/signal.h"

#include <cmath>
#include <cstring>

namespace tscompile::test {
namespace {

bool sameBits(const Tensor& a, const Tensor& b) {
  return a.isContiguous() && b.isContiguous() && a.numel() == b.numel() &&
         (a.numel() == 0 || std::memcmp(a.raw(), b.raw(), static_cast<size_t>(a.numel()) * sizeof(float)) == 0);
}

std::string layersOf(const EnginePlan& plan) {
  std::string text;
  for (const auto& layer : plan.network().layers) text += layer->name() + "\n";
  return text;
}

struct Count {
  size_t networks = 0, refused = 0, layers = 0, native = 0;
};

void check(const RandomNetwork& made, const EngineOptions& engineOptions, Count& count) {
  std::optional<Refusal> refusal;
  std::shared_ptr<Engine> engine = Engine::make(*made.graph, allOps(), {}, engineOptions, refusal);
  ++count.networks;
  if (!engine) {
    ADD_FAILURE() << refusal->verdict.detail << "\n" << graphText(*made.graph);
    return;
  }
  std::vector<std::vector<IValue>> results;
  std::string layers;
  for (int threads : {1, 3}) {
    RunOptions options;
    options.threads = threads;
    RunContext context(options);
    RunScope scope(context);
    std::shared_ptr<const EnginePlan> plan = engine->planFor(made.inputs, context, &refusal);
    if (!plan) {
      ++count.refused;
      return;
    }
    for (const auto& layer : plan->network().layers) ++count.layers, count.native += layer->isNative();
    layers = layersOf(*plan);
    PoisonScope poison;
    std::vector<IValue> got(made.expected.size());
    const bool ran = engine->run(made.inputs, got, context);
    EXPECT_TRUE(ran) << graphText(*made.graph) << layers;
    if (!ran) return;
    results.push_back(std::move(got));
  }
  for (size_t i = 0; i < made.expected.size(); ++i) {
    const Tensor got = results[0][i].toTensor();
    const std::string wrong = difference(got, made.expected[i].toTensor());
    EXPECT_EQ(wrong, "") << "output " << i << " of\n" << graphText(*made.graph) << layers;
    EXPECT_TRUE(sameBits(got, results[1][i].toTensor()) || !got.isContiguous())
        << "output " << i << " differs with the number of threads\n"
        << graphText(*made.graph) << layers;
  }
}

// As it is, without memory for tactics, or with less of the processor.
void checkOnSome(uint64_t seed, const RandomNetwork& made, Count& count) {
  EngineOptions options;
  if (seed % 8 == 1) {
    options.tactics = std::make_shared<TacticCache>();
    options.tactics->workspaceLimit = 0;
  }
  if (seed % 8 == 2) limitSimdLevel(SimdLevel::Avx2);
  if (seed % 8 == 3) limitSimdLevel(SimdLevel::Base);
  check(made, options, count);
  limitSimdLevel(SimdLevel::Amx);
}

// What it costs to round is for `verify` to tell; results are at least numbers, not noise.
bool isSignal(const Tensor& got, const Tensor& want) {
  const Signal s(got, want);
  return s.signal < 1e-3 || s.noise * 2 <= s.signal;
}

// Whether it ran.
bool checkRounded(const RandomNetwork& made, DType precision) {
  EngineOptions options;
  options.precision = precision;
  std::optional<Refusal> refusal;
  std::shared_ptr<Engine> engine = Engine::make(*made.graph, allOps(), {}, options, refusal);
  if (!engine) return false;
  std::vector<std::vector<IValue>> results;
  for (int threads : {1, 2}) {
    RunOptions run;
    run.threads = threads;
    RunContext context(run);
    RunScope scope(context);
    PoisonScope poison;
    results.emplace_back(made.expected.size());
    if (!engine->planFor(made.inputs, context, &refusal) || !engine->run(made.inputs, results.back(), context))
      return false;
  }
  for (size_t i = 0; i < made.expected.size(); ++i) {
    const Tensor got = results[0][i].toTensor();
    EXPECT_TRUE(isSignal(got, made.expected[i].toTensor())) << "output " << i << " of\n" << graphText(*made.graph);
    EXPECT_TRUE(sameBits(got, results[1][i].toTensor()) || !got.isContiguous()) << graphText(*made.graph);
  }
  return true;
}

// The same network of tensors of 16 bits.
void narrow(RandomNetwork& made, DType dtype) {
  forEachNode(*made.graph, [&](Node* n) {
    const IValue* value = n->kind() == sym::Constant ? n->attributeValue(sym::value) : nullptr;
    if (value && value->isTensor() && value->toTensor().dtype() == DType::Float32)
      n->setAttribute(sym::value, IValue(convertTensor(value->toTensor(), dtype)));
  });
  for (IValue& v : made.inputs)
    if (v.isTensor() && v.toTensor().dtype() == DType::Float32) v = convertTensor(v.toTensor(), dtype);
}

bool isFinite(const Tensor& t) {
  for (int64_t i = 0; i < t.numel(); ++i)
    if (!std::isfinite(t.real(i))) return false;
  return true;
}

// Whether both computed it. What is rounded at the same places differs where sums were added in another order.
bool checkHalves(RandomNetwork& made, DType dtype) {
  narrow(made, dtype);
  Diagnostics d;
  Result<std::shared_ptr<const Program>> program = Program::compile(*made.graph, allOps(), {}, d);
  Result<std::vector<IValue>> want = program ? (*program)->run(made.inputs, {}, d) : Failed{};
  std::optional<Refusal> refusal;
  std::shared_ptr<Engine> engine = want ? Engine::make(*made.graph, allOps(), {}, {}, refusal) : nullptr;
  if (!engine) return false;
  RunOptions run;
  RunContext context(run);
  RunScope scope(context);
  PoisonScope poison;
  std::vector<IValue> got(want->size());
  if (!engine->planFor(made.inputs, context, &refusal) || !engine->run(made.inputs, got, context)) return false;
  for (size_t i = 0; i < got.size(); ++i) {
    const Tensor g = got[i].toTensor(), w = (*want)[i].toTensor();
    EXPECT_EQ(g.dtype(), w.dtype()) << "output " << i << " of\n" << graphText(*made.graph);
    if (!isFinite(w)) continue;
    // Or as near to what f32 gives as kernels are: of differences of nearly the same 16 bits leave little.
    const Signal s(g, w), exact(g, made.expected[i].toTensor()), own(w, made.expected[i].toTensor());
    EXPECT_TRUE(s.signal < 1e-3 || s.noise * 100 <= s.signal || exact.noise <= 4 * own.noise)
        << "output " << i << ", " << s.decibels() << " dB, of\n"
        << graphText(*made.graph) << layersOf(*engine->planFor(made.inputs, context, &refusal));
  }
  return true;
}

}  // namespace

TEST(NetworkProperty, EnginesOfHalvesRoundWhereKernelsDo) {
  size_t networks = 0, ran = 0;
  forEachSeed(300, [&](uint64_t seed) {
    Choices c(seed);
    ++networks;
    RandomNetwork made = randomNetwork(c, allOps());
    ran += checkHalves(made, seed % 2 ? DType::BFloat16 : DType::Float16);
  });
  EXPECT_GE(ran * 10, networks * 7) << ran << " of " << networks;
}

TEST(NetworkProperty, RoundedEnginesGiveNumbersThatDoNotDependOnThreads) {
  size_t networks = 0, ran = 0;
  forEachSeed(300, [&](uint64_t seed) {
    Choices c(seed);
    ++networks;
    ran += checkRounded(randomNetwork(c, allOps()), seed % 2 ? DType::BFloat16 : DType::Int8);
  });
  EXPECT_GE(ran * 20, networks * 19) << ran << " of " << networks;
}

TEST(NetworkProperty, EnginesGiveWhatKernelsGive) {
  Count count;
  forEachSeed(1500, [&](uint64_t seed) {
    Choices c(seed);
    checkOnSome(seed, randomNetwork(c, allOps()), count);
  });
  EXPECT_LE(count.refused * 20, count.networks) << count.refused << " of " << count.networks << " were refused";
  EXPECT_GE(count.native * 10, count.layers * 8) << count.native << " of " << count.layers << " layers are native";
}

}  // namespace tscompile::test
