// Makes a network faster: fuses layers, chooses layouts and tactics, packs weights.
#pragma once

#include "runtime/engine/network/engine_options.h"
#include "runtime/engine/network/network.h"
#include "runtime/engine/network/weight_store.h"

#include <string>
#include <vector>

namespace tscompile {

class Calibration;

// Networks that write memory which others see keep their layers.
void optimize(Network& network, WeightStore& store, const EngineOptions& options);

// The steps, in this order. Each leaves a network that computes the same.

// A margin of zeros in front of a convolution becomes padding of that.
void foldMargins(Network& network);
// What nobody reads at the ends of a convolution's result is not computed where its padding reaches so far.
void trimConvolutions(Network& network);
// A scale, a bias, a residual and an activation after a product become a part of it.
void fuseProducts(Network& network);
// softmax(q k^T * scale + mask) v becomes one layer.
void fuseAttention(Network& network);
// What copies and products of batches read of a copy, they read of what that was made of.
void readThroughCopies(Network& network);
// Element-wise layers become one loop.
void fusePointwise(Network& network);
// What is made for one reduction alone is made as it is reduced.
void fuseReductions(Network& network);
// Products of batches read matrices that are picked for them where they are.
void fusePicks(Network& network);
// Products of batches write their results in the order in which they are wanted, and so do loops whose operands lie in
// that order.
void removeCopies(Network& network);
// Convolutions and what stands between them work on blocked activations; reorders where layouts meet.
void assignLayouts(Network& network, const EngineOptions& options);
// Blocked activations are rounded where they are made, if products round them anyway.
void storeLines(Network& network, const EngineOptions& options);
// By layer: the name of the blocked value that it makes, by which the same layer of another plan is known; empty if it
// makes none.
std::vector<std::string> valueNames(const Network& network);
// Puts a layer behind each that makes a blocked value, to note what it is.
void measureRanges(Network& network, Calibration& calibration);
// Parts of a tensor that is joined from them are made where they belong in it.
void joinInPlace(Network& network);
// Parts of a tensor that ends there are replaced where it is.
void writeInPlace(Network& network);

}  // namespace tscompile
