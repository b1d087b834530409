// Layers that pick, move and reduce elements: which operators become them, and that they compute what the interpreter
// does; tests/ops has their values.
#include "runtime/reference/loops/copy.h"
#include "tests/support/engine_case.h"

#include <fmt/core.h>

namespace tscompile::test {
namespace {

Tensor numbers(std::initializer_list<int64_t> sizes, int64_t below, uint64_t seed) {
  Tensor t = Tensor::empty(DType::Int64, Dims(sizes));
  std::mt19937_64 random(seed);
  for (int64_t i = 0; i < t.numel(); ++i)
    t.data<int64_t>()[i] = static_cast<int64_t>(random() % static_cast<uint64_t>(below));
  return t;
}

constexpr std::string_view kInputs = "%x : Tensor, %i : Tensor, %j : Tensor";

void expectLayer(std::string_view body, std::string_view layer, const std::vector<IValue>& in,
                 double tolerance = 1e-5) {
  SCOPED_TRACE(body);
  EngineCase c(graphWithConstants(kInputs, body, "%y"));
  EXPECT_EQ(c.layers(in, true), layer);
  c.expectClose(in, tolerance);
  std::vector<IValue> one = c.run(in, 1), three = c.run(in, 3);
  const Tensor a = one[0].toTensor(), b = three[0].toTensor();
  EXPECT_EQ(std::memcmp(a.raw(), b.raw(), static_cast<size_t>(a.numel()) * itemSize(a.dtype())), 0);
}

}  // namespace

TEST(RearrangingLayers, Picking) {
  Tensor x = randn({6, 7, 40}, 1), i = numbers({2, 3}, 6, 2), j = numbers({3}, 7, 3);
  expectLayer("  %y : Tensor = aten::index_select(%x, %one, %j)\n", "pick", {x, i, j});
  expectLayer("  %l : Tensor?[] = prim::ListConstruct(%i)\n  %y : Tensor = aten::index(%x, %l)\n", "pick", {x, i, j});
  expectLayer("  %l : Tensor?[] = prim::ListConstruct(%i, %j)\n  %y : Tensor = aten::index(%x, %l)\n", "pick",
              {x, i, j});
  expectLayer("  %l : Tensor?[] = prim::ListConstruct(%none, %j)\n  %y : Tensor = aten::index(%x, %l)\n", "pick",
              {x, i, j});
  expectLayer("  %l : Tensor?[] = prim::ListConstruct(%i, %none, %j)\n  %y : Tensor = aten::index(%x, %l)\n",
              "copy, pick", {x, numbers({30, 3}, 6, 2), j});
  expectLayer(
      "  %w : Tensor = aten::select(%x, %zero, %one)\n"
      "  %y : Tensor = aten::embedding(%w, %i, %last, %f, %f)\n",
      "pick", {x, i, j});
  expectLayer("  %y : Tensor = aten::gather(%x, %one, %i, %f)\n", "gather", {x, numbers({6, 3, 40}, 7, 4), j});
  expectLayer("  %xt : Tensor = aten::transpose(%x, %one, %two)\n  %y : Tensor = aten::gather(%xt, %last, %i, %f)\n",
              "gather", {x, numbers({5, 40, 3}, 7, 4), j});
  expectLayer(
      "  %s : Tensor = aten::index_select(%x, %one, %j)\n"
      "  %y : Tensor = aten::index_add(%x, %one, %j, %s, %two)\n",
      "pick, index_add", {x, i, numbers({90}, 7, 3)});
}

// Nothing else of the tensor is put in order.
TEST(RearrangingLayers, FewElementsAreTakenWhereTheyLie) {
  Tensor x = randn({6, 7, 40}, 1), i = numbers({2, 3}, 6, 2), j = numbers({3}, 7, 3);
  const std::string turned = "  %t : Tensor = aten::transpose(%x, %zero, %two)\n";
  expectLayer(turned + "  %y : Tensor = aten::index_select(%t, %one, %j)\n", "pick, copy", {x, i, j});
  expectLayer(turned + "  %y : Tensor = aten::index_select(%t, %zero, %j)\n", "pick, copy", {x, i, j});
  expectLayer(turned + "  %y : Tensor = aten::index_select(%t, %two, %j)\n", "pick, copy", {x, i, numbers({2}, 6, 2)});
  expectLayer(turned + "  %l : Tensor?[] = prim::ListConstruct(%none, %i)\n  %y : Tensor = aten::index(%t, %l)\n",
              "pick, copy", {x, i, j});
  expectLayer(turned + "  %l : Tensor?[] = prim::ListConstruct(%i)\n  %y : Tensor = aten::index(%t, %l)\n",
              "pick, copy", {x, i, j});
  expectLayer(
      "  %t : Tensor = aten::select(%x, %zero, %one)\n  %u : Tensor = aten::t(%t)\n"
      "  %y : Tensor = aten::embedding(%u, %i, %last, %f, %f)\n",
      "pick, copy", {x, i, j});
  expectLayer(turned + "  %y : Tensor = aten::index_select(%t, %one, %j)\n", "copy, pick", {x, i, numbers({30}, 7, 3)});
  expectLayer(
      "  %t : Tensor = aten::slice(%x, %two, %zero, %two, %one)\n"
      "  %y : Tensor = aten::index_select(%t, %one, %j)\n",
      "copy, pick", {x, i, numbers({2}, 7, 3)});
}

TEST(RearrangingLayers, ProductsReadPickedMatricesWhereTheyAre) {
  const Tensor weights = randn({5, 12, 20}, 1), rows = randn({6, 3, 12}, 2), columns = randn({6, 20, 4}, 3);
  const Tensor which = numbers({6}, 5, 4);
  const std::string select = "  %w : Tensor = aten::index_select(%x, %zero, %i)\n";
  expectLayer(select + "  %y : Tensor = aten::bmm(%j, %w)\n", "batched_matmul", {weights, which, rows});
  expectLayer(select + "  %y : Tensor = aten::bmm(%w, %j)\n", "batched_matmul", {weights, which, columns});
  expectLayer(select + "  %y : Tensor = aten::bmm(%j, %w)\n", "batched_matmul", {weights, which, randn({6, 1, 12}, 5)});
  const std::string indexed =
      "  %l : Tensor?[] = prim::ListConstruct(%i)\n  %w : Tensor = aten::index(%x, %l)\n"
      "  %t : Tensor = aten::transpose(%w, %one, %two)\n";
  expectLayer(indexed + "  %y : Tensor = aten::bmm(%t, %j)\n", "batched_matmul",
              {weights, Tensor::of<int64_t>(Dims{6}, std::vector<int64_t>{-1, 4, 0, -5, 2, 2}), randn({6, 12, 3}, 6)});
  // What is picked is read by another, too, or is no matrix of each pair.
  expectLayer(select +
                  "  %b : Tensor = aten::bmm(%j, %w)\n  %s : Tensor = aten::sum(%w, %none)\n"
                  "  %y : Tensor = aten::add(%b, %s, %one)\n",
              "pick, batched_matmul, sum, pointwise", {weights, which, rows});
  expectLayer("  %w : Tensor = aten::index_select(%x, %one, %i)\n  %y : Tensor = aten::bmm(%j, %w)\n",
              "pick, batched_matmul", {weights, which, randn({5, 3, 6}, 7)});
}

TEST(RearrangingLayers, NumbersOutOfRangeFailAsInTheInterpreter) {
  EngineCase c(graphWithConstants(kInputs, "  %y : Tensor = aten::index_select(%x, %zero, %j)\n", "%y"));
  std::vector<IValue> in{randn({3, 4}, 1), numbers({1}, 3, 1),
                         Tensor::of<int64_t>(Dims{2}, std::vector<int64_t>{1, 3})};
  RunOptions options;
  RunContext context(options);
  RunScope scope(context);
  EXPECT_FALSE(c.tryRun(in, context));
}

TEST(RearrangingLayers, Moving) {
  Tensor x = randn({2, 5, 9, 30}, 1);
  const std::vector<IValue> in{x, x, x};
  for (std::string_view pad : {"1, 2", "0, 0, 1, 3", "-1, 2, 3, 0", "2, 2, 1, 0"}) {
    const std::string list = fmt::format("  %p : int[] = prim::Constant[value=[{}]]()\n", pad);
    expectLayer(list + "  %y : Tensor = aten::constant_pad_nd(%x, %p, %two)\n", "pad", in);
    if (pad.size() > 5) expectLayer(list + "  %y : Tensor = aten::replication_pad2d(%x, %p)\n", "pad", in);
  }
  expectLayer(
      "  %p : int[] = prim::Constant[value=[3, -2]]()\n  %d : int[] = prim::Constant[value=[1, -1]]()\n"
      "  %y : Tensor = aten::roll(%x, %p, %d)\n",
      "roll", in);
  expectLayer("  %d : int[] = prim::Constant[value=[1, 2]]()\n  %y : Tensor = aten::flip(%x, %d)\n", "flip", in);
  for (int64_t width : {8, 9, 16, 31}) {
    const Tensor wide = randn({2, 3, 4, width}, 5);
    const std::vector<IValue> images{wide, wide, wide};
    const std::string list = "  %d : int[] = prim::Constant[value=[-1, 2]]()\n";
    expectLayer(list + "  %y : Tensor = aten::flip(%x, %d)\n", "flip", images);
    for (DType type : {DType::Int16, DType::Int64, DType::UInt8}) {
      const Tensor numbers = convertTensor(convertTensor(wide, DType::Int8), type);
      expectLayer(list + "  %y : Tensor = aten::flip(%x, %d)\n", "flip", {numbers, wide, wide});
    }
    const std::string pads = "  %p : int[] = prim::Constant[value=[3, 2, 1, 1]]()\n";
    expectLayer(pads + "  %y : Tensor = aten::reflection_pad2d(%x, %p)\n", "pad", images);
  }
  const Tensor pair = randn({3, 5, 2}, 4);
  const std::vector<IValue> pairs{pair, pair, pair};
  expectLayer("  %d : int[] = prim::Constant[value=[-1]]()\n  %y : Tensor = aten::flip(%x, %d)\n", "flip", pairs);
  expectLayer("  %d : int[] = prim::Constant[value=[0, 2]]()\n  %y : Tensor = aten::flip(%x, %d)\n", "flip", pairs);
}

TEST(RearrangingLayers, Resizing) {
  Tensor x = randn({2, 5, 9, 30}, 1);
  const std::vector<IValue> in{x, x, x};
  for (std::string_view sizes : {"18, 60", "7, 11", "9, 45", "3, 1"}) {
    const std::string list = fmt::format("  %s : int[] = prim::Constant[value=[{}]]()\n", sizes);
    expectLayer(list + "  %y : Tensor = aten::upsample_nearest2d(%x, %s, %none, %none)\n", "resize", in);
    expectLayer(list + "  %y : Tensor = aten::upsample_bilinear2d(%x, %s, %t, %none, %none)\n", "resize", in);
    expectLayer(list + "  %y : Tensor = aten::upsample_bicubic2d(%x, %s, %f, %none, %none)\n", "resize", in);
    expectLayer(list + "  %y : Tensor = aten::_upsample_bilinear2d_aa(%x, %s, %f, %none, %none)\n", "resize", in);
  }
  expectLayer(
      "  %s : float[] = prim::Constant[value=[2., 1.5]]()\n"
      "  %y : Tensor = aten::upsample_bilinear2d(%x, %none, %f, %s)\n",
      "resize", in);
  expectLayer(
      "  %s : int[] = prim::Constant[value=[4, 8, 33]]()\n  %z : Tensor = aten::unsqueeze(%x, %zero)\n"
      "  %y : Tensor = aten::upsample_trilinear3d(%z, %s, %f, %none, %none, %none)\n",
      "resize", in);
}

TEST(RearrangingLayers, GatesAndSlopesAreLoops) {
  Tensor x = randn({2, 6, 9, 30}, 1);
  expectLayer("  %y : Tensor = aten::glu(%x, %one)\n", "pointwise of 2", {x, x, x});
  expectLayer("  %w : Float(6) = prim::Constant[value={0}]()\n  %y : Tensor = aten::prelu(%x, %w)\n", "pointwise",
              {x, x, x});
  expectLayer("  %w : Float(1) = prim::Constant[value={0}]()\n  %y : Tensor = aten::prelu(%x, %w)\n", "pointwise",
              {x, x, x});
}

TEST(RearrangingLayers, Pooling) {
  Tensor x = randn({2, 6, 33}, 1), image = randn({2, 5, 9, 30}, 1);
  const std::string window = R"(  %k : int[] = prim::Constant[value=[3]]()
  %s : int[] = prim::Constant[value=[2]]()
  %p : int[] = prim::Constant[value=[1]]()
)";
  expectLayer(window + "  %y : Tensor = aten::max_pool1d(%x, %k, %s, %p, %s, %t)\n", "max_pool2d", {x, x, x});
  expectLayer(window + "  %y : Tensor = aten::avg_pool1d(%x, %k, %s, %p, %f, %t)\n", "avg_pool2d", {x, x, x});
  expectLayer(window + "  %y : Tensor = aten::avg_pool1d(%x, %k, %s, %p, %f, %f)\n", "avg_pool2d", {x, x, x});
  expectLayer(window + "  %y : Tensor = aten::adaptive_avg_pool1d(%x, %p)\n", "global_avg_pool", {x, x, x});
  expectLayer("  %k : int[] = prim::Constant[value=[7]]()\n  %y : Tensor = aten::adaptive_avg_pool1d(%x, %k)\n",
              "resize", {x, x, x});
  expectLayer(
      "  %k : int[] = prim::Constant[value=[11]]()\n  %y : Tensor, %i : Tensor = aten::adaptive_max_pool1d(%x, %k)\n",
      "max_pool2d", {x, x, x});
  expectLayer(
      "  %k : int[] = prim::Constant[value=[1, 1]]()\n  %y : Tensor, %i : Tensor = aten::adaptive_max_pool2d(%x, %k)\n",
      "max", {image, x, x});
  expectLayer("  %k : int[] = prim::Constant[value=[4, 7]]()\n  %y : Tensor = aten::adaptive_avg_pool2d(%x, %k)\n",
              "resize", {image, x, x});
}

TEST(RearrangingLayers, SoftmaxOverAnyDimension) {
  Tensor x = randn({2, 5, 9, 30}, 1);
  expectLayer("  %y : Tensor = aten::softmax(%x, %one, %none)\n", "softmax", {x, x, x});
  expectLayer("  %y : Tensor = aten::log_softmax(%x, %zero, %none)\n", "log_softmax", {x, x, x});
}

TEST(RearrangingLayers, Reducing) {
  Tensor x = randn({3, 70, 5, 91}, 1);
  const std::vector<IValue> in{x, x, x};
  for (std::string_view dims : {"-1", "1", "0, 1", "1, 2", "2, 3", "0, 1, 2, 3"}) {
    const std::string list = fmt::format("  %d : int[] = prim::Constant[value=[{}]]()\n", dims);
    expectLayer(list + "  %y : Tensor = aten::sum(%x, %d, %t, %none)\n", "sum", in,
                3e-5);  // rows are added in f32 there
    expectLayer(list + "  %y : Tensor = aten::mean(%x, %d, %f, %none)\n", dims == "2, 3" ? "global_avg_pool" : "mean",
                in);
    expectLayer(list + "  %y : Tensor = aten::amax(%x, %d, %t)\n", "max", in);
    expectLayer(list + "  %y : Tensor = aten::amin(%x, %d, %f)\n", "min", in);
  }
  expectLayer("  %y : Tensor = aten::mean(%x, %none)\n", "mean", in);
  expectLayer("  %d : int[] = prim::Constant[value=[0, 2]]()\n  %y : Tensor = aten::sum(%x, %d, %t, %none)\n",
              "sum, sum", in);
}

}  // namespace tscompile::test
