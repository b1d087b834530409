// Blocked activations: [N][C / 16][H][W][16]. Lanes past the last channel hold anything: no kernel lets them through.
#pragma once

#include "runtime/kernels/simd.h"

#include <cstdint>
#include <span>

namespace tscompile {

inline int64_t channelBlocks(int64_t channels) { return (channels + kBlock - 1) / kBlock; }
// Floats of a blocked activation; `area` is H * W.
inline int64_t blockedSize(int64_t batch, int64_t channels, int64_t area) {
  return batch * channelBlocks(channels) * area * kBlock;
}

// [N][C][area] -> blocked, with zeros past the last channel, and back.
void toBlocked(int64_t batch, int64_t channels, int64_t area, const float* plain, float* blocked, int threads);
void fromBlocked(int64_t batch, int64_t channels, int64_t area, const float* blocked, float* plain, int threads);
// [N][area][C], PyTorch's channels_last, <-> blocked.
void channelsLastToBlocked(int64_t batch, int64_t channels, int64_t area, const float* last, float* blocked,
                           int threads);
void blockedToChannelsLast(int64_t batch, int64_t channels, int64_t area, const float* blocked, float* last,
                           int threads);

// Channels [from, from + count) of one blocked activation become channels [to, to + count) of another.
struct ChannelMove {
  const float* in;
  int64_t inChannels, from, count, to;
};
void moveChannels(std::span<const ChannelMove> moves, int64_t batch, int64_t outChannels, int64_t area, float* out,
                  int threads);

}  // namespace tscompile
