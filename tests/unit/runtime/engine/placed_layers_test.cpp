// Operators that put elements to places, join tensors, factor matrices or work on bits: which layers they become in
// engines, and that these compute what the interpreter does; tests/ops has their values.
#include "runtime/reference/loops/copy.h"
#include "tests/support/engine_case.h"

#include <fmt/core.h>

namespace tscompile::test {
namespace {

void expectLayers(std::string_view body, std::string_view layers, const std::vector<IValue>& in,
                  double tolerance = 1e-5) {
  SCOPED_TRACE(body);
  EngineCase c(graphWithConstants("%x : Tensor, %y : Tensor, %i : Tensor", body, "%z"));
  EXPECT_EQ(c.layers(in, true), layers);
  c.expectClose(in, tolerance);
}

Tensor integers(const Dims& dims, std::initializer_list<int64_t> values) {
  Tensor t = Tensor::empty(DType::Int64, dims);
  std::copy(values.begin(), values.end(), t.data<int64_t>());
  return t;
}

// A A^T + n, of each matrix.
Tensor positive(int64_t batch, int64_t n) {
  Tensor a = randn({batch, n, n}, 7), made = Tensor::zeros(DType::Float32, Dims{batch, n, n});
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t i = 0; i < n; ++i)
      for (int64_t k = 0; k < n; ++k) {
        float sum = i == k ? static_cast<float>(n) : 0;
        for (int64_t j = 0; j < n; ++j)
          sum += a.data<float>()[(b * n + i) * n + j] * a.data<float>()[(b * n + k) * n + j];
        made.data<float>()[(b * n + i) * n + k] = sum;
      }
  return made;
}

const Tensor kPlaces = integers({3}, {2, -1, 0}), kColumns = integers({3}, {1, 1, 4});

}  // namespace

TEST(PlacedLayers, SeveralIndicesPutAndAdd) {
  const Tensor x = randn({4, 5, 6}, 1), rows = randn({3, 6}, 2), row = randn({6}, 3);
  const std::string list = "  %l : Tensor?[] = prim::ListConstruct(%i, %i)\n";
  for (const char* adds : {"%f", "%t"})
    for (const Tensor& values : {rows, row, randn({1}, 4)})
      expectLayers(list + "  %z : Tensor = aten::index_put(%x, %l, %y, " + adds + ")\n",
                   values.numel() == 18 ? (adds[1] == 'f' ? "index_put" : "index_add")
                                        : (adds[1] == 'f' ? "copy, index_put" : "copy, index_add"),
                   {x, values, kPlaces});
  expectLayers("  %l : Tensor?[] = prim::ListConstruct(%none, %i)\n  %z : Tensor = aten::index_put(%x, %l, %y, %t)\n",
               "index_add", {x, randn({4, 3, 6}, 5), kColumns});
}

TEST(PlacedLayers, IndicesApartPickTheirBlockFirst) {
  const std::string list = "  %l : Tensor?[] = prim::ListConstruct(%i, %none, %i)\n";
  expectLayers(list + "  %z : Tensor = aten::index(%x, %l)\n", "pick", {randn({4, 5, 6}, 1), randn({1}, 2), kPlaces});
}

TEST(PlacedLayers, CopiesAndFillsByIndex) {
  const Tensor x = randn({4, 5}, 1), column = integers({2}, {3, 0});
  expectLayers("  %z : Tensor = aten::index_copy(%x, %one, %i, %y)\n", "index_put", {x, randn({4, 2}, 2), column});
  expectLayers("  %z : Tensor = aten::index_fill(%x, %one, %i, %two)\n", "copy, index_put", {x, randn({1}, 2), column});
  expectLayers("  %z : Tensor = aten::take(%x, %i)\n", "pick", {x, randn({1}, 2), integers({2, 2}, {3, 0, -1, 19})});
}

TEST(PlacedLayers, ProductsThatAreAddedToInputs) {
  const Tensor x = randn({5}, 1), weights = randn({4, 5}, 2);
  expectLayers("  %z : Tensor = aten::addmm(%x, %i, %y, %one, %two)\n", "batched_matmul, pointwise of 2",
               {x, weights, randn({3, 4}, 3)});
  expectLayers("  %z : Tensor = aten::addbmm(%x, %i, %y, %one, %one)\n", "copy, batched_matmul, pointwise",
               {randn({2, 5}, 4), randn({3, 4, 5}, 5), randn({3, 2, 4}, 6)});
  expectLayers("  %z : Tensor = aten::addr(%x, %i, %y, %two, %one)\n", "pointwise of 3",
               {randn({3, 4}, 1), randn({4}, 2), randn({3}, 3)});
}

TEST(PlacedLayers, JoinsOfManySides) {
  const std::string list = "  %l : Tensor[] = prim::ListConstruct(%x, %y)\n";
  const Tensor x = randn({4}, 1), y = randn({4}, 2), i = randn({1}, 3);
  for (const char* op : {"hstack", "vstack", "dstack", "column_stack", "row_stack"})
    expectLayers(fmt::format("{}  %z : Tensor = aten::{}(%l)\n", list, op), "cat", {x, y, i});
  expectLayers(list + "  %z : Tensor = aten::block_diag(%l)\n", "pad, pad, cat", {randn({2, 3}, 1), y, i});
}

TEST(PlacedLayers, RunningExtremes) {
  Tensor x = randn({3, 40, 7}, 1);
  x.data<float>()[100] = NAN;
  for (const char* op : {"cummax", "cummin"})
    for (const char* dim : {"%one", "%last"})
      for (const char* result : {"%v", "%p"})
        expectLayers(fmt::format("  %v : Tensor, %p : Tensor = aten::{}(%x, {})\n  %z : Tensor = aten::neg({})\n", op,
                                 dim, result),
                     fmt::format("{}, pointwise", op), {x, x, x});
}

TEST(PlacedLayers, FactorizationsOfMatrices) {
  const Tensor a = positive(3, 5), b = randn({3, 5, 2}, 1);
  auto factored = [&](std::string_view call, std::string_view layers) {
    expectLayers(fmt::format("  %c : Tensor = aten::linalg_cholesky(%x, %f)\n  %z : Tensor = aten::{}\n", call), layers,
                 {a, b, b}, 1e-4);
  };
  factored("linalg_solve_triangular(%c, %y, %f, %t, %f)", "cholesky, solve_triangular");
  factored("cholesky_solve(%y, %c, %f)", "cholesky, cholesky_solve");
  factored("cholesky_inverse(%c, %f)", "cholesky, cholesky_inverse");
  expectLayers("  %z : Tensor = aten::linalg_inv(%x)\n", "inverse", {a, b, b}, 1e-4);
  expectLayers("  %z : Tensor = aten::linalg_solve(%x, %y, %t)\n", "solve", {a, b, b}, 1e-4);
  expectLayers("  %z : Tensor = aten::linalg_det(%x)\n", "det", {a, b, b}, 1);
  expectLayers("  %s : Tensor, %z : Tensor = aten::linalg_slogdet(%x)\n", "slogdet", {a, b, b}, 1e-4);
  // One matrix for all right sides.
  expectLayers("  %z : Tensor = aten::linalg_solve(%i, %y, %t)\n", "copy, solve", {a, b, positive(1, 5)}, 1e-4);
}

TEST(PlacedLayers, SpectraAndRectangularMatrices) {
  const Tensor a = positive(20, 4), b = randn({20, 4, 2}, 1), c = randn({20, 6, 4}, 2);
  auto expect = [&](std::string_view body, std::string_view layers) {
    expectLayers(fmt::format("  {}\n", body), layers, {a, b, c}, 1e-4);
  };
  expect("%z : Tensor = aten::linalg_solve(%x, %i, %f)", "solve");
  expect("%z : Tensor, %e : Tensor = aten::linalg_inv_ex(%x, %f)", "inverse");
  expect("%z : Tensor, %e : Tensor = aten::linalg_cholesky_ex(%x, %t, %f)", "cholesky_ex");
  expect("%z : Tensor, %e : Tensor = aten::linalg_solve_ex(%x, %y, %t, %f)", "solve");
  expect("%z : Tensor, %l : Tensor, %p : Tensor, %e : Tensor = aten::_linalg_solve_ex(%x, %y, %t, %f)", "solve");
  expectLayers("  %z : Tensor, %l : Tensor, %p : Tensor = aten::_linalg_det(%x)\n", "det", {a, b, c}, 1);
  expect("%z : Tensor = aten::logdet(%x)", "logdet");
  expect("%z : Tensor, %p : Tensor = aten::linalg_lu_factor(%i, %t)", "lu_factor");
  expect("%p : Tensor, %z : Tensor, %u : Tensor = aten::linalg_lu(%i, %t)", "lu");
  expect("%q : Tensor, %z : Tensor = aten::qr(%i, %t)", "qr");
  expect("%z : Tensor, %r : Tensor = aten::qr(%i, %f)", "qr");
  expect("%z : Tensor = aten::linalg_svdvals(%i, %none)", "svdvals");
  expect("%u : Tensor, %s : Tensor, %z : Tensor = aten::linalg_svd(%i, %t, %none)", "svd");
  expect("%u : Tensor, %s : Tensor, %z : Tensor = aten::svd(%i, %t, %t)", "svd");
  expect("%e : float = prim::Constant[value=1.0000000000000001e-15]()\n  %z : Tensor = aten::pinverse(%i, %e)", "pinv");
  const std::string lower = "%l : str = prim::Constant[value=\"L\"]()\n  ";
  expect(lower + "%z : Tensor = aten::linalg_eigvalsh(%x, %l)", "eigvalsh");
  expect(lower + "%s : Tensor, %z : Tensor = aten::linalg_eigh(%x, %l)", "eigh");
}

TEST(PlacedLayers, ElementsAreMappedByTheirFunctions) {
  auto narrow = [](DType dtype, std::initializer_list<int64_t> values) {
    Tensor t = Tensor::empty(DType::Int64, {static_cast<int64_t>(values.size())});
    std::copy(values.begin(), values.end(), t.data<int64_t>());
    return convertTensor(t, dtype);
  };
  for (DType dtype : {DType::UInt8, DType::Int8, DType::Int16}) {
    const Tensor x = narrow(dtype, {100, 7, -3, 127}), y = narrow(dtype, {3, 2, 5, 100});
    for (const char* call : {"bitwise_and(%x, %y)", "__lshift__(%x, %y)", "bitwise_not(%x)", "mul(%x, %y)",
                             "add(%x, %y, %two)", "floor_divide(%x, %y)", "remainder(%x, %y)"})
      expectLayers(fmt::format("  %z : Tensor = aten::{}\n", call), "map", {x, y, x}, 0);
  }
  const Tensor x = randn({3, 5000}, 1), y = randn({5000}, 2);
  expectLayers("  %z : Tensor = aten::special_erfcx(%x)\n", "map", {x, y, x}, 0);
  expectLayers("  %t2 : Tensor = aten::t(%x)\n  %z : Tensor = aten::digamma(%t2)\n", "copy, map", {x, y, x}, 0);
  expectLayers("  %z : Tensor = aten::copysign(%x, %y)\n", "copy, map", {x, y, x}, 0);
  expectLayers("  %z : Tensor = aten::polygamma(%two, %x)\n", "map", {x, y, x}, 0);
}

TEST(PlacedLayers, SumsThatSkipNanAndNormsOfAnyOrder) {
  const Tensor x = randn({3, 500}, 1);
  const std::string dims = "  %d : int[] = prim::ListConstruct(%one)\n  %p : float = prim::Constant[value=3.]()\n";
  auto expect = [&](std::string_view call, std::string_view layers) {
    expectLayers(dims + fmt::format("  %z : Tensor = aten::{}\n", call), layers, {x, x, x}, 1e-4);
  };
  expect("nansum(%x, %d, %f, %none)", "pointwise, pointwise+sum");
  expect("linalg_vector_norm(%x, %p, %d, %f, %none)", "pointwise of 3+sum, pointwise");
  expect("linalg_vector_norm(%x, %zero, %d, %f, %none)", "pointwise, sum, convert");
}

TEST(PlacedLayers, BitsAndShifts) {
  const Tensor x = integers({4}, {5, -3, int64_t{1} << 40, 7}), y = integers({4}, {1, 2, 70, -1});
  for (const char* op : {"bitwise_and", "bitwise_or", "bitwise_xor", "__lshift__", "__rshift__"})
    expectLayers(fmt::format("  %z : Tensor = aten::{}(%x, %y)\n", op), "pointwise", {x, y, x});
  expectLayers("  %z : Tensor = aten::bitwise_not(%x)\n", "pointwise", {x, y, x});
  for (const char* op : {"remainder", "floor_divide"})  // by bits
    expectLayers(fmt::format("  %n : int = prim::Constant[value=8]()\n  %z : Tensor = aten::{}(%x, %n)\n", op),
                 "pointwise", {x, y, x});
}

}  // namespace tscompile::test
