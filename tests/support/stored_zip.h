// Zip archives of members that are stored as they are, with their checksums.
#pragma once

#include "frontend/files/zip.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tscompile::test {

inline std::string storedZip(const std::vector<std::pair<std::string, std::string_view>>& members) {
  auto number = [](uint64_t value, int bytes) {
    std::string out;
    for (int i = 0; i < bytes; ++i) out += static_cast<char>(i < 8 ? value >> 8 * i : 0);
    return out;
  };
  std::string out, directory;
  for (const auto& [name, bytes] : members) {
    const std::string facts = number(0, 8) + number(crc32(bytes), 4) + number(bytes.size(), 4) +
                              number(bytes.size(), 4) + number(name.size(), 2) + number(0, 2);
    directory += "PK\1\2" + number(20, 2) + number(20, 2) + facts + number(0, 10) + number(out.size(), 4) + name;
    out += "PK\3\4" + number(20, 2) + facts + name;
    out += bytes;
  }
  return out + directory + "PK\5\6" + number(0, 4) + number(members.size(), 2) + number(members.size(), 2) +
         number(directory.size(), 4) + number(out.size(), 4) + number(0, 2);
}

}  // namespace tscompile::test
