// Zip archives whose members are stored as they are: the directory, and the bytes of a member. All offsets are checked
// against the bytes that are there.
#pragma once

#include "frontend/files/tensor_formats.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tscompile {

struct ZipMember {
  std::string name;
  uint16_t flags = 0, method = 0;  // method 0: stored
  uint32_t crc = 0;
  uint64_t packedBytes = 0, bytes = 0;
  uint64_t headerOffset = 0;  // of the local header
  uint64_t entryOffset = 0;   // of the entry in the directory
};

// The members in the directory's order, of a whole archive on one disk, zip64 or not.
Result<std::vector<ZipMember>> readZipDirectory(const FilePart& file, Diagnostics& diagnostics, const Limits& limits);
// The bytes of a member, checked against its checksum; compressed or encrypted ones are refused.
Result<FilePart> readStoredMember(const FilePart& file, const ZipMember& member, Diagnostics& diagnostics);

// CRC-32 as zip and zlib have it.
uint32_t crc32(std::string_view bytes);

}  // namespace tscompile
