// All tests of this program run dot products of bf16 where the processor has them, be they faster than those of f32 or
// not. Those of operators and of the tool run what users do.
#include "runtime/kernels/line_product.h"

namespace tscompile::test {
namespace {

[[maybe_unused]] const bool kTakesSlowProducts = (takeSlowLineProducts(), true);

}  // namespace
}  // namespace tscompile::test
