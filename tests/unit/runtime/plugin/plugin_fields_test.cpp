// Fields of plugins: defaults, mistakes, bytes that are saved, tables of later versions.
#include "runtime/plugin/plugin_instance.h"
#include "tests/support/plugin_graph.h"
#include "tests/unit/runtime/plugin/traced_plugin.h"

#include <gtest/gtest.h>

namespace tscompile::test {
namespace {

// The table of the next version of a plugin whose first one had `factor`.
template <bool kUpgrades>
struct Renamed {
  double scale = 2;
  int64_t extra = 5;
  static void describe(tsc::Description<Renamed>& d) {
    d.key("test", "Renamed", "1", "").fieldsVersion(2);
    d.field("scale", &Renamed::scale, "").mandatory();
    d.field("extra", &Renamed::extra, "");
    d.input("x", tsc::kF32, "");
    d.output("y", tsc::kF32, "");
  }
  static void upgrade(uint32_t from, tsc::Fields& fields) requires kUpgrades {
    if (from == 1) fields.rename("factor", "scale");
  }
  void shapes(tsc::Shapes& s) const { s.output(0, s.input(0)); }
  void run(tsc::Run&) const {}
};

struct BeforeRenaming {
  double factor = 2;
  static void describe(tsc::Description<BeforeRenaming>& d) {
    d.key("test", "Renamed", "1", "");
    d.field("factor", &BeforeRenaming::factor, "");
    d.input("x", tsc::kF32, "");
    d.output("y", tsc::kF32, "");
  }
  void shapes(tsc::Shapes& s) const { s.output(0, s.input(0)); }
  void run(tsc::Run&) const {}
};

template <class P>
PluginCreatorPtr creatorOf() {
  tsc::host() = &pluginHost();
  static PluginRegistry registry;
  PluginResult added = registry.add(*tsc::Definition<P>::table());
  std::string_view name = tsc::view(tsc::Definition<P>::table()->name);
  EXPECT_TRUE(added || added.status == PluginStatus::Duplicate) << added.message;
  return registry.find(tsc::view(tsc::Definition<P>::table()->ns), name);
}

class PluginFieldsInGraphs : public PluginGraph {
 protected:
  PluginFieldsInGraphs() : PluginGraph({tsc::Definition<Traced>::table()}) {}
};

TEST_F(PluginFieldsInGraphs, AllMistakesInFieldsAreToldAtOnce) {
  creatorOf<Traced>();
  auto module = load(
      "graph(%x : Tensor):\n"
      "  %y : Tensor = test::Traced[q_scaling=1, head_size=[1, 2], num_headz=3](%x)\n"
      "  return (%y)\n");
  ASSERT_TRUE(module);
  trace().clear();
  EXPECT_FALSE(module->prepare(diagnostics));
  EXPECT_EQ(firstError(),
            "test::Traced: there is no field num_headz, did you mean num_heads?; the field num_heads (int) is missing; "
            "the field q_scaling: expected float, got int; the field head_size: expected int, got list of int");
  EXPECT_TRUE(trace().empty()) << "no instance is made";
}

TEST(PluginFields, DefaultsAreWhatIsLeftOut) {
  PluginCreatorPtr creator = creatorOf<Traced>();
  auto fieldsFor = [&](std::vector<tsc::Field> given) {
    ParsedFields parsed = completeFields(std::move(given), *creator);
    EXPECT_TRUE(parsed.problems.empty());
    return encodeFields(*creator, parsed.fields);
  };
  std::string least = fieldsFor({tsc::Field::of("num_heads", int64_t{4})});
  std::string all =
      fieldsFor({tsc::Field::of("label", std::string("none")), tsc::Field::of("windows", std::vector<int64_t>{}),
                 tsc::Field::of("mode", std::string("plain")), tsc::Field::of("causal", true),
                 tsc::Field::of("head_size", int64_t{8}), tsc::Field::of("q_scaling", 1.0),
                 tsc::Field::of("num_heads", int64_t{4})});
  EXPECT_EQ(least, all);
}

TEST(PluginFields, SavedBytesComeBackOrAreRefused) {
  PluginCreatorPtr creator = creatorOf<Traced>();
  ParsedFields parsed =
      completeFields({tsc::Field::of("num_heads", int64_t{4}), tsc::Field::of("windows", std::vector<int64_t>{3, 4}),
                      tsc::Field::of("label", std::string("a\0b", 3))},
                     *creator);
  std::string bytes = encodeFields(*creator, parsed.fields);
  ParsedFields read = decodeFields(*creator, bytes);
  ASSERT_TRUE(read.problems.empty()) << read.problems[0];
  EXPECT_EQ(encodeFields(*creator, read.fields), bytes);
  for (size_t cut = 0; cut < bytes.size(); ++cut)
    EXPECT_FALSE(decodeFields(*creator, std::string_view(bytes).substr(0, cut)).problems.empty()) << cut;
  for (size_t at = 0; at < bytes.size(); ++at) {
    std::string broken = bytes;
    broken[at] = static_cast<char>(broken[at] ^ 0x10);
    EXPECT_FALSE(decodeFields(*creator, broken).problems.empty()) << at;
  }
}

TEST(PluginFields, OlderTablesAreUpgradedOrRefused) {
  tsc::host() = &pluginHost();
  PluginRegistry old, with, without;
  ASSERT_TRUE(old.add(*tsc::Definition<BeforeRenaming>::table()));
  ASSERT_TRUE(with.add(*tsc::Definition<Renamed<true>>::table()));
  ASSERT_TRUE(without.add(*tsc::Definition<Renamed<false>>::table()));
  PluginCreatorPtr v1 = old.find("test", "Renamed"), v2 = with.find("test", "Renamed");
  std::string bytes = encodeFields(*v1, completeFields({tsc::Field::of("factor", 7.0)}, *v1).fields);
  ParsedFields read = decodeFields(*v2, bytes);
  ASSERT_TRUE(read.problems.empty()) << read.problems[0];
  EXPECT_EQ(read.fields.at(0).name, "scale");
  EXPECT_EQ(read.fields[0].numbers, std::vector<double>{7});
  EXPECT_EQ(read.fields.at(1).integers, std::vector<int64_t>{5});
  read = decodeFields(*without.find("test", "Renamed"), bytes);
  EXPECT_EQ(read.problems.at(0),
            "its fields were saved in version 1, and this plugin has version 2, without a way to upgrade them");
  std::string newer = encodeFields(*v2, completeFields({tsc::Field::of("scale", 1.0)}, *v2).fields);
  EXPECT_EQ(decodeFields(*v1, newer).problems.at(0),
            "its fields were saved in version 2, and this plugin has version 1");
}

TEST_F(PluginFieldsInGraphs, EngineFilesWithOlderFieldsOpen) {
  const std::string path = testing::TempDir() + "/renamed.tse";
  extensions = extensionsWith({tsc::Definition<BeforeRenaming>::table()});
  auto module = load(
      "graph(%x : Float(4)):\n  %y : Tensor = test::Renamed[factor=7.](%x)\n"
      "  %z : Tensor = aten::neg(%y)\n  return (%z)\n");
  ASSERT_TRUE(module);
  CompileSpec spec({Dims{4}});
  spec.minBlockSize = 1;
  auto compiled = compile(*module, spec, diagnostics);
  ASSERT_TRUE(compiled && compiled->save(path, diagnostics)) << firstError();
  LoadOptions options;
  options.extensions = extensionsWith({tsc::Definition<Renamed<true>>::table()});
  auto loaded = Module::load(path, options, diagnostics);
  ASSERT_TRUE(loaded) << firstError();
  EXPECT_TRUE(loaded->prepare(diagnostics)) << firstError();
  options.extensions = extensionsWith({tsc::Definition<Renamed<false>>::table()});
  EXPECT_FALSE(Module::load(path, options, diagnostics));
  EXPECT_EQ(
      firstError(),
      "test::Renamed: its fields were saved in version 1, and this plugin has version 2, without a way to upgrade "
      "them");
}

}  // namespace
}  // namespace tscompile::test
