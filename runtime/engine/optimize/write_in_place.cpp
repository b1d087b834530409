// A tensor that nobody reads once a part of it is replaced is replaced where it is:
//   %b = write_part(%a, %x)  ->  %b's memory holds %a, and %x is all that is written
// So a buffer that a loop fills row by row is written once, not once for each row, and sums by numbers begin in zeros
// where these are made.
#include "runtime/engine/optimize/optimize.h"
#include "runtime/engine/optimize/uses.h"

namespace tscompile {
namespace {

class InPlaceWriter {
 public:
  explicit InPlaceWriter(Network& network)
      : n_(network), uses_(network), last_(network.buffers.size(), 0), tensorsOf_(network.buffers.size()) {
    for (size_t i = 0; i < n_.layers.size(); ++i) {
      for (TensorId id : n_.layers[i]->inputs) last_[n_[id].buffer] = i;
      for (TensorId id : n_.layers[i]->outputs) last_[n_[id].buffer] = i;
    }
    for (TensorId id = 0; id < n_.tensors.size(); ++id) tensorsOf_[n_[id].buffer].push_back(id);
  }

  void run() {
    for (size_t i = 0; i < n_.layers.size(); ++i)
      if (const Layer& layer = *n_.layers[i]; layer.replacesParts() && endsHere(i, layer))
        move(n_[layer.inputs[0]].buffer, n_[layer.outputs[0]].buffer);
  }

 private:
  // Whether nobody needs what the layer copies after it, and what it replaces parts by does not come from there.
  bool endsHere(size_t i, const Layer& layer) const {
    const TensorId self = layer.inputs[0], out = layer.outputs[0];
    const NetBuffer &from = n_.bufferOf(self), &to = n_.bufferOf(out);
    return from.kind == NetBuffer::Kind::Inner && !from.escapes && to.kind == NetBuffer::Kind::Inner &&
           uses_.isWhole(self) && uses_.isWhole(out) && from.bytes == to.bytes && last_[n_[self].buffer] == i &&
           n_[self].buffer != n_[out].buffer &&
           std::none_of(layer.inputs.begin() + 1, layer.inputs.end(),
                        [&](TensorId id) { return n_[id].buffer == n_[self].buffer; });
  }

  void move(BufferId from, BufferId to) {
    n_.buffers[to].behind = std::max(n_.buffers[to].behind, n_.buffers[from].behind);
    for (TensorId id : tensorsOf_[from]) {
      n_.tensors[id].buffer = to;
      tensorsOf_[to].push_back(id);
    }
    tensorsOf_[from].clear();
  }

  Network& n_;
  NetworkUses uses_;
  std::vector<size_t> last_;                      // by buffer: the last layer that reads or writes it
  std::vector<std::vector<TensorId>> tensorsOf_;  // by buffer
};

}  // namespace

void writeInPlace(Network& network) { InPlaceWriter(network).run(); }

}  // namespace tscompile
