// Files of named sections with checksums: the container of engine files. docs/engine_files.md has the layout.
#pragma once

#include "ir/support/diagnostics.h"
#include "ir/support/result.h"

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace tscompile {

// 64 bits that tell whether bytes are what they were. Any change within one aligned word of eight bytes is noticed for
// certain, others but for one in 2^64. Bytes may come in pieces.
class Checksum {
 public:
  void add(std::string_view bytes);
  uint64_t value() const;

 private:
  void block(const char* bytes);

  std::array<uint64_t, 4> lanes_{0x9e3779b97f4a7c15, 0xc2b2ae3d27d4eb4f, 0x165667b19e3779f9, 0x27d4eb2f165667c5};
  std::array<char, 32> rest_{};
  size_t restBytes_ = 0;
  uint64_t bytes_ = 0;
};
uint64_t checksumOf(std::string_view bytes);

// First bytes of such a file.
inline constexpr std::string_view kSectionFileMagic = "\x89TSE\r\n\x1a\n";
// Sections start at multiples of this.
inline constexpr uint64_t kSectionAlignment = 64;

struct SectionFile {
  uint32_t version = 0;
  struct Section {
    std::string_view name;
    std::string_view bytes;
  };
  std::vector<Section> sections;

  // The bytes of a section, or null.
  const std::string_view* find(std::string_view name) const;
};

// Checks all of a file but what its sections mean: the header, every checksum, that nothing is missing and that nothing
// else is there. The result points into `bytes`.
Result<SectionFile> parseSectionFile(std::string_view bytes, const std::string& path, Diagnostics& diagnostics);

// A section that is to be written: its bytes in pieces.
struct SectionPieces {
  std::string name;  // up to 16 bytes
  std::vector<std::string_view> pieces;
};
// Gives the bytes of the file to `sink`, piece by piece, as long as that returns true. The result is its last answer.
bool putSectionFile(uint32_t version, const std::vector<SectionPieces>& sections,
                    const std::function<bool(std::string_view)>& sink);

}  // namespace tscompile
