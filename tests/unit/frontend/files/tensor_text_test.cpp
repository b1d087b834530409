#include "frontend/files/tensor_text.h"

#include "frontend/files/tensor_generator.h"
#include "frontend/files/zip.h"
#include "ir/values/random.h"
#include "tests/support/files.h"

#include <cmath>

namespace tscompile {
namespace {

using test::memoryOf;
using test::shown;

Result<Tensor> tensorOf(std::string_view text, Diagnostics& d, const Limits& limits = {}) {
  TextCursor cursor(SourceFile::make("t", std::string(text)), d);
  Tensor t;
  if (!startsTensor(cursor)) return cursor.expected("a tensor"), Failed{};
  if (!readTensorText(cursor, limits, t)) return Failed{};
  if (!cursor.atEnd()) return cursor.expected("the end"), Failed{};
  return t;
}

std::string textOfTensor(std::string_view text) {
  Diagnostics d;
  return shown(tensorOf(text, d), d);
}

// The first line of the first report.
std::string textMessage(std::string_view text, ErrorKind kind = ErrorKind::Input, const Limits& limits = {}) {
  Diagnostics d;
  EXPECT_FALSE(tensorOf(text, d, limits)) << text;
  EXPECT_EQ(d.errorCount(), 1u);
  EXPECT_EQ(d.firstErrorKind(), kind) << text;
  std::string all = shown(d);
  return all.substr(0, all.find('\n'));
}

TEST(TensorText, ReadsLiterals) {
  struct Row {
    const char *text, *value;
  };
  const Row rows[] = {
      {"2x2:f32=[1 2; 3 4]", "float32 [2, 2]: 1 2 3 4"},
      {"2x2:f32=[1, 2; 3, 4]", "float32 [2, 2]: 1 2 3 4"},
      {"2x2:float32=[ 1\n2 ;\t3 4 ]", "float32 [2, 2]: 1 2 3 4"},
      {"2x1x2:i64=[1 2;; 3 4]", "int64 [2, 1, 2]: 1 2 3 4"},
      {"2x2x2:i64=[1 2;3 4;;5 6;7 8]", "int64 [2, 2, 2]: 1 2 3 4 5 6 7 8"},
      {"2x1:i32=[1; 2]", "int32 [2, 1]: 1 2"},
      {"1x1x1:i32=[5]", "int32 [1, 1, 1]: 5"},
      {"3:i64=[-9223372036854775808 9223372036854775807 0]", "int64 [3]: -9223372036854775808 9223372036854775807 0"},
      {"3:u8=[0 255 7]", "uint8 [3]: 0 255 7"},
      {"scalar:i8=-128", "int8 []: -128"},
      {"scalar:i8=[-128]", "int8 []: -128"},
      {"scalar:f64=.5", "float64 []: 0.5"},
      {"0:f32=[]", "float32 [0]:"},
      {"2x0x3:bool=[ ]", "bool [2, 0, 3]:"},
      {"4:bool=[true False 1 0]", "bool [4]: 1 0 1 0"},
      {"5:f32=[1e-3 -inf nan 0x1.8p+1 2.]", "float32 [5]: 0.001 -inf nan 3 2"},
      {"3:c64=[1 2j -1.5-0x1p1j]", "complex64 [3]: (1,0) (0,2) (-1.5,-2)"},
      {"2:bf16=[1.00390625 1.01171875]", "bfloat16 [2]: 1 1.01562"},
      {"2:u16=[1 65535]", "uint16 [2]: 1 65535"},
      {"3:f8e4m3fn=[1.06 -500 0.02]", "float8_e4m3fn [3]: 1 -448 0.0195312"},
  };
  for (const Row& r : rows) EXPECT_EQ(textOfTensor(r.text), r.value) << r.text;
}

TEST(TensorText, ReadsGenerators) {
  struct Row {
    const char *text, *value;
  };
  const Row rows[] = {
      {"2x2:f32:zeros", "float32 [2, 2]: 0 0 0 0"},
      {"2:i64:ones()", "int64 [2]: 1 1"},
      {"3:f16:arange", "float16 [3]: 0 1 2"},
      {"4:i32:randint(5,6)", "int32 [4]: 5 5 5 5"},
      {"2:f64:uniform(3,3)", "float64 [2]: 3 3"},
      {"2:f64:randn(mean=2, std=0)", "float64 [2]: 2 2"},
      {"2:f64:randn( std = 0 , seed = 18446744073709551615 , mean = -1 )", "float64 [2]: -1 -1"},
      {"scalar:bool:ones", "bool []: 1"},
      {"0x7:f32:randn(seed=3)", "float32 [0, 7]:"},
      {"2:i8:randint(-128,-127)", "int8 [2]: -128 -128"},
      {"2:bool:arange", "bool [2]: 0 1"},
  };
  for (const Row& r : rows) EXPECT_EQ(textOfTensor(r.text), r.value) << r.text;
}

TEST(TensorText, ReportsMistakes) {
  struct Row {
    const char *text, *message;
  };
  const Row rows[] = {
      {"x2:f32=[1]", "t:1:1: error: expected a tensor, found 'x'"},
      {"2x:f32=[1]", "t:1:3: error: expected a size, found ':'"},
      {"2:", "t:1:3: error: expected a dtype, found the end"},
      {"2:=", "t:1:3: error: expected a dtype, found '='"},
      {"2:flaot32=[1 2]", "t:1:3: error: unknown dtype 'flaot32'"},
      {"2:f32", "t:1:6: error: expected ':' and a generator, or '=' and numbers, found the end"},
      {"2:f32=1", "t:1:7: error: expected '[' and the elements, found '1'"},
      {"2:f32=[1 x]", "t:1:10: error: expected a number, found 'x'"},
      {"2:f32=[1 2", "t:1:11: error: expected ']', found the end"},
      {"2:f32=[1", "t:1:9: error: expected a number, found the end"},
      {"2:f32=[1 2]]", "t:1:12: error: expected the end, found ']'"},
      {"2:f32=[1]", "t:1:7: error: [2] has 2 elements, the literal has 1"},
      {"2:f32=[1 2 3]", "t:1:7: error: [2] has 2 elements, the literal has more"},
      {"2x2:f32=[1 2 3 4]", "t:1:14: error: expected ';' after element 2 of [2, 2], found no ';'"},
      {"2x2:f32=[1 2, 3 4]", "t:1:13: error: expected ';' after element 2 of [2, 2], found no ';'"},
      {"2x2:f32=[1 2;; 3 4]", "t:1:13: error: expected ';' after element 2 of [2, 2], found ';;'"},
      {"2x2x1:f32=[1; 2; 3; 4]", "t:1:16: error: expected ';;' after element 2 of [2, 2, 1], found ';'"},
      {"2:f32=[1; 2]", "t:1:9: error: expected no ';' after element 1 of [2], found ';'"},
      {"2:i8=[1 128]", "t:1:9: error: 128 does not fit in int8"},
      {"1:u8=[-1]", "t:1:7: error: -1 does not fit in uint8"},
      {"1:i64=[9223372036854775808]", "t:1:8: error: 9223372036854775808 does not fit in int64"},
      {"1:i64=[1.0]", "t:1:8: error: 1.0 is not an integer, but the tensor is int64"},
      {"1:i64=[true]", "t:1:8: error: expected a number, found 't'"},
      {"1:bool=[2]", "t:1:9: error: 2 does not fit in bool"},
      {"1:bool=[yes]", "t:1:9: error: expected true or false"},
      {"2:bool=[truefalse]", "t:1:9: error: expected true or false"},
      {"1:f32=[1+2j]", "t:1:8: error: 1+2j is complex, but the tensor is float32"},
      {"1:f32=[1e999]", "t:1:8: error: the number is out of the range of 64-bit floats"},
      {"1:f32=[1e-999]", "t:1:8: error: the number is out of the range of 64-bit floats"},
      {"1:f32=[0x1]", "t:1:8: error: a hexadecimal number looks like 0x1.8p+1"},
      {"1:f32=[1e]", "t:1:10: error: expected the digits of an exponent, found ']'"},
      {"1:f32=[-]", "t:1:8: error: expected a number, found '-'"},
      {"1:f32=[1.2.3]", "t:1:8: error: '1.2.3' is not a number"},
      {"1:c64=[1+2]", "t:1:9: error: the imaginary part of a complex number ends in 'j'"},
      {"2:f32:", "t:1:7: error: expected a generator, found the end"},
      {"2:f32:rand", "t:1:7: error: unknown generator 'rand'"},
      {"2:f32:randn(1)", "t:1:13: error: this generator takes no arguments without a name"},
      {"2:f32:randn(seed)", "t:1:13: error: expected a number, or a name and its number"},
      {"2:f32:randn(seed=x)", "t:1:18: error: expected a number, found 'x'"},
      {"2:f32:randn(seed=-1)", "t:1:13: error: a seed is an integer from 0 to 2^64 - 1"},
      {"2:f32:randn(seed=1.5)", "t:1:13: error: a seed is an integer from 0 to 2^64 - 1"},
      {"2:f32:randn(seed=18446744073709551616)", "t:1:13: error: a seed is an integer from 0 to 2^64 - 1"},
      {"2:f32:randn(seed=1,seed=2)", "t:1:20: error: 'seed' is given twice"},
      {"2:f32:randn(seed=1 mean=2)", "t:1:20: error: expected ',' or ')', found 'm'"},
      {"2:f32:randn(std=-1)", "t:1:13: error: 'std' is not negative"},
      {"2:f32:randn(mean=inf)", "t:1:13: error: 'mean' is a finite number"},
      {"2:f32:randn(lo=1)", "t:1:13: error: this generator has no argument 'lo'"},
      {"2:f32:zeros(seed=1)", "t:1:13: error: this generator has no argument 'seed'"},
      {"2:f32:uniform(1)", "t:1:7: error: uniform takes two finite numbers or none: uniform(lo,hi)"},
      {"2:f32:uniform(2,1)", "t:1:7: error: uniform(lo,hi) needs lo <= hi"},
      {"2:i32:randint", "t:1:7: error: randint takes two integers: randint(lo,hi) makes numbers from lo to hi - 1"},
      {"2:i32:randint(1,1)", "t:1:7: error: randint(lo,hi) needs lo < hi"},
      {"2:u8:randint(0,257)", "t:1:6: error: uint8 does not hold all numbers from 0 to 256"},
      {"2:f32:randint(0,9223372036854775807)",
       "t:1:7: error: float32 does not hold all numbers from 0 to 9223372036854775806"},
      {"3:bool:arange", "t:1:8: error: bool does not hold the numbers up to 2"},
      {"2:i32:randn", "t:1:7: error: randn makes floats, not int32; use randint"},
      {"2:bool:uniform", "t:1:8: error: uniform makes floats, not bool; use randint"},
  };
  for (const Row& r : rows) EXPECT_EQ(textMessage(r.text), r.message) << r.text;
  EXPECT_EQ(textMessage("2:c32=[1 2]", ErrorKind::Unsupported), "t:1:3: error: tensors of dtype c32 are not supported");
}

TEST(TensorText, BoundsSizesBeforeItAllocates) {
  for (const char* text : {"281474976710657:u8:zeros", "99999999999999999999:u8:zeros",
                           "65536x65536x65536x65536:u8:zeros", "4294967296x4294967296:u8=[]", "100000000000:f32:zeros"})
    textMessage(text, ErrorKind::Limit);
  // A literal needs no more memory than its text.
  EXPECT_EQ(textMessage("281474976710656:f64=[1 2]"),
            "t:1:21: error: [281474976710656] has 281474976710656 elements, the literal has 2");
  std::string rank64 = "1", rank65;
  for (int i = 1; i < 64; ++i) rank64 += "x1";
  rank65 = rank64 + "x1";
  EXPECT_EQ(textOfTensor(rank64 + ":f32=[3]").substr(0, 9), "float32 [");
  EXPECT_EQ(textMessage(rank65 + ":f32=[3]", ErrorKind::Limit), "t:1:129: error: a tensor has at most 64 dimensions");
}

TEST(TensorText, KeepsItsLimits) {
  Diagnostics d;
  EXPECT_TRUE(tensorOf("10:f32:zeros", d, {.generatedBytes = 40}));
  textMessage("10:f32:zeros", ErrorKind::Limit, {.generatedBytes = 39});
  EXPECT_TRUE(tensorOf("1:f32=[1234]", d, {.numberBytes = 4}));
  textMessage("1:f32=[12345]", ErrorKind::Limit, {.numberBytes = 4});
  // Under a budget the machine's memory is not asked.
  auto budget = Ref<MemoryBudget>::make(39);
  BudgetScope scope(budget.get());
  textMessage("10:f32:zeros", ErrorKind::Limit);
}

// Every dtype, special values and random bits: printed and tensorOf back, the same bytes.
TEST(TensorText, RoundTripProperty) {
  auto check = [](const Tensor& t) {
    std::string text;
    appendTensorText(t, text);
    Diagnostics d;
    Result<Tensor> again = tensorOf(text, d);
    ASSERT_TRUE(again) << text.substr(0, 200) << shown(d);
    EXPECT_EQ(again->dtype(), t.dtype());
    EXPECT_EQ(dimsText(again->sizes()), dimsText(t.sizes()));
    EXPECT_EQ(memoryOf(*again), memoryOf(t)) << text.substr(0, 200);
  };
  const Dims shapes[] = {{}, {1}, {0}, {3, 0, 2}, {7}, {2, 3}, {2, 1, 3}, {1, 2, 2, 2}};
  uint64_t seed = 1;
  for (const char* dtype : {"u8", "i8", "i16", "i32", "i64", "f16", "f32", "f64", "bf16", "c64", "c128", "bool"})
    for (const Dims& shape : shapes)
      for (int round = 0; round < 20; ++round) {
        Tensor t = Tensor::empty(*dtypeFromName(dtype), shape);
        auto* bytes = reinterpret_cast<unsigned char*>(t.raw());
        for (size_t i = 0; i < memoryOf(t).size(); ++i)
          bytes[i] = static_cast<unsigned char>(random::bits(seed, i) & (t.dtype() == DType::Bool ? 1 : 255));
        ++seed;
        // The bits of NaNs are not kept.
        bool hasNan = false;
        for (int64_t i = 0; i < t.numel(); ++i)
          hasNan |= std::isnan(t.complex(i).real()) || std::isnan(t.complex(i).imag());
        if (!hasNan) check(t);
      }
  for (std::string_view text :
       {"6:f32=[0 -0 inf -inf 1e-45 3.4028235e38]", "5:f64=[-0 4.9e-324 1.7976931348623157e308 1e22 1e21]",
        "3:f16=[6e-8 65504 -0]", "3:bf16=[3.38e38 1e-40 -inf]", "2:c128=[-0-0j inf-infj]"}) {
    Diagnostics d;
    check(*tensorOf(text, d));
  }
  EXPECT_EQ(textOfTensor("2:c64=[nan+nanj 1]"), "complex64 [2]: (nan,nan) (1,0)");
}

TEST(TensorText, WritesStridedTensors) {
  Diagnostics d;
  std::string text;
  appendTensorText(tensorOf("2x3:i64=[1 2 3; 4 5 6]", d)->permuted(Dims{1, 0}), text);
  EXPECT_EQ(text, "3x2:i64=[1 4; 2 5; 3 6]");
}

TEST(TensorText, EveryPrefixIsHandled) {
  for (std::string text :
       {"2x2x2:c64=[1 2j; -1.5e-3+inf j;; 0x1.8p+1 nan; 7, 8]", "3x4:f32:uniform( -1e3 , 0x1p4 , seed = 12 )"})
    for (size_t n = 0; n <= text.size(); ++n) {
      Diagnostics d;
      EXPECT_TRUE(test::isWellFormed(tensorOf(text.substr(0, n), d), d, n));
    }
}

// ---- the generator ----

TEST(TensorGenerator, RoundsDoublesOnce) {
  // The float nearest to the double is a tie between two halves; the double is not.
  EXPECT_EQ(roundedTo<Half>(1.0004882812500002).bits, 0x3c01);
  EXPECT_EQ(roundedTo<Half>(1.00048828125).bits, 0x3c00);
  EXPECT_EQ(roundedTo<BFloat16>(1.0039062500000003).bits, 0x3f81);
  EXPECT_EQ(roundedTo<BFloat16>(-1.0039062500000003).bits, 0xbf81);
  EXPECT_EQ(roundedTo<BFloat16>(1e300).bits, 0x7f80);
  EXPECT_EQ(roundedTo<Half>(65519.99999999999).bits, 0x7bff);
  EXPECT_EQ(roundedTo<Half>(65520).bits, 0x7c00);
  EXPECT_EQ(roundedTo<Half>(1e-300).bits, 0);
  EXPECT_EQ(roundedTo<Half>(-0.0).bits, 0x8000);
  EXPECT_EQ(roundedTo<Half>(0x1.0000000000001p-25).bits, 1);
  EXPECT_EQ(roundedTo<Half>(0x1p-25).bits, 0);
  EXPECT_TRUE(std::isnan(static_cast<float>(roundedTo<Half>(NAN))));
  EXPECT_TRUE(std::isnan(static_cast<float>(roundedTo<BFloat16>(NAN))));
}

std::string hex(std::string_view bytes) {
  std::string out;
  for (char c : bytes) {
    out += "0123456789abcdef"[static_cast<unsigned char>(c) >> 4];
    out += "0123456789abcdef"[c & 15];
  }
  return out.empty() ? "-" : out;
}

// The same lines are checked by tests/python/seeded_test.py.
TEST(TensorGenerator, MakesTheGoldenBytes) {
  std::istringstream golden(test::readText(TSCOMPILE_TESTS_DIR "/data/values/golden.txt"));
  size_t count = 0;
  for (std::string line; std::getline(golden, line);) {
    if (line[0] == '#') continue;
    size_t valueAt = line.rfind(' ') + 1, formAt = line.rfind(' ', valueAt - 2) + 1;
    std::string text = line.substr(0, formAt - 1), form = line.substr(formAt, valueAt - formAt - 1);
    Diagnostics d;
    Result<Tensor> t = tensorOf(text, d);
    ASSERT_TRUE(t) << shown(d);
    char crc[9];
    std::snprintf(crc, sizeof crc, "%08x", crc32(memoryOf(*t)));
    EXPECT_EQ(form == "bytes" ? hex(memoryOf(*t)) : std::string(crc), line.substr(valueAt)) << text;
    ++count;
  }
  EXPECT_GT(count, 40u);
}

}  // namespace
}  // namespace tscompile
