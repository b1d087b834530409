// Compiled modules hold weights in the precision that their engines store: in files, for every layer that packs them,
// and nowhere else.
#include "partition/store_weights.h"

#include "api/compile.h"
#include "api/compile_settings.h"
#include "api/value_text.h"
#include "ir/graph/printer.h"
#include "ir/support/diagnostic_printer.h"
#include "passes/rewrite/compare.h"
#include "tests/support/cli.h"
#include "tests/support/text_file.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <sstream>
#include <tuple>

namespace tscompile::test {
namespace {

// A table that is the last layer's weight too; a product from the left and one from the right; convolutions, one of
// them transposed; a weight that is also a result; one that is small.
constexpr const char* kStoredNet = R"(graph(%ids : Tensor, %image : Tensor):
  %table : Float(100, 32) = prim::Constant[value=<Tensor>]()
  %right : Float(32, 64) = prim::Constant[value=<Tensor>]()
  %left : Float(32, 64) = prim::Constant[value=<Tensor>]()
  %bias : Float(64) = prim::Constant[value=<Tensor>]()
  %kernel : Float(32, 8, 3, 3) = prim::Constant[value=<Tensor>]()
  %back : Float(32, 8, 2, 2) = prim::Constant[value=<Tensor>]()
  %seen : Float(32, 32) = prim::Constant[value=<Tensor>]()
  %small : Float(32, 4) = prim::Constant[value=<Tensor>]()
  %none : NoneType = prim::Constant()
  %false : bool = prim::Constant[value=0]()
  %zero : int = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %minus : int = prim::Constant[value=-1]()
  %ones : int[] = prim::Constant[value=[1, 1]]()
  %twos : int[] = prim::Constant[value=[2, 2]]()
  %zeros : int[] = prim::Constant[value=[0, 0]]()
  %rows : Tensor = aten::embedding(%table, %ids, %minus, %false, %false)
  %a : Tensor = aten::addmm(%bias, %rows, %right, %one, %one)
  %b : Tensor = aten::tanh(%a)
  %c : Tensor = aten::linear(%b, %left, %none)
  %d : Tensor = aten::matmul(%c, %seen)
  %logits : Tensor = aten::linear(%d, %table, %none)
  %few : Tensor = aten::matmul(%d, %small)
  %e : Tensor = aten::conv2d(%image, %kernel, %none, %ones, %zeros, %ones, %one)
  %f : Tensor = aten::relu(%e)
  %g : Tensor = aten::conv_transpose2d(%f, %back, %none, %twos, %zeros, %zeros, %one, %ones)
  return (%logits, %few, %g, %seen)
)";
constexpr const char* kStoredWeights = R"(table = 100x32:f32:randn(seed=1)
right = 32x64:f32:randn(seed=2)
left = 32x64:f32:randn(seed=3)
bias = 64:f32:randn(seed=4)
kernel = 32x8x3x3:f32:randn(seed=5)
back = 32x8x2x2:f32:randn(seed=6)
seen = 32x32:f32:randn(seed=7)
small = 32x4:f32:randn(seed=8)
)";
constexpr const char* kStoredIds = "ids=5:i64=[0 99 7 7 3]";
constexpr const char* kStoredImage = "image=1x8x6x6:f32:randn(seed=9)";

class StoreWeights : public testing::Test {
 protected:
  StoreWeights() {
    folder_.write("net.ir", kStoredNet);
    folder_.write("net.weights", kStoredWeights);
  }

  Module compiled(DType precision) {
    Diagnostics d;
    LoadOptions options;
    options.weights = {folder_ / "net.weights"};
    Result<Module> m = Module::load(folder_ / "net.ir", options, d);
    CompileSpec spec;
    spec.engine.precision = precision;
    Result<Module> made = m ? m->compiled(spec, d) : Result<Module>(Failed{});
    EXPECT_TRUE(made.ok()) << renderDiagnostics(d, "test");
    EXPECT_TRUE(made->save(fileOf(precision), d)) << renderDiagnostics(d, "test");
    return *made;
  }
  std::string fileOf(DType precision) { return folder_ / (std::string(precisionName(precision)) + ".tse"); }

  std::vector<IValue> ran(const std::string& file) {
    CliResult r = runCli({"run", file, "--input", kStoredIds, "--input", kStoredImage, "--print", "-q"});
    EXPECT_EQ(r.code, 0) << r.err;
    std::vector<IValue> out;
    std::istringstream lines(r.out);
    for (std::string line; std::getline(lines, line);) {
      Diagnostics d;
      Result<IValue> value = parseValueText(line, "out", d, types().tensor);
      EXPECT_TRUE(value.ok()) << renderDiagnostics(d, "test");
      if (value) out.push_back(*value);
    }
    return out;
  }

  static std::string textOf(const Module& m) {
    std::string out;
    forEachNode(*m.graph(), [&](const Node* n) {
      if (n->subgraph()) out += graphText(*n->subgraph());
    });
    return out;
  }
  static size_t count(const std::string& text, std::string_view what) {
    size_t out = 0;
    for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++out;
    return out;
  }

  TemporaryFolder folder_;
};

TEST_F(StoreWeights, WhoeverPacksThemReadsThemAndNobodyElse) {
  EXPECT_EQ(count(textOf(compiled(DType::Float32)), "tscompile::decode"), 0u);
  // table, right, left, kernel, back.
  EXPECT_EQ(count(textOf(compiled(DType::Float16)), "tscompile::decode"), 5u);
  EXPECT_EQ(count(textOf(compiled(DType::BFloat16)), "tscompile::decode"), 5u);
  // The scales of a transposed convolution would be those of its inputs.
  EXPECT_EQ(count(textOf(compiled(DType::Int8)), "tscompile::decode"), 4u);
}

TEST_F(StoreWeights, FilesAreSmaller) {
  constexpr int64_t kAll = 3200 + 2048 + 2048 + 2304 + 1024, kRest = 64 + 1024 + 128;
  std::map<DType, int64_t> bytes;
  for (DType p : {DType::Float32, DType::Float16, DType::BFloat16, DType::Int8}) {
    compiled(p);
    bytes[p] = static_cast<int64_t>(std::filesystem::file_size(fileOf(p)));
  }
  constexpr int64_t kText = 6000;  // the graph, fields and margins
  EXPECT_GE(bytes[DType::Float32], 4 * (kAll + kRest));
  EXPECT_LE(bytes[DType::Float16], 2 * kAll + 4 * kRest + kText);
  EXPECT_LE(bytes[DType::BFloat16], 2 * kAll + 4 * kRest + kText);
  EXPECT_LE(bytes[DType::Int8], kAll + 3 * 1024 + 4 * (kRest + 228) + kText);
}

TEST_F(StoreWeights, EnginesAndTheInterpreterComputeWithTheSameOnes) {
  compiled(DType::Float32);
  const std::vector<IValue> exact = ran(fileOf(DType::Float32));
  for (auto [precision, bound, nearer] :
       {std::tuple(DType::Float16, 1e-2, 5e-4), std::tuple(DType::BFloat16, 8e-2, 4e-3),
        std::tuple(DType::Int8, 8e-2, 2e-2)}) {
    compiled(precision);
    const std::vector<IValue> engine = ran(fileOf(precision));
    ASSERT_EQ(engine.size(), 4u);
    double largest = 0;
    for (size_t i = 0; i < 4; ++i) {
      const Tensor want = exact[i].toTensor(), a = engine[i].toTensor();
      double scale = 0;
      for (int64_t k = 0; k < want.numel(); ++k) scale = std::max(scale, std::fabs(want.real(k)));
      for (int64_t k = 0; k < want.numel(); ++k) {
        EXPECT_NEAR(a.real(k), want.real(k), bound * scale) << precisionName(precision) << i;
      }
      largest = std::max(largest, scale);
    }
    // Nearer still to what the interpreter makes of the same file.
    const std::string most = fmt::format("{}", nearer * largest);
    EXPECT_EQ(
        runCli({"verify", fileOf(precision), "-i", kStoredIds, "-i", kStoredImage, "--rtol", "0", "--atol", most}).code,
        0);
    // It was a result: as it was.
    EXPECT_FALSE(compareResults({engine[3]}, {exact[3]}, {0, 0}));
  }
}

TEST_F(StoreWeights, TwoCompilesGiveTheSameBytes) {
  compiled(DType::Int8);
  const std::string first = readText(fileOf(DType::Int8));
  compiled(DType::Int8);
  EXPECT_TRUE(readText(fileOf(DType::Int8)) == first);
}

TEST_F(StoreWeights, AFileWrittenAgainKeepsThem) {
  const Module before = compiled(DType::Int8);
  Diagnostics d;
  Result<Module> loaded = Module::load(fileOf(DType::Int8), {}, d);
  ASSERT_TRUE(loaded.ok()) << renderDiagnostics(d, "test");
  ASSERT_TRUE(loaded->save(folder_ / "again.tse", d)) << renderDiagnostics(d, "test");
  EXPECT_TRUE(readText(folder_ / "again.tse") == readText(fileOf(DType::Int8)));
}

// As lowering leaves a large convolution that takes in the factors of a batch norm.
TEST_F(StoreWeights, LargeWeightsThatAreComputedFromConstantsAreStored) {
  folder_.write("net.ir", R"(graph(%image : Float(1, 640, 2, 2)):
  %kernel : Float(512, 640, 1, 1) = prim::Constant[value=<Tensor>]()
  %factors : Float(512, 1, 1, 1) = prim::Constant[value=<Tensor>]()
  %none : NoneType = prim::Constant()
  %one : int = prim::Constant[value=1]()
  %ones : int[] = prim::Constant[value=[1, 1]]()
  %zeros : int[] = prim::Constant[value=[0, 0]]()
  %scaled : Tensor = aten::mul(%kernel, %factors)
  %e : Tensor = aten::conv2d(%image, %scaled, %none, %ones, %zeros, %ones, %one)
  return (%e)
)");
  folder_.write("net.weights", "kernel = 512x640x1x1:f32:randn(seed=1)\nfactors = 512x1x1x1:f32:randn(seed=2)\n");
  const std::string text = textOf(compiled(DType::Int8));
  EXPECT_EQ(count(text, "tscompile::decode"), 1u) << text;
  EXPECT_EQ(count(text, "aten::mul"), 0u) << text;
  EXPECT_LE(std::filesystem::file_size(fileOf(DType::Int8)), 512u * 640u + 16'000u);
}

}  // namespace
}  // namespace tscompile::test
