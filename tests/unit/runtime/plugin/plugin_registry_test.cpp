// The registry of plugins: keys, look-ups, libraries, threads.
#include "api/extensions.h"
#include "ir/support/diagnostic_printer.h"
#include "runtime/plugin/plugin_instance.h"
#include "runtime/registry.h"
#include "runtime/trtllm/builtin.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <thread>

namespace tscompile::test {
namespace {

struct Copy {
  static void describe(tsc::Description<Copy>& d) {
    d.key("my", "Scale", "1", "a copy");
    d.input("x", tsc::kF32, "any sizes");
    d.output("y", tsc::kF32, "as x");
  }
  void shapes(tsc::Shapes& s) const { s.output(0, s.input(0)); }
  void run(tsc::Run&) const {}
};

// The table of a plugin with another key.
tsc_plugin table(std::string_view ns, std::string_view name, std::string_view version) {
  static const tsc_plugin& original = []() -> const tsc_plugin& {
    tsc::host() = &pluginHost();
    return *tsc::Definition<Copy>::table();
  }();
  tsc_plugin t = original;
  t.ns = tsc::text(ns), t.name = tsc::text(name), t.version = tsc::text(version);
  return t;
}

std::string libraryPath(const std::string& name) { return std::string(TSCOMPILE_TEST_PLUGINS) + "/" + name + ".so"; }

std::shared_ptr<PluginInstance> instanceOf(const PluginCreatorPtr& creator) {
  OperatorProblem problem;
  auto made = PluginInstance::create(creator, completeFields({}, *creator).fields, allOps(), TSC_BUILDING, "", problem);
  EXPECT_TRUE(made) << problem.text;
  return made;
}

std::vector<std::string> keysOf(const PluginRegistry& registry) {
  std::vector<std::string> out;
  for (const PluginCreatorPtr& c : registry.list()) out.push_back(c->key.text());
  return out;
}

TEST(PluginRegistry, AKeyIsTakenOnce) {
  PluginRegistry registry;
  tsc_plugin one = table("my", "Scale", "1"), two = table("my", "Scale", "2"), other = table("other", "Scale", "1");
  ASSERT_TRUE(registry.add(one));
  PluginCreatorPtr first = registry.find("my", "Scale", "1");
  PluginResult again = registry.add(one);
  EXPECT_EQ(again.status, PluginStatus::Duplicate);
  EXPECT_EQ(again.message, "my::Scale version 1 is registered already");
  EXPECT_EQ(registry.find("my", "Scale", "1"), first);
  EXPECT_TRUE(registry.add(two));
  EXPECT_TRUE(registry.add(other));
  EXPECT_EQ(keysOf(registry),
            (std::vector<std::string>{"my::Scale version 1", "my::Scale version 2", "other::Scale version 1"}));
}

TEST(PluginRegistry, LookUpWithoutVersionGivesTheHighest) {
  PluginRegistry registry;
  for (const char* version : {"2", "10", "9.1"}) ASSERT_TRUE(registry.add(table("my", "Scale", version)));
  EXPECT_EQ(registry.find("my", "Scale")->key.version, "10");
  EXPECT_EQ(registry.find("my", "Scale", "9.1")->key.version, "9.1");
  EXPECT_FALSE(registry.find("my", "Scale", "9"));
}

TEST(PluginRegistry, AMissTellsWhatIsNear) {
  PluginRegistry registry;
  ASSERT_TRUE(registry.add(table("my", "Scale", "1")));
  ASSERT_TRUE(registry.add(table("other", "Scale", "3")));
  EXPECT_EQ(registry.missing("my", "Scalee"), "there is no plugin my::Scalee; the nearest is my::Scale");
  EXPECT_EQ(registry.missing("third", "Scale"),
            "there is no plugin third::Scale; there is one of that name in my, other");
  EXPECT_EQ(registry.missing("my", "Scale", "7"), "there is no plugin my::Scale version 7; it has the versions 1");
}

TEST(PluginRegistry, NamesAndTablesAreChecked) {
  PluginRegistry registry;
  EXPECT_EQ(registry.add(table("", "Scale", "1")).status, PluginStatus::BadName);
  EXPECT_EQ(registry.add(table("my", "Sc ale", "1")).status, PluginStatus::BadName);
  EXPECT_EQ(registry.add(table("my", std::string(1024, 'a'), "1")).status, PluginStatus::BadName);
  EXPECT_EQ(registry.add(table("my", "Scale", "one")).status, PluginStatus::BadName);
  EXPECT_EQ(registry.add(table("aten", "relu", "1")).status, PluginStatus::BadName);
  tsc_plugin t = table("my", "Scale", "1");
  t.abi = (TSC_ABI_MAJOR + 1) << 16;
  EXPECT_EQ(registry.add(t).status, PluginStatus::AbiMismatch);
  t = table("my", "Scale", "1");
  t.run = nullptr;
  EXPECT_EQ(registry.add(t).status, PluginStatus::BadTable);
  t = table("my", "Scale", "1");
  t.size = 8;
  EXPECT_EQ(registry.add(t).status, PluginStatus::BadTable);
  tsc_field_info field{sizeof(tsc_field_info), tsc::text("k"), TSC_INT, 0, nullptr, 0, 1, 0, 1, {}, {}};
  t = table("my", "Scale", "1");
  t.fields = &field, t.field_count = 1;
  PluginResult bad = registry.add(t);
  EXPECT_EQ(bad.status, PluginStatus::BadTable);
  EXPECT_EQ(bad.message, "my::Scale: the field k has no default");
  EXPECT_TRUE(registry.list().empty());
}

TEST(PluginRegistry, AChildHidesItsParentAndMayStandAlone) {
  PluginRegistry parent, child(&parent);
  ASSERT_TRUE(parent.add(table("my", "Scale", "1")));
  ASSERT_TRUE(parent.add(table("my", "Other", "1")));
  ASSERT_TRUE(child.add(table("my", "Scale", "1")));
  EXPECT_NE(child.find("my", "Scale"), parent.find("my", "Scale"));
  EXPECT_EQ(child.find("my", "Other"), parent.find("my", "Other"));
  EXPECT_EQ(child.list().size(), 2u);
  child.searchParent(false);
  EXPECT_FALSE(child.find("my", "Other"));
  EXPECT_EQ(child.list().size(), 1u);
}

TEST(PluginRegistry, OtherNamesMeanTheNewOne) {
  PluginRegistry registry;
  std::vector<std::string> lines;
  registry.setLog([&](int level, std::string_view line) {
    if (level >= 3) lines.emplace_back(line);
  });
  ASSERT_TRUE(registry.add(table("my", "Scale", "1")));
  ASSERT_TRUE(registry.addAlias("my::OldScale", "my::Scale", "it takes more types"));
  EXPECT_EQ(registry.find("my", "OldScale"), registry.find("my", "Scale"));
  EXPECT_TRUE(registry.hasKind("my", "OldScale"));
  EXPECT_EQ(lines, (std::vector<std::string>{"my::OldScale is now my::Scale: it takes more types"}));
  EXPECT_EQ(registry.addAlias("my::OldScale", "my::Scale", "").status, PluginStatus::Duplicate);
}

TEST(PluginRegistry, EachRegistrationIsALine) {
  PluginRegistry registry;
  std::vector<std::pair<int, std::string>> lines;
  registry.setLog([&](int level, std::string_view line) { lines.emplace_back(level, line); });
  ASSERT_TRUE(registry.add(table("my", "Scale", "1")));
  using Lines = std::vector<std::pair<int, std::string>>;
  EXPECT_EQ(lines, (Lines{{1, "Registered plugin creator Scale version 1 in namespace my"}}));
  // Who listens later is told of those that there are.
  lines.clear();
  registry.setLog([&](int level, std::string_view line) { lines.emplace_back(level, line); });
  EXPECT_EQ(lines.size(), 1);
}

TEST(PluginRegistry, BuiltInOnesAreMadeWhenAskedFor) {
  static int made = 0;
  auto tables = []() -> std::span<const tsc_plugin* const> {
    ++made;
    return builtinPlugins();
  };
  PluginRegistry registry;
  registry.addBuiltin(tables, "mine");
  registry.addBuiltin(tables, "mine");
  EXPECT_FALSE(registry.find("my", "Scale"));
  EXPECT_FALSE(registry.hasKind("aten", "relu"));
  EXPECT_EQ(made, 0);
  EXPECT_TRUE(registry.hasKind("mine", "Identity"));
  EXPECT_EQ(made, 1);
  const size_t count = builtinPlugins().size();
  EXPECT_EQ(registry.list().size(), count);
  EXPECT_EQ(made, 1) << "the second time for one namespace does nothing";
  registry.addBuiltin(tables, "yours");
  EXPECT_EQ(registry.list().size(), 2 * count);
  registry.addBuiltin(tables, "theirs");
  PluginRegistry asking(&registry);
  EXPECT_TRUE(asking.find("theirs", "Identity"));
  EXPECT_EQ(registry.add(*builtinPlugins()[0], "theirs").status, PluginStatus::Duplicate);
  registry.addBuiltin(tables, "hers");
  EXPECT_EQ(registry.add(*builtinPlugins()[0], "hers").status, PluginStatus::Duplicate);
  // Who listens later is told of them too.
  size_t lines = 0;
  registry.setLog([&](int, std::string_view) { ++lines; });
  EXPECT_EQ(lines, 4 * count);
}

TEST(PluginRegistry, WhatIsInUseStays) {
  PluginRegistry registry;
  ASSERT_TRUE(registry.add(table("my", "Scale", "1")));
  auto instance = instanceOf(registry.find("my", "Scale"));
  PluginResult refused = registry.remove({"my", "Scale", "1"});
  EXPECT_EQ(refused.status, PluginStatus::InUse);
  EXPECT_EQ(refused.message, "my::Scale version 1 has 1 living instance");
  instance = nullptr;
  EXPECT_TRUE(registry.remove({"my", "Scale", "1"}));
  EXPECT_EQ(registry.remove({"my", "Scale", "1"}).status, PluginStatus::NotFound);
}

// What many threads do to one registry is what one would have done.
TEST(PluginRegistry, ManyThreads) {
  PluginRegistry registry;
  constexpr int kThreads = 16, kTimes = 600;
  std::vector<std::string> names;
  for (int i = 0; i < kThreads; ++i) names.push_back("P" + std::to_string(i));
  std::vector<std::thread> all;
  std::atomic<int> wrong{0};
  for (int i = 0; i < kThreads; ++i)
    all.emplace_back([&, i] {
      for (int k = 0; k < kTimes; ++k) {
        if (!registry.add(table("my", names[static_cast<size_t>(i)], "1"))) ++wrong;
        if (!registry.find("my", names[static_cast<size_t>(i)])) ++wrong;
        static_cast<void>(registry.list());
        static_cast<void>(registry.missing("my", "nothing"));
        if (k + 1 < kTimes && !registry.remove({"my", names[static_cast<size_t>(i)], "1"})) ++wrong;
      }
    });
  for (std::thread& t : all) t.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(registry.list().size(), static_cast<size_t>(kThreads));
}

// ---- libraries ----

TEST(PluginLibrary, LoadsAllOrNothing) {
  PluginRegistry registry;
  ASSERT_TRUE(registry.load(libraryPath("scale_plugins")));
  EXPECT_EQ(keysOf(registry), (std::vector<std::string>{"testlib::RowSum version 1", "testlib::Scale version 1"}));
  EXPECT_TRUE(registry.load(libraryPath("scale_plugins"))) << "twice is once";
  EXPECT_EQ(registry.list().size(), 2u);

  PluginRegistry other;
  PluginResult clash = other.load(libraryPath("clashing_plugins"));
  EXPECT_EQ(clash.status, PluginStatus::Duplicate);
  EXPECT_TRUE(other.list().empty());
  EXPECT_EQ(other.load(libraryPath("other_abi_plugins")).status, PluginStatus::AbiMismatch);
  EXPECT_EQ(other.load(libraryPath("no_such")).status, PluginStatus::NotFound);
  EXPECT_EQ(other.load("relative.so").status, PluginStatus::BadLibrary);
  EXPECT_EQ(other.load(std::string(TSCOMPILE_SOURCE_DIR) + "/README.md").status, PluginStatus::BadLibrary);
  EXPECT_TRUE(other.list().empty());
}

TEST(PluginLibrary, MayBeInAnotherNamespace) {
  PluginRegistry registry;
  const std::string path = libraryPath("scale_plugins");
  ASSERT_TRUE(registry.load("mine=" + path));
  EXPECT_EQ(keysOf(registry), (std::vector<std::string>{"mine::RowSum version 1", "mine::Scale version 1"}));
  EXPECT_TRUE(registry.load("mine=" + path)) << "twice is once";
  ASSERT_TRUE(registry.load(path)) << "beside its own one";
  EXPECT_EQ(registry.list().size(), 4u);
  EXPECT_EQ(registry.load("aten=" + path).status, PluginStatus::BadName);
  EXPECT_EQ(registry.load("my-own=" + path).status, PluginStatus::BadName);
  EXPECT_EQ(registry.list().size(), 4u);
  EXPECT_TRUE(registry.unload(path));
  EXPECT_TRUE(registry.list().empty());
}

TEST(PluginLibrary, IsUnloadedWhenNothingLives) {
  PluginRegistry registry;
  std::string path = libraryPath("scale_plugins");
  ASSERT_TRUE(registry.load(path));
  auto instance = instanceOf(registry.find("testlib", "Scale"));
  PluginResult refused = registry.unload(path);
  EXPECT_EQ(refused.status, PluginStatus::InUse);
  instance = nullptr;
  EXPECT_TRUE(registry.unload(path));
  EXPECT_FALSE(registry.find("testlib", "Scale"));
  EXPECT_EQ(registry.unload(path).status, PluginStatus::NotFound);
  EXPECT_TRUE(registry.load(path)) << "it can be loaded again";
}

class PluginEnvironment : public testing::Test {
 protected:
  void TearDown() override { unsetenv("TSCOMPILE_LOAD_PLUGINS"); }
  // The keys in the namespace of the library, and whether loading went well.
  std::pair<size_t, bool> load(const char* value) {
    if (value)
      setenv("TSCOMPILE_LOAD_PLUGINS", value, 1);
    else
      unsetenv("TSCOMPILE_LOAD_PLUGINS");
    Extensions extensions;
    bool good = extensions.loadPluginsFromEnvironment(diagnostics);
    size_t found = 0;
    for (const PluginCreatorPtr& c : extensions.plugins().list()) found += c->key.ns == "fromenvironment";
    return {found, good};
  }
  Diagnostics diagnostics;
};

TEST(PluginLibrary, RelativePathsAreOfTheWorkingDirectory) {
  const std::string path = std::filesystem::relative(libraryPath("scale_plugins")).string();
  Diagnostics diagnostics;
  Extensions extensions;
  EXPECT_TRUE(extensions.loadPlugins(path, diagnostics)) << renderDiagnostics(diagnostics, "test");
  EXPECT_TRUE(extensions.loadPlugins("mine=" + path, diagnostics)) << renderDiagnostics(diagnostics, "test");
  EXPECT_TRUE(extensions.plugins().find("mine", "Scale"));
  EXPECT_FALSE(extensions.loadPlugins("no_such_plugins.so", diagnostics));
}

TEST_F(PluginEnvironment, NamesLibrariesByAbsolutePaths) {
  std::string path = libraryPath("environment_plugins"), twice = path + ":" + path;
  using Outcome = std::pair<size_t, bool>;
  EXPECT_EQ(load(nullptr), Outcome(0, true));
  EXPECT_EQ(load(""), Outcome(0, true));
  EXPECT_EQ(load(path.c_str()), Outcome(2, true));
  EXPECT_EQ(load(twice.c_str()), Outcome(2, true));
  EXPECT_EQ(diagnostics.errorCount(), 0u);
  EXPECT_EQ(load("environment_plugins.so"), Outcome(0, false));
  EXPECT_EQ(load("/no/such/plugins.so"), Outcome(0, false));
  EXPECT_EQ(load(("/no/such/plugins.so:" + path).c_str()), Outcome(2, false));
  EXPECT_EQ(diagnostics.errorCount(), 3u);
}

}  // namespace
}  // namespace tscompile::test
