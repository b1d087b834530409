// The container of engine files: what is written is read back, and nothing else is.
#include "frontend/files/section_file.h"

#include "ir/support/diagnostic_printer.h"

#include <gtest/gtest.h>

namespace tscompile::test {
namespace {

std::string fileOf(uint32_t version, const std::vector<SectionPieces>& sections) {
  std::string out;
  EXPECT_TRUE(putSectionFile(version, sections, [&](std::string_view bytes) {
    out += bytes;
    return true;
  }));
  return out;
}

std::string problemOf(const std::string& bytes) {
  Diagnostics d;
  Result<SectionFile> file = parseSectionFile(bytes, "f", d);
  EXPECT_NE(file.ok(), d.hasErrors());
  return renderDiagnostics(d, "test");
}

TEST(Checksum, DoesNotDependOnPieces) {
  std::string bytes;
  for (int i = 0; i < 200; ++i) bytes += static_cast<char>(i * 37);
  for (size_t size : {0, 1, 7, 31, 32, 33, 64, 200})
    for (size_t cut = 0; cut <= size; ++cut) {
      Checksum sum;
      sum.add(std::string_view(bytes).substr(0, cut));
      sum.add(std::string_view(bytes).substr(cut, size - cut));
      EXPECT_EQ(sum.value(), checksumOf(std::string_view(bytes).substr(0, size))) << size << " cut at " << cut;
    }
}

TEST(Checksum, NoticesEveryBitAndTheLength) {
  std::string bytes(100, '\0');
  const uint64_t sum = checksumOf(bytes);
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    std::string other = bytes;
    other[bit / 8] = static_cast<char>(1 << bit % 8);
    EXPECT_NE(checksumOf(other), sum) << bit;
  }
  EXPECT_NE(checksumOf(std::string(101, '\0')), sum);
  EXPECT_NE(checksumOf(std::string(99, '\0')), sum);
  // Files of other machines and times have these.
  EXPECT_EQ(checksumOf(""), 0x5d81c7c64dff4896u);
  EXPECT_EQ(checksumOf("tscompile"), 0xba1ebba3727ffe4cu);
}

TEST(SectionFile, IsReadBack) {
  std::string bytes =
      fileOf(7, {{"first", {"abc", "", "def"}}, {"empty", {}}, {"sixteen bytes ok", {std::string_view("\0x", 2)}}});
  Diagnostics d;
  Result<SectionFile> file = parseSectionFile(bytes, "f", d);
  ASSERT_TRUE(file.ok()) << renderDiagnostics(d, "test");
  EXPECT_EQ(file->version, 7u);
  ASSERT_EQ(file->sections.size(), 3u);
  ASSERT_TRUE(file->find("first"));
  EXPECT_EQ(*file->find("first"), "abcdef");
  EXPECT_EQ(*file->find("empty"), "");
  EXPECT_EQ(*file->find("sixteen bytes ok"), std::string_view("\0x", 2));
  EXPECT_FALSE(file->find("other"));
  for (const SectionFile::Section& s : file->sections)
    EXPECT_EQ(static_cast<uint64_t>(s.bytes.data() - bytes.data()) % kSectionAlignment, 0u) << s.name;
}

TEST(SectionFile, DamageIsNoticed) {
  const std::string good = fileOf(1, {{"a", {"some bytes"}}, {"b", {"others"}}});
  EXPECT_EQ(problemOf(good), "");
  struct Row {
    std::string bytes, message;
  };
  auto with = [&](size_t at, char c) {
    std::string bytes = good;
    bytes[at] = c;
    return bytes;
  };
  const Row rows[] = {
      {"", "f:@0: error: this is not an engine file\n"},
      {"graph", "f:@0: error: this is not an engine file\n"},
      {good.substr(0, 20), "f:@20: error: the engine file was cut short: it ends inside of its header\n"},
      {good.substr(0, 50), "f:@50: error: the engine file was cut short: it ends inside of its table of sections\n"},
      {good.substr(0, 150), "f:@150: error: the engine file was cut short: it has 150 of 198 bytes\n"},
      {good + "x", "f:@198: error: the engine file has 199 bytes where 198 belong\n"},
      {with(8, 2), "f:@24: error: the engine file is damaged: the checksum of its header is wrong\n"},
      {with(12, 100), "f:@12: error: the engine file is damaged: it claims to have 100 sections\n"},
      {with(33, 'x'), "f:@24: error: the engine file is damaged: the checksum of its header is wrong\n"},
      {with(120, 1), "f:@120: error: the engine file is damaged: the bytes between its sections are not zero\n"},
      {with(130, 'x'), "f:@128: error: the engine file is damaged: the checksum of its section 'a' is wrong\n"},
      {with(193, 'x'), "f:@192: error: the engine file is damaged: the checksum of its section 'b' is wrong\n"},
      {fileOf(1, {{"a", {"x"}}, {"a", {"y"}}}), "f:@72: error: section 'a' is there twice\n"},
  };
  for (const Row& r : rows) EXPECT_EQ(problemOf(r.bytes), r.message);
}

TEST(SectionFile, ASinkThatFailsEndsIt) {
  for (int most = 0; most < 6; ++most) {
    int calls = 0;
    EXPECT_FALSE(
        putSectionFile(1, {{"a", {"x", "y"}}, {"b", {"z"}}}, [&](std::string_view) { return calls++ < most; }));
    EXPECT_EQ(calls, most + 1);
  }
}

}  // namespace
}  // namespace tscompile::test
