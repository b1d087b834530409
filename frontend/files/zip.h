// Zip archives: .npz files and what PyTorch saves. Opening one checks all of its directory against the headers of the
// members; archives that are made to deceive (members that overlap, two of one name, names that lead elsewhere, sizes
// that differ) are refused.
#pragma once

#include "frontend/files/tensor_formats.h"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tscompile {

struct ZipMember {
  std::string name;
  uint16_t flags = 0, method = 0;  // method 0: stored, 8: deflated
  uint32_t crc = 0;
  uint64_t packedBytes = 0, bytes = 0;
  uint64_t headerOffset = 0;  // of the local header
  uint64_t dataOffset = 0;    // of the bytes
  uint64_t entryOffset = 0;   // of the entry in the directory
};

// Bytes of a member, and what keeps them in memory (null: whoever gave the archive its bytes).
struct ZipContents {
  FilePart part;
  std::shared_ptr<const void> owner;
};

class ZipArchive {
 public:
  // A whole archive on one disk, zip64 or not. `owner`, if not null, keeps the bytes in memory.
  static Result<std::shared_ptr<const ZipArchive>> read(const FilePart& file, const RefCounted* owner,
                                                        Diagnostics& diagnostics, const Limits& limits);
  static Result<std::shared_ptr<const ZipArchive>> open(const std::string& path, Diagnostics& diagnostics,
                                                        const Limits& limits);

  // In the directory's order.
  const std::vector<ZipMember>& members() const { return members_; }
  // The member of this name, or null.
  const ZipMember* find(std::string_view name) const;
  // A member's bytes, checked against its checksum: those of the file where it is stored, else unpacked, if they are at
  // most `limit`. Encrypted members and other methods are refused.
  Result<ZipContents> contents(const ZipMember& member, uint64_t limit, Diagnostics& diagnostics) const;
  // The bytes as they are in the file, without a look at them. The member is stored.
  Result<FilePart> stored(const ZipMember& member, Diagnostics& diagnostics) const;
  // The same as read-only memory for tensors: not copied if it is aligned for all dtypes and the archive has an owner.
  // Null after a report.
  Ref<Storage> storage(const ZipMember& member, Diagnostics& diagnostics) const;
  // How messages name the archive.
  const std::string& path() const { return file_.path; }

 private:
  friend class ZipReader;
  Failed fail(const ZipMember& member, std::string message, ErrorKind kind, Diagnostics& diagnostics) const;
  bool isReadable(const ZipMember& member, Diagnostics& diagnostics) const;

  FilePart file_;
  Ref<const RefCounted> owner_;
  std::vector<ZipMember> members_;
  std::vector<uint32_t> byName_;
  uint64_t mostOfTensor_ = 0;  // bytes that a deflated storage may have
};

// Read-only memory for tensors with these bytes; not copied if they are aligned for all dtypes and `owner` keeps them.
// Null after a report that there is not enough memory.
Ref<Storage> storageOf(const FilePart& part, const RefCounted* owner, Diagnostics& diagnostics);

// CRC-32 as zip and zlib have it.
uint32_t crc32(std::string_view bytes);

}  // namespace tscompile
