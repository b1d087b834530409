#include "runtime/reference/random.h"

#include <cmath>

namespace tscompile {
namespace {

int significandBits(DType dtype) {
  switch (dtype) {
    case DType::BFloat16:
      return 8;
    case DType::Float16:
      return 11;
    case DType::Float32:
      return 24;
    default:
      return 53;
  }
}

}  // namespace

UnitDraw::UnitDraw(DType dtype)
    : shift_(64 - significandBits(dtype)), scale_(std::ldexp(1.0, -significandBits(dtype))) {}

void drawBernoulli(const Tensor& out, RandomState& random, double probability) {
  drawElements(out, random, [=](RandomState& r) { return r.uniform() < probability; });
}

}  // namespace tscompile
