#include "frontend/files/zip.h"

#include "ir/support/text.h"

#include <fmt/core.h>

#include <array>

namespace tscompile {
namespace {

using namespace std::string_view_literals;

constexpr std::string_view kLocal = "PK\3\4"sv, kEntry = "PK\1\2"sv, kEnd = "PK\5\6"sv, kEnd64 = "PK\6\6"sv,
                           kLocator64 = "PK\6\7"sv;
constexpr size_t kLocalBytes = 30, kEntryBytes = 46, kEndBytes = 22, kEnd64Bytes = 56, kLocatorBytes = 20;
constexpr uint64_t kSee64 = 0xffffffff;  // "the value is in the zip64 field"
constexpr uint16_t kEncrypted = 1, kSizesFollow = 8;

// A little-endian number of n bytes; the caller has checked that they are there.
uint64_t number(std::string_view bytes, size_t at, size_t n) {
  uint64_t value = 0;
  for (size_t i = n; i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[at + i]);
  return value;
}

// Whether `size` bytes at `at` lie in the first `end` bytes.
bool fits(uint64_t at, uint64_t size, uint64_t end) { return at <= end && size <= end - at; }

struct Directory {
  uint64_t at = 0, bytes = 0, members = 0;
};

class ZipReader {
 public:
  ZipReader(const FilePart& file, Diagnostics& diagnostics) : file_(file), b_(file.bytes), diagnostics_(diagnostics) {}

  bool findDirectory(Directory& directory);
  bool readEntry(uint64_t& at, uint64_t end, ZipMember& member);
  bool findData(const ZipMember& member, uint64_t& at);

 private:
  bool fail(uint64_t at, std::string message, ErrorKind kind = ErrorKind::Input) {
    diagnostics_.fileError(file_.path, file_.offset + at, std::move(message), kind);
    return false;
  }
  bool findEnd(size_t& at);
  bool readEnd64(size_t end, Directory& directory);
  std::string_view extraField(std::string_view extra, uint16_t id) const;

  const FilePart& file_;
  std::string_view b_;
  Diagnostics& diagnostics_;
};

// The end record is followed by a comment of up to 64 KiB, which must reach to the end of the file.
bool ZipReader::findEnd(size_t& at) {
  for (size_t comment = 0; comment <= 0xffff && kEndBytes + comment <= b_.size(); ++comment) {
    at = b_.size() - kEndBytes - comment;
    if (b_.substr(at, 4) == kEnd && number(b_, at + 20, 2) == comment) return true;
  }
  return fail(b_.size(), "the archive has no directory at its end: it is truncated");
}

bool ZipReader::readEnd64(size_t end, Directory& directory) {
  size_t locator = end - kLocatorBytes;
  uint64_t at = number(b_, locator + 8, 8);
  if (!fits(at, kEnd64Bytes, locator) || b_.substr(at, 4) != kEnd64)
    return fail(locator, "the archive's zip64 directory is not where it should be");
  if (number(b_, at + 16, 4) != 0 || number(b_, at + 20, 4) != 0 || number(b_, at + 24, 8) != number(b_, at + 32, 8))
    return fail(at, "archives of several disks are not supported", ErrorKind::Unsupported);
  directory = {number(b_, at + 48, 8), number(b_, at + 40, 8), number(b_, at + 32, 8)};
  return fits(directory.at, directory.bytes, at) || fail(at, "the archive's directory is not inside the file");
}

bool ZipReader::findDirectory(Directory& directory) {
  size_t end;
  if (!findEnd(end)) return false;
  if (end >= kLocatorBytes && b_.substr(end - kLocatorBytes, 4) == kLocator64) return readEnd64(end, directory);
  if (number(b_, end + 4, 2) != 0 || number(b_, end + 6, 2) != 0 || number(b_, end + 8, 2) != number(b_, end + 10, 2))
    return fail(end, "archives of several disks are not supported", ErrorKind::Unsupported);
  directory = {number(b_, end + 16, 4), number(b_, end + 12, 4), number(b_, end + 10, 2)};
  return fits(directory.at, directory.bytes, end) || fail(end, "the archive's directory is not inside the file");
}

// The contents of an extra field, or nothing.
std::string_view ZipReader::extraField(std::string_view extra, uint16_t id) const {
  while (extra.size() >= 4) {
    size_t size = number(extra, 2, 2);
    if (size > extra.size() - 4) break;
    if (number(extra, 0, 2) == id) return extra.substr(4, size);
    extra.remove_prefix(4 + size);
  }
  return {};
}

bool ZipReader::readEntry(uint64_t& at, uint64_t end, ZipMember& m) {
  if (!fits(at, kEntryBytes, end) || b_.substr(at, 4) != kEntry)
    return fail(at, "the archive's directory is damaged here");
  size_t name = number(b_, at + 28, 2), extra = number(b_, at + 30, 2), comment = number(b_, at + 32, 2);
  if (!fits(at + kEntryBytes, name + extra + comment, end)) return fail(at, "the archive's directory is damaged here");
  m.entryOffset = at;
  m.flags = static_cast<uint16_t>(number(b_, at + 8, 2));
  m.method = static_cast<uint16_t>(number(b_, at + 10, 2));
  m.crc = static_cast<uint32_t>(number(b_, at + 16, 4));
  m.packedBytes = number(b_, at + 20, 4);
  m.bytes = number(b_, at + 24, 4);
  m.headerOffset = number(b_, at + 42, 4);
  m.name = b_.substr(at + kEntryBytes, name);
  // Of the values that do not fit, the zip64 field has those that were replaced, in this order.
  std::string_view wide = extraField(b_.substr(at + kEntryBytes + name, extra), 1);
  for (uint64_t* value : {&m.bytes, &m.packedBytes, &m.headerOffset}) {
    if (*value != kSee64) continue;
    if (wide.size() < 8) return fail(at, fmt::format("the sizes of member '{}' are missing", abbreviate(m.name, 200)));
    *value = number(wide, 0, 8);
    wide.remove_prefix(8);
  }
  at += kEntryBytes + name + extra + comment;
  return true;
}

bool ZipReader::findData(const ZipMember& m, uint64_t& at) {
  std::string who = fmt::format("member '{}'", abbreviate(m.name, 200));
  at = m.headerOffset;
  if (!fits(at, kLocalBytes, m.entryOffset) || b_.substr(at, 4) != kLocal)
    return fail(m.entryOffset, fmt::format("{} is not where the directory says", who));
  size_t name = number(b_, at + 26, 2), extra = number(b_, at + 28, 2);
  uint64_t data = at + kLocalBytes + name + extra;
  if (!fits(data, m.packedBytes, m.entryOffset))
    return fail(at, fmt::format("{} does not end inside the archive", who));
  if (b_.substr(at + kLocalBytes, name) != m.name || number(b_, at + 8, 2) != m.method)
    return fail(at, fmt::format("{} has another name or method here than in the directory", who));
  uint64_t packed = number(b_, at + 18, 4), bytes = number(b_, at + 22, 4);
  std::string_view wide = extraField(b_.substr(at + kLocalBytes + name, extra), 1);
  if (packed == kSee64 && bytes == kSee64 && wide.size() >= 16) {
    bytes = number(wide, 0, 8);
    packed = number(wide, 8, 8);
  }
  bool known = !(m.flags & kSizesFollow);
  if (known && (packed != m.packedBytes || bytes != m.bytes))
    return fail(at, fmt::format("{} has another size here than in the directory", who));
  at = data;
  return true;
}

// Tables for eight bytes at a time.
constexpr std::array<std::array<uint32_t, 256>, 8> kCrcTables = [] {
  std::array<std::array<uint32_t, 256>, 8> t{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t c = i;
    for (int k = 0; k < 8; ++k) c = c & 1 ? 0xedb88320 ^ (c >> 1) : c >> 1;
    t[0][i] = c;
  }
  for (size_t k = 1; k < 8; ++k)
    for (size_t i = 0; i < 256; ++i) t[k][i] = t[0][t[k - 1][i] & 255] ^ (t[k - 1][i] >> 8);
  return t;
}();

}  // namespace

uint32_t crc32(std::string_view bytes) {
  uint32_t c = 0xffffffff;
  const auto& t = kCrcTables;
  for (; bytes.size() >= 8; bytes.remove_prefix(8)) {
    uint64_t x = number(bytes, 0, 8) ^ c;
    c = 0;
    for (size_t k = 0; k < 8; ++k) c ^= t[7 - k][x >> (8 * k) & 255];
  }
  for (char byte : bytes) c = t[0][(c ^ static_cast<unsigned char>(byte)) & 255] ^ (c >> 8);
  return ~c;
}

Result<std::vector<ZipMember>> readZipDirectory(const FilePart& file, Diagnostics& diagnostics, const Limits& limits) {
  ZipReader reader(file, diagnostics);
  Directory directory;
  if (!reader.findDirectory(directory)) return Failed{};
  if (directory.members > limits.tensors) {
    diagnostics.fileError(file.path, {},
                          fmt::format("the archive has {} members, the limit is {}", directory.members, limits.tensors),
                          ErrorKind::Limit);
    return Failed{};
  }
  std::vector<ZipMember> members;
  uint64_t at = directory.at, end = directory.at + directory.bytes;
  for (uint64_t i = 0; i < directory.members; ++i)
    if (!reader.readEntry(at, end, members.emplace_back())) return Failed{};
  if (at != end) {
    diagnostics.fileError(file.path, file.offset + at, "the archive's directory is longer than its members");
    return Failed{};
  }
  return members;
}

Result<FilePart> readStoredMember(const FilePart& file, const ZipMember& m, Diagnostics& diagnostics) {
  auto fail = [&](std::string message, ErrorKind kind) -> Diagnostic& {
    return diagnostics.fileError(file.path, file.offset + m.headerOffset,
                                 fmt::format("member '{}' {}", abbreviate(m.name, 200), message), kind);
  };
  uint64_t at = 0;
  if (m.flags & kEncrypted) {
    fail("is encrypted", ErrorKind::Unsupported);
  } else if (m.method != 0) {
    fail("is compressed", ErrorKind::Unsupported)
        .note("write the archive with numpy.savez, not numpy.savez_compressed");
  } else if (m.packedBytes != m.bytes) {
    fail("is stored, but its two sizes differ", ErrorKind::Input);
  } else if (ZipReader(file, diagnostics).findData(m, at)) {
    FilePart part{file.bytes.substr(at, m.bytes), file.path, file.offset + at};
    if (crc32(part.bytes) == m.crc) return part;
    fail("is damaged: its checksum does not match", ErrorKind::Input);
  }
  return Failed{};
}

}  // namespace tscompile
