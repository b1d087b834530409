// torchvision's operators: overlaps of boxes, pooling of regions of interest, deformable convolutions.
#include "ir/values/size_expression.h"
#include "runtime/call/kernel_call.h"
#include "runtime/engine/layers/operands.h"
#include "runtime/engine/layers/sampling_layer.h"
#include "runtime/ops/call_op.h"
#include "runtime/ops/ops.h"
#include "runtime/reference/dense.h"
#include "runtime/reference/loops/copy.h"
#include "runtime/reference/loops/scalars.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace tscompile {
namespace {

void requireSameType(const InferCall& call, const TensorInfo& a, const TensorInfo& b) {
  call.require(a.dtype == b.dtype || a.dtype == DType::Undefined || b.dtype == DType::Undefined,
               "expected tensors of the same type, got {} and {}", pythonName(a.dtype), pythonName(b.dtype));
}

// ---- nms(dets [n, 4], scores [n], iou_threshold) -> the boxes that are kept, the best first ----

void inferNms(InferCall& call) {
  TensorInfo boxes = call.tensor(0), scores = call.tensor(1);
  requireSameType(call, boxes, scores);
  call.require(!boxes.hasRank || (boxes.rank() == 2 && !differ(boxes.sizes[1], 4)),
               "boxes should be a tensor [n, 4], got sizes {}", dimsText(boxes.sizes));
  call.require(!scores.hasRank || scores.rank() == 1, "scores should be a 1D tensor, got {} dimensions", scores.rank());
  if (boxes.hasRank && scores.hasRank)
    call.require(!differ(boxes.sizes[0], scores.sizes[0]),
                 "boxes and scores should have the same number of elements, got {} and {}", boxes.sizes[0],
                 scores.sizes[0]);
  call.result(DType::Int64, Dims{kUnknownSize});
}

// What a number of this type is greater than if it is greater than the threshold.
template <class T>
T greatestBelow(double threshold) {
  const T t = static_cast<T>(threshold);
  return static_cast<double>(t) > threshold ? std::nextafter(t, -std::numeric_limits<T>::infinity()) : t;
}

template <class T>
std::vector<int64_t> keptBoxes(const T* boxes, const T* scores, int64_t n, double threshold, RunContext& context) {
  std::vector<int64_t> order(static_cast<size_t>(n)), kept;
  std::vector<T> sides[5];  // of the boxes in order: left, top, right, bottom, and the area
  std::iota(order.begin(), order.end(), 0);
  // NaN counts as the greatest.
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return scores[a] != scores[a] ? scores[b] == scores[b] : scores[a] > scores[b];
  });
  for (std::vector<T>& side : sides) side.resize(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    const T* b = boxes + order[i] * 4;
    for (size_t k = 0; k < 4; ++k) sides[k][i] = b[k];
    sides[4][i] = (b[2] - b[0]) * (b[3] - b[1]);
  }
  const T *left = sides[0].data(), *top = sides[1].data(), *right = sides[2].data(), *bottom = sides[3].data(),
          *area = sides[4].data();
  std::vector<uint8_t> suppressed(order.size());
  uint8_t* gone = suppressed.data();
  const auto most = greatestBelow<T>(threshold);
  for (size_t i = 0; i < order.size(); ++i) {
    if (gone[i]) continue;
    kept.push_back(order[i]);
    const T l = left[i], t = top[i], r = right[i], b = bottom[i], a = area[i];
    // All that follow, those that are gone as well: a loop without branches.
    for (size_t j = i + 1; j < order.size(); ++j) {
      const T width = std::max(T(0), std::min(r, right[j]) - std::max(l, left[j]));
      const T height = std::max(T(0), std::min(b, bottom[j]) - std::max(t, top[j]));
      const T common = width * height;
      gone[j] |= static_cast<uint8_t>(common / (a + area[j] - common) > most);
    }
    context.checkInterrupt(static_cast<int64_t>(order.size() - i) * 4);
  }
  return kept;
}

void nmsKernel(KernelCall& call) {
  Tensor boxes = denseTensor(call.tensor(0)), scores = denseTensor(call.tensor(1));
  withFloating(boxes.dtype(), [&](auto sample) {
    using T = decltype(sample);
    std::vector<int64_t> kept =
        keptBoxes(boxes.data<T>(), scores.data<T>(), boxes.size(0), call.number(2), call.context());
    call.setResult(Tensor::of<int64_t>(Dims{static_cast<int64_t>(kept.size())}, kept));
  });
}

// ---- box_iou_rotated(boxes [n, 5], boxes [m, 5]) -> [n, m]; a box is its center, width, height, and degrees ----

void inferRotatedIou(InferCall& call) {
  TensorInfo a = call.tensor(0), b = call.tensor(1);
  Dims sizes;
  for (const TensorInfo& boxes : {a, b}) {
    call.require(!boxes.hasRank || (boxes.rank() == 2 && !differ(boxes.sizes[1], 5)),
                 "boxes should be a tensor [n, 5], got sizes {}", dimsText(boxes.sizes));
    sizes.push_back(boxes.hasRank ? boxes.sizes[0] : kUnknownSize);
  }
  requireSameType(call, a, b);
  call.result(DType::Float32, sizes);
}

struct Point {
  double x, y;
  Point operator-(Point p) const { return {x - p.x, y - p.y}; }
  double cross(Point p) const { return x * p.y - p.x * y; }
};

// Around `middle`, against the clock where y goes up.
std::vector<Point> corners(const double* box, Point middle) {
  const double angle = box[4] * M_PI / 180, x = box[0] - middle.x, y = box[1] - middle.y;
  const Point half{std::cos(angle) * box[2] / 2, -std::sin(angle) * box[2] / 2};
  const Point up{std::sin(angle) * box[3] / 2, std::cos(angle) * box[3] / 2};
  return {{x + half.x + up.x, y + half.y + up.y},
          {x - half.x + up.x, y - half.y + up.y},
          {x - half.x - up.x, y - half.y - up.y},
          {x + half.x - up.x, y + half.y - up.y}};
}

// What of a convex polygon lies left of the line: a step of Sutherland and Hodgman's clipping.
std::vector<Point> leftOf(Point from, Point to, const std::vector<Point>& polygon) {
  std::vector<Point> kept;
  for (size_t i = 0; i < polygon.size(); ++i) {
    const Point a = polygon[i], b = polygon[(i + 1) % polygon.size()];
    const double left = (to - from).cross(a - from), next = (to - from).cross(b - from);
    if (left >= 0) kept.push_back(a);
    if ((left < 0) == (next < 0)) continue;
    const double t = left / (left - next);
    kept.push_back({a.x + t * (b.x - a.x), a.y + t * (b.y - a.y)});
  }
  return kept;
}

double areaOf(const std::vector<Point>& polygon) {
  double twice = 0;
  for (size_t i = 2; i < polygon.size(); ++i) twice += (polygon[i - 1] - polygon[0]).cross(polygon[i] - polygon[0]);
  return std::abs(twice) / 2;
}

double rotatedIou(const double* a, const double* b) {
  constexpr double kNoArea = 1e-14;  // torchvision's
  const double areaA = a[2] * a[3], areaB = b[2] * b[3];
  if (areaA < kNoArea || areaB < kNoArea) return 0;
  if (std::isnan(areaA + areaB)) return areaA + areaB;
  // A box that lies nowhere has nothing in common with any.
  auto isFinite = [](const double* box) {
    return std::all_of(box, box + 5, [](double v) { return std::isfinite(v); });
  };
  if (!isFinite(a) || !isFinite(b)) return 0;
  const Point middle{(a[0] + b[0]) / 2, (a[1] + b[1]) / 2};
  std::vector<Point> common = corners(a, middle), other = corners(b, middle);
  for (size_t i = 0; i < other.size(); ++i) common = leftOf(other[i], other[(i + 1) % other.size()], common);
  const double area = areaOf(common);
  return area / (areaA + areaB - area);
}

void rotatedIouKernel(KernelCall& call) {
  Tensor a = convertTensor(denseTensor(call.tensor(0)), DType::Float64),
         b = convertTensor(denseTensor(call.tensor(1)), DType::Float64);
  Tensor out = Tensor::empty(DType::Float32, Dims{a.size(0), b.size(0)});
  float* to = out.data<float>();
  for (int64_t i = 0; i < a.size(0); ++i) {
    for (int64_t j = 0; j < b.size(0); ++j)
      *to++ = static_cast<float>(rotatedIou(a.data<double>() + i * 5, b.data<double>() + j * 5));
    call.context().checkInterrupt(b.size(0) * 100);
  }
  call.setResult(out);
}

// ---- regions of interest ----

// (input [n, c, h, w], rois [k, 5], scale, pooled height, pooled width, ...), where a region is the index of its image
// and two corners. Position-sensitive pooling has a channel of its own for each bin. kSecond: there are two results.
template <bool kPositions, bool kSecond>
void inferRoi(InferCall& call) {
  TensorInfo x = call.tensor(0), rois = call.tensor(1);
  requireSameType(call, x, rois);
  call.require(!x.hasRank || x.rank() == 4, "the input must have 4 dimensions, not {}", x.rank());
  call.require(!rois.hasRank || (rois.rank() == 2 && !differ(rois.sizes[1], 5)),
               "the regions must be a tensor [k, 5], got sizes {}", dimsText(rois.sizes));
  int64_t height = call.integer(3), width = call.integer(4);
  call.require(height > 0 && width > 0 && height <= INT32_MAX && width <= INT32_MAX,
               "the pooled sizes must be positive, got {}x{}", height, width);
  int64_t channels = x.hasRank ? x.sizes[1] : kUnknownSize;
  if (kPositions) {
    call.require(!isKnownSize(channels) || channels % (height * width) == 0,
                 "the {} channels are not a multiple of the {} bins", channels, height * width);
    channels = floorDiv(SizeExpression::ofSize(channels), height * width).size();
  }
  Dims sizes{rois.hasRank ? rois.sizes[0] : kUnknownSize, channels, height, width};
  call.result(x.dtype, sizes);
  if (kSecond) call.result(DType::Int32, sizes);
}

template <class T>
struct RoiCall {
  explicit RoiCall(const KernelCall& call)
      : call(call),
        input(denseTensor(call.tensor(0))),
        rois(denseTensor(call.tensor(1))),
        scale(static_cast<T>(call.number(2))),
        pooledHeight(call.integer(3)),
        pooledWidth(call.integer(4)),
        channels(input.size(1)),
        height(input.size(2)),
        width(input.size(3)) {}

  const T* roi(int64_t k) const { return rois.data<T>() + k * 5; }
  // The image that region k lies in.
  const T* image(int64_t k) const {
    T index = roi(k)[0];
    call.require(index >= 0 && index < static_cast<T>(input.size(0)), "region {} is of image {}, there are {}", k,
                 static_cast<double>(index), input.size(0));
    return input.data<T>() + static_cast<int64_t>(index) * channels * height * width;
  }

  const KernelCall& call;
  Tensor input, rois;
  T scale;
  int64_t pooledHeight, pooledWidth, channels, height, width;
};

// A sample between pixels: the four around it with their weights; outside of the image it counts for nothing.
template <class T>
struct Sample {
  int64_t at[4] = {};
  T weight[4] = {};
  T of(const T* plane) const {
    return weight[0] * plane[at[0]] + weight[1] * plane[at[1]] + weight[2] * plane[at[2]] + weight[3] * plane[at[3]];
  }
};

template <class T>
Sample<T> sampleAt(T y, T x, int64_t height, int64_t width) {
  if (!(y >= -1 && y <= static_cast<T>(height) && x >= -1 && x <= static_cast<T>(width))) return {};
  auto split = [](T v, int64_t size, int64_t& low, int64_t& high) {
    v = std::max(v, T(0));
    low = static_cast<int64_t>(v);
    if (low >= size - 1) {
      low = high = size - 1;
      return T(0);
    }
    high = low + 1;
    return v - static_cast<T>(low);
  };
  int64_t top, bottom, left, right;
  T down = split(y, height, top, bottom), across = split(x, width, left, right);
  return {{top * width + left, top * width + right, bottom * width + left, bottom * width + right},
          {(1 - down) * (1 - across), (1 - down) * across, down * (1 - across), down * across}};
}

// The grid of samples in each bin of a region.
template <class T>
struct RoiGrid {
  RoiGrid(const RoiCall<T>& roi, int64_t k, T offset, bool atLeastOne, int64_t ratio) {
    const T* r = roi.roi(k);
    left = r[1] * roi.scale - offset, top = r[2] * roi.scale - offset;
    T roiWidth = r[3] * roi.scale - offset - left, roiHeight = r[4] * roi.scale - offset - top;
    if (atLeastOne) roiWidth = std::max(roiWidth, T(1)), roiHeight = std::max(roiHeight, T(1));
    binHeight = roiHeight / static_cast<T>(roi.pooledHeight), binWidth = roiWidth / static_cast<T>(roi.pooledWidth);
    rows = count(ratio, binHeight), columns = count(ratio, binWidth);
    constexpr double kMost = 1 << 26;
    roi.call.require(static_cast<double>(rows) * static_cast<double>(columns) <= kMost,
                     "region {} needs {}x{} samples in each bin", k, rows, columns);
  }
  static int64_t count(int64_t ratio, T bin) {
    if (ratio > 0) return ratio;
    return bin > 0 ? static_cast<int64_t>(std::ceil(std::min(bin, T(1 << 30)))) : 0;
  }
  Sample<T> sample(const RoiCall<T>& roi, int64_t ph, int64_t pw, int64_t i, int64_t j) const {
    T y = top + static_cast<T>(ph) * binHeight + (static_cast<T>(i) + T(0.5)) * binHeight / static_cast<T>(rows);
    T x = left + static_cast<T>(pw) * binWidth + (static_cast<T>(j) + T(0.5)) * binWidth / static_cast<T>(columns);
    return sampleAt(y, x, roi.height, roi.width);
  }
  T left, top, binHeight, binWidth;
  int64_t rows, columns;
};

// Calls f(bin's row, bin's column, flat index of the bin) for all bins of a region.
template <class T, class F>
void forEachBin(const RoiCall<T>& roi, F&& f) {
  for (int64_t ph = 0; ph < roi.pooledHeight; ++ph)
    for (int64_t pw = 0; pw < roi.pooledWidth; ++pw) f(ph, pw, ph * roi.pooledWidth + pw);
}

// ... sampling_ratio, aligned
template <class T>
void alignRegions(const RoiCall<T>& roi, T* out) {
  bool aligned = roi.call.flag(6);
  int64_t bins = roi.pooledHeight * roi.pooledWidth, plane = roi.height * roi.width;
  std::vector<Sample<T>> samples;
  for (int64_t k = 0; k < roi.rois.size(0); ++k, out += roi.channels * bins) {
    const T* image = roi.image(k);
    RoiGrid<T> grid(roi, k, aligned ? T(0.5) : T(0), !aligned, roi.call.integer(5));
    forEachBin(roi, [&](int64_t ph, int64_t pw, int64_t bin) {
      samples.clear();
      for (int64_t i = 0; i < grid.rows && plane; ++i)
        for (int64_t j = 0; j < grid.columns; ++j) samples.push_back(grid.sample(roi, ph, pw, i, j));
      T count = static_cast<T>(std::max<int64_t>(grid.rows * grid.columns, 1));
      for (int64_t c = 0; c < roi.channels; ++c) {
        T sum = 0;
        for (const Sample<T>& s : samples) sum += s.of(image + c * plane);
        out[c * bins + bin] = sum / count;
      }
      roi.call.context().checkInterrupt(static_cast<int64_t>(samples.size()) * (roi.channels * 4 + 8) + 1);
    });
  }
}

// ... sampling_ratio; the second result says which channel a bin was taken from.
template <class T>
void alignPositions(const RoiCall<T>& roi, T* out, int32_t* from) {
  int64_t bins = roi.pooledHeight * roi.pooledWidth, outputs = roi.channels / bins, plane = roi.height * roi.width;
  for (int64_t k = 0; k < roi.rois.size(0); ++k, out += outputs * bins, from += outputs * bins) {
    const T* image = roi.image(k);
    RoiGrid<T> grid(roi, k, T(0.5), false, roi.call.integer(5));
    forEachBin(roi, [&](int64_t ph, int64_t pw, int64_t bin) {
      for (int64_t c = 0; c < outputs; ++c) {
        int64_t channel = c * bins + bin;
        T sum = 0;
        for (int64_t i = 0; i < grid.rows && plane; ++i)
          for (int64_t j = 0; j < grid.columns; ++j) sum += grid.sample(roi, ph, pw, i, j).of(image + channel * plane);
        out[channel] = sum / static_cast<T>(grid.rows * grid.columns);
        from[channel] = static_cast<int32_t>(channel);
        roi.call.context().checkInterrupt(grid.rows * grid.columns * 16 + 1);
      }
    });
  }
}

// Whole pixels from ... to; positions that no image has are clipped.
struct PixelRange {
  int64_t from, to;
};
template <class T>
int64_t pixel(T v) {
  return truncatedInt(std::clamp(static_cast<double>(v), -1e9, 1e9));
}
template <class T>
PixelRange clipped(T from, T to, int64_t offset, int64_t most) {
  auto clip = [&](int64_t v) { return std::clamp<int64_t>(v + offset, 0, std::max<int64_t>(most, 0)); };
  return {clip(pixel(std::floor(from))), clip(pixel(std::ceil(to)))};
}

// The second result says which pixel the maximum is.
template <class T>
void poolRegions(const RoiCall<T>& roi, T* out, int32_t* where) {
  int64_t bins = roi.pooledHeight * roi.pooledWidth, plane = roi.height * roi.width;
  for (int64_t k = 0; k < roi.rois.size(0); ++k, out += roi.channels * bins, where += roi.channels * bins) {
    const T *image = roi.image(k), *r = roi.roi(k);
    auto corner = [&](int i) { return pixel(std::round(r[i] * roi.scale)); };
    int64_t left = corner(1), top = corner(2);
    T binWidth = static_cast<T>(std::max<int64_t>(corner(3) - left + 1, 1)) / static_cast<T>(roi.pooledWidth);
    T binHeight = static_cast<T>(std::max<int64_t>(corner(4) - top + 1, 1)) / static_cast<T>(roi.pooledHeight);
    forEachBin(roi, [&](int64_t ph, int64_t pw, int64_t bin) {
      PixelRange rows = clipped(static_cast<T>(ph) * binHeight, static_cast<T>(ph + 1) * binHeight, top, roi.height);
      PixelRange columns = clipped(static_cast<T>(pw) * binWidth, static_cast<T>(pw + 1) * binWidth, left, roi.width);
      bool empty = rows.to <= rows.from || columns.to <= columns.from;
      for (int64_t c = 0; c < roi.channels; ++c) {
        T most = empty ? T(0) : std::numeric_limits<T>::lowest();
        int64_t place = -1;
        for (int64_t y = rows.from; y < rows.to; ++y)
          for (int64_t x = columns.from; x < columns.to; ++x)
            if (T v = image[c * plane + y * roi.width + x]; v > most) most = v, place = y * roi.width + x;
        out[c * bins + bin] = most;
        where[c * bins + bin] = static_cast<int32_t>(place);
        roi.call.context().checkInterrupt(empty ? 1 : (rows.to - rows.from) * (columns.to - columns.from));
      }
    });
  }
}

template <class T>
void poolPositions(const RoiCall<T>& roi, T* out, int32_t* from) {
  int64_t bins = roi.pooledHeight * roi.pooledWidth, outputs = roi.channels / bins, plane = roi.height * roi.width;
  for (int64_t k = 0; k < roi.rois.size(0); ++k, out += outputs * bins, from += outputs * bins) {
    const T *image = roi.image(k), *r = roi.roi(k);
    auto corner = [&](int i) { return pixel(std::round(r[i] * roi.scale)); };
    int64_t left = corner(1), top = corner(2);
    T binWidth = static_cast<T>(std::max<int64_t>(corner(3) - left, 1)) / static_cast<T>(roi.pooledWidth);
    T binHeight = static_cast<T>(std::max<int64_t>(corner(4) - top, 1)) / static_cast<T>(roi.pooledHeight);
    forEachBin(roi, [&](int64_t ph, int64_t pw, int64_t bin) {
      T y = static_cast<T>(ph) * binHeight + static_cast<T>(top),
        x = static_cast<T>(pw) * binWidth + static_cast<T>(left);
      // The last row and column of the image are never reached.
      PixelRange rows = clipped(y, static_cast<T>(ph + 1) * binHeight + static_cast<T>(top), 0, roi.height - 1);
      PixelRange columns = clipped(x, static_cast<T>(pw + 1) * binWidth + static_cast<T>(left), 0, roi.width - 1);
      bool empty = rows.to <= rows.from || columns.to <= columns.from;
      for (int64_t c = 0; c < outputs; ++c) {
        int64_t channel = c * bins + bin;
        T sum = 0;
        for (int64_t i = rows.from; i < rows.to; ++i)
          for (int64_t j = columns.from; j < columns.to; ++j) sum += image[channel * plane + i * roi.width + j];
        out[channel] = empty ? T(0) : sum / static_cast<T>((rows.to - rows.from) * (columns.to - columns.from));
        from[channel] = static_cast<int32_t>(channel);
        roi.call.context().checkInterrupt(empty ? 1 : (rows.to - rows.from) * (columns.to - columns.from));
      }
    });
  }
}

void roiAlignKernel(KernelCall& call) {
  DenseResult out(call.out());
  withFloating(out.tensor().dtype(), [&](auto sample) {
    using T = decltype(sample);
    alignRegions(RoiCall<T>(call), out.data<T>());
  });
  out.store();
}

enum class Roi { Pool, PositionAlign, PositionPool };
template <Roi kRoi>
void roiKernel(KernelCall& call) {
  DenseResult out(call.out());
  Tensor second = call.out(1);
  withFloating(out.tensor().dtype(), [&](auto sample) {
    using T = decltype(sample);
    constexpr auto kPool = kRoi == Roi::Pool            ? poolRegions<T>
                           : kRoi == Roi::PositionAlign ? alignPositions<T>
                                                        : poolPositions<T>;
    kPool(RoiCall<T>(call), out.data<T>(), second.data<int32_t>());
  });
  out.store();
}

// ---- deform_conv2d(input, weight, offset, mask, bias, stride h, w, padding h, w, dilation h, w, groups,
//                    offset groups, use_mask) ----

struct DeformCall {
  Tensor input, weight, offset, mask, bias;
  int64_t step[2], pad[2], dilation[2], groups, offsetGroups;
};

int64_t deformedSize(const InferCall& call, const TensorInfo& x, const TensorInfo& w, size_t d) {
  const int64_t step = call.integer(5 + d), pad = call.integer(7 + d), dilation = call.integer(9 + d);
  call.require(step > 0 && pad >= 0 && dilation > 0, "stride {}, padding {} and dilation {} make no convolution", step,
               pad, dilation);
  if (!isKnownSize(x.sizes[2 + d]) || !isKnownSize(w.sizes[2 + d])) return kUnknownSize;
  return (x.sizes[2 + d] + 2 * pad - dilation * (w.sizes[2 + d] - 1) - 1) / step + 1;
}

void inferDeform(InferCall& call) {
  TensorInfo x = call.tensor(0), w = call.tensor(1), offset = call.tensor(2), mask = call.tensor(3);
  for (const TensorInfo& t : {x, w, offset})
    call.require(!t.hasRank || t.rank() == 4, "expected 4 dimensions, got sizes {}", dimsText(t.sizes));
  requireSameType(call, x, w);
  requireSameType(call, x, offset);
  const int64_t groups = call.integer(11), offsetGroups = call.integer(12);
  call.require(groups > 0 && offsetGroups > 0, "expected at least one group");
  if (!x.hasRank || !w.hasRank || !offset.hasRank) return call.resultOfUnknownRank(x.dtype);
  const Dims sizes{x.sizes[0], w.sizes[0], deformedSize(call, x, w, 0), deformedSize(call, x, w, 1)};
  call.result(x.dtype, sizes);
  if (!call.isRun()) return;
  const int64_t taps = w.sizes[2] * w.sizes[3];
  call.require(sizes[2] > 0 && sizes[3] > 0, "calculated output size {} is too small", dimsText(sizes));
  call.require(w.sizes[1] * groups == x.sizes[1] && w.sizes[0] % groups == 0 && x.sizes[1] % offsetGroups == 0,
               "the input {} does not fit the weight {} in {} groups", dimsText(x.sizes), dimsText(w.sizes), groups);
  call.require(Dims(offset.sizes) == Dims{sizes[0], offsetGroups * 2 * taps, sizes[2], sizes[3]},
               "the offsets {} do not fit a result {}", dimsText(offset.sizes), dimsText(sizes));
  call.require(!call.flag(13) || Dims(mask.sizes) == Dims{sizes[0], offsetGroups * taps, sizes[2], sizes[3]},
               "the mask {} does not fit a result {}", dimsText(mask.sizes), dimsText(sizes));
  TensorInfo bias = call.tensor(4);
  call.require(Dims(bias.sizes) == Dims{w.sizes[0]}, "expected a bias for each of {} channels, got {}", w.sizes[0],
               dimsText(bias.sizes));
}

// Between four pixels; zeros lie around the image.
template <class T>
T between(const T* image, int64_t height, int64_t width, T y, T x) {
  if (!(y > -1 && y < height && x > -1 && x < width)) return 0;
  const auto top = static_cast<int64_t>(std::floor(y)), left = static_cast<int64_t>(std::floor(x));
  const T down = y - static_cast<T>(top), right = x - static_cast<T>(left);
  auto at = [&](int64_t r, int64_t c) {
    return r >= 0 && r < height && c >= 0 && c < width ? image[r * width + c] : T(0);
  };
  return (1 - down) * (1 - right) * at(top, left) + (1 - down) * right * at(top, left + 1) +
         down * (1 - right) * at(top + 1, left) + down * right * at(top + 1, left + 1);
}

// The pixels that the kernel sees at each place of the result: [channels * taps][area] of image n.
template <class T>
void gatherDeformed(const DeformCall& d, DimSpan out, int64_t n, T* columns) {
  const int64_t channels = d.input.size(1), height = d.input.size(2), width = d.input.size(3);
  const int64_t kernelWidth = d.weight.size(3), taps = d.weight.size(2) * kernelWidth, area = out[2] * out[3];
  for (int64_t c = 0; c < channels; ++c) {
    const int64_t group = c / (channels / d.offsetGroups);
    const T* image = d.input.data<T>() + (n * channels + c) * height * width;
    for (int64_t k = 0; k < taps; ++k) {
      const int64_t tap = (n * d.offsetGroups + group) * taps + k;
      const T *dy = d.offset.data<T>() + 2 * tap * area, *dx = dy + area;
      const T* factors = d.mask.defined() ? d.mask.data<T>() + tap * area : nullptr;
      for (int64_t i = 0; i < area; ++i) {
        const T y = static_cast<T>(i / out[3] * d.step[0] - d.pad[0] + k / kernelWidth * d.dilation[0]) + dy[i];
        const T x = static_cast<T>(i % out[3] * d.step[1] - d.pad[1] + k % kernelWidth * d.dilation[1]) + dx[i];
        *columns++ = (factors ? factors[i] : T(1)) * between(image, height, width, y, x);
      }
    }
  }
}

void deformKernel(KernelCall& call) {
  DeformCall d{.input = denseTensor(call.tensor(0)),
               .weight = denseTensor(call.tensor(1)),
               .offset = denseTensor(call.tensor(2)),
               .mask = call.flag(13) ? denseTensor(call.tensor(3)) : Tensor(),
               .bias = denseTensor(call.tensor(4)),
               .step = {call.integer(5), call.integer(6)},
               .pad = {call.integer(7), call.integer(8)},
               .dilation = {call.integer(9), call.integer(10)},
               .groups = call.integer(11),
               .offsetGroups = call.integer(12)};
  const Dims out = call.spec().sizes;
  if (checkedNumel(out) == 0) return call.setResult(Tensor::empty(call.spec().dtype, out));
  const int64_t area = out[2] * out[3], rows = d.weight.numel() / std::max<int64_t>(out[1], 1);
  std::vector<IValue> images;
  Tensor kernels = invokeTensor(call, "aten::reshape", {d.weight, intList(Dims{d.groups, out[1] / d.groups, rows})});
  for (int64_t n = 0; n < out[0]; ++n) {
    Tensor columns = Tensor::empty(d.input.dtype(), Dims{d.groups, rows, area});
    withFloating(columns.dtype(), [&](auto sample) {
      using T = decltype(sample);
      gatherDeformed<T>(d, out, n, columns.data<T>());
    });
    images.emplace_back(invokeTensor(call, "aten::bmm", {kernels, columns}));
  }
  Tensor all = invokeTensor(call, "aten::stack", {Ref<ListValue>::make(types().tensor, std::move(images)), 0});
  Tensor shaped = invokeTensor(call, "aten::reshape", {all, intList(out)});
  Tensor bias = invokeTensor(call, "aten::reshape", {d.bias, intList(Dims{1, out[1], 1, 1})});
  call.setResult(convertTensor(invokeTensor(call, "aten::add.Tensor", {shaped, bias, 1}), call.spec().dtype));
}

// What the kernel sees becomes channels, and the convolution one of single pixels.
void convertDeform(ConvertCall& call) {
  const Tensor x = call.tensor(0), weight = call.tensor(1), bias = call.tensor(4);
  const bool isModulated = call.flag(13);
  for (size_t i : {0, 1, 2, 3, 4})
    if (!isF32(call.tensor(i)) && (i != 3 || isModulated)) return convertToKernel(call, kNotF32);
  const Dims out = call.spec().sizes;
  if (checkedNumel(out) == 0 || x.numel() == 0 || weight.numel() == 0) return convertToKernel(call, kEmpty);
  if (x.size(2) * x.size(3) > INT32_MAX) return convertToKernel(call, "the images are too large");
  const int64_t taps = weight.size(2) * weight.size(3);
  std::vector<TensorId> inputs{contiguousOperand(call, 0), contiguousOperand(call, 2)};
  if (isModulated) inputs.push_back(contiguousOperand(call, 3));
  const Tensor columns = call.makeTensor(DType::Float32, Dims{out[0], x.size(1) * taps, out[2], out[3]});
  auto& layer = call.add<DeformedColumnsLayer>();
  layer.kernelHeight = weight.size(2);
  layer.kernelWidth = weight.size(3);
  layer.outWidth = out[3];
  layer.offsetGroups = call.integer(12);
  for (size_t d : {0, 1}) {
    layer.step[d] = call.integer(5 + d);
    layer.pad[d] = call.integer(7 + d);
    layer.dilation[d] = call.integer(9 + d);
  }
  layer.inputs = std::move(inputs);
  layer.outputs = {call.idOf(columns)};
  const IValue pixels = call.compute("aten::reshape", {weight, intList(Dims{out[1], weight.size(1) * taps, 1, 1})});
  call.setResult(0, call.compute("aten::conv2d", {columns, pixels, bias, intList(Dims{1, 1}), intList(Dims{0, 0}),
                                                  intList(Dims{1, 1}), call.integer(11)}));
}

}  // namespace

void registerVisionOps(OpRegistry& ops) {
  auto add = [&](std::string_view name, InferFunction infer, KernelFunction kernel, ConvertFunction convert) {
    ops.add({.schema = name, .infer = infer, .kernel = kernel, .convert = convert, .dtypes = kFloatingTypes});
  };
  ops.add({.schema = "torchvision::nms",
           .infer = inferNms,
           .kernel = nmsKernel,
           .dtypes = kFloatingTypes,
           .traits = {Trait::DependsOnElements}});
  ops.add({.schema = "torchvision::box_iou_rotated",
           .infer = inferRotatedIou,
           .kernel = rotatedIouKernel,
           .dtypes = {DType::Float32, DType::Float64}});
  ops.add({.schema = "torchvision::deform_conv2d",
           .infer = inferDeform,
           .kernel = deformKernel,
           .convert = convertDeform,
           .dtypes = {DType::Float16, DType::Float32, DType::Float64}});
  add("torchvision::roi_align", inferRoi<false, false>, roiAlignKernel, convertRegions<RegionPooling::Align>);
  add("torchvision::roi_pool", inferRoi<false, true>, roiKernel<Roi::Pool>, convertRegions<RegionPooling::Max>);
  add("torchvision::ps_roi_align", inferRoi<true, true>, roiKernel<Roi::PositionAlign>,
      convertRegions<RegionPooling::PositionAlign>);
  add("torchvision::ps_roi_pool", inferRoi<true, true>, roiKernel<Roi::PositionPool>,
      convertRegions<RegionPooling::PositionMean>);
}

}  // namespace tscompile
