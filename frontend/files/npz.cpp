// Members of .npz files: zip archives of .npy files.
#include "frontend/files/file_kind.h"
#include "frontend/files/zip.h"
#include "ir/support/text.h"

#include <fmt/core.h>

#include <algorithm>

namespace tscompile {
namespace {

std::string_view withoutSuffix(std::string_view name) {
  if (endsWith(name, ".npy")) name.remove_suffix(4);
  return name;
}

Result<std::shared_ptr<const ZipArchive>> readArchive(const FilePart& file, Diagnostics& diagnostics,
                                                      const Limits& limits) {
  FileKind kind = detectFileKind(file.bytes.substr(0, kFileKindBytes));
  if (kind != FileKind::Npz && kind != FileKind::Zip) {
    reportFileKind(file.path, "an .npz archive", kind, diagnostics);
    return Failed{};
  }
  return ZipArchive::read(file, nullptr, diagnostics, limits);
}

}  // namespace

Result<Tensor> parseNpz(const FilePart& file, std::string_view name, Diagnostics& diagnostics, const Limits& limits) {
  Result<std::shared_ptr<const ZipArchive>> archive = readArchive(file, diagnostics, limits);
  if (!archive) return Failed{};
  const ZipMember* found = (*archive)->find(name);
  if (!found) found = (*archive)->find(std::string(name) + ".npy");
  if (!found) {
    NearestName nearest(withoutSuffix(name));
    for (const ZipMember& m : (*archive)->members()) nearest.consider(withoutSuffix(m.name));
    Diagnostic& d =
        diagnostics.fileError(file.path, {}, fmt::format("the archive has no member '{}'", abbreviate(name, 200)));
    if (nearest.found()) d.note(fmt::format("did you mean '{}'?", nearest.name()));
    return Failed{};
  }
  Result<ZipContents> contents = (*archive)->contents(*found, limits.generatedBytes, diagnostics);
  if (!contents) return Failed{};
  return parseNpy(contents->part, diagnostics, limits);
}

Result<std::vector<std::pair<std::string, Tensor>>> parseNpz(const FilePart& file, Diagnostics& diagnostics,
                                                             const Limits& limits) {
  Result<std::shared_ptr<const ZipArchive>> archive = readArchive(file, diagnostics, limits);
  if (!archive) return Failed{};
  std::vector<std::pair<std::string, Tensor>> out;
  uint64_t left = limits.generatedBytes;
  for (const ZipMember& m : (*archive)->members()) {
    Result<ZipContents> contents = (*archive)->contents(m, left, diagnostics);
    if (!contents) return Failed{};
    left -= std::min<uint64_t>(left, contents->part.bytes.size());
    Result<Tensor> tensor = parseNpy(contents->part, diagnostics, limits);
    if (!tensor) return Failed{};
    out.emplace_back(withoutSuffix(m.name), std::move(*tensor));
  }
  return out;
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
  Result<std::shared_ptr<const ZipArchive>> archive = readArchive({file->bytes(), path}, diagnostics, limits);
  if (!archive) return Failed{};
  std::vector<std::string> names;
  for (const ZipMember& m : (*archive)->members()) names.emplace_back(withoutSuffix(m.name));
  return names;
}

}  // namespace tscompile
