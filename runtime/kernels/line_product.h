// Products of lines: a row of A comes in lines of 64 bytes, 32 bf16 or 64 unsigned bytes, and B as packed weights in
// blocks of 16 such lines (PackedWeights). So the processor's own dot products read them (AVX512-BF16, AVX512-VNNI),
// and its matrix tiles (AMX). Sums of bf16 are f32; sums of bytes are exact in 32 bits.
#pragma once

#include "runtime/kernels/product.h"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace tscompile {

// Whether this machine multiplies them, and faster than f32: BF16, Bytes, or I8, of which rows are brought to bytes by
// a scale.
bool hasLineProducts(WeightStorage storage);
// For tests: from now on those as well that are slower.
void takeSlowLineProducts();
// How many times as fast as products of f32 they are, roughly.
double lineSpeed(WeightStorage storage);

// What the elements of lines are.
struct LineType {
  WeightStorage storage;
  float least = 0;   // Bytes, I8: what a byte of zero stands for
  float factor = 1;  // I8: by which floats become integers

  // For I8 inputs of at most this magnitude; if there is none, because one is infinite or NaN, products are NaN.
  static LineType ofLargest(float largest);
  // For products of inputs of this type, BF16 or Byte.
  static LineType of(const ElementType& type);
  float scale() const;                                           // 1 / factor, or NaN
  int32_t zero() const { return static_cast<int32_t>(-least); }  // the byte that stands for 0

  CacheLine zeros() const;  // each stands for 0
};
// Elements of a line.
constexpr int64_t lineDepth(WeightStorage storage) { return storage == WeightStorage::BF16 ? 32 : 64; }
// Lines of so many elements.
constexpr int64_t linesOf(int64_t depth, WeightStorage storage) {
  return (depth + lineDepth(storage) - 1) / lineDepth(storage);
}

// The most rows of a tile of lines. Past the last row so many as are missing may be read, but are not used.
int maxLineRows();
// Whether a tile takes as long for some rows as for all, and may have gaps.
bool takesWholeTiles();

// The largest magnitude of `rows` rows of `count` floats that lie `distance` apart; NaN if one is infinite or NaN.
float largestOf(const float* from, int64_t rows, int64_t count, int64_t distance);
// `count` floats, `distance` lines apart: as bf16, rounded to nearest, or integers as bytes. What fills up the last
// line is finite; of no floats it is one line.
void toLines(const float* from, int64_t count, const LineType& type, CacheLine* to, int64_t distance);
// A line for each of `pixels` pixels that lie `pixelStride` floats apart: of `channels` channels, at most a line of
// them, in blocks of 16 that lie `blockStride` floats apart. What fills up the lines is finite.
void pixelsToLines(const float* from, int64_t pixels, int64_t pixelStride, int64_t channels, int64_t blockStride,
                   const LineType& type, CacheLine* to);

// Of B in bf16, a step of a panel: sixteen columns that are lines themselves, `distance` lines apart, of which `count`
// are there; or up to 32 rows of up to sixteen floats. Zeros fill it up.
void columnsToStep(const CacheLine* columns, int64_t distance, int64_t count, CacheLine* to);
void rowsToStep(const float* rows, int64_t distance, int64_t count, int64_t columns, CacheLine* to);

// Tiles that reach over the ends of narrow rows of outputs: the positions between the end of a row and the start of the
// next one are multiplied too, and left out (takesWholeTiles()).
//
// Of `height` rows of `width` outputs, `pitch` positions apart, with `a` lines between positions; empty where tiles
// that end with the rows are as good.
std::vector<RowTile> gappedTiles(int64_t height, int64_t width, int64_t pitch, int64_t a, int64_t tileRows);

// Calls finish(run, first row of the tile that is of it) for each piece of a tile whose results lie side by side.
template <class Finish>
void forEachRun(const RowTile& tile, int64_t cRow, Finish&& finish) {
  if (tile.gap == 0) return finish(tile, 0);
  RowTile part = tile;
  for (int row = 0, left = tile.head; row < tile.rows; left = tile.width) {
    part.rows = std::min(left, tile.rows - row);
    finish(part, row);
    part.c += part.rows * cRow;
    row += part.rows + tile.gap;
  }
}

// As runTiles, for a product of lines.
void runLineTiles(const Product& p, const RowTile* tiles, int64_t tileCount, int64_t firstPanel, int64_t endPanel,
                  const Following& following);

}  // namespace tscompile
