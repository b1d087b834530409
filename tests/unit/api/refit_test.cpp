// Refitting: an engine file with other weights is the file that compiling with these weights writes, to the last byte,
// and what does not fit is told all at once.
#include "api/refit.h"

#include "api/compile.h"
#include "api/compile_settings.h"
#include "api/support/wrapper_part.h"
#include "frontend/files/file_io.h"
#include "frontend/files/weights.h"
#include "ir/support/diagnostic_printer.h"
#include "tests/support/text_file.h"

#include <gtest/gtest.h>

namespace tscompile::test {
namespace {

// `fc` goes into an engine as it is, `w` and `scale` are folded, `shift` is short enough to be text, `one` and `same`
// are alike in the first weights, so that they are one constant there.
constexpr const char* kNet = R"(graph(%x : Tensor):
  %fc : Float(6, 6) = prim::Constant[value=<Tensor>]()
  %w : Float(6, 4) = prim::Constant[value=<Tensor>]()
  %scale : Float(6, 1) = prim::Constant[value=<Tensor>]()
  %shift : Float(4) = prim::Constant[value=<Tensor>]()
  %one : Float(4, 4) = prim::Constant[value=<Tensor>]()
  %same : Float(4, 4) = prim::Constant[value=<Tensor>]()
  %none : NoneType = prim::Constant()
  %k : int = prim::Constant[value=1]()
  %a : Tensor = aten::linear(%x, %fc, %none)
  %scaled : Tensor = aten::mul(%w, %scale)
  %b : Tensor = aten::matmul(%a, %scaled)
  %c : Tensor = aten::add(%b, %shift, %k)
  %d : Tensor = aten::matmul(%c, %one)
  %e : Tensor = aten::matmul(%d, %same)
  %f : Tensor = aten::lgamma(%e)
  return (%f)
)";

constexpr const char* kOld =
    "fc = 6x6:f32:randn(seed=1)\nw = 6x4:f32:randn(seed=2)\nscale = 6x1:f32:randn(seed=3)\n"
    "shift = 4:f32=[1 2 3 4]\none = 4x4:f32:randn(seed=4)\nsame = 4x4:f32:randn(seed=4)\nextra = 3:f32=[1 2 3]\n";
constexpr const char* kNew =
    "fc = 6x6:f32:randn(seed=11)\nw = 6x4:f32:randn(seed=12)\nscale = 6x1:f32:randn(seed=13)\n"
    "shift = 4:f32=[5 6 7 8]\none = 4x4:f32:randn(seed=14)\nsame = 4x4:f32:randn(seed=15)\nextra = 3:f32=[4 5 6]\n";

class RefitTest : public testing::Test {
 protected:
  RefitTest() { folder_.write("net.ir", kNet); }

  std::string messages() const { return renderDiagnostics(diagnostics_, "test"); }
  static CompileSpec spec() {
    CompileSpec s;
    s.refittable = true;
    s.minBlockSize = 1;
    s.torchExecutedOps = {"aten::lgamma"};
    s.withoutConverters = {"aten::add"};
    s.strategy = Strategy::Greedy;
    s.shapes = {*parseInputRange("x=1..8x6")};
    return s;
  }
  // Compiles with weights from this text, which go to the file `weights`.
  std::string compile(const std::string& name, const std::string& weights, const CompileSpec& s = spec(),
                      const std::string& file = "weights.weights") {
    LoadOptions options;
    options.weights = {folder_.write(file, weights)};
    Result<Module> module = Module::load(folder_ / "net.ir", options, diagnostics_);
    Result<Module> compiled = module ? module->compiled(s, diagnostics_) : Failed{};
    EXPECT_TRUE(compiled && compiled->save(folder_ / name, diagnostics_)) << messages();
    return folder_ / name;
  }
  bool refit(const std::string& path, const std::string& weights, const std::string& output, bool partial = false,
             const std::string& file = "weights.weights") {
    RefitOptions options;
    options.weights = {folder_.write(file, weights)};
    options.partial = partial;
    return refitEngine(path, options, output, diagnostics_);
  }
  void expectRefitIsCompiling(const CompileSpec& s) {
    std::string old = compile("old.tse", kOld, s), wanted = compile("wanted.tse", kNew, s);
    ASSERT_NE(readText(old), readText(wanted));
    ASSERT_TRUE(refit(old, kNew, folder_ / "new.tse")) << messages();
    EXPECT_TRUE(readText(folder_ / "new.tse") == readText(wanted));
    // Back again, in place: nothing was lost on the way.
    std::string before = readText(old);
    ASSERT_TRUE(refit(folder_ / "new.tse", kOld, folder_ / "new.tse")) << messages();
    EXPECT_TRUE(readText(folder_ / "new.tse") == before);
  }

  TemporaryFolder folder_;
  Diagnostics diagnostics_;
};

TEST_F(RefitTest, IsWhatCompilingWritesInEachPrecision) {
  for (DType precision : {DType::Float32, DType::Float16, DType::BFloat16, DType::Int8}) {
    CompileSpec s = spec();
    s.engine.precision = precision;
    expectRefitIsCompiling(s);
  }
}

TEST_F(RefitTest, KeepsTheSettings) {
  CompileSpec s;
  s.refittable = true;
  s.setInputs({CompileInput({1, 6}, {2, 6}, {8, 6})});
  s.requiredCoverage = 1;
  expectRefitIsCompiling(s);
  s = {};
  s.refittable = true;
  s.lower = false;
  s.engine.precision = DType::Float16;
  expectRefitIsCompiling(s);
}

TEST_F(RefitTest, PartlyKeepsWhatIsNotGiven) {
  std::string old = compile("old.tse", kOld);
  std::string both = kOld;
  both.replace(both.find("seed=3"), 6, "seed=9");
  ASSERT_TRUE(refit(old, "scale = 6x1:f32:randn(seed=9)\n", folder_ / "new.tse", true, "scale.weights")) << messages();
  // The result is that of all weights but for the files that it names.
  Result<Module> refitted = Module::load(folder_ / "new.tse", {}, diagnostics_);
  Result<Module> wanted = Module::load(compile("wanted.tse", both), {}, diagnostics_);
  ASSERT_TRUE(refitted && wanted) << messages();
  EXPECT_EQ(refitted->engineInfo()->weights, (std::vector<std::string>{"weights.weights", "scale.weights"}));
  const auto &a = refitted->refitSource()->weights, &b = wanted->refitSource()->weights;
  ASSERT_EQ(a.size(), b.size());
  ASSERT_EQ(a.size(), 6u);
  std::vector<IValue> in{Tensor::of<float>(Dims{1, 6}, std::vector<float>{1, 2, 3, 4, 5, 6})};
  Result<std::vector<IValue>> x = refitted->forward(in, diagnostics_), y = wanted->forward(in, diagnostics_);
  ASSERT_TRUE(x && y) << messages();
  for (int64_t i = 0; i < 4; ++i)
    EXPECT_EQ(x->at(0).toTensor().data<float>()[i], y->at(0).toTensor().data<float>()[i]) << i;
  // All of it once more is the file of one compilation.
  ASSERT_TRUE(refit(folder_ / "new.tse", both, folder_ / "again.tse")) << messages();
  EXPECT_TRUE(readText(folder_ / "again.tse") == readText(folder_ / "wanted.tse"));
}

TEST_F(RefitTest, TellsAllThatDoesNotFitAtOnce) {
  std::string old = compile("old.tse", kOld), before = readText(old);
  EXPECT_FALSE(refit(old,
                     "shifs = 4:f32=[1 2 3 4]\nw = 4x6:f32:randn(seed=2)\nscale = 6x1:f64:randn(seed=3)\n"
                     "one = 4x4:f32:randn(seed=4)\n",
                     old, false, "wrong.weights"));
  std::string in = folder_ / "wrong.weights: error: ";
  EXPECT_EQ(messages(), in + "weight 'scale' is float32 [6, 1] in the model, not float64 [6, 1]\n" + in +
                            "weight 'shifs' is not in the model, did you mean 'shift'?\n" + in +
                            "weight 'w' is float32 [6, 4] in the model, not float32 [4, 6]\n"
                            "test: error: 3 weights were not given: fc, same, shift\n"
                            "note: 'partial' keeps those that are not given as they are\n");
  EXPECT_TRUE(readText(old) == before);
}

// A state_dict counts the batches of its BatchNorms, which only training reads.
TEST_F(RefitTest, PassesOverWhatTheModelHasNot) {
  compile("wanted.tse", kNew);
  std::string old = compile("old.tse", kOld);
  ASSERT_TRUE(refit(old,
                    std::string(kNew) + "bn.num_batches_tracked = 1:i64=[3]\nbn2.num_batches_tracked = 1:i64=[3]\n",
                    folder_ / "new.tse"))
      << messages();
  EXPECT_EQ(messages(),
            "test: warning: 2 weights are not in the model: bn.num_batches_tracked, bn2.num_batches_tracked\n");
  diagnostics_ = Diagnostics();
  EXPECT_FALSE(refit(old, "bn.num_batches_tracked = 1:i64=[3]\n", folder_ / "new.tse"));
  EXPECT_NE(messages().find("the model reads none of the weights that are given"), std::string::npos) << messages();
}

// A module around the model has all of its weights below one name, which its checkpoint does not have.
TEST(WrapperPart, IsWhatAllNamesOfTheModelBeginWith) {
  const std::vector<std::string> stored = {"model.a.w", "model.a.b", "model.c"};
  auto part = [&](const std::vector<std::string>& given) { return wrapperPart(stored, given); };
  EXPECT_EQ(part({"a.w", "a.b", "c"}), "model.");
  EXPECT_EQ(part({"a.w", "other"}), "model.");
  EXPECT_EQ(part({"model.a.w", "a.w"}), "");
  EXPECT_EQ(part({"b.w"}), "");
  EXPECT_EQ(wrapperPart(std::vector<std::string>{"model.a", "head"}, std::vector<std::string>{"a"}), "");
  EXPECT_EQ(wrapperPart(std::vector<std::string>{"w"}, std::vector<std::string>{"w"}), "");
}

TEST_F(RefitTest, NeedsAFileThatWasMadeForIt) {
  CompileSpec s = spec();
  s.refittable = false;
  std::string plain = compile("plain.tse", kOld, s), kept = compile("kept.tse", kOld);
  EXPECT_FALSE(refit(plain, kNew, plain));
  EXPECT_NE(messages().find("the engine was not made to be refitted"), std::string::npos) << messages();
  EXPECT_EQ(diagnostics_.firstErrorKind(), ErrorKind::Unsupported);
  diagnostics_ = Diagnostics();
  EXPECT_FALSE(refit(folder_ / "net.ir", kNew, plain));
  EXPECT_NE(messages().find("expected an engine file, found "), std::string::npos) << messages();
  diagnostics_ = Diagnostics();
  EXPECT_FALSE(refit(folder_ / "none.tse", kNew, plain));
  EXPECT_EQ(diagnostics_.firstErrorKind(), ErrorKind::Io);
  // Weights that the engine holds as they were are stored once: what is kept besides is the text and what was folded.
  EXPECT_LT(readText(kept).size(), readText(plain).size() + std::string(kNet).size() + 1000);
}

// What was edited by hand, or lowered in another way, is not what the text gives.
TEST_F(RefitTest, RefusesGraphsThatTheTextDoesNotGive) {
  LoadOptions options;
  options.weights = {folder_.write("weights.weights", kOld)};
  Result<Module> module = Module::load(folder_ / "net.ir", options, diagnostics_);
  ASSERT_TRUE(module) << messages();
  Result<Module> lowered = module->lowered({}, diagnostics_);
  ASSERT_TRUE(lowered) << messages();
  EXPECT_FALSE(lowered->compiled(spec(), diagnostics_));
  EXPECT_NE(messages().find("engines that are lowered or cut in a way of your own cannot be refitted"),
            std::string::npos);
  auto note = [&](auto change) {
    diagnostics_ = Diagnostics();
    CompileSpec s = spec();
    change(s);
    EXPECT_FALSE(module->compiled(s, diagnostics_));
    std::string text = messages();
    return text.substr(std::min(text.find("note: "), text.size()));
  };
  EXPECT_EQ(note([](PartitionSpec& p) { p.lowering.arguments["bind:x"] = IValue(1); }),
            "note: leave out lowering.arguments, or refittable\n");
  EXPECT_EQ(note([](PartitionSpec& p) {
              p.lowering.settings.maxPasses = 1;
              p.lowering.records = {"aten::matmul"};
            }),
            "note: leave out lowering.settings, lowering.records, or refittable\n");
}

TEST_F(RefitTest, KeepsTheCoverageThatIsRequired) {
  for (auto [part, word] : {std::pair{0.07, "7"}, {0.333333333, "33.3333333"}, {2.0 / 3, "66.66666666666666"}}) {
    CompileSpec s = spec();
    s.requiredCoverage = part;
    std::string old = compile("old.tse", kOld, s);
    Result<Module> module = Module::load(old, {}, diagnostics_);
    ASSERT_TRUE(module) << messages();
    EXPECT_EQ(module->engineInfo()->options.back(), std::string("require-full=") + word);
    EXPECT_EQ(partOfPercent(word), part);
    ASSERT_TRUE(refit(old, kNew, folder_ / "new.tse")) << messages();
    EXPECT_TRUE(readText(folder_ / "new.tse") == readText(compile("wanted.tse", kNew, s)));
  }
  EXPECT_EQ(partOfPercent("1e1"), 0.1);
  EXPECT_EQ(partOfPercent("all"), std::nullopt);
}

// What is no tensor is replaced like tensors are: it counts for what is folded and for what runs.
TEST_F(RefitTest, ReplacesAttributesThatAreNoTensors) {
  std::string text = folder_.write("scaled.ir", R"(graph(%self : __torch__.Net, %x : Tensor):
  %times : int = prim::GetAttr[name="times"](%self)
  %w : Float(4) = prim::GetAttr[name="w"](%self)
  %scaled : Tensor = aten::mul(%w, %times)
  %y : Tensor = aten::add(%x, %scaled, %times)
  return (%y)
)");
  auto weights = [&](const std::string& name, float first, const Metadata& attributes) {
    Tensor w = Tensor::of<float>(Dims{4}, std::vector<float>{first, 2, 3, 4});
    EXPECT_TRUE(writeSafetensors(folder_ / name, {{"w", w}}, diagnostics_, attributes)) << messages();
    return folder_ / name;
  };
  auto compileWith = [&](const std::string& file, const std::string& name) {
    LoadOptions options;
    options.weights = {file};
    CompileSpec s;
    s.refittable = true;
    Result<Module> module = Module::load(text, options, diagnostics_);
    Result<Module> compiled = module ? module->compiled(s, diagnostics_) : Failed{};
    EXPECT_TRUE(compiled && compiled->save(folder_ / name, diagnostics_)) << messages();
    return folder_ / name;
  };
  auto refitWith = [&](const std::string& file, bool partial = false) {
    diagnostics_ = Diagnostics();
    return refitEngine(folder_ / "old.tse", {.weights = {file}, .partial = partial}, folder_ / "out.tse", diagnostics_);
  };
  std::string old = compileWith(weights("w.safetensors", 1, {{"attribute:times", "3"}}), "old.tse");
  std::string file = weights("w.safetensors", 5, {{"attribute:times", "7"}, {"format", "pt"}});
  std::string wanted = readText(compileWith(file, "wanted.tse"));
  ASSERT_NE(readText(old), wanted);
  ASSERT_TRUE(refitWith(file)) << messages();
  EXPECT_TRUE(readText(folder_ / "out.tse") == wanted);

  file = weights("less.safetensors", 5, {{"attribute:time", "7"}});
  EXPECT_FALSE(refitWith(file));
  EXPECT_EQ(messages(), file +
                            ": error: attribute 'time' is not in the model, did you mean 'times'?\n"
                            "test: error: 1 attribute was not given: times\n"
                            "note: 'partial' keeps those that are not given as they are\n");
  // A state_dict tells no attributes, and changes none where it is loaded.
  for (const bool partial : {false, true}) {
    file = weights("w.safetensors", 5, {});
    EXPECT_TRUE(refitWith(file, partial)) << messages();
    EXPECT_EQ(messages(), "note: 1 attribute stays as it is, not given with the weights: times\n");
    wanted = readText(compileWith(weights("w.safetensors", 5, {{"attribute:times", "3"}}), "wanted.tse"));
    EXPECT_TRUE(readText(folder_ / "out.tse") == wanted);
  }
}

TEST_F(RefitTest, AFileThatCannotBeReadIsTheOnlyError) {
  std::string old = compile("old.tse", kOld);
  EXPECT_FALSE(refitEngine(old, {.weights = {folder_ / "none.weights"}}, folder_ / "out.tse", diagnostics_));
  EXPECT_EQ(diagnostics_.errorCount(), 1u) << messages();
  EXPECT_EQ(diagnostics_.firstErrorKind(), ErrorKind::Io);
}

// Damage inside of what is kept is told as any other.
TEST_F(RefitTest, DamagedFilesAreRefused) {
  std::string good = readText(compile("old.tse", kOld));
  for (size_t cut = 0; cut < good.size(); cut += 97) {
    diagnostics_ = Diagnostics();
    std::string bad = good;
    bad[cut] = static_cast<char>(bad[cut] ^ 0x55);
    writeText(folder_ / "bad.tse", bad);
    EXPECT_FALSE(refit(folder_ / "bad.tse", kNew, folder_ / "out.tse")) << cut;
  }
}

}  // namespace
}  // namespace tscompile::test
