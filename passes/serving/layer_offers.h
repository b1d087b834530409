// The layers of a language model that there are plugins for: each is offered to its plugin, which takes it or not.
#pragma once

#include "ir/graph/graph.h"
#include "ir/operators/op_registry.h"
#include "ir/support/diagnostics.h"

#include <string>
#include <vector>

namespace tscompile {

struct LayerOffer {
  std::string layer;    // "norm"
  std::string plugin;   // "tensorrt_llm::Rmsnorm"
  std::string refusal;  // the first reason why the plugin did not take it; empty: it did
  std::string node;     // "%x (aten::layer_norm)", what its result is made by
};

// Puts plugins in the place of layers that take several of an engine, and tells of all layers in the order of the
// graph. Attention that is no plugin stayed so because of `noAttention`.
std::vector<LayerOffer> offerLayers(Graph& graph, const OpRegistry& registry, const std::string& noAttention,
                                    Diagnostics& diagnostics);

// A line for each kind of layer with the same answer: how many there are, and the first of them.
std::string offersText(const std::vector<LayerOffer>& offers);

}  // namespace tscompile
