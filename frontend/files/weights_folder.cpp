#include "frontend/files/weights_folder.h"

#include <fmt/core.h>

#include <filesystem>

namespace tscompile {

static bool has(const std::string& folder, const char* name) {
  std::error_code ignored;
  return std::filesystem::exists(std::filesystem::path(folder) / name, ignored);
}

bool isDistributedCheckpoint(const std::string& folder) { return has(folder, ".metadata"); }

bool refuseWeightsFolder(const std::string& path, Diagnostics& diagnostics) {
  if (std::error_code ignored; !std::filesystem::is_directory(path, ignored)) return false;
  Diagnostic& d = diagnostics.fileError(path, {}, "expected a file of weights, found a folder");
  if (isDistributedCheckpoint(path)) d.note(std::string(kDistributedCheckpoint));
  for (const char* name : {"model.safetensors.index.json", "model.safetensors", "pytorch_model.bin.index.json",
                           "pytorch_model.bin", "model.ckpt"})
    if (has(path, name)) {
      d.note(fmt::format("its weights are in {}", (std::filesystem::path(path) / name).string()));
      break;
    }
  return true;
}

}  // namespace tscompile
