// Plugins without run(): their decomposition is run.
#include "api/compile.h"
#include "api/extensions.h"
#include "api/module.h"
#include "runtime/plugin/plugin_check.h"
#include "runtime/plugin/plugin_instance.h"
#include "runtime/registry.h"

#include <gtest/gtest.h>

namespace tscompile::test {
namespace {

// y = by * x, as a graph alone; fields make it give what it should not.
struct Scaled {
  double by = 2;
  std::string fault = "none";
  static inline int decompositions = 0;
  static void describe(tsc::Description<Scaled>& d) {
    d.key("composite", "Scaled", "1", "y = by * x, negative = the elements of x below 0");
    d.field("by", &Scaled::by, "the factor");
    d.field("fault", &Scaled::fault, "what is wrong").choices("none|text|operator|shape|count|unsupported|empty");
    d.input("x", tsc::kFloats, "[n]");
    d.input("z", tsc::kFloats, "added; any sizes that fit").optional().sameTypeAs("x");
    d.output("y", tsc::kFloats, "as x").sameTypeAs("x");
    d.output("negative", tsc::kFloats, "[up to n]").sameTypeAs("x").fewerRows();
  }
  static std::string_view example() {
    return "graph(%x : Float(5)):\n  %y : Tensor, %n : Tensor = composite::Scaled(%x)\n  return (%y, %n)\n";
  }
  void shapes(tsc::Shapes& s) const {
    s.output(0, s.input(0));
    s.output(1, s.input(0));
  }
  std::string decompose(const tsc::Tensors& t) const {
    ++decompositions;
    if (fault == "unsupported") tsc::unsupported("numbers that are not there");
    if (fault == "empty") return "";
    if (fault == "text") return "graph(%x : Tensor:\n";
    bool z = t.has(1);
    std::string text = std::string("graph(%x : Tensor") + (z ? ", %z : Tensor):\n" : "):\n");
    text += "  %by : float = prim::Constant[value=" + std::to_string(by) + "]()\n";
    text += "  %zero : int = prim::Constant[value=0]()\n  %one : int = prim::Constant[value=1]()\n";
    text += "  %s : Tensor = aten::mul(%x, %by)\n";
    text += std::string("  %y : Tensor = aten::add(%s, ") + (z ? "%z" : "%zero") + ", %one)\n";
    text += "  %below : Tensor = aten::lt(%x, %zero)\n  %n : Tensor = aten::masked_select(%x, %below)\n";
    if (fault == "operator") text += "  %q : Tensor = aten::no_such_operator(%x)\n";
    if (fault == "shape") text += "  %w : Tensor = aten::unsqueeze(%y, %zero)\n";
    return text + (fault == "shape"   ? "  return (%w, %n)\n"
                   : fault == "count" ? "  return (%y)\n"
                                      : "  return (%y, %n)\n");
  }
};

class Composite : public testing::Test {
 protected:
  void SetUp() override {
    tsc::host() = &pluginHost();
    extensions = std::make_shared<Extensions>();
    PluginResult added = extensions->plugins().add(*tsc::Definition<Scaled>::table());
    ASSERT_TRUE(added) << added.message;
    Scaled::decompositions = 0;
  }
  Result<Module> load(const std::string& fields, bool two = false) {
    LoadOptions options;
    options.extensions = extensions;
    std::string in = two ? "%x : Tensor, %z : Tensor" : "%x : Tensor", args = two ? "%x, %z" : "%x";
    return Module::fromText("graph(" + in + "):\n  %y : Tensor, %n : Tensor = composite::Scaled" + fields + "(" + args +
                                ")\n  return (%y, %n)\n",
                            "test", options, diagnostics);
  }
  static Tensor tensor(const std::vector<float>& values) {
    return Tensor::of<float>(Dims{static_cast<int64_t>(values.size())}, values);
  }
  static std::vector<float> values(const IValue& v) {
    Tensor t = v.toTensor();
    return {t.data<float>(), t.data<float>() + t.numel()};
  }
  std::shared_ptr<Extensions> extensions;
  Diagnostics diagnostics;
};

TEST_F(Composite, RunsItsDecomposition) {
  for (bool engine : {false, true}) {
    auto module = load("[by=3.]");
    ASSERT_TRUE(module);
    CompileSpec spec;
    spec.minBlockSize = 1;
    if (engine) module = compile(*module, spec, diagnostics);
    ASSERT_TRUE(module) << diagnostics.list().at(0).message;
    for (int i = 0; i < 2; ++i) {
      auto out = module->forward(std::vector<IValue>{tensor({-1, -2, -4, -8})}, diagnostics);
      ASSERT_TRUE(out) << diagnostics.list().at(0).message;
      EXPECT_EQ(values(out->at(0)), (std::vector<float>{-3, -6, -12, -24}));
      EXPECT_EQ(values(out->at(1)), (std::vector<float>{-1, -2, -4, -8}));
    }
  }
}

TEST_F(Composite, ResultsMayHaveFewerRowsThanTheShapeSays) {
  auto module = load("");
  ASSERT_TRUE(module);
  auto out = module->forward(std::vector<IValue>{tensor({1, -2, 4, -8})}, diagnostics);
  ASSERT_TRUE(out) << diagnostics.list().at(0).message;
  EXPECT_EQ(values(out->at(1)), (std::vector<float>{-2, -8}));
  CompileSpec spec;
  spec.minBlockSize = 1;
  module = compile(*module, spec, diagnostics);
  ASSERT_TRUE(module);
  out = module->forward(std::vector<IValue>{tensor({1, -2, 4, -8})}, diagnostics);
  ASSERT_TRUE(out) << diagnostics.list().at(0).message;
  EXPECT_EQ(values(out->at(1)), (std::vector<float>{-2, -8})) << "the engine hands over to the interpreter";
}

TEST_F(Composite, AsksOnceForSizes) {
  auto module = load("");
  ASSERT_TRUE(module);
  for (size_t size : {3, 3, 4, 3}) {
    auto out = module->forward(std::vector<IValue>{tensor(std::vector<float>(size, 1))}, diagnostics);
    ASSERT_TRUE(out);
    EXPECT_EQ(values(out->at(0)), std::vector<float>(size, 2));
  }
  EXPECT_EQ(Scaled::decompositions, 3) << "whenever sizes change";
}

TEST_F(Composite, TakesTheInputsThatAreThere) {
  auto module = load("", true);
  ASSERT_TRUE(module);
  auto out = module->forward(std::vector<IValue>{tensor({1, 2}), tensor({10, 20})}, diagnostics);
  ASSERT_TRUE(out) << diagnostics.list().at(0).message;
  EXPECT_EQ(values(out->at(0)), (std::vector<float>{12, 24}));
}

// What is run inside is no run of the module whose state is kept.
TEST_F(Composite, LeavesTheStateOfTheModuleAlone) {
  constexpr const char* kText = R"(graph(%self : __torch__.M,
      %x : Tensor):
  %one : int = prim::Constant[value=1]()
  %h : Tensor = prim::GetAttr[name="h"](%self)
  %y : Tensor, %n : Tensor = composite::Scaled(%h)
  %w : Tensor = aten::add_(%h, %x, %one)
  return (%w)
)";
  LoadOptions options;
  options.extensions = extensions;
  options.tensors.emplace_back("h", tensor({0, 0}));
  auto module = Module::fromText(kText, "test", options, diagnostics);
  ASSERT_TRUE(module);
  RunState state;
  RunOptions run;
  run.state = &state;
  for (float wanted : {1.0f, 2.0f, 3.0f}) {
    auto out = module->forward({tensor({1, 1})}, diagnostics, run);
    ASSERT_TRUE(out) << diagnostics.list().at(0).message;
    EXPECT_EQ(values(out->at(0)), (std::vector<float>{wanted, wanted}));
  }
}

TEST_F(Composite, SaysWhatIsWrong) {
  for (auto [fault, message] :
       {std::pair("text", "composite::Scaled: its decomposition cannot be read: "),
        std::pair("operator", "composite::Scaled: its decomposition has a node aten::no_such_operator: there is no "),
        std::pair("shape",
                  "composite::Scaled: its decomposition fails: it gives [1, 2] of float32, the plugin's "
                  "shapes say [2] of float32"),
        std::pair("count", "composite::Scaled: its decomposition fails: it gives 1 results, the plugin has 2"),
        std::pair("unsupported", "composite::Scaled: numbers that are not there"),
        std::pair("empty", "composite::Scaled: it has neither a kernel nor a decomposition for these inputs")}) {
    Diagnostics own;
    auto module = load(std::string("[fault=\"") + fault + "\"]");
    ASSERT_TRUE(module);
    EXPECT_FALSE(module->forward(std::vector<IValue>{tensor({1, 2})}, own));
    ASSERT_FALSE(own.list().empty());
    EXPECT_NE(own.list()[0].message.find(message), std::string::npos) << own.list()[0].message;
  }
}

TEST_F(Composite, PassesTheChecksForPlugins) {
  PluginReport report;
  checkPlugin(extensions->plugins().find("composite", "Scaled"), allOps(), report);
  for (const PluginFinding& f : report.findings) ADD_FAILURE() << f.check << ": " << f.problem;
}

TEST(PluginTables, NeedRunOrDecompose) {
  tsc::host() = &pluginHost();
  tsc_plugin table = *tsc::Definition<Scaled>::table();
  EXPECT_EQ(table.run, nullptr);
  table.decompose = nullptr;
  PluginRegistry registry;
  EXPECT_EQ(registry.add(table).message, "composite::Scaled: run is missing, and decompose, which could stand for it");
}

}  // namespace
}  // namespace tscompile::test
