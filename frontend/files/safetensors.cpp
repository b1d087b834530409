// Tensors of safetensors files: 8 bytes of header length, the header, the tensors' bytes without holes.
#include "frontend/files/tensor_formats.h"
#include "ir/support/text.h"
#include "ir/values/carried_types.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace tscompile {
namespace {

size_t alignmentOf(DType dtype) {
  size_t alignment = 1;
  visitStoredDType(dtype, [&](auto sample) { alignment = alignof(decltype(sample)); });
  return alignment;
}

}  // namespace

Result<SafetensorsHeader> readSafetensorsHeader(const std::string& path, Diagnostics& diagnostics,
                                                const Limits& limits) {
  Ref<FileMapping> file = FileMapping::open(path, diagnostics);
  if (!file) return Failed{};
  return parseSafetensorsHeader(file->bytes(), file->bytes().size(), path, diagnostics, limits);
}

Result<Tensor> loadSafetensor(std::string_view file, const SafetensorsHeader& header, const TensorEntry& entry,
                              const RefCounted* owner, const std::string& path, Diagnostics& diagnostics) {
  uint64_t at = header.dataOffset + entry.begin;
  auto fail = [&](uint64_t where, std::string message, ErrorKind kind) {
    diagnostics.fileError(path, where, tensorText(entry.name) + ": " + message, kind);
    return Failed{};
  };
  std::optional<DType> dtype = dtypeFromSafetensors(entry.dtype);
  if (!dtype) return fail(at, fmt::format("the dtype {} is not supported", entry.dtype), ErrorKind::Unsupported);
  std::string_view bytes = file.substr(at, entry.end - entry.begin);
  if (*dtype == DType::Bool)
    if (std::optional<size_t> bad = findBadBool(bytes))
      return fail(at + *bad, fmt::format("a bool is 0 or 1, not {}", static_cast<unsigned char>(bytes[*bad])),
                  ErrorKind::Input);
  if (owner && reinterpret_cast<uintptr_t>(bytes.data()) % alignmentOf(*dtype) == 0)
    return readOnlyTensor(*dtype, entry.sizes, bytes, owner);
  Result<Tensor> copy = allocateTensor(*dtype, entry.sizes, path, diagnostics);
  if (copy && !bytes.empty()) std::memcpy(copy->raw(), bytes.data(), bytes.size());
  if (copy && owner) return asReadOnly(*copy);
  return copy;
}

Result<Tensor> parseSafetensor(const FilePart& file, std::string_view name, Diagnostics& diagnostics,
                               const Limits& limits) {
  Result<SafetensorsHeader> header =
      parseSafetensorsHeader(file.bytes, file.bytes.size(), file.path, diagnostics, limits);
  if (!header) return Failed{};
  NearestName nearest(name);
  for (const TensorEntry& e : header->tensors) {
    if (e.name == name) return loadSafetensor(file.bytes, *header, e, nullptr, file.path, diagnostics);
    nearest.consider(e.name);
  }
  Diagnostic& d = diagnostics.fileError(file.path, {}, fmt::format("the file has no {}", tensorText(name)));
  if (nearest.found()) d.note(fmt::format("did you mean '{}'?", nearest.name()));
  return Failed{};
}

Result<Tensor> readSafetensor(const std::string& path, std::string_view name, Diagnostics& diagnostics,
                              const Limits& limits) {
  Ref<FileMapping> file = FileMapping::open(path, diagnostics);
  if (!file) return Failed{};
  return parseSafetensor({file->bytes(), path}, name, diagnostics, limits);
}

namespace {

std::string headerText(const std::vector<std::pair<std::string, Tensor>>& tensors, const std::vector<size_t>& order,
                       const Metadata& metadata) {
  std::string out = "{";
  if (!metadata.empty()) {
    out += "\"__metadata__\":{";
    out += join(metadata, ",", [](const auto& m) { return jsonQuote(m.first) + ":" + jsonQuote(m.second); });
    out += '}';
  }
  uint64_t at = 0;
  for (size_t i : order) {
    const auto& [name, t] = tensors[i];
    uint64_t bytes = static_cast<uint64_t>(t.numel()) * itemSize(t.dtype());
    if (out.size() > 1) out += ',';
    out += fmt::format("{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}", jsonQuote(name),
                       safetensorsName(t.dtype()), fmt::join(t.sizes(), ","), at, at + bytes);
    at += bytes;
  }
  out += '}';
  out.resize((out.size() + 7) / 8 * 8, ' ');
  return out;
}

}  // namespace

bool putSafetensors(FileWriter& file, const std::vector<std::pair<std::string, Tensor>>& tensors,
                    const Metadata& metadata) {
  std::vector<size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), size_t{0});
  auto alignment = [&](size_t i) { return alignmentOf(tensors[i].second.dtype()); };
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return alignment(a) > alignment(b); });
  std::string header = headerText(tensors, order, metadata);
  std::string length;
  for (int shift = 0; shift < 64; shift += 8) length += static_cast<char>(header.size() >> shift);
  if (!file.write(length) || !file.write(header)) return false;
  for (size_t i : order)
    if (!writeElements(file, tensors[i].second)) return false;
  return true;
}

bool writeSafetensors(const std::string& path, const std::vector<std::pair<std::string, Tensor>>& tensors,
                      Diagnostics& diagnostics, const Metadata& metadata) {
  std::vector<std::string_view> names;
  for (const auto& [name, tensor] : tensors) names.push_back(name);
  std::sort(names.begin(), names.end());
  if (auto twin = std::adjacent_find(names.begin(), names.end()); twin != names.end()) {
    diagnostics.fileError(path, {}, fmt::format("cannot write: there are two tensors named '{}'", *twin));
    return false;
  }
  FileWriter file(path, diagnostics);
  return putSafetensors(file, tensors, metadata) && file.commit();
}

}  // namespace tscompile
