// Who writes and reads the buffers of a network, kept while layers are fused.
#pragma once

#include "runtime/engine/network/network.h"

#include <algorithm>
#include <vector>

namespace tscompile {

class NetworkUses {
 public:
  static constexpr size_t kNobody = SIZE_MAX;

  explicit NetworkUses(Network& network)
      : network_(network), writer_(network.buffers.size(), kNobody), readers_(network.buffers.size()) {
    for (size_t i = 0; i < network.layers.size(); ++i) add(i);
  }

  size_t writer(TensorId id) const {
    BufferId b = network_[id].buffer;
    return b < writer_.size() ? writer_[b] : kNobody;  // newer buffers are constants
  }
  // The layers that read anything of the tensor's buffer.
  const std::vector<size_t>& readers(TensorId id) const { return readers_[network_[id].buffer]; }
  // The only layer that reads anything of the tensor's buffer; kNobody if there are several or none, or if the caller
  // of the engine sees it.
  size_t soleReader(TensorId id) const {
    const NetBuffer& b = network_.bufferOf(id);
    if (network_[id].buffer >= readers_.size()) return kNobody;
    const std::vector<size_t>& readers = readers_[network_[id].buffer];
    return b.kind == NetBuffer::Kind::Inner && !b.escapes && readers.size() == 1 ? readers[0] : kNobody;
  }
  // Whether nobody needs what is written to the tensor's buffer.
  bool isUnread(TensorId id) const {
    const NetBuffer& b = network_.bufferOf(id);
    return b.kind == NetBuffer::Kind::Inner && !b.escapes && readers_[network_[id].buffer].empty();
  }
  // Whether the tensor is all of its buffer, in row-major order.
  bool isWhole(TensorId id) const {
    const NetTensor& t = network_[id];
    return t.contiguous && t.offset == 0 &&
           static_cast<size_t>(t.numel) * itemSize(t.dtype) == network_.buffers[t.buffer].bytes;
  }

  // The layer at `from` takes the place `to` of another, which is gone.
  void replace(size_t to, size_t from) {
    remove(to);
    remove(from);
    network_.layers[to] = std::move(network_.layers[from]);
    add(to);
  }
  // Around changes of a layer's inputs and outputs.
  void remove(size_t i) {
    const Layer& layer = *network_.layers[i];
    writer_.resize(network_.buffers.size(), kNobody);
    readers_.resize(network_.buffers.size());
    for (TensorId id : layer.inputs) std::erase(readers_[network_[id].buffer], i);
    for (TensorId id : layer.outputs) writer_[network_[id].buffer] = kNobody;
  }
  void add(size_t i) {
    const Layer& layer = *network_.layers[i];
    writer_.resize(network_.buffers.size(), kNobody);
    readers_.resize(network_.buffers.size());
    for (TensorId id : layer.inputs) {
      std::vector<size_t>& readers = readers_[network_[id].buffer];
      if (std::find(readers.begin(), readers.end(), i) == readers.end()) readers.push_back(i);
    }
    for (TensorId id : layer.outputs) writer_[network_[id].buffer] = i;
  }
  void erase(size_t i) {
    remove(i);
    network_.layers[i].reset();
  }
  // Drops the places of layers that are gone. The uses are not valid after it.
  void compact() {
    std::erase_if(network_.layers, [](const auto& layer) { return !layer; });
  }

 private:
  Network& network_;
  std::vector<size_t> writer_;                // by buffer
  std::vector<std::vector<size_t>> readers_;  // by buffer
};

}  // namespace tscompile
