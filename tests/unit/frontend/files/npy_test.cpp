#include "frontend/files/tensor_formats.h"
#include "tests/support/files.h"

namespace tscompile {
namespace {

using test::dataFile;
using test::isWellFormed;
using test::littleEndian;
using test::readText;
using test::shown;
using test::TemporaryFolder;

std::string npy(std::string_view header, std::string_view data = "") {
  return "\x93NUMPY" + littleEndian(1, 2) + littleEndian(header.size(), 2) + std::string(header) + std::string(data);
}

Result<Tensor> read(std::string_view bytes, Diagnostics& d, const Limits& limits = {}) {
  return parseNpy({bytes, "f"}, d, limits);
}

std::string valueOf(std::string_view bytes) {
  Diagnostics d;
  return shown(read(bytes, d), d);
}

TEST(Npy, ReadsWhatNumpyWrites) {
  struct Row {
    const char *file, *value;
  };
  const Row rows[] = {
      {"float32.npy", "float32 [2, 3]: 1.5 -2 inf 0 0.001 7"},
      {"fortran.npy", "int64 [2, 3]: 0 1 2 3 4 5"},
      {"scalar.npy", "int16 []: 7"},
      {"empty.npy", "float64 [0, 3]:"},
      {"bool.npy", "bool [3]: 1 0 1"},
      {"complex.npy", "complex128 [2]: (1,2) (-0,-3.5)"},
      {"half.npy", "float16 [2]: 0.5 65504"},
      {"version2.npy", "uint8 [3]: 0 1 2"},
      {"version3.npy", "int8 [3]: 0 1 2"},
      {"uint16.npy", "uint16 [3]: 0 1 2"},
      {"bigendian.npy", "int32 [3]: 0 1 2"},
  };
  for (const Row& r : rows) {
    Diagnostics d;
    EXPECT_EQ(shown(readNpy(dataFile(r.file), d), d), r.value) << r.file;
  }
}

TEST(Npy, KeepsFortranOrderInTheStrides) {
  Diagnostics d;
  Result<Tensor> t = readNpy(dataFile("fortran.npy"), d);
  ASSERT_TRUE(t);
  EXPECT_EQ(dimsText(t->strides()), "[1, 2]");
  EXPECT_FALSE(t->storage()->readOnly());
  Result<NpyHeader> header = readNpyHeader(dataFile("fortran.npy"), d);
  ASSERT_TRUE(header);
  EXPECT_TRUE(header->fortranOrder);
  EXPECT_EQ(header->dataOffset, 128u);
}

TEST(Npy, TakesTheDictInAnyOrderAndSpacing) {
  for (const char* header : {
           "{'descr': '|u1', 'fortran_order': False, 'shape': (2,), }   \n",
           "{'shape':(2,),'fortran_order':False,'descr':'<u1'}",
           " \t{ \"descr\" : \"=u1\" , 'shape' : ( 2 , ) , 'fortran_order' : True }\n",
           "{'descr': '|u1', 'fortran_order': False, 'shape': (2L,), }\n",
       })
    EXPECT_EQ(valueOf(npy(header, "\1\2")), "uint8 [2]: 1 2") << header;
  EXPECT_EQ(valueOf(npy("{'descr': '|u1', 'fortran_order': False, 'shape': (1, 2)}", "\1\2")), "uint8 [1, 2]: 1 2");
  EXPECT_EQ(valueOf(npy("{'descr': '|u1', 'fortran_order': False, 'shape': (1, 2,)}", "\1\2")), "uint8 [1, 2]: 1 2");
}

TEST(Npy, RejectsWhatIsWrong) {
  struct Row {
    std::string bytes;
    const char* message;
  };
  auto header = [](std::string_view text, std::string_view data = "") { return npy(text, data); };
  auto shape = [](std::string_view text, std::string_view data = "") {
    return npy("{'descr': '|b1', 'fortran_order': False, 'shape': " + std::string(text) + "}", data);
  };
  auto descr = [](std::string_view text) {
    return npy("{'descr': " + std::string(text) + ", 'fortran_order': False, 'shape': ()}");
  };
  const Row rows[] = {
      {"", "f: error: expected an .npy file, found an empty file\n"},
      {"\x93NUM", "f: error: expected an .npy file, found unknown binary data\n"},
      {"PK\5\6", "f: error: expected an .npy file, found a zip archive\n"},
      {"<html>", "f: error: expected an .npy file, found an HTML page\n"},
      {"\x93NUMPY\1", "f:@7: error: the file is truncated within its header\n"},
      {"\x93NUMPY" + littleEndian(2, 2) + "\1\2\3", "f:@11: error: the file is truncated within its header\n"},
      {"\x93NUMPY" + littleEndian(1, 2) + "\5\1{}", "f:@12: error: the file is truncated within its header\n"},
      {"\x93NUMPY" + littleEndian(4, 2) + "\1\1{}", "f:@6: error: version 4.0 of the format is not known\n"},
      {"\x93NUMPY" + littleEndian(257, 2) + "\1\1{}", "f:@6: error: version 1.1 of the format is not known\n"},
      {header(""), "f:@10: error: the header should have '{' here, found its end\n"},
      {header("[]"), "f:@10: error: the header should have '{' here, found '['\n"},
      {header("{}"), "f:@11: error: the header has no 'descr'\n"},
      {header("{1}"), "f:@11: error: the header should have a string here, found '1'\n"},
      {header("{'descr"), "f:@11: error: a string of the header does not end\n"},
      {header("{'a': 1}"), "f:@11: error: the header has the unknown key 'a'\n"},
      {header("{'descr' '<f4'}"), "f:@19: error: the header should have ':' here, found '''\n"},
      {header("{'descr': '<f4' 'shape'}"), "f:@26: error: the header should have '}' here, found '''\n"},
      {header("{'descr': '<f4', 'descr': '<f4'}"), "f:@27: error: the header has 'descr' twice\n"},
      {header("{'descr': '<f4', 'shape': ()}"), "f:@38: error: the header has no 'fortran_order'\n"},
      {header("{'fortran_order': false}"), "f:@28: error: the header should have True or False here, found 'f'\n"},
      {shape("3"), "f:@60: error: the header should have '(' here, found '3'\n"},
      {shape("(3)"), "f:@62: error: the header should have ',' here, found ')'\n"},
      {shape("(,)"), "f:@61: error: the header should have a size here, found ','\n"},
      {shape("(-1,)"), "f:@61: error: the header should have a size here, found '-'\n"},
      {shape("(1.5,)"), "f:@62: error: the header should have ',' here, found '.'\n"},
      {shape("(2, 3"), "f:@65: error: the header should have ')' here, found '}'\n"},
      {shape("()} x", "\1"), "f:@64: error: the header goes on after its dict\n"},
      {shape("(2,)", "\1"), "f:@66: error: bool [2] takes 2 bytes, but 1 follow the header: the file is truncated\n"},
      {shape("()", "\1\1"), "f:@65: error: bool [] takes 1 byte, but 2 follow the header\n"},
      {shape("(2,)", "\1\7"), "f:@66: error: a bool is 0 or 1, not 7\n"},
      {descr("[('a', '<i4')]"), "f:@20: error: structured arrays are not supported\n"},
      {descr("'|O'"), "f:@20: error: arrays of Python objects ('|O') are not supported\n"},
      {descr("'<U3'"), "f:@20: error: arrays of this dtype ('<U3') are not supported\n"},
      {descr("'<f16'"), "f:@20: error: arrays of this dtype ('<f16') are not supported\n"},
      {descr("'f4'"), "f:@20: error: arrays of this dtype ('f4') are not supported\n"},
      {descr("''"), "f:@20: error: arrays of this dtype ('') are not supported\n"},
  };
  for (const Row& r : rows) EXPECT_EQ(valueOf(r.bytes), r.message);
  for (const char* file : {"unicode.npy", "structured.npy", "object.npy"}) {
    Diagnostics d;
    EXPECT_FALSE(readNpy(dataFile(file), d));
    EXPECT_EQ(d.firstErrorKind(), ErrorKind::Unsupported) << file;
  }
}

TEST(Npy, KeepsItsLimits) {
  std::string header = "{'descr': '|u1', 'fortran_order': False, 'shape': ()}";
  Diagnostics d;
  EXPECT_TRUE(read(npy(header, "x"), d, {.npyHeaderBytes = header.size()}));
  EXPECT_FALSE(read(npy(header, "x"), d, {.npyHeaderBytes = header.size() - 1}));
  EXPECT_EQ(d.firstErrorKind(), ErrorKind::Limit);
  auto rank = [](int n) {
    std::string sizes;
    for (int i = 0; i < n; ++i) sizes += "1,";
    return npy("{'descr': '|u1', 'fortran_order': True, 'shape': (" + sizes + ")}", "x");
  };
  EXPECT_TRUE(valueOf(rank(kMaxRank)).starts_with("uint8 [1, 1"));
  EXPECT_EQ(valueOf(rank(kMaxRank + 1)), "f:@188: error: the array has more than 64 dimensions\n");
}

TEST(Npy, ChecksProductsForOverflow) {
  for (const char* shape : {"(4294967296, 4294967296)", "(281474976710656, 2)", "(281474976710657,)",
                            "(99999999999999999999,)", "(65536, 65536, 65536, 65536)", "(281474976710656,)"}) {
    std::string value = valueOf(npy(std::string("{'descr': '<c16', 'fortran_order': False, 'shape': ") + shape + "}"));
    EXPECT_TRUE(value.find("error") != std::string::npos) << shape << value;
  }
  EXPECT_EQ(valueOf(npy("{'descr': '<c16', 'fortran_order': True, 'shape': (0, 281474976710656, 281474976710656)}")),
            "complex128 [0, 281474976710656, 281474976710656]:");
}

TEST(Npy, EveryPrefixIsRejected) {
  for (const char* file : {"float32.npy", "version2.npy", "fortran.npy"}) {
    std::string bytes = readText(dataFile(file));
    for (size_t n = 0; n < bytes.size(); ++n) {
      Diagnostics d;
      Result<Tensor> t = read(std::string(bytes, 0, n), d);
      EXPECT_FALSE(t) << n;
      EXPECT_TRUE(isWellFormed(t, d, n));
    }
    Diagnostics d;
    EXPECT_FALSE(read(bytes + "x", d));
  }
}

TEST(Npy, EveryCorruptByteIsRejectedOrHarmless) {
  for (const char* file : {"float32.npy", "version3.npy"}) {
    std::string bytes = readText(dataFile(file));
    for (size_t at = 0; at < 128; ++at)
      for (int value = 0; value < 256; ++value) {
        std::string changed = bytes;
        changed[at] = static_cast<char>(value);
        Diagnostics d;
        EXPECT_TRUE(isWellFormed(read(changed, d), d, bytes.size())) << at << " " << value;
      }
  }
}

TEST(Npy, WritesWhatNumpyWrites) {
  TemporaryFolder folder;
  Diagnostics d;
  for (const char* file : {"float32.npy", "scalar.npy", "empty.npy", "bool.npy", "complex.npy", "half.npy"}) {
    Result<Tensor> t = readNpy(dataFile(file), d);
    ASSERT_TRUE(t);
    EXPECT_TRUE(writeNpy(folder / file, *t, d));
    EXPECT_EQ(readText(folder / file), readText(dataFile(file))) << file;
  }
  Result<Tensor> fortran = readNpy(dataFile("fortran.npy"), d);
  EXPECT_TRUE(writeNpy(folder / "c.npy", *fortran, d));
  Result<Tensor> again = readNpy(folder / "c.npy", d);
  EXPECT_EQ(shown(again, d), "int64 [2, 3]: 0 1 2 3 4 5");
  EXPECT_TRUE(again->isContiguous());
  EXPECT_FALSE(writeNpy(folder / "b.npy", Tensor::zeros(DType::BFloat16, Dims{1}), d));
  EXPECT_EQ(shown(d), "b.npy: error: cannot write: .npy files have no bfloat16; safetensors files do\n");
}

TEST(Npy, WritesHeadersOfAnyLength) {
  TemporaryFolder folder;
  Diagnostics d;
  for (int rank : {1, 8, 20, 64}) {
    Tensor t = Tensor::zeros(DType::Int8, Dims(static_cast<size_t>(rank), 1));
    ASSERT_TRUE(writeNpy(folder / "t.npy", t, d));
    std::string bytes = readText(folder / "t.npy");
    EXPECT_EQ((bytes.size() - 1) % 64, 0u);
    EXPECT_EQ(dimsText(readNpy(folder / "t.npy", d)->sizes()), dimsText(t.sizes()));
  }
}

}  // namespace
}  // namespace tscompile
