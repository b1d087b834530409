#include "frontend/files/tensor_formats.h"
#include "tests/support/files.h"

namespace tscompile {
namespace {

using test::dataFile;
using test::isWellFormed;
using test::readText;
using test::shown;
using test::TemporaryFolder;

std::string fileOf(std::string_view header, std::string_view data) {
  return test::littleEndian(header.size(), 8) + std::string(header) + std::string(data);
}

// Reads a whole file in memory: the header and every tensor.
Result<std::vector<Tensor>> readAll(std::string_view bytes, Diagnostics& d, const Limits& limits = {}) {
  Result<SafetensorsHeader> header = parseSafetensorsHeader(bytes, bytes.size(), "f", d, limits);
  if (!header) return Failed{};
  std::vector<Tensor> tensors;
  for (const TensorEntry& e : header->tensors) {
    Result<Tensor> t = loadSafetensor(bytes, *header, e, nullptr, "f", d);
    if (!t) return Failed{};
    tensors.push_back(*t);
  }
  return tensors;
}

std::string safetensorsMessage(std::string_view bytes, const Limits& limits = {}, ErrorKind kind = ErrorKind::Input) {
  Diagnostics d;
  EXPECT_FALSE(readAll(bytes, d, limits));
  EXPECT_EQ(d.errorCount(), 1u);
  EXPECT_EQ(d.firstErrorKind(), kind) << shown(d);
  return shown(d);
}

TEST(Safetensors, ReadsEveryDType) {
  std::string path = dataFile("small.safetensors");
  struct Row {
    const char *name, *value;
  };
  const Row rows[] = {
      {"f64", "float64 [2]: 0.1 -0"},
      {"i64", "int64 []: -5"},
      {"c128", "complex128 [1]: (1,-2)"},
      {"c64", "complex64 [1]: (3,4)"},
      {"f32", "float32 [2, 3]: 0 1 2 3 4 5"},
      {"i32", "int32 [2]: 1 -1"},
      {"f16", "float16 [1]: 1.5"},
      {"bf16", "bfloat16 [2]: 1 -2"},
      {"i16", "int16 [1]: -300"},
      {"i8", "int8 [1]: -3"},
      {"u8", "uint8 [1]: 200"},
      {"bool", "bool [3]: 1 0 1"},
      {"empty", "float32 [0, 4]:"},
  };
  for (const Row& r : rows) {
    Diagnostics d;
    EXPECT_EQ(shown(readSafetensor(path, r.name, d), d), r.value);
  }
  Diagnostics d;
  Result<SafetensorsHeader> header = readSafetensorsHeader(path, d);
  ASSERT_TRUE(header);
  EXPECT_EQ(header->metadata.at("format"), "pt");
  EXPECT_EQ(header->tensors.size(), std::size(rows));
  EXPECT_EQ(header->tensors[0].name, "f64");
  EXPECT_EQ(header->tensors[0].dtype, "F64");
  EXPECT_EQ(header->tensors.back().begin, header->tensors.back().end);
}

TEST(Safetensors, SuggestsTheNearestName) {
  Diagnostics d;
  EXPECT_FALSE(readSafetensor(dataFile("small.safetensors"), "f33", d));
  EXPECT_EQ(shown(d).substr(shown(d).find("error")),
            "error: the file has no tensor 'f33'\nnote: did you mean 'f32'?\n");
}

TEST(Safetensors, RejectsHeadersThatDoNotFit) {
  struct Row {
    std::string bytes;
    const char* message;
  };
  auto one = [](std::string_view entry, std::string_view data = "abcd") { return fileOf(entry, data); };
  const Row rows[] = {
      {"", "f: error: expected a safetensors file, found an empty file\n"},
      {"PK\3\4", "f: error: expected a safetensors file, found a zip archive\n"},
      {std::string("\1\0\0", 3), "f:@0: error: the file is truncated: it has only 3 bytes\n"},
      {fileOf("[]", ""), "f:@0: error: the header does not begin with '{'\n"},
      {test::littleEndian(50, 8) + "{}", "f:@0: error: the file is truncated: its header has 50 bytes, the file 10\n"},
      {one("{"), "f:@9: error: the header is not JSON: it ends too early\n"},
      {one("{}x"), "f:@10: error: the header is not JSON: unexpected 'x'\n"},
      {one("{\"a\n\":{}}"), "f:@11: error: the header is not JSON: unexpected '\\x0a'\n"},
      {one("{\"a\":tru}"), "f:@16: error: the header is not JSON: unexpected '}'\n"},
      {one("{1:2}"), "f:@9: error: the header is not JSON: unexpected '1'\n"},
      {one("{\"a\xff\":1}"), "f:@11: error: the header is not UTF-8\n"},
      {one(std::string("{}\0", 3)), "f:@10: error: the header contains a zero byte\n"},
      {one("{}"), "f:@10: error: the last tensor is followed by 4 bytes too many\n"},
      {one("{\"a\":1}"), "f:@9: error: tensor 'a': expected an object, found a number\n"},
      {one("{\"a\":[]}"), "f:@9: error: tensor 'a': expected an object, found a list\n"},
      {one("{\"a\":{}}"), "f:@9: error: tensor 'a': it has no dtype\n"},
      {one(R"({"a":{"dtype":"F32"}})"), "f:@9: error: tensor 'a': it has no shape\n"},
      {one(R"({"a":{"dtype":"F32","shape":[1]}})"), "f:@9: error: tensor 'a': it has no data_offsets\n"},
      {one(R"({"a":{"dtype":1}})"), "f:@9: error: tensor 'a': expected a string as dtype, found a number\n"},
      {one(R"({"a":{"dtype":{"x":1}}})"), "f:@9: error: tensor 'a': expected a string as dtype, found an object\n"},
      {one(R"({"a":{"shape":"x"}})"), "f:@9: error: tensor 'a': expected a list of sizes as shape, found a string\n"},
      {one(R"({"a":{"shape":[[1]]}})"), "f:@9: error: tensor 'a': expected a number in shape, found a list\n"},
      {one(R"({"a":{"shape":[-1]}})"),
       "f:@9: error: tensor 'a': expected a number in shape, found a negative number\n"},
      {one(R"({"a":{"shape":[1.5]}})"),
       "f:@9: error: tensor 'a': expected a number in shape, found a number that is no 64-bit integer\n"},
      {one(R"({"a":{"shape":[18446744073709551616]}})"),
       "f:@9: error: tensor 'a': expected a number in shape, found a number that is no 64-bit integer\n"},
      {one(R"({"a":{"data_offsets":[0]}})"), "f:@9: error: tensor 'a': data_offsets has fewer than two numbers\n"},
      {one(R"({"a":{"data_offsets":[0,1,2]}})"), "f:@9: error: tensor 'a': data_offsets has more than two numbers\n"},
      {one(R"({"a":{"data_offsets":null}})"),
       "f:@9: error: tensor 'a': expected a list of two numbers as data_offsets, found null\n"},
      {one(R"({"a":{"data_offsets":[true,1]}})"),
       "f:@9: error: tensor 'a': expected a number in data_offsets, found a bool\n"},
      {one(R"({"a":{"size":1}})"), "f:@9: error: tensor 'a': unknown key 'size'\n"},
      {one(R"({"a":{"dtype":"F32","dtype":"F32"}})"), "f:@9: error: tensor 'a': it has dtype twice\n"},
      {one(R"({"__metadata__":{"k":1}})"), "error: __metadata__ may hold strings only, but 'k' is a number\n"},
      {one(R"({"__metadata__":{"k":"1","k":"1"}})"), "error: __metadata__ has the key 'k' twice\n"},
      {one(R"({"__metadata__":{},"__metadata__":{}})"), "error: the header has __metadata__ twice\n"},
      {one(R"({"__metadata__":[]})"), "error: expected an object as __metadata__, found a list\n"},
      {one(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})"),
       "f:@9: error: tensor 'a': its data_offsets 4 and 0 run backwards\n"},
      {one(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})"),
       "f:@9: error: tensor 'a': F32 [2] has 8 bytes, but its data_offsets hold 4\n"},
      {one(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", "abc"),
       "f:@9: error: tensor 'a': the file is truncated: its bytes end at 4 of 3\n"},
      {one(R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[1,4]}})"),
       "f:@9: error: tensor 'a': the bytes 0 to 1 before it belong to no tensor\n"},
      {one(R"({"b":{"dtype":"U8","shape":[3],"data_offsets":[1,4]},"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})"),
       "f:@9: error: tensor 'b': it shares bytes 1 to 2 with tensor 'a'\n"},
      {one(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})"),
       "f:@61: error: tensor 'a': the header has this name twice\n"},
      {one(R"({"a\"\\":{"dtype":"U8","shape":[5],"data_offsets":[0,4]}})"),
       "f:@9: error: tensor 'a\"\\': U8 [5] has 5 bytes, but its data_offsets hold 4\n"},
      {one(R"({"a":{"dtype":"BOOL","shape":[4],"data_offsets":[0,4]}})", std::string("\0\1\2\0", 4)),
       "f:@65: error: tensor 'a': a bool is 0 or 1, not 2\n"},
  };
  for (const Row& r : rows) {
    std::string message = safetensorsMessage(r.bytes);
    EXPECT_TRUE(message == r.message || (r.message[0] != 'f' && message.ends_with(r.message))) << message << r.message;
  }
}

TEST(Safetensors, NamesTheDTypesThatAreNotSupported) {
  std::string path = dataFile("unsupported.safetensors");
  EXPECT_EQ(safetensorsMessage(readText(path), {}, ErrorKind::Unsupported),
            "f:@124: error: tensor 'odd': the dtype F4 is not supported\n");
  Diagnostics d;
  EXPECT_EQ(shown(readSafetensor(path, "good", d), d), "float32 [1]: 1");
  EXPECT_TRUE(readSafetensorsHeader(path, d));
}

// Sizes whose product or byte count leaves 64 bits, as numbers that agree modulo 2^64 with the file would have it.
TEST(Safetensors, ChecksProductsForOverflow) {
  for (const char* shape : {"[4294967296,4294967296]", "[281474976710656,65536]", "[281474976710656,2]",
                            "[281474976710657]", "[0,9223372036854775808]", "[65536,65536,65536,65536,2]"}) {
    std::string header = std::string(R"({"a":{"dtype":"F32","shape":)") + shape + R"(,"data_offsets":[0,0]}})";
    Diagnostics d;
    EXPECT_FALSE(readAll(fileOf(header, ""), d)) << shape;
  }
  Diagnostics d;
  EXPECT_TRUE(readAll(
      fileOf(R"({"a":{"dtype":"F32","shape":[0,281474976710656,281474976710656],"data_offsets":[0,0]}})", ""), d))
      << shown(d);
}

TEST(Safetensors, KeepsItsLimits) {
  std::string header =
      R"({"ab":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})";
  std::string bytes = fileOf(header, "xy");
  auto fits = [&](Limits limits) {
    Diagnostics d;
    bool good = readAll(bytes, d, limits).ok();
    EXPECT_TRUE(good || d.firstErrorKind() == ErrorKind::Limit) << shown(d);
    return good;
  };
  EXPECT_TRUE(fits({.headerBytes = header.size()}));
  EXPECT_FALSE(fits({.headerBytes = header.size() - 1}));
  EXPECT_TRUE(fits({.tensors = 2}));
  EXPECT_FALSE(fits({.tensors = 1}));
  EXPECT_TRUE(fits({.identifierBytes = 12}));  // "data_offsets"
  EXPECT_FALSE(fits({.identifierBytes = 11}));

  auto withRank = [](int rank) {
    std::string shape;
    for (int i = 0; i < rank; ++i) shape += i ? ",1" : "1";
    return fileOf(R"({"a":{"dtype":"U8","shape":[)" + shape + R"(],"data_offsets":[0,1]}})", "x");
  };
  Diagnostics d;
  EXPECT_TRUE(readAll(withRank(kMaxRank), d));
  EXPECT_EQ(safetensorsMessage(withRank(kMaxRank + 1), {}, ErrorKind::Limit),
            "f:@9: error: tensor 'a': it has more than 64 dimensions\n");
}

TEST(Safetensors, DeepJsonIsNotEntered) {
  std::string deep(1'000'000, '[');
  EXPECT_TRUE(safetensorsMessage(fileOf("{\"a\":" + deep + "}", "")).ends_with("expected an object, found a list\n"));
  EXPECT_TRUE(safetensorsMessage(fileOf("{\"a\":{\"shape\":" + deep + "}}", ""))
                  .ends_with("expected a number in shape, found a list\n"));
}

TEST(Safetensors, EveryPrefixIsRejected) {
  std::string bytes = readText(dataFile("small.safetensors"));
  for (size_t n = 0; n < bytes.size(); ++n) {
    Diagnostics d;
    std::string prefix = bytes.substr(0, n);
    Result<std::vector<Tensor>> all = readAll(prefix, d);
    EXPECT_FALSE(all) << n;
    EXPECT_TRUE(isWellFormed(all, d, n));
  }
  Diagnostics d;
  EXPECT_FALSE(readAll(bytes + "x", d));
}

size_t headerEnd(std::string_view bytes) {
  return 8 + static_cast<unsigned char>(bytes[0]) + 256 * static_cast<unsigned char>(bytes[1]);
}

TEST(Safetensors, EveryCorruptByteIsRejectedOrHarmless) {
  std::string bytes = readText(dataFile("unaligned.safetensors"));
  for (size_t at = 0; at < headerEnd(bytes); ++at)
    for (int value = 0; value < 256; ++value) {
      std::string changed = bytes;
      changed[at] = static_cast<char>(value);
      Diagnostics d;
      EXPECT_TRUE(isWellFormed(readAll(changed, d), d, bytes.size())) << at << " " << value;
    }
}

TEST(Safetensors, EveryFlippedBitIsRejectedOrHarmless) {
  std::string bytes = readText(dataFile("small.safetensors"));
  for (size_t bit = 0; bit < 8 * headerEnd(bytes); ++bit) {
    std::string changed = bytes;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ 1 << bit % 8);
    Diagnostics d;
    EXPECT_TRUE(isWellFormed(readAll(changed, d), d, bytes.size())) << bit;
  }
}

TEST(Safetensors, WritesWhatItReads) {
  TemporaryFolder folder;
  Diagnostics d;
  std::vector<std::pair<std::string, Tensor>> tensors;
  auto file = readSafetensorsHeader(dataFile("small.safetensors"), d);
  for (const TensorEntry& e : file->tensors)
    tensors.emplace_back(e.name, *readSafetensor(dataFile("small.safetensors"), e.name, d));
  std::string path = folder / "w.safetensors";
  ASSERT_TRUE(writeSafetensors(path, tensors, d, {{"a \"key\"", "ä\n"}}));
  for (const auto& [name, tensor] : tensors) {
    Result<Tensor> again = readSafetensor(path, name, d);
    ASSERT_TRUE(again) << shown(d);
    EXPECT_EQ(test::memoryOf(*again), test::memoryOf(tensor));
    EXPECT_EQ(dimsText(again->sizes()), dimsText(tensor.sizes()));
    EXPECT_EQ(again->dtype(), tensor.dtype());
  }
  EXPECT_EQ(readSafetensorsHeader(path, d)->metadata, (Metadata{{"a \"key\"", "ä\n"}}));
  EXPECT_FALSE(d.hasErrors());
}

TEST(Safetensors, WritesTheFormatByteForByte) {
  TemporaryFolder folder;
  Diagnostics d;
  const uint8_t bytes[] = {7};
  const float floats[] = {1, 2};
  std::string path = folder / "w";
  ASSERT_TRUE(writeSafetensors(
      path, {{"u", Tensor::of<uint8_t>(Dims{1}, bytes)}, {"f", Tensor::of<float>(Dims{2}, floats)}}, d));
  std::string header =
      R"({"f":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"u":{"dtype":"U8","shape":[1],"data_offsets":[8,9]}})";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  EXPECT_EQ(readText(path), fileOf(header, std::string("\0\0\x80\x3f\0\0\0\x40\7", 9)));
}

TEST(Safetensors, WritesStridedTensorsRowByRow) {
  TemporaryFolder folder;
  Diagnostics d;
  Tensor t = Tensor::empty(DType::Int32, Dims{150, 200});
  for (int i = 0; i < 30000; ++i) t.data<int32_t>()[i] = i;
  std::string path = folder / "w";
  ASSERT_TRUE(writeSafetensors(path, {{"t", t.permuted(Dims{1, 0})}}, d));
  Result<Tensor> again = readSafetensor(path, "t", d);
  ASSERT_TRUE(again);
  for (int64_t i = 0; i < 30000; ++i) ASSERT_EQ(again->integer(i), i % 150 * 200 + i / 150);
}

TEST(Safetensors, RefusesTwoTensorsOfOneName) {
  TemporaryFolder folder;
  Diagnostics d;
  Tensor t = Tensor::zeros(DType::Float32, Dims{1});
  EXPECT_FALSE(writeSafetensors(folder / "w", {{"a", t}, {"b", t}, {"a", t}}, d));
  EXPECT_EQ(shown(d), "w: error: cannot write: there are two tensors named 'a'\n");
  EXPECT_EQ(folder.fileCount(), 0u);
}

}  // namespace
}  // namespace tscompile
