// Engines with planted mistakes: verify has to find each, to the node.
#include "api/verify.h"

#include "api/compiler.h"
#include "api/support/deep_copy.h"
#include "runtime/registry.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace tscompile {
namespace {

constexpr const char* kGraph = R"(graph(%x : Tensor, %w : Tensor):
  %n : NoneType = prim::Constant()
  %0 : int = prim::Constant[value=0]()
  %1 : int = prim::Constant[value=1]()
  %-1 : int = prim::Constant[value=-1]()
  %3 : int = prim::Constant[value=3]()
  %eps : float = prim::Constant[value=1.0000000000000001e-05]()
  %half : float = prim::Constant[value=0.5]()
  %yes : bool = prim::Constant[value=1]()
  %pad : int[] = prim::Constant[value=[1, 1]]()
  %l0 : int[] = prim::Constant[value=[0]]()
  %l1 : int[] = prim::Constant[value=[1]]()
  %l64 : int[] = prim::Constant[value=[64]]()
  %how : str = prim::Constant[value="none"]()
  %c : Tensor = aten::conv2d(%x, %w, %n, %pad, %pad, %pad, %1)
  %r : Tensor = aten::relu(%c)
  %s : Tensor = aten::sigmoid(%r)
  %t : Tensor = aten::tanh(%s)
  %e : Tensor = aten::exp(%t)
  %a : Tensor = aten::abs(%e)
  %q : Tensor = aten::sqrt(%a)
  %neg : Tensor = aten::neg(%q)
  %add : Tensor = aten::add(%neg, %r, %1)
  %mul : Tensor = aten::mul(%add, %s)
  %sub : Tensor = aten::sub(%mul, %t, %1)
  %div : Tensor = aten::div(%sub, %e)
  %g : Tensor = aten::gelu(%div, %how)
  %si : Tensor = aten::silu(%g)
  %sm : Tensor = aten::softmax(%si, %-1, %n)
  %su : Tensor = aten::sum(%sm, %l1, %yes, %n)
  %me : Tensor = aten::mean(%su, %l0, %yes, %n)
  %cs : Tensor = aten::cumsum(%me, %3, %n)
  %f : Tensor = aten::flatten(%cs, %1, %-1)
  %tr : Tensor = aten::transpose(%f, %0, %1)
  %mm : Tensor = aten::matmul(%tr, %f)
  %cl : Tensor = aten::clamp(%mm, %half, %n)
  %ln : Tensor = aten::layer_norm(%cl, %l64, %n, %n, %eps, %yes)
  %list : Tensor[] = prim::ListConstruct(%mm, %ln)
  %cat : Tensor = aten::cat(%list, %0)
  return (%cat, %si, %cl)
)";

// Adds a half to what is right.
class OffByAHalf : public Layer {
 public:
  explicit OffByAHalf(const Node* node) : Layer(node) {}
  std::string name() const override { return "wrong"; }
  void run(Frame& frame) const override {
    for (int64_t i = 0; i < frame.network()[outputs[0]].numel; ++i)
      frame.data<float>(outputs[0])[i] = frame.data<float>(inputs[0])[i] + 0.5f;
  }
};

void convertWrongly(ConvertCall& call) {
  convertToKernel(call);
  TensorId right = call.resultValue(0).tensor;
  TensorId wrong = call.makeResult(0);
  OffByAHalf& layer = call.add<OffByAHalf>();
  layer.inputs = {right};
  layer.outputs = {wrong};
}

std::vector<IValue> inputs() {
  std::vector<IValue> out;
  for (const char* text : {"2x3x8x8:f32:randn(seed=0)", "4x3x3x3:f32:randn(seed=1, std=0.2)"}) {
    Diagnostics d;
    Result<IValue> v = parseValueText(text, "input", d);
    EXPECT_TRUE(v.ok());
    out.push_back(*v);
  }
  return out;
}

VerifyReport verified(const std::vector<std::string>& wrongOps, VerifyOptions options = {}, CompileSpec spec = {}) {
  Diagnostics d;
  auto extensions = std::make_shared<Extensions>();
  for (const std::string& op : wrongOps) EXPECT_TRUE(extensions->addConverter(op, convertWrongly, d));
  LoadOptions load;
  load.extensions = extensions;
  Result<Module> module = Module::fromText(kGraph, "planted.ir", load, d);
  EXPECT_TRUE(module.ok()) << renderDiagnostics(d, "test");
  spec.lower = false;
  Result<VerifyReport> report = verifyEngines(*module, spec, inputs(), options, d);
  EXPECT_TRUE(report.ok()) << renderDiagnostics(d, "test");
  return report ? *report : VerifyReport();
}

TEST(Verify, PassesWhatIsRight) {
  VerifyReport r = verified({});
  EXPECT_TRUE(r.passed());
  ASSERT_EQ(r.engines.size(), 1u);
  EXPECT_EQ(r.engines[0].calls, 1u);
  EXPECT_EQ(r.engines[0].planned, 1u);
  EXPECT_FALSE(r.blame);
  // The tolerance that it tells is one that passes, and none that is smaller does.
  VerifyOptions exact;
  exact.tolerance = {0, 0};
  double least = verified({}, exact).worst().relative;
  EXPECT_GT(least, 0);
  exact.tolerance.relative = least * 1.0001;
  EXPECT_TRUE(verified({}, exact).passed());
  exact.tolerance.relative = least * 0.9;
  EXPECT_FALSE(verified({}, exact).passed());
}

class PlantedMistake : public ::testing::TestWithParam<const char*> {};

TEST_P(PlantedMistake, IsFoundToTheNode) {
  VerifyOptions options;
  options.bisect = true;
  VerifyReport r = verified({GetParam()}, options);
  EXPECT_FALSE(r.passed());
  ASSERT_TRUE(r.blame);
  EXPECT_TRUE(r.blame->alone);
  EXPECT_EQ(allOps().resolve(*r.blame->node)->fullName(), GetParam());
  EXPECT_NEAR(r.blame->difference.largest, 0.5, 1e-3);
}

INSTANTIATE_TEST_SUITE_P(Operators, PlantedMistake,
                         ::testing::Values("aten::conv2d", "aten::relu", "aten::sigmoid", "aten::tanh", "aten::exp",
                                           "aten::abs", "aten::sqrt", "aten::neg", "aten::add.Tensor",
                                           "aten::mul.Tensor", "aten::sub.Tensor", "aten::div.Tensor", "aten::gelu",
                                           "aten::silu", "aten::softmax.int", "aten::sum.dim_IntList", "aten::mean.dim",
                                           "aten::cumsum", "aten::flatten.using_ints", "aten::transpose.int",
                                           "aten::matmul", "aten::clamp", "aten::layer_norm", "aten::cat"));

// The first engine is wrong; the second is right by itself, and gets what is wrong.
TEST(Verify, TellsOwnFromCarriedMistakes) {
  CompileSpec spec;
  spec.torchExecutedOps = {"aten::cumsum"};
  VerifyReport r = verified({"aten::relu"}, {}, spec);
  ASSERT_EQ(r.engines.size(), 2u);
  EXPECT_FALSE(r.engines[0].own.within);
  EXPECT_FALSE(r.engines[0].carried.within);
  EXPECT_TRUE(r.engines[1].own.within);
  EXPECT_FALSE(r.engines[0].output.empty());
}

TEST(Verify, ComparesDictsKeyByKey) {
  auto dict = [](float v) {
    auto d = Ref<DictValue>::make(simpleType(TypeKind::String), tensorType({}));
    d->set(IValue(std::string("out")), Tensor::of(Dims{2}, std::span<const float>(std::vector<float>{v, v})));
    return IValue(std::move(d));
  };
  EXPECT_TRUE(difference(dict(1), dict(1), {}).within);
  EXPECT_NEAR(difference(dict(1), dict(3), {}).largest, 2, 1e-6);
  auto other = Ref<DictValue>::make(simpleType(TypeKind::String), tensorType({}));
  EXPECT_EQ(difference(IValue(other), dict(1), {}).wrong, "it has 0 keys, not 1");
}

TEST(Verify, ComparesDictsWithTensorsAsKeysInTheirOrder) {
  auto dict = [](float key, float value) {
    auto d = Ref<DictValue>::make(tensorType({}), simpleType(TypeKind::Float));
    d->set(Tensor::of(Dims{1}, std::span<const float>(std::vector<float>{key})), IValue(double{value}));
    return IValue(std::move(d));
  };
  EXPECT_TRUE(difference(dict(1, 2), dict(1, 2), {}).within);
  EXPECT_NEAR(difference(dict(1, 2), dict(1, 5), {}).largest, 3, 1e-6);
  EXPECT_NEAR(difference(dict(3, 2), dict(1, 2), {}).largest, 2, 1e-6);
}

TEST(Verify, ListsThatHoldThemselvesAreCopiedAndCompared) {
  auto list = Ref<ListValue>::make(simpleType(TypeKind::Any), std::vector<IValue>());
  Tensor t = Tensor::of(Dims{2}, std::span<const float>(std::vector<float>{1, 1}));
  list->items = {IValue(t), IValue(list), IValue(t)};
  std::vector<IValue> copy = deepCopy(std::vector<IValue>{IValue(list)});
  const auto& items = copy[0].toList().items;
  EXPECT_EQ(&items[1].toList(), &copy[0].toList());
  EXPECT_EQ(items[0].tensorImpl(), items[2].tensorImpl());
  EXPECT_NE(items[0].tensorImpl(), t.impl());
  EXPECT_TRUE(difference(copy[0], IValue(list), {}).within);
  copy[0].toList().items.clear();
  list->items.clear();
}

TEST(Verify, SignalToNoiseIsOfFiniteNumbers) {
  auto tensor = [](std::vector<float> v) { return IValue(Tensor::of(Dims{3}, std::span<const float>(v))); };
  EXPECT_NEAR(difference(tensor({3, 4.5, 0}), tensor({3, 4, 0}), {}).signalToNoise(), 20, 1e-6);
  EXPECT_NEAR(difference(tensor({3, 4.5, INFINITY}), tensor({3, 4, INFINITY}), {}).signalToNoise(), 20, 1e-6);
  EXPECT_TRUE(std::isinf(difference(tensor({3, 4, 1}), tensor({3, 4, 1}), {}).signalToNoise()));
  EXPECT_TRUE(std::isinf(difference(IValue(3), IValue(4), {}).signalToNoise()));
}

TEST(Verify, ToleranceThatIsToldPasses) {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> value(-2, 2), tolerance(0, 0.5);
  for (int i = 0; i < 20000; ++i) {
    IValue got(value(random)), want(value(random));
    Tolerance t{tolerance(random), tolerance(random)};
    Difference d = difference(got, want, t);
    EXPECT_TRUE(difference(got, want, {d.relative, t.absolute}).within);
    EXPECT_TRUE(difference(got, want, {t.relative, d.absolute}).within);
  }
}

}  // namespace
}  // namespace tscompile
