#include "api/model_file.h"

#include "api/built_model.h"
#include "api/engine_file.h"
#include "api/support/archive.h"
#include "frontend/export/export_file.h"
#include "frontend/files/file_kind.h"

#include <filesystem>

namespace tscompile {

ModelFile modelFileOf(const std::string& path) {
  if (path == "-") return ModelFile::Text;
  if (isEngineFile(path)) return ModelFile::Engine;
  if (isExportFile(path)) return ModelFile::Export;
  return isTorchArchive(path) ? ModelFile::Archive : ModelFile::Text;
}

bool refuseFolder(const std::string& path, Diagnostics& diagnostics, const FolderAdvice& advice) {
  if (std::error_code ignored; !std::filesystem::is_directory(path, ignored)) return false;
  Diagnostics unheard;
  const bool isBuilt = bool(readBuiltModel(path, unheard));
  Diagnostic& d = diagnostics.fileError(path, {}, "expected a model, found a folder", ErrorKind::Input);
  d.note(isBuilt ? advice.built : advice.other);
  if (!isBuilt && !unheard.list().empty())
    for (const Diagnostic& note : unheard.list().front().notes) d.note(note.message);
  return true;
}

}  // namespace tscompile
