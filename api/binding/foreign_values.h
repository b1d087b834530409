// Values that come from programs in other languages, where a list does not say what its items are.
#pragma once

#include "ir/values/ivalue.h"

#include <string>
#include <utility>
#include <vector>

namespace tscompile {

// A tensor over memory of somebody else. `data` is the element whose indices are all 0; strides count elements, may be
// 0 or negative, and are as many as the sizes, or none: row-major. `release(context)` is called when the last tensor is
// gone, perhaps in another thread. Throws ExecutionError for sizes that cannot be; then `release` is not called.
Tensor borrowTensor(DType dtype, DimSpan sizes, DimSpan strides, void* data, bool readOnly,
                    Storage::Release release = nullptr, void* context = nullptr);

// Containers whose element types are what their items have in common.
IValue listOf(std::vector<IValue> items);
// Throws ExecutionError for keys that no dict can have.
IValue dictOf(std::vector<std::pair<IValue, IValue>> items);

}  // namespace tscompile
