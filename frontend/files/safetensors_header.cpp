// The JSON header of safetensors files. It may come from anybody, so it is read event by event: the JSON library's own
// documents keep the last of several like keys and are copied by recursion.
#include "frontend/files/file_kind.h"
#include "frontend/files/tensor_formats.h"
#include "ir/support/seen_bytes.h"
#include "ir/support/text.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <numeric>

namespace tscompile {
namespace {

struct DTypeName {
  std::string_view name;
  DType dtype;
  size_t bytes;
};
constexpr DTypeName kDTypeNames[] = {
    {"F64", DType::Float64, 8},
    {"F32", DType::Float32, 4},
    {"F16", DType::Float16, 2},
    {"BF16", DType::BFloat16, 2},
    {"I64", DType::Int64, 8},
    {"I32", DType::Int32, 4},
    {"I16", DType::Int16, 2},
    {"I8", DType::Int8, 1},
    {"U8", DType::UInt8, 1},
    {"BOOL", DType::Bool, 1},
    {"C64", DType::Complex64, 8},
    {"C128", DType::Complex128, 16},
    {"U16", DType::UInt16, 2},
    {"U32", DType::UInt32, 4},
    {"U64", DType::UInt64, 8},
    {"F8_E4M3", DType::Float8E4M3FN, 1},
    {"F8_E5M2", DType::Float8E5M2, 1},
    {"F8_E8M0", DType::Float8E8M0FNU, 1},
    {"F8_E4M3FNUZ", DType::Float8E4M3FNUZ, 1},
    {"F8_E5M2FNUZ", DType::Float8E5M2FNUZ, 1},
};

const DTypeName* findDType(std::string_view name) {
  auto found =
      std::find_if(std::begin(kDTypeNames), std::end(kDTypeNames), [&](const DTypeName& d) { return d.name == name; });
  return found == std::end(kDTypeNames) ? nullptr : found;
}

constexpr uint64_t kLengthBytes = 8;

// Takes the JSON reader's events. A header has three levels, so nothing deeper is ever entered.
class SafetensorsHeaderReader {
 public:
  SafetensorsHeaderReader(std::string_view json, uint64_t dataBytes, const std::string& path, Diagnostics& diagnostics,
                          const Limits& limits)
      : json_(json),
        dataBytes_(dataBytes),
        path_(path),
        diagnostics_(diagnostics),
        limits_(limits),
        seen_(json.data()) {}

  bool read(SafetensorsHeader& header);

  bool null() { return unexpected("null"); }
  bool boolean(bool) { return unexpected("a bool"); }
  bool number_integer(int64_t) { return unexpected("a negative number"); }
  bool number_float(double, const std::string&) { return unexpected("a number that is no 64-bit integer"); }
  bool number_unsigned(uint64_t number);
  bool string(std::string& text);
  bool binary(nlohmann::json::binary_t&) { TS_UNREACHABLE(); }  // JSON text has none
  bool start_object(size_t);
  bool key(std::string& name);
  bool end_object();
  bool start_array(size_t);
  bool end_array();
  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception&);

 private:
  enum class Where : uint8_t { Start, Tensors, Metadata, Entry, Sizes, Offsets, End };
  enum class Field : uint8_t { DType, Sizes, Offsets };
  // A tensor, and where its name ends in the header.
  struct Read {
    TensorEntry entry;
    size_t nameEnd = 0;
    unsigned fields = 0;
    size_t offsetCount = 0;
  };

  bool fail(size_t at, std::string message, ErrorKind kind = ErrorKind::Input);
  bool failTensor(const Read& r, std::string message, ErrorKind kind = ErrorKind::Input);
  bool unexpected(std::string_view found);
  bool wants(Where where, Field field) const { return where_ == where && field_ == field; }
  size_t seen() const { return static_cast<size_t>(seen_ - json_.data()); }
  bool checkEntry(const Read& r);
  bool checkNames();
  bool checkTiling();

  std::string_view json_;
  uint64_t dataBytes_;
  const std::string& path_;
  Diagnostics& diagnostics_;
  const Limits& limits_;
  const char* seen_;
  Where where_ = Where::Start;
  Field field_ = Field::DType;
  std::string metadataKey_;
  std::vector<Read> tensors_;
  Metadata metadata_;
  bool hasMetadata_ = false, metadataNext_ = false;
};

bool SafetensorsHeaderReader::read(SafetensorsHeader& header) {
  if (size_t zero = json_.find('\0'); zero != std::string_view::npos)  // the JSON reader would take it for the end
    return fail(zero, "the header contains a zero byte");
  SeenBytes begin(json_.data(), &seen_), end(json_.data() + json_.size(), &seen_);
  if (!nlohmann::json::sax_parse(begin, end, this)) return false;
  if (!checkNames() || !checkTiling()) return false;
  for (Read& r : tensors_) header.tensors.push_back(std::move(r.entry));
  header.metadata = std::move(metadata_);
  return true;
}

bool SafetensorsHeaderReader::fail(size_t at, std::string message, ErrorKind kind) {
  diagnostics_.fileError(path_, kLengthBytes + at, std::move(message), kind);
  return false;
}

// At the quote that opens the tensor's name: the last one that is not escaped.
bool SafetensorsHeaderReader::failTensor(const Read& r, std::string message, ErrorKind kind) {
  size_t at = r.nameEnd - 1;
  auto escaped = [&](size_t i) {
    size_t slashes = 0;
    while (slashes < i && json_[i - 1 - slashes] == '\\') ++slashes;
    return slashes % 2 == 1;
  };
  do --at;
  while (at > 0 && (json_[at] != '"' || escaped(at)));
  return fail(at, tensorText(r.entry.name) + ": " + message, kind);
}

bool SafetensorsHeaderReader::unexpected(std::string_view found) {
  auto entry = [&](std::string_view wanted) {
    return failTensor(tensors_.back(), fmt::format("expected {}, found {}", wanted, found));
  };
  switch (where_) {
    case Where::Start:
      return fail(0, fmt::format("the header is {}, not an object", found));
    case Where::Tensors:
      if (metadataNext_) return fail(seen(), fmt::format("expected an object as __metadata__, found {}", found));
      return entry("an object");
    case Where::Metadata:
      return fail(seen(), fmt::format("__metadata__ may hold strings only, but '{}' is {}",
                                      abbreviate(metadataKey_, 200), found));
    case Where::Entry:
      return entry(field_ == Field::DType   ? "a string as dtype"
                   : field_ == Field::Sizes ? "a list of sizes as shape"
                                            : "a list of two numbers as data_offsets");
    case Where::Sizes:
      return entry("a number in shape");
    case Where::Offsets:
      return entry("a number in data_offsets");
    case Where::End:
      break;
  }
  TS_UNREACHABLE();
}

bool SafetensorsHeaderReader::number_unsigned(uint64_t number) {
  if (where_ != Where::Sizes && where_ != Where::Offsets) return unexpected("a number");
  Read& r = tensors_.back();
  if (where_ == Where::Sizes) {
    if (number > static_cast<uint64_t>(kMaxElements))
      return failTensor(r, fmt::format("the size {} is above 2^48", number), ErrorKind::Limit);
    if (r.entry.sizes.size() == kMaxRank)
      return failTensor(r, fmt::format("it has more than {} dimensions", kMaxRank), ErrorKind::Limit);
    r.entry.sizes.push_back(static_cast<int64_t>(number));
    return true;
  }
  if (r.offsetCount == 2) return failTensor(r, "data_offsets has more than two numbers");
  (r.offsetCount++ == 0 ? r.entry.begin : r.entry.end) = number;
  return true;
}

bool SafetensorsHeaderReader::string(std::string& text) {
  if (where_ == Where::Metadata) {
    if (!metadata_.emplace(metadataKey_, text).second)
      return fail(seen(), fmt::format("__metadata__ has the key '{}' twice", abbreviate(metadataKey_, 200)));
    return true;
  }
  if (!wants(Where::Entry, Field::DType)) return unexpected("a string");
  tensors_.back().entry.dtype = abbreviate(text, 40);
  return true;
}

bool SafetensorsHeaderReader::start_object(size_t) {
  if (where_ == Where::Start) {
    where_ = Where::Tensors;
  } else if (where_ == Where::Tensors) {
    where_ = metadataNext_ ? Where::Metadata : Where::Entry;
  } else {
    return unexpected("an object");
  }
  return true;
}

bool SafetensorsHeaderReader::key(std::string& name) {
  if (name.size() > limits_.identifierBytes)
    return diagnostics_.metLimit(
        "identifier",
        fail(seen(), fmt::format("a name has more than {} bytes", limits_.identifierBytes), ErrorKind::Limit));
  if (where_ == Where::Metadata) {
    metadataKey_ = name;
    return true;
  }
  if (where_ == Where::Tensors) {
    metadataNext_ = name == "__metadata__";
    if (metadataNext_) {
      if (std::exchange(hasMetadata_, true)) return fail(seen(), "the header has __metadata__ twice");
      return true;
    }
    if (tensors_.size() == limits_.tensors)
      return diagnostics_.metLimit(
          "tensors", fail(seen(), fmt::format("the file has more than {} tensors", limits_.tensors), ErrorKind::Limit));
    Read& r = tensors_.emplace_back();
    r.entry.name = name;
    r.nameEnd = seen();
    return true;
  }
  Read& r = tensors_.back();
  if (name == "dtype")
    field_ = Field::DType;
  else if (name == "shape")
    field_ = Field::Sizes;
  else if (name == "data_offsets")
    field_ = Field::Offsets;
  else
    return failTensor(r, fmt::format("unknown key '{}'", abbreviate(name, 200)));
  unsigned bit = 1u << static_cast<unsigned>(field_);
  if (r.fields & bit) return failTensor(r, fmt::format("it has {} twice", name));
  r.fields |= bit;
  return true;
}

bool SafetensorsHeaderReader::end_object() {
  if (where_ == Where::Tensors) {
    where_ = Where::End;
    return true;
  }
  bool good = where_ == Where::Metadata || checkEntry(tensors_.back());
  where_ = Where::Tensors;
  return good;
}

bool SafetensorsHeaderReader::start_array(size_t) {
  if (wants(Where::Entry, Field::Sizes))
    where_ = Where::Sizes;
  else if (wants(Where::Entry, Field::Offsets))
    where_ = Where::Offsets;
  else
    return unexpected("a list");
  return true;
}

bool SafetensorsHeaderReader::end_array() {
  if (where_ == Where::Offsets && tensors_.back().offsetCount != 2)
    return failTensor(tensors_.back(), "data_offsets has fewer than two numbers");
  where_ = Where::Entry;
  return true;
}

bool SafetensorsHeaderReader::parse_error(size_t position, const std::string&, const nlohmann::detail::exception&) {
  size_t at = std::min(position > 0 ? position - 1 : 0, json_.size());
  for (size_t i = 0, n; i <= at && i < json_.size(); i += n)
    if ((n = utf8Length(json_.substr(i))) == 0) return fail(i, "the header is not UTF-8");
  if (position > json_.size()) return fail(at, "the header is not JSON: it ends too early");
  return fail(at,
              fmt::format("the header is not JSON: unexpected '{}'", json_.substr(at, utf8Length(json_.substr(at)))));
}

bool SafetensorsHeaderReader::checkEntry(const Read& r) {
  constexpr std::string_view kFields[] = {"dtype", "shape", "data_offsets"};
  for (unsigned f = 0; f < 3; ++f)
    if (!(r.fields & 1u << f)) return failTensor(r, fmt::format("it has no {}", kFields[f]));
  const TensorEntry& e = r.entry;
  if (e.begin > e.end) return failTensor(r, fmt::format("its data_offsets {} and {} run backwards", e.begin, e.end));
  std::optional<int64_t> count = checkedNumel(e.sizes);
  if (!count) return failTensor(r, fmt::format("{} has more than 2^48 elements", dimsText(e.sizes)), ErrorKind::Limit);
  const DTypeName* dtype = findDType(e.dtype);
  if (!dtype) return true;
  uint64_t bytes = static_cast<uint64_t>(*count) * dtype->bytes;
  if (bytes != e.end - e.begin)
    return failTensor(r, fmt::format("{} {} has {}, but its data_offsets hold {}", e.dtype, dimsText(e.sizes),
                                     counted(bytes, "byte"), e.end - e.begin));
  return true;
}

bool SafetensorsHeaderReader::checkNames() {
  std::vector<size_t> order(tensors_.size());
  std::iota(order.begin(), order.end(), size_t{0});
  auto name = [&](size_t i) -> const std::string& { return tensors_[i].entry.name; };
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return name(a) != name(b) ? name(a) < name(b) : a < b; });
  for (size_t i = 1; i < order.size(); ++i)
    if (name(order[i - 1]) == name(order[i])) return failTensor(tensors_[order[i]], "the header has this name twice");
  return true;
}

bool SafetensorsHeaderReader::checkTiling() {
  std::stable_sort(tensors_.begin(), tensors_.end(), [](const Read& a, const Read& b) {
    return a.entry.begin != b.entry.begin ? a.entry.begin < b.entry.begin : a.entry.end < b.entry.end;
  });
  uint64_t end = 0;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const TensorEntry& e = tensors_[i].entry;
    if (e.end > dataBytes_)
      return failTensor(tensors_[i],
                        fmt::format("the file is truncated: its bytes end at {} of {}", e.end, dataBytes_));
    if (e.begin > end)
      return failTensor(tensors_[i], fmt::format("the bytes {} to {} before it belong to no tensor", end, e.begin));
    if (e.begin < end)
      return failTensor(tensors_[i], fmt::format("it shares bytes {} to {} with {}", e.begin, std::min(end, e.end),
                                                 tensorText(tensors_[i - 1].entry.name)));
    end = e.end;
  }
  if (end == dataBytes_) return true;
  return fail(json_.size() + end,
              fmt::format("the last tensor is followed by {} too many", counted(dataBytes_ - end, "byte")));
}

uint64_t headerLength(std::string_view start) {
  uint64_t length = 0;
  for (size_t i = kLengthBytes; i-- > 0;) length = length << 8 | static_cast<unsigned char>(start[i]);
  return length;
}

}  // namespace

std::optional<DType> dtypeFromSafetensors(std::string_view name) {
  const DTypeName* d = findDType(name);
  if (!d) return std::nullopt;
  return d->dtype;
}

std::string_view safetensorsName(DType dtype) {
  for (const DTypeName& d : kDTypeNames)
    if (d.dtype == dtype) return d.name;
  TS_UNREACHABLE();
}

std::string tensorText(std::string_view name) { return fmt::format("tensor '{}'", abbreviate(name, 200)); }

Result<SafetensorsHeader> parseSafetensorsHeader(std::string_view start, uint64_t fileSize, const std::string& path,
                                                 Diagnostics& diagnostics, const Limits& limits) {
  auto fail = [&](std::string message, ErrorKind kind = ErrorKind::Input) {
    diagnostics.fileError(path, 0, std::move(message), kind);
    return Failed{};
  };
  FileKind kind = detectFileKind(start.substr(0, kFileKindBytes));
  if (kind != FileKind::Safetensors && kind != FileKind::Binary) {
    reportFileKind(path, "a safetensors file", kind, diagnostics);
    return Failed{};
  }
  if (fileSize <= kLengthBytes)
    return fail(fmt::format("the file is truncated: it has only {}", counted(fileSize, "byte")));
  uint64_t length = headerLength(start);
  if (length > fileSize - kLengthBytes)
    return fail(fmt::format("the file is truncated: its header has {} bytes, the file {}", length, fileSize));
  if (length > limits.headerBytes)
    return diagnostics.metLimit(
        "header",
        fail(fmt::format("the header has {} bytes, the limit is {}", length, limits.headerBytes), ErrorKind::Limit));
  if (length == 0 || start[kLengthBytes] != '{') return fail("the header does not begin with '{'");
  SafetensorsHeader header;
  header.dataOffset = kLengthBytes + length;
  SafetensorsHeaderReader reader(start.substr(kLengthBytes, length), fileSize - header.dataOffset, path, diagnostics,
                                 limits);
  if (!reader.read(header)) return Failed{};
  return header;
}

}  // namespace tscompile
