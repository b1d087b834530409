// The bytes of a zip archive's members.
#include "frontend/files/zip.h"
#include "ir/support/text.h"
#include "ir/values/error.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <zlib.h>

namespace tscompile {
namespace {

constexpr uint16_t kEncrypted = 1, kStored = 0, kDeflated = 8;
// Deflate makes at most this of one byte.
constexpr uint64_t kMostOfAByte = 1032;
// What every dtype's elements are content with.
constexpr size_t kStorageAlignment = alignof(double);

struct Inflation {
  z_stream stream{};
  bool good = inflateInit2(&stream, -MAX_WBITS) == Z_OK;  // without zlib's own header
  ~Inflation() { inflateEnd(&stream); }
};

// Unpacks exactly `out.size()` bytes from all of `packed`.
bool inflateAll(std::string_view packed, std::string& out) {
  Inflation inflation;
  z_stream& z = inflation.stream;
  constexpr size_t kPiece = std::numeric_limits<uInt>::max();
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  char* end = out.data() + out.size();
  for (int status = inflation.good ? Z_OK : Z_DATA_ERROR; status != Z_STREAM_END;) {
    if (status != Z_OK) return false;
    size_t used = static_cast<size_t>(reinterpret_cast<const char*>(z.next_in) - packed.data());
    z.avail_in = static_cast<uInt>(std::min(kPiece, packed.size() - used));
    z.avail_out = static_cast<uInt>(std::min(kPiece, static_cast<size_t>(end - reinterpret_cast<char*>(z.next_out))));
    status = inflate(&z, Z_NO_FLUSH);
  }
  return reinterpret_cast<char*>(z.next_out) == end &&
         reinterpret_cast<const char*>(z.next_in) == packed.data() + packed.size();
}

}  // namespace

uint32_t crc32(std::string_view bytes) {
  return static_cast<uint32_t>(crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

Failed ZipArchive::fail(const ZipMember& m, std::string message, ErrorKind kind, Diagnostics& diagnostics) const {
  diagnostics.fileError(file_.path, file_.offset + m.headerOffset,
                        fmt::format("member '{}' {}", abbreviate(m.name, 200), message), kind);
  return {};
}

bool ZipArchive::isReadable(const ZipMember& m, Diagnostics& diagnostics) const {
  if (m.flags & kEncrypted)
    fail(m, "is encrypted", ErrorKind::Unsupported, diagnostics);
  else if (m.method != kStored && m.method != kDeflated)
    fail(m, fmt::format("is compressed by method {}, which is not supported", m.method), ErrorKind::Unsupported,
         diagnostics);
  else
    return true;
  return false;
}

Result<FilePart> ZipArchive::stored(const ZipMember& m, Diagnostics& diagnostics) const {
  if (!isReadable(m, diagnostics)) return Failed{};
  if (m.method != kStored) return fail(m, "is compressed", ErrorKind::Unsupported, diagnostics);
  return FilePart{file_.bytes.substr(m.dataOffset, m.bytes), file_.path, file_.offset + m.dataOffset};
}

Result<ZipContents> ZipArchive::contents(const ZipMember& m, uint64_t limit, Diagnostics& diagnostics) const {
  if (!isReadable(m, diagnostics)) return Failed{};
  std::string_view packed = file_.bytes.substr(m.dataOffset, m.packedBytes);
  ZipContents out{{packed, file_.path, file_.offset + m.dataOffset}, nullptr};
  if (m.method == kStored) {
    auto release = [](const RefCounted* p) { p->release(); };
    if (owner_) out.owner = std::shared_ptr<const RefCounted>(Ref<const RefCounted>(owner_).detach(), release);
  } else {
    if (m.bytes > limit)
      return fail(m, fmt::format("has {} bytes, the limit is {}", m.bytes, limit), ErrorKind::Limit, diagnostics);
    auto text = std::make_shared<std::string>();
    if (m.bytes / kMostOfAByte <= m.packedBytes) text->resize(m.bytes);
    if (text->size() != m.bytes || !inflateAll(packed, *text))
      return fail(m, "is damaged: it does not unpack to its size", ErrorKind::Input, diagnostics);
    out.part.bytes = *text;
    out.part.path += ":" + m.name;  // offsets are those of the unpacked bytes
    out.part.offset = 0;
    out.owner = std::move(text);
  }
  // PyTorch writes 0 when it is told to save the time.
  if (m.crc != 0 && crc32(out.part.bytes) != m.crc)
    return fail(m, "is damaged: its checksum does not match", ErrorKind::Input, diagnostics);
  return out;
}

Ref<Storage> ZipArchive::storage(const ZipMember& m, Diagnostics& diagnostics) const {
  if (m.method != kStored) {
    Result<ZipContents> bytes = contents(m, mostOfTensor_, diagnostics);
    return bytes ? storageOf(bytes->part, nullptr, diagnostics) : nullptr;
  }
  Result<FilePart> part = stored(m, diagnostics);
  return part ? storageOf(*part, owner_.get(), diagnostics) : nullptr;
}

Ref<Storage> storageOf(const FilePart& part, const RefCounted* owner, Diagnostics& diagnostics) {
  if (owner && reinterpret_cast<uintptr_t>(part.bytes.data()) % kStorageAlignment == 0) {
    owner->retain();
    auto release = [](void* p) { static_cast<RefCounted*>(p)->release(); };
    return Storage::borrow(const_cast<char*>(part.bytes.data()), part.bytes.size(), release,
                           const_cast<RefCounted*>(owner), /*readOnly=*/true);
  }
  try {
    Ref<Storage> copy = Storage::allocate(part.bytes.size());
    if (!part.bytes.empty()) std::copy(part.bytes.begin(), part.bytes.end(), reinterpret_cast<char*>(copy->data()));
    copy->makeReadOnly();
    return copy;
  } catch (const ExecutionError& e) {
    diagnostics.fileError(part.path, part.offset, e.message(), e.kind());
    return nullptr;
  }
}

}  // namespace tscompile
