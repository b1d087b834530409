// Numbers of floating types as f32: what plugins that compute in f32 read and write.
#pragma once

#include "ir/values/dtype.h"
#ifndef TSC_VISIBILITY
#define TSC_VISIBILITY  // we are one library with it
#endif
#include "runtime/plugin/plugin_sdk.h"

#include <string>
#include <string_view>
#include <vector>

namespace tscompile {

inline constexpr uint32_t kFloatsOfPlugins = tsc::kF32 | tsc::kF16 | tsc::kBF16;

// f(T{}) for the type that stores a floating dtype.
template <class F>
void withFloats(tsc_dtype dtype, F&& f) {
  if (dtype == TSC_F16) return f(Half{});
  if (dtype == TSC_BF16) return f(BFloat16{});
  f(float{});
}

inline void loadFloats(const tsc::Tensor& t, int64_t from, int64_t count, float* to) {
  withFloats(t.dtype(), [&]<class T>(T) {
    const T* source = t.data<T>() + from;
    for (int64_t i = 0; i < count; ++i) to[i] = static_cast<float>(source[i]);
  });
}
inline void storeFloats(const float* from, int64_t count, const tsc::Tensor& t, int64_t to) {
  withFloats(t.dtype(), [&]<class T>(T) {
    T* target = t.data<T>() + to;
    for (int64_t i = 0; i < count; ++i) target[i] = T(from[i]);
  });
}

// All of a tensor; where it is f32, without a copy. Null if it is absent.
class Floats {
 public:
  explicit Floats(const tsc::Tensor& t) {
    if (!t.present()) return;
    if (t.dtype() == TSC_F32) {
      data_ = t.data<float>();
      return;
    }
    copy_.resize(static_cast<size_t>(t.numel()));
    loadFloats(t, 0, t.numel(), copy_.data());
    data_ = copy_.data();
  }
  Floats(const Floats&) = delete;
  const float* data() const { return data_; }
  const float& operator[](int64_t i) const { return data_[i]; }

 private:
  std::vector<float> copy_;
  const float* data_ = nullptr;
};

// Room for results: those of an f32 tensor itself, or ones that store() rounds into it.
class FloatResults {
 public:
  explicit FloatResults(const tsc::Tensor& t) : tensor_(t) {
    if (t.dtype() == TSC_F32) {
      data_ = t.data<float>();
      return;
    }
    copy_.resize(static_cast<size_t>(t.numel()));
    data_ = copy_.data();
  }
  FloatResults(const FloatResults&) = delete;
  float* data() const { return data_; }
  void store() const {
    if (!copy_.empty()) storeFloats(data_, static_cast<int64_t>(copy_.size()), tensor_, 0);
  }

 private:
  tsc::Tensor tensor_;
  std::vector<float> copy_;
  float* data_ = nullptr;
};

// An integer of an i32 or i64 tensor.
inline int64_t integerAt(const tsc::Tensor& t, int64_t i) {
  return t.dtype() == TSC_I64 ? t.data<int64_t>()[i] : t.data<int32_t>()[i];
}
inline constexpr uint32_t kIndices = tsc::kI32 | tsc::kI64;

// The field type_id: what results are; "auto": as the first input.
inline constexpr std::string_view kTypeNames = "auto|float32|float16|bfloat16";
inline std::vector<tsc_dtype> typeValues() { return {TSC_NONE, TSC_F32, TSC_F16, TSC_BF16}; }

using Sizes = std::vector<int64_t>;
// Checks of shape functions: the sizes that are expected, -1 for any.
inline void expectShape(const tsc::Shapes& s, const tsc::Shape& shape, std::string_view name, const Sizes& sizes) {
  std::string what(name);
  if (shape.rank() != sizes.size())
    tsc::invalid(what + " has " + std::to_string(shape.rank()) + " dimensions, expected " +
                 std::to_string(sizes.size()));
  for (size_t d = 0; d < sizes.size(); ++d)
    if (sizes[d] >= 0) s.expect(shape.dims[d], sizes[d], "size " + std::to_string(d) + " of " + what);
}
// Two sizes that must be equal where both are known.
inline void expectEqual(const tsc::Shapes& s, const tsc::Dim& a, const tsc::Dim& b, const std::string& what) {
  int64_t size;
  if (b.known(&size)) s.expect(a, size, what);
}

}  // namespace tscompile
