// Blocked activations: [N][C / 16][H][W][16]. Lanes past the last channel hold anything: no kernel lets them through.
// Those of lines: [N][C / channels of a line][H][W][a line].
#pragma once

#include "ir/values/dtype.h"
#include "runtime/kernels/simd.h"

#include <cstdint>
#include <span>

namespace tscompile {

// What the elements of blocked activations are. A pixel's block has 64 bytes whatever they are, so that distances do
// not depend on it.
struct ElementType {
  // Float32; BFloat16 and UInt8 on processors alone that multiply lines of them (line_product.h). Lanes of channels
  // that are not there are finite.
  DType dtype = DType::Float32;
  float scale = 1, zero = 0;  // of UInt8: b stands for (b - zero) * scale

  bool isLines() const { return dtype != DType::Float32; }
  // Channels of a block.
  int64_t channels() const { return dtype == DType::Float32 ? 16 : dtype == DType::BFloat16 ? 32 : 64; }
  bool operator==(const ElementType&) const = default;
};

// A float's bytes that are elements of this type, each the one that stands for the number.
float wordOf(const ElementType& type, float number);

inline int64_t channelBlocks(int64_t channels, int64_t unit = kBlock) { return (channels + unit - 1) / unit; }
// Of so many floats a blocked activation takes the memory; `area` is H * W.
inline int64_t blockedSize(int64_t batch, int64_t channels, int64_t area, const ElementType& type = {}) {
  return batch * channelBlocks(channels, type.channels()) * area * kBlock;
}

// [N][C][area] -> blocked, with zeros past the last channel, and back.
void toBlocked(int64_t batch, int64_t channels, int64_t area, const float* plain, float* blocked, int threads);
void fromBlocked(int64_t batch, int64_t channels, int64_t area, const float* blocked, float* plain, int threads);
// [N][area][C], PyTorch's channels_last, <-> blocked.
void channelsLastToBlocked(int64_t batch, int64_t channels, int64_t area, const float* last, float* blocked,
                           int threads);
void blockedToChannelsLast(int64_t batch, int64_t channels, int64_t area, const float* blocked, float* last,
                           int threads);

// A row of each of some channels, `distance` apart, becomes a row of pixels: [count][channels].
void interleaveRows(const float* rows, int64_t distance, int64_t channels, int64_t count, float* out);

// Channels [from, from + count) of one blocked activation become channels [to, to + count) of another of its type; of
// which all channels are moved to.
struct ChannelMove {
  const float* in;
  int64_t inChannels, from, count, to;
};
void moveChannels(std::span<const ChannelMove> moves, int64_t batch, int64_t outChannels, int64_t area,
                  const ElementType& type, float* out, int threads);

// Some pixels of a blocked image of `area` pixels, `step` pixels apart.
template <class T>
struct BlockedPixels {
  T* image;
  int64_t area, first, step = 1;
};
// Channels [from, from + count) of so many pixels become channels [to, to + count) of others.
void moveLanes(const BlockedPixels<const float>& in, int64_t from, const BlockedPixels<float>& out, int64_t to,
               int64_t count, int64_t pixels, const ElementType& type);
// The lanes of so many pixels behind the last channel become finite.
void fillLanes(const BlockedPixels<float>& out, int64_t channels, int64_t pixels, const ElementType& type);

}  // namespace tscompile
