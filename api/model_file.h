// What kind of file a model comes in.
#pragma once

#include "ir/support/diagnostics.h"
#include "ir/support/result.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace tscompile {

// A text's weights are in files of their own; the others hold them.
enum class ModelFile : uint8_t { Text, Engine, Export, Archive };

// By its first bytes, and for zip archives by their members. Text for all others, and for "-", standard input.
ModelFile modelFileOf(const std::string& path);

// What a message about a folder advises, in words of who asked for a model.
struct FolderAdvice {
  const char* built = "it is a language model that was built, which LanguageModel::load opens";
  const char* other =
      "a model is one file, as torch.export.save and torch.jit.save write it; a folder may be a language model that "
      "was built, which LanguageModel::load opens";
};

// Reports a folder that stands where a model should, if it is one.
bool refuseFolder(const std::string& path, Diagnostics& diagnostics, const FolderAdvice& advice = {});

}  // namespace tscompile
