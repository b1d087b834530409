// Sizes that plugins tell: from elements, of rows that only a run tells, compared with each other, of GPTAttention.
#include "ir/graph/printer.h"
#include "runtime/plugin/plugin_instance.h"
#include "runtime/registry.h"
#include "tests/support/plugin_graph.h"

#include <gtest/gtest.h>

namespace tscompile::test {
namespace {

// The positive elements: how many there are only a run tells.
struct Positive {
  static void describe(tsc::Description<Positive>& d) {
    d.key("test", "Positive", "1", "the positive elements of x");
    d.input("x", tsc::kF32, "[n]");
    d.output("y", tsc::kF32, "[up to n]").fewerRows();
  }
  void shapes(tsc::Shapes& s) const { s.output(0, s.input(0)); }
  void run(tsc::Run& r) const {
    int64_t count = 0;
    for (float v : r.input(0).values<float>())
      if (v > 0) r.output(0).data<float>()[count++] = v;
    r.setRows(0, count);
  }
};

// One element, whose place is checked where sizes are.
struct Pick {
  static void describe(tsc::Description<Pick>& d) {
    d.key("test", "Pick", "1", "y = x[at]");
    d.input("x", tsc::kF32, "[n]");
    d.input("at", tsc::kI64, "[1]").host();
    d.output("y", tsc::kF32, "[1]");
  }
  void shapes(tsc::Shapes& s) const {
    auto at = s.input(1).values;
    int64_t n = 0;
    if (!at.empty() && s.input(0).dims[0].known(&n) && at[0] >= n)
      tsc::invalid("there is no element " + std::to_string(at[0]));
    s.output(0, s.input(0).dtype, s.input(1).dims);
  }
  void run(tsc::Run& r) const {
    r.output(0).data<float>()[0] = r.input(0).data<float>()[r.input(1).data<int64_t>()[0]];
  }
};

// As many copies as an element says, which sizes need.
struct Copies {
  static void describe(tsc::Description<Copies>& d) {
    d.key("test", "Copies", "1", "x, n times");
    d.input("x", tsc::kF32, "[m]");
    d.input("n", tsc::kI64, "[1]").host();
    d.output("y", tsc::kF32, "[m * n]");
  }
  void shapes(tsc::Shapes& s) const {
    if (s.input(1).values.empty()) tsc::unsupported("n is not known");
    s.output(0, TSC_F32, {s.input(0).dims[0] * s.input(1).values[0]});
  }
  void run(tsc::Run& r) const {
    auto x = r.input(0).values<float>(), y = r.output(0).values<float>();
    for (size_t i = 0; i < y.size(); ++i) y[i] = x[i % x.size()];
  }
};

class PluginSizes : public PluginGraph {
 protected:
  PluginSizes() : PluginGraph({tsc::Definition<Positive>::table(), tsc::Definition<Pick>::table()}) {}
};

TEST_F(PluginSizes, RowsThatOnlyARunTells) {
  auto module = load("graph(%x : Tensor):\n  %y : Tensor = test::Positive(%x)\n  return (%y)\n");
  ASSERT_TRUE(module);
  auto out = module->forward(std::vector<IValue>{tensor({1, -2, 3, -4})}, diagnostics);
  ASSERT_TRUE(out) << firstError();
  EXPECT_EQ(values(out->at(0)), (std::vector<float>{1, 3}));
}

TEST_F(PluginSizes, NobodyTakesBoundsForNumbersOfRows) {
  auto module = load(
      "graph(%x : Float(4)):\n"
      "  %0 : int = prim::Constant[value=0]()\n"
      "  %y : Tensor = test::Positive(%x)\n"
      "  %z : Tensor = aten::relu(%y)\n"
      "  %n : int = aten::size(%z, %0)\n"
      "  return (%y, %n)\n");
  ASSERT_TRUE(module);
  CompileSpec spec;
  spec.minBlockSize = 1;
  auto compiled = compile(*module, spec, diagnostics);
  ASSERT_TRUE(compiled) << firstError();
  bool found = false;
  for (const Node* n : compiled->graph()->block()->nodes()) found |= n->kind() == Symbol::of("test::Positive");
  EXPECT_TRUE(found) << graphText(*compiled->graph());
  auto out = compiled->forward(std::vector<IValue>{tensor({1, -2, 3, -4})}, diagnostics);
  ASSERT_TRUE(out) << firstError();
  EXPECT_EQ(values(out->at(0)), (std::vector<float>{1, 3}));
  EXPECT_EQ(out->at(1).toInt(), 2);
  for (const Diagnostic& d : diagnostics.list()) ADD_FAILURE() << d.message;
}

// What is around it runs in engines all the same.
TEST_F(PluginSizes, SizesThatNeedElementsAreNoPartOfAnEngine) {
  extensions = extensionsWith({tsc::Definition<Copies>::table()});
  auto module = load(
      "graph(%x : Float(2), %n : Long(1)):\n  %s : Tensor = aten::sigmoid(%x)\n  %t : Tensor = aten::tanh(%s)\n"
      "  %y : Tensor = test::Copies(%t, %n)\n  return (%y)\n");
  ASSERT_TRUE(module) << firstError();
  CompileSpec spec;
  spec.minBlockSize = 1;
  std::string why;
  spec.onPartition = [&](const Prepared& prepared, const Partition& p) {
    forEachNode(*prepared.graph, [&](const Node* n) {
      if (!p.decisions[n].accelerated()) why += p.decisions[n].detail;
    });
  };
  auto compiled = compile(*module, spec, diagnostics);
  ASSERT_TRUE(compiled) << firstError();
  EXPECT_EQ(why, "test::Copies says: n is not known");
}

// What shapes() makes of elements holds of engines too, which are planned before anybody knows them.
TEST_F(PluginSizes, ElementsAreReadBeforeEachRun) {
  for (bool engine : {false, true}) {
    auto module = loadAs(engine,
                         "graph(%x : Tensor, %at : Tensor):\n"
                         "  %r : Tensor = aten::relu(%x)\n"
                         "  %y : Tensor = test::Pick(%r, %at)\n"
                         "  return (%y)\n");
    ASSERT_TRUE(module) << firstError();
    auto run = [&](int64_t at, Diagnostics& own) {
      return module->forward(std::vector<IValue>{tensor({1, 2}), Tensor::of<int64_t>({1}, std::vector<int64_t>{at})},
                             own);
    };
    Diagnostics right, wrong;
    auto out = run(1, right);
    ASSERT_TRUE(out) << firstError();
    EXPECT_EQ(values(out->at(0)), std::vector<float>{2});
    EXPECT_FALSE(run(7, wrong));
    ASSERT_FALSE(wrong.list().empty());
    EXPECT_NE(wrong.list()[0].message.find("there is no element 7"), std::string::npos) << wrong.list()[0].message;
  }
}

// Whoever tells fewer rows must have said so.
TEST(PluginRows, AreToldOfOutputsThatMayHaveFewer) {
  struct Untold : Positive {
    static void describe(tsc::Description<Untold>& d) {
      d.key("test", "Untold", "1", "");
      d.input("x", tsc::kF32, "[n]");
      d.output("y", tsc::kF32, "[up to n]");
    }
  };
  tsc::host() = &pluginHost();
  PluginRegistry registry;
  ASSERT_TRUE(registry.add(*tsc::Definition<Untold>::table()));
  OperatorProblem problem;
  auto made = PluginInstance::create(registry.find("test", "Untold"), {}, allOps(), TSC_BUILDING, "", problem);
  ASSERT_TRUE(made) << problem.text;
  Tensor x = Tensor::of<float>(Dims{2}, std::vector<float>{1, -2}), y = Tensor::empty(DType::Float32, Dims{2});
  try {
    made->run({x}, {y}, nullptr, 1);
    ADD_FAILURE();
  } catch (const ExecutionError& e) {
    EXPECT_NE(e.message().find("the output y has 1 of 2 rows, which its description must allow with fewerRows()"),
              std::string::npos)
        << e.message();
  }
}

TEST(PluginShapes, DimensionsAreComparedWithEachOther) {
  struct Pairs : Positive {
    static void describe(tsc::Description<Pairs>& d) {
      d.key("test", "Pairs", "1", "");
      d.input("x", tsc::kF32, "[n]");
      d.input("y", tsc::kF32, "[n]");
      d.output("z", tsc::kI64, "[n]");
    }
    void shapes(tsc::Shapes& s) const {
      s.expect(s.input(0).dims[0], s.input(1).dims[0], "the size of x");
      s.output(0, TSC_I64, {s.input(0).dims[0]});
    }
  };
  tsc::host() = &pluginHost();
  PluginRegistry registry;
  ASSERT_TRUE(registry.add(*tsc::Definition<Pairs>::table()));
  OperatorProblem problem;
  auto made = PluginInstance::create(registry.find("test", "Pairs"), {}, allOps(), TSC_BUILDING, "", problem);
  ASSERT_TRUE(made) << problem.text;
  auto told = [&](int64_t x, int64_t y) -> std::string {
    try {
      const std::vector<PluginInstance::Input> inputs{{.dtype = TSC_F32, .sizes = {x}},
                                                      {.dtype = TSC_F32, .sizes = {y}}};
      const TensorSpec z = made->infer(inputs).at(0);
      return std::string(shortName(z.dtype)) + dimsText(z.sizes);
    } catch (const ExecutionError& e) {
      return e.message();
    }
  };
  EXPECT_EQ(told(2, 2), "i64[2]");
  EXPECT_NE(told(2, 3).find("the size of x is 2, expected 3"), std::string::npos) << told(2, 3);
  EXPECT_EQ(told(2, -1), "i64[2]");
}

TEST(GptAttentionPlugin, TellsSizesAndWhatDoesNotFit) {
  PluginCreatorPtr creator = allPlugins().find("tensorrt_llm", "GPTAttention");
  ASSERT_TRUE(creator);
  auto make = [&](bool packed) {
    ParsedFields fields =
        completeFields({tsc::Field::of("layer_idx", int64_t{0}), tsc::Field::of("num_heads", int64_t{4}),
                        tsc::Field::of("num_kv_heads", int64_t{2}), tsc::Field::of("head_size", int64_t{3}),
                        tsc::Field::of("remove_input_padding", packed)},
                       *creator);
    OperatorProblem problem;
    auto made = PluginInstance::create(creator, fields.fields, allOps(), TSC_BUILDING, "", problem);
    EXPECT_TRUE(made) << problem.text;
    return made;
  };
  auto shapeOf = [&](const std::shared_ptr<PluginInstance>& plugin, Dims sizes) {
    std::vector<PluginInstance::Input> inputs(creator->inputs().size());
    inputs[0] = {TSC_F32, std::move(sizes), {}, false};
    return plugin->infer(inputs).at(0).sizes;
  };
  auto padded = make(false);
  constexpr int64_t kBatch = kUnknownSize - 1, kTokens = kUnknownSize - 2;
  EXPECT_EQ(shapeOf(padded, Dims{kBatch, kTokens, 24}), (Dims{kBatch, kTokens, 12}));
  EXPECT_EQ(shapeOf(make(true), Dims{kTokens, 24}), (Dims{kTokens, 12}));
  try {
    shapeOf(padded, Dims{kBatch, kTokens, 23});
    ADD_FAILURE() << "23 numbers are taken";
  } catch (const ExecutionError& e) {
    EXPECT_EQ(e.message(), "the last size of qkv is 23, expected 24 = (4+2*2)*3");
  }
}

}  // namespace
}  // namespace tscompile::test
