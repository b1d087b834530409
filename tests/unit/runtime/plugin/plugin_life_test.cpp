// What plugins are told while a graph is compiled, in which phase their instances are made, and when they can be taken
// out again.
#include "api/compile.h"
#include "api/extensions.h"
#include "ir/support/text.h"
#include "runtime/registry.h"
#include "tests/support/text_file.h"

#include <gtest/gtest.h>

namespace tscompile::test {
namespace {

std::vector<std::string>& lifeTrace() {
  static std::vector<std::string> lines;
  return lines;
}

// A copy that writes down what it is told.
struct Told {
  static void describe(tsc::Description<Told>& d) {
    d.key("test", "Told", "1", "y = x");
    d.input("x", tsc::kF32, "any sizes");
    d.input("more", tsc::kF32, "any sizes").optional();
    d.output("y", tsc::kF32, "as x");
  }
  void prepare(uint32_t phase) const { lifeTrace().push_back(phase == TSC_BUILDING ? "building" : "running"); }
  void configure(const tsc::Tensors& least, const tsc::Tensors& usual, const tsc::Tensors& most) const {
    std::string line = "configure";
    for (const tsc::Tensors* t : {&least, &usual, &most})
      line += " " + std::to_string(t->input(0).size(0)) + "x" + std::to_string(t->output(0).size(1));
    lifeTrace().push_back(line + (usual.has(1) ? " more" : ""));
    if (most.input(0).size(0) > 100) tsc::unsupported("more than 100 rows");
  }
  void shapes(tsc::Shapes& s) const { s.output(0, s.input(0)); }
  void run(tsc::Run& r) const { std::ranges::copy(r.input(0).values<float>(), r.output(0).values<float>().begin()); }
};

constexpr const char* kGraph =
    "graph(%x : Tensor):\n"
    "  %r : Tensor = aten::relu(%x)\n"
    "  %y : Tensor = test::Told(%r)\n"
    "  return (%y)\n";

const tsc_plugin& told(bool attaches = true) {
  tsc::host() = &pluginHost();
  static tsc_plugin without = *tsc::Definition<Told>::table();
  without.attach = nullptr;
  return attaches ? *tsc::Definition<Told>::table() : without;
}

LoadOptions with(const tsc_plugin& table) {
  LoadOptions out;
  auto extensions = std::make_shared<Extensions>();
  EXPECT_TRUE(extensions->plugins().add(table));
  out.extensions = std::move(extensions);
  return out;
}

Result<Module> compiled(CompileInput input, Diagnostics& diagnostics, const tsc_plugin& table = told()) {
  auto module = Module::fromText(kGraph, "test", with(table), diagnostics);
  EXPECT_TRUE(module);
  CompileSpec spec({std::move(input)});
  spec.minBlockSize = 1;
  lifeTrace().clear();
  return compile(*module, spec, diagnostics);
}

bool run(const Module& module, Dims sizes, Diagnostics& diagnostics) {
  return module.forward(std::vector<IValue>{Tensor::zeros(DType::Float32, sizes)}, diagnostics).ok();
}

size_t count(const std::string& line) { return static_cast<size_t>(std::ranges::count(lifeTrace(), line)); }

TEST(PluginLife, IsToldTheSizesThatItIsBuiltFor) {
  Diagnostics diagnostics;
  auto module = compiled(CompileInput({1, 4}, {3, 4}, {8, 4}), diagnostics);
  ASSERT_TRUE(module);
  EXPECT_EQ(count("configure 1x4 3x4 8x4"), 1u) << join(lifeTrace(), "\n", [](auto& s) { return s; });
  ASSERT_TRUE(run(*module, {2, 4}, diagnostics));
  EXPECT_EQ(lifeTrace().back(), "configure 2x4 2x4 2x4");
}

TEST(PluginLife, MayRefuseThem) {
  Diagnostics diagnostics;
  EXPECT_FALSE(compiled(CompileInput({1, 4}, {3, 4}, {800, 4}), diagnostics));
  ASSERT_EQ(diagnostics.errorCount(), 1u);
  EXPECT_EQ(diagnostics.list().at(0).message, "test::Told: more than 100 rows");
  EXPECT_EQ(diagnostics.list().at(0).kind, ErrorKind::Unsupported);
}

TEST(PluginLife, InstancesOfEngineFilesAreMadeForRuns) {
  for (bool attaches : {true, false}) {
    Diagnostics diagnostics;
    TemporaryFolder folder;
    auto module = compiled(CompileInput({2, 4}), diagnostics, told(attaches));
    ASSERT_TRUE(module);
    ASSERT_TRUE(module->save(folder / "told.tse", diagnostics));
    EXPECT_GE(count("building"), 1u);
    EXPECT_EQ(count("running"), 0u);
    lifeTrace().clear();
    auto engine = Module::load(folder / "told.tse", with(told(attaches)), diagnostics);
    ASSERT_TRUE(engine);
    ASSERT_TRUE(run(*engine, {2, 4}, diagnostics));
    EXPECT_EQ(count("building"), 0u);
    EXPECT_EQ(count("running"), attaches ? 1u : 2u);
    EXPECT_EQ(count("configure 2x4 2x4 2x4"), 1u);
    // How it was loaded is not saved.
    ASSERT_TRUE(engine->save(folder / "again.tse", diagnostics));
    auto again = Module::load(folder / "again.tse", with(told(attaches)), diagnostics);
    ASSERT_TRUE(again);
    ASSERT_TRUE(again->save(folder / "third.tse", diagnostics));
    EXPECT_EQ(readText(folder / "third.tse"), readText(folder / "again.tse"));
  }
}

// ---- taking plugins out ----

TEST(PluginLife, WhatNoProgramUsesCanBeTakenOut) {
  PluginRegistry& all = allPlugins();
  const PluginKey key{"test", "Told", "1"};
  for (int round = 0; round < 2; ++round) {
    ASSERT_TRUE(all.add(told()));
    Diagnostics diagnostics;
    {
      auto module = Module::fromText(kGraph, "test", {}, diagnostics);
      ASSERT_TRUE(module);
      auto method = module->prepare(diagnostics);
      ASSERT_TRUE(method);
      auto running = [&] {
        return method->run(std::vector<IValue>{Tensor::zeros(DType::Float32, Dims{2, 4})}, diagnostics).ok();
      };
      ASSERT_TRUE(running());
      PluginResult used = all.remove(key);
      EXPECT_EQ(used.status, PluginStatus::InUse);
      EXPECT_EQ(used.message, "test::Told version 1 has 1 living instance");
      EXPECT_TRUE(running());
    }
    PluginResult removed = all.remove(key);
    EXPECT_TRUE(removed) << removed.message;
    EXPECT_FALSE(all.find("test", "Told"));
    auto module = Module::fromText(kGraph, "test", {}, diagnostics);
    ASSERT_TRUE(module);
    EXPECT_FALSE(module->prepare(diagnostics));
  }
}

// A session's operators use plugins of the process.
TEST(PluginLife, SessionsLetGoAsWell) {
  PluginRegistry& all = allPlugins();
  ASSERT_TRUE(all.add(told()));
  LoadOptions options;
  options.extensions = std::make_shared<Extensions>();
  Diagnostics diagnostics;
  {
    auto module = Module::fromText(kGraph, "test", options, diagnostics);
    ASSERT_TRUE(module);
    ASSERT_TRUE(run(*module, {2, 4}, diagnostics));
    CompileSpec spec;
    spec.minBlockSize = 1;
    auto engine = compile(*module, spec, diagnostics);
    ASSERT_TRUE(engine);
    auto method = engine->prepare(diagnostics);
    ASSERT_TRUE(method);
    EXPECT_EQ(all.remove({"test", "Told", "1"}).status, PluginStatus::InUse);
  }
  PluginResult removed = all.remove({"test", "Told", "1"});
  EXPECT_TRUE(removed) << removed.message;
}

}  // namespace
}  // namespace tscompile::test
