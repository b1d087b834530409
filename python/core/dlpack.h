// The structs of DLPack (github.com/dmlc/dlpack), which are an ABI: how libraries of tensors share memory.
#pragma once

#include "ir/values/dtype.h"

#include <cstdint>
#include <optional>

namespace tscompile::python {

enum : int32_t { kDlCpu = 1 };
enum : uint8_t { kDlInt = 0, kDlUInt = 1, kDlFloat = 2, kDlBfloat = 4, kDlComplex = 5, kDlBool = 6 };
enum : uint64_t { kDlReadOnly = 1 };

struct DlDevice {
  int32_t type, index;
};
struct DlDType {
  uint8_t code, bits;
  uint16_t lanes;
};
struct DlTensor {
  void* data;
  DlDevice device;
  int32_t rank;
  DlDType dtype;
  int64_t* sizes;
  int64_t* strides;  // in elements; null: row-major
  uint64_t byteOffset;
};
// What capsules of the name "dltensor" hold.
struct DlManaged {
  DlTensor tensor;
  void* context;
  void (*drop)(DlManaged*);
};
// "dltensor_versioned".
struct DlManagedVersioned {
  uint32_t major, minor;
  void* context;
  void (*drop)(DlManagedVersioned*);
  uint64_t flags;
  DlTensor tensor;
};

// What the capsule "dlpack_exchange_api" holds that a type has as __dlpack_c_exchange_api__, since DLPack 1.2:
// functions that do without a call of Python. They return 0, or -1 with an error of Python set.
struct DlExchange {
  uint32_t major, minor;
  DlExchange* before;
  int (*allocate)(DlTensor*, DlManagedVersioned**, void*, void (*)(void*, const char*, const char*));
  int (*fromPython)(void* object, DlManagedVersioned** out);
};

// No dtype: it has none of our tensors.
std::optional<DType> dtypeOf(DlDType type);
DlDType dlDTypeOf(DType type);

}  // namespace tscompile::python
