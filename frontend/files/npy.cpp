// The .npy format: a magic number, a version, a Python dict literal that says dtype, order and sizes, the elements. The
// literal is read by a grammar that has nothing else in it.
#include "frontend/files/file_kind.h"
#include "frontend/files/tensor_formats.h"
#include "frontend/pickle/array_dtypes.h"
#include "ir/support/text.h"

#include <fmt/format.h>

#include <charconv>

namespace tscompile {
namespace {

using namespace std::string_view_literals;

constexpr std::string_view kMagic = "\x93NUMPY"sv;

struct FileHeader : NpyHeader {
  bool isReversed = false;  // the highest byte of each number comes first
};

class NpyHeaderReader {
 public:
  NpyHeaderReader(const FilePart& file, size_t begin, size_t end, Diagnostics& diagnostics)
      : file_(file), text_(file.bytes.substr(0, end)), at_(begin), diagnostics_(diagnostics) {}

  // `{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }` and blanks.
  bool read(FileHeader& header);

 private:
  bool fail(size_t at, std::string message, ErrorKind kind = ErrorKind::Input) {
    diagnostics_.fileError(file_.path, file_.offset + at, std::move(message), kind);
    return false;
  }
  bool expected(std::string_view what);
  void skipBlanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || (text_[at_] >= '\t' && text_[at_] <= '\r'))) ++at_;
  }
  bool take(char c);
  bool expect(char c) { return take(c) || expected(fmt::format("'{}'", c)); }
  bool readString(std::string_view& out);
  bool readEntry(FileHeader& header, unsigned& seen);
  bool readDType(FileHeader& header);
  bool readOrder(FileHeader& header);
  bool readShape(FileHeader& header);

  const FilePart& file_;
  std::string_view text_;
  size_t at_;
  Diagnostics& diagnostics_;
};

bool NpyHeaderReader::expected(std::string_view what) {
  skipBlanks();
  std::string found = at_ < text_.size() ? fmt::format("'{}'", text_[at_]) : "its end";
  return fail(at_, fmt::format("the header should have {} here, found {}", what, found));
}

bool NpyHeaderReader::take(char c) {
  skipBlanks();
  if (at_ >= text_.size() || text_[at_] != c) return false;
  ++at_;
  return true;
}

bool NpyHeaderReader::readString(std::string_view& out) {
  skipBlanks();
  char quote = at_ < text_.size() ? text_[at_] : ' ';
  if (quote != '\'' && quote != '"') return expected("a string");
  size_t end = text_.find(quote, at_ + 1);
  if (end == std::string_view::npos) return fail(at_, "a string of the header does not end");
  out = text_.substr(at_ + 1, end - at_ - 1);
  at_ = end + 1;
  return true;
}

bool NpyHeaderReader::read(FileHeader& header) {
  unsigned seen = 0;
  if (!expect('{')) return false;
  while (!take('}')) {
    if (!readEntry(header, seen)) return false;
    if (take(',')) continue;
    if (!expect('}')) return false;
    break;
  }
  constexpr std::string_view kKeys[] = {"descr", "fortran_order", "shape"};
  for (unsigned i = 0; i < 3; ++i)
    if (!(seen & 1u << i)) return fail(at_ - 1, fmt::format("the header has no '{}'", kKeys[i]));
  skipBlanks();
  return at_ == text_.size() || fail(at_, "the header goes on after its dict");
}

bool NpyHeaderReader::readEntry(FileHeader& header, unsigned& seen) {
  skipBlanks();
  size_t start = at_;
  std::string_view key;
  if (!readString(key)) return false;
  unsigned bit = key == "descr" ? 1 : key == "fortran_order" ? 2 : key == "shape" ? 4 : 0;
  if (bit == 0) return fail(start, fmt::format("the header has the unknown key '{}'", abbreviate(key, 40)));
  if (seen & bit) return fail(start, fmt::format("the header has '{}' twice", key));
  seen |= bit;
  if (!expect(':')) return false;
  return bit == 1 ? readDType(header) : bit == 2 ? readOrder(header) : readShape(header);
}

bool NpyHeaderReader::readDType(FileHeader& header) {
  skipBlanks();
  size_t start = at_;
  if (at_ < text_.size() && text_[at_] == '[')
    return fail(start, "structured arrays are not supported", ErrorKind::Unsupported);
  std::string_view descr;
  if (!readString(descr)) return false;
  auto unsupported = [&](std::string_view why) {
    return fail(start, fmt::format("{} ('{}') are not supported", why, abbreviate(descr, 40)), ErrorKind::Unsupported);
  };
  char order = descr.empty() ? ' ' : descr[0];
  if (descr.size() > 1 && descr[1] == 'O') return unsupported("arrays of Python objects");
  std::optional<DType> dtype;
  if (order == '<' || order == '>' || order == '|' || order == '=') dtype = dtypeFromArrayCode(descr.substr(1));
  if (!dtype) return unsupported("arrays of this dtype");
  header.dtype = *dtype;
  header.isReversed = order == '>';
  return true;
}

bool NpyHeaderReader::readOrder(FileHeader& header) {
  skipBlanks();
  for (bool value : {true, false})
    if (std::string_view word = value ? "True"sv : "False"sv; text_.substr(at_, word.size()) == word) {
      header.fortranOrder = value;
      at_ += word.size();
      return true;
    }
  return expected("True or False");
}

bool NpyHeaderReader::readShape(FileHeader& header) {
  if (!expect('(')) return false;
  while (!take(')')) {
    skipBlanks();
    int64_t size = 0;
    const char* begin = text_.data() + at_;
    auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), size);
    if (error == std::errc::invalid_argument || *begin == '-') return expected("a size");
    if (error != std::errc() || size > kMaxElements) return fail(at_, "a size is above 2^48", ErrorKind::Limit);
    if (header.sizes.size() == kMaxRank)
      return fail(at_, fmt::format("the array has more than {} dimensions", kMaxRank), ErrorKind::Limit);
    header.sizes.push_back(size);
    at_ = static_cast<size_t>(end - text_.data());
    if (at_ < text_.size() && text_[at_] == 'L') ++at_;  // as Python 2 wrote it
    if (take(',')) continue;
    // One element needs its comma: (3) is a number.
    if (header.sizes.size() == 1) return expected("','");
    if (!expect(')')) return false;
    break;
  }
  return true;
}

unsigned byteOf(std::string_view bytes, size_t i) { return static_cast<unsigned char>(bytes[i]); }

Result<FileHeader> parseFileHeader(const FilePart& file, Diagnostics& diagnostics, const Limits& limits) {
  std::string_view b = file.bytes;
  auto fail = [&](uint64_t at, std::string message, ErrorKind kind = ErrorKind::Input) {
    diagnostics.fileError(file.path, file.offset + at, std::move(message), kind);
    return Failed{};
  };
  if (!startsWith(b, kMagic)) {
    reportFileKind(file.path, "an .npy file", detectFileKind(b.substr(0, kFileKindBytes)), diagnostics);
    return Failed{};
  }
  if (b.size() < 10) return fail(b.size(), "the file is truncated within its header");
  unsigned version = byteOf(b, 6);
  if (version < 1 || version > 3 || b[7] != 0)
    return fail(6, fmt::format("version {}.{} of the format is not known", version, byteOf(b, 7)),
                ErrorKind::Unsupported);
  size_t begin = version == 1 ? 10 : 12;
  if (b.size() < begin) return fail(b.size(), "the file is truncated within its header");
  uint64_t length = byteOf(b, 8) | byteOf(b, 9) << 8;
  if (version > 1) length |= uint64_t{byteOf(b, 10)} << 16 | uint64_t{byteOf(b, 11)} << 24;
  if (length > b.size() - begin) return fail(b.size(), "the file is truncated within its header");
  if (length > limits.npyHeaderBytes)
    return diagnostics.metLimit(
        "npy-header", fail(8, fmt::format("the header has {} bytes, the limit is {}", length, limits.npyHeaderBytes),
                           ErrorKind::Limit));
  FileHeader header;
  header.dataOffset = begin + length;
  if (!NpyHeaderReader(file, begin, begin + length, diagnostics).read(header)) return Failed{};
  return header;
}

std::string npyHeaderText(const Tensor& t) {
  std::string sizes = fmt::format("{}{}", fmt::join(t.sizes(), ", "), t.rank() == 1 ? "," : "");
  std::string text = fmt::format("{{'descr': '{}{}', 'fortran_order': False, 'shape': ({}), }}",
                                 itemSize(t.dtype()) == 1 ? '|' : '<', arrayCode(t.dtype()), sizes);
  // numpy leaves room for the first size to grow to 21 digits, then fills up to a multiple of 64 bytes.
  if (t.rank() > 0) text.append(21 - std::to_string(t.size(0)).size(), ' ');
  constexpr size_t kFixed = kMagic.size() + 4;
  text.resize((kFixed + text.size() + 1 + 63) / 64 * 64 - kFixed - 1, ' ');
  text += '\n';
  std::string out(kMagic);
  out += {'\1', '\0', static_cast<char>(text.size()), static_cast<char>(text.size() >> 8)};
  return out + text;
}

}  // namespace

bool hasNpyType(DType dtype) { return !arrayCode(dtype).empty(); }

Result<Tensor> parseNpy(const FilePart& file, Diagnostics& diagnostics, const Limits& limits) {
  Result<FileHeader> header = parseFileHeader(file, diagnostics, limits);
  if (!header) return Failed{};
  auto fail = [&](uint64_t at, std::string message, ErrorKind kind = ErrorKind::Input) {
    diagnostics.fileError(file.path, file.offset + at, std::move(message), kind);
    return Failed{};
  };
  std::string_view data = file.bytes.substr(header->dataOffset);
  std::optional<int64_t> count = checkedNumel(header->sizes);
  if (!count)
    return fail(0, fmt::format("an array of size {} has more than 2^48 elements", dimsText(header->sizes)),
                ErrorKind::Limit);
  uint64_t bytes = static_cast<uint64_t>(*count) * itemSize(header->dtype);
  if (bytes != data.size())
    return fail(file.bytes.size(), fmt::format("{} {} takes {}, but {} follow the header{}", pythonName(header->dtype),
                                               dimsText(header->sizes), counted(bytes, "byte"), data.size(),
                                               bytes > data.size() ? ": the file is truncated" : ""));
  if (header->dtype == DType::Bool)
    if (std::optional<size_t> bad = findBadBool(data))
      return fail(header->dataOffset + *bad, fmt::format("a bool is 0 or 1, not {}", byteOf(data, *bad)));
  Result<Tensor> t = allocateTensor(header->dtype, header->sizes, file.path, diagnostics);
  if (!t) return Failed{};
  if (bytes > 0) std::memcpy(t->raw(), data.data(), bytes);
  if (header->isReversed) reverseBytes(t->raw(), bytes, header->dtype);
  if (header->fortranOrder && bytes > 0) return t->withGeometry(t->sizes(), columnMajorStrides(t->sizes()), 0);
  return t;
}

Result<NpyHeader> readNpyHeader(const std::string& path, Diagnostics& diagnostics, const Limits& limits) {
  Ref<FileMapping> file = FileMapping::open(path, diagnostics);
  if (!file) return Failed{};
  Result<FileHeader> header = parseFileHeader({file->bytes(), path}, diagnostics, limits);
  if (!header) return Failed{};
  return NpyHeader(*header);
}

Result<Tensor> readNpy(const std::string& path, Diagnostics& diagnostics, const Limits& limits) {
  Ref<FileMapping> file = FileMapping::open(path, diagnostics);
  if (!file) return Failed{};
  return parseNpy({file->bytes(), path}, diagnostics, limits);
}

bool putNpy(FileWriter& file, const Tensor& tensor) {
  return file.write(npyHeaderText(tensor)) && writeElements(file, tensor);
}

bool writeNpy(const std::string& path, const Tensor& tensor, Diagnostics& diagnostics) {
  if (tensor.dtype() == DType::BFloat16) {
    diagnostics.fileError(path, {}, "cannot write: .npy files have no bfloat16; safetensors files do",
                          ErrorKind::Unsupported);
    return false;
  }
  FileWriter file(path, diagnostics);
  return putNpy(file, tensor) && file.commit();
}

}  // namespace tscompile
