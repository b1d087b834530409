// A plugin in one file: y = (max(x, 0) * scale)^2 in one pass over the memory. Built with the headers of tscompile
// alone; docs/plugins.md explains it.
//
//   c++ -std=c++20 -O2 -shared -fPIC -I INCLUDE/tscompile squared_relu.cpp -o squared_relu.so
#include "runtime/plugin/plugin_sdk.h"

#include <algorithm>

namespace {

struct SquaredRelu {
  double scale = 1;

  static void describe(tsc::Description<SquaredRelu>& d) {
    d.key("sample", "SquaredRelu", "1", "y = (max(x, 0) * scale)^2");
    d.field("scale", &SquaredRelu::scale, "the factor before the square").range(0, 1e6);
    d.input("x", tsc::kF32, "any sizes");
    d.output("y", tsc::kF32, "as x");
  }
  static std::string_view example() {
    return "graph(%x : Float(8, 16)):\n"
           "  %y : Tensor = sample::SquaredRelu[scale=0.5](%x)\n"
           "  return (%y)\n";
  }

  void shapes(tsc::Shapes& s) const { s.output(0, s.input(0)); }

  void run(tsc::Run& r) const {
    auto x = r.input(0).values<float>();
    auto y = r.output(0).values<float>();
    auto factor = static_cast<float>(scale);
    r.parallelFor(y.size(), 1 << 14, [&](size_t begin, size_t end) {
      for (size_t i = begin; i < end; ++i) {
        float v = std::max(x[i], 0.0f) * factor;
        y[i] = v * v;
      }
    });
  }
};

}  // namespace

TSC_PLUGINS(SquaredRelu)
