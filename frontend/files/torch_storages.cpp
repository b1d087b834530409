#include "frontend/files/torch_storages.h"

#include "ir/support/text.h"

#include <fmt/core.h>

#include <algorithm>

namespace tscompile {

bool holdsElements(const Storage& storage, std::string_view key, DType dtype, uint64_t count, const std::string& path,
                   Diagnostics& diagnostics) {
  if (count <= storage.bytes() / itemSize(dtype)) return true;
  diagnostics.fileError(path, {},
                        fmt::format("storage '{}' has {}, which are not {} of {}", abbreviate(key, 200),
                                    counted(storage.bytes(), "byte"), counted(count, "element"), pythonName(dtype)));
  return false;
}

Ref<Storage> swapBytes(const Storage& storage, DType dtype, const std::string& path, Diagnostics& diagnostics) {
  size_t unit = isComplex(dtype) ? itemSize(dtype) / 2 : itemSize(dtype);
  std::string bytes(reinterpret_cast<const char*>(storage.data()), storage.bytes());
  for (auto at = bytes.begin(); bytes.end() - at >= static_cast<ptrdiff_t>(unit); at += static_cast<ptrdiff_t>(unit))
    std::reverse(at, at + static_cast<ptrdiff_t>(unit));
  return storageOf({bytes, path}, nullptr, diagnostics);
}

Ref<Storage> ZipStorages::find(std::string_view key, DType dtype, uint64_t count) {
  auto known = loaded_.find(key);
  if (known == loaded_.end()) {
    // Of storages without elements there may be no member.
    bool isAbsent = count == 0 && !zip_->find(prefix_ + std::string(key));
    Ref<Storage> storage = isAbsent ? storageOf({"", zip_->path()}, nullptr, diagnostics_) : load(key, dtype);
    if (!storage) return nullptr;
    known = loaded_.emplace(key, std::move(storage)).first;
  }
  if (!holdsElements(*known->second, key, dtype, count, zip_->path(), diagnostics_)) return nullptr;
  return known->second;
}

Ref<Storage> ZipStorages::load(std::string_view key, DType dtype) {
  const ZipMember* member = zip_->find(prefix_ + std::string(key));
  if (!member) {
    diagnostics_.fileError(zip_->path(), {},
                           fmt::format("the archive has no storage '{}'", abbreviate(prefix_ + std::string(key), 200)));
    return nullptr;
  }
  Ref<Storage> storage = zip_->storage(*member, diagnostics_);
  if (!storage || !bigEndian_ || itemSize(dtype) == 1) return storage;
  return swapBytes(*storage, dtype, zip_->path(), diagnostics_);
}

}  // namespace tscompile
