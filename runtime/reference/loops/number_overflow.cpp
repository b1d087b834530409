#include "runtime/reference/loops/number_overflow.h"

#include "ir/values/error.h"

#include <string>

namespace tscompile {

void refuseOverflow(DType dtype) {
  std::string type;
  switch (dtype) {
    case DType::UInt8:
    case DType::Int8:
    case DType::Int16:
    case DType::Int64:
      type = std::string(pythonName(dtype)) + "_t";
      break;
    case DType::Int32:
      type = "int";
      break;
    case DType::Float16:
      type = "c10::Half";
      break;
    case DType::BFloat16:
      type = "c10::BFloat16";
      break;
    case DType::Float32:
      type = "float";
      break;
    case DType::Complex64:
      type = "c10::complex<float>";
      break;
    default:
      type = pythonName(dtype);
  }
  throw ExecutionError(ErrorKind::Model, "value cannot be converted to type " + type + " without overflow");
}

}  // namespace tscompile
