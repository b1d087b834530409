#include "runtime/engine/layers/rearrange_layer.h"

#include "runtime/call/thread_pool.h"
#include "runtime/engine/layers/operands.h"
#include "runtime/kernels/layout.h"
#include "runtime/reference/promotion.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <span>
#ifdef __AVX2__
#include <immintrin.h>
#endif

namespace tscompile {

RearrangeLayer::RearrangeLayer(const Node* node, std::string name, const Dims& inSizes,
                               std::vector<std::vector<int64_t>> sources, float filling)
    : Layer(node), name_(std::move(name)), inSizes_(inSizes), sources_(std::move(sources)), filling_(filling) {
  findRuns();
}

void RearrangeLayer::findRuns() {
  unit_ = 1;
  runs_.clear();
  size_t last = sources_.size() - 1;
  for (; last > 0 && keeps(last); --last) unit_ *= inSizes_[last];
  const std::vector<int64_t>& line = sources_[last];
  for (size_t i = 0; i < line.size(); ++i)
    if (runs_.empty() || !runs_.back().take(line[i])) runs_.push_back({static_cast<int64_t>(i), line[i], 1});
  rowFrom_ = inSizes_[last];
  rowTo_ = static_cast<int64_t>(line.size());
  last_ = last;
  findWindows();
  keepsRows_ = true;
  for (size_t d = 0; d < last; ++d) keepsRows_ &= keeps(d);
  strides_.resize(last);
  int64_t stride = 1;
  for (size_t d = last; d-- > 0; stride *= inSizes_[d]) strides_[d] = stride;
}

void RearrangeLayer::findWindows() {
  windows_.clear();
  const std::vector<int64_t>& line = sources_[last_];
  const bool isCopy = runs_.size() == 1 && runs_[0].step == 1;
  if (unit_ != 1 || isCopy || rowFrom_ < kLanes || rowTo_ < kLanes || std::ranges::count(line, kFilling) != 0) return;
  for (int64_t at = 0; at < rowTo_; at += kLanes) {
    Window& w = windows_.emplace_back();
    w.to = std::min(at, rowTo_ - kLanes);
    const std::span sources(line.data() + w.to, kLanes);
    const auto [least, most] = std::ranges::minmax(sources);
    w.isNear = most - least < kLanes;
    if (w.isNear) w.from = std::min(least, rowFrom_ - kLanes);
    for (size_t i = 0; i < sources.size(); ++i) w.lanes[i] = static_cast<int32_t>(sources[i] - w.from);
  }
}

bool RearrangeLayer::Run::take(int64_t source) {
  if (from == kFilling || source == kFilling) {
    if (from != source) return false;
  } else {
    if (count == 1 && source == from - 1) step = -1;
    if (source != from + step * count) return false;
  }
  ++count;
  return true;
}

bool RearrangeLayer::keeps(size_t d) const {
  const std::vector<int64_t>& s = sources_[d];
  for (size_t i = 0; i < s.size(); ++i)
    if (s[i] != static_cast<int64_t>(i)) return false;
  return static_cast<int64_t>(s.size()) == inSizes_[d];
}

bool RearrangeLayer::padsChannels() const {
  if (before.size() < 3 || before[1] < 0 || behind[1] < 0) return false;
  for (size_t d = 0; d < before.size(); ++d)
    if (d != 1 && !keeps(d)) return false;
  return true;
}

bool RearrangeLayer::keepsChannels() const { return sources_.size() > 2 && keeps(0) && keeps(1); }

std::unique_ptr<RearrangeLayer> RearrangeLayer::onBlocks() const {
  Dims sizes = inSizes_;
  std::vector<std::vector<int64_t>> sources = sources_;
  sizes[1] = channelBlocks(sizes[1]);
  sources[1].resize(static_cast<size_t>(sizes[1]));
  sizes.push_back(kBlock);
  std::vector<int64_t>& lanes = sources.emplace_back(static_cast<size_t>(kBlock));
  std::iota(lanes.begin(), lanes.end(), 0);
  auto layer = std::make_unique<RearrangeLayer>(node, name_, sizes, std::move(sources), filling_);
  layer->blocked_ = true;
  layer->inputs = inputs;
  layer->outputs = outputs;
  return layer;
}

// Bytes have what they are filled up with if that is 0, or become the last of their range.
bool RearrangeLayer::takesLines(const Network&, const ProductPrecision&, TensorId, DType dtype) const {
  return blocked_ && (dtype == DType::BFloat16 || filling_ == 0 || std::isinf(filling_));
}

void RearrangeLayer::settle(const Network& network) {
  const NetTensor& in = network[inputs[0]];
  if (!in.elements.isLines()) return;
  // A pixel of a block has its bytes whatever its elements are; there are fewer blocks.
  inSizes_[1] = channelBlocks(in.sizes[1], in.elements.channels());
  sources_[1].resize(static_cast<size_t>(inSizes_[1]));
  findRuns();
  filling_ = wordOf(in.elements, filling_);
}

namespace {
// `source`: the first of the units that are copied, which is the last one in memory.
void copyReversed(const std::byte* source, std::byte* target, int64_t count, size_t unitBytes) {
  auto copyItems = [&](auto item) {
    constexpr auto kBytes = static_cast<int64_t>(sizeof(item));
    for (int64_t i = 0; i < count; ++i) std::memcpy(target + i * kBytes, source - i * kBytes, sizeof(item));
  };
  if (unitBytes == 2) return copyItems(uint16_t());
  if (unitBytes == 4) return copyItems(uint32_t());
  if (unitBytes == 8) return copyItems(uint64_t());
  for (int64_t i = 0; i < count; ++i, source -= unitBytes, target += unitBytes) std::memcpy(target, source, unitBytes);
}

// The parts of complex numbers change places.
void swapPairs(const std::byte* from, std::byte* to, int64_t pairs) {
  for (int64_t i = 0; i < pairs; ++i) {
    uint64_t pair;
    std::memcpy(&pair, from + i * int64_t{sizeof(pair)}, sizeof(pair));
    pair = pair << 32 | pair >> 32;
    std::memcpy(to + i * int64_t{sizeof(pair)}, &pair, sizeof(pair));
  }
}
}  // namespace

void RearrangeLayer::copyWindows(const std::byte* from, std::byte* to) const {
  const auto* source = reinterpret_cast<const int32_t*>(from);
  auto* target = reinterpret_cast<int32_t*>(to);
  for (const Window& w : windows_) {
#ifdef __AVX2__
    if (w.isNear) {
      const __m256i items = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(source + w.from));
      const __m256i lanes = _mm256_load_si256(reinterpret_cast<const __m256i*>(w.lanes.data()));
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(target + w.to), _mm256_permutevar8x32_epi32(items, lanes));
      continue;
    }
#endif
    for (size_t i = 0; i < w.lanes.size(); ++i) target[w.to + static_cast<int64_t>(i)] = source[w.from + w.lanes[i]];
  }
}

void RearrangeLayer::copyRow(const std::byte* from, std::byte* to, size_t unitBytes) const {
  if (from && unitBytes == sizeof(float) && !windows_.empty()) return copyWindows(from, to);
  for (const Run& r : runs_) {
    if (unitBytes == sizeof(float) && r.count == 1) {
      float* one = reinterpret_cast<float*>(to) + r.to;
      if (from && r.from != kFilling)
        std::memcpy(one, from + static_cast<size_t>(r.from) * sizeof(float), sizeof(float));
      else
        *one = filling_;
      continue;
    }
    std::byte* target = to + static_cast<size_t>(r.to) * unitBytes;
    const size_t bytes = static_cast<size_t>(r.count) * unitBytes;
    const std::byte* source = from && r.from != kFilling ? from + static_cast<size_t>(r.from) * unitBytes : nullptr;
    if (source && r.step == 1)
      std::memcpy(target, source, bytes);
    else if (source)
      copyReversed(source, target, r.count, unitBytes);
    else
      std::fill_n(reinterpret_cast<float*>(target), bytes / sizeof(float), filling_);
  }
}

void RearrangeLayer::run(Frame& frame) const {
  const size_t item = blocked_ ? sizeof(float) : itemSize(frame.network()[inputs[0]].dtype);
  const size_t unitBytes = static_cast<size_t>(unit_) * item;
  const std::byte* from = frame.raw(inputs[0]);
  std::byte* to = frame.raw(outputs[0]);
  int64_t rows = 1;
  for (size_t d = 0; d < last_; ++d) rows *= static_cast<int64_t>(sources_[d].size());
  const int64_t bytes = rows * rowTo_ * static_cast<int64_t>(unitBytes);
  const int64_t pieces = std::clamp<int64_t>(bytes >> 16, 1, std::min<int64_t>(rows, 64));
  parallelFor(pieces, bytes < (256 << 10) ? 1 : frame.threads(), [&](int64_t i) {
    const Piece piece = pieceOf(rows, pieces, i);
    if (keepsRows_ && unitBytes == sizeof(float) && sources_[last_] == std::vector<int64_t>{1, 0}) {
      const auto first = static_cast<size_t>(piece.begin) * 2 * sizeof(float);
      return swapPairs(from + first, to + first, piece.end - piece.begin);
    }
    // Rows in a row: those of the last dimension in front.
    const std::vector<int64_t>* near = keepsRows_ ? nullptr : &sources_[last_ - 1];
    const int64_t count = near ? static_cast<int64_t>(near->size()) : rows;
    for (int64_t row = piece.begin; row < piece.end;) {
      int64_t at = 0, rest = row / count;
      bool inside = true;
      for (size_t d = near ? last_ - 1 : 0; d-- > 0;) {
        const auto size = static_cast<int64_t>(sources_[d].size());
        const int64_t source = sources_[d][static_cast<size_t>(rest % size)];
        rest /= size;
        inside &= source != kFilling;
        at += source * strides_[d];
      }
      int64_t i = row % count;
      for (; i < count && row < piece.end; ++i, ++row) {
        const int64_t source = near ? (*near)[static_cast<size_t>(i)] : i;
        const bool isFilling = !inside || source == kFilling;
        copyRow(isFilling ? nullptr : from + static_cast<size_t>((at + source) * rowFrom_) * unitBytes,
                to + static_cast<size_t>(row * rowTo_) * unitBytes, unitBytes);
      }
    }
  });
}

// ---- converters ----

namespace {

// Adds the layer; `sources` has the dimensions of the input.
RearrangeLayer& addRearrangement(ConvertCall& call, std::string name, std::vector<std::vector<int64_t>> sources,
                                 float filling) {
  TensorId input = call.operand(0);
  if (!call.network()[input].contiguous) input = addCopy(call, input);
  TensorId output = call.makeResult();
  auto& layer = call.add<RearrangeLayer>(std::move(name), call.network()[input].sizes, std::move(sources), filling);
  layer.inputs = {input};
  layer.outputs = {output};
  return layer;
}

std::vector<std::vector<int64_t>> unchanged(DimSpan sizes) {
  std::vector<std::vector<int64_t>> sources;
  for (int64_t size : sizes) {
    std::vector<int64_t>& s = sources.emplace_back(static_cast<size_t>(size));
    std::iota(s.begin(), s.end(), 0);
  }
  return sources;
}

// Whether margins that cut off elements leave some to be repeated.
bool leavesRing(int64_t size, int64_t before, int64_t behind) {
  return size > std::max<int64_t>(0, -before) + std::max<int64_t>(0, -behind);
}

// Which element of `size` stands at `i`, which may lie outside, between margins that may be negative.
int64_t elementAt(PadMode mode, int64_t i, int64_t size, int64_t before, int64_t behind) {
  if (i >= 0 && i < size && mode != PadMode::Circular) return i;
  switch (mode) {
    case PadMode::Reflect:
      return i < 0 ? -i : 2 * (size - 1) - i;
    case PadMode::Replicate:
      return i < 0 ? 0 : size - 1;
    case PadMode::Circular: {  // what is cut off is not repeated
      const int64_t first = std::max<int64_t>(0, -before), ring = size - first - std::max<int64_t>(0, -behind);
      return first + ((i - first) % ring + ring) % ring;
    }
    default:
      return RearrangeLayer::kFilling;
  }
}

// Why there is no layer, or nothing.
std::string_view problemOf(const ConvertCall& call) {
  constexpr int64_t kLongest = 1 << 24;  // a table has eight bytes for each index
  Tensor x = call.tensor(0);
  if (x.rank() == 0) return "it has no dimensions";
  auto isLong = [](int64_t size) { return size > kLongest; };
  if (std::ranges::any_of(x.sizes(), isLong) || std::ranges::any_of(call.spec().sizes, isLong))
    return "a dimension has more than 2^24 elements";
  return x.numel() == 0 || checkedNumel(call.spec().sizes).value_or(0) == 0 ? kEmpty : std::string_view();
}

// Of other dtypes than f32: constants before and after it.
void joinMargins(ConvertCall& call, const IValue& value) {
  const Dims pad = call.integers(1);
  if (std::ranges::any_of(pad, [](int64_t n) { return n < 0; }))
    return convertToKernel(call, "it cuts off elements that are not float32");
  Tensor t = call.tensor(0);
  for (size_t i = 0; i < pad.size() / 2; ++i) {
    const int64_t d = t.rank() - 1 - static_cast<int64_t>(i);
    std::vector<Tensor> parts{t};
    for (size_t side : {0, 1}) {
      Dims sizes(t.sizes());
      sizes[static_cast<size_t>(d)] = pad[2 * i + side];
      if (pad[2 * i + side] == 0) continue;
      const Tensor margin = Tensor::empty(t.dtype(), sizes);
      fillTensor(margin, value);
      parts.insert(side ? parts.end() : parts.begin(), margin);
    }
    if (parts.size() > 1) t = call.compute("aten::cat", {tensorList(std::move(parts)), d}).toTensor();
  }
  call.setResult(0, t);
}

}  // namespace

template <PadMode kMode>
void convertPad(ConvertCall& call) {
  Tensor x = call.tensor(0);
  if (std::string_view why = problemOf(call); !why.empty()) return convertToKernel(call, why);
  PadMode mode = kMode;
  if (kMode == PadMode::Named) {
    std::string_view name = call.text(2);
    mode = name == "reflect"     ? PadMode::Reflect
           : name == "replicate" ? PadMode::Replicate
           : name == "circular"  ? PadMode::Circular
                                 : PadMode::Constant;
  }
  constexpr size_t kValue = kMode == PadMode::Named ? 3 : 2;
  const bool hasValue = mode == PadMode::Constant && !call.isNone(kValue);
  if (hasValue && call.argument(kValue).isComplex()) return convertToKernel(call, "the margin is a complex number");
  const double value = hasValue ? call.number(kValue) : 0;
  if (!isInRange(value, x.dtype())) return convertToKernel(call, "the margin is too large for its dtype");
  if (mode == PadMode::Constant && !isF32(x)) return joinMargins(call, hasValue ? call.argument(kValue) : 0);
  const Dims pad = call.integers(1);
  std::vector<std::vector<int64_t>> sources = unchanged(x.sizes());
  Dims before(sources.size(), 0), behind = before;
  bool isMargin = mode == PadMode::Constant && value == 0;
  for (size_t i = 0; i < pad.size() / 2; ++i) {
    const size_t d = sources.size() - 1 - i;
    before[d] = pad[2 * i];
    behind[d] = pad[2 * i + 1];
    if (mode == PadMode::Circular && !leavesRing(x.size(static_cast<int>(d)), before[d], behind[d]))
      return convertToKernel(call, "it cuts off all that could be repeated");
    isMargin &= before[d] >= 0 && behind[d] >= 0;
    const int64_t size = x.size(static_cast<int>(d));
    sources[d].clear();
    for (int64_t at = -pad[2 * i]; at < size + pad[2 * i + 1]; ++at)
      sources[d].push_back(elementAt(mode, at, size, before[d], behind[d]));
  }
  RearrangeLayer& layer = addRearrangement(call, "pad", std::move(sources), static_cast<float>(value));
  if (!isMargin) return;
  layer.before = before;
  layer.behind = behind;
}

template void convertPad<PadMode::Constant>(ConvertCall& call);
template void convertPad<PadMode::Reflect>(ConvertCall& call);
template void convertPad<PadMode::Replicate>(ConvertCall& call);
template void convertPad<PadMode::Circular>(ConvertCall& call);
template void convertPad<PadMode::Named>(ConvertCall& call);

void convertRoll(ConvertCall& call) {
  Tensor x = call.tensor(0);
  if (std::string_view why = problemOf(call); !why.empty()) return convertToKernel(call, why);
  const Dims shifts = call.integers(1), dims = call.integers(2);
  if (dims.empty() || dims.size() != shifts.size()) return convertToKernel(call, "it rolls over all elements");
  std::vector<std::vector<int64_t>> sources = unchanged(x.sizes());
  for (size_t i = 0; i < dims.size(); ++i) {
    int64_t d = dims[i] < 0 ? dims[i] + x.rank() : dims[i];
    if (d < 0 || d >= x.rank()) return convertToKernel(call, "a dimension is none of the tensor's");
    std::vector<int64_t>& s = sources[static_cast<size_t>(d)];
    const auto size = static_cast<int64_t>(s.size());
    std::rotate(s.begin(), s.begin() + (size - (shifts[i] % size + size) % size) % size, s.end());
  }
  addRearrangement(call, "roll", std::move(sources), 0);
}

void convertFlip(ConvertCall& call) {
  Tensor x = call.tensor(0);
  if (std::string_view why = problemOf(call); !why.empty()) return convertToKernel(call, why);
  std::vector<std::vector<int64_t>> sources = unchanged(x.sizes());
  for (int64_t d : call.dims(1, x.rank(), false)) {
    std::vector<int64_t>& s = sources[static_cast<size_t>(d)];
    std::reverse(s.begin(), s.end());
  }
  addRearrangement(call, "flip", std::move(sources), 0);
}

}  // namespace tscompile
