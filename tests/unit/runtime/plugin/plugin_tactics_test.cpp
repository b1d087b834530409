// Plugins that offer several ways to compute: which one engines take, and where that is remembered.
#include "api/compile.h"
#include "api/extensions.h"
#include "runtime/engine/network/tactics.h"
#include "tests/support/text_file.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <chrono>
#include <limits>

namespace tscompile::test {
namespace {

void busy(double milliseconds) {
  auto begin = std::chrono::steady_clock::now();
  while (std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count() < milliseconds) {
  }
}

constexpr double kSlow = 20;  // milliseconds: longer than another process keeps the fast ones from running

// y = x, and the tactic after it. The first tactic is slow, the second fast, the third fails.
struct Ways {
  static inline int runs = 0;
  std::string timing = "ways";
  static void describe(tsc::Description<Ways>& d) {
    d.key("test", "Ways", "1", "y = x, and the tactic");
    d.field("timing", &Ways::timing, "the id");
    d.input("x", tsc::kF32, "[n]");
    d.output("y", tsc::kF32, "[n + 1]");
  }
  void shapes(tsc::Shapes& s) const { s.output(0, s.input(0).dtype, {s.input(0).dims[0] + 1}); }
  std::vector<int32_t> tactics() const { return {11, 12, 13}; }
  std::string timingId() const { return timing; }
  void run(tsc::Run& r) const {
    ++runs;
    if (r.tactic() == 13) tsc::unsupported("a thing that it cannot do");
    busy(r.tactic() == 11 ? kSlow : 0.1);
    auto y = r.output(0).values<float>();
    std::ranges::copy(r.input(0).values<float>(), y.begin());
    y.back() = static_cast<float>(r.tactic());
  }
};

// Adds 1 in place, slowly by its first tactic.
struct Increment {
  static void describe(tsc::Description<Increment>& d) {
    d.key("test", "Increment", "1", "y = x + 1");
    d.input("x", tsc::kF32, "[n]");
    d.output("y", tsc::kF32, "[n]").alias("x");
  }
  void shapes(tsc::Shapes& s) const { s.output(0, s.input(0)); }
  std::vector<int32_t> tactics() const { return {1, 2}; }
  void run(tsc::Run& r) const {
    if (r.tactic() == 1) busy(kSlow);
    for (float& v : r.output(0).values<float>()) v += 1;
  }
};

// A copy, slow by its first tactic, that keeps which one ran last.
struct Largest {
  static inline int32_t lastTactic = 0;
  static void describe(tsc::Description<Largest>& d) {
    d.key("test", "Largest", "1", "y = x");
    d.input("x", tsc::kF32, "[n]");
    d.output("y", tsc::kF32, "[n]");
  }
  void shapes(tsc::Shapes& s) const { s.output(0, s.input(0)); }
  std::vector<int32_t> tactics() const { return {1, std::numeric_limits<int32_t>::max()}; }
  void run(tsc::Run& r) const {
    lastTactic = r.tactic();
    if (r.tactic() == 1) busy(kSlow);
    std::ranges::copy(r.input(0).values<float>(), r.output(0).values<float>().begin());
  }
};

class PluginTactics : public testing::Test {
 protected:
  PluginTactics() {
    tsc::host() = &pluginHost();
    spec.minBlockSize = 1;
    spec.requiredCoverage = 1;
    spec.engine.tactics = std::make_shared<TacticCache>();
    spec.engine.tactics->timingRuns = 3;
    spec.engine.measureTactics = true;
  }
  static LoadOptions options() {
    auto extensions = std::make_shared<Extensions>();
    EXPECT_TRUE(extensions->plugins().add(*tsc::Definition<Ways>::table()));
    EXPECT_TRUE(extensions->plugins().add(*tsc::Definition<Increment>::table()));
    EXPECT_TRUE(extensions->plugins().add(*tsc::Definition<Largest>::table()));
    LoadOptions out;
    out.extensions = std::move(extensions);
    return out;
  }
  Module compiled(const std::string& node) {
    auto module = Module::fromText("graph(%x : Tensor):\n  %y : Tensor = " + node + "(%x)\n  return (%y)\n", "test",
                                   options(), diagnostics);
    EXPECT_TRUE(module);
    auto made = compile(*module, spec, diagnostics);
    EXPECT_TRUE(made) << diagnostics.list().at(0).message;
    return std::move(*made);
  }
  std::vector<float> run(const Module& module, Tensor x = Tensor::of<float>(Dims{2}, std::vector<float>{5, 6})) {
    auto out = module.forward(std::vector<IValue>{x}, diagnostics);
    EXPECT_TRUE(out) << diagnostics.list().at(0).message;
    if (!out) return {};
    Tensor y = out->at(0).toTensor();
    return {y.data<float>(), y.data<float>() + y.numel()};
  }
  std::string saved(const Module& module) {
    std::string path = folder / "engine.tse";
    EXPECT_TRUE(module.save(path, diagnostics)) << diagnostics.list().at(0).message;
    return readText(path);
  }
  CompileSpec spec;
  Diagnostics diagnostics;
  TemporaryFolder folder;
};

TEST_F(PluginTactics, TheModelTakesTheFirst) {
  spec.engine.measureTactics = false;
  EXPECT_EQ(run(compiled("test::Ways")), (std::vector<float>{5, 6, 11}));
  EXPECT_EQ(spec.engine.tactics->text(), "tscompile tactics 1\n");
}

TEST_F(PluginTactics, TheFastestIsTakenAndSaved) {
  Module module = compiled("test::Ways");
  EXPECT_EQ(run(module), (std::vector<float>{5, 6, 12}));
  std::string found = spec.engine.tactics->text();
  EXPECT_EQ(found.find("tscompile tactics 1\nplugin test::Ways 1 \"ways\" f32[2] threads "), 0u) << found;
  EXPECT_NE(found.find(": 12\n"), std::string::npos) << found;
  std::string bytes = saved(module);

  Ways::runs = 0;
  auto engine = Module::load(folder / "engine.tse", options(), diagnostics);
  ASSERT_TRUE(engine);
  EXPECT_EQ(run(*engine), (std::vector<float>{5, 6, 12}));
  EXPECT_EQ(Ways::runs, 1) << "nothing is timed again";

  // What was found is an input: with it nothing is timed, and the same bytes come out.
  spec.engine.tactics = std::make_shared<TacticCache>();
  ASSERT_TRUE(spec.engine.tactics->read(found, "cache", diagnostics));
  Ways::runs = 0;
  Module again = compiled("test::Ways");
  EXPECT_EQ(run(again), (std::vector<float>{5, 6, 12}));
  EXPECT_EQ(Ways::runs, 1);
  EXPECT_EQ(saved(again), bytes);
}

TEST_F(PluginTactics, WithoutATimingIdTheyBelongToTheEngine) {
  Module module = compiled("test::Ways[timing=\"\"]");
  EXPECT_EQ(run(module), (std::vector<float>{5, 6, 12}));
  EXPECT_EQ(spec.engine.tactics->text(), "tscompile tactics 1\n");
  saved(module);
  auto engine = Module::load(folder / "engine.tse", options(), diagnostics);
  ASSERT_TRUE(engine);
  EXPECT_EQ(run(*engine), (std::vector<float>{5, 6, 12}));
}

// The fast tactic is the largest number that there is.
TEST_F(PluginTactics, AnyPositiveNumberIsReadBack) {
  Module module = compiled("test::Largest");
  EXPECT_EQ(run(module), (std::vector<float>{5, 6}));
  EXPECT_NE(spec.engine.tactics->textOfEngine().find(": 2147483647\n"), std::string::npos);
  saved(module);
  EXPECT_TRUE(Module::load(folder / "engine.tse", options(), diagnostics)) << diagnostics.list().at(0).message;
}

TEST_F(PluginTactics, AreFoundAgainForTheThreadsThatTheyAreChosenFor) {
  spec.engine.threads = 3;
  Module module = compiled("test::Largest");
  run(module);
  EXPECT_NE(spec.engine.tactics->textOfEngine().find(" threads 3 "), std::string::npos);
  saved(module);
  auto engine = Module::load(folder / "engine.tse", options(), diagnostics);
  ASSERT_TRUE(engine);
  Largest::lastTactic = 0;
  run(*engine);
  EXPECT_EQ(Largest::lastTactic, std::numeric_limits<int32_t>::max());
}

TEST_F(PluginTactics, AnIdMayBeAnyText) {
  run(compiled("test::Ways[timing=\"a: 1\\nb\"]"));
  std::string found = spec.engine.tactics->text();
  TacticCache read;
  EXPECT_TRUE(read.read(found, "cache", diagnostics)) << found;
  EXPECT_EQ(read.text(), found);
}

TEST_F(PluginTactics, TimingWritesNoInput) {
  Tensor x = Tensor::of<float>(Dims{2}, std::vector<float>{5, 6});
  Module module = compiled("test::Increment[inplace=1]");
  EXPECT_EQ(run(module, x), (std::vector<float>{6, 7}));
  EXPECT_EQ(run(module, x), (std::vector<float>{7, 8}));
  EXPECT_NE(spec.engine.tactics->textOfEngine().find(": 2\n"), std::string::npos);
  EXPECT_EQ(run(compiled("test::Increment"), x), (std::vector<float>{8, 9}));
  EXPECT_EQ(x.data<float>()[0], 7);
}

TEST(Tactics, AChallengerMustBeFasterByATenth) {
  auto fastest = [](std::vector<double> seconds) {
    return fastestOf(seconds.size(), 3, [&](size_t i) { return seconds[i]; });
  };
  EXPECT_EQ(fastest({1}), 0u);
  EXPECT_EQ(fastest({1, 0.95, 0.92}), 0u);
  EXPECT_EQ(fastest({1, 0.9, 0.7, 0.8}), 2u);
  std::string order;
  fastestOf(2, 2, [&](size_t i) { return order += static_cast<char>('a' + i), 1.0; });
  EXPECT_EQ(order, "ababab");
}

TEST(Tactics, OfPluginsAreNumbersInAFile) {
  Diagnostics diagnostics;
  TacticCache cache;
  EXPECT_TRUE(cache.read("tscompile tactics 1\nplugin a::B 1 \"x\" f32[2]: 3\n", "cache", diagnostics));
  EXPECT_FALSE(cache.read("tscompile tactics 1\nplugin a::B 1 \"y\" f32[2]: im2col\n", "cache", diagnostics));
  EXPECT_EQ(diagnostics.list().at(0).message, "cache:2: there is no tactic 'im2col'");
  EXPECT_TRUE(cache.read("tscompile tactics 1\nplugin a::B 1 \"z\" f32[2]: 2147483647\n", "cache", diagnostics));
  for (const char* none : {"2147483648", "0", "-1", "", "1x"})
    EXPECT_FALSE(cache.read(fmt::format("tscompile tactics 1\nplugin a::B 1 f32[2]: {}\n", none), "cache", diagnostics))
        << none;
}

}  // namespace
}  // namespace tscompile::test
