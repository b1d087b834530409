#include "frontend/pickle/array_dtypes.h"

#include "ir/values/tensor.h"

#include <algorithm>

namespace tscompile {
namespace {

struct Row {
  std::string_view code;
  DType dtype;
};
constexpr Row kRows[] = {
    {"f2", DType::Float16},   {"f4", DType::Float32},     {"f8", DType::Float64}, {"i1", DType::Int8},
    {"i2", DType::Int16},     {"i4", DType::Int32},       {"i8", DType::Int64},   {"u1", DType::UInt8},
    {"u2", DType::UInt16},    {"u4", DType::UInt32},      {"u8", DType::UInt64},  {"b1", DType::Bool},
    {"c8", DType::Complex64}, {"c16", DType::Complex128},
};

}  // namespace

std::optional<DType> dtypeFromArrayCode(std::string_view code) {
  for (const Row& row : kRows)
    if (row.code == code) return row.dtype;
  return std::nullopt;
}

std::string_view arrayCode(DType dtype) {
  for (const Row& row : kRows)
    if (row.dtype == dtype) return row.code;
  return "";
}

void reverseBytes(std::byte* data, size_t bytes, DType dtype) {
  const size_t unit = isComplex(dtype) ? itemSize(dtype) / 2 : itemSize(dtype);
  for (size_t at = 0; at + unit <= bytes; at += unit) std::reverse(data + at, data + at + unit);
}

Dims columnMajorStrides(DimSpan sizes) {
  const Dims reversed(sizes.rbegin(), sizes.rend());
  Dims strides = contiguousStrides(reversed);
  std::reverse(strides.begin(), strides.end());
  return strides;
}

}  // namespace tscompile
