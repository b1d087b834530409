// The converter as a shared library, for `--custom-converters`.
#include "samples/compiling/flatten.h"

TS_EXTENSIONS(extensions, diagnostics) {
  return extensions.addConverter("aten::flatten.using_ints(Tensor self, int start_dim=0, int end_dim=-1) -> (Tensor)",
                                 convertFlatten, diagnostics);
}
