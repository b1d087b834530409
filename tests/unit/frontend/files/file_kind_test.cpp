#include "frontend/files/file_kind.h"

#include "tests/support/files.h"

#include <filesystem>

namespace tscompile {
namespace {

using namespace std::literals;
using test::dataFile;

FileKind kindOf(std::string_view bytes) { return detectFileKind(bytes); }

TEST(FileKind, IsToldFromTheFirstBytes) {
  struct Row {
    std::string_view bytes;
    FileKind kind;
  };
  const Row rows[] = {
      {"", FileKind::Empty},
      {"graph(%x : Tensor):\n  return (%x)\n", FileKind::GraphText},
      {"# a comment\n\n  graph(%x : Tensor):\n", FileKind::GraphText},
      {"module __torch__.M {\n", FileKind::ModuleDump},
      {"# c\nconv.weight = 6x1x5x5:f32:randn(seed=1)\n", FileKind::WeightsRecipe},
      {"a=scalar:f32=1", FileKind::WeightsRecipe},
      {"\x10\0\0\0\0\0\0\0{"sv, FileKind::Safetensors},
      {"\x1f\x8b\0\0\0\0\0\0{"sv, FileKind::Safetensors},
      {"\x93NUMPY\1\0"sv, FileKind::Npy},
      {"\x1f\x8b\x08\0"sv, FileKind::Gzip},
      {"\xfd"
       "7zXZ\0\0"sv,
       FileKind::Xz},
      {"\x28\xb5\x2f\xfd"sv, FileKind::Zstd},
      {"\x80\x02}q\0."sv, FileKind::Pickle},
      {"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19."sv, FileKind::LegacyCheckpoint},
      {"\x18\0\0\0PTMF"sv, FileKind::TorchFlatbuffer},
      {"\x18\0\0\0ET12"sv, FileKind::ExecuTorch},
      {"\x80\x04\x95"sv, FileKind::Pickle},
      {"\x08\x07\x12\x07pytorch"sv, FileKind::Onnx},
      {"\x08\x08:\xb0\x02"sv, FileKind::Onnx},
      {"\x08\x01\x12\xd5\x01\x0a\x04tags"sv, FileKind::TensorFlow},
      {"\x08\x05\x12\x10\x0a\x05input"sv, FileKind::TensorFlow},
      {"ftrt\0\0\0\0"sv, FileKind::TensorRt},
      {"GGUF\3\0\0\0"sv, FileKind::Gguf},
      {"\x1c\0\0\0TFL3"sv, FileKind::TfLite},
      {"\x89HDF\r\n\x1a\n"sv, FileKind::Hdf5},
      {"\x89PNG\r\n\x1a\n"sv, FileKind::Image},
      {"\xff\xd8\xff\xe0"sv, FileKind::Image},
      {"%PDF-1.4", FileKind::Pdf},
      {"\x7f"
       "ELF\2\1",
       FileKind::Elf},
      {"  <!DOCTYPE html>\n<html>", FileKind::Html},
      {"<HTML><body>", FileKind::Html},
      {"<?xml version=\"1.0\"?>", FileKind::Xml},
      {"{\"a\": 1}", FileKind::Json},
      {"def forward(self, x):\n", FileKind::PythonSource},
      {"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", FileKind::GitLfsPointer},
      {"\xff\xfeg\0r\0"sv, FileKind::Utf16},
      {"\xfe\xff\0g"sv, FileKind::Utf16},
      {"hello\n", FileKind::Text},
      {"%1 = 3", FileKind::Text},
      {"\0\1\2"sv, FileKind::Binary},
  };
  for (const Row& r : rows) EXPECT_EQ(kindOf(r.bytes), r.kind) << ::testing::PrintToString(r.bytes);
}

TEST(FileKind, ZipArchivesAreToldByTheirFirstMember) {
  auto zip = [](std::string_view name) {
    return "PK\3\4"s.append(22, '\0') + test::littleEndian(name.size(), 2) + test::littleEndian(0, 2) +
           std::string(name);
  };
  EXPECT_EQ(kindOf(zip("a.npy")), FileKind::Npz);
  EXPECT_EQ(kindOf(zip("model/data.pkl")), FileKind::TorchArchive);
  EXPECT_EQ(kindOf(zip("model/code/__torch__.py")), FileKind::TorchArchive);
  EXPECT_EQ(kindOf(zip("readme.txt")), FileKind::Zip);
  EXPECT_EQ(kindOf("PK\5\6"), FileKind::Zip);
  EXPECT_EQ(kindOf(test::readText(dataFile("stored.npz"))), FileKind::Npz);
}

// Any start of any file has a kind and a name.
TEST(FileKind, TakesEveryPrefix) {
  for (const auto& entry : std::filesystem::directory_iterator(dataFile(""))) {
    std::string bytes = test::readText(entry.path().string());
    for (size_t n = 0; n <= bytes.size(); ++n)
      EXPECT_FALSE(describe(kindOf(std::string_view(bytes).substr(0, n))).empty());
  }
}

TEST(FileKind, ReportsWhatWasFoundAndAdvises) {
  Diagnostics d;
  reportFileKind("w.bin", "a safetensors file", FileKind::GitLfsPointer, d);
  EXPECT_EQ(test::shown(d),
            "w.bin: error: expected a safetensors file, found a git-LFS pointer\n"
            "note: fetch the file that it stands for with 'git lfs pull'\n");
}

}  // namespace
}  // namespace tscompile
