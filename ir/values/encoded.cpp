#include "ir/values/encoded.h"

#include "ir/support/check.h"
#include "ir/support/file_pages.h"
#include "ir/values/int8.h"

#include <algorithm>
#include <cmath>

namespace tscompile {
namespace {

template <class T>
void widen(const T* from, int64_t count, float* to) {
  for (int64_t i = 0; i < count; ++i) to[i] = static_cast<float>(from[i]);
}

int64_t product(DimSpan sizes) {
  int64_t out = 1;
  for (int64_t s : sizes) out *= s;
  return out;
}

int64_t elementsAfter(const Tensor& t, int axis) { return product(t.sizes().subspan(static_cast<size_t>(axis) + 1)); }

template <class T>
Encoded halved(const Tensor& elements) {
  Tensor values = Tensor::empty(kDTypeOf<T>, elements.sizes());
  for (int64_t i = 0; i < elements.numel(); ++i) values.data<T>()[i] = T(elements.data<float>()[i]);
  return {values, {}};
}

Encoded asInt8(const Tensor& elements, int axis) {
  const int64_t channels = elements.size(axis), inner = elementsAfter(elements, axis);
  const auto* from = elements.data<float>();
  Encoded out{Tensor::empty(DType::Int8, elements.sizes()), Tensor::zeros(DType::Float32, Dims{channels})};
  auto* scales = out.scales.data<float>();
  auto channelOf = [=](int64_t i) { return i / inner % channels; };
  for (int64_t i = 0; i < elements.numel(); ++i)
    scales[channelOf(i)] = std::max(scales[channelOf(i)], std::fabs(from[i]));
  for (int64_t c = 0; c < channels; ++c) scales[c] = int8Scale(scales[c]);
  for (int64_t i = 0; i < elements.numel(); ++i)
    out.values.data<int8_t>()[i] = toInt8(from[i] * (1.0f / scales[channelOf(i)]));
  return out;
}

}  // namespace

EncodedElements::EncodedElements(Tensor values, Tensor scales, int axis)
    : values_(std::move(values)), scales_(std::move(scales)) {
  TS_CHECK(values_.isContiguous() && (values_.dtype() == DType::Int8) == scales_.defined());
  if (!scales_.defined()) return;
  TS_CHECK(scales_.isContiguous() && scales_.numel() == values_.size(axis));
  inner_ = elementsAfter(values_, axis);
}

void EncodedElements::decode(int64_t begin, int64_t count, float* to) const {
  switch (values_.dtype()) {
    case DType::Float16:
      return widen(values_.data<Half>() + begin, count, to);
    case DType::BFloat16:
      return widen(values_.data<BFloat16>() + begin, count, to);
    default:
      break;
  }
  // By runs of one channel.
  const auto* from = values_.data<int8_t>();
  const auto* scales = scales_.data<float>();
  for (int64_t i = begin, end = begin + count; i < end;) {
    const int64_t next = std::min(end, (i / inner_ + 1) * inner_);
    const float scale = scales[i / inner_ % scales_.numel()];
    for (; i < next; ++i) *to++ = static_cast<float>(from[i]) * scale;
  }
}

const Tensor& EncodedElements::all() const {
  decoded_.call([this] {
    Tensor decoded = Tensor::empty(DType::Float32, Dims{values_.numel()});
    decode(0, values_.numel(), decoded.data<float>());
    all_ = decoded;
  });
  return all_;
}

void EncodedElements::forget(int64_t begin, int64_t count) const {
  const auto item = static_cast<int64_t>(itemSize(values_.dtype()));
  releaseFilePages(values_.raw() + begin * item, static_cast<size_t>(count * item));
}

Tensor encodedTensor(const Tensor& values, const Tensor& scales, int axis) {
  auto elements = Ref<EncodedElements>::make(values, scales, axis);
  return Tensor::view(DType::Float32, Storage::encoded(*elements), values.sizes(), contiguousStrides(values.sizes()),
                      0);
}

Tensor decodedOnce(const Tensor& t) {
  const EncodedElements* encoding = t.storage()->encoding();
  if (!encoding) return t;
  Tensor decoded = Tensor::empty(DType::Float32, Dims{encoding->values().numel()});
  encoding->decode(0, decoded.numel(), decoded.data<float>());
  return decoded.withGeometry(t.sizes(), t.strides(), t.offset());
}

bool keepsDigits(const Tensor& t, DType storage) {
  constexpr float kHalfInfinity = 65520, kHalfNormal = 0x1p-14f, kBrainInfinity = 0x1.FFp127f;
  if (storage != DType::Float16 && storage != DType::BFloat16) return true;
  const bool isDense = isNonOverlappingAndDense(t.sizes(), t.strides());
  float largest = 0;
  for (int64_t i = 0; i < t.numel(); ++i) {
    const float v = std::fabs(isDense ? t.data<float>()[i] : static_cast<float>(t.real(i)));
    if (std::isfinite(v)) largest = std::max(largest, v);
  }
  if (storage == DType::BFloat16) return largest < kBrainInfinity;
  return largest == 0 || (largest >= kHalfNormal && largest < kHalfInfinity);
}

Encoded encode(const Tensor& elements, DType storage, int axis) {
  TS_CHECK(elements.dtype() == DType::Float32 && elements.isContiguous());
  Encoded out = storage == DType::Int8      ? asInt8(elements, axis)
                : storage == DType::Float16 ? halved<Half>(elements)
                                            : halved<BFloat16>(elements);
  for (const Tensor* t : {&out.values, &out.scales})
    if (t->defined()) t->storage()->makeReadOnly();
  return out;
}

}  // namespace tscompile
