#include "frontend/files/zip.h"
#include "tests/support/files.h"

namespace tscompile {
namespace {

using test::dataFile;
using test::isWellFormed;
using test::littleEndian;
using test::readText;
using test::shown;

std::string npzMessage(std::string_view bytes, std::string_view member, const Limits& limits = {}) {
  Diagnostics d;
  return shown(parseNpz({bytes, "f"}, member, d, limits), d);
}

// An archive of one stored member, in pieces that a test may spoil.
struct Archive {
  std::string name = "a.npy", contents = readText(dataFile("version2.npy"));
  uint64_t flags = 0, method = 0, crc = crc32(contents), bytes = contents.size();
  std::string localExtra, entryExtra, comment, end64;
  uint64_t localBytes = bytes, entryBytes = bytes, headerOffset = 0;

  std::string text() const {
    auto n = [](uint64_t value, size_t count) { return littleEndian(value, count); };
    std::string local = "PK\3\4" + n(20, 2) + n(flags, 2) + n(method, 2) + n(0, 4) + n(crc, 4) + n(localBytes, 4) +
                        n(localBytes, 4) + n(name.size(), 2) + n(localExtra.size(), 2) + name + localExtra + contents;
    std::string entry = "PK\1\2" + n(20, 2) + n(20, 2) + n(flags, 2) + n(method, 2) + n(0, 4) + n(crc, 4) +
                        n(entryBytes, 4) + n(entryBytes, 4) + n(name.size(), 2) + n(entryExtra.size(), 2) + n(0, 10) +
                        n(headerOffset, 4) + name + entryExtra;
    bool wide = !end64.empty();
    std::string end = "PK\5\6" + n(0, 4) + n(wide ? 0xffff : 1, 2) + n(wide ? 0xffff : 1, 2) +
                      n(wide ? 0xffffffff : entry.size(), 4) + n(wide ? 0xffffffff : local.size(), 4) +
                      n(comment.size(), 2) + comment;
    if (!wide) return local + entry + end;
    std::string record = "PK\6\6" + n(44, 8) + n(45, 2) + n(45, 2) + n(0, 8) + n(1, 8) + n(1, 8) + n(entry.size(), 8) +
                         n(local.size(), 8);
    return local + entry + record + "PK\6\7" + n(0, 4) + n(local.size() + entry.size(), 8) + n(1, 4) + end;
  }
};

TEST(Npz, ReadsMembersByName) {
  Diagnostics d;
  EXPECT_EQ(shown(readNpz(dataFile("stored.npz"), "a", d), d), "int32 [3]: 0 1 2");
  EXPECT_EQ(shown(readNpz(dataFile("stored.npz"), "layer.weight.npy", d), d), "float32 [2, 2]: 1 1 1 1");
  EXPECT_EQ(shown(readNpz(dataFile("comment.npz"), "a", d), d), "int32 [3]: 0 1 2");
  EXPECT_EQ(shown(readNpz(dataFile("compressed.npz"), "layer.weight", d), d), "float32 [2, 2]: 1 1 1 1");
  EXPECT_EQ(*readNpzNames(dataFile("stored.npz"), d), (std::vector<std::string>{"a", "layer.weight"}));
}

TEST(Npz, ReadsZip64) {
  Archive a;
  EXPECT_EQ(npzMessage(a.text(), "a"), "uint8 [3]: 0 1 2");
  a.localBytes = a.entryBytes = a.headerOffset = 0xffffffff;
  std::string sizes = littleEndian(a.bytes, 8) + littleEndian(a.bytes, 8);
  a.localExtra = littleEndian(1, 2) + littleEndian(16, 2) + sizes;
  // Another field stands before the one that counts.
  a.entryExtra = littleEndian(7, 2) + littleEndian(2, 2) + "xx" + littleEndian(1, 2) + littleEndian(24, 2) + sizes +
                 littleEndian(0, 8);
  EXPECT_EQ(npzMessage(a.text(), "a"), "uint8 [3]: 0 1 2");
  a.end64 = "yes";
  EXPECT_EQ(npzMessage(a.text(), "a"), "uint8 [3]: 0 1 2");
}

TEST(Npz, MayHaveBytesBehindItsEnd) {
  EXPECT_EQ(npzMessage(Archive().text() + "x", "a"), "uint8 [3]: 0 1 2");
  EXPECT_EQ(npzMessage(Archive().text() + std::string(512, '\0'), "a"), "uint8 [3]: 0 1 2");
}

TEST(Npz, RejectsWhatIsWrong) {
  auto with = [](auto change) {
    Archive a;
    change(a);
    return a.text();
  };
  std::string good = Archive().text();
  struct Row {
    std::string bytes;
    const char* message;
  };
  const Row rows[] = {
      {"", "f: error: expected an .npz archive, found an empty file\n"},
      {"\x93NUMPY", "f: error: expected an .npz archive, found an .npy file\n"},
      {good.substr(0, good.size() - 1), "f:@238: error: the archive has no directory at its end: it is truncated\n"},
      {with([](Archive& a) { a.flags = 1; }), "f:@0: error: member 'a.npy' is encrypted\n"},
      {with([](Archive& a) { a.method = 8; }),
       "f:@0: error: member 'a.npy' is damaged: it does not unpack to its size\n"},
      {with([](Archive& a) { a.crc ^= 1; }), "f:@0: error: member 'a.npy' is damaged: its checksum does not match\n"},
      {with([](Archive& a) { a.localBytes--; }),
       "f:@0: error: member 'a.npy' has another size here than in the directory\n"},
      {with([](Archive& a) { a.headerOffset = 1; }), "f:@166: error: member 'a.npy' is not where the directory says\n"},
      {with([](Archive& a) { a.headerOffset = 0xfffffff0; }),
       "f:@166: error: member 'a.npy' is not where the directory says\n"},
      {with([](Archive& a) { a.entryBytes = a.localBytes = 1000; }),
       "f:@0: error: member 'a.npy' does not end inside the archive\n"},
      {with([](Archive& a) { a.entryBytes = 0xffffffff; }), "f:@166: error: the sizes of member 'a.npy' are missing\n"},
      {with([](Archive& a) { a.name = "b.npy"; }), "f: error: the archive has no member 'a'\n"},
      {with([](Archive& a) {
         a.contents = "x";
         a.crc = crc32(a.contents);
         a.localBytes = a.entryBytes = 1;
       }),
       "f: error: expected an .npy file, found other text\n"},
  };
  for (const Row& r : rows) EXPECT_EQ(npzMessage(r.bytes, "a"), r.message);
  EXPECT_EQ(npzMessage(readText(dataFile("stored.npz")), "layer.wieght"),
            "f: error: the archive has no member 'layer.wieght'\nnote: did you mean 'layer.weight'?\n");
}

TEST(Npz, OffsetsInMessagesAreThoseOfTheArchive) {
  Archive a;
  a.contents[6] = 9;  // the version
  a.crc = crc32(a.contents);
  EXPECT_EQ(npzMessage(a.text(), "a"), "f:@41: error: version 9.0 of the format is not known\n");
}

TEST(Npz, KeepsItsLimits) {
  std::string bytes = readText(dataFile("stored.npz"));
  EXPECT_EQ(npzMessage(bytes, "a", {.tensors = 2}), "int32 [3]: 0 1 2");
  EXPECT_EQ(npzMessage(bytes, "a", {.tensors = 1}),
            "f: error: the archive has 2 members, the limit is 1\nnote: the limit is 'tensors' of Limits\n");
}

TEST(Npz, EveryPrefixIsRejected) {
  std::string bytes = readText(dataFile("stored.npz"));
  for (size_t n = 0; n < bytes.size(); ++n) {
    Diagnostics d;
    std::string prefix = bytes.substr(0, n);
    Result<Tensor> t = parseNpz({prefix, "f"}, "a", d, {});
    EXPECT_FALSE(t) << n;
    EXPECT_TRUE(isWellFormed(t, d, n));
  }
}

TEST(Npz, EveryCorruptByteIsRejectedOrHarmless) {
  for (std::string bytes : {Archive().text(), readText(dataFile("comment.npz"))})
    for (size_t at = 0; at < bytes.size(); ++at)
      for (int value = 0; value < 256; value += 5) {
        std::string changed = bytes;
        changed[at] = static_cast<char>(changed[at] + value);
        Diagnostics d;
        EXPECT_TRUE(isWellFormed(parseNpz({changed, "f"}, "a", d, {}), d, bytes.size())) << at << " " << value;
      }
}

TEST(Crc32, IsThatOfZip) {
  EXPECT_EQ(crc32(""), 0u);
  EXPECT_EQ(crc32("123456789"), 0xcbf43926u);
  EXPECT_EQ(crc32("The quick brown fox jumps over the lazy dog"), 0x414fa339u);
}

TEST(TensorFile, GoesByTheBytesNotByTheName) {
  test::TemporaryFolder folder;
  auto read = [&](std::string_view name, std::string_view from, std::optional<std::string_view> member) {
    Diagnostics d;
    return shown(readTensorFile(folder.write(name, readText(dataFile(from))), member, d), d);
  };
  EXPECT_EQ(read("x.bin", "scalar.npy", {}), "int16 []: 7");
  EXPECT_EQ(read("x.npy", "stored.npz", "a"), "int32 [3]: 0 1 2");
  EXPECT_EQ(read("x", "small.safetensors", "i8"), "int8 [1]: -3");
  EXPECT_EQ(read("x.npy", "scalar.npy", "a"), "x.npy: error: an .npy file holds one tensor without a name, not 'a'\n");
  EXPECT_TRUE(read("x.npz", "stored.npz", {}).ends_with("x.npz#NAME\nnote: it has a, layer.weight\n"));
  EXPECT_TRUE(read("x.s", "small.safetensors", {})
                  .ends_with("note: it has f64, i64, c128, c64, f32, i32, f16, bf16, i16, i8 and 3 more\n"));
  Diagnostics d;
  EXPECT_EQ(shown(readTensorFile(folder.write("m.onnx", "\x08\x07\x12\x07pytorch"), {}, d), d),
            "m.onnx: error: expected a file of tensors: .npy, .npz, safetensors or of torch.save, found an ONNX model\n"
            "note: PyTorch models are read as they are: save the one that it was made of by torch.export.save or "
            "torch.jit.save\n");
}

}  // namespace
}  // namespace tscompile
