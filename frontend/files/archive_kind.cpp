#include "frontend/files/archive_kind.h"

#include "frontend/files/file_io.h"
#include "ir/support/text.h"

#include <fmt/core.h>

#include <algorithm>

namespace tscompile {

std::string_view archiveRoot(const ZipArchive& zip) {
  if (zip.members().empty()) return {};
  std::string_view first = zip.members()[0].name;
  return first.substr(0, first.find('/') + 1);
}

FileKind archiveKind(const ZipArchive& zip) {
  std::string root(archiveRoot(zip));
  auto has = [&](std::string_view name) { return zip.find(root + std::string(name)) != nullptr; };
  auto hasBelow = [&](std::string_view folder, std::string_view end) {
    return std::any_of(zip.members().begin(), zip.members().end(), [&](const ZipMember& m) {
      return startsWith(m.name, root + std::string(folder)) && endsWith(m.name, end);
    });
  };
  // The layout of 2.1 to 2.7 has no folder.
  if (zip.find("serialized_exported_program.json") || has("serialized_exported_program.json"))
    return FileKind::ExportedProgram;
  if (hasBelow("data/aotinductor/", "")) return FileKind::CompiledTorchPackage;
  if (has("archive_format") || hasBelow("models/", ".json")) return FileKind::ExportedProgram;
  if (has("model.json")) return FileKind::LegacyTorchScript;
  if (has("data.pkl") && has("constants.pkl") && hasBelow("code/", ".py")) return FileKind::TorchScript;
  if (has("bytecode.pkl")) return FileKind::TorchBytecode;
  if (has(".data/extern_modules")) return FileKind::TorchPackage;
  if (has("data.pkl")) return has("constants.pkl") ? FileKind::TorchScript : FileKind::TorchCheckpoint;
  if (zip.find("data.pkl")) return FileKind::LooseTorchArchive;
  if (zip.find("model.weights.h5")) return FileKind::Keras;
  bool isNpz = !zip.members().empty() && endsWith(zip.members()[0].name, ".npy");
  return isNpz ? FileKind::Npz : FileKind::Zip;
}

FileKind detectWholeFileKind(std::string_view bytes, const Limits& limits) {
  FileKind kind = detectFileKind(bytes.substr(0, kFileKindBytes));
  if (kind != FileKind::TorchArchive && kind != FileKind::Zip) return kind;
  Diagnostics ignored;
  auto zip = ZipArchive::read({bytes, ""}, nullptr, ignored, limits);
  return zip ? archiveKind(**zip) : kind;
}

std::string filesInside(std::string_view bytes, const Limits& limits) {
  constexpr size_t kMost = 3;
  if (detectFileKind(bytes.substr(0, kFileKindBytes)) != FileKind::Zip) return {};
  Diagnostics ignored;
  auto zip = ZipArchive::read({bytes, ""}, nullptr, ignored, limits);
  if (!zip || archiveKind(**zip) != FileKind::Zip) return {};
  constexpr std::string_view kEndings[] = {".pt",  ".pth",  ".pt2",         ".ptl",
                                           ".jit", ".ckpt", ".torchscript", ".safetensors"};
  std::vector<std::string> names;
  for (const ZipMember& m : (*zip)->members())
    if (std::ranges::any_of(kEndings, [&](std::string_view ending) { return endsWith(m.name, ending); }))
      names.push_back(abbreviate(m.name, 100));
  const size_t more = names.size() > kMost ? names.size() - kMost : 0;
  names.resize(names.size() - more);
  return join(names, ", ", [](const std::string& name) { return name; }) +
         (more ? fmt::format(" and {} more", more) : "");
}

void noteFilesInside(std::string_view bytes, Diagnostic& report) {
  if (const std::string files = filesInside(bytes); !files.empty())
    report.note(fmt::format("it holds {}: unpack it first", files));
}

void reportOtherKind(const std::string& path, std::string_view expected, Diagnostics& diagnostics) {
  if (Ref<FileMapping> file = FileMapping::open(path, diagnostics))
    noteFilesInside(file->bytes(), reportFileKind(path, expected, detectWholeFileKind(file->bytes()), diagnostics));
}

}  // namespace tscompile
