// Convolutions and linear layers whose weights are constants, which rewrites change.
#pragma once

#include "passes/algebra/node_rewriting.h"
#include "passes/rewrite/formula.h"

#include <limits>
#include <optional>

namespace tscompile {

bool isConstantTensor(const Value* v);

// A layer with constant weights whose result nothing but the site uses.
struct WeightedLayer {
  Node* node;
  bool isLinear;
  size_t rank;  // of the weight, whose first dimension is the channels
  int64_t channels;
  Dims sizes;  // of the weight
  Value* weight;
  Value* bias;  // may be None
};

std::optional<WeightedLayer> layerBefore(Site& site, const Value* v);
// The same of a node that others may use too; null: none. Its weight may be a formula of constants, which would be too
// large to be kept.
std::optional<WeightedLayer> layerOf(Site& site, Node* n, bool takesFormulas);
// Whether a value follows from constants by what rewrites of weights make: its sizes.
std::optional<Dims> sizesOfFormula(Site& site, const Value* v);
// Whether the constants that a value follows from are finite, and so is what is made of a few of them.
bool areModerate(Site& site, const Value* v);

// A number that becomes one of the dtype of floats beside it: a constant one, or that of a constant tensor of integers
// without dimensions. Null: none.
Value* asNumber(Site& site, Value* v);

// The layer with another weight and bias.
Value* withWeights(Site& site, const WeightedLayer& l, Value* weight, Value* bias);
// A bias from one number for all channels, or from one for each.
Value* asBias(Site& site, const WeightedLayer& l, Value* v);

// What a batch norm outside of training multiplies each channel with.
Value* scaleOfNorm(Site& site, const Node* norm);

// The least and the greatest magnitude of what is not 0 in a constant.
struct Magnitudes {
  double least = std::numeric_limits<double>::infinity(), greatest = 0;
  bool hasZero = false, isFinite = true;

  void add(double v);
};
std::optional<Magnitudes> magnitudesOf(const Site& site, const Value* v);

}  // namespace tscompile
