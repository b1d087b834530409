#include "frontend/files/section_file.h"

#include "ir/support/check.h"
#include "ir/support/file_pages.h"
#include "ir/support/text.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace tscompile {

// ---- checksums ----

namespace {

constexpr uint64_t kFirst = 0x9e3779b185ebca87, kSecond = 0xc2b2ae3d27d4eb4f;

// For a given lane every word gives another result, and for a given word every lane: a difference is never lost.
uint64_t mix(uint64_t lane, uint64_t word) { return std::rotl(lane + word * kSecond, 31) * kFirst; }

}  // namespace

void Checksum::block(const char* bytes) {
  for (size_t i = 0; i < lanes_.size(); ++i) {
    uint64_t word;
    std::memcpy(&word, bytes + 8 * i, 8);
    lanes_[i] = mix(lanes_[i], word);
  }
}

void Checksum::add(std::string_view bytes) {
  bytes_ += bytes.size();
  if (restBytes_ > 0) {
    size_t taken = std::min(bytes.size(), rest_.size() - restBytes_);
    std::copy_n(bytes.data(), taken, rest_.data() + restBytes_);
    restBytes_ += taken;
    bytes.remove_prefix(taken);
    if (restBytes_ < rest_.size()) return;
    block(rest_.data());
    restBytes_ = 0;
  }
  for (; bytes.size() >= rest_.size(); bytes.remove_prefix(rest_.size())) block(bytes.data());
  std::copy_n(bytes.data(), bytes.size(), rest_.data());
  restBytes_ = bytes.size();
}

uint64_t Checksum::value() const {
  Checksum last = *this;
  std::fill(last.rest_.begin() + static_cast<ptrdiff_t>(restBytes_), last.rest_.end(), '\0');
  last.block(last.rest_.data());
  uint64_t sum = bytes_;
  for (uint64_t lane : last.lanes_) sum = mix(sum, lane);
  sum ^= sum >> 33;
  sum *= kSecond;
  return sum ^ sum >> 29;
}

uint64_t checksumOf(std::string_view bytes) {
  Checksum sum;
  sum.add(bytes);
  return sum.value();
}

namespace {

// The same, while what was read of a mapped file goes from memory: readers fetch what they need once more.
uint64_t checksumOfPages(std::string_view bytes) {
  constexpr size_t kPart = 1 << 20;
  Checksum sum;
  for (size_t at = 0; at < bytes.size(); at += kPart) {
    const std::string_view part = bytes.substr(at, kPart);
    sum.add(part);
    releaseFilePages(part.data(), part.size());
  }
  return sum.value();
}

}  // namespace

// ---- layout ----

namespace {

constexpr uint64_t kHeaderBytes = 32, kSectionEntryBytes = 40, kNameBytes = 16, kSumOffset = 24;
constexpr uint32_t kMostSections = 64;

uint64_t aligned(uint64_t at) { return (at + kSectionAlignment - 1) / kSectionAlignment * kSectionAlignment; }

template <class T>
T numberAt(std::string_view bytes, uint64_t at) {
  T value = 0;
  for (size_t i = sizeof(T); i-- > 0;) value = static_cast<T>(value << 8 | static_cast<unsigned char>(bytes[at + i]));
  return value;
}

template <class T>
void appendLittleEndian(T value, std::string& out) {
  for (size_t i = 0; i < sizeof(T); ++i) out += static_cast<char>(value >> 8 * i);
}

// Of the header and the table after it, but for the sum itself.
uint64_t headerSum(std::string_view header) {
  Checksum sum;
  sum.add(header.substr(0, kSumOffset));
  sum.add(header.substr(kHeaderBytes));
  return sum.value();
}

class Reader {
 public:
  Reader(std::string_view bytes, const std::string& path, Diagnostics& diagnostics)
      : bytes_(bytes), path_(path), diagnostics_(diagnostics) {}

  Result<SectionFile> read() {
    SectionFile out;
    if (!header(out)) return Failed{};
    uint64_t end = kHeaderBytes + kSectionEntryBytes * count_;
    for (uint32_t i = 0; i < count_; ++i)
      if (!section(i, end, out)) return Failed{};
    if (end != bytes_.size()) return fail(end, "there are bytes after the last section");
    return out;
  }

 private:
  Failed fail(uint64_t at, std::string message) {
    diagnostics_.fileError(path_, at, std::move(message));
    return {};
  }

  bool header(SectionFile& out) {
    if (bytes_.substr(0, kSectionFileMagic.size()) != kSectionFileMagic) {
      fail(0, "this is not an engine file");
      return false;
    }
    if (bytes_.size() < kHeaderBytes) {
      fail(bytes_.size(), "the engine file was cut short: it ends inside of its header");
      return false;
    }
    out.version = numberAt<uint32_t>(bytes_, 8);
    count_ = numberAt<uint32_t>(bytes_, 12);
    uint64_t size = numberAt<uint64_t>(bytes_, 16);
    uint64_t tableEnd = kHeaderBytes + kSectionEntryBytes * uint64_t{count_};
    if (count_ > kMostSections) {
      fail(12, fmt::format("the engine file is damaged: it claims to have {} sections", count_));
      return false;
    }
    if (bytes_.size() < tableEnd) {
      fail(bytes_.size(), "the engine file was cut short: it ends inside of its table of sections");
      return false;
    }
    if (headerSum(bytes_.substr(0, tableEnd)) != numberAt<uint64_t>(bytes_, kSumOffset)) {
      fail(kSumOffset, "the engine file is damaged: the checksum of its header is wrong");
      return false;
    }
    if (bytes_.size() != size) {
      fail(std::min<uint64_t>(size, bytes_.size()),
           bytes_.size() < size
               ? fmt::format("the engine file was cut short: it has {} of {} bytes", bytes_.size(), size)
               : fmt::format("the engine file has {} bytes where {} belong", bytes_.size(), size));
      return false;
    }
    return true;
  }

  // `end` is where the last section ended.
  bool section(uint32_t index, uint64_t& end, SectionFile& out) {
    uint64_t entry = kHeaderBytes + kSectionEntryBytes * index;
    std::string_view name = bytes_.substr(entry, kNameBytes);
    name = name.substr(0, std::min(name.find('\0'), name.size()));
    uint64_t begin = numberAt<uint64_t>(bytes_, entry + kNameBytes);
    uint64_t size = numberAt<uint64_t>(bytes_, entry + kNameBytes + 8);
    uint64_t sum = numberAt<uint64_t>(bytes_, entry + kNameBytes + 16);
    if (out.find(name)) return fail(entry, sectionText(name) + " is there twice"), false;
    if (begin != aligned(end) || begin > bytes_.size() || size > bytes_.size() - begin)
      return fail(entry, sectionText(name) + " is not where it belongs"), false;
    for (uint64_t at = end; at < begin; ++at)
      if (bytes_[at] != '\0')
        return fail(at, "the engine file is damaged: the bytes between its sections are not zero"), false;
    std::string_view bytes = bytes_.substr(begin, size);
    if (checksumOfPages(bytes) != sum)
      return fail(begin, "the engine file is damaged: the checksum of its " + sectionText(name) + " is wrong"), false;
    out.sections.push_back({name, bytes});
    end = begin + size;
    return true;
  }

  static std::string sectionText(std::string_view name) { return "section '" + abbreviate(name, 20) + "'"; }

  std::string_view bytes_;
  const std::string& path_;
  Diagnostics& diagnostics_;
  uint32_t count_ = 0;
};

}  // namespace

const std::string_view* SectionFile::find(std::string_view name) const {
  for (const Section& s : sections)
    if (s.name == name) return &s.bytes;
  return nullptr;
}

Result<SectionFile> parseSectionFile(std::string_view bytes, const std::string& path, Diagnostics& diagnostics) {
  return Reader(bytes, path, diagnostics).read();
}

bool putSectionFile(uint32_t version, const std::vector<SectionPieces>& sections,
                    const std::function<bool(std::string_view)>& sink) {
  TS_CHECK(sections.size() <= kMostSections);
  uint64_t end = kHeaderBytes + kSectionEntryBytes * sections.size();
  std::string table;
  std::vector<uint64_t> gaps;
  for (const SectionPieces& s : sections) {
    TS_CHECK(s.name.size() <= kNameBytes);
    Checksum sum;
    uint64_t size = 0;
    for (std::string_view piece : s.pieces) {
      sum.add(piece);
      size += piece.size();
    }
    gaps.push_back(aligned(end) - end);
    table += s.name;
    table.append(kNameBytes - s.name.size(), '\0');
    appendLittleEndian(aligned(end), table);
    appendLittleEndian(size, table);
    appendLittleEndian(sum.value(), table);
    end = aligned(end) + size;
  }
  std::string header(kSectionFileMagic);
  appendLittleEndian(version, header);
  appendLittleEndian(static_cast<uint32_t>(sections.size()), header);
  appendLittleEndian(end, header);
  std::string placeOfSum(sizeof(uint64_t), '\0');
  uint64_t sum = headerSum(header + placeOfSum + table);
  appendLittleEndian(sum, header);
  if (!sink(header) || !sink(table)) return false;
  for (size_t i = 0; i < sections.size(); ++i) {
    if (!sink(std::string(gaps[i], '\0'))) return false;
    for (std::string_view piece : sections[i].pieces)
      if (!sink(piece)) return false;
  }
  return true;
}

}  // namespace tscompile
