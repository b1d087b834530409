// Tensors of files whatever their format.
#include "frontend/files/file_kind.h"
#include "frontend/files/tensor_formats.h"
#include "frontend/files/zip.h"
#include "ir/support/text.h"

#include <fmt/core.h>

namespace tscompile {
namespace {

Result<std::vector<std::string>> memberNames(const FilePart& file, FileKind kind, Diagnostics& diagnostics,
                                             const Limits& limits) {
  std::vector<std::string> names;
  if (kind == FileKind::Safetensors) {
    auto header = parseSafetensorsHeader(file.bytes, file.bytes.size(), file.path, diagnostics, limits);
    if (!header) return Failed{};
    for (TensorEntry& e : header->tensors) names.push_back(std::move(e.name));
  } else {
    auto archive = ZipArchive::read(file, nullptr, diagnostics, limits);
    if (!archive) return Failed{};
    for (const ZipMember& m : (*archive)->members())
      names.push_back(endsWith(m.name, ".npy") ? m.name.substr(0, m.name.size() - 4) : m.name);
  }
  return names;
}

// The name of a tensor is missing: says which there are.
Failed missingMember(const FilePart& file, FileKind kind, Diagnostics& diagnostics, const Limits& limits) {
  Result<std::vector<std::string>> names = memberNames(file, kind, diagnostics, limits);
  if (!names) return {};
  Diagnostic& d =
      diagnostics.fileError(file.path, {}, fmt::format("{} holds tensors by name: {}#NAME", describe(kind), file.path));
  constexpr size_t kShown = 10;
  size_t more = names->size() > kShown ? names->size() - kShown : 0;
  names->resize(names->size() - more);
  std::string list = join(*names, ", ", [](const std::string& n) { return abbreviate(n, 80); });
  d.note(names->empty() ? "it has none"
                        : fmt::format("it has {}{}", list, more ? fmt::format(" and {} more", more) : ""));
  return {};
}

}  // namespace

Result<Tensor> readTensorFile(const std::string& path, std::optional<std::string_view> member, Diagnostics& diagnostics,
                              const Limits& limits) {
  Ref<FileMapping> mapping = FileMapping::open(path, diagnostics);
  if (!mapping) return Failed{};
  FilePart file{mapping->bytes(), path};
  FileKind kind = detectFileKind(file.bytes.substr(0, kFileKindBytes));
  switch (kind) {
    case FileKind::Npy:
      if (!member) return parseNpy(file, diagnostics, limits);
      diagnostics.fileError(
          path, {}, fmt::format("an .npy file holds one tensor without a name, not '{}'", abbreviate(*member, 80)));
      return Failed{};
    case FileKind::Npz:
    case FileKind::Zip:
      if (member) return parseNpz(file, *member, diagnostics, limits);
      return missingMember(file, FileKind::Npz, diagnostics, limits);
    case FileKind::Safetensors:
      if (member) return parseSafetensor(file, *member, diagnostics, limits);
      return missingMember(file, kind, diagnostics, limits);
    default:
      reportFileKind(path, "an .npy, .npz or safetensors file", kind, diagnostics);
      return Failed{};
  }
}

}  // namespace tscompile
