#include "api/shape_options.h"

namespace tscompile {

ShapeOptions shapeOptions(const Graph& graph, const std::vector<InputRange>& ranges, bool largest) {
  ShapeOptions options;
  options.inputs.resize(graph.inputs().size());
  for (const InputRange& r : ranges)
    for (size_t i = 0; i < graph.inputs().size(); ++i) {
      if (graph.input(i)->name() != r.name) continue;
      DType dtype = r.dtype != DType::Undefined ? r.dtype : graph.input(i)->type()->tensor().dtype;
      Dims sizes;
      for (size_t d = 0; d < r.most.size(); ++d)
        sizes.push_back(largest || r.least[d] == r.most[d] ? r.most[d] : kUnknownSize);
      options.inputs[i] = symbolicTensor(dtype == DType::Undefined ? DType::Float32 : dtype, sizes);
    }
  return options;
}

}  // namespace tscompile
