// The storages of PyTorch's files: members of zip archives, and runs of bytes in the stream format before 1.6.
#pragma once

#include "frontend/files/zip.h"
#include "frontend/pickle/pickle.h"

#include <map>

namespace tscompile {

// A member of the archive for each storage. Storages are mapped, or copied where the byte order is not ours or the
// place not aligned.
class ZipStorages : public PickleStorages {
 public:
  // The member of storage `key` is called `prefix` + `key`.
  ZipStorages(std::shared_ptr<const ZipArchive> zip, std::string prefix, bool bigEndian, Diagnostics& diagnostics)
      : zip_(std::move(zip)), prefix_(std::move(prefix)), bigEndian_(bigEndian), diagnostics_(diagnostics) {}
  Ref<Storage> find(std::string_view key, DType dtype, uint64_t count) override;

 private:
  Ref<Storage> load(std::string_view key, DType dtype);

  std::shared_ptr<const ZipArchive> zip_;
  std::string prefix_;
  bool bigEndian_;
  Diagnostics& diagnostics_;
  std::map<std::string, Ref<Storage>, std::less<>> loaded_;
};

// Whether `storage` holds that many elements; reports that it does not.
bool holdsElements(const Storage& storage, std::string_view key, DType dtype, uint64_t count, const std::string& path,
                   Diagnostics& diagnostics);
// A read-only copy with the bytes of each number reversed; null after a report.
Ref<Storage> swapBytes(const Storage& storage, DType dtype, const std::string& path, Diagnostics& diagnostics);

}  // namespace tscompile
