// Plugins at work: life cycle, versions, nodes in graphs.
#include "ir/graph/printer.h"
#include "tests/support/plugin_graph.h"
#include "tests/unit/runtime/plugin/traced_plugin.h"

#include <gtest/gtest.h>

#include <filesystem>

namespace tscompile::test {
namespace {

template <int kAdds>
struct Versioned {
  static void describe(tsc::Description<Versioned>& d) {
    d.key("test", "Versioned", kAdds == 1 ? "1" : "2", "y = x + the version");
    d.input("x", tsc::kF32, "any sizes");
    d.output("y", tsc::kF32, "as x");
  }
  void shapes(tsc::Shapes& s) const { s.output(0, s.input(0)); }
  void run(tsc::Run& r) const {
    for (size_t i = 0; i < r.output(0).values<float>().size(); ++i)
      r.output(0).data<float>()[i] = r.input(0).data<float>()[i] + kAdds;
  }
};

class PluginAtWork : public PluginGraph {
 protected:
  PluginAtWork() : PluginGraph({tsc::Definition<Traced>::table()}) {}
};

TEST_F(PluginAtWork, LivesAsItShould) {
  trace().clear();
  std::string path = testing::TempDir() + "/traced.tse";
  {
    auto module = load(kTracedGraph);
    ASSERT_TRUE(module);
    CompileSpec spec;
    spec.minBlockSize = 1;
    auto compiled = compile(*module, spec, diagnostics);
    ASSERT_TRUE(compiled) << firstError();
    ASSERT_TRUE(compiled->save(path, diagnostics)) << firstError();
  }
  auto isCreate = [](const std::string& line) { return line == "create"; };
  EXPECT_GE(std::ranges::count_if(trace(), isCreate), 1);
  extensions = nullptr;
  trace().clear();
  {
    LoadOptions options;
    options.extensions = extensions = extensionsWith({tsc::Definition<Traced>::table()});
    auto engine = Module::load(path, options, diagnostics);
    ASSERT_TRUE(engine) << firstError();
    for (size_t size : {2, 2, 3, 2}) {
      auto out = engine->forward(std::vector<IValue>{tensor(std::vector<float>(size, 2))}, diagnostics);
      ASSERT_TRUE(out) << firstError();
      EXPECT_EQ(values(out->at(0)), std::vector<float>(size, 6));
    }
  }
  extensions = nullptr;
  EXPECT_EQ(trace(),
            (std::vector<std::string>{"create", "initialize", "attach", "configure 2", "run", "run", "configure 3",
                                      "run", "configure 2", "run", "detach", "terminate", "destroy"}));
  std::filesystem::remove(path);
}

TEST_F(PluginAtWork, AnEngineFileNamesThePluginThatIsMissing) {
  std::string path = testing::TempDir() + "/missing.tse";
  auto module = load(kTracedGraph);
  ASSERT_TRUE(module);
  CompileSpec spec;
  spec.minBlockSize = 1;
  auto compiled = compile(*module, spec, diagnostics);
  ASSERT_TRUE(compiled) << firstError();
  ASSERT_TRUE(compiled->save(path, diagnostics));
  EXPECT_FALSE(Module::load(path, {}, diagnostics));
  EXPECT_EQ(firstError(), "the engine file needs the plugin test::Traced version 1, which is not there");
  EXPECT_EQ(diagnostics.list().at(0).kind, ErrorKind::Incompatible);
  std::filesystem::remove(path);
}

// What was compiled with a version runs with it, whatever else is loaded.
TEST_F(PluginAtWork, EngineFilesKeepTheVersion) {
  const tsc_plugin *one = tsc::Definition<Versioned<1>>::table(), *two = tsc::Definition<Versioned<2>>::table();
  std::string path = testing::TempDir() + "/versioned.tse";
  extensions = extensionsWith({one});
  auto module = load("graph(%x : Tensor):\n  %y : Tensor = test::Versioned(%x)\n  return (%y)\n");
  ASSERT_TRUE(module);
  CompileSpec spec;
  spec.minBlockSize = 1;
  auto compiled = compile(*module, spec, diagnostics);
  ASSERT_TRUE(compiled && compiled->save(path, diagnostics)) << firstError();
  LoadOptions options;
  options.extensions = extensions = extensionsWith({one, two});
  auto engine = Module::load(path, options, diagnostics);
  ASSERT_TRUE(engine) << firstError();
  auto out = engine->forward(std::vector<IValue>{tensor({5})}, diagnostics);
  ASSERT_TRUE(out) << firstError();
  EXPECT_EQ(values(out->at(0)), std::vector<float>{6});
  auto highest = load("graph(%x : Tensor):\n  %y : Tensor = test::Versioned(%x)\n  return (%y)\n");
  out = highest->forward(std::vector<IValue>{tensor({5})}, diagnostics);
  ASSERT_TRUE(out);
  EXPECT_EQ(values(out->at(0)), std::vector<float>{7});
  std::filesystem::remove(path);
}

TEST_F(PluginAtWork, PrintsAndReadsBack) {
  auto module = load(kTracedGraph);
  ASSERT_TRUE(module);
  EXPECT_EQ(graphText(*module->graph()), kTracedGraph);
}

}  // namespace
}  // namespace tscompile::test
