#include "api/binding/foreign_values.h"

#include "ir/values/error.h"

#include <algorithm>

namespace tscompile {

Tensor borrowTensor(DType dtype, DimSpan sizes, DimSpan strides, void* data, bool readOnly, Storage::Release release,
                    void* context) {
  std::optional<int64_t> count = checkedNumel(sizes);
  if (!count || sizes.size() > static_cast<size_t>(kMaxRank))
    throw ExecutionError(ErrorKind::Input, "a tensor cannot have these sizes");
  if (!isSupported(dtype)) throw ExecutionError(ErrorKind::Unsupported, "tensors cannot have this dtype");
  const Dims rowMajor = strides.empty() ? contiguousStrides(sizes) : Dims(strides.begin(), strides.end());
  // Of the elements that lie first and last, relative to `data`.
  int64_t first = 0, last = 0;
  for (size_t d = 0; *count != 0 && d < sizes.size(); ++d) {
    int64_t reach = 0;
    if (__builtin_mul_overflow(sizes[d] - 1, rowMajor[d], &reach) ||
        __builtin_add_overflow(reach < 0 ? first : last, reach, reach < 0 ? &first : &last) ||
        std::max(-first, last) >= kMaxElements)
      throw ExecutionError(ErrorKind::Input, "a tensor cannot have these strides");
  }
  const auto item = static_cast<int64_t>(itemSize(dtype));
  const size_t bytes = *count == 0 ? 0 : static_cast<size_t>((last - first + 1) * item);
  char* begin = static_cast<char*>(data) + first * item;
  Ref<Storage> storage = Storage::borrow(begin, bytes, nullptr, nullptr, readOnly);
  Tensor checked = Tensor::view(dtype, std::move(storage), sizes, rowMajor, -first);
  if (!release) return checked;
  // Nothing can fail any more, so that it is released once.
  return Tensor::view(dtype, Storage::borrow(begin, bytes, release, context, readOnly), sizes, rowMajor, -first);
}

namespace {

TypePtr commonType(const std::vector<IValue>& items) {
  if (items.empty()) return types().tensor;
  TypePtr out = nullptr;
  for (const IValue& v : items) {
    TypePtr type = v.isTensor() ? types().tensor : dynamicType(v);
    out = out ? unifyTypes(out, type) : type;
    if (!out) return types().any;
  }
  return out;
}

bool canBeKey(const IValue& v) {
  return v.isInt() || v.isFloat() || v.isBool() || v.isComplex() || v.isString() || v.isDevice() || v.isTensor() ||
         v.isEnum();
}

}  // namespace

IValue listOf(std::vector<IValue> items) {
  TypePtr element = commonType(items);
  return Ref<ListValue>::make(element, std::move(items));
}

IValue dictOf(std::vector<std::pair<IValue, IValue>> items) {
  std::vector<IValue> keys, values;
  for (const auto& [key, value] : items) {
    if (!canBeKey(key)) throw ExecutionError(ErrorKind::Input, "a dict cannot have such a key");
    keys.push_back(key);
    values.push_back(value);
  }
  auto out = Ref<DictValue>::make(items.empty() ? types().string : commonType(keys), commonType(values));
  for (auto& [key, value] : items) out->set(key, std::move(value));
  return out;
}

}  // namespace tscompile
