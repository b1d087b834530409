#include "frontend/files/file_kind.h"

#include "frontend/files/archive_kind.h"
#include "frontend/files/section_file.h"
#include "ir/support/text.h"

#include <fmt/core.h>

#include <algorithm>

namespace tscompile {
namespace {

using namespace std::string_view_literals;

struct Magic {
  std::string_view bytes;
  FileKind kind;
  size_t at = 0;
};
constexpr Magic kMagics[] = {
    {"\x93NUMPY"sv, FileKind::Npy},
    {kSectionFileMagic, FileKind::EngineFile},
    {"GGUF"sv, FileKind::Gguf},
    {"TFL3"sv, FileKind::TfLite, 4},
    {"PTMF"sv, FileKind::TorchFlatbuffer, 4},
    {"ET12"sv, FileKind::ExecuTorch, 4},
    {"ftrt"sv, FileKind::TensorRt},
    {"ptrt"sv, FileKind::TensorRt},
    // A pickle of the number that such files begin with.
    {"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19."sv, FileKind::LegacyCheckpoint},
    {"ustar"sv, FileKind::Tar, 257},
    {"\x89HDF\r\n\x1a\n"sv, FileKind::Hdf5},
    {"\x1f\x8b"sv, FileKind::Gzip},
    {"\xfd"
     "7zXZ\0"sv,
     FileKind::Xz},
    {"\x28\xb5\x2f\xfd"sv, FileKind::Zstd},
    {"BZh"sv, FileKind::Bzip2},
    {"\x89PNG\r\n"sv, FileKind::Image},
    {"\xff\xd8\xff"sv, FileKind::Image},
    {"%PDF-"sv, FileKind::Pdf},
    {"\x7f"
     "ELF"sv,
     FileKind::Elf},
    {"version https://git-lfs.github.com/"sv, FileKind::GitLfsPointer},
    {"\xff\xfe"sv, FileKind::Utf16},
    {"\xfe\xff"sv, FileKind::Utf16},
};

unsigned byteAt(std::string_view bytes, size_t i) {
  return i < bytes.size() ? static_cast<unsigned char>(bytes[i]) : 0;
}

// A header length below 2^40, then JSON.
bool isSafetensors(std::string_view b) {
  return b.size() > 8 && b[8] == '{' && byteAt(b, 5) == 0 && byteAt(b, 6) == 0 && byteAt(b, 7) == 0;
}

// The name of the archive's first member tells who wrote it.
FileKind zipKind(std::string_view b) {
  size_t length = byteAt(b, 26) | byteAt(b, 27) << 8;
  std::string_view name = b.size() > 30 ? b.substr(30, length) : ""sv;
  if (endsWith(name, ".npy")) return FileKind::Npz;
  for (std::string_view part : {"/data.pkl", "/constants.pkl", "/version", "/byteorder", "/code/", "/data/",
                                "/archive_format", "/models/", "serialized_exported_program.json", "/model.json"})
    if (name.find(part) != std::string_view::npos) return FileKind::TorchArchive;
  return FileKind::Zip;
}

// Protocol buffers that begin with a small number, their version, have fields of their own behind it: ONNX the
// producer's name, the graph or the operator set, TensorFlow and Core ML a message, whose first byte is that of no
// name.
FileKind bufferKind(std::string_view b) {
  unsigned version = byteAt(b, 1), next = byteAt(b, 2);
  if (b.size() <= 3 || b[0] != '\x08' || version < 1 || version > 30) return FileKind::Binary;
  if (next == 0x3a || next == 0x42) return FileKind::Onnx;
  if (next != 0x12) return FileKind::Binary;
  size_t content = 4;
  while (byteAt(b, content - 1) & 0x80) ++content;  // of the length
  return byteAt(b, content) == 0x0a ? FileKind::TensorFlow : FileKind::Onnx;
}

bool startsWithIgnoringCase(std::string_view text, std::string_view lowerCase) {
  auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  return text.size() >= lowerCase.size() &&
         std::equal(lowerCase.begin(), lowerCase.end(), text.begin(), [&](char a, char b) { return a == lower(b); });
}

// The first line that is neither blank nor a comment, from its first byte that is not blank.
std::string_view firstLine(std::string_view text) {
  while (!text.empty()) {
    std::string_view line = trim(text.substr(0, text.find('\n')));
    if (!line.empty() && line[0] != '#') return line;
    text.remove_prefix(
        std::min(text.size(), text.find('\n') == std::string_view::npos ? text.size() : text.find('\n') + 1));
  }
  return {};
}

// `name = 1x3:f32:...`
bool isRecipeLine(std::string_view line) {
  size_t equals = line.find('=');
  if (equals == std::string_view::npos || equals == 0 || line[0] == '%') return false;
  std::string_view value = trim(line.substr(equals + 1));
  return startsWith(value, "scalar:") ||
         (value.find_first_not_of("0123456789x") != 0 && value.find_first_not_of("0123456789x") == value.find(':') &&
          value.find(':') != std::string_view::npos);
}

FileKind textKind(std::string_view text) {
  if (startsWith(text, "\xef\xbb\xbf")) text.remove_prefix(3);
  std::string_view line = firstLine(text);
  if (startsWith(line, "graph")) return FileKind::GraphText;
  if (startsWith(line, "module ")) return FileKind::ModuleDump;
  if (startsWithIgnoringCase(line, "<!doctype html") || startsWithIgnoringCase(line, "<html")) return FileKind::Html;
  if (startsWith(line, "<?xml")) return FileKind::Xml;
  if (startsWith(line, "{") || startsWith(line, "[")) return FileKind::Json;
  for (std::string_view word : {"def ", "class ", "import ", "from "})
    if (startsWith(line, word)) return FileKind::PythonSource;
  return isRecipeLine(line) ? FileKind::WeightsRecipe : FileKind::Text;
}

bool isControl(char c) { return (c >= 0 && c < 0x20 && (c < '\t' || c > '\r')) || c == 0x7f; }

// UTF-8 without control bytes; the last character may be cut.
bool isText(std::string_view bytes) {
  while (!bytes.empty()) {
    size_t length = utf8Length(bytes);
    if (length == 0) return bytes.size() < 4 && bytes[0] < 0;
    if (isControl(bytes[0])) return false;
    bytes.remove_prefix(length);
  }
  return true;
}

constexpr const char* kAsTheyAre =
    "PyTorch models are read as they are: save the one that it was made of by torch.export.save or torch.jit.save";

// `wantsModel`: what is to be done where a model was expected.
std::string_view advice(FileKind kind, bool wantsModel) {
  switch (kind) {
    case FileKind::LegacyTorchScript:
      return "a PyTorch from 1.4 to 2.x saves it anew: torch.jit.save(torch.jit.load(FILE), NEW)";
    case FileKind::LooseTorchArchive:
      return "PyTorch keeps all files of an archive in one folder, and opens no other: save the model anew";
    case FileKind::TorchBytecode:
    case FileKind::TorchFlatbuffer:
    case FileKind::ExecuTorch:
      return "it holds instructions for a phone; save the model by torch.jit.save or torch.export.save";
    case FileKind::CompiledTorchPackage:
      return "it holds machine code; save the model by torch.export.save";
    case FileKind::TorchCheckpoint:
    case FileKind::LegacyCheckpoint:
      return "a checkpoint holds weights, and no model, even if it is of a whole module: save the model by "
             "torch.export.save or torch.jit.save";
    case FileKind::Pickle:
      return "export_torchscript.py makes graph text and safetensors of PyTorch models";
    case FileKind::TorchPackage:
      return "it holds Python source; save the model that it makes by torch.export.save or torch.jit.save";
    case FileKind::Onnx:
      return kAsTheyAre;
    case FileKind::PythonSource:
      return "save the model that it makes by torch.export.save or torch.jit.save";
    case FileKind::Tar:
    case FileKind::Gzip:
    case FileKind::Xz:
    case FileKind::Zstd:
    case FileKind::Bzip2:
      return "unpack it first";
    case FileKind::GitLfsPointer:
      return "fetch the file that it stands for with 'git lfs pull'";
    case FileKind::Utf16:
      return "save it as UTF-8";
    case FileKind::Safetensors:
    case FileKind::Npz:
      return wantsModel ? "it holds weights, and no model: save the model by torch.export.save or torch.jit.save" : "";
    case FileKind::Gguf:
    case FileKind::TfLite:
    case FileKind::TensorFlow:
    case FileKind::TensorRt:
    case FileKind::Hdf5:
      return wantsModel ? kAsTheyAre : "";
    case FileKind::Text:
      return wantsModel ? "models are files of torch.export.save and torch.jit.save, graph text, module dumps and "
                          "engine files"
                        : "";
    default:
      return {};
  }
}

}  // namespace

FileKind detectFileKind(std::string_view b) {
  if (b.empty()) return FileKind::Empty;
  if (isSafetensors(b)) return FileKind::Safetensors;  // first: a length may look like any magic number
  for (const Magic& m : kMagics)
    if (b.size() >= m.at + m.bytes.size() && b.substr(m.at, m.bytes.size()) == m.bytes) return m.kind;
  if (startsWith(b, "PK\x03\x04")) return zipKind(b);
  if (startsWith(b, "PK\x05\x06")) return FileKind::Zip;  // without members
  if (b[0] == '\x80' && byteAt(b, 1) >= 2 && byteAt(b, 1) <= 5) return FileKind::Pickle;
  if (FileKind kind = bufferKind(b); kind != FileKind::Binary) return kind;
  return isText(b) ? textKind(b) : FileKind::Binary;
}

std::string_view describe(FileKind kind) {
  static constexpr std::string_view kTexts[] = {
#define TS_FILE_KIND(name, text) text,
#include "frontend/files/file_kinds.def"
#undef TS_FILE_KIND
  };
  return kTexts[static_cast<size_t>(kind)];
}

bool isCheckpoint(FileKind kind) {
  return kind == FileKind::TorchCheckpoint || kind == FileKind::LegacyCheckpoint || kind == FileKind::Pickle;
}

Diagnostic& reportFileKind(const std::string& path, std::string_view expected, FileKind found, Diagnostics& diagnostics,
                           bool wantsModel) {
  Diagnostic& d = diagnostics.fileError(path, {}, fmt::format("expected {}, found {}", expected, describe(found)));
  if (std::string_view a = advice(found, wantsModel); !a.empty()) d.note(std::string(a));
  return d;
}

// Whether nothing is said: its reader tells that best.
static bool isOfComments(std::string_view text) {
  while (!text.empty()) {
    const std::string_view line = trim(text.substr(0, text.find('\n')));
    if (!line.empty() && line[0] != '#') return false;
    text.remove_prefix(std::min(text.find('\n'), text.size() - 1) + 1);
  }
  return true;
}

bool checkGraphText(const std::string& path, std::string_view text, Diagnostics& diagnostics,
                    std::string_view expected) {
  const FileKind kind = detectWholeFileKind(text);
  auto has = [&](std::string_view part) { return text.find(part) != std::string_view::npos; };
  // Values are the one thing that every graph has.
  const bool mayBe = kind == FileKind::GraphText || kind == FileKind::ModuleDump ||
                     (kind == FileKind::Text && (has("%") || has("graph") || isOfComments(text))) ||
                     (kind == FileKind::Binary && has("graph("));
  if (!mayBe) noteFilesInside(text, reportFileKind(path, expected, kind, diagnostics, true));
  return mayBe;
}

}  // namespace tscompile
