// Plugins at work: fields, life cycle, failures, nodes in graphs.
#include "api/compile.h"
#include "api/extensions.h"
#include "api/module.h"
#include "ir/graph/printer.h"
#include "runtime/plugin/plugin_instance.h"
#include "runtime/registry.h"

#include <gtest/gtest.h>

#include <filesystem>

namespace tscompile::test {
namespace {

// What instances of Traced do, in order.
std::vector<std::string>& trace() {
  static std::vector<std::string> lines;
  return lines;
}

enum class Mode { Plain, Rotated };

// Every kind of field and function.
struct Traced {
  int64_t num_heads = 0;
  double q_scaling = 1;
  int64_t head_size = 8;
  bool causal = true;
  Mode mode = Mode::Plain;
  std::vector<int64_t> windows = {};
  std::string label = "none";
  bool isContext = false;

  Traced() = default;
  Traced(const Traced& from)
      : num_heads(from.num_heads),
        q_scaling(from.q_scaling),
        head_size(from.head_size),
        causal(from.causal),
        mode(from.mode),
        windows(from.windows),
        label(from.label),
        isContext(true) {
    trace().push_back("attach");
  }
  ~Traced() {
    if (num_heads) trace().push_back(isContext ? "detach" : "destroy");
  }
  static void describe(tsc::Description<Traced>& d) {
    d.key("test", "Traced", "1", "y = q_scaling * x");
    d.field("num_heads", &Traced::num_heads, "heads").mandatory().range(1, 64);
    d.field("q_scaling", &Traced::q_scaling, "the factor").range(0, 100);
    d.field("head_size", &Traced::head_size, "of a head").range(1, 256);
    d.field("causal", &Traced::causal, "whether rows see what is before them only");
    d.choice("mode", &Traced::mode, "plain|rotated", {Mode::Plain, Mode::Rotated}, "how");
    d.field("windows", &Traced::windows, "sizes").items(0, 4);
    d.field("label", &Traced::label, "a text");
    d.input("x", tsc::kF32, "any sizes");
    d.output("y", tsc::kF32, "as x");
  }
  void prepare() { trace().push_back("create"); }
  void initialize() { trace().push_back("initialize"); }
  void terminate() { trace().push_back("terminate"); }
  void configure(const tsc::Tensors& least, const tsc::Tensors&, const tsc::Tensors&) {
    trace().push_back("configure " + std::to_string(least.input(0).size(0)));
  }
  size_t workspace(const tsc::Tensors& t) const { return static_cast<size_t>(t.input(0).numel()) * sizeof(float); }
  void shapes(tsc::Shapes& s) const { s.output(0, s.input(0)); }
  void run(tsc::Run& r) const {
    trace().push_back("run");
    auto x = r.input(0).values<float>();
    auto y = r.output(0).values<float>();
    for (size_t i = 0; i < y.size(); ++i) y[i] = static_cast<float>(q_scaling) * x[i];
  }
};

// Adds 1 to what it is given, in place if it may.
struct AddOne {
  static void describe(tsc::Description<AddOne>& d) {
    d.key("test", "AddOne", "1", "y = x + 1");
    d.input("x", tsc::kF32, "any sizes");
    d.output("y", tsc::kF32, "as x").alias("x");
  }
  void shapes(tsc::Shapes& s) const { s.output(0, s.input(0)); }
  void run(tsc::Run& r) const {
    for (float& v : r.output(0).values<float>()) v += 1;
  }
};

// Fails as its field says.
struct Failing {
  std::string how = "not";
  static void describe(tsc::Description<Failing>& d) {
    d.key("test", "Failing", "1", "a copy, or a failure");
    d.field("how", &Failing::how, "not|throw|other|status").choices("not|throw|other|status|create");
    d.input("x", tsc::kF32, "any sizes");
    d.output("y", tsc::kF32, "as x");
  }
  void prepare() const {
    if (how == "create") tsc::invalid("it cannot be made");
  }
  void shapes(tsc::Shapes& s) const { s.output(0, s.input(0)); }
  void run(tsc::Run& r) const {
    if (r.input(0).data<float>()[0] < 0) return copy(r);
    if (how == "throw") throw std::runtime_error("a cable is loose");
    if (how == "other") throw 7;
    if (how == "status") tsc::unsupported("a thing that it cannot do");
    copy(r);
  }
  static void copy(tsc::Run& r) { std::ranges::copy(r.input(0).values<float>(), r.output(0).values<float>().begin()); }
};

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

std::shared_ptr<Extensions> extensionsWith(std::initializer_list<const tsc_plugin*> tables) {
  tsc::host() = &pluginHost();
  auto extensions = std::make_shared<Extensions>();
  for (const tsc_plugin* t : tables) {
    PluginResult added = extensions->plugins().add(*t);
    EXPECT_TRUE(added) << added.message;
  }
  return extensions;
}

class PluginGraph : public testing::Test {
 protected:
  void SetUp() override {
    extensions = extensionsWith({tsc::Definition<Traced>::table(), tsc::Definition<AddOne>::table(),
                                 tsc::Definition<Failing>::table(), tsc::Definition<Positive>::table(),
                                 tsc::Definition<Pick>::table()});
  }
  Result<Module> load(const std::string& text) {
    LoadOptions options;
    options.extensions = extensions;
    return Module::fromText(text, "test", options, diagnostics);
  }
  // The same, as it is and as an engine.
  Result<Module> loadAs(bool engine, const std::string& text, double coverage = 0) {
    Result<Module> module = load(text);
    if (!module || !engine) return module;
    CompileSpec spec;
    spec.minBlockSize = 1;
    spec.requiredCoverage = coverage;
    return compile(*module, spec, diagnostics);
  }
  static Tensor tensor(std::vector<float> values) {
    Dims sizes{static_cast<int64_t>(values.size())};
    return Tensor::of<float>(sizes, values);
  }
  static std::vector<float> values(const IValue& v) {
    Tensor t = v.toTensor();
    return {t.data<float>(), t.data<float>() + t.numel()};
  }
  std::string firstError() const {
    for (const Diagnostic& d : diagnostics.list())
      if (d.severity == Severity::Error) return d.message;
    return "";
  }
  std::shared_ptr<Extensions> extensions;
  Diagnostics diagnostics;
};

constexpr const char* kTracedGraph =
    "graph(%x : Tensor):\n"
    "  %y : Tensor = test::Traced[num_heads=2, q_scaling=3.](%x)\n"
    "  return (%y)\n";

// ---- fields ----

TEST_F(PluginGraph, AllMistakesInFieldsAreToldAtOnce) {
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

TEST_F(PluginGraph, EngineFilesWithOlderFieldsOpen) {
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

// ---- life ----

TEST_F(PluginGraph, LivesAsItShould) {
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

TEST_F(PluginGraph, AnEngineFileNamesThePluginThatIsMissing) {
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

// ---- failures ----

TEST_F(PluginGraph, AFailureIsAnErrorAndTheNextRunIsRight) {
  for (auto [how, message] : {std::pair("throw", "test::Failing: a cable is loose"),
                              std::pair("other", "test::Failing: an exception that is no std::exception"),
                              std::pair("status", "test::Failing: a thing that it cannot do")}) {
    Diagnostics own;
    auto module = load(std::string("graph(%x : Tensor):\n  %y : Tensor = test::Failing[how=\"") + how +
                       "\"](%x)\n  return (%y)\n");
    ASSERT_TRUE(module);
    EXPECT_FALSE(module->forward(std::vector<IValue>{tensor({1})}, own));
    EXPECT_NE(own.list().at(0).message.find(message), std::string::npos) << own.list().at(0).message;
    auto out = module->forward(std::vector<IValue>{tensor({-1})}, own);
    ASSERT_TRUE(out);
    EXPECT_EQ(values(out->at(0)), std::vector<float>{-1});
  }
}

TEST_F(PluginGraph, RowsThatOnlyARunTells) {
  auto module = load("graph(%x : Tensor):\n  %y : Tensor = test::Positive(%x)\n  return (%y)\n");
  ASSERT_TRUE(module);
  auto out = module->forward(std::vector<IValue>{tensor({1, -2, 3, -4})}, diagnostics);
  ASSERT_TRUE(out) << firstError();
  EXPECT_EQ(values(out->at(0)), (std::vector<float>{1, 3}));
}

TEST_F(PluginGraph, NobodyTakesBoundsForNumbersOfRows) {
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

// Whoever tells fewer rows must have said so.
// What is around it runs in engines all the same.
TEST_F(PluginGraph, SizesThatNeedElementsAreNoPartOfAnEngine) {
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
      if (!p.decisions[n].accelerated()) why += std::string(n->kind().text()) + ": " + p.decisions[n].detail;
    });
  };
  auto compiled = compile(*module, spec, diagnostics);
  ASSERT_TRUE(compiled) << firstError();
  EXPECT_EQ(why, "test::Copies: n is not known");
}

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
  std::string problem;
  auto made = PluginInstance::create(registry.find("test", "Untold"), {}, allOps(), TSC_BUILDING, "", problem);
  ASSERT_TRUE(made) << problem;
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
  std::string problem;
  auto made = PluginInstance::create(registry.find("test", "Pairs"), {}, allOps(), TSC_BUILDING, "", problem);
  ASSERT_TRUE(made) << problem;
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

// ---- sizes of GPTAttention, known and not ----

TEST(GptAttentionPlugin, TellsSizesAndWhatDoesNotFit) {
  PluginCreatorPtr creator = allPlugins().find("tensorrt_llm", "GPTAttention");
  ASSERT_TRUE(creator);
  auto make = [&](bool packed) {
    ParsedFields fields =
        completeFields({tsc::Field::of("layer_idx", int64_t{0}), tsc::Field::of("num_heads", int64_t{4}),
                        tsc::Field::of("num_kv_heads", int64_t{2}), tsc::Field::of("head_size", int64_t{3}),
                        tsc::Field::of("remove_input_padding", packed)},
                       *creator);
    std::string problem;
    auto made = PluginInstance::create(creator, fields.fields, allOps(), TSC_BUILDING, "", problem);
    EXPECT_TRUE(made) << problem;
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

// ---- versions ----

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

// What was compiled with a version runs with it, whatever else is loaded.
TEST_F(PluginGraph, EngineFilesKeepTheVersion) {
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

TEST_F(PluginGraph, ReservedAttributesOfOtherTypesAreMistakes) {
  auto module = load(
      "graph(%x : Tensor):\n"
      "  %y : Tensor = test::AddOne[inplace=\"yes\", plugin_version=1, plugin_phase=\"asleep\"](%x)\n"
      "  return (%y)\n");
  ASSERT_TRUE(module);
  EXPECT_FALSE(module->prepare(diagnostics));
  EXPECT_EQ(firstError(),
            "test::AddOne: plugin_version is a text, such as \"2\"; inplace is 0 or 1; plugin_phase is \"building\" or "
            "\"running\"");
}

// ---- what plugins may get wrong ----

// Fails in one function, or asks for what cannot be.
template <int kCase>
struct Broken {
  static void describe(tsc::Description<Broken>& d) {
    d.key("broken", "B", "1", "");
    d.input("x", tsc::kF32, "").optional();
    d.output("y", tsc::kF32, "");
    d.output("z", tsc::kF32, "");
  }
  size_t outputs() const {
    if (kCase == 1) throw std::runtime_error("no outputs");
    return 2;
  }
  int aliasOf(size_t) const { return kCase == 2 ? 0 : -1; }
  void shapes(tsc::Shapes& s) const { s.output(0, s.input(0)), s.output(1, s.input(0)); }
  size_t workspace(const tsc::Tensors&) const {
    if (kCase == 3) throw std::runtime_error("no workspace");
    return kCase == 4 ? size_t{1} << 50 : 8;
  }
  void run(tsc::Run& r) const {
    r.workspace().data()[0] = std::byte{1};
    for (int o : {0, 1}) {
      auto y = r.output(static_cast<size_t>(o)).template values<float>();
      // The largest grain is one part.
      r.parallelFor(y.size(), SIZE_MAX, [&](size_t begin, size_t end) {
        for (size_t i = begin; i < end; ++i) y[i] = 3;
      });
    }
  }
};

template <int kCase>
std::string failureOf() {
  auto extensions = extensionsWith({tsc::Definition<Broken<kCase>>::table()});
  LoadOptions options;
  options.extensions = extensions;
  Diagnostics diagnostics;
  auto module = Module::fromText("graph(%x : Tensor):\n  %y : Tensor, %z : Tensor = broken::B(%x)\n  return (%y, %z)\n",
                                 "broken", options, diagnostics);
  EXPECT_TRUE(module);
  std::vector<float> x{1, 2};
  auto out = module->forward(std::vector<IValue>{Tensor::of<float>(Dims{2}, x)}, diagnostics);
  if (!out) return diagnostics.list().at(0).message;
  EXPECT_EQ(out->at(1).toTensor().real(1), 3);
  return "";
}

TEST(PluginFailures, AreToldWhereverTheyAre) {
  EXPECT_EQ(failureOf<0>(), "");
  EXPECT_NE(failureOf<1>().find("no outputs"), std::string::npos) << failureOf<1>();
  EXPECT_NE(failureOf<2>().find("two outputs are written over one input"), std::string::npos) << failureOf<2>();
  EXPECT_NE(failureOf<3>().find("no workspace"), std::string::npos) << failureOf<3>();
  EXPECT_NE(failureOf<4>().find("it asks for a workspace of"), std::string::npos) << failureOf<4>();
}

TEST(PluginFailures, NamesThatMeanThemselvesAreRefused) {
  PluginRegistry registry;
  ASSERT_TRUE(registry.addAlias("my::A", "my::B", ""));
  EXPECT_EQ(registry.addAlias("my::B", "my::A", "").status, PluginStatus::BadName);
  EXPECT_EQ(registry.addAlias("my::C", "my::C", "").status, PluginStatus::BadName);
}

// A resource whose maker asks for another one.
TEST(PluginResources, MayNeedEachOther) {
  const tsc_host& host = pluginHost();
  static int made = 0;
  auto inner = [](void*) -> void* { return ++made, &made; };
  auto outer = [](void* user) -> void* {
    auto make = reinterpret_cast<void* (*)(void*)>(user);
    return pluginHost().resource(
        tsc::text("inner"), make, [](void*) {}, nullptr);
  };
  void* (*innerFunction)(void*) = inner;
  void* got = host.resource(
      tsc::text("outer"), outer, [](void*) { pluginHost().resource_release(tsc::text("inner")); },
      reinterpret_cast<void*>(innerFunction));
  EXPECT_EQ(got, &made);
  EXPECT_EQ(host.resource(tsc::text("outer"), outer, nullptr, nullptr), got) << "made once";
  EXPECT_EQ(made, 1);
  host.resource_release(tsc::text("outer"));
  EXPECT_GT(sharedResources(), 0u);
  host.resource_release(tsc::text("outer"));
  EXPECT_EQ(sharedResources(), 0u);
  EXPECT_EQ(host.resource(
                tsc::text("none"), [](void*) -> void* { return nullptr; }, nullptr, nullptr),
            nullptr);
  EXPECT_EQ(sharedResources(), 0u);
}

// ---- writing over inputs ----

constexpr const char* kAddGraph =
    "graph(%x : Tensor):\n"
    "  %1 : int = prim::Constant[value=1]()\n"
    "  %t : Tensor = aten::mul(%x, %x)\n"
    "  %y : Tensor = test::AddOne(%t)\n"
    "  %z : Tensor = aten::add(%t, %y, %1)\n"
    "  return (%z)\n";

TEST_F(PluginGraph, AnInputThatIsReadLaterIsCopied) {
  for (bool engine : {false, true}) {
    auto module = loadAs(engine, kAddGraph);
    ASSERT_TRUE(module) << firstError();
    auto out = module->forward(std::vector<IValue>{tensor({2, 3})}, diagnostics);
    ASSERT_TRUE(out) << firstError();
    EXPECT_EQ(values(out->at(0)), (std::vector<float>{9, 19}));
  }
}

// What shapes() makes of elements holds of engines too, which are planned before anybody knows them.
TEST_F(PluginGraph, ElementsAreReadBeforeEachRun) {
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

TEST_F(PluginGraph, InPlaceNodesWriteTheirInput) {
  for (bool engine : {false, true}) {
    auto module = loadAs(engine,
                         "graph(%cache : Tensor, %x : Tensor):\n"
                         "  %new : Tensor = test::AddOne[inplace=1](%cache)\n"
                         "  %y : Tensor = aten::mul(%x, %new)\n"
                         "  return (%y, %new)\n",
                         1);
    ASSERT_TRUE(module) << firstError();
    Tensor cache = tensor({1, 2});
    for (int step = 1; step <= 3; ++step) {
      auto out = module->forward(std::vector<IValue>{cache, tensor({10, 10})}, diagnostics);
      ASSERT_TRUE(out) << firstError();
      float first = 1.0f + static_cast<float>(step), second = first + 1;
      EXPECT_EQ(values(out->at(0)), (std::vector<float>{10 * first, 10 * second}));
      EXPECT_EQ(out->at(1).toTensor().raw(), cache.raw());
      EXPECT_EQ(values(IValue(cache)), (std::vector<float>{first, second}));
    }
  }
}

// One tensor as two inputs: what is read after the write is what was written.
TEST_F(PluginGraph, InPlaceNodesSeeTensorsThatAreGivenTwice) {
  for (bool engine : {false, true}) {
    auto module = loadAs(engine,
                         "graph(%cache : Tensor, %x : Tensor):\n"
                         "  %new : Tensor = test::AddOne[inplace=1](%cache)\n"
                         "  %y : Tensor = aten::mul(%x, %new)\n"
                         "  return (%y)\n");
    ASSERT_TRUE(module) << firstError();
    Tensor both = tensor({1, 2});
    auto out = module->forward(std::vector<IValue>{both, both}, diagnostics);
    ASSERT_TRUE(out) << firstError();
    EXPECT_EQ(values(out->at(0)), (std::vector<float>{4, 9}));
  }
}

TEST_F(PluginGraph, PrintsAndReadsBack) {
  auto module = load(kTracedGraph);
  ASSERT_TRUE(module);
  EXPECT_EQ(graphText(*module->graph()), kTracedGraph);
}

}  // namespace
}  // namespace tscompile::test
