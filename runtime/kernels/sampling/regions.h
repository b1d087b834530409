// Pooling of regions of interest of images, as torchvision has it, in f32.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tscompile {

// Align and PositionAlign take the mean of samples between pixels, Max and PositionMean read whole pixels. Where
// positions count, a bin has channels of its own.
enum class RegionPooling : uint8_t { Align, Max, PositionAlign, PositionMean };

struct RegionShape {
  RegionPooling pooling = RegionPooling::Align;
  int64_t images = 0, channels = 0, height = 0, width = 0;
  int64_t regions = 0, pooledHeight = 1, pooledWidth = 1;
  float scale = 1;
  int64_t ratio = 0;  // samples of a bin along each axis; 0 or less: by its size
  bool aligned = false;

  int64_t bins() const { return pooledHeight * pooledWidth; }
  bool hasPositions() const {
    return pooling == RegionPooling::PositionAlign || pooling == RegionPooling::PositionMean;
  }
  int64_t outChannels() const { return hasPositions() ? channels / bins() : channels; }
};

// The first region that is of no image, or has too many samples; -1 if there is none. Regions are [regions][5]: the
// index of an image and two corners.
int64_t strayRegion(const RegionShape& shape, const float* regions);

// [images][channels][height][width] -> [regions][out channels][pooled height][pooled width]; no region is a stray one.
// `places`, which is null for Align: the pixel that is the largest, or -1; the channel that was read.
size_t regionsWorkspace(const RegionShape& shape);
void poolRegions(const RegionShape& shape, const float* images, const float* regions, float* out, int32_t* places,
                 void* workspace, int threads);

}  // namespace tscompile
