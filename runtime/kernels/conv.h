// Convolutions in f32: one record per way to run one. 1-d is height 1, 2-d is one frame. Activations are NCHW ("plain")
// or [N][C / 16][H][W][16] ("blocked", see layout.h); volumes have their frames before H. Results do not depend on the
// number of threads.
#pragma once

#include "runtime/call/thread_pool.h"
#include "runtime/kernels/epilogue.h"
#include "runtime/kernels/product.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace tscompile {

// The outermost dimension of a volume.
struct ConvFrames {
  int64_t in = 1, kernel = 1, stride = 1, dilation = 1, padFront = 0, padBack = 0;

  int64_t padded() const { return in + padFront + padBack; }
  int64_t out() const { return (padded() - dilation * (kernel - 1) - 1) / stride + 1; }
};

// Positions of a window from `at` on, `dilation` apart, that lie inside of [0, size).
inline Piece windowInside(int64_t at, int64_t kernel, int64_t dilation, int64_t size) {
  if (at >= 0 && at + (kernel - 1) * dilation < size) return {0, kernel};  // most are, and divisions take time
  int64_t begin = at >= 0 ? 0 : std::min(kernel, (-at + dilation - 1) / dilation);
  int64_t end = at >= size ? 0 : std::min(kernel, (size - at + dilation - 1) / dilation);
  return {begin, std::max(begin, end)};
}

struct ConvShape {
  int64_t batch = 1, groups = 1;
  int64_t inChannels = 0, outChannels = 0;  // of all groups
  int64_t inHeight = 0, inWidth = 0, kernelHeight = 0, kernelWidth = 0;
  int64_t strideHeight = 1, strideWidth = 1, dilationHeight = 1, dilationWidth = 1;
  int64_t padTop = 0, padLeft = 0, padBottom = 0, padRight = 0;
  bool roundsInputs = true;  // ProductPrecision::roundsRows
  float least = 0;           // of weights stored as Bytes: no input is less or more than 255 above
  ElementType input = {};    // of a blocked input; those that are no floats have weights that multiply such lines
  ConvFrames frames = {};
  // The blocked input, or output, lies pixel by pixel instead: [N][H][W][C], of whole blocks of channels.
  bool inByPixels = false, outByPixels = false;

  int64_t outHeight() const {
    return (inHeight + padTop + padBottom - dilationHeight * (kernelHeight - 1) - 1) / strideHeight + 1;
  }
  int64_t outWidth() const {
    return (inWidth + padLeft + padRight - dilationWidth * (kernelWidth - 1) - 1) / strideWidth + 1;
  }
  bool isVolume() const { return frames.in > 1 || frames.kernel > 1; }
  // Elements of a channel, and of a kernel for each of them.
  int64_t inArea() const { return frames.in * inHeight * inWidth; }
  int64_t outArea() const { return frames.out() * outHeight() * outWidth(); }
  int64_t taps() const { return frames.kernel * kernelHeight * kernelWidth; }
  int64_t inGroup() const { return inChannels / groups; }
  int64_t outGroup() const { return outChannels / groups; }
  double flops() const {
    return 2.0 * static_cast<double>(batch * outChannels * outArea()) * static_cast<double>(inGroup() * taps());
  }
};

// Rows of outputs that see the same kernel rows inside of the input.
struct SeenRows {
  Piece outputs, kernel;
};
// None if so few kernel rows lie outside that to leave them out saves nothing.
std::vector<SeenRows> seenRows(const ConvShape& shape);
// The product of these tiles, of each with the kernel rows that it sees; panels by twos, so that all tiles go over
// weights that are in the cache.
void runSeen(const ConvShape& s, const Product& p, const std::vector<SeenRows>& seen, const std::vector<RowTile>& tiles,
             Piece range, int64_t firstPanel, int64_t endPanel);

enum class ActivationLayout : uint8_t { Plain, Blocked };

struct ConvTactic {
  const char* name;
  ActivationLayout input, output;
  bool integers = false;  // takes WeightStorage::Integers, for inputs that are integers in floats
  // Whether this machine multiplies lines with weights stored so, BF16 or Bytes, which it does faster. Bytes: if not,
  // it does not take them. Null: never.
  bool (*lines)(const ConvShape&, WeightStorage) = nullptr;
  bool multipliesLines(const ConvShape& shape, WeightStorage storage) const { return lines && lines(shape, storage); }
  // Whether inputs, and results with what is added to them, may be lines (layout.h) with weights stored so. Null:
  // never.
  bool (*takesLines)(const ConvShape&, WeightStorage, DType) = nullptr;
  bool (*makesLines)(const ConvShape&, WeightStorage, DType) = nullptr;
  // Of a valid shape: channels divide by groups, output sizes are positive.
  bool (*accepts)(const ConvShape&);
  // Microseconds on one thread by a model of the machine; the same everywhere.
  double (*cost)(const ConvShape&);
  int64_t (*packedBytes)(const ConvShape&, WeightStorage);
  // weights: [outChannels][inChannels / groups][kernel's frames][kernelHeight][kernelWidth].
  void (*pack)(const ConvShape&, const float* weights, WeightStorage, void* packed);
  int64_t (*workspace)(const ConvShape&, WeightStorage);  // bytes
  // The epilogue's bias has outChannels values, rounded up to whole blocks where the output is blocked; its residual
  // has the output's layout. Buffers are aligned to 64 bytes.
  void (*run)(const ConvShape&, const float* input, const void* packed, WeightStorage, float* output, const Epilogue&,
              void* workspace, int threads);
  bool keepsKind = false;  // inputs, results and what is added to them are all lines, or none is
  bool (*takesPixels)(const ConvShape&) = nullptr;  // whether inByPixels and outByPixels may be set; null: never
};

// All of them, each there once: a record is known by its address.
std::span<const ConvTactic* const> convTactics();
const ConvTactic* findConvTactic(const char* name);

// The records, each in a file of its own.
extern const ConvTactic kDirectConv;      // blocked -> blocked; every shape, best where groups are whole blocks
extern const ConvTactic kFirstLayerConv;  // plain -> blocked; few input channels
extern const ConvTactic kWinogradConv;    // blocked -> blocked; 3 x 3 in a frame, stride 1; faster and less exact
extern const ConvTactic kDepthwiseConv;   // blocked -> blocked; one channel a group
extern const ConvTactic kGroupedConv;     // blocked -> blocked; 2, 4, 8 or 16 channels a group, in and out
extern const ConvTactic kIm2colConv;      // plain -> plain; every shape of one frame

// In f64, every shape: plain -> plain. weights as above; bias has outChannels values or is null.
void im2colConv(const ConvShape&, const double* input, const double* weights, const double* bias, double* output,
                int threads);

}  // namespace tscompile
