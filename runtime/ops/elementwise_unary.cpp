// Element-wise functions of one tensor.
#include "runtime/ops/ops.h"
#include "runtime/reference/elementwise.h"

namespace tscompile {
namespace {

struct Relu {
  template <class A>
  static auto apply(const A& a) {
    using T = typename A::Scalar;
    // NaN stays NaN.
    return (a < T(0)).select(T(0), a);
  }
};

inline constexpr TileSet kRelu{.f32 = unaryTile<Relu, float>, .f64 = unaryTile<Relu, double>, .i64 = unaryTile<Relu, int64_t>};

}  // namespace

void registerElementwiseUnaryOps(OpRegistry& ops) {
  ops.add({.schema = "aten::relu(Tensor self) -> Tensor",
           .infer = inferSameAsSelf,
           .kernel = unaryKernel<kRelu>,
           .dtypes = kRealTypes,
           .inplace = InPlace::Direct});
}

}  // namespace tscompile
