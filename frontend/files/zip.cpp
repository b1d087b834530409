#include "frontend/files/zip.h"

#include "ir/support/text.h"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>

namespace tscompile {
namespace {

using namespace std::string_view_literals;

constexpr std::string_view kLocal = "PK\3\4"sv, kEntry = "PK\1\2"sv, kEnd = "PK\5\6"sv, kEnd64 = "PK\6\6"sv,
                           kLocator64 = "PK\6\7"sv;
constexpr size_t kLocalBytes = 30, kDirectoryEntryBytes = 46, kEndBytes = 22, kEnd64Bytes = 56, kLocatorBytes = 20;
constexpr uint64_t kSee64 = 0xffffffff;  // "the value is in the zip64 field"
constexpr uint16_t kSizesFollow = 8;

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

// Whether a name, taken as a path, stays below the folder that the archive would be unpacked to.
bool staysInside(std::string_view name) {
  if (name.empty() || name[0] == '/' || name[0] == '\\' || name.find('\0') != std::string_view::npos) return false;
  while (!name.empty()) {
    size_t end = std::min(name.find_first_of("/\\"), name.size());
    if (name.substr(0, end) == "..") return false;
    name.remove_prefix(std::min(end + 1, name.size()));
  }
  return true;
}

std::string memberText(const ZipMember& m) { return fmt::format("member '{}'", abbreviate(m.name, 200)); }

}  // namespace

class ZipReader {
 public:
  ZipReader(const FilePart& file, Diagnostics& diagnostics) : file_(file), b_(file.bytes), diagnostics_(diagnostics) {}

  // Fills in the members and their order by name.
  bool read(ZipArchive& archive, const Limits& limits);

 private:
  bool findDirectory(Directory& directory);
  bool readEntry(uint64_t& at, uint64_t end, ZipMember& member);
  bool findData(ZipMember& member, uint64_t end);
  bool agreesWithHeader(const ZipMember& member, std::string_view extra);
  bool checkOverlaps(const std::vector<ZipMember>& members);
  bool checkNames(const std::vector<ZipMember>& members, const std::vector<uint32_t>& byName);
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

// The end record is followed by a comment and, as PyTorch has it, by whatever was added to the file: up to 64 KiB.
bool ZipReader::findEnd(size_t& at) {
  for (size_t behind = 0; behind <= 0xffff && kEndBytes + behind <= b_.size(); ++behind) {
    at = b_.size() - kEndBytes - behind;
    if (b_.substr(at, 4) == kEnd && number(b_, at + 20, 2) <= behind) return true;
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
  if (!fits(at, kDirectoryEntryBytes, end) || b_.substr(at, 4) != kEntry)
    return fail(at, "the archive's directory is damaged here");
  size_t name = number(b_, at + 28, 2), extra = number(b_, at + 30, 2), comment = number(b_, at + 32, 2);
  if (!fits(at + kDirectoryEntryBytes, name + extra + comment, end))
    return fail(at, "the archive's directory is damaged here");
  m.entryOffset = at;
  m.flags = static_cast<uint16_t>(number(b_, at + 8, 2));
  m.method = static_cast<uint16_t>(number(b_, at + 10, 2));
  m.crc = static_cast<uint32_t>(number(b_, at + 16, 4));
  m.packedBytes = number(b_, at + 20, 4);
  m.bytes = number(b_, at + 24, 4);
  m.headerOffset = number(b_, at + 42, 4);
  m.name = b_.substr(at + kDirectoryEntryBytes, name);
  // Of the values that do not fit, the zip64 field has those that were replaced, in this order.
  std::string_view wide = extraField(b_.substr(at + kDirectoryEntryBytes + name, extra), 1);
  for (uint64_t* value : {&m.bytes, &m.packedBytes, &m.headerOffset}) {
    if (*value != kSee64) continue;
    if (wide.size() < 8) return fail(at, fmt::format("the sizes of member '{}' are missing", abbreviate(m.name, 200)));
    *value = number(wide, 0, 8);
    wide.remove_prefix(8);
  }
  at += kDirectoryEntryBytes + name + extra + comment;
  return true;
}

bool ZipReader::findData(ZipMember& m, uint64_t end) {
  uint64_t at = m.headerOffset;
  if (!fits(at, kLocalBytes, end) || b_.substr(at, 4) != kLocal)
    return fail(m.entryOffset, fmt::format("{} is not where the directory says", memberText(m)));
  size_t name = number(b_, at + 26, 2), extra = number(b_, at + 28, 2);
  m.dataOffset = at + kLocalBytes + name + extra;
  if (!fits(m.dataOffset, m.packedBytes, end))
    return fail(at, fmt::format("{} does not end inside the archive", memberText(m)));
  if (b_.substr(at + kLocalBytes, name) != m.name || number(b_, at + 8, 2) != m.method)
    return fail(at, fmt::format("{} has another name or method here than in the directory", memberText(m)));
  return agreesWithHeader(m, b_.substr(at + kLocalBytes + name, extra));
}

bool ZipReader::agreesWithHeader(const ZipMember& m, std::string_view extra) {
  uint64_t at = m.headerOffset;
  uint64_t crc = number(b_, at + 14, 4), packed = number(b_, at + 18, 4), bytes = number(b_, at + 22, 4);
  std::string_view wide = extraField(extra, 1);
  if (packed == kSee64 && bytes == kSee64 && wide.size() >= 16) {
    bytes = number(wide, 0, 8);
    packed = number(wide, 8, 8);
  }
  // Writers that did not know the sizes yet have left them open.
  auto differs = [&](uint64_t here, uint64_t there) {
    bool isOpen = (m.flags & kSizesFollow) && (here == 0 || here == kSee64);
    return here != there && !isOpen;
  };
  if (differs(packed, m.packedBytes) || differs(bytes, m.bytes))
    return fail(at, fmt::format("{} has another size here than in the directory", memberText(m)));
  if (differs(crc, m.crc))
    return fail(at, fmt::format("{} has another checksum here than in the directory", memberText(m)));
  return m.method != 0 || m.packedBytes == m.bytes ||
         fail(at, fmt::format("{} is stored, but its two sizes differ", memberText(m)));
}

bool ZipReader::checkOverlaps(const std::vector<ZipMember>& members) {
  std::vector<const ZipMember*> order;
  for (const ZipMember& m : members) order.push_back(&m);
  std::sort(order.begin(), order.end(),
            [](const ZipMember* a, const ZipMember* b) { return a->headerOffset < b->headerOffset; });
  for (size_t i = 1; i < order.size(); ++i) {
    const ZipMember &before = *order[i - 1], &m = *order[i];
    if (before.dataOffset + before.packedBytes > m.headerOffset)
      return fail(m.headerOffset, fmt::format("{} overlaps {}", memberText(m), memberText(before)));
  }
  return true;
}

bool ZipReader::checkNames(const std::vector<ZipMember>& members, const std::vector<uint32_t>& byName) {
  for (const ZipMember& m : members)
    if (!staysInside(m.name))
      return fail(m.entryOffset, fmt::format("{} leads out of the archive's folder", memberText(m)));
  for (size_t i = 1; i < byName.size(); ++i) {
    const ZipMember &a = members[byName[i - 1]], &b = members[byName[i]];
    if (a.name == b.name)
      return fail(b.entryOffset, fmt::format("the archive has two members '{}'", abbreviate(b.name, 200)));
  }
  return true;
}

bool ZipReader::read(ZipArchive& archive, const Limits& limits) {
  Directory directory;
  if (!findDirectory(directory)) return false;
  if (directory.members > limits.tensors) {
    diagnostics_.fileError(
        file_.path, {}, fmt::format("the archive has {} members, the limit is {}", directory.members, limits.tensors),
        ErrorKind::Limit);
    return diagnostics_.metLimit("tensors", false);
  }
  std::vector<ZipMember>& members = archive.members_;
  uint64_t at = directory.at, end = directory.at + directory.bytes;
  for (uint64_t i = 0; i < directory.members; ++i) {
    ZipMember& m = members.emplace_back();
    if (!readEntry(at, end, m) || !findData(m, directory.at)) return false;
  }
  if (at != end) return fail(at, "the archive's directory is longer than its members");
  std::vector<uint32_t>& byName = archive.byName_;
  byName.resize(members.size());
  std::iota(byName.begin(), byName.end(), 0u);
  std::sort(byName.begin(), byName.end(), [&](uint32_t a, uint32_t b) {
    return members[a].name != members[b].name ? members[a].name < members[b].name : a < b;
  });
  return checkNames(members, byName) && checkOverlaps(members);
}

Result<std::shared_ptr<const ZipArchive>> ZipArchive::read(const FilePart& file, const RefCounted* owner,
                                                           Diagnostics& diagnostics, const Limits& limits) {
  auto archive = std::make_shared<ZipArchive>();
  if (!ZipReader(file, diagnostics).read(*archive, limits)) return Failed{};
  archive->file_ = file;
  archive->mostOfTensor_ = limits.generatedBytes;
  archive->owner_ = Ref<const RefCounted>::share(owner);
  return std::shared_ptr<const ZipArchive>(std::move(archive));
}

Result<std::shared_ptr<const ZipArchive>> ZipArchive::open(const std::string& path, Diagnostics& diagnostics,
                                                           const Limits& limits) {
  Ref<FileMapping> file = FileMapping::open(path, diagnostics);
  if (!file) return Failed{};
  return read({file->bytes(), path}, file.get(), diagnostics, limits);
}

const ZipMember* ZipArchive::find(std::string_view name) const {
  auto at = std::lower_bound(byName_.begin(), byName_.end(), name,
                             [&](uint32_t index, std::string_view wanted) { return members_[index].name < wanted; });
  return at != byName_.end() && members_[*at].name == name ? &members_[*at] : nullptr;
}

}  // namespace tscompile
