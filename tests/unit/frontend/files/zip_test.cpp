// Archives that are made to deceive, and members that are deflated.
#include "frontend/files/archive_kind.h"
#include "tests/support/files.h"

namespace tscompile {
namespace {

using test::littleEndian;
using test::shown;

struct Member {
  std::string name, packed;
  uint64_t bytes, method = 0;
  uint32_t crc = 0;
  // What the directory says, if that is another; and how far the local header is from where it should be.
  std::string directoryName;
  int64_t shift = 0;
};

std::string zipOf(const std::vector<Member>& members) {
  std::string out, directory;
  auto n = [](uint64_t value, size_t count) { return littleEndian(value, count); };
  for (const Member& m : members) {
    std::string sizes = n(m.crc, 4) + n(m.packed.size(), 4) + n(m.bytes, 4);
    const std::string& listed = m.directoryName.empty() ? m.name : m.directoryName;
    directory += "PK\1\2" + n(20, 2) + n(20, 2) + n(0, 2) + n(m.method, 2) + n(0, 4) + sizes + n(listed.size(), 2) +
                 n(0, 12) + n(out.size() + static_cast<uint64_t>(m.shift), 4) + listed;
    out += "PK\3\4" + n(20, 2) + n(0, 2) + n(m.method, 2) + n(0, 4) + sizes + n(m.name.size(), 2) + n(0, 2) + m.name +
           m.packed;
  }
  return out + directory + "PK\5\6" + n(0, 4) + n(members.size(), 2) + n(members.size(), 2) + n(directory.size(), 4) +
         n(out.size(), 4) + n(0, 2);
}

Member stored(const std::string& name, const std::string& bytes) {
  return {name, bytes, bytes.size(), 0, crc32(bytes), "", 0};
}

// "hello" and an empty text, as zlib packs them.
const std::string kHello("\xcb\x48\xcd\xc9\xc9\x07\x00", 7), kNothing("\x03\x00", 2);

std::string contentsOf(const std::string& zip, std::string_view name, uint64_t limit = 1000) {
  Diagnostics d;
  auto archive = ZipArchive::read({zip, "f"}, nullptr, d, {});
  if (!archive) return shown(d);
  const ZipMember* member = (*archive)->find(name);
  if (!member) return "none";
  auto contents = (*archive)->contents(*member, limit, d);
  return contents ? std::string(contents->part.bytes) : shown(d);
}

TEST(Zip, UnpacksWhatIsDeflated) {
  std::string zip = zipOf({{"a", kHello, 5, 8, crc32("hello"), "", 0},
                           {"b/c", kNothing, 0, 8, 0, "", 0},
                           stored("s", "text"),
                           {"unchecked", "text", 4, 0, 0, "", 0}});
  EXPECT_EQ(contentsOf(zip, "a"), "hello");
  EXPECT_EQ(contentsOf(zip, "b/c"), "");
  EXPECT_EQ(contentsOf(zip, "s"), "text");
  EXPECT_EQ(contentsOf(zip, "unchecked"), "text");
  EXPECT_EQ(contentsOf(zip, "b"), "none");
  EXPECT_EQ(contentsOf(zip, "a", 4), "f:@0: error: member 'a' has 5 bytes, the limit is 4\n");
}

TEST(Zip, RefusesDamagedMembers) {
  struct Row {
    Member member;
    const char* message;
  };
  const Row rows[] = {
      {{"a", kHello, 6, 8, 1, "", 0}, "f:@0: error: member 'a' is damaged: it does not unpack to its size\n"},
      {{"a", kHello, 4, 8, 1, "", 0}, "f:@0: error: member 'a' is damaged: it does not unpack to its size\n"},
      {{"a", kHello + "x", 5, 8, 1, "", 0}, "f:@0: error: member 'a' is damaged: it does not unpack to its size\n"},
      {{"a", kHello, 999'999'999, 8, 1, "", 0}, "f:@0: error: member 'a' is damaged: it does not unpack to its size\n"},
      {{"a", kHello, 5, 8, 1, "", 0}, "f:@0: error: member 'a' is damaged: its checksum does not match\n"},
      {{"a", "text", 4, 0, 1, "", 0}, "f:@0: error: member 'a' is damaged: its checksum does not match\n"},
      {{"a", "text", 4, 12, 1, "", 0}, "f:@0: error: member 'a' is compressed by method 12, which is not supported\n"},
  };
  for (const Row& r : rows) EXPECT_EQ(contentsOf(zipOf({r.member}), "a", 1'000'000'000), r.message);
}

TEST(Zip, RefusesTraps) {
  struct Row {
    std::vector<Member> members;
    const char* message;
  };
  // A header of 30 bytes, a name of one.
  Member shifted = stored("b", std::string(64, 'x'));
  shifted.shift = -35;  // to the same bytes as `a`
  Member renamed = stored("a", "x");
  renamed.directoryName = "b";
  const Row rows[] = {
      {{stored("a", "x"), stored("a", "y")}, "f:@111: error: the archive has two members 'a'\n"},
      {{stored("../a", "x")}, "f:@35: error: member '../a' leads out of the archive's folder\n"},
      {{stored("a/../../b", "x")}, "f:@40: error: member 'a/../../b' leads out of the archive's folder\n"},
      {{stored("/etc/x", "x")}, "f:@37: error: member '/etc/x' leads out of the archive's folder\n"},
      {{stored("a\\..\\b", "x")}, "f:@37: error: member 'a\\..\\b' leads out of the archive's folder\n"},
      {{stored("", "x")}, "f:@31: error: member '' leads out of the archive's folder\n"},
      {{renamed}, "f:@0: error: member 'b' has another name or method here than in the directory\n"},
      {{stored("a", "text"), shifted},
       "f:@0: error: member 'b' has another name or method here than in the directory\n"},
      {{{"a", "text", 5, 0, 0, "", 0}}, "f:@0: error: member 'a' is stored, but its two sizes differ\n"},
  };
  for (const Row& r : rows) EXPECT_EQ(contentsOf(zipOf(r.members), "a"), r.message);
  EXPECT_EQ(contentsOf(zipOf({stored("a..b", "x"), stored(".../c", "y")}), "a..b"), "x");
}

TEST(Zip, RefusesMembersInsideOfMembers) {
  // The bytes of `outer` are an archive's local header and text themselves, which `inner` claims.
  std::string inside = zipOf({stored("inner", "text")});
  std::string header = inside.substr(0, 30 + 5 + 4);
  std::string zip = zipOf({stored("outer", header), stored("inner", "text")});
  std::string wrong = zip;
  size_t entry = zip.rfind("PK\1\2");
  wrong.replace(entry + 42, 4, littleEndian(35, 4));  // where `outer` keeps its bytes
  EXPECT_EQ(contentsOf(zip, "inner"), "text");
  EXPECT_EQ(contentsOf(wrong, "inner"), "f:@35: error: member 'inner' overlaps member 'outer'\n");
}

TEST(ArchiveKind, IsToldByTheNames) {
  const std::pair<std::vector<const char*>, FileKind> rows[] = {
      {{"m/data.pkl", "m/code/__torch__.py", "m/constants.pkl", "m/version"}, FileKind::TorchScript},
      {{"m/version", "m/data.pkl", "m/constants.pkl", "m/bytecode.pkl"}, FileKind::TorchBytecode},
      {{"m/data.pkl", "m/data/0", "m/version"}, FileKind::TorchCheckpoint},
      {{"m/version", "m/code/a.py", "m/model.json"}, FileKind::LegacyTorchScript},
      {{"serialized_exported_program.json", "version"}, FileKind::ExportedProgram},
      {{"m/archive_format", "m/models/model.json"}, FileKind::ExportedProgram},
      {{"m/archive_format", "m/data/aotinductor/model/x.so"}, FileKind::CompiledTorchPackage},
      {{"m/.data/extern_modules", "m/.data/version"}, FileKind::TorchPackage},
      {{"data/0", "data.pkl", "code/__torch__.py", "constants.pkl", "version"}, FileKind::LooseTorchArchive},
      {{"metadata.json", "config.json", "model.weights.h5"}, FileKind::Keras},
      {{"a.npy", "b.npy"}, FileKind::Npz},
      {{"readme.txt"}, FileKind::Zip},
      {{}, FileKind::Zip},
  };
  for (const auto& [names, kind] : rows) {
    std::vector<Member> members;
    for (const char* name : names) members.push_back(stored(name, "x"));
    EXPECT_EQ(detectWholeFileKind(zipOf(members)), kind) << describe(kind);
    EXPECT_FALSE(describe(kind).empty());
  }
}

TEST(Zip, StoragesAreMappedOrCopied) {
  test::TemporaryFolder folder;
  std::string bytes(16, '\1');
  // Data begins at byte 31 + n: 32 for a name of two bytes.
  std::string path = folder.write("z", zipOf({stored("ab", bytes), stored("unaligned", bytes)}));
  Diagnostics d;
  auto archive = ZipArchive::open(path, d, {});
  ASSERT_TRUE(archive) << shown(d);
  auto of = [&](const char* name) { return (*archive)->storage(*(*archive)->find(name), d); };
  auto mapped = of("ab"), copied = of("unaligned");
  ASSERT_TRUE(mapped && copied) << shown(d);
  EXPECT_TRUE(mapped->readOnly() && copied->readOnly());
  EXPECT_EQ(of("ab")->data(), mapped->data());
  EXPECT_NE(of("unaligned")->data(), copied->data());
  EXPECT_EQ(reinterpret_cast<uintptr_t>(copied->data()) % 8, 0u);
  EXPECT_EQ(copied->bytes(), 16u);
}

}  // namespace
}  // namespace tscompile
