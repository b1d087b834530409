#include "runtime/kernels/layout.h"

#include "runtime/call/thread_pool.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

// Included once per instruction set, in this order.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/kernels/layout.cpp"
#include <hwy/foreach_target.h>
#include "runtime/kernels/transpose-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace tscompile {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Run = hn::CappedTag<float, 16>;
inline constexpr int64_t kRun = hn::MaxLanes(Run()), kFour = 4;

// Four floats of a vector at each of some places, kFour blocked pixels apart.
template <class D>
HWY_INLINE void storeFours(D d, hn::Vec<D> v, float* out) {
  if constexpr (hn::MaxLanes(D()) == kFour) {
    hn::StoreU(v, d, out);
  } else {
    const hn::Half<D> half;
    storeFours(half, hn::LowerHalf(half, v), out);
    storeFours(half, hn::UpperHalf(half, v), out + hn::MaxLanes(half) * kBlock);
  }
}
template <class D>
HWY_INLINE hn::Vec<D> loadFours(D d, const float* in) {
  if constexpr (hn::MaxLanes(D()) == kFour) {
    return hn::LoadU(d, in);
  } else {
    const hn::Half<D> half;
    return hn::Combine(d, loadFours(half, in + hn::MaxLanes(half) * kBlock), loadFours(half, in));
  }
}

// Calls body(first of kRun pixels) until all are seen; the last run begins early. Less than one run is left out.
template <class Body>
HWY_INLINE void overRuns(int64_t begin, int64_t end, Body&& body) {
  for (int64_t at = begin; end - begin >= kRun && at < end; at += kRun) body(std::min(at, end - kRun));
}

void toBlockedChunk(const float* plain, int64_t channels, int64_t area, int64_t begin, int64_t end, float* blocked) {
  const Run d;
  overRuns(begin, end, [&](int64_t at) HWY_ATTR {
    for (int64_t first = 0; first < kBlock; first += kFour) {
      auto row = [&](int64_t c) HWY_ATTR { return c < channels ? hn::LoadU(d, plain + c * area + at) : hn::Zero(d); };
      transposedBlocks(d, row(first), row(first + 1), row(first + 2), row(first + 3),
                       [&](int64_t i, auto v) HWY_ATTR { storeFours(d, v, blocked + (at + i) * kBlock + first); });
    }
  });
  for (int64_t at = begin; at < end && end - begin < kRun; ++at) {
    float* out = blocked + at * kBlock;
    for (int64_t c = 0; c < kBlock; ++c) out[c] = c < channels ? plain[c * area + at] : 0.0f;
  }
}

void fromBlockedChunk(const float* blocked, int64_t channels, int64_t area, int64_t begin, int64_t end, float* plain) {
  const Run d;
  overRuns(begin, end, [&](int64_t at) HWY_ATTR {
    for (int64_t first = 0; first < channels; first += kFour) {
      auto pixels = [&](int64_t i) HWY_ATTR { return loadFours(d, blocked + (at + i) * kBlock + first); };
      transposedBlocks(d, pixels(0), pixels(1), pixels(2), pixels(3), [&](int64_t c, auto v) HWY_ATTR {
        if (first + c < channels) hn::StoreU(v, d, plain + (first + c) * area + at);
      });
    }
  });
  for (int64_t at = begin; at < end && end - begin < kRun; ++at)
    for (int64_t c = 0; c < channels; ++c) plain[c * area + at] = blocked[at * kBlock + c];
}

void interleave(const float* rows, int64_t distance, int64_t channels, int64_t count, float* out) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t x = 0;
  auto load = [&](int64_t channel) { return hn::LoadU(d, rows + channel * distance + x); };
  if (channels == 3)
    for (; x + lanes <= count; x += lanes) hn::StoreInterleaved3(load(0), load(1), load(2), d, out + x * 3);
  if (channels == 4)
    for (; x + lanes <= count; x += lanes) hn::StoreInterleaved4(load(0), load(1), load(2), load(3), d, out + x * 4);
  for (; x < count; ++x)
    for (int64_t c = 0; c < channels; ++c) out[x * channels + c] = rows[c * distance + x];
}

}  // namespace HWY_NAMESPACE
}  // namespace tscompile
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tscompile {

float wordOf(const ElementType& type, float number) {
  if (type.dtype == DType::BFloat16) {
    const BFloat16 half(number);
    return std::bit_cast<float>(std::array{half, half});
  }
  if (type.dtype != DType::UInt8) return number;
  // The number comes first, so that a NaN is none.
  const float byte = std::min(std::max(std::nearbyint(number / type.scale + type.zero), 0.0f), 255.0f);
  return std::bit_cast<float>(static_cast<uint32_t>(byte) * 0x01010101u);
}

namespace {

// Calls body(image, block, channels of the block, begin, end) over the whole activation.
template <class Body>
void overBlocks(int64_t batch, int64_t channels, int64_t area, int threads, Body&& body) {
  const int64_t blocks = channelBlocks(channels);
  // Pieces of about 128 KB.
  const int64_t pieces = std::max<int64_t>(1, area / 2048);
  if (batch * blocks * area < 4 * 1024) threads = 1;
  parallelFor(batch * blocks * pieces, threads, [&](int64_t i) {
    int64_t piece = i % pieces, block = i / pieces % blocks, image = i / pieces / blocks;
    Piece range = pieceOf(area, pieces, piece);
    body(image, block, std::min<int64_t>(kBlock, channels - block * kBlock), range.begin, range.end);
  });
}

constexpr int64_t kPixelBytes = kBlock * static_cast<int64_t>(sizeof(float));

// Bytes of neighbouring lanes of some pixels; their number is known as it is compiled, so that each copy is a few
// moves.
template <int kWords>
void copyLanes(const std::byte* in, int64_t inStep, int64_t pixels, std::byte* out, int64_t outStep) {
  for (int64_t p = 0; p < pixels; ++p) std::memcpy(out + p * outStep, in + p * inStep, kWords * sizeof(float));
}
using LaneCopy = void (*)(const std::byte*, int64_t, int64_t, std::byte*, int64_t);
template <int... kCount>
LaneCopy laneCopyOf(int64_t words, std::integer_sequence<int, kCount...>) {
  static constexpr LaneCopy kCopies[] = {copyLanes<kCount + 1>...};
  return kCopies[words - 1];
}

}  // namespace

void moveLanes(const BlockedPixels<const float>& in, int64_t from, const BlockedPixels<float>& out, int64_t to,
               int64_t count, int64_t pixels, const ElementType& type) {
  constexpr int64_t kWord = sizeof(float);
  const int64_t channels = type.channels(), lane = kPixelBytes / channels;
  auto at = [&](auto* image, const auto& of, int64_t channel) {
    return image + (channel / channels * of.area + of.first) * kPixelBytes + channel % channels * lane;
  };
  const auto* source = reinterpret_cast<const std::byte*>(in.image);
  auto* target = reinterpret_cast<std::byte*>(out.image);
  for (int64_t c = 0, run = 0; c < count; c += run) {
    run = std::min({channels - (from + c) % channels, channels - (to + c) % channels, count - c});
    const std::byte* read = at(source, in, from + c);
    std::byte* write = at(target, out, to + c);
    const int64_t bytes = run * lane, inStep = in.step * kPixelBytes, outStep = out.step * kPixelBytes;
    if (bytes % kWord == 0) {
      laneCopyOf(bytes / kWord, std::make_integer_sequence<int, kBlock>())(read, inStep, pixels, write, outStep);
      continue;
    }
    for (int64_t p = 0; p < pixels; ++p)
      std::memcpy(write + p * outStep, read + p * inStep, static_cast<size_t>(bytes));
  }
}

void fillLanes(const BlockedPixels<float>& out, int64_t channels, int64_t pixels, const ElementType& type) {
  const int64_t used = channels % type.channels() * (kPixelBytes / type.channels());
  if (used == 0 || type.dtype != DType::BFloat16) return;
  auto* lanes = reinterpret_cast<std::byte*>(out.image + (channels / type.channels() * out.area + out.first) * kBlock);
  for (int64_t p = 0; p < pixels; ++p)
    std::memset(lanes + p * out.step * kPixelBytes + used, 0, static_cast<size_t>(kPixelBytes - used));
}

void moveChannels(std::span<const ChannelMove> moves, int64_t batch, int64_t outChannels, int64_t area,
                  const ElementType& type, float* out, int threads) {
  const int64_t all = blockedSize(1, outChannels, area, type);
  const int64_t pieces = std::clamp<int64_t>(all / (16 * 1024), 1, area);
  if (batch * all < 32 * 1024) threads = 1;
  parallelFor(batch * pieces, threads, [&](int64_t i) {
    const int64_t image = i / pieces;
    const Piece piece = pieceOf(area, pieces, i % pieces);
    const int64_t pixels = piece.end - piece.begin;
    const BlockedPixels<float> to{out + image * all, area, piece.begin};
    for (const ChannelMove& m : moves)
      moveLanes({m.in + blockedSize(image, m.inChannels, area, type), area, piece.begin}, m.from, to, m.to, m.count,
                pixels, type);
    fillLanes(to, outChannels, pixels, type);
  });
}

void interleaveRows(const float* rows, int64_t distance, int64_t channels, int64_t count, float* out) {
  if (channels == 1) return std::copy_n(rows, count, out), void();
  TS_SIMD(interleave)(rows, distance, channels, count, out);
}

void toBlocked(int64_t batch, int64_t channels, int64_t area, const float* plain, float* blocked, int threads) {
  auto chunk = TS_SIMD(toBlockedChunk);
  overBlocks(batch, channels, area, threads, [=](int64_t n, int64_t block, int64_t count, int64_t begin, int64_t end) {
    chunk(plain + (n * channels + block * kBlock) * area, count, area, begin, end,
          blocked + (n * channelBlocks(channels) + block) * area * kBlock);
  });
}

void fromBlocked(int64_t batch, int64_t channels, int64_t area, const float* blocked, float* plain, int threads) {
  auto chunk = TS_SIMD(fromBlockedChunk);
  overBlocks(batch, channels, area, threads, [=](int64_t n, int64_t block, int64_t count, int64_t begin, int64_t end) {
    chunk(blocked + (n * channelBlocks(channels) + block) * area * kBlock, count, area, begin, end,
          plain + (n * channels + block * kBlock) * area);
  });
}

void channelsLastToBlocked(int64_t batch, int64_t channels, int64_t area, const float* last, float* blocked,
                           int threads) {
  overBlocks(batch, channels, area, threads, [=](int64_t n, int64_t block, int64_t count, int64_t begin, int64_t end) {
    for (int64_t at = begin; at < end; ++at) {
      float* out = blocked + ((n * channelBlocks(channels) + block) * area + at) * kBlock;
      std::memcpy(out, last + (n * area + at) * channels + block * kBlock, static_cast<size_t>(count) * sizeof(float));
      std::memset(out + count, 0, static_cast<size_t>(kBlock - count) * sizeof(float));
    }
  });
}

void blockedToChannelsLast(int64_t batch, int64_t channels, int64_t area, const float* blocked, float* last,
                           int threads) {
  overBlocks(batch, channels, area, threads, [=](int64_t n, int64_t block, int64_t count, int64_t begin, int64_t end) {
    for (int64_t at = begin; at < end; ++at)
      std::memcpy(last + (n * area + at) * channels + block * kBlock,
                  blocked + ((n * channelBlocks(channels) + block) * area + at) * kBlock,
                  static_cast<size_t>(count) * sizeof(float));
  });
}

}  // namespace tscompile
#endif
