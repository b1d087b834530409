#include "frontend/files/tensor_formats.h"

#include "ir/values/error.h"

#include <algorithm>

namespace tscompile {

Result<Tensor> allocateTensor(DType dtype, DimSpan sizes, const std::string& path, Diagnostics& diagnostics) {
  try {
    return Tensor::empty(dtype, sizes);
  } catch (const ExecutionError& e) {
    diagnostics.fileError(path, {}, e.message(), e.kind());
    return Failed{};
  }
}

Tensor readOnlyTensor(DType dtype, DimSpan sizes, std::string_view bytes, const RefCounted* owner) {
  owner->retain();
  auto release = [](void* p) { static_cast<RefCounted*>(p)->release(); };
  Ref<Storage> storage = Storage::borrow(const_cast<char*>(bytes.data()), bytes.size(), release,
                                         const_cast<RefCounted*>(owner), /*readOnly=*/true);
  return Tensor::view(dtype, std::move(storage), sizes, contiguousStrides(sizes), 0);
}

Tensor asReadOnly(const Tensor& tensor) {
  TS_CHECK(tensor.isContiguous());
  size_t bytes = static_cast<size_t>(tensor.numel()) * itemSize(tensor.dtype());
  return readOnlyTensor(tensor.dtype(), tensor.sizes(), {reinterpret_cast<const char*>(tensor.raw()), bytes},
                        tensor.storage().get());
}

bool writeElements(FileWriter& file, const Tensor& tensor) {
  size_t item = itemSize(tensor.dtype());
  if (tensor.isContiguous())
    return file.write({reinterpret_cast<const char*>(tensor.raw()), static_cast<size_t>(tensor.numel()) * item});
  constexpr size_t kPiece = 1 << 16;
  std::string piece;
  bool good = true;
  forEachElement(tensor, [&](const std::byte* element) {
    piece.append(reinterpret_cast<const char*>(element), item);
    if (piece.size() < kPiece) return;
    good = good && file.write(piece);
    piece.clear();
  });
  return good && file.write(piece);
}

std::optional<size_t> findBadBool(std::string_view bytes) {
  auto bad = std::find_if(bytes.begin(), bytes.end(), [](char c) { return (c & ~1) != 0; });
  if (bad == bytes.end()) return std::nullopt;
  return static_cast<size_t>(bad - bytes.begin());
}

}  // namespace tscompile
