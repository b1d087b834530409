// What a file is, told from its first bytes: for messages about files of another kind than expected, and for listings.
#pragma once

#include "ir/support/diagnostics.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace tscompile {

enum class FileKind : uint8_t {
  Empty,
  GraphText,
  ModuleDump,
  WeightsRecipe,
  EngineFile,
  Safetensors,
  Npy,
  Npz,
  Zip,
  // Of PyTorch. From their first bytes alone, zip archives are a TorchArchive; frontend/files/archive_kind.h tells
  // which.
  TorchArchive,
  TorchScript,
  TorchCheckpoint,
  LegacyCheckpoint,
  ExportedProgram,
  // What we do not read, by name:
  LegacyTorchScript,
  TorchBytecode,
  TorchFlatbuffer,
  TorchPackage,
  CompiledTorchPackage,
  ExecuTorch,
  Pickle,
  Onnx,
  Gguf,
  TfLite,
  Hdf5,
  Tar,
  Gzip,
  Xz,
  Zstd,
  Image,
  Pdf,
  Elf,
  Html,
  Xml,
  Json,
  PythonSource,
  GitLfsPointer,
  Utf16,
  Text,
  Binary,
};

// As many first bytes as detectFileKind wants; fewer are fine.
inline constexpr size_t kFileKindBytes = 4096;

FileKind detectFileKind(std::string_view firstBytes);
// With its article: "an ONNX model".
std::string_view describe(FileKind kind);

// Says that `path` is not what it should be: "expected a safetensors file, found an ONNX model", with advice where
// there is some.
void reportFileKind(const std::string& path, std::string_view expected, FileKind found, Diagnostics& diagnostics);

}  // namespace tscompile
