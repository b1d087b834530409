// Convolutions in engines: which layers those of all forms become, and that they compute what the interpreter does.
#include "tests/support/engine_case.h"

#include <fmt/core.h>

namespace tscompile::test {
namespace {

constexpr const char* kNumbers = R"(
  %none : NoneType = prim::Constant()
  %f : bool = prim::Constant[value=0]()
  %t : bool = prim::Constant[value=1]()
  %g : int = prim::Constant[value={}]()
  %one : int = prim::Constant[value=1]()
  %b : Float({}) = prim::Constant[value={{0}}]()
  %w0 : Float({}) = prim::Constant[value={{0}}]()
  %half : float = prim::Constant[value=0.5]()
  %w : Tensor = aten::sub(%w0, %half, %one)
)";

struct Transposed {
  std::string weight;  // sizes
  int64_t channels, groups;
  std::string stride, padding, outputPadding, dilation;
};

std::string graphOf(const Transposed& c, std::string_view op) {
  return "graph(%x : Tensor):" + fmt::format(fmt::runtime(kNumbers), c.groups, c.channels, c.weight) +
         fmt::format(R"(  %s : int[] = prim::Constant[value=[{}]]()
  %p : int[] = prim::Constant[value=[{}]]()
  %o : int[] = prim::Constant[value=[{}]]()
  %d : int[] = prim::Constant[value=[{}]]()
  %y : Tensor = aten::{}(%x, %w, %b, %s, %p, %o, %g, %d)
  return (%y)
)",
                     c.stride, c.padding, c.outputPadding, c.dilation, op);
}

void expectNative(const std::string& graph, const Tensor& x) {
  SCOPED_TRACE(graph);
  EngineCase c(graph);
  EXPECT_EQ(c.layers({x}).find("kernel"), std::string::npos) << c.layers({x}, true);
  c.expectClose({x}, 1e-4);
}

}  // namespace

// Kernels of three taps, of which a pixel sees one or two; images so small that what is cut off is much of them.
TEST(ConvLayer, TransposedOnesComputeWhatTheirPixelsSee) {
  const std::string apart =
                        "reorder, conv direct, conv direct, conv direct, conv direct, cat, channels_to_pixels, reorder",
                    together = "reorder, conv direct, channels_to_pixels, reorder";
  for (int64_t kernel : {2, 3, 4})
    for (int64_t size : {4, 30}) {
      const std::string sizes = fmt::format("32, 16, {0}, {0}", kernel), padding = kernel == 2 ? "0, 0" : "1, 1";
      EngineCase c(graphOf({sizes, 16, 1, "2, 2", padding, kernel == 3 ? "1, 1" : "0, 0", "1, 1"}, "conv_transpose2d"));
      const Tensor x = randn({2, 32, size, size}, 1);
      EXPECT_EQ(c.layers({x}), kernel == 3 || (kernel == 4 && size == 4) ? apart : together) << kernel << " " << size;
      c.expectClose({x}, 1e-4);
    }
}

// Of one channel a group; and images whose last row or column is of fewer places.
TEST(ConvLayer, PlacesOfDepthwiseAndOfOddImages) {
  for (const Transposed& c : {Transposed{"32, 1, 4, 4", 32, 32, "2, 2", "1, 1", "0, 0", "1, 1"},
                              {"32, 1, 3, 3", 32, 32, "2, 2", "1, 1", "0, 0", "1, 1"},
                              {"32, 1, 2, 5", 32, 32, "1, 3", "0, 1", "0, 2", "1, 1"},
                              {"32, 16, 3, 3", 16, 1, "2, 2", "1, 1", "0, 0", "1, 1"},
                              {"32, 16, 3, 5", 16, 1, "2, 3", "1, 2", "0, 1", "1, 1"}}) {
    const std::string graph = graphOf(c, "conv_transpose2d");
    SCOPED_TRACE(graph);
    EngineCase engine(graph);
    const Tensor x = randn({2, 32, 7, 6}, 1);
    const std::string layers = engine.layers({x});
    EXPECT_NE(layers.find("cat, channels_to_pixels"), std::string::npos) << layers;
    EXPECT_EQ(layers.find("im2col"), std::string::npos) << layers;
    engine.expectClose({x}, 1e-4);
  }
}

TEST(ConvLayer, TransposedOnesAreConvolutions) {
  for (const Transposed& c : {Transposed{"8, 4, 2, 2", 4, 1, "2, 2", "0, 0", "0, 0", "1, 1"},
                              {"8, 4, 4, 4", 4, 1, "2, 2", "1, 1", "0, 0", "1, 1"},
                              {"8, 4, 3, 3", 4, 1, "2, 2", "1, 1", "1, 1", "1, 1"},
                              {"8, 4, 3, 5", 8, 2, "3, 1", "0, 2", "2, 0", "1, 1"},
                              {"8, 4, 3, 3", 4, 1, "1, 1", "2, 0", "0, 0", "2, 3"},
                              {"8, 1, 2, 3", 8, 8, "3, 4", "1, 2", "0, 3", "1, 1"},
                              {"8, 16, 1, 1", 16, 1, "2, 2", "0, 0", "1, 1", "1, 1"},
                              {"8, 16, 4, 4", 16, 1, "2, 2", "1, 1", "0, 0", "1, 1"},
                              {"8, 32, 3, 3", 32, 1, "2, 2", "1, 1", "1, 1", "1, 1"},
                              {"8, 16, 3, 3", 16, 1, "2, 2", "0, 0", "0, 0", "1, 1"},
                              {"8, 16, 5, 6", 16, 1, "2, 3", "2, 2", "1, 1", "1, 1"},
                              {"8, 16, 5, 3", 16, 1, "3, 1", "1, 2", "0, 0", "1, 2"},
                              {"8, 16, 2, 7", 16, 1, "1, 2", "0, 3", "0, 1", "2, 1"}})
    expectNative(graphOf(c, "conv_transpose2d"), randn({2, 8, 5, 6}, 1));
  expectNative(graphOf({"8, 4, 4", 4, 1, "2", "1", "0", "1"}, "conv_transpose1d"), randn({2, 8, 7}, 1));
  expectNative(graphOf({"8, 4, 5", 4, 1, "1", "0", "0", "2"}, "conv_transpose1d"), randn({2, 8, 7}, 1));
  expectNative(graphOf({"8, 4, 2, 2", 4, 1, "2, 2", "0, 0", "0, 0", "1, 1"}, "conv_transpose2d"), randn({8, 3, 3}, 1));
}

// One pixel: its kernels are the result, a product of rows.
TEST(ConvLayer, TransposedOfOnePixelAreProducts) {
  auto expectProduct = [](const Transposed& c, std::string_view op, const Dims& sizes) {
    const std::string graph = graphOf(c, op);
    SCOPED_TRACE(graph);
    EngineCase made(graph);
    const Tensor x = randn(sizes, 1);
    EXPECT_EQ(made.layers({x}), "matmul");
    made.expectClose({x}, 1e-4);
  };
  expectProduct({"20, 6, 4, 3", 6, 1, "1, 1", "0, 0", "0, 0", "1, 1"}, "conv_transpose2d", {3, 20, 1, 1});
  expectProduct({"20, 6, 4, 4", 6, 1, "2, 2", "0, 0", "0, 0", "1, 1"}, "conv_transpose2d", {1, 20, 1, 1});
  expectProduct({"20, 6, 5", 6, 1, "3", "0", "0", "1"}, "conv_transpose1d", {2, 20, 1});
  expectProduct({"20, 6, 2, 3, 4", 6, 1, "1, 1, 1", "0, 0, 0", "0, 0, 0", "1, 1, 1"}, "conv_transpose3d",
                {2, 20, 1, 1, 1});
  // What is cut off, laid out wider or filled up is none.
  for (const Transposed& c : {Transposed{"20, 6, 4, 4", 6, 1, "1, 1", "1, 1", "0, 0", "1, 1"},
                              {"20, 6, 4, 4", 6, 1, "2, 2", "0, 0", "1, 0", "1, 1"},
                              {"20, 6, 3, 3", 6, 1, "1, 1", "0, 0", "0, 0", "2, 2"},
                              {"20, 6, 4, 4", 12, 2, "1, 1", "0, 0", "0, 0", "1, 1"}})
    expectNative(graphOf(c, "conv_transpose2d"), randn({2, 20, 1, 1}, 1));
}

// One pixel of what lies in blocks is read where it is.
// Of a result in blocks: no channels, no images, no pixels.
TEST(ConvLayer, PartsWithoutElements) {
  for (int dim : {0, 1, 3}) {
    const std::string graph = "graph(%x : Tensor):" + fmt::format(fmt::runtime(kNumbers), 1, 32, "32, 16, 3, 3") +
                              fmt::format(R"(  %s : int[] = prim::Constant[value=[1, 1]]()
  %zero : int = prim::Constant[value=0]()
  %dim : int = prim::Constant[value={}]()
  %y : Tensor = aten::conv2d(%x, %w, %b, %s, %s, %s, %g)
  %e : Tensor = aten::slice(%y, %dim, %zero, %zero, %one)
  %r : Tensor = aten::relu(%e)
  %parts : Tensor[] = prim::ListConstruct(%e, %y)
  %c : Tensor = aten::cat(%parts, %dim)
  %z : Tensor = aten::sigmoid(%c)
  return (%r, %z)
)",
                                          dim);
    SCOPED_TRACE(graph);
    EngineCase(graph).expectClose({randn({2, 16, 6, 6}, 1)}, 1e-4);
  }
}

// Products read rows with the strides that they found.
TEST(ConvLayer, OnePixelAsRowsOfAProduct) {
  const std::string graph = "graph(%x : Tensor):" + fmt::format(fmt::runtime(kNumbers), 1, 32, "32, 16, 3") +
                            R"(  %s : int[] = prim::Constant[value=[1]]()
  %two : int = prim::Constant[value=2]()
  %at : int = prim::Constant[value=3]()
  %end : int = prim::Constant[value=4]()
  %m : Float(20, 1) = prim::Constant[value={0}]()
  %y : Tensor = aten::conv1d(%x, %w, %b, %s, %s, %s, %g)
  %p : Tensor = aten::slice(%y, %two, %at, %end, %one)
  %l : Tensor = aten::linear(%p, %m, %none)
  %t : Tensor = aten::transpose(%p, %one, %two)
  %q : Tensor = aten::matmul(%p, %t)
  return (%l, %q)
)";
  EngineCase(graph).expectClose({randn({2, 16, 9}, 1)}, 1e-4);
}

TEST(ConvLayer, OnePixelIsReadFromBlocks) {
  for (auto [channels, place, copies] : {std::tuple(32, -1, true), std::tuple(32, 3, true), std::tuple(20, 3, false)}) {
    const std::string graph =
        "graph(%x : Tensor):" + fmt::format(fmt::runtime(kNumbers), 1, channels, fmt::format("{}, 16, 3", channels)) +
        fmt::format(R"(  %s : int[] = prim::Constant[value=[1]]()
  %two : int = prim::Constant[value=2]()
  %place : int = prim::Constant[value={}]()
  %y : Tensor = aten::conv1d(%x, %w, %b, %s, %s, %s, %g)
  %p : Tensor = aten::select(%y, %two, %place)
  %z : Tensor = aten::sigmoid(%p)
  return (%z)
)",
                    place);
    expectNative(graph, randn({3, 16, 40}, 1));
    EXPECT_EQ(EngineCase(graph).layers({randn({3, 16, 40}, 1)}),
              copies ? "reorder, conv direct, copy, pointwise" : "reorder, conv direct, reorder, pointwise");
  }
}

TEST(ConvLayer, TransposedVolumesAreConvolutions) {
  for (const Transposed& c : {Transposed{"8, 4, 2, 2, 2", 4, 1, "2, 2, 2", "0, 0, 0", "0, 0, 0", "1, 1, 1"},
                              {"8, 16, 2, 2, 2", 16, 1, "2, 2, 2", "0, 0, 0", "0, 0, 0", "1, 1, 1"},
                              {"8, 16, 4, 3, 2", 16, 1, "2, 1, 2", "1, 1, 0", "0, 0, 1", "1, 1, 1"},
                              {"8, 4, 3, 4, 5", 8, 2, "3, 2, 1", "0, 1, 2", "2, 0, 0", "1, 1, 1"},
                              {"8, 4, 3, 3, 3", 4, 1, "1, 1, 1", "1, 0, 1", "0, 0, 0", "2, 3, 1"}})
    expectNative(graphOf(c, "conv_transpose3d"), randn({2, 8, 3, 5, 4}, 1));
}

// Outputs lie apart and see no pixel twice: the input is read where it is.
TEST(ConvLayer, StridesWithoutPadding) {
  for (auto [weight, channels, stride] :
       {std::tuple("40, 24, 1, 1", 40, "2, 2"), std::tuple("32, 24, 2, 2", 32, "2, 2"),
        std::tuple("16, 24, 3, 2", 16, "1, 3"), std::tuple("16, 24, 1, 3", 16, "3, 2")}) {
    const std::string graph = "graph(%x : Tensor):" + fmt::format(fmt::runtime(kNumbers), 1, channels, weight) +
                              fmt::format(R"(  %s : int[] = prim::Constant[value=[{}]]()
  %p : int[] = prim::Constant[value=[0, 0]]()
  %d : int[] = prim::Constant[value=[1, 1]]()
  %y : Tensor = aten::conv2d(%x, %w, %b, %s, %p, %d, %g)
  return (%y)
)",
                                          stride);
    expectNative(graph, randn({2, 24, 13, 34}, 1));
  }
}

TEST(ConvLayer, TransposedWithStepsAndDilation) {
  expectNative(graphOf({"8, 4, 3, 3", 4, 1, "2, 2", "0, 0", "0, 0", "2, 2"}, "conv_transpose2d"),
               randn({1, 8, 3, 3}, 1));
}

TEST(ConvLayer, VolumesAreConvolvedInBlocks) {
  for (auto [weight, channels, groups, stride, padding, dilation] :
       {std::tuple("16, 4, 3, 3, 3", 16, 1, "1, 1, 1", "1, 1, 1", "1, 1, 1"),
        std::tuple("6, 2, 3, 1, 2", 6, 2, "2, 1, 2", "1, 0, 0", "1, 1, 1"),
        std::tuple("16, 4, 3, 3, 5", 16, 1, "1, 1, 1", "6, 7, 2", "6, 7, 1"),
        std::tuple("16, 4, 2, 3, 3", 16, 1, "1, 2, 1", "2, 0, 1", "3, 1, 2"),
        std::tuple("3, 4, 1, 1, 1", 3, 1, "1, 1, 1", "0, 0, 0", "1, 1, 1")}) {
    const std::string graph = "graph(%x : Tensor):" + fmt::format(fmt::runtime(kNumbers), groups, channels, weight) +
                              fmt::format(R"(  %s : int[] = prim::Constant[value=[{}]]()
  %p : int[] = prim::Constant[value=[{}]]()
  %d : int[] = prim::Constant[value=[{}]]()
  %y : Tensor = aten::conv3d(%x, %w, %b, %s, %p, %d, %g)
  %z : Tensor = aten::relu(%y)
  return (%z)
)",
                                          stride, padding, dilation);
    expectNative(graph, randn({2, 4, 6, 7, 8}, 1));
  }
}

TEST(ConvLayer, PaddingByAWord) {
  for (auto [op, weight, sizes] :
       {std::tuple("conv2d", "16, 4, 2, 3", "2"), std::tuple("_convolution_mode", "16, 4, 4, 2", "2"),
        std::tuple("conv2d", "16, 4, 1, 4", "1")})
    for (const char* word : {"same", "valid"}) {
      const std::string graph = "graph(%x : Tensor):" + fmt::format(fmt::runtime(kNumbers), 1, 16, weight) +
                                fmt::format(R"(  %s : int[] = prim::Constant[value=[1, 1]]()
  %p : str = prim::Constant[value="{}"]()
  %d : int[] = prim::Constant[value=[{}, 1]]()
  %y : Tensor = aten::{}(%x, %w, %b, %s, %p, %d, %g)
  return (%y)
)",
                                            word, sizes, op);
      expectNative(graph, randn({2, 4, 9, 8}, 1));
    }
}

// Groups whose channels are no whole blocks.
TEST(ConvLayer, SmallGroups) {
  for (auto [weight, channels, groups] :
       {std::tuple("32, 4, 3, 3", 32, 8), std::tuple("32, 8, 3, 3", 32, 4), std::tuple("64, 4, 1, 1", 64, 8),
        std::tuple("48, 16, 3, 3", 48, 2), std::tuple("24, 8, 3, 3", 24, 4)}) {
    const std::string graph =
        "graph(%x : Tensor):" + fmt::format(fmt::runtime(kNumbers), groups, channels, weight) + R"(
  %s : int[] = prim::Constant[value=[1, 1]]()
  %y : Tensor = aten::conv2d(%x, %w, %b, %s, %s, %s, %g)
  %z : Tensor = aten::relu(%y)
  return (%z)
)";
    expectNative(graph, randn({2, 32, 6, 9}, 1));
  }
}

// Groups that share blocks, of sizes that do and do not divide them: an output sees its neighbours' groups as zeros.
TEST(ConvLayer, GroupsThatShareBlocks) {
  for (auto [in, out, groups] : {std::tuple(16, 96, 8), std::tuple(72, 72, 3), std::tuple(60, 60, 20),
                                 std::tuple(48, 20, 2), std::tuple(10, 30, 2), std::tuple(96, 40, 4),
                                 std::tuple(8, 128, 8), std::tuple(36, 36, 3), std::tuple(20, 64, 4)})
    for (const char* steps : {"1, 1", "2, 3"}) {
      const std::string weight = fmt::format("{}, {}, 3, 3", out, in / groups);
      const std::string graph = "graph(%x : Tensor):" + fmt::format(fmt::runtime(kNumbers), groups, out, weight) +
                                fmt::format(R"(  %s : int[] = prim::Constant[value=[{}]]()
  %p : int[] = prim::Constant[value=[1, 1]]()
  %y : Tensor = aten::conv2d(%x, %w, %b, %s, %p, %p, %g)
  %z : Tensor = aten::relu(%y)
  return (%z)
)",
                                            steps);
      SCOPED_TRACE(graph);
      EngineCase engine(graph);
      const Tensor x = randn({2, in, 9, 20}, 1);
      EXPECT_EQ(engine.layers({x}).find("im2col"), std::string::npos) << engine.layers({x});
      engine.expectClose({x}, 1e-4);
    }
}

// Weights are packed as each convolution goes over them: by rows of the kernel, or block by block.
TEST(ConvLayer, WeightsOfSeveralConvolutions) {
  struct Two {
    std::string op, weight, padding, dilations[2];
    Dims sizes[2];
  };
  for (const Two& c :
       {Two{"conv2d", "32, 32, 4, 3", "2, 1", {"1, 1", "2, 1"}, {{1, 32, 9, 9}, {1, 32, 9, 9}}},
        {"conv2d", "32, 32, 2, 3", "6, 1", {"6, 1", "4, 1"}, {{1, 32, 9, 9}, {1, 32, 9, 9}}},
        {"conv3d", "32, 32, 1, 4, 3", "0, 2, 1", {"1, 1, 1", "1, 1, 1"}, {{1, 32, 1, 9, 9}, {1, 32, 4, 9, 9}}}}) {
    EngineCase engine("graph(%x : Tensor, %y : Tensor):" + fmt::format(fmt::runtime(kNumbers), 1, 32, c.weight) +
                      fmt::format(R"(  %s : int[] = prim::Constant[value=[{0}]]()
  %p : int[] = prim::Constant[value=[{1}]]()
  %d0 : int[] = prim::Constant[value=[{2}]]()
  %d1 : int[] = prim::Constant[value=[{3}]]()
  %z0 : Tensor = aten::{4}(%x, %w, %b, %s, %p, %d0, %g)
  %z1 : Tensor = aten::{4}(%y, %w, %b, %s, %p, %d1, %g)
  return (%z0, %z1)
)",
                                  c.op == "conv2d" ? "1, 1" : "1, 1, 1", c.padding, c.dilations[0], c.dilations[1],
                                  c.op));
    SCOPED_TRACE(c.weight + " " + c.padding);
    engine.expectClose({randn(c.sizes[0], 1), randn(c.sizes[1], 2)}, 1e-4);
  }
}

// Two gates over a padded sequence: the pad is part of both, and what stands between convolutions stays in blocks.
TEST(ConvLayer, SequencesStayInBlocksAndTakeTheirMargins) {
  const std::string graph = "graph(%x : Tensor):" + fmt::format(fmt::runtime(kNumbers), 1, 16, "16, 16, 2") + R"(
  %p : int[] = prim::Constant[value=[3, 0]]()
  %s : int[] = prim::Constant[value=[1]]()
  %z : int[] = prim::Constant[value=[0]]()
  %d : int[] = prim::Constant[value=[3]]()
  %n : int = prim::Constant[value=0]()
  %x0 : Tensor = aten::constant_pad_nd(%x, %p, %n)
  %a : Tensor = aten::conv1d(%x0, %w, %b, %s, %z, %d, %g)
  %c : Tensor = aten::conv1d(%x0, %w, %none, %s, %z, %d, %g)
  %e : Tensor = aten::tanh(%a)
  %h : Tensor = aten::sigmoid(%c)
  %i : Tensor = aten::mul(%e, %h)
  %j : Tensor = aten::conv1d(%i, %w, %b, %s, %z, %s, %g)
  return (%j)
)";
  EngineCase c(graph);
  Tensor x = randn({2, 16, 21}, 1);
  EXPECT_EQ(c.layers({x}), "reorder, conv direct+tanh, conv direct+sigmoid, pointwise, conv direct, reorder");
  c.expectClose({x}, 1e-4);
}

// What is cut off behind a padded convolution, as causal ones have it, is not computed: other margins are what is left.
TEST(ConvLayer, ResultsThatAreCutOffAreMargins) {
  struct Cut {
    std::string weight;  // sizes
    int64_t stride, padding, first, last, dim;
    std::string body;  // of %c to %y
    std::string layers;
  };
  const std::string relu = "  %y : Tensor = aten::relu(%c)\n";
  const std::string copied = "  %k : Tensor = aten::contiguous(%c, %n)\n  %y : Tensor = aten::relu(%k)\n";
  const std::string turned = "  %m : Tensor = aten::transpose(%c, %two, %one)\n  %y : Tensor = aten::silu(%m)\n";
  const std::string padded = "reorder, conv direct+relu, reorder", image = "reorder, conv winograd+relu, reorder",
                    kept = "reorder, conv direct, reorder, pointwise";
  for (const Cut& c : {Cut{"16, 16, 3", 1, 4, 0, -4, 2, relu, padded},
                       {"16, 16, 3", 1, 4, 0, -4, 2, copied, padded},
                       {"16, 16, 3", 1, 4, 0, -4, 2, turned, "reorder, conv direct+silu, reorder"},
                       {"16, 16, 3", 1, 4, 4, 99, 2, relu, padded},
                       {"16, 16, 3", 1, 4, 3, -1, 2, relu, padded},
                       {"16, 16, 3", 1, 0, 0, -4, 2, relu, kept},
                       {"16, 16, 3", 1, 1, 2, -3, 2, relu, kept},
                       {"16, 16, 3", 2, 4, 1, -1, 2, relu, padded},
                       {"16, 16, 3", 3, 4, 0, -2, 2, relu, kept},
                       {"16, 16, 3", 3, 4, 1, 99, 2, relu, padded},
                       {"16,16,20", 2, 4, 2, 3, 2, relu, "reorder, conv direct+relu"},
                       {"16, 16, 3, 3", 1, 2, 0, -2, 3, relu, image},
                       {"16, 16, 3, 3", 1, 2, 1, -1, 2, relu, image},
                       {"16, 16, 3", 1, 4, 0, 9, 1, relu, kept}}) {
    const int64_t rank = c.weight.size() > 9 ? 4 : 3;
    auto each = [&](int64_t i) { return rank == 3 ? fmt::format("{}", i) : fmt::format("{0}, {0}", i); };
    const std::string graph = "graph(%x : Tensor):" + fmt::format(fmt::runtime(kNumbers), 1, 16, c.weight) +
                              fmt::format(R"(  %s : int[] = prim::Constant[value=[{}]]()
  %p : int[] = prim::Constant[value=[{}]]()
  %d : int[] = prim::Constant[value=[{}]]()
  %first : int = prim::Constant[value={}]()
  %last : int = prim::Constant[value={}]()
  %dim : int = prim::Constant[value={}]()
  %n : int = prim::Constant[value=0]()
  %two : int = prim::Constant[value=2]()
  %a : Tensor = aten::{}(%x, %w, %b, %s, %p, %d, %g)
  %c : Tensor = aten::slice(%a, %dim, %first, %last, %one)
)",
                                          each(c.stride), each(c.padding), each(rank == 3 && c.stride == 1 ? 2 : 1),
                                          c.first, c.last, c.dim, rank == 3 ? "conv1d" : "conv2d") +
                              c.body + "  return (%y)\n";
    SCOPED_TRACE(graph);
    EngineCase made(graph);
    const Tensor x = randn(rank == 3 ? Dims{2, 16, 20} : Dims{2, 16, 6, 20}, 1);
    EXPECT_EQ(made.layers({x}), c.layers);
    made.expectClose({x}, 1e-4);
  }
}

// What scales the channels of each image (squeeze-excite) is read along the blocks of the images.
TEST(ConvLayer, ScalesOfChannelsLeaveImagesInBlocks) {
  for (int64_t channels : {32, 24}) {
    const std::string sizes = fmt::format("{0}, {0}, 1, 1", channels);
    const std::string graph = "graph(%x : Tensor):" + fmt::format(fmt::runtime(kNumbers), 1, channels, sizes) + R"(
  %s : int[] = prim::Constant[value=[1, 1]]()
  %z : int[] = prim::Constant[value=[0, 0]]()
  %y : Tensor = aten::conv2d(%x, %w, %b, %s, %z, %s, %g)
  %p : Tensor = aten::adaptive_avg_pool2d(%y, %s)
  %c : Tensor = aten::conv2d(%p, %w, %b, %s, %z, %s, %g)
  %e : Tensor = aten::sigmoid(%c)
  %m : Tensor = aten::mul(%e, %y)
  %o : Tensor = aten::conv2d(%m, %w, %b, %s, %z, %s, %g)
  return (%o)
)";
    EngineCase c(graph);
    Tensor x = randn({2, channels, 9, 14}, 1);
    EXPECT_EQ(c.layers({x}), channels == 32 ? "reorder, conv direct, global_avg_pool, conv direct+sigmoid, pointwise, "
                                              "conv direct, reorder"
                                            : "reorder, conv direct, global_avg_pool, reorder, conv direct+sigmoid, "
                                              "pointwise, conv direct, reorder");
    c.expectClose({x}, 1e-4);
  }
}

// Whole blocks of one image's channels are used where they are.
TEST(ConvLayer, PartsOfChannelsStayInBlocks) {
  const std::string graph = "graph(%x : Tensor):" + fmt::format(fmt::runtime(kNumbers), 1, 32, "32, 16, 1, 1") + R"(
  %s : int[] = prim::Constant[value=[1, 1]]()
  %p : int[] = prim::Constant[value=[0, 0]]()
  %from : int = prim::Constant[value=0]()
  %at : int = prim::Constant[value=16]()
  %end : int = prim::Constant[value=32]()
  %y : Tensor = aten::conv2d(%x, %w, %b, %s, %p, %s, %g)
  %a : Tensor = aten::slice(%y, %one, %from, %at, %one)
  %c : Tensor = aten::slice(%y, %one, %at, %end, %one)
  %d : Tensor = aten::conv2d(%c, %w, %b, %s, %p, %s, %g)
  %e : Tensor = aten::slice(%d, %one, %at, %end, %one)
  %z : Tensor = aten::mul(%a, %e)
  return (%z)
)";
  EngineCase c(graph);
  Tensor x = randn({1, 16, 5, 7}, 1);
  EXPECT_EQ(c.layers({x}), "reorder, conv direct, conv direct, pointwise, reorder");
  c.expectClose({x}, 1e-4);
  c.expectClose({randn({2, 16, 5, 7}, 1)}, 1e-4);
}

// A norm over the channels of each pixel between convolutions: what lies pixel by pixel is reordered once each way.
// Halves of the channels that gate each other are read where they are, in each of several images.
TEST(ConvLayer, HalvesOfBlocksAreReadInPlace) {
  for (int64_t channels : {16, 48, 24}) {
    const std::string sizes = fmt::format("{}, {}, 3", 2 * channels, channels);
    const std::string graph = "graph(%x : Tensor):" + fmt::format(fmt::runtime(kNumbers), 1, 2 * channels, sizes) +
                              fmt::format(R"(  %half_w : Float({0}, {0}, 1) = prim::Constant[value={{0}}]()
  %half_n : int = prim::Constant[value={0}]()
)",
                                          channels) +
                              R"(  %n : int = prim::Constant[value=0]()
  %all : int = prim::Constant[value=1000]()
  %s : int[] = prim::Constant[value=[1]]()
  %z : int[] = prim::Constant[value=[0]]()
  %y : Tensor = aten::conv1d(%x, %w, %b, %s, %s, %s, %g)
  %a : Tensor = aten::slice(%y, %one, %n, %half_n, %one)
  %c : Tensor = aten::slice(%y, %one, %half_n, %all, %one)
  %d : Tensor = aten::tanh(%a)
  %e : Tensor = aten::sigmoid(%c)
  %m : Tensor = aten::mul(%d, %e)
  %i : Tensor = aten::add(%m, %c, %one)
  %o : Tensor = aten::conv1d(%i, %half_w, %none, %s, %z, %s, %g)
  return (%o)
)";
    SCOPED_TRACE(graph);
    EngineCase c(graph);
    const Tensor x = randn({3, channels, 9}, 1);
    const std::string halved = channels == 24 ? "reorder, pointwise of 4, reorder" : "pointwise of 4";
    EXPECT_EQ(c.layers({x}), "reorder, conv direct, " + halved + ", conv direct, reorder");
    c.expectClose({x}, 1e-4);
  }
}

TEST(ConvLayer, PixelsAreReorderedOnce) {
  const std::string graph = "graph(%x : Tensor):" + fmt::format(fmt::runtime(kNumbers), 1, 24, "24, 24, 1, 1") + R"(
  %s : int[] = prim::Constant[value=[1, 1]]()
  %p : int[] = prim::Constant[value=[0, 0]]()
  %last : int[] = prim::Constant[value=[0, 2, 3, 1]]()
  %first : int[] = prim::Constant[value=[0, 3, 1, 2]]()
  %c : int[] = prim::Constant[value=[24]]()
  %eps : float = prim::Constant[value=1e-05]()
  %y : Tensor = aten::conv2d(%x, %w, %b, %s, %p, %s, %g)
  %l : Tensor = aten::permute(%y, %last)
  %n : Tensor = aten::layer_norm(%l, %c, %none, %none, %eps, %f)
  %q : Tensor = aten::permute(%n, %first)
  %o : Tensor = aten::conv2d(%q, %w, %b, %s, %p, %s, %g)
  %z : Tensor = aten::add(%o, %q, %one)
  %i : Tensor = aten::permute(%z, %last)
  %r : Tensor = aten::relu(%i)
  return (%z, %r)
)";
  for (int64_t batch : {1, 2}) {
    EngineCase c(graph);
    Tensor x = randn({batch, 24, 5, 7}, 1);
    EXPECT_EQ(
        c.layers({x}),
        "reorder, conv direct, reorder, layer_norm, reorder, conv direct, pointwise, reorder, pointwise, reorder");
    c.expectClose({x}, 1e-4);
  }
}

TEST(ConvLayer, MarginsOfImages) {
  for (auto [pad, number] : {std::pair("1, 2, 0, 1", "0"), std::pair("-1, 2, 0, 1", "0"), std::pair("1, 1, 1, 1", "2"),
                             std::pair("1, 0, 0, 0, 0, 12", "0")}) {
    const std::string graph = "graph(%x : Tensor):" + fmt::format(fmt::runtime(kNumbers), 1, 16, "16, 16, 3, 3") +
                              fmt::format(R"(  %p : int[] = prim::Constant[value=[{}]]()
  %v : int = prim::Constant[value={}]()
  %s : int[] = prim::Constant[value=[2, 2]]()
  %o : int[] = prim::Constant[value=[1, 1]]()
  %x0 : Tensor = aten::constant_pad_nd(%x, %p, %v)
  %y : Tensor = aten::conv2d(%x0, %w, %b, %s, %o, %o, %g)
  return (%y)
)",
                                          pad, number);
    expectNative(graph, randn({2, std::string_view(pad).ends_with("12") ? 4 : 16, 6, 9}, 1));
  }
}

TEST(ConvLayer, ImagesWithoutBatch) {
  const std::string graph = "graph(%x : Tensor):" + fmt::format(fmt::runtime(kNumbers), 1, 16, "16, 4, 3, 3") + R"(
  %s : int[] = prim::Constant[value=[1, 1]]()
  %y : Tensor = aten::conv2d(%x, %w, %b, %s, %s, %s, %g)
  %z : Tensor = aten::relu(%y)
  return (%z)
)";
  expectNative(graph, randn({4, 6, 9}, 1));
}

namespace {

// A convolution of %x, %c, of so many channels; then `body`, which ends in %y.
std::string afterConvolution(int64_t channels, const std::string& body) {
  return "graph(%x : Tensor):" +
         fmt::format(fmt::runtime(kNumbers), 1, channels, fmt::format("{}, 16, 1, 1", channels)) + R"(
  %zero : int = prim::Constant[value=0]()
  %two : int = prim::Constant[value=2]()
  %three : int = prim::Constant[value=3]()
  %k : Float(24, 16, 1, 1) = prim::Constant[value={0}]()
  %s : int[] = prim::Constant[value=[1, 1]]()
  %p : int[] = prim::Constant[value=[0, 0]]()
  %c : Tensor = aten::conv2d(%x, %w, %b, %s, %p, %s, %g)
)" + body +
         "  return (%y)\n";
}

void expectLayersAfter(int64_t channels, const std::string& body, const std::string& layers) {
  const std::string graph = afterConvolution(channels, body);
  SCOPED_TRACE(graph);
  EngineCase c(graph);
  const std::vector<IValue> in{randn({2, 16, 5, 7}, 1)};
  EXPECT_EQ(c.layers(in, true), layers);
  c.expectClose(in, 1e-4);
}

}  // namespace

TEST(ConvLayer, ChannelsThatSplitBlocksAreJoinedAndTakenInBlocks) {
  const std::string joined =
      "  %e : Tensor = aten::conv2d(%x, %w0, %b, %s, %p, %s, %g)\n"
      "  %l : Tensor[] = prim::ListConstruct(%c, %e, %c)\n  %j : Tensor = aten::cat(%l, %one)\n";
  for (int64_t channels : {8, 20, 40})
    expectLayersAfter(channels, joined + "  %y : Tensor = aten::max_pool2d(%j, %s, %s, %p, %s, %f)\n",
                      "reorder, conv direct, conv direct, channels, max_pool2d, reorder");
  // Of a batch, they are copied first.
  const std::string part =
      "  %first : int = prim::Constant[value=5]()\n  %end : int = prim::Constant[value=21]()\n"
      "  %part : Tensor = aten::slice(%c, %one, %first, %end, %one)\n";
  expectLayersAfter(40, part + "  %y : Tensor = aten::conv2d(%part, %k, %none, %s, %p, %s, %one)\n",
                    "reorder, conv direct, channels, conv direct, reorder");
}

TEST(ConvLayer, MarginsAndNearestPixelsKeepBlocks) {
  expectLayersAfter(24,
                    "  %o : int[] = prim::Constant[value=[9, 12]]()\n"
                    "  %u : Tensor = aten::upsample_nearest2d(%c, %o, %none)\n"
                    "  %y : Tensor = aten::relu(%u)\n",
                    "reorder, conv direct, resize, pointwise, reorder");
  expectLayersAfter(24,
                    "  %o : int[] = prim::Constant[value=[0, 1, 2, 1]]()\n"
                    "  %u : Tensor = aten::reflection_pad2d(%c, %o)\n"
                    "  %y : Tensor = aten::max_pool2d(%u, %s, %s, %p, %s, %f)\n",
                    "reorder, conv direct, pad, max_pool2d, reorder");
}

TEST(ConvLayer, NormsOfGroupsKeepBlocks) {
  for (int64_t groups : {1, 3, 12, 24})
    expectLayersAfter(24,
                      fmt::format("  %n : int = prim::Constant[value={}]()\n"
                                  "  %e : float = prim::Constant[value=0.001]()\n"
                                  "  %y : Tensor = aten::group_norm(%c, %n, %b, %b, %e, %f)\n",
                                  groups),
                      "reorder, conv direct, group_norm, reorder");
}

// As transformers have depthwise convolutions between products.
TEST(ConvLayer, DepthwiseConvolutionsTakeAndMakePixels) {
  const std::string graph = "graph(%x : Tensor):" + fmt::format(fmt::runtime(kNumbers), 32, 32, "32, 1, 3, 3") + R"(
  %two : int = prim::Constant[value=2]()
  %three : int = prim::Constant[value=3]()
  %sizes : int[] = prim::Constant[value=[2, 32, 6, 7]]()
  %s : int[] = prim::Constant[value=[1, 1]]()
  %m : Float(32, 32) = prim::Constant[value={0}]()
  %i : Tensor = aten::transpose(%x, %one, %two)
  %v : Tensor = aten::view(%i, %sizes)
  %c : Tensor = aten::conv2d(%v, %w, %b, %s, %s, %s, %g)
  %n : Tensor = aten::flatten(%c, %two, %three)
  %o : Tensor = aten::transpose(%n, %one, %two)
  %y : Tensor = aten::matmul(%o, %m)
  return (%y)
)";
  EngineCase c(graph);
  const std::vector<IValue> in{randn({2, 42, 32}, 1)};
  EXPECT_EQ(c.layers(in, true), "conv depthwise, matmul");
  c.expectClose(in, 1e-4);
}

// A dilated kernel of which only the middle sees a small image.
TEST(ConvLayer, TapsThatSeeOnlyPaddingAreDropped) {
  for (auto [weight, padding, dilation] :
       {std::tuple("20, 8, 3, 3", "12, 12", "12, 12"), std::tuple("20, 8, 3, 3", "9, 4", "9, 5"),
        std::tuple("20, 8, 5, 2", "5, 1", "4, 8"), std::tuple("20, 8, 3, 3", "1, 1", "1, 1")}) {
    const std::string graph = "graph(%x : Tensor):" + fmt::format(fmt::runtime(kNumbers), 1, 20, weight) +
                              fmt::format(R"(  %s : int[] = prim::Constant[value=[1, 1]]()
  %p : int[] = prim::Constant[value=[{}]]()
  %d : int[] = prim::Constant[value=[{}]]()
  %c : Tensor = aten::conv2d(%x, %w, %b, %s, %p, %d, %g)
  %y : Tensor = aten::batch_norm(%c, %b, %b, %b, %b, %f, %half, %half, %f)
  return (%y)
)",
                                          padding, dilation);
    expectNative(graph, randn({1, 8, 8, 7}, 1));
  }
}

// Unless only rows are wanted of what is larger then.
TEST(ConvLayer, ResizingKeepsBlocks) {
  const std::string resized =
      "  %o : int[] = prim::Constant[value=[9, 12]]()\n"
      "  %u : Tensor = aten::upsample_bilinear2d(%c, %o, %f, %none)\n";
  expectLayersAfter(24, resized + "  %y : Tensor = aten::max_pool2d(%u, %s, %s, %p, %s, %f)\n",
                    "reorder, conv direct, resize, max_pool2d, reorder");
  for (const char* last : {"aten::relu(%u)", "aten::softmax(%u, %one, %none)"})
    expectLayersAfter(
        24, resized + "  %y : Tensor = " + last + "\n",
        std::string("reorder, conv direct, reorder, resize, ") + (last[6] == 'r' ? "pointwise" : "softmax"));
}

// Whole blocks of channels become pixels as they are.
TEST(ConvLayer, TransposedOnesKeepBlocks) {
  const std::string steps =
      "  %st : int[] = prim::Constant[value=[{}]]()\n  %pa : int[] = prim::Constant[value=[{}]]()\n"
      "  %w1 : Float({}) = prim::Constant[value={{0}}]()\n"
      "  %v : Float({}) = prim::Constant[value={{0}}]()\n"
      "  %d : Tensor = aten::conv_transpose2d(%c, %w1, %v, %st, %pa, %p, %one, %s)\n"
      "  %y : Tensor = aten::relu(%d)\n";
  expectLayersAfter(24, fmt::format(fmt::runtime(steps), "2, 2", "0, 0", "24, 32, 2, 2", 32),
                    "reorder, conv direct, conv direct, channels_to_pixels, pointwise, reorder");
  expectLayersAfter(24, fmt::format(fmt::runtime(steps), "3, 2", "1, 0", "24, 32, 5, 3", 32),
                    "reorder, conv direct, conv direct, conv direct, conv direct, conv direct, conv direct, conv "
                    "direct, cat, channels_to_pixels, pointwise, reorder");
  expectLayersAfter(24, fmt::format(fmt::runtime(steps), "2, 2", "1, 1", "24, 32, 4, 4", 32),
                    "reorder, conv direct, conv direct, conv direct, conv direct, conv direct, cat, "
                    "channels_to_pixels, pointwise, reorder");
  expectLayersAfter(24, fmt::format(fmt::runtime(steps), "2, 2", "1, 1", "24, 20, 4, 4", 20),
                    "reorder, conv direct, conv direct, channels_to_pixels, pointwise, reorder");
  expectLayersAfter(24, fmt::format(fmt::runtime(steps), "2, 2", "0, 0", "24, 12, 2, 2", 12),
                    "reorder, conv direct, conv direct, reorder, channels_to_pixels, pointwise");
}

// As residual networks widen without weights.
TEST(ConvLayer, ChannelsOfZerosAreAddedInBlocks) {
  for (std::string_view margin : {"0, 0, 0, 0, 0, 8", "0, 0, 0, 0, 4, 4", "0, 0, 0, 0, 20, 0"})
    expectLayersAfter(24,
                      fmt::format("  %m : int[] = prim::Constant[value=[{}]]()\n"
                                  "  %y : Tensor = aten::constant_pad_nd(%c, %m, %zero)\n",
                                  margin),
                      "reorder, conv direct, channels, reorder");
  const std::string steps =
      "  %end : int = prim::Constant[value=100]()\n"
      "  %rows : Tensor = aten::slice(%c, %two, %zero, %end, %two)\n"
      "  %few : Tensor = aten::slice(%rows, %three, %zero, %end, %three)\n"
      "  %m : int[] = prim::Constant[value=[0, 0, 0, 0, 4, 4]]()\n"
      "  %y : Tensor = aten::constant_pad_nd(%few, %m, %zero)\n";
  expectLayersAfter(24, steps, "reorder, conv direct, max_pool2d, channels, reorder");
}

TEST(ConvLayer, ActivationsOfPixelsBelongToTheConvolution) {
  expectLayersAfter(24,
                    "  %u : Tensor = aten::flatten(%c, %two, %three)\n  %v : Tensor = aten::transpose(%u, %one, %two)\n"
                    "  %y : Tensor = aten::relu(%v)\n",
                    "reorder, conv direct+relu, reorder");
}

// Windows over words, rows of electrodes, frames of a clip: what the kernel spans becomes channels.
TEST(ConvLayer, KernelsAsLargeAsTheImageSumChannels) {
  struct Case {
    std::string weight;
    Dims image;
    int64_t groups;
    std::string stride, padding, dilation, layers;
  };
  for (const Case& c :
       {Case{"100, 1, 3, 32", {2, 1, 20, 32}, 1, "1, 1", "0, 0", "1, 1", "reorder, conv direct, reorder"},
        {"64, 6, 3, 16", {2, 6, 20, 16}, 1, "2, 1", "1, 0", "2, 1", "copy, reorder, conv direct, reorder"},
        {"32, 3, 8, 5", {2, 3, 8, 30}, 1, "3, 2", "0, 2", "1, 1", "reorder, conv direct, reorder"},
        {"64, 8, 5, 5", {3, 8, 5, 5}, 1, "1, 1", "0, 0", "1, 1", "matmul"},
        {"16, 1, 22, 1", {2, 8, 22, 50}, 8, "1, 1", "0, 0", "1, 1", "reorder, conv direct, reorder"},
        {"16, 1, 5, 5", {2, 16, 5, 5}, 16, "1, 1", "0, 0", "1, 1", "reorder, conv depthwise"},
        {"16, 4, 4, 3, 3", {2, 4, 4, 9, 9}, 1, "1, 1, 1", "0, 1, 1", "1, 1, 1", "reorder, conv winograd, reorder"},
        {"16, 4, 4, 3, 9",
         {2, 4, 4, 9, 9},
         1,
         "1, 1, 1",
         "0, 1, 0",
         "1, 1, 1",
         "copy, reorder, conv direct, reorder"}}) {
    const std::string zeros = c.image.size() == 5 ? "0, 0, 0" : "0, 0",
                      channels = c.weight.substr(0, c.weight.find(','));
    const std::string graph =
        "graph(%x : Tensor):" + fmt::format(fmt::runtime(kNumbers), c.groups, channels, c.weight) +
        fmt::format(R"(  %s : int[] = prim::Constant[value=[{}]]()
  %p : int[] = prim::Constant[value=[{}]]()
  %o : int[] = prim::Constant[value=[{}]]()
  %d : int[] = prim::Constant[value=[{}]]()
  %y : Tensor = aten::convolution(%x, %w, %b, %s, %p, %d, %f, %o, %g)
  return (%y)
)",
                    c.stride, c.padding, zeros, c.dilation);
    SCOPED_TRACE(graph);
    EngineCase engine(graph);
    EXPECT_EQ(engine.layers({randn(c.image, 1)}), c.layers);
    engine.expectClose({randn(c.image, 1)}, 1e-4);
  }
}

// One engine for images of which the kernel spans a dimension, all of them, or none, each with the weights of its own.
TEST(ConvLayer, WhatAKernelSpansIsKnownOfEachSize) {
  const std::string graph = "graph(%x : Tensor):" + fmt::format(fmt::runtime(kNumbers), 1, 32, "32, 4, 3, 5") +
                            R"(  %s : int[] = prim::Constant[value=[1, 1]]()
  %p : int[] = prim::Constant[value=[0, 0]]()
  %y : Tensor = aten::conv2d(%x, %w, %b, %s, %p, %s, %g)
  return (%y)
)";
  EngineCase engine(graph);
  for (int round : {1, 2})
    for (const Dims& image : {Dims{2, 4, 9, 5}, {1, 4, 3, 5}, {2, 4, 3, 8}, {2, 4, 9, 8}, {3, 4, 12, 5}})
      engine.expectClose({randn(image, round)}, 1e-4);
}

}  // namespace tscompile::test
