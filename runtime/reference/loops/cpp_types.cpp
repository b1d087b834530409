#include "runtime/reference/loops/cpp_types.h"

#include "ir/values/error.h"

#include <string>

namespace tscompile {

std::string_view cppName(DType dtype) {
  switch (dtype) {
    case DType::Float32:
      return "float";
    case DType::Float64:
      return "double";
    case DType::Int64:
      return "long int";
    case DType::Int32:
      return "int";
    case DType::Int16:
      return "short int";
    case DType::Int8:
      return "signed char";
    case DType::UInt8:
      return "unsigned char";
    case DType::Float16:
      return "c10::Half";
    case DType::BFloat16:
      return "c10::BFloat16";
    case DType::Complex64:
      return "c10::complex<float>";
    case DType::Complex128:
      return "c10::complex<double>";
    default:
      return pythonName(dtype);
  }
}

void refuseOverflow(DType dtype) {
  const bool isNamed = dtype == DType::UInt8 || dtype == DType::Int8 || dtype == DType::Int16 || dtype == DType::Int64;
  const std::string type = isNamed ? std::string(pythonName(dtype)) + "_t" : std::string(cppName(dtype));
  throw ExecutionError(ErrorKind::Model, "value cannot be converted to type " + type + " without overflow");
}

}  // namespace tscompile
