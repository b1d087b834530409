// Products with weights that are stored as integers (WeightStorage::Integers): rows of integers of 16 bits, sums of 32,
// which are exact and so the same on every instruction set.
#pragma once

#include "runtime/kernels/product.h"

#include <algorithm>
#include <cstdint>

namespace tscompile {

// As runTiles, for a product of integers.
void runIntegerTiles(const Product& p, const RowTile* tiles, int64_t tileCount, int64_t firstPanel, int64_t endPanel);

// Rows of A as products read them: floats as they are, or integers that floats hold, of up to 16 bits with their signs.
inline void toElements(const float* from, int64_t count, float* to) { std::copy_n(from, count, to); }
void toElements(const float* from, int64_t count, int16_t* to);

}  // namespace tscompile
