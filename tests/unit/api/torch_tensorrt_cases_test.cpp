// What Torch-TensorRT's own tests of partitioning compile and run: sizes of segments, conversion, stitching, control
// flow, 64-bit values, whole models. Node maps of the same graphs are in partition/segmentation_test.cpp.
#include "api/compile.h"
#include "api/engine_file.h"
#include "api/value_text.h"
#include "ir/analysis/verifier.h"
#include "ir/support/text.h"
#include "passes/rewrite/compare.h"
#include "tests/support/module_checks.h"
#include "tests/support/text_file.h"

namespace tscompile::test {
namespace {

// conv, relu, conv, log_sigmoid, conv
const char* const kSequential = R"(
graph(%x : Tensor, %w1 : Float(32, 3, 3, 3), %b1 : Float(32), %w2 : Float(16, 32, 3, 3), %b2 : Float(16),
      %w3 : Float(8, 16, 3, 3), %b3 : Float(8)):
  %ones : int[] = prim::Constant[value=[1, 1]]()
  %zeros : int[] = prim::Constant[value=[0, 0]]()
  %no : bool = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %c1 : Tensor = aten::_convolution(%x, %w1, %b1, %ones, %ones, %ones, %no, %zeros, %one, %no, %no, %no, %no)
  %r : Tensor = aten::relu(%c1)
  %c2 : Tensor = aten::_convolution(%r, %w2, %b2, %ones, %ones, %ones, %no, %zeros, %one, %no, %no, %no, %no)
  %l : Tensor = aten::log_sigmoid(%c2)
  %c3 : Tensor = aten::_convolution(%l, %w3, %b3, %ones, %ones, %ones, %no, %zeros, %one, %no, %no, %no, %no)
  return (%c3)
)";

const char* const kBranch = R"(
graph(%x : Tensor, %w1 : Float(32, 3, 3, 3), %b1 : Float(32), %w2 : Float(16, 32, 3, 3), %b2 : Float(16)):
  %zeros : int[] = prim::Constant[value=[0, 0]]()
  %twos : int[] = prim::Constant[value=[2, 2]]()
  %ones : int[] = prim::Constant[value=[1, 1]]()
  %no : bool = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %a : Tensor = aten::_convolution(%x, %w1, %b1, %ones, %ones, %ones, %no, %zeros, %one, %no, %no, %no, %no)
  %b : Tensor = aten::_convolution(%a, %w2, %b2, %ones, %ones, %ones, %no, %zeros, %one, %no, %no, %no, %no)
  %l : Tensor = aten::log_sigmoid(%a)
  %c : Tensor = aten::_convolution(%l, %w2, %b2, %ones, %ones, %ones, %no, %zeros, %one, %no, %no, %no, %no)
  %r : Tensor = aten::relu(%b)
  %s : Tensor = aten::add(%c, %r, %one)
  %p : Tensor = aten::max_pool2d(%s, %twos, %twos, %zeros, %ones, %no)
  return (%p)
)";

IValue value(const std::string& text) {
  Diagnostics d;
  Result<IValue> v = parseValueText(text, "value", d, types().tensor, Limits());
  EXPECT_TRUE(v.ok()) << text << renderDiagnostics(d, "test");
  return v ? *v : IValue();
}

std::vector<IValue> values(const std::vector<std::string>& texts) {
  std::vector<IValue> out;
  for (const std::string& t : texts) out.push_back(value(t));
  return out;
}

Module moduleOf(const std::string& text) {
  Diagnostics d;
  Result<Module> m = Module::fromText(text, "test", {}, d);
  EXPECT_TRUE(m.ok()) << renderDiagnostics(d, "test");
  return *m;
}

CompileSpec forced(std::vector<std::string> operators) {
  CompileSpec spec;
  spec.minBlockSize = 1;
  spec.torchExecutedOps = std::move(operators);
  return spec;
}

std::string sizes(const std::vector<const Value*>& values) {
  return join(values, " ", [](const Value* v) { return typeText(v->type()); });
}

// Of each segment what it takes.
std::vector<std::string> inputSizes(const char* text, const std::string& shape) {
  std::unique_ptr<Graph> graph = readGraph(text);
  CompileSpec spec = forced({"aten::log_sigmoid"});
  spec.shapes = {*parseInputRange(shape)};
  Diagnostics d;
  Result<CompiledPartition> cut = partition(*graph, spec, d);
  EXPECT_TRUE(cut.ok()) << renderDiagnostics(d, "test");
  std::vector<std::string> out;
  if (cut)
    for (const Segment& s : cut->partition.segments) out.push_back(sizes(s.inputs));
  return out;
}

struct Engines {
  size_t outside = 0, inBlocks = 0;
  size_t all() const { return outside + inBlocks; }
};

Engines countEngines(const Graph& graph) {
  Engines out;
  forEachNode(graph, [&](const Node* n) {
    if (n->kind() == sym::Engine) (n->block()->owner() ? out.inBlocks : out.outside) += 1;
  });
  return out;
}

// Compiles it, saves and loads it, and compares all of them. Returns the compiled module's engines.
Engines compileAndRun(const Module& module, const CompileSpec& spec, const std::vector<std::vector<IValue>>& inputs,
                      double rtol = 1e-4, double atol = 1e-5) {
  Diagnostics d;
  Result<Module> compiled = module.compiled(spec, d);
  if (!compiled) {
    ADD_FAILURE() << renderDiagnostics(d, "test");
    return {};
  }
  // Every value is made before it is used, in engines too.
  EXPECT_TRUE(verify(*compiled->graph(), compiled->registry(), d))
      << renderDiagnostics(d, "test") << graphText(*compiled->graph());
  TemporaryFolder folder;
  EXPECT_TRUE(compiled->save(folder / "m.tse", d)) << renderDiagnostics(d, "test");
  Result<Module> loaded = Module::load(folder / "m.tse", {}, d);
  EXPECT_TRUE(loaded.ok()) << renderDiagnostics(d, "test");
  for (const std::vector<IValue>& in : inputs) {
    Result<std::vector<IValue>> want = module.forward(in, d), got = compiled->forward(in, d);
    EXPECT_TRUE(want.ok() && got.ok()) << renderDiagnostics(d, "test");
    if (!want || !got || !loaded) return {};
    std::optional<RewriteMismatch> m = compareResults(*want, *got, {rtol, atol});
    EXPECT_FALSE(m) << m->text();
    Result<std::vector<IValue>> again = loaded->forward(in, d);
    EXPECT_TRUE(again.ok()) << renderDiagnostics(d, "test");
    EXPECT_FALSE(again && compareResults(*got, *again, {0, 0}));
  }
  return countEngines(*compiled->graph());
}

const std::vector<std::string> kSequentialInputs = {
    "3x3x16x16:f32:randn(seed=0)", "32x3x3x3:f32:randn(seed=1, std=0.2)",
    "32:f32:randn(seed=2)",        "16x32x3x3:f32:randn(seed=3, std=0.06)",
    "16:f32:randn(seed=4)",        "8x16x3x3:f32:randn(seed=5, std=0.1)",
    "8:f32:randn(seed=6)"};

}  // namespace

// ---- test_shape_analysis ----

TEST(TorchTensorRtCases, ShapesOfASequentialModel) {
  EXPECT_EQ(inputSizes(kSequential, "x=3x3x16x16"),
            (std::vector<std::string>{"Float(3, 3, 16, 16) Float(32, 3, 3, 3) Float(32) Float(16, 32, 3, 3) Float(16)",
                                      "Float(3, 16, 16, 16)", "Float(3, 16, 16, 16) Float(8, 16, 3, 3) Float(8)"}));
}

TEST(TorchTensorRtCases, ShapesOfABranchedModel) {
  EXPECT_EQ(inputSizes(kBranch, "x=3x3x16x16"),
            (std::vector<std::string>{"Float(3, 3, 16, 16) Float(32, 3, 3, 3) Float(32) Float(16, 32, 3, 3) Float(16)",
                                      "Float(3, 32, 16, 16)",
                                      "Float(3, 32, 16, 16) Float(16, 32, 3, 3) Float(16) Float(3, 16, 16, 16)"}));
}

TEST(TorchTensorRtCases, RangesOfADynamicAndAStaticInput) {
  Module module = moduleOf(R"(graph(%x : Tensor, %y : Tensor):
  %one : int = prim::Constant[value=1]()
  %s : Tensor = aten::add(%x, %y, %one)
  return (%s)
)");
  CompileSpec spec({CompileInput(Dims{1}, Dims{2}, Dims{3}), CompileInput(Dims{1})});
  Diagnostics d;
  Result<Module> compiled = module.compiled(spec, d);
  ASSERT_TRUE(compiled.ok()) << renderDiagnostics(d, "test");
  const std::vector<InputRange>& ranges = compiled->engineInfo()->inputs;
  ASSERT_EQ(ranges.size(), 2u);
  EXPECT_EQ(ranges[0].least, Dims{1});
  EXPECT_EQ(ranges[0].most, Dims{3});
  EXPECT_EQ(ranges[1].least, Dims{1});
  EXPECT_EQ(ranges[1].most, Dims{1});
}

// ---- test_stitched_graph, test_tensorrt_conversion ----

TEST(TorchTensorRtCases, ConvertedModelsHaveTwoEngines) {
  EXPECT_EQ(compileAndRun(moduleOf(kSequential), forced({"aten::log_sigmoid"}), {values(kSequentialInputs)}).outside,
            2u);
  std::vector<std::string> branch(kSequentialInputs.begin(), kSequentialInputs.begin() + 5);
  EXPECT_EQ(compileAndRun(moduleOf(kBranch), forced({"aten::log_sigmoid"}), {values(branch)}).outside, 2u);
}

// ---- test_resolve_nontensor_inputs ----

TEST(TorchTensorRtCases, OneConditionForTwoBranches) {
  Module module = moduleOf(R"(graph(%x : Tensor, %y : Tensor):
  %zero : int = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %two : int = prim::Constant[value=2]()
  %a : Tensor = aten::add(%x, %y, %one)
  %n : int = aten::size(%a, %zero)
  %t : Tensor = prim::NumToTensor(%n)
  %c : bool = aten::is_floating_point(%t)
  %b : Tensor = prim::If(%c)
    block0():
      %p : Tensor = aten::sub(%a, %y, %one)
      -> (%p)
    block1():
      %q : Tensor = aten::sub(%a, %y, %two)
      -> (%q)
  %d : Tensor = prim::If(%c)
    block0():
      %r : Tensor = aten::sub(%b, %x, %one)
      -> (%r)
    block1():
      %s : Tensor = aten::sub(%b, %x, %two)
      -> (%s)
  %e : Tensor = aten::mul(%d, %b)
  return (%e)
)");
  compileAndRun(module, forced({"aten::sub"}), {values({"3x3:f32:randn(seed=0)", "3x3:f32:randn(seed=1)"})});
}

TEST(TorchTensorRtCases, SizesInALoopAroundAForcedConvolution) {
  // Names that are given again, as in theirs.
  Module module = moduleOf(R"(graph(%x : Tensor, %w : Tensor):
  %2 : NoneType = prim::Constant()
  %3 : int = prim::Constant[value=1]()
  %4 : int = prim::Constant[value=0]()
  %5 : int = prim::Constant[value=2]()
  %6 : bool = prim::Constant[value=1]()
  %no : bool = prim::Constant[value=0]()
  %ones : int[] = prim::Constant[value=[1, 1]]()
  %zeros : int[] = prim::Constant[value=[0, 0]]()
  %2 : Tensor = aten::_convolution(%x, %w, %2, %ones, %ones, %ones, %no, %zeros, %3, %no, %no, %no, %no)
  %7 : int = aten::size(%2, %4)
  %10 : int = aten::size(%2, %3)
  %11 : int = prim::Loop(%5, %6, %7)
    block0(%i : int, %12 : int):
      %13 : int = aten::mul(%12, %10)
      -> (%6, %13)
  %11 : int = aten::floordiv(%11, %10)
  %14 : int = prim::Constant[value=-1]()
  %15 : int[] = prim::ListConstruct(%11, %14)
  %15 : Tensor = aten::reshape(%2, %15)
  %15 : Tensor = aten::relu(%15)
  return (%15)
)");
  CompileSpec spec = forced({"aten::_convolution"});
  size_t engines = 0;
  spec.onPartition = [&](const Prepared&, const Partition& p) {
    for (const Segment& s : p.segments) {
      if (s.target != Target::Accelerated) continue;
      ++engines;
      for (const Value* v : s.inputs) EXPECT_TRUE(v->type()->isTensor()) << typeText(v->type());
    }
  };
  compileAndRun(module, spec, {values({"2x3x8x8:f32:randn(seed=0)", "4x3x3x3:f32:randn(seed=1)"})});
  EXPECT_GE(engines, 1u);
}

TEST(TorchTensorRtCases, AListThatFallsBackLeavesOneEngine) {
  Module module = moduleOf(R"(graph(%x : Tensor, %y : Tensor):
  %one : int = prim::Constant[value=1]()
  %zero : int = prim::Constant[value=0]()
  %a : Tensor = aten::log_sigmoid(%x)
  %l : Tensor[] = prim::ListConstruct(%a, %y)
  %c : Tensor = aten::cat(%l, %zero)
  %d : Tensor = aten::relu(%c)
  %e : Tensor = aten::add(%d, %d, %one)
  return (%e)
)");
  Engines e = compileAndRun(module, forced({"aten::log_sigmoid"}),
                            {values({"3x4:f32:randn(seed=0)", "2x4:f32:randn(seed=1)"})});
  EXPECT_EQ(e.all(), 1u);
}

// ---- test_type_auto_conversion: no cast is inserted, 64-bit values are exact ----

size_t castsIn(const Module& m) {
  size_t casts = 0;
  forEachNode(*m.graph(), [&](const Node* n) {
    auto count = [&](const Node* inner) { casts += inner->kind() == Symbol::of("aten::to"); };
    count(n);
    if (n->subgraph()) forEachNode(*n->subgraph(), count);
  });
  return casts;
}

void expectExact(const char* text, const std::string& force, const std::vector<IValue>& inputs) {
  Module module = moduleOf(text);
  Diagnostics d;
  CompileSpec spec = forced({force});
  Result<Module> compiled = module.compiled(spec, d);
  ASSERT_TRUE(compiled.ok()) << renderDiagnostics(d, "test");
  EXPECT_EQ(castsIn(*compiled), 0u) << graphText(*compiled->graph());
  EXPECT_GE(countEngines(*compiled->graph()).all(), 1u) << graphText(*compiled->graph());
  Result<std::vector<IValue>> want = module.forward(inputs, d), got = compiled->forward(inputs, d);
  ASSERT_TRUE(want.ok() && got.ok()) << renderDiagnostics(d, "test");
  std::optional<RewriteMismatch> m = compareResults(*want, *got, {0, 0});
  EXPECT_FALSE(m) << m->text();
}

TEST(TorchTensorRtCases, LongIndicesBesideAForcedScatter) {
  expectExact(R"(graph(%x : Tensor, %i : Tensor):
  %zero : int = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %big : int = prim::Constant[value=9007199254740993]()
  %a : Tensor = aten::add(%x, %big, %one)
  %s : Tensor = aten::scatter(%a, %zero, %i, %x)
  %m : Tensor = aten::add(%s, %a, %one)
  return (%m)
)",
              "aten::scatter", values({"2x2:i64=[1 2; 9007199254740993 -7]", "2x2:i64=[0 1; 1 0]"}));
}

TEST(TorchTensorRtCases, LongValuesBesideAForcedExpand) {
  expectExact(R"(graph(%x : Tensor, %y : Tensor):
  %no : bool = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %sizes : int[] = prim::Constant[value=[3, 2]]()
  %a : Tensor = aten::mul(%x, %y)
  %e : Tensor = aten::expand(%a, %sizes, %no)
  %m : Tensor = aten::add(%e, %y, %one)
  return (%m)
)",
              "aten::expand", values({"1x2:i64=[3037000499 2]", "1x2:i64=[3037000493 4611686018427387905]"}));
}

TEST(TorchTensorRtCases, BytesOfAForcedOnes) {
  expectExact(R"(graph(%x : Tensor):
  %none : NoneType = prim::Constant()
  %byte : int = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %sizes : int[] = prim::Constant[value=[2, 2]]()
  %o : Tensor = aten::ones(%sizes, %byte, %none, %none, %none)
  %a : Tensor = aten::add(%o, %x, %one)
  %m : Tensor = aten::mul(%a, %x)
  return (%m)
)",
              "aten::ones", values({"2x2:u8=[250 255; 3 4]"}));
}

// ---- test_conditionals, test_loading_model ----

TEST(TorchTensorRtCases, EnginesInsideBranches) {
  Module module = moduleOf(R"(graph(%x : Tensor, %w : Tensor):
  %none : NoneType = prim::Constant()
  %zero : int = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %ones : int[] = prim::Constant[value=[1, 1]]()
  %n : int = aten::size(%x, %zero)
  %c : bool = aten::gt(%n, %one)
  %y : Tensor = prim::If(%c)
    block0():
      %a : Tensor = aten::conv2d(%x, %w, %none, %ones, %ones, %ones, %one)
      %b : Tensor = aten::log_sigmoid(%a)
      -> (%b)
    block1():
      %d : Tensor = aten::relu(%x)
      %e : Tensor = aten::add(%d, %x, %one)
      -> (%e)
  return (%y)
)");
  const std::string w = "3x3x3x3:f32:randn(seed=1, std=0.2)";
  Engines e = compileAndRun(module, forced({"aten::log_sigmoid"}),
                            {values({"3x3x16x16:f32:randn(seed=0)", w}), values({"1x3x16x16:f32:randn(seed=0)", w})});
  EXPECT_EQ(e.inBlocks, 2u);
}

TEST(TorchTensorRtCases, AListThatABranchAppendsTo) {
  Module module = moduleOf(R"(graph(%x : Tensor, %y : Tensor):
  %zero : int = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %four : int = prim::Constant[value=4]()
  %a : Tensor = aten::add(%x, %y, %one)
  %l : Tensor[] = prim::ListConstruct(%a, %x)
  %n : int = aten::size(%y, %zero)
  %c : bool = aten::eq(%n, %four)
   = prim::If(%c)
    block0():
      %m : Tensor = aten::mul(%a, %y)
      %k : Tensor[] = aten::append(%l, %m)
      -> ()
    block1():
      -> ()
  %d : Tensor = aten::cat(%l, %zero)
  %e : Tensor = aten::relu(%d)
  return (%e)
)");
  compileAndRun(module, forced({"prim::ListConstruct"}),
                {values({"4x4:f32:randn(seed=0)", "4x4:f32:randn(seed=1)"}),
                 values({"1x4:f32:randn(seed=0)", "1x4:f32:randn(seed=1)"})});
}

// ---- test_loop_fallback ----

const char* const kLoop = R"(graph(%x : Tensor):
  %zero : int = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %five : int = prim::Constant[value=5]()
  %yes : bool = prim::Constant[value=1]()
  %none : NoneType = prim::Constant()
  %f32 : int = prim::Constant[value=6]()
  %start : Tensor = aten::ones_like(%x, %f32, %none, %none, %none, %none)
  %sum : Tensor = prim::Loop(%five, %yes, %start)
    block0(%i : int, %s : Tensor):
      %o : Tensor = aten::ones_like(%x, %f32, %none, %none, %none, %none)
      %a : Tensor = aten::add(%s, %o, %one)
      %b : Tensor = aten::mul(%a, %x)
      -> (%yes, %b)
  %r : Tensor = aten::relu(%sum)
  return (%r)
)";

TEST(TorchTensorRtCases, LoopsWithAndWithoutAForcedNode) {
  const std::vector<std::vector<IValue>> inputs{values({"1x10:f32:randn(seed=0)"})};
  EXPECT_GE(compileAndRun(moduleOf(kLoop), forced({}), inputs).all(), 1u);
  EXPECT_GE(compileAndRun(moduleOf(kLoop), forced({"aten::ones_like"}), inputs).all(), 1u);
}

// ---- test_fallback_graph_output, which they skip ----

void expectModel(const std::string& name, const std::string& force, size_t places, size_t nodes) {
  const std::string path = TSCOMPILE_TESTS_DIR "/data/models/" + name;
  LoadOptions options;
  options.weights = {path + ".weights"};
  Diagnostics d;
  Result<Module> module = Module::load(path + ".ir", options, d);
  ASSERT_TRUE(module.ok()) << renderDiagnostics(d, "test");
  CompileSpec spec = forced({force});
  size_t outside = 0;
  spec.onPartition = [&](const Prepared&, const Partition& p) {
    for (const Segment& s : p.segments) outside += s.target == Target::Fallback ? s.nodes.size() : 0;
  };
  Result<Module> compiled = module->compiled(spec, d);
  ASSERT_TRUE(compiled.ok()) << renderDiagnostics(d, "test");
  EXPECT_EQ(outside, nodes);
  // Between two of them is one engine, before the first and after the last as well.
  EXPECT_EQ(countEngines(*compiled->graph()).all(), places + 1);
  const std::vector<IValue> in{value("1x3x64x64:f32:randn(seed=0)")};
  Result<std::vector<IValue>> want = module->forward(in, d), got = compiled->forward(in, d);
  ASSERT_TRUE(want.ok() && got.ok()) << renderDiagnostics(d, "test");
  std::optional<RewriteMismatch> m = compareResults(*want, *got, {1e-3, 1e-3});
  EXPECT_FALSE(m) << m->text();
}

// Sums in place become sums, the question whether they fit, and conversions to the dtype of what they were written to.
TEST(TorchTensorRtCases, ResNet50WithoutItsSums) { expectModel("resnet50", "aten::add_", 16, 48); }
TEST(TorchTensorRtCases, MobileNetWithoutItsActivations) { expectModel("mobilenet_v2", "aten::hardtanh_", 35, 35); }

}  // namespace tscompile::test
