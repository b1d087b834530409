// sum(f(x, ..)) over the last dimensions -> one layer that keeps f(x, ..) in the first level of cache.
#include "runtime/engine/layers/pointwise_layer.h"
#include "runtime/engine/layers/reduction_layer.h"
#include "runtime/engine/optimize/optimize.h"
#include "runtime/engine/optimize/uses.h"

#include <algorithm>
#include <optional>
#include <vector>

namespace tscompile {
namespace {

// Dimensions that all operands walk through with one step each.
struct Walked {
  int64_t size = 1;
  std::vector<int64_t> steps;
};

// Dimensions [first, end), inner ones last, as few as there can be; some of size 1 in front if there are fewer than
// two.
std::vector<Walked> walked(const Dims& sizes, const std::vector<Dims>& strides, size_t first, size_t end) {
  std::vector<Walked> out;
  for (size_t d = first; d < end; ++d) {
    if (sizes[d] == 1) continue;
    Walked next{sizes[d], {}};
    for (const Dims& s : strides) next.steps.push_back(s[d]);
    const bool goesOn = !out.empty() && std::ranges::equal(out.back().steps, next.steps, {}, {},
                                                           [&](int64_t step) { return step * next.size; });
    if (!goesOn) {
      out.push_back(std::move(next));
      continue;
    }
    out.back().size *= next.size;
    out.back().steps = std::move(next.steps);
  }
  while (out.size() < 2) out.insert(out.begin(), {1, std::vector<int64_t>(strides.size())});
  return out;
}

// How the operands of the loop are walked through as rows of what is reduced: rows, and then the elements of each, in
// two loops. Nothing if these are not enough.
std::optional<std::vector<Walked>> rowsOf(const Dims& sizes, const std::vector<Dims>& strides, int64_t count) {
  size_t split = sizes.size();
  int64_t inner = 1;
  while (inner < count && split > 0) inner *= sizes[--split];
  if (inner == count) {
    std::vector<Walked> rows = walked(sizes, strides, 0, split), elements = walked(sizes, strides, split, sizes.size());
    if (rows.size() > 2 || elements.size() > 2) return std::nullopt;
    rows.insert(rows.end(), elements.begin(), elements.end());
    return rows;
  }
  // Rows of another shape, which end within a dimension of this one.
  std::vector<Walked> all = walked(sizes, strides, 0, sizes.size());
  if (all.size() > 2 || all[0].size != 1) return std::nullopt;
  const Walked one{1, std::vector<int64_t>(strides.size())};
  Walked row{all[1].size / count, all[1].steps}, element{count, all[1].steps};
  for (int64_t& step : row.steps) step *= count;
  return std::vector{one, row, one, element};
}

bool fuse(Network& n, NetworkUses& uses, size_t i, ReductionLayer& layer) {
  const TensorId t = layer.inputs[0];
  const size_t before = uses.writer(t);
  if (layer.inner != 1 || layer.count > ReductionLayer::kMostFused || before == NetworkUses::kNobody ||
      uses.soleReader(t) != i || !uses.isWhole(t))
    return false;
  auto* loop = dynamic_cast<PointwiseLayer*>(n.layers[before].get());
  if (!loop || !n[loop->outputs[0]].isFloat() || n[loop->outputs[0]].numel != layer.outer * layer.count) return false;
  // Images are reduced as they are: what comes before may lie in blocks of channels.
  const int rank = n[loop->outputs[0]].rank();
  if (rank == 4 || rank == 5) return false;
  std::vector<Dims> strides;
  for (TensorId id : loop->inputs) strides.push_back(broadcastStrides(n[id], static_cast<size_t>(rank)));
  const std::optional<std::vector<Walked>> rows = rowsOf(n[loop->outputs[0]].sizes, strides, layer.count);
  if (!rows) return false;
  // What is copied from all over the memory is copied faster as a whole.
  if (loop->isCopy() && rows->at(3).steps[0] != 1) return false;
  uses.remove(i);
  layer.program = loop->program;
  layer.inputs = loop->inputs;
  layer.innerRows = rows->at(1).size;
  layer.innerCount = rows->at(3).size;
  for (size_t k = 0; k < layer.inputs.size(); ++k)
    layer.steps.push_back({rows->at(0).steps[k], rows->at(1).steps[k], rows->at(2).steps[k], rows->at(3).steps[k]});
  uses.erase(before);
  uses.add(i);
  return true;
}

}  // namespace

void fuseReductions(Network& network) {
  NetworkUses uses(network);
  for (size_t i = 0; i < network.layers.size(); ++i)
    if (auto* layer = dynamic_cast<ReductionLayer*>(network.layers[i].get())) fuse(network, uses, i, *layer);
  uses.compact();
}

}  // namespace tscompile
