// What a file is, told from its first bytes: for messages about files of another kind than expected, and for listings.
#pragma once

#include "ir/support/diagnostics.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace tscompile {

enum class FileKind : uint8_t {
#define TS_FILE_KIND(name, text) name,
#include "frontend/files/file_kinds.def"
#undef TS_FILE_KIND
};

// As many first bytes as detectFileKind wants; fewer are fine.
inline constexpr size_t kFileKindBytes = 4096;

FileKind detectFileKind(std::string_view firstBytes);
// With its article: "an ONNX model".
std::string_view describe(FileKind kind);
// What torch.save and pickle.dump() write.
bool isCheckpoint(FileKind kind);

// Says that `path` is not what it should be: "expected a safetensors file, found an ONNX model", with advice where
// there is some; `wantsModel`: what holds weights alone is told so.
Diagnostic& reportFileKind(const std::string& path, std::string_view expected, FileKind found, Diagnostics& diagnostics,
                           bool wantsModel = false);

// Whether a file that no reader of binary formats takes may be graph text; reports what else it is. A text that is
// broken goes to its reader, which tells best what is wrong with it.
bool checkGraphText(const std::string& path, std::string_view text, Diagnostics& diagnostics,
                    std::string_view expected = "graph text");

}  // namespace tscompile
