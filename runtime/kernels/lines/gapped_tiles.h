// Tiles that reach over the ends of narrow rows of outputs. A matrix tile takes as long for some of its rows as for
// all; the positions between the end of a row of outputs and the start of the next one are multiplied too, and left
// out.
#pragma once

#include "runtime/kernels/product.h"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace tscompile {

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

}  // namespace tscompile
