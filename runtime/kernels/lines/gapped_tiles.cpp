#include "runtime/kernels/layout.h"
#include "runtime/kernels/line_product.h"

namespace tscompile {

std::vector<RowTile> gappedTiles(int64_t height, int64_t width, int64_t pitch, int64_t a, int64_t tileRows) {
  const int64_t last = (height - 1) * pitch + width, inRows = height * ((width + tileRows - 1) / tileRows);
  std::vector<RowTile> tiles;
  for (int64_t at = 0; at < last;) {
    const int64_t y = at / pitch, x = at % pitch;
    if (x >= width) {
      at = (y + 1) * pitch;
      continue;
    }
    tiles.push_back({at * a, (y * width + x) * kBlock, static_cast<int>(std::min(tileRows, last - at)),
                     static_cast<int>(width - x), static_cast<int>(width), static_cast<int>(pitch - width)});
    at += tileRows;
  }
  // Results in pieces cost a little.
  constexpr int64_t kWorth = 10;  // per cent
  if (static_cast<int64_t>(tiles.size()) * (100 + kWorth) > inRows * 100) tiles.clear();
  return tiles;
}

}  // namespace tscompile
