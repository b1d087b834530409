#include "frontend/files/torch_storages.h"

#include "frontend/pickle/array_dtypes.h"
#include "ir/support/text.h"

#include <fmt/core.h>

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
  std::string bytes(reinterpret_cast<const char*>(storage.data()), storage.bytes());
  reverseBytes(reinterpret_cast<std::byte*>(bytes.data()), bytes.size(), dtype);
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
