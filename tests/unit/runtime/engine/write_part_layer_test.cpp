// Tensors with parts replaced: what is written, and where there is no copy of the rest.
#include "runtime/engine/layers/move_layers.h"
#include "tests/support/engine_case.h"

#include <cstring>

namespace tscompile::test {
namespace {

Tensor integers(const Dims& sizes) {
  Tensor t = Tensor::empty(DType::Int64, sizes);
  for (int64_t i = 0; i < t.numel(); ++i) t.data<int64_t>()[i] = i * 7919;
  return t;
}

// A buffer that is filled row by row, as loops leave it, and what is returned.
std::string filled(int rows, const std::string& more, const std::string& result) {
  std::string body = "  %r0 : Tensor = aten::relu(%x)\n";
  for (int i = 0; i < rows; ++i)
    body += fmt::format(
        "  %i{0} : int = prim::Constant[value={0}]()\n  %y{0} : Tensor = aten::select(%y, %zero, %i{0})\n"
        "  %e{0} : Tensor = aten::exp(%y{0})\n  %r{1} : Tensor = aten::select_scatter(%r{0}, %e{0}, %zero, %i{0})\n",
        i, i + 1);
  return graphWithConstants("%x : Tensor, %y : Tensor", body + more, result);
}

}  // namespace

TEST(WritePartLayer, WritesWhatTheInterpreterDoes) {
  for (const char* body : {"  %z : Tensor = aten::select_scatter(%x, %s, %one, %last)\n",
                           "  %z : Tensor = aten::slice_scatter(%x, %v, %zero, %one, %none, %two)\n",
                           "  %z : Tensor = aten::slice_scatter(%x, %v, %one, %none, %two, %one)\n",
                           "  %z : Tensor = aten::diagonal_scatter(%x, %d, %one, %zero, %two)\n",
                           "  %p : Tensor = aten::permute(%x, %order)\n  %q : Tensor = aten::select(%p, %zero, %zero)\n"
                           "  %z : Tensor = aten::select_scatter(%p, %q, %zero, %one)\n"}) {
    const std::string text =
        graphWithConstants("%x : Tensor, %y : Tensor",
                           std::string("  %order : int[] = prim::ListConstruct(%two, %zero, %one)\n") +
                               "  %s : Tensor = aten::select(%y, %one, %zero)\n" +
                               (std::string(body).find("%zero, %one, %none, %two") != std::string::npos
                                    ? "  %v : Tensor = aten::slice(%y, %zero, %zero, %none, %two)\n"
                                    : "  %v : Tensor = aten::slice(%y, %one, %one, %none, %one)\n") +
                               "  %d : Tensor = aten::diagonal(%y, %one, %zero, %two)\n" + body,
                           "%z");
    SCOPED_TRACE(text);
    EngineCase c(text);
    c.expectClose({randn({4, 3, 5}, 1), randn({4, 3, 5}, 2)}, 0);
    c.expectClose({integers({4, 3, 5}), integers({4, 3, 5})}, 0);
    EXPECT_NE(c.layers({randn({4, 3, 5}, 1), randn({4, 3, 5}, 2)}).find("write_part"), std::string::npos);
  }
}

TEST(WritePartLayer, LargePartsAreSharedByThreads) {
  EngineCase c(graphWithConstants("%x : Tensor, %y : Tensor",
                                  "  %z : Tensor = aten::slice_scatter(%x, %y, %one, %one, %none, %two)\n", "%z"));
  const std::vector<IValue> inputs{randn({300, 600, 2}, 1), randn({300, 300, 2}, 2)};
  c.expectClose(inputs, 0);
  const Tensor alone = c.run(inputs, 1)[0].toTensor(), together = c.run(inputs, 3)[0].toTensor();
  for (int64_t i = 0; i < alone.numel(); ++i) ASSERT_EQ(alone.real(i), together.real(i));
}

TEST(WritePartLayer, ABufferThatIsFilledIsOne) {
  const std::vector<IValue> inputs{randn({8, 1000}, 1), randn({8, 1000}, 2)};
  EngineCase filledOnce(filled(8, "  %z : Tensor = aten::neg(%r8)\n", "%z"));
  filledOnce.expectClose(inputs);
  EXPECT_LE(filledOnce.plan(inputs)->memory().peakBytes(), 9u * 1024 * 4) << "the buffer and one row";
  // What is read later stays as it was.
  EngineCase kept(
      filled(3, "  %z : Tensor = aten::neg(%r1)\n  %u : Tensor = aten::select(%r2, %one, %two)\n", "%z, %u, %r3"));
  kept.expectClose(inputs);
}

// More elements than an engine keeps as a constant.
TEST(WritePartLayer, SumsByNumbersBeginWhereZerosAreMade) {
  const Tensor x = randn({400, 200}, 1), more = randn({90, 200}, 2);
  Tensor numbers = Tensor::empty(DType::Int64, Dims{90});
  for (int64_t i = 0; i < 90; ++i) numbers.data<int64_t>()[i] = i * 37 % 400;
  for (const char* made : {"aten::zeros_like(%x, %none, %none, %none, %none, %none)",
                           "aten::ones_like(%x, %none, %none, %none, %none, %none)",
                           "aten::full_like(%x, %half, %none, %none, %none, %none, %none)",
                           "aten::new_full(%x, %sizes, %half, %none, %none, %none, %none)"}) {
    SCOPED_TRACE(made);
    EngineCase c(graphWithConstants("%x : Tensor, %i : Tensor, %y : Tensor",
                                    std::string("  %half : float = prim::Constant[value=-1.5]()\n") +
                                        "  %sizes : int[] = aten::size(%x)\n  %a : Tensor = " + made +
                                        "\n  %z : Tensor = aten::index_add(%a, %zero, %i, %y, %one)\n"
                                        "  %u : Tensor = aten::mul(%z, %x)\n",
                                    "%u"));
    const std::vector<IValue> inputs{x, numbers, more};
    c.expectClose(inputs, 0);
    EXPECT_NE(c.layers(inputs).find("fill"), std::string::npos) << c.layers(inputs);
    EXPECT_EQ(c.layers(inputs).find("kernel"), std::string::npos) << c.layers(inputs);
    EXPECT_LE(c.plan(inputs)->memory().peakBytes(), 401u * 200 * 4 + 8192) << "the sum is all that is between layers";
  }
}

TEST(WritePartLayer, ScattersBeginWhereZerosAreMade) {
  Tensor numbers = Tensor::empty(DType::Int64, Dims{400, 200});
  for (int64_t i = 0; i < numbers.numel(); ++i) numbers.data<int64_t>()[i] = i * 7919 % 400;
  const std::vector<IValue> inputs{randn({400, 200}, 1), numbers, randn({400, 200}, 2)};
  auto scattered = [](const char* result) {
    return EngineCase(
        graphWithConstants("%x : Tensor, %i : Tensor, %y : Tensor",
                           "  %a : Tensor = aten::zeros_like(%x, %none, %none, %none, %none, %none)\n"
                           "  %z : Tensor = aten::scatter_add(%a, %zero, %i, %y)\n  %u : Tensor = aten::mul(%z, %x)\n",
                           result));
  };
  EngineCase c = scattered("%u");
  c.expectClose(inputs, 0);
  EXPECT_LE(c.plan(inputs)->memory().peakBytes(), 401u * 200 * 4 + 8192) << "the sum is all that is between layers";
  // Zeros that are returned stay zeros.
  scattered("%u, %a").expectClose(inputs, 0);
}

// Both lie in the memory of what joins them, at different places.
TEST(WritePartLayer, WhatWasThereMayBeJoinedWithIt) {
  EngineCase c(graphWithConstants("%x : Tensor, %y : Tensor",
                                  "  %d : int[] = prim::Constant[value=[8]]()\n"
                                  "  %eps : float = prim::Constant[value=0.1]()\n"
                                  "  %n : Tensor = aten::layer_norm(%x, %d, %none, %none, %eps, %t)\n"
                                  "  %w : Tensor = aten::select_scatter(%n, %y, %zero, %one)\n"
                                  "  %l : Tensor[] = prim::ListConstruct(%n, %w)\n"
                                  "  %z : Tensor = aten::stack(%l, %zero)\n",
                                  "%z"));
  c.expectClose({randn({16, 8}, 1), randn({8}, 2)});
}

// What is joined is made in the memory of the join, and read after a part of that is written.
TEST(WritePartLayer, WhatWasJoinedStaysAsItWas) {
  EngineCase c(graphWithConstants("%x : Tensor, %y : Tensor",
                                  "  %a : Tensor = aten::softmax(%x, %one, %none)\n"
                                  "  %l : Tensor[] = prim::ListConstruct(%a)\n"
                                  "  %s : Tensor = aten::stack(%l, %zero)\n"
                                  "  %w : Tensor = aten::select_scatter(%s, %y, %two, %one)\n"
                                  "  %u : Tensor = aten::softmax(%w, %one, %none)\n"
                                  "  %z : Tensor = aten::softmax(%a, %zero, %none)\n",
                                  "%u, %z"));
  c.expectClose({randn({16, 8}, 1), randn({1, 16}, 2)});
}

TEST(WritePartLayer, PartsOfTheSameTensorDoNotOverlapWithWhatTheyReplace) {
  EngineCase c(graphWithConstants("%x : Tensor",
                                  "  %r : Tensor = aten::relu(%x)\n"
                                  "  %v : Tensor = aten::slice(%r, %zero, %none, %last, %one)\n"
                                  "  %z : Tensor = aten::slice_scatter(%r, %v, %zero, %one, %none, %one)\n",
                                  "%z"));
  c.expectClose({randn({40, 7}, 1)}, 0);
}

// Rows that lie beside each other in the source are copied together, whatever the size of their elements.
TEST(StridedCopy, LongTransposedRows) {
  for (DType dtype : {DType::Bool, DType::Float16, DType::Int32, DType::Float64, DType::Complex128})
    for (int64_t rows : {3, 64, 101})
      for (int64_t columns : {127, 300}) {
        const auto item = static_cast<int64_t>(itemSize(dtype));
        NetTensor from, to;
        from.dtype = to.dtype = dtype;
        from.sizes = to.sizes = Dims{2, rows, columns};
        from.strides = Dims{rows * columns, 1, rows};
        to.strides = Dims{rows * columns, columns, 1};
        std::vector<std::byte> source(static_cast<size_t>(2 * rows * columns * item)), target(source.size());
        for (size_t i = 0; i < source.size(); ++i) source[i] = static_cast<std::byte>(i * 31 + i / 251);
        for (int threads : {1, 3}) {
          StridedCopy(from, to).run(source.data(), target.data(), threads);
          for (int64_t n = 0; n < 2; ++n)
            for (int64_t r = 0; r < rows; ++r)
              for (int64_t c = 0; c < columns; ++c)
                ASSERT_EQ(std::memcmp(target.data() + ((n * rows + r) * columns + c) * item,
                                      source.data() + ((n * columns + c) * rows + r) * item, static_cast<size_t>(item)),
                          0);
        }
      }
}

}  // namespace tscompile::test
