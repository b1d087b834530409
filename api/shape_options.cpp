#include "api/shape_options.h"

#include "api/symbolic_ranges.h"

namespace tscompile {

namespace {
int64_t sizeFor(const InputRange& range, size_t d, bool largest) {
  int64_t most = boundsOf(range, d).most;
  if (largest && most != INT64_MAX) return most;
  return range.least[d] == range.most[d] ? range.most[d] : kUnknownSize;
}
}  // namespace

ShapeOptions shapeOptions(const Graph& graph, const std::vector<InputRange>& ranges, bool largest) {
  ShapeOptions options;
  options.inputs.resize(graph.inputs().size());
  for (const InputRange& r : ranges)
    for (size_t i = 0; i < graph.inputs().size(); ++i) {
      if (graph.input(i)->name() != r.name) continue;
      DType dtype = r.dtype != DType::Undefined ? r.dtype : graph.input(i)->type()->tensor().dtype;
      Dims sizes;
      for (size_t d = 0; d < r.most.size(); ++d) sizes.push_back(sizeFor(r, d, largest));
      options.inputs[i] = symbolicTensor(dtype == DType::Undefined ? DType::Float32 : dtype, sizes);
    }
  return options;
}

}  // namespace tscompile
