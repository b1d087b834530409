#include "runtime/kernels/sampling/regions.h"

#include "runtime/call/scratch.h"
#include "runtime/call/thread_pool.h"
#include "runtime/kernels/layout.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace tscompile {
namespace {

// What a bin reads along one axis.
struct AxisTap {
  int64_t at;
  float weight;
};

// A bin's samples along one axis are a sum over pixels, as the weights of both axes are multiplied.
class Axis {
 public:
  // `count` samples in each bin. Samples outside of the image count for nothing.
  void setSamples(float start, float bin, int64_t bins, int64_t count, int64_t size) {
    taps_.clear();
    first_.assign(1, 0);
    for (int64_t b = 0; b < bins; ++b) {
      for (int64_t i = 0; i < count && size > 0; ++i)
        addSample(
            start + static_cast<float>(b) * bin + (static_cast<float>(i) + 0.5f) * bin / static_cast<float>(count),
            size);
      first_.push_back(taps_.size());
    }
  }
  const AxisTap* begin(int64_t bin) const { return taps_.data() + first_[static_cast<size_t>(bin)]; }
  const AxisTap* end(int64_t bin) const { return taps_.data() + first_[static_cast<size_t>(bin) + 1]; }

 private:
  void addSample(float v, int64_t size) {
    if (!(v >= -1 && v <= static_cast<float>(size))) return;
    v = std::max(v, 0.0f);
    const auto low = static_cast<int64_t>(v);
    if (low >= size - 1) return add(size - 1, 1);
    const float rest = v - static_cast<float>(low);
    add(low, 1 - rest);
    add(low + 1, rest);
  }
  // Neighbours share pixels.
  void add(int64_t at, float weight) {
    for (size_t k = taps_.size(); k > first_.back() && k + 2 > taps_.size(); --k)
      if (taps_[k - 1].at == at) return void(taps_[k - 1].weight += weight);
    taps_.push_back({at, weight});
  }

  std::vector<AxisTap> taps_;
  std::vector<size_t> first_;
};

// The grid of samples of a region.
struct SampleGrid {
  SampleGrid(const RegionShape& s, const float* region) {
    const bool isPosition = s.pooling == RegionPooling::PositionAlign, keepsSize = s.aligned || isPosition;
    const float offset = keepsSize ? 0.5f : 0.0f;
    left = region[1] * s.scale - offset, top = region[2] * s.scale - offset;
    float width = region[3] * s.scale - offset - left, height = region[4] * s.scale - offset - top;
    if (!keepsSize) width = std::max(width, 1.0f), height = std::max(height, 1.0f);
    binHeight = height / static_cast<float>(s.pooledHeight), binWidth = width / static_cast<float>(s.pooledWidth);
    rows = count(s.ratio, binHeight), columns = count(s.ratio, binWidth);
  }
  static int64_t count(int64_t ratio, float bin) {
    if (ratio > 0) return ratio;
    return bin > 0 ? static_cast<int64_t>(std::ceil(std::min(bin, 0x1p30f))) : 0;
  }
  float left, top, binHeight, binWidth;
  int64_t rows, columns;
};

// Whole pixels [from, to) that a bin reads along one axis; what no image has is clipped.
struct PixelRange {
  int64_t from, to;
  int64_t count() const { return std::max<int64_t>(to - from, 0); }
};
int64_t pixelOf(float v) { return v != v ? 0 : static_cast<int64_t>(std::clamp(static_cast<double>(v), -1e9, 1e9)); }
PixelRange pixelsOf(float from, float to, int64_t offset, int64_t most) {
  auto clip = [&](int64_t v) { return std::clamp<int64_t>(v + offset, 0, std::max<int64_t>(most, 0)); };
  return {clip(pixelOf(std::floor(from))), clip(pixelOf(std::ceil(to)))};
}

// The whole pixels of a region's bins.
struct PixelGrid {
  PixelGrid(const RegionShape& s, const float* region) : shape(s) {
    const int64_t more = s.pooling == RegionPooling::Max;
    auto corner = [&](int i) { return pixelOf(std::round(region[i] * s.scale)); };
    left = corner(1), top = corner(2);
    auto bin = [&](int64_t from, int64_t to, int64_t bins) {
      return static_cast<float>(std::max<int64_t>(to - from + more, 1)) / static_cast<float>(bins);
    };
    binWidth = bin(left, corner(3), s.pooledWidth);
    binHeight = bin(top, corner(4), s.pooledHeight);
  }
  PixelRange rows(int64_t bin) const { return range(bin, binHeight, top, shape.height); }
  PixelRange columns(int64_t bin) const { return range(bin, binWidth, left, shape.width); }

  const RegionShape& shape;
  int64_t left, top;
  float binWidth, binHeight;

 private:
  PixelRange range(int64_t bin, float size, int64_t start, int64_t most) const {
    const float from = static_cast<float>(bin) * size, to = static_cast<float>(bin + 1) * size;
    if (shape.pooling == RegionPooling::Max) return pixelsOf(from, to, start, most);
    // The last row and column of the image are never reached.
    return pixelsOf(from + static_cast<float>(start), to + static_cast<float>(start), 0, most - 1);
  }
};

// Images are read channel by channel, or pixel by pixel where enough of their pixels are wanted.
bool readsPixels(const RegionShape& s) {
  constexpr int64_t kPixelsOfBin = 4, kFewChannels = 8;
  return !s.hasPositions() && s.channels >= kFewChannels &&
         s.regions * s.bins() * kPixelsOfBin >= s.images * s.height * s.width;
}

// Calls read(offset of a pixel, weight) for all that a bin reads.
template <class Read>
void forEachTap(const RegionShape& s, const Axis& rows, const Axis& columns, int64_t bin, Read&& read) {
  const int64_t down = bin / s.pooledWidth, across = bin % s.pooledWidth;
  for (const AxisTap* r = rows.begin(down); r < rows.end(down); ++r)
    for (const AxisTap* c = columns.begin(across); c < columns.end(across); ++c)
      read(r->at * s.width + c->at, r->weight * c->weight);
}

// One region: `image` is [channels][pixels], or [pixels][channels].
void alignRegion(const RegionShape& s, const float* image, const float* region, bool isByPixels, float* out,
                 int32_t* places) {
  const SampleGrid grid(s, region);
  Axis rows, columns;
  rows.setSamples(grid.top, grid.binHeight, s.pooledHeight, grid.rows, s.height);
  columns.setSamples(grid.left, grid.binWidth, s.pooledWidth, grid.columns, s.width);
  const int64_t bins = s.bins(), area = s.height * s.width, made = s.outChannels();
  const bool isPosition = s.hasPositions();
  const auto count = static_cast<float>(std::max<int64_t>(grid.rows * grid.columns, isPosition ? 0 : 1));
  float* sums = threadScratch(made);
  for (int64_t bin = 0; bin < bins; ++bin) {
    std::fill_n(sums, made, 0.0f);
    forEachTap(s, rows, columns, bin, [&](int64_t pixel, float weight) {
      const float* from = image + (isByPixels ? pixel * s.channels : pixel + (isPosition ? bin * area : 0));
      const int64_t step = isPosition ? bins * area : area;
      if (isByPixels)
        for (int64_t c = 0; c < made; ++c) sums[c] += weight * from[c];
      else
        for (int64_t c = 0; c < made; ++c) sums[c] += weight * from[c * step];
    });
    for (int64_t c = 0; c < made; ++c) out[c * bins + bin] = sums[c] / count;
    if (isPosition)
      for (int64_t c = 0; c < made; ++c) places[c * bins + bin] = static_cast<int32_t>(c * bins + bin);
  }
}

void maxOfRegion(const RegionShape& s, const float* image, const float* region, bool isByPixels, float* out,
                 int32_t* places) {
  const PixelGrid grid(s, region);
  const int64_t bins = s.bins(), area = s.height * s.width, step = isByPixels ? 1 : area;
  float* most = threadScratch(2 * s.channels);
  auto* where = reinterpret_cast<int32_t*>(most + s.channels);
  for (int64_t bin = 0; bin < bins; ++bin) {
    const PixelRange rows = grid.rows(bin / s.pooledWidth), columns = grid.columns(bin % s.pooledWidth);
    const bool isEmpty = rows.count() * columns.count() == 0;
    std::fill_n(most, s.channels, isEmpty ? 0.0f : std::numeric_limits<float>::lowest());
    std::fill_n(where, s.channels, -1);
    for (int64_t y = rows.from; y < rows.to; ++y)
      for (int64_t x = columns.from; x < columns.to; ++x) {
        const auto pixel = static_cast<int32_t>(y * s.width + x);
        const float* from = image + pixel * (isByPixels ? s.channels : 1);
        for (int64_t c = 0; c < s.channels; ++c) {
          const float v = from[c * step];
          const bool isLarger = v > most[c];
          where[c] = isLarger ? pixel : where[c];
          most[c] = isLarger ? v : most[c];
        }
      }
    for (int64_t c = 0; c < s.channels; ++c) {
      out[c * bins + bin] = most[c];
      places[c * bins + bin] = where[c];
    }
  }
}

void meansOfPositions(const RegionShape& s, const float* image, const float* region, float* out, int32_t* places) {
  const PixelGrid grid(s, region);
  const int64_t bins = s.bins(), area = s.height * s.width;
  for (int64_t bin = 0; bin < bins; ++bin) {
    const PixelRange rows = grid.rows(bin / s.pooledWidth), columns = grid.columns(bin % s.pooledWidth);
    const int64_t count = rows.count() * columns.count();
    for (int64_t channel = bin; channel < s.channels; channel += bins) {
      float sum = 0;
      for (int64_t y = rows.from; y < rows.to; ++y)
        for (int64_t x = columns.from; x < columns.to; ++x) sum += image[channel * area + y * s.width + x];
      out[channel] = count == 0 ? 0.0f : sum / static_cast<float>(count);
      places[channel] = static_cast<int32_t>(channel);
    }
  }
}

}  // namespace

int64_t strayRegion(const RegionShape& s, const float* regions) {
  constexpr double kMostSamples = 1 << 26;
  const bool samples = s.pooling == RegionPooling::Align || s.pooling == RegionPooling::PositionAlign;
  for (int64_t k = 0; k < s.regions; ++k) {
    const float* region = regions + 5 * k;
    if (!(region[0] >= 0 && region[0] < static_cast<float>(s.images))) return k;
    if (!samples) continue;
    const SampleGrid grid(s, region);
    if (static_cast<double>(grid.rows) * static_cast<double>(grid.columns) > kMostSamples) return k;
  }
  return -1;
}

size_t regionsWorkspace(const RegionShape& s) {
  return readsPixels(s) ? static_cast<size_t>(s.images * s.channels * s.height * s.width) * sizeof(float) : 0;
}

void poolRegions(const RegionShape& s, const float* images, const float* regions, float* out, int32_t* places,
                 void* workspace, int threads) {
  constexpr int64_t kShared = 16 << 10;  // elements; fewer are pooled by one thread
  const int64_t area = s.height * s.width, made = s.outChannels() * s.bins();
  const bool isByPixels = readsPixels(s);
  auto* pixels = static_cast<float*>(workspace);
  if (isByPixels)
    parallelFor(s.images, s.channels * area < kShared ? 1 : threads, [&](int64_t n) {
      interleaveRows(images + n * s.channels * area, area, s.channels, area, pixels + n * s.channels * area);
    });
  parallelFor(s.regions, s.regions * made < kShared ? 1 : threads, [&](int64_t k) {
    const float* region = regions + 5 * k;
    const float* image = (isByPixels ? pixels : images) + static_cast<int64_t>(region[0]) * s.channels * area;
    float* to = out + k * made;
    int32_t* at = places ? places + k * made : nullptr;
    if (s.pooling == RegionPooling::Max)
      maxOfRegion(s, image, region, isByPixels, to, at);
    else if (s.pooling == RegionPooling::PositionMean)
      meansOfPositions(s, image, region, to, at);
    else
      alignRegion(s, image, region, isByPixels, to, at);
  });
}

}  // namespace tscompile
