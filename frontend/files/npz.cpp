// Members of .npz files: zip archives of .npy files.
#include "frontend/files/file_kind.h"
#include "frontend/files/zip.h"
#include "ir/support/text.h"

#include <fmt/core.h>

namespace tscompile {
namespace {

std::string_view withoutSuffix(std::string_view name) {
  if (endsWith(name, ".npy")) name.remove_suffix(4);
  return name;
}

Result<std::vector<ZipMember>> readMembers(const FilePart& file, Diagnostics& diagnostics, const Limits& limits) {
  FileKind kind = detectFileKind(file.bytes.substr(0, kFileKindBytes));
  if (kind != FileKind::Npz && kind != FileKind::Zip) {
    reportFileKind(file.path, "an .npz archive", kind, diagnostics);
    return Failed{};
  }
  return readZipDirectory(file, diagnostics, limits);
}

}  // namespace

Result<Tensor> parseNpz(const FilePart& file, std::string_view name, Diagnostics& diagnostics, const Limits& limits) {
  Result<std::vector<ZipMember>> members = readMembers(file, diagnostics, limits);
  if (!members) return Failed{};
  const ZipMember* found = nullptr;
  NearestName nearest(withoutSuffix(name));
  for (const ZipMember& m : *members) {
    nearest.consider(withoutSuffix(m.name));
    if (m.name != name && withoutSuffix(m.name) != name) continue;
    if (found) {
      diagnostics.fileError(file.path, m.entryOffset,
                            fmt::format("the archive has two members '{}'", abbreviate(name, 200)));
      return Failed{};
    }
    found = &m;
  }
  if (!found) {
    Diagnostic& d =
        diagnostics.fileError(file.path, {}, fmt::format("the archive has no member '{}'", abbreviate(name, 200)));
    if (nearest.found()) d.note(fmt::format("did you mean '{}'?", nearest.name()));
    return Failed{};
  }
  Result<FilePart> part = readStoredMember(file, *found, diagnostics);
  if (!part) return Failed{};
  return parseNpy(*part, diagnostics, limits);
}

Result<Tensor> readNpz(const std::string& path, std::string_view member, Diagnostics& diagnostics,
                       const Limits& limits) {
  Ref<FileMapping> file = FileMapping::open(path, diagnostics);
  if (!file) return Failed{};
  return parseNpz({file->bytes(), path}, member, diagnostics, limits);
}

Result<std::vector<std::string>> readNpzNames(const std::string& path, Diagnostics& diagnostics, const Limits& limits) {
  Ref<FileMapping> file = FileMapping::open(path, diagnostics);
  if (!file) return Failed{};
  Result<std::vector<ZipMember>> members = readMembers({file->bytes(), path}, diagnostics, limits);
  if (!members) return Failed{};
  std::vector<std::string> names;
  for (const ZipMember& m : *members) names.emplace_back(withoutSuffix(m.name));
  return names;
}

}  // namespace tscompile
