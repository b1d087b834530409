// Which channels direct convolution computes together, and of which it sums them.
#pragma once

#include "runtime/call/thread_pool.h"
#include "runtime/kernels/conv.h"
#include "runtime/kernels/layout.h"

#include <algorithm>
#include <cstdint>

namespace tscompile {

// Output channels that are computed together, and the input channels that they see: a group's, if these are whole
// blocks; else one block of outputs, whose weights are zero where an input channel is of another group.
struct Bands {
  int64_t count, panels;  // and panels of each
  int64_t parts;          // of input channels, at most
  int64_t unit = kBlock;  // channels of a part
};
inline bool groupsAreBlocks(const ConvShape& s) {
  return s.groups == 1 || (s.inGroup() % kBlock == 0 && s.outGroup() % kBlock == 0);
}
// Channels of the input that are multiplied together, of blocks that hold so many: less than these where groups share
// a block, so that an output sees little of its neighbours' groups.
inline int64_t partOf(const ConvShape& s, int64_t block = kBlock) {
  constexpr int64_t kHalf = kBlock / 2, kQuarter = kBlock / 4;
  return groupsAreBlocks(s) ? block : s.inGroup() % kHalf == 0 ? kHalf : kQuarter;
}
// Parts of the input channels that a band sees.
inline Piece partsOfBand(const ConvShape& s, int64_t band, int64_t unit) {
  const int64_t parts = (s.inGroup() + unit - 1) / unit;
  if (groupsAreBlocks(s)) return {band * parts, (band + 1) * parts};
  const int64_t last = std::min((band + 1) * kBlock, s.outChannels) - 1;
  return {band * kBlock / s.outGroup() * s.inGroup() / unit,
          ((last / s.outGroup() + 1) * s.inGroup() + unit - 1) / unit};
}
// unit: of partOf().
inline Bands bandsOf(const ConvShape& s, int64_t unit = kBlock) {
  if (groupsAreBlocks(s)) return {s.groups, channelBlocks(s.outGroup()), (s.inGroup() + unit - 1) / unit, unit};
  Bands bands{channelBlocks(s.outChannels), 1, 0, unit};
  for (int64_t band = 0; band < bands.count; ++band) {
    const Piece seen = partsOfBand(s, band, unit);
    bands.parts = std::max(bands.parts, seen.end - seen.begin);
  }
  return bands;
}

// The share of what is computed that is asked for.
inline double usedShare(const ConvShape& s) {
  const Bands bands = bandsOf(s, partOf(s));
  if (groupsAreBlocks(s)) return static_cast<double>(s.outGroup()) / static_cast<double>(bands.panels * kBlock);
  return static_cast<double>(s.outChannels * s.inGroup()) /
         static_cast<double>(bands.count * kBlock * bands.parts * bands.unit);
}

}  // namespace tscompile
