// Element-wise functions of two tensors, or a tensor and a number.
#include "runtime/ops/ops.h"
#include "runtime/reference/elementwise.h"

namespace tscompile {
namespace {

struct Add {
  template <class A, class B>
  static auto apply(const A& a, const B& b) { return a + b; }
};

inline constexpr TileSet kAdd{.f32 = binaryTile<Add, float>,
                              .f64 = binaryTile<Add, double>,
                              .i64 = binaryTile<Add, uint64_t>,
                              .c128 = binaryTile<Add, std::complex<double>>};

void addKernel(KernelCall& call) { runBinary(call, kAdd, call.spec().dtype); }

}  // namespace

void registerElementwiseBinaryOps(OpRegistry& ops) {
  ops.add({.schema = "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
           .infer = inferBinary, .kernel = addKernel, .dtypes = kAllTypes, .inplace = InPlace::Direct, .commutative = true});
}

}  // namespace tscompile
