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

// Reports a folder that stands where a model should, if it is one.
bool refuseFolder(const std::string& path, Diagnostics& diagnostics);

}  // namespace tscompile
