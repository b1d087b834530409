// Compiled modules: what is forced out of engines stays out, what engines turn down falls back, and all runs as before.
#include "api/compile.h"

#include "api/compile_settings.h"
#include "api/engine_file.h"
#include "api/input_range.h"
#include "api/value_text.h"
#include "partition/report.h"
#include "passes/rewrite/compare.h"
#include "runtime/engine/network/tactics.h"
#include "tests/support/module_checks.h"
#include "tests/support/text_file.h"

namespace tscompile::test {
namespace {

constexpr const char* kBranches = R"(graph(%x : Tensor, %c : bool):
  %one : int = prim::Constant[value=1]()
  %a : Tensor = aten::relu(%x)
   = prim::If(%c)
    block0():
      %p : Tensor = aten::neg(%a)
      %q : Tensor = aten::mul_(%x, %p)
      -> ()
    block1():
      -> ()
  %b : Tensor = prim::If(%c)
    block0():
      %d : Tensor = aten::exp(%a)
      %e : Tensor = aten::add(%d, %x, %one)
      -> (%e)
    block1():
      -> (%a)
  %f : Tensor, %g : Tensor, %h : int = prim::If(%c)
    block0():
      %i : Tensor = aten::sigmoid(%b)
      %j : Tensor = aten::mul(%i, %a)
      %k : int = aten::dim(%j)
      -> (%i, %j, %k)
    block1():
      -> (%b, %b, %one)
  return (%f, %g, %h)
)";

Module moduleOf(const std::string& text) {
  Diagnostics d;
  Result<Module> m = Module::fromText(text, "test", {}, d);
  EXPECT_TRUE(m.ok()) << renderDiagnostics(d, "test");
  return *m;
}

size_t engineCount(const Module& m) {
  size_t count = 0;
  forEachNode(*m.graph(), [&](const Node* n) { count += n->kind() == sym::Engine; });
  return count;
}

void expectSame(const Module& expected, const Module& got, const std::function<std::vector<IValue>()>& inputs) {
  Diagnostics d;
  Result<std::vector<IValue>> a = expected.forward(inputs(), d), b = got.forward(inputs(), d);
  ASSERT_TRUE(a.ok() && b.ok()) << renderDiagnostics(d, "test") << graphText(*got.graph());
  std::optional<RewriteMismatch> m = compareResults(*a, *b, {1e-5, 1e-6});
  EXPECT_FALSE(m) << m->text();
}

TEST(Compile, BranchesOfNoOneAndThreeOutputs) {
  Module module = moduleOf(kBranches);
  for (bool lower : {true, false}) {
    CompileSpec spec;
    spec.minBlockSize = 1;
    spec.lower = lower;
    Diagnostics d;
    Result<Module> compiled = module.compiled(spec, d);
    ASSERT_TRUE(compiled.ok()) << renderDiagnostics(d, "test");
    EXPECT_GE(engineCount(*compiled), 3u) << graphText(*compiled->graph());
    for (bool c : {true, false})
      expectSame(module, *compiled, [&] { return std::vector<IValue>{floats({2, 2}, {1, -2, 3, 0.5f}), IValue(c)}; });
  }
}

std::string saidOf(const Diagnostics& d) { return renderDiagnostics(d, "test"); }

TEST(Compile, InputsAreSaidAsTexts) {
  const Module m = moduleOf("graph(%x : Tensor):\n  %y : Tensor = aten::relu(%x)\n  return (%y)\n");
  Diagnostics d;
  CompileSpec spec;
  EXPECT_TRUE(spec.addInput("1..4x3", d)) << saidOf(d);
  Result<Module> fast = m.compiled(spec, d);
  ASSERT_TRUE(fast.ok()) << saidOf(d);
  EXPECT_FALSE(fast->forward({IValue(Tensor::zeros(DType::Float32, {5, 3}))}, d).ok());
  EXPECT_FALSE(spec.addInput("x=1,3", d));
}

TEST(Compile, InputsShareSizes) {
  const Module m = moduleOf("graph(%x : Tensor, %y : Tensor):\n  %z : Tensor = aten::mul(%x, %y)\n  return (%z)\n");
  const std::vector<std::vector<std::string>> saids{
      {"x=Nx3", "y=Nx3", "N=1..4"}, {"N=1..4", "x=Nx3", "y=Nx3"}, {"Nx3", "Nx3", "N=1..4"}};
  for (const std::vector<std::string>& said : saids) {
    Diagnostics d;
    CompileSpec spec;
    for (const std::string& text : said) EXPECT_TRUE(spec.addInput(text, d)) << saidOf(d);
    Result<Module> fast = m.compiled(spec, d);
    ASSERT_TRUE(fast.ok()) << saidOf(d);
    auto runs = [&](int64_t a, int64_t b) {
      return fast
          ->forward({IValue(Tensor::zeros(DType::Float32, {a, 3})), IValue(Tensor::zeros(DType::Float32, {b, 3}))}, d)
          .ok();
    };
    EXPECT_TRUE(runs(1, 1) && runs(4, 4)) << saidOf(d);
    EXPECT_FALSE(runs(5, 5));
    EXPECT_FALSE(runs(2, 1));
  }
}

TEST(Compile, SizesWithoutAnEndAreRefused) {
  const Module m = moduleOf("graph(%x : Tensor):\n  %y : Tensor = aten::relu(%x)\n  return (%y)\n");
  for (const auto& [text, size] : {std::pair("x=Nx3", "N"), std::pair("x=2*Nx3", "2*N")}) {
    Diagnostics d;
    CompileSpec spec;
    ASSERT_TRUE(spec.addInput(text, d));
    EXPECT_FALSE(m.compiled(spec, d).ok());
    EXPECT_EQ(saidOf(d), std::string("test: error: nothing says how large ") + size +
                             " of input %x may be\nnote: say it as of an input: N=1..8\n");
  }
}

TEST(Compile, InputsAreBound) {
  const Module m = moduleOf(
      "graph(%x : Tensor, %n.1 : int, %mask : Tensor?):\n  %y : Tensor = aten::mul(%x, %n.1)\n  return (%y)\n");
  Diagnostics d;
  CompileSpec spec;
  spec.bind("n", int64_t{3});
  spec.bind("mask", IValue());
  Result<Module> fast = m.compiled(spec, d);
  ASSERT_TRUE(fast.ok()) << saidOf(d);
  const std::vector<float> two = {2};
  Result<std::vector<IValue>> out = fast->forward({IValue(Tensor::of<float>({1}, two))}, d);
  ASSERT_TRUE(out.ok()) << saidOf(d);
  EXPECT_EQ((*out)[0].toTensor().real(0), 6);

  spec.bind("nn", int64_t{3});
  EXPECT_FALSE(m.compiled(spec, d).ok());
  EXPECT_NE(saidOf(d).find("the graph has no input 'nn'"), std::string::npos) << saidOf(d);
  CompileSpec text;
  text.bind("n", std::string("three"));
  EXPECT_FALSE(m.compiled(text, d).ok());
  EXPECT_NE(saidOf(d).find("input %n.1 takes int, not str"), std::string::npos) << saidOf(d);
}

TEST(Compile, DTypesThatDoNotFitAreTold) {
  const Module m = moduleOf("graph(%x : Tensor, %w : Tensor):\n  %y : Tensor = aten::mm(%x, %w)\n  return (%y)\n");
  Diagnostics d;
  CompileSpec spec;
  EXPECT_TRUE(spec.addInput("x=2x3:i64", d) && spec.addInput("w=3x4", d));
  EXPECT_FALSE(m.compiled(spec, d).ok());
  EXPECT_NE(saidOf(d).find("%x was said to be int64: with float32 it can run"), std::string::npos) << saidOf(d);
}

TEST(Compile, WritesToWhatIsConstAreToldSo) {
  const Module m = moduleOf("graph(%x : Tensor):\n  %y : Tensor = aten::relu_(%x)\n  return (%y)\n");
  const float value = -1;
  Diagnostics d;
  EXPECT_FALSE(m.forward({IValue(Tensor::borrow(DType::Float32, {1}, &value))}, d).ok());
  EXPECT_NE(saidOf(d).find("memory that the caller lent as const"), std::string::npos) << saidOf(d);
}

TEST(Compile, SegmentsAreExplainedWithoutMore) {
  const Module m = moduleOf("graph(%x : Tensor):\n  %y : Tensor = aten::relu(%x)\n  return (%y)\n");
  Diagnostics d;
  Result<CompiledPartition> cut = partition(m, {}, d);
  ASSERT_TRUE(cut.ok()) << saidOf(d);
  EXPECT_NE(explainSegments(*cut->prepared.graph, cut->partition), "");
}

// Those of the article: the classifier forced back in three ways.
TEST(Compile, TheClassifierOfLeNetFallsBack) {
  const std::string folder = TSCOMPILE_SOURCE_DIR "/samples/models/lenet_scripted/";
  Diagnostics d;
  LoadOptions load;
  load.weights = {folder + "weights.safetensors"};
  Result<Module> module = Module::load(folder + "model.ir", load, d);
  ASSERT_TRUE(module.ok()) << renderDiagnostics(d, "test");
  Result<IValue> x = parseValueText("1x1x32x32:f32:randn(seed=0)", "x", d, types().tensor, Limits());
  ASSERT_TRUE(x.ok());
  struct Force {
    std::vector<std::string> modules, nodes;
  };
  for (const Force& force : {Force{{"__torch__.models.LeNetClassifier"}, {}}, Force{{"classifer"}, {}},
                             Force{{}, {"x.5", "42", "result.4", "47", "result.3", "x.10"}}}) {
    CompileSpec spec;
    spec.torchExecutedModules = force.modules;
    spec.torchExecutedNodes = force.nodes;
    std::string cut;
    spec.onPartition = [&](const Prepared&, const Partition& p) {
      for (const Segment& s : p.segments) cut += s.target == Target::Accelerated ? "E" : "T";
    };
    Result<Module> compiled = module->compiled(spec, d);
    if (!compiled) {
      ADD_FAILURE() << renderDiagnostics(d, "test");
      d.clear();
      continue;
    }
    EXPECT_EQ(cut, "ET") << graphText(*compiled->graph());
    expectSame(*module, *compiled, [&] { return std::vector<IValue>{*x}; });
  }
}

TEST(Compile, WhatAnEngineTurnsDownFallsBack) {
  // Which sizes nonzero gives, and which rows a mask selects, depend on elements.
  Module module = moduleOf(R"(graph(%x : Float(2, 3), %m : Tensor):
  %a : Tensor = aten::relu(%x)
  %b : Tensor = aten::neg(%a)
  %c : Tensor = aten::exp(%b)
  %l : Tensor?[] = prim::ListConstruct(%m)
  %d : Tensor = aten::index(%c, %l)
  %e : Tensor = aten::neg(%d)
  %f : Tensor = aten::sigmoid(%e)
  %g : Tensor = aten::tanh(%f)
  return (%g)
)");
  CompileSpec spec;
  Diagnostics d;
  Result<Module> compiled = module.compiled(spec, d);
  ASSERT_TRUE(compiled.ok()) << renderDiagnostics(d, "test");
  Tensor mask = Tensor::empty(DType::Bool, Dims{2});
  mask.data<bool>()[0] = false;
  mask.data<bool>()[1] = true;
  Tensor rows = Tensor::empty(DType::Int64, Dims{3});
  for (int i = 0; i < 3; ++i) rows.data<int64_t>()[i] = i % 2;
  for (const Tensor& m : {mask, rows})
    expectSame(module, *compiled, [&] { return std::vector<IValue>{floats({2, 3}, {1, -2, 3, 4, -5, 6}), m}; });
}

TEST(Compile, NamesThatMatchNothingAreErrors) {
  Module module = moduleOf(kBranches);
  CompileSpec spec;
  spec.torchExecutedOps = {"aten::sigmoide"};
  Diagnostics d;
  EXPECT_FALSE(module.compiled(spec, d).ok());
  EXPECT_NE(renderDiagnostics(d, "test").find("did you mean 'aten::sigmoid'?"), std::string::npos)
      << renderDiagnostics(d, "test");
}

// ---- weights smaller than f32 ----

Result<Module> leNet(Diagnostics& d) {
  const std::string folder = TSCOMPILE_SOURCE_DIR "/samples/models/lenet_scripted/";
  LoadOptions options;
  options.weights = {folder + "weights.safetensors"};
  return Module::load(folder + "model.ir", options, d);
}

IValue valueOf(const std::string& text) {
  Diagnostics d;
  Result<IValue> v = parseValueText(text, "value", d, types().tensor, Limits());
  EXPECT_TRUE(v.ok()) << text;
  return *v;
}

// The largest difference as part of the largest magnitude.
double distance(const IValue& got, const IValue& want) {
  double difference = 0, size = 0;
  for (int64_t i = 0; i < want.toTensor().numel(); ++i) {
    difference = std::max(difference, std::abs(got.toTensor().real(i) - want.toTensor().real(i)));
    size = std::max(size, std::abs(want.toTensor().real(i)));
  }
  return difference / size;
}

TEST(Compile, SmallerWeightsKeepTheirBounds) {
  Diagnostics d;
  Result<Module> module = leNet(d);
  ASSERT_TRUE(module.ok()) << renderDiagnostics(d, "test");
  const IValue x = valueOf("4x1x32x32:f32:randn(seed=3)");
  Result<std::vector<IValue>> want = module->forward(std::vector<IValue>{x}, d);
  ASSERT_TRUE(want.ok()) << renderDiagnostics(d, "test");
  // docs/engines.md states them.
  for (auto [precision, bound] : {std::pair(DType::Float32, 5e-5), std::pair(DType::Float16, 2e-3),
                                  std::pair(DType::BFloat16, 1e-2), std::pair(DType::Int8, 5e-2)}) {
    CompileSpec spec;
    spec.engine.precision = precision;
    Result<Module> compiled = module->compiled(spec, d);
    ASSERT_TRUE(compiled.ok()) << renderDiagnostics(d, "test");
    Result<std::vector<IValue>> got = compiled->forward(std::vector<IValue>{x}, d);
    ASSERT_TRUE(got.ok()) << renderDiagnostics(d, "test");
    double far = distance((*got)[0], (*want)[0]);
    EXPECT_LE(far, bound) << precisionName(precision);
    if (precision != DType::Float32) {
      EXPECT_GT(far, 1e-6) << "the weights of " << precisionName(precision);
    }
  }
}

TEST(Compile, HalfInputsAreTakenWhereHalfPrecisionIs) {
  Diagnostics d;
  Result<Module> module = leNet(d);
  ASSERT_TRUE(module.ok()) << renderDiagnostics(d, "test");
  const IValue x = valueOf("1x1x32x32:f32:randn(seed=3)"), half = valueOf("1x1x32x32:f16:randn(seed=3)");
  for (const char* shape : {"", "x.1=1x1x32x32", "x.1=1x1x32x32:f32", "x.1=1x1x32x32:f16"}) {
    CompileSpec spec;
    spec.engine.precision = DType::Float16;
    if (*shape) spec.shapes = {*parseInputRange(shape)};
    size_t engines = 0, segments = 0;
    spec.onPartition = [&](const Prepared&, const Partition& p) {
      engines = p.count(Target::Accelerated);
      segments = p.segments.size();
    };
    Result<Module> compiled = module->compiled(spec, d);
    ASSERT_TRUE(compiled.ok()) << shape << renderDiagnostics(d, "test");
    EXPECT_EQ(engines, 1u) << shape;
    EXPECT_EQ(segments, 1u) << shape;
    TemporaryFolder folder;
    ASSERT_TRUE(compiled->save(folder / "half.tse", d)) << renderDiagnostics(d, "test");
    Result<Module> loaded = Module::load(folder / "half.tse", {}, d);
    ASSERT_TRUE(loaded.ok()) << renderDiagnostics(d, "test");
    for (const Module* m : {&*compiled, &*loaded}) {
      Result<std::vector<IValue>> got = m->forward(std::vector<IValue>{half}, d),
                                  want = module->forward(std::vector<IValue>{x}, d);
      ASSERT_TRUE(got.ok() && want.ok()) << shape << renderDiagnostics(d, "test");
      EXPECT_LE(distance((*got)[0], (*want)[0]), 4e-3);
    }
  }
  // Nobody asked for it.
  Result<Module> single = module->compiled({}, d);
  ASSERT_TRUE(single.ok());
  EXPECT_FALSE(single->forward(std::vector<IValue>{half}, d).ok());
}

TEST(Compile, WritesReachHalfInputs) {
  TemporaryFolder folder;
  LoadOptions options;
  options.weights = {folder.write("w.weights", "w = 2:f32=[1 0.5]\n")};
  Diagnostics d;
  Result<Module> module = Module::fromText(R"(graph(%x : Tensor, %y : Tensor):
  %w : Float(2) = prim::Constant[value=<Tensor>]()
  %one : int = prim::Constant[value=1]()
  %s : Tensor = aten::add_(%x, %w, %one)
  %r : Tensor = aten::mul(%s, %y)
  return (%r)
)",
                                           "test", options, d);
  ASSERT_TRUE(module.ok()) << renderDiagnostics(d, "test");
  CompileSpec spec;
  spec.engine.precision = DType::Float16;
  Result<Module> compiled = module->compiled(spec, d);
  ASSERT_TRUE(compiled.ok()) << renderDiagnostics(d, "test");
  const std::vector<IValue> inputs{valueOf("2:f16=[1 2]"), valueOf("2:f16=[3 3]")};
  ASSERT_TRUE(compiled->forward(inputs, d).ok()) << renderDiagnostics(d, "test");
  EXPECT_EQ(valueToText(inputs[0]), "2:f16=[2 2.5]");
  EXPECT_EQ(valueToText(inputs[1]), "2:f16=[3 3]");
  const IValue both = valueOf("2:f16=[1 2]");
  Result<std::vector<IValue>> out = compiled->forward(std::vector<IValue>{both, both}, d);
  ASSERT_TRUE(out.ok()) << renderDiagnostics(d, "test");
  EXPECT_EQ(valueToText(both), "2:f16=[2 2.5]");
  EXPECT_EQ(valueToText((*out)[0]), "2:f32=[4 6.25]");
}

TEST(Compile, CalibratedEnginesAreNotRefitted) {
  Diagnostics d;
  CompileSpec spec;
  spec.refittable = true;
  spec.engine.precision = DType::Int8;
  spec.engine.tactics = std::make_shared<TacticCache>();
  spec.engine.tactics->add("range x", "-1 1", TacticCache::Scope::OneEngine);
  EXPECT_FALSE(moduleOf(kBranches).compiled(spec, d).ok());
  EXPECT_EQ(d.list()[0].message,
            "calibrated engines cannot be refitted: the ranges that were found are those of the weights they have");
}

}  // namespace
}  // namespace tscompile::test
