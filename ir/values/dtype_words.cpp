#include "ir/values/dtype_words.h"

#include "ir/support/text.h"

#include <utility>

namespace tscompile {

std::optional<DType> dtypeFromForeignName(std::string_view word) {
  constexpr std::pair<std::string_view, DType> kWords[] = {
      {"float", DType::Float32},     {"fp32", DType::Float32},    {"single", DType::Float32},
      {"double", DType::Float64},    {"fp64", DType::Float64},    {"half", DType::Float16},
      {"fp16", DType::Float16},      {"bfloat", DType::BFloat16}, {"long", DType::Int64},
      {"int", DType::Int32},         {"short", DType::Int16},     {"char", DType::Int8},
      {"byte", DType::UInt8},        {"boolean", DType::Bool},    {"cfloat", DType::Complex64},
      {"cdouble", DType::Complex128}};
  for (const auto& [name, dtype] : kWords)
    if (name == word) return dtype;
  return std::nullopt;
}

std::string dtypeMeantBy(std::string_view word) {
  if (std::optional<DType> dtype = dtypeFromForeignName(word)) return std::string(shortName(*dtype));
  NearestName nearest(word);
  for (int d = 0; d < kDTypeCount; ++d)
    if (isSupported(static_cast<DType>(d))) {
      nearest.consider(shortName(static_cast<DType>(d)));
      nearest.consider(pythonName(static_cast<DType>(d)));
    }
  return nearest.name();
}

}  // namespace tscompile
