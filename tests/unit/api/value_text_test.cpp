#include "api/value_text.h"

#include "ir/values/random.h"
#include "tests/support/files.h"

#include <cmath>

namespace tscompile {
namespace {

using test::dataFile;
using test::shown;

TypePtr list(TypePtr t) { return listType(t); }

// The value and its type, or the reports.
std::string valueOf(std::string_view text, TypePtr expected = nullptr) {
  Diagnostics d;
  Result<IValue> v = parseValueText(text, "--input x", d, expected);
  EXPECT_TRUE(test::isWellFormed(v, d, text.size()));
  return v ? valueToText(*v) + " " + typeText(dynamicType(*v), TypeStyle::Python) : shown(d);
}

std::string messageFor(std::string_view text, ErrorKind kind = ErrorKind::Input, const Limits& limits = {}) {
  Diagnostics d;
  EXPECT_FALSE(parseValueText(text, "--input x", d, nullptr, limits)) << text;
  EXPECT_EQ(d.errorCount(), 1u);
  EXPECT_EQ(d.firstErrorKind(), kind) << text;
  std::string all = shown(d);
  return all.substr(0, all.find('\n'));
}

TEST(ValueText, ReadsScalars) {
  struct Row {
    const char *text, *value;
  };
  const Row rows[] = {
      {"3", "3 int"},
      {" -9223372036854775808 ", "-9223372036854775808 int"},
      {"2.5", "2.5 float"},
      {"3.", "3.0 float"},
      {".5", "0.5 float"},
      {"-0.0", "-0.0 float"},
      {"1e-5", "1e-05 float"},
      {"1E+2", "100.0 float"},
      {"inf", "inf float"},
      {"-inf", "-inf float"},
      {"nan", "nan float"},
      {"0x1.8p+1", "3.0 float"},
      {"-0x.8p-1", "-0.25 float"},
      {"1+2j", "1.0+2.0j complex"},
      {"-2.5j", "0.0-2.5j complex"},
      {"nan-infj", "nan-infj complex"},
      {"true", "true bool"},
      {"False", "false bool"},
      {"torch.float16", "5 int"},
      {"None", "None NoneType"},
      {"\"text\"", "\"text\" str"},
      {R"("a\"\\\/\b\f\n\r\t\u0041\u00e9\u20ac\ud83d\ude00")",
       "\"a\\\"\\\\/\\u0008\\u000c\\n\\r\\tA\u00e9\u20ac\U0001F600\" str"},
      {"\"\xff raw\"", "\"\xff raw\" str"},
      {"\"\"", "\"\" str"},
  };
  for (const Row& r : rows) EXPECT_EQ(valueOf(r.text), r.value) << r.text;
}

TEST(ValueText, ReadsContainers) {
  struct Row {
    const char *text, *value;
  };
  const Row rows[] = {
      {"[1, 2]", "[1, 2] List[int]"},
      {"[1,2,]", "[1, 2] List[int]"},
      {"[1, 2.5]", "[1.0, 2.5] List[float]"},
      {"[1, 2.5, 1j]", "[1.0+0.0j, 2.5+0.0j, 0.0+1.0j] List[complex]"},
      {"[true, false]", "[true, false] List[bool]"},
      {"[1, None]", "[1, None] List[Optional[int]]"},
      {"[[1], [2, 3]]", "[[1], [2, 3]] List[List[int]]"},
      {"[(1, \"a\"), (2, \"b\")]", "[(1, \"a\"), (2, \"b\")] List[Tuple[int, str]]"},
      {"[]", "[] List[Tensor]"},
      {"[1:f32:ones, scalar:i64=2]", "[1:f32=[1], scalar:i64=2] List[Tensor]"},
      {"()", "() Tuple[()]"},
      {"(1,)", "(1,) Tuple[int]"},
      {"( 1 , 2.5 , \"a\" )", "(1, 2.5, \"a\") Tuple[int, float, str]"},
      {"{}", "{} Dict[str, Tensor]"},
      {"{\"k\": 1, \"l\": 2}", "{\"k\": 1, \"l\": 2} Dict[str, int]"},
      {"{1:2.5,2:3}", "{1: 2.5, 2: 3.0} Dict[int, float]"},
      {"{1:2:f32:zeros}", "{1: 2:f32=[0 0]} Dict[int, Tensor]"},
      {"{2.5: [], }", "{2.5: []} Dict[float, List[Tensor]]"},
  };
  for (const Row& r : rows) EXPECT_EQ(valueOf(r.text), r.value) << r.text;
}

TEST(ValueText, TakesTypesFromWhatIsExpected) {
  const CommonTypes& t = types();
  struct Row {
    const char* text;
    TypePtr expected;
    const char* value;
  };
  const Row rows[] = {
      {"3", t.floating, "3.0 float"},
      {"3", optionalType(t.floating), "3.0 float"},
      {"3", t.complex, "3.0+0.0j complex"},
      {"2.5", t.complex, "2.5+0.0j complex"},
      {"3", t.integer, "3 int"},
      {"9223372036854775808", t.floating, "9223372036854775808.0 float"},
      {"[]", t.intList, "[] List[int]"},
      {"[1, 2]", t.floatList, "[1.0, 2.0] List[float]"},
      {"[1, 2]", list(optionalType(t.floating)), "[1.0, 2.0] List[Optional[float]]"},
      {"[1, \"a\"]", list(t.any), "[1, \"a\"] List[Any]"},
      {"[[], [1]]", list(t.floatList), "[[], [1.0]] List[List[float]]"},
      {"{}", dictType(t.integer, t.intList), "{} Dict[int, List[int]]"},
      {"{1: []}", dictType(t.floating, t.intList), "{1.0: []} Dict[float, List[int]]"},
      {"(1, [])", tupleType(std::vector<TypePtr>{t.floating, t.boolList}), "(1.0, []) Tuple[float, List[bool]]"},
      {"None", optionalType(t.intList), "None NoneType"},
      // What does not fit is read as it stands; whoever takes it says so.
      {"\"a\"", t.floating, "\"a\" str"},
      {"[\"a\"]", t.intList, "[\"a\"] List[str]"},
  };
  for (const Row& r : rows) EXPECT_EQ(valueOf(r.text, r.expected), r.value) << r.text;
}

TEST(ValueText, ReadsFiles) {
  std::string npy = dataFile("scalar.npy"), npz = dataFile("stored.npz"), st = dataFile("small.safetensors");
  Diagnostics d;
  auto textOf = [&](std::string_view text) {
    Result<IValue> v = parseValueText(text, "x", d);
    return v ? valueToText(*v) : shown(d);
  };
  EXPECT_EQ(textOf("@" + npy), "scalar:i16=7");
  EXPECT_EQ(textOf(" @" + npy + " "), "scalar:i16=7");
  EXPECT_EQ(textOf("@" + npz + "#a"), "3:i32=[0 1 2]");
  EXPECT_EQ(textOf("@\"" + st + "#i8\""), "1:i8=[-3]");
  EXPECT_EQ(textOf("[@" + npy + ",@" + st + "#f16 ]"), "[scalar:i16=7, 1:f16=[1.5]]");
  EXPECT_EQ(textOf("({\"k\": @" + npz + "#layer.weight},)"), "({\"k\": 2x2:f32=[1 1; 1 1]},)");
  test::TemporaryFolder folder;
  std::string odd = folder.write("a, b#c).npy", test::readText(npy));
  EXPECT_EQ(textOf("@" + odd), "scalar:i16=7");
  EXPECT_EQ(textOf("[@\"" + odd + "\"]"), "[scalar:i16=7]");
  EXPECT_FALSE(d.hasErrors());
  // Elements and nothing else, of the sizes that are said.
  const std::string raw = folder.write("x.bin", std::string("\x01\x00\x02\x00\x03\x00\xff\xff", 8));
  EXPECT_EQ(textOf("2x2:i16=@" + raw), "2x2:i16=[1 2; 3 -1]");
  EXPECT_EQ(textOf("[8:u8=@" + raw + ", 4:f16=@\"" + raw + "\"]").substr(0, 23), "[8:u8=[1 0 2 0 3 0 255 ");
  EXPECT_EQ(textOf("8:bool=@" + raw), "8:bool=[true false true false true false true true]");
  EXPECT_FALSE(d.hasErrors());
  const std::string message = textOf("3:i16=@" + raw);
  EXPECT_NE(message.find("3 elements of i16 are 6 bytes, and "), std::string::npos) << message;
  EXPECT_NE(message.find(" has 8"), std::string::npos) << message;
  d.clear();
  EXPECT_EQ(textOf("@" + folder / "none.npy"), "none.npy: error: cannot read: No such file or directory\n");
  d.clear();
  EXPECT_EQ(
      textOf("@" + folder.write("m.gguf", "GGUF")),
      "m.gguf: error: expected a file of tensors: .npy, .npz, safetensors or of torch.save, found a GGUF model\n");
}

TEST(ValueText, ReportsMistakes) {
  struct Row {
    const char *text, *message;
  };
  const Row rows[] = {
      {"", "--input x:1:1: error: expected a value, found the end"},
      {"  ", "--input x:1:3: error: expected a value, found the end"},
      {"$", "--input x:1:1: error: expected a value, found '$'"},
      {"foo", "--input x:1:1: error: unknown word 'foo'"},
      {"torch.f32", "--input x:1:1: error: 'torch.f32' is no dtype"},
      {"1 2", "--input x:1:3: error: expected the end of the value, found '2'"},
      {"12ab", "--input x:1:1: error: '12ab' is not a number"},
      {"9223372036854775808", "--input x:1:1: error: the integer does not fit in 64 bits"},
      {"1e400", "--input x:1:1: error: the number is out of the range of 64-bit floats"},
      {"[1, 2", "--input x:1:6: error: expected ',' or ']', found the end"},
      {"[1 2]", "--input x:1:4: error: expected ',' or ']', found '2'"},
      {"[1, , 2]", "--input x:1:5: error: expected a value, found ','"},
      {"[1)", "--input x:1:3: error: expected ',' or ']', found ')'"},
      {"(1)", "--input x:1:1: error: a tuple of one value is written (v,)"},
      {"[1, \"a\"]", "--input x:1:5: error: the items of a list have one type; this is str, those before are int"},
      {"[1, true]", "--input x:1:5: error: the items of a list have one type; this is bool, those before are int"},
      {"{\"a\" 1}", "--input x:1:6: error: expected ':' and the value of this key, found '1'"},
      {"{\"a\": 1, \"a\": 2}", "--input x:1:10: error: the dict has this key twice"},
      {"{\"a\": 1, 2: 2}",
       "--input x:1:10: error: the keys of a dict have one type; this is int, those before are str"},
      {"{None: 1}", "--input x:1:2: error: None is no key of a dict"},
      {"{[1]: 1}", "--input x:1:2: error: expected a value, found '['"},
      {"{\"a\": 1; \"b\": 2}", "--input x:1:8: error: expected ',' or '}', found ';'"},
      {"\"abc", "--input x:1:1: error: the string does not end"},
      {"\"a\\\"", "--input x:1:1: error: the string does not end"},
      {"\"a\\", "--input x:1:3: error: unknown escape; strings have those of JSON"},
      {"\"\\x41\"", "--input x:1:2: error: unknown escape; strings have those of JSON"},
      {"\"\\u12\"", "--input x:1:2: error: \\u is followed by four hexadecimal digits"},
      {"\"\\ud800\"", "--input x:1:2: error: half of a surrogate pair"},
      {"\"\\udc00\"", "--input x:1:2: error: half of a surrogate pair"},
      {"\"\\ud800\\u0041\"", "--input x:1:2: error: half of a surrogate pair"},
      {"\"a\nb\"", "--input x:1:3: error: control characters in strings are written as \\n or \\u001b"},
      {"@", "--input x:1:1: error: expected the path of a file after '@'"},
      {"[@, 1]", "--input x:1:2: error: expected the path of a file after '@'"},
      {"@\"a\\u0000b\"", "--input x:1:1: error: a path holds no zero byte"},
      {"[2:f31:zeros]", "--input x:1:4: error: unknown dtype 'f31'"},
  };
  for (const Row& r : rows) EXPECT_EQ(messageFor(r.text), r.message) << r.text;
}

TEST(ValueText, KeepsItsLimits) {
  auto nested = [](int depth) {
    return std::string(static_cast<size_t>(depth), '[') + std::string(static_cast<size_t>(depth), ']');
  };
  EXPECT_TRUE(valueOf(nested(64)).starts_with(nested(64)));
  EXPECT_EQ(messageFor(nested(65), ErrorKind::Limit), "--input x:1:65: error: values are nested more than 64 deep");
  messageFor(std::string(1'000'000, '('), ErrorKind::Limit);
  Diagnostics d;
  EXPECT_TRUE(parseValueText("[1,2]", "x", d, nullptr, {.listItems = 2}));
  messageFor("[1,2,3]", ErrorKind::Limit, {.listItems = 2});
  EXPECT_TRUE(parseValueText("{1:1,2:1}", "x", d, nullptr, {.listItems = 2}));
  messageFor("{1:1,2:1,3:1}", ErrorKind::Limit, {.listItems = 2});
  EXPECT_TRUE(parseValueText("\"abc\"", "x", d, nullptr, {.stringBytes = 3}));
  messageFor("\"abcd\"", ErrorKind::Limit, {.stringBytes = 3});
  EXPECT_TRUE(parseValueText("1234", "x", d, nullptr, {.textBytes = 4}));
  messageFor("12345", ErrorKind::Limit, {.textBytes = 4});
}

TEST(ValueText, WritesWhatTheGrammarLacksAsARemark) {
  EXPECT_EQ(valueToText(IValue(Tensor())), "None");
  EXPECT_EQ(valueToText(IValue(Device{})), "<\"cpu\">");
}

// Values nested far deeper than may be read are written without recursion.
TEST(ValueText, WritesDeepValues) {
  IValue v(int64_t{1});
  for (int i = 0; i < 100'000; ++i) v = tuple({std::move(v)});
  EXPECT_EQ(valueToText(v).size(), 300'001u);
}

// Random values: written and read back, the same text and type.
class RandomValues {
 public:
  explicit RandomValues(uint64_t seed) : seed_(seed) {}

  IValue make(int depth) {
    switch (below(depth > 0 ? 10 : 7)) {
      case 0:
        return {};
      case 1:
        return below(2) == 1;
      case 2:
        return static_cast<int64_t>(next() >> below(64));
      case 3:
        return real();
      case 4:
        return std::complex<double>(real(), real());
      case 5:
        return text();
      case 6:
        return tensor();
      case 7: {
        std::vector<IValue> items(below(4));
        for (IValue& i : items) i = make(depth - 1);
        return tuple(std::move(items));
      }
      case 8: {
        std::vector<IValue> items(below(4));
        for (IValue& i : items) i = real();
        return Ref<ListValue>::make(types().floating, std::move(items));
      }
      default: {
        auto dict = Ref<DictValue>::make(types().string, types().integer);
        for (uint64_t i = below(4); i > 0; --i) dict->set(text(), static_cast<int64_t>(next()));
        return dict;
      }
    }
  }

 private:
  uint64_t next() { return random::bits(seed_, count_++); }
  uint64_t below(uint64_t n) { return next() % n; }
  double real() {
    double v =
        below(3) ? std::bit_cast<double>(next()) : static_cast<double>(static_cast<int64_t>(below(2000)) - 1000) / 8;
    return std::isnan(v) ? 0 : v;
  }
  IValue text() {
    std::string s;
    for (uint64_t i = below(8); i > 0; --i) s += static_cast<char>(next());
    return s;
  }
  IValue tensor() {
    const int64_t sizes[] = {static_cast<int64_t>(below(3)), static_cast<int64_t>(below(4))};
    Tensor t = Tensor::empty(DType::Int16, DimSpan(sizes).subspan(below(3)));
    for (int64_t i = 0; i < t.numel(); ++i) t.data<int16_t>()[i] = static_cast<int16_t>(next());
    return t;
  }

  uint64_t seed_, count_ = 0;
};

TEST(ValueText, RoundTripProperty) {
  for (uint64_t seed = 0; seed < 5000; ++seed) {
    IValue v = RandomValues(seed).make(3);
    std::string text = valueToText(v);
    Diagnostics d;
    Result<IValue> again = parseValueText(text, "x", d, dynamicType(v));
    ASSERT_TRUE(again) << text << shown(d);
    ASSERT_EQ(valueToText(*again), text);
    ASSERT_EQ(dynamicType(*again), dynamicType(v)) << text;
  }
}

// The first cells of the tables whose header says `text | value` or `text | tensor`.
TEST(ValueText, ReadsTheExamplesOfTheDocs) {
  std::istringstream docs(test::readText(TSCOMPILE_SOURCE_DIR "/docs/values.md"));
  size_t count = 0;
  bool inTable = false;
  for (std::string line; std::getline(docs, line);) {
    if (!line.starts_with("|")) inTable = false;
    if (line == "| text | value |" || line == "| text | tensor |") inTable = true;
    if (!inTable || !line.starts_with("| `")) continue;
    std::string cell = line.substr(2, line.find(" | ") - 2);
    for (size_t begin = cell.find('`'); begin != std::string::npos;) {
      size_t end = cell.find('`', begin + 1);
      std::string text = cell.substr(begin + 1, end - begin - 1);
      begin = cell.find('`', end + 1);
      if (text.find('@') != std::string::npos) continue;  // files
      Diagnostics d;
      EXPECT_TRUE(parseValueText(text, "docs", d)) << shown(d);
      ++count;
    }
  }
  EXPECT_GT(count, 25u);
}

TEST(ValueText, EveryPrefixIsHandled) {
  std::string text = R"({"k\u00e9": [1, -2.5e3, None], "l": ((2x2:f32=[1 2; 3 4],), @x.npz#a, 1+2j, 0x1.8p+1, true)})";
  for (size_t n = 0; n <= text.size(); ++n) {
    Diagnostics d;
    EXPECT_TRUE(test::isWellFormed(parseValueText(text.substr(0, n), "x", d), d, n)) << n;
  }
}

}  // namespace
}  // namespace tscompile
