#include "frontend/files/weights_folder.h"

#include <fmt/core.h>

#include <filesystem>

namespace tscompile {

static bool has(const std::string& folder, const char* name) {
  std::error_code ignored;
  return std::filesystem::exists(std::filesystem::path(folder) / name, ignored);
}

bool isDistributedCheckpoint(const std::string& folder) { return has(folder, ".metadata"); }

void noteWeightsInside(const std::string& folder, Diagnostic& report) {
  if (isDistributedCheckpoint(folder)) report.note(std::string(kDistributedCheckpoint));
  for (const char* name : {"model.safetensors.index.json", "model.safetensors", "pytorch_model.bin.index.json",
                           "pytorch_model.bin", "model.ckpt"})
    if (has(folder, name)) {
      report.note(fmt::format("its weights are in {}", (std::filesystem::path(folder) / name).string()));
      break;
    }
}

bool refuseWeightsFolder(const std::string& path, Diagnostics& diagnostics) {
  if (std::error_code ignored; !std::filesystem::is_directory(path, ignored)) return false;
  noteWeightsInside(path, diagnostics.fileError(path, {}, "expected a file of weights, found a folder"));
  return true;
}

}  // namespace tscompile
