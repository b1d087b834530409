// Which of PyTorch's archives a zip is, told from the names of its members.
#pragma once

#include "frontend/files/file_kind.h"
#include "frontend/files/zip.h"

namespace tscompile {

// Npz, Zip or one of PyTorch's kinds.
FileKind archiveKind(const ZipArchive& zip);
// The first part of all names, with its slash: "model/"; empty if the names have none.
std::string_view archiveRoot(const ZipArchive& zip);

// What a file is, from all of it: as detectFileKind(), but knows archives apart. A broken archive stays what its first
// bytes say.
FileKind detectWholeFileKind(std::string_view bytes, const Limits& limits = {});
// The names of models and weights in a zip that is none of PyTorch's, such as TorchServe's .mar: "model.pt, a.bin".
std::string filesInside(std::string_view bytes, const Limits& limits = {});
// Says so to a report on the file.
void noteFilesInside(std::string_view bytes, Diagnostic& report);
// Says of a file, from all of it, that it is not what was expected; of one that cannot be read, that.
void reportOtherKind(const std::string& path, std::string_view expected, Diagnostics& diagnostics);

}  // namespace tscompile
