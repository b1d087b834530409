#include "api/model_file.h"

#include "api/archive.h"
#include "api/engine_file.h"
#include "frontend/export/export_file.h"

namespace tscompile {

ModelFile modelFileOf(const std::string& path) {
  if (path == "-") return ModelFile::Text;
  if (isEngineFile(path)) return ModelFile::Engine;
  if (isExportFile(path)) return ModelFile::Export;
  return isTorchArchive(path) ? ModelFile::Archive : ModelFile::Text;
}

}  // namespace tscompile
