// Identity: a copy. The example that docs/plugins.md explains.
#include "runtime/plugin/plugin_sdk.h"

#include <cstring>

namespace tscompile {
namespace {

size_t itemBytes(tsc_dtype dtype) {
  switch (dtype) {
    case TSC_F64:
    case TSC_I64:
      return 8;
    case TSC_F32:
    case TSC_I32:
      return 4;
    case TSC_F16:
    case TSC_BF16:
    case TSC_I16:
      return 2;
    default:
      return 1;
  }
}

struct Identity {
  static void describe(tsc::Description<Identity>& d) {
    d.key("tensorrt_llm", "Identity", "1", "y = x");
    d.input("x", tsc::kAll, "any sizes");
    d.output("y", tsc::kAll, "as x").sameTypeAs("x");
  }
  static std::string_view example() {
    return "graph(%x : Float(2, 3)):\n  %y : Tensor = tensorrt_llm::Identity(%x)\n  return (%y)\n";
  }
  void shapes(tsc::Shapes& s) const { s.output(0, s.input(0)); }
  void run(tsc::Run& r) const {
    size_t bytes = static_cast<size_t>(r.input(0).numel()) * itemBytes(r.input(0).dtype());
    if (bytes) std::memcpy(r.output(0).data<void>(), r.input(0).data<void>(), bytes);
  }
  std::string decompose(const tsc::Tensors&) const {
    return "graph(%x : Tensor):\n"
           "  %none : NoneType = prim::Constant()\n"
           "  %y : Tensor = aten::clone(%x, %none)\n"
           "  return (%y)\n";
  }
};

}  // namespace

const tsc_plugin* makeIdentity() { return tsc::Definition<Identity>::table(); }

}  // namespace tscompile
