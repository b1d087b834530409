// Gemm: a matrix product.
#include "runtime/call/thread_pool.h"
#include "runtime/kernels/openblas/blas.h"
#include "runtime/trtllm/builtin/graph_text.h"
#include "runtime/trtllm/builtin/matmul_support.h"
#include "runtime/trtllm/matmul/matmul.h"
#include "runtime/trtllm/matmul/panels.h"

#include <algorithm>

namespace tscompile {
namespace {

struct Gemm {
  bool transa = false, transb = false;
  double alpha = 1;
  tsc_dtype type = TSC_NONE;

  static void describe(tsc::Description<Gemm>& d) {
    d.key("tensorrt_llm", "Gemm", "1", "y = alpha * op(A) op(B), with sums in f32 (f64 of f64)");
    d.field("transa", &Gemm::transa, "op(A) = A^T: A is [K, M..], else [M.., K]");
    d.field("transb", &Gemm::transb, "op(B) = B^T: B is [N.., K], else [K, N..]");
    d.field("alpha", &Gemm::alpha, "a factor");
    d.choice("type_id", &Gemm::type, kResultTypes, resultTypes(), "the type of the result; of f64 only input");
    d.input("A", tsc::kFloats, "[M.., K] or [K, M..]");
    d.input("B", tsc::kFloats, "[K, N..] or [N.., K]").sameTypeAs("A");
    d.output("y", tsc::kFloats, "[M.., N..]");
  }
  static std::string_view example() {
    return "graph(%a : Float(2, 3, 20), %b : Float(17, 20)):\n"
           "  %y : Tensor = tensorrt_llm::Gemm[transb=1](%a, %b)\n"
           "  return (%y)\n";
  }

  void shapes(tsc::Shapes& s) const {
    tsc::Shape a = s.input(0), b = s.input(1);
    expectRankFrom(a, 2, "A");
    expectRankFrom(b, 2, "B");
    expectEqual(transb ? b.dims.back() : b.dims.front(), transa ? a.dims.front() : a.dims.back(), "K of B",
                "that of A");
    if (a.dtype == TSC_F64 && type != TSC_NONE) tsc::unsupported("type_id is that of the input where this is float64");
    std::vector<tsc::Dim> dims = a.dims;
    transa ? dims.erase(dims.begin()) : dims.erase(dims.end() - 1);
    dims.insert(dims.end(), b.dims.begin() + !transb, b.dims.end() - transb);
    s.output(0, resultOf(a.dtype), dims);
  }

  size_t workspace(const tsc::Tensors& t) const {
    if (t.input(0).dtype() == TSC_F64) return 0;
    size_t a = transa ? 2 * Room::bytesOf(t.input(0).numel(), sizeof(float)) : floatBytes(t.input(0));
    return a + sumsBytes(t.output(0));
  }

  void run(tsc::Run& r) const {
    tsc::Tensor a = r.input(0), b = r.input(1), out = r.output(0);
    const int64_t k = transa ? a.size(0) : a.size(-1);
    int64_t m = 1, n = 1;
    for (size_t d = 0; d + 1 < a.rank(); ++d) m *= a.sizes()[d + transa];
    for (size_t d = 0; d + 1 < b.rank(); ++d) n *= b.sizes()[d + !transb];
    if (out.numel() == 0) return;
    if (a.dtype() == TSC_F64) return onBlas(r, m, n, k, a.data<double>(), b.data<double>(), out.data<double>());
    Room room(r.workspace());
    const float* x = asFloats(r, a, room);
    float* sums = sumsFor(out, room);
    if (a.dtype() == TSC_F32 && (m > kFewRows || k == 0)) {
      onBlas(r, m, n, k, x, b.data<float>(), sums);
      return storeResult(r, m, n, sums, {}, out);
    }
    if (transa && m > 1) x = transposed(r, x, m, k, room);
    if (transb) {
      const ValueFormat format{storageOf(b.dtype())};
      const int64_t item = format.itemBytes();
      auto load = [&](int64_t column, int64_t first, int64_t end, float* to) {
        loadValues(format, b.data<std::byte>() + (column * k + first) * item, end - first, to);
      };
      multiplyColumns(m, n, k, x, load, sums, hostThreads(r));
    } else {
      multiplyRows({storageOf(b.dtype()), b.data<std::byte>(), k, n}, m, x, nullptr, sums, hostThreads(r));
    }
    storeResult(r, m, n, sums, {static_cast<float>(alpha)}, out);
  }

  std::string decompose(const tsc::Tensors& t) const {
    GraphText g;
    ValueText a = g.input("A"), b = g.input("B");
    tsc_dtype given = t.input(0).dtype();
    if (given != TSC_F64 && given != TSC_F32) a = g.toFloat(a), b = g.toFloat(b);
    ValueText y = g.op("aten::tensordot", {a, b, g.ints({transa ? 0 : -1}), g.ints({transb ? -1 : 0})});
    if (alpha != 1) y = g.mul(y, alpha);
    return g.finish({g.to(y, resultOf(given))});
  }

 private:
  tsc_dtype resultOf(tsc_dtype given) const { return type == TSC_NONE ? given : type; }

  // Pieces of the result, each by one thread.
  template <class T>
  void onBlas(const tsc::Run& r, int64_t m, int64_t n, int64_t k, const T* a, const T* b, T* c) const {
    const int64_t rowPieces = std::clamp<int64_t>(m / 64, 1, 16), columnPieces = std::clamp<int64_t>(n / 256, 1, 16);
    const double flops = static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
    parallelFor(rowPieces * columnPieces, flops < 1e6 ? 1 : hostThreads(r), [&](int64_t i) {
      Piece rows = pieceOf(m, rowPieces, i / columnPieces), columns = pieceOf(n, columnPieces, i % columnPieces);
      const T* from = a + rows.begin * (transa ? 1 : k);
      const T* with = b + columns.begin * (transb ? k : 1);
      const int64_t height = rows.end - rows.begin, width = columns.end - columns.begin;
      T* to = c + rows.begin * n + columns.begin;
      if (k == 0) {
        for (int64_t row = 0; row < height; ++row) std::fill_n(to + row * n, width, T(0));
        return;
      }
      blas::gemm(transa, transb, height, width, k, static_cast<T>(alpha), from, transa ? m : k, with, transb ? k : n,
                 T(0), to, n);
    });
  }

  static const float* transposed(const tsc::Run& r, const float* x, int64_t m, int64_t k, Room& room) {
    float* to = room.take<float>(m * k);
    r.parallelFor(static_cast<size_t>(m), 16, [&](size_t begin, size_t end) {
      for (int64_t i = 0; i < k; ++i)
        for (auto row = static_cast<int64_t>(begin); row < static_cast<int64_t>(end); ++row)
          to[row * k + i] = x[i * m + row];
    });
    return to;
  }
};

}  // namespace

const tsc_plugin* makeGemm() { return tsc::Definition<Gemm>::table(); }

}  // namespace tscompile
