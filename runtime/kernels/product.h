// A product of gathered rows and packed panels: what matrix products and convolutions both come down to.
#pragma once

#include "runtime/kernels/epilogue.h"

#include <cstddef>
#include <cstdint>

namespace tscompile {

// How packed panels of weights lie and what rows they multiply; elsewhere a dtype says how numbers are stored, but
// these three all hold int8. I8: one scale per column. Integers and Bytes: weights that are integers of eight bits, for
// rows of integers of sixteen and of unsigned bytes; their sums are exact as long as they stay within 32 bits.
enum class WeightStorage : uint8_t { F32, F16, BF16, I8, Integers, Bytes };
int64_t weightBytes(WeightStorage storage);
// How the constant weights of products are stored, and whether rows may be rounded to their precision (BF16, I8) where
// that is faster.
struct ProductPrecision {
  WeightStorage weights = WeightStorage::F32;
  bool roundsRows = true;
};
// Of a panel of 16 columns; I8 and Bytes have four rows together, BF16 and Integers two.
int64_t panelBytes(int64_t depth, WeightStorage storage);
int64_t rowsTogether(WeightStorage storage);

// Of the elements of a row (line_product.h).
struct alignas(64) CacheLine {
  std::byte bytes[64];
};

// Rows of a product that lie at one stride, in A and in C. Of a tile with gaps only `head` rows have results, then
// after `gap` others `width`, and so on; in C they lie side by side (line_product.h).
struct RowTile {
  int64_t a, c;  // floats from the start
  int rows;      // at most maxTileRows()
  int head = 0, width = 0, gap = 0;
};

// c[row, panel * 16 + lane] = epilogue(sum over s, k of a[row + steps[s] + k] * b[panel, s * depth + k, lane]).
// The last tailSteps steps are only tailDepth deep. B of a panel is contiguous: all steps, then the next panel. I8 has
// its rows in fours: [row / 4][lane][row % 4], Integers in twos; their steps are even in depth, and bias and result are
// integers in floats. A product of lines has one to a step: offsets of A count lines, B has whole blocks of them, and
// depths say how much of a line is used.
struct Product {
  const float* a;
  const int16_t* integers;  // Integers: stands for a
  const CacheLine* lines;   // of BF16 and I8, unless rows are f32, and of Bytes: stands for a
  int64_t rowStride;        // floats, or lines
  const int64_t* steps;
  int64_t stepCount, depth, tailSteps, tailDepth;
  const void* b;
  int64_t panelDepth;  // rows that a panel of B has, the last of which may be left out; 0: depthOf()
  WeightStorage storage;
  const float* scales;     // I8: one a column, in full panels
  const int32_t* sums;     // I8, lines: of the weights of a column, in full panels
  const float* rowScales;  // I8, lines: one a row of row-major results; null: inputScale is that of all
  float inputScale;
  int32_t inputZero;     // I8, lines: the byte that stands for 0
  int64_t columns;       // bias and row-major results have so many; lanes past them are undefined in A's B
  float* c;              // or lines, of which each panel has a part
  int64_t cRow, cPanel;  // floats
  bool paddedColumns;    // results may be written up to a full panel
  Epilogue epilogue;
  int64_t depthOf() const { return (stepCount - tailSteps) * depth + tailSteps * tailDepth; }  // floats of B a column
};

// The most rows that a tile can have on this machine.
int maxTileRows();
// The panel that a thread is likely to go on with, which is fetched meanwhile: all of it, or the part of one of several
// pieces that come before.
inline constexpr int64_t kNoPanel = -1;
struct Following {
  int64_t panel = kNoPanel, piece = 0, pieces = 1;
};
// The product of these rows with panels [firstPanel, endPanel).
void runTiles(const Product& p, const RowTile* tiles, int64_t tileCount, int64_t firstPanel, int64_t endPanel,
              const Following& following = {});
// What p's epilogue does to `rows` rows of a panel, of which `lanes` columns are there, after bias, residual and clamp.
void finishRows(const Product& p, float* c, int rows, int64_t panel, int64_t lanes);
// The activation of p's epilogue alone, on columns [first, end) of `rows` row-major results.
void activateColumns(const Product& p, int64_t rows, int64_t first, int64_t end);

}  // namespace tscompile
