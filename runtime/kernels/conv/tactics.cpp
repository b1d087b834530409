#include "runtime/kernels/conv.h"
#include "runtime/kernels/conv/few_outputs.h"

#include <algorithm>
#include <string_view>

namespace tscompile {

std::span<const ConvTactic* const> convTactics() {
  static const ConvTactic* const kAll[] = {&kDirectConv,  &kFirstLayerConv, &kWinogradConv, &kDepthwiseConv,
                                           &kGroupedConv, &kFewOutputsConv, &kPlanesConv,   &kIm2colConv};
  return kAll;
}

const ConvTactic* findConvTactic(const char* name) {
  for (const ConvTactic* t : convTactics())
    if (std::string_view(t->name) == name) return t;
  return nullptr;
}

std::vector<SeenRows> seenRows(const ConvShape& s) {
  constexpr int64_t kWorthwhile = 4;  // one part of so many: each group of outputs goes over the weights anew
  std::vector<SeenRows> out;
  int64_t outside = 0;
  for (int64_t y = 0; y < s.outHeight(); ++y) {
    Piece kernel = windowInside(y * s.strideHeight - s.padTop, s.kernelHeight, s.dilationHeight, s.inHeight);
    if (kernel.begin >= kernel.end) kernel = {0, 1};  // of margins alone
    outside += s.kernelHeight - (kernel.end - kernel.begin);
    if (out.empty() || out.back().kernel.begin != kernel.begin || out.back().kernel.end != kernel.end)
      out.push_back({{y, y}, kernel});
    ++out.back().outputs.end;
  }
  return outside * kWorthwhile >= s.kernelHeight * s.outHeight() ? out : std::vector<SeenRows>();
}

void runSeen(const ConvShape& s, const Product& p, const std::vector<SeenRows>& seen, const std::vector<RowTile>& tiles,
             Piece range, int64_t firstPanel, int64_t endPanel) {
  const int64_t perRow = p.stepCount / s.kernelHeight;
  const int64_t tilesPerRow = static_cast<int64_t>(tiles.size()) / s.outHeight();
  for (int64_t panel = firstPanel; panel < endPanel; panel += 2)
    for (const SeenRows& part : seen) {
      const int64_t begin = std::max(part.outputs.begin * tilesPerRow, range.begin);
      const int64_t end = std::min(part.outputs.end * tilesPerRow, range.end);
      if (begin >= end) continue;
      Product q = p;
      q.panelDepth = p.depthOf();
      q.steps += part.kernel.begin * perRow;
      q.stepCount = (part.kernel.end - part.kernel.begin) * perRow;
      q.b = static_cast<const char*>(p.b) + panelBytes(part.kernel.begin * perRow * p.depth, p.storage);
      runTiles(q, tiles.data() + begin, end - begin, panel, std::min(panel + 2, endPanel));
    }
}

}  // namespace tscompile
