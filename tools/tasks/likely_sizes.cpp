#include "tools/tasks/likely_sizes.h"

#include "api/input_range.h"
#include "api/lower.h"
#include "api/symbolic_ranges.h"

namespace tscompile {

std::string likelySizes(const Module& module, const std::string& method, const std::string& input) {
  constexpr const char* kUsual[] = {"2x3:f32",      "1x3x224x224:f32", "1x9:i64",
                                    "1x64x100:f32", "3:f32",           "1x3x8x64x64:f32"};
  constexpr int64_t kMost = int64_t{1} << 20;
  Diagnostics unheard;
  LowerOptions lowering;
  lowering.method = method;
  Result<Module> lowered = module.lowered(lowering, unheard);
  if (!lowered || !lowered->graph()) return "";
  const Graph& graph = *lowered->graph();
  for (const char* sizes : kUsual) {
    std::optional<InputRange> range = parseInputRange(input + "=" + sizes);
    if (!range) return "";
    for (int64_t& n : range->least) n = 1;
    for (int64_t& n : range->most) n = kMost;
    if (ShapePropagation(graph, lowered->registry(), shapeOptions(graph, {*range}, false)).conflicts().empty())
      return sizes;
  }
  return "";
}

}  // namespace tscompile
