#include "frontend/pickle/pickle.h"

#include "tests/support/files.h"
#include "tests/support/pickle_text.h"

#include <map>

namespace tscompile {
namespace {

using test::littleEndian;
using test::pickleText;
using test::shown;
using namespace std::string_literals;

// Storages of 16 bytes that count from 0.
class CountingStorages : public PickleStorages {
 public:
  Ref<Storage> find(std::string_view key, DType, uint64_t) override {
    Ref<Storage>& s = known_[std::string(key)];
    if (s) return s;
    s = Storage::allocate(16);
    for (int i = 0; i < 16; ++i) s->data()[i] = static_cast<std::byte>(i);
    return s;
  }

 private:
  std::map<std::string, Ref<Storage>> known_;
};

std::string read(const std::string& pickle, bool foreign = false, const Limits& limits = {}) {
  Diagnostics d;
  CountingStorages storages;
  PickleOptions options;
  options.path = "f";
  options.offset = 100;
  options.foreignNames = foreign;
  options.storages = &storages;
  options.limits = limits;
  auto tree = readPickle(pickle, options, d);
  EXPECT_TRUE(test::isWellFormed(tree, d, 100 + pickle.size()));
  return tree ? pickleText((*tree)->root()) : shown(d);
}

std::string text(std::string_view s) { return "X" + littleEndian(s.size(), 4) + std::string(s); }
std::string name(std::string_view module, std::string_view what) {
  return "c" + std::string(module) + "\n" + std::string(what) + "\n";
}
// A storage of type `type`, and a tensor of it with these bytes of pickle for offset, sizes and strides.
std::string storage(const std::string& type, const std::string& count = "K\4") {
  return "(" + text("storage") + name("torch", type) + text("0") + text("cpu") + count + "tQ";
}
std::string tensor(const std::string& type, const std::string& geometry) {
  return name("torch._utils", "_rebuild_tensor_v2") + "(" + storage(type) + geometry + "\x89}tR.";
}

TEST(Pickle, ReadsConstants) {
  const std::pair<std::string, const char*> rows[] = {
      {"N.", "None"},
      {"\x88.", "True"},
      {"\x89.", "False"},
      {"K\xff.", "255"},
      {"M\xff\xff.", "65535"},
      {"J\xff\xff\xff\xff.", "-1"},
      {"\x8a\x00."s, "0"},
      {"\x8a\x01\x80.", "-128"},
      {"\x8a\x08" + littleEndian(uint64_t{1} << 40, 8) + ".", "1099511627776"},
      {"\x8b" + littleEndian(2, 4) + "\x00\x01."s, "256"},
      {"\x8a\x09" + std::string(9, '\x01') + ".", "9 bytes"},
      {"G\x3f\xe0\0\0\0\0\0\0."s, "0.5"},
      {text("x\xc3\xa9") + ".", "'x\xc3\xa9'"},
      {"\x8c\x02hi.", "'hi'"},
      {"U\x02hi.", "'hi'"},
      {"C\x02hi.", "2 bytes"},
      {"\x80\x05\x95\0\0\0\0\0\0\0\0K\1."s, "1"},
  };
  for (const auto& [pickle, expected] : rows) EXPECT_EQ(read(pickle), expected);
}

TEST(Pickle, ReadsContainersAndWhatTheyShare) {
  const std::pair<std::string, const char*> rows[] = {
      {").", "()"},
      {"K\1\x85.", "(1)"},
      {"K\1K\2\x86.", "(1, 2)"},
      {"K\1K\2K\3\x87.", "(1, 2, 3)"},
      {"(K\1K\2K\3K\4t.", "(1, 2, 3, 4)"},
      {"](K\1K\2e.", "[1, 2]"},
      {"]K\1a.", "[1]"},
      {"(K\1l.", "[1]"},
      {"}(" + text("a") + "K\1" + text("b") + "Nu.", "{'a': 1, 'b': None}"},
      {"}K\1K\2s.", "{1: 2}"},
      {"(K\1K\2d.", "{1: 2}"},
      {"\x8f(K\1\x90.", "{1}"},
      {"(]q\1h\1h\1t.", "([]=1, #1, #1)"},
      {"]q\0h\0a."s, "[#1]=1"},
      {"]\x94K\7a0h\0."s, "[7]"},
      {"K\1(K\2K\3"
       "1.",
       "1"},
      {"K\1"
       "2\x86.",
       "(1, 1)"},
  };
  for (const auto& [pickle, expected] : rows) EXPECT_EQ(read(pickle), expected);
}

TEST(Pickle, CallsWhatIsOnTheList) {
  const std::pair<std::string, const char*> rows[] = {
      {name("collections", "OrderedDict") + ")R.", "{}"},
      {name("collections", "OrderedDict") + "](]K\1ae\x85R.", "f:@133: error: a dict is made of pairs\n"},
      {name("collections", "OrderedDict") + "](](K\1K\2ee\x85R.", "{1: 2}"},
      {name("collections", "defaultdict") + name("__builtin__", "list") + "\x85R.", "{}"},
      {name("torch", "device") + text("cuda") + "K\1\x86R.", "cuda:1"},
      {name("builtins", "complex") + "G\x3f\xf0\0\0\0\0\0\0G\x40\0\0\0\0\0\0\0\x86R."s, "1+2j"},
      {name("torch", "Size") + "](K\2K\3e\x85R.", "(2, 3)"},
      {name("_codecs", "encode") + text("\xc3\xbf") + text("latin1") + "\x86R.", "1 bytes"},
      {name("torch.jit._pickle", "build_intlist") + "(](K\1etR.", "List[int]:[1]"},
      {name("torch.jit._pickle", "restore_type_tag") + "(}" + text("Dict[str, int]") + "tR.", "Dict[str, int]:{}"},
      {name("torch", "float32") + ".", "torch.float32"},
      {text("torch") + text("int8") + "\x93.", "torch.int8"},
      {name("__torch__.a", "B") + ")\x81}" + text("x") + "K\1sb.", "__torch__.a.B(){'x': 1}"},
      {name("__torch__", "Color") + "K\7R.", "__torch__.Color7"},
      // Attributes of dicts: state_dict()._metadata
      {name("collections", "OrderedDict") + ")R}" + text("_metadata") + "}sb.", "{}"},
  };
  for (const auto& [pickle, expected] : rows) EXPECT_EQ(read(pickle), expected);
}

TEST(Pickle, ArraysAreTensors) {
  auto array = [](const std::string& sizes, const std::string& code, const std::string& order,
                  const std::string& data) {
    const std::string start = name("numpy.core.multiarray", "_reconstruct") + "(" + name("numpy", "ndarray") + "NNtR";
    const std::string dtype = name("numpy", "dtype") + "(" + text(code) + "tR(K\3" + text(order) + "tb";
    return start + "(K\1" + sizes + dtype + "\x88" + data + "tb.";
  };
  const std::string bytes = "C\2\1\xff"s;
  const std::pair<std::string, const char*> rows[] = {
      {array("K\2\x85", "i1", "|", bytes), "int8[2] <1 -1>"},
      {array("K\1K\2\x86", "u1", "|", bytes), "uint8[1, 2] <1 255>"},
      {array(")", "i2", "<", bytes), "int16[] <-255>"},
      {array(")", "i2", ">", bytes), "int16[] <511>"},
      {array("K\1K\0\x86"s, "f4", "<", name("__builtin__", "bytes") + ")R"), "float32[1, 0] <>"},
      {array(")", "i2", "<", "X\2\0\0\0ab"s), "int16[] <25185>"},
      {array(")", "O", "|", "]"),
       "numpy.ndarray(numpy.ndarray, None, None)(1, (), numpy.dtype('O')(3, '|'), True, [])"},
      {array("K\3\x85", "i1", "|", bytes), "f:@202: error: the array [3] of int8 has 2 bytes\n"},
      {array("K\2\x85", "b1", "|", bytes), "f:@202: error: the array has bools that are neither 0 nor 1\n"},
      {array("N", "i1", "|", bytes), "f:@200: error: the sizes of a tensor are a tuple of at most 64 integers\n"},
  };
  for (const auto& [pickle, expected] : rows) EXPECT_EQ(read(pickle), expected);
}

// What a called object is called with may be anything.
TEST(Pickle, DTypesOfArraysThatAreCalledAgainAreNone) {
  const std::string start = name("numpy.core.multiarray", "_reconstruct") + "(" + name("numpy", "ndarray") + "NNtR";
  const std::string dtype = name("numpy", "dtype") + "(" + text("i1") + "tR";
  for (const std::string& again : {"K\1R"s, ")R"s})
    EXPECT_EQ(read(start + "(K\1)" + dtype + again + "\x89" + "C\1\1"s + "tb.", true).find("numpy.ndarray"), 0u);
}

TEST(Pickle, ScalarsOfNumpyAreNumbers) {
  auto scalar = [](const std::string& code, const std::string& order, const std::string& data) {
    const std::string dtype = name("numpy", "dtype") + "(" + text(code) + "tR(K\3" + text(order) + "tb";
    return name("numpy._core.multiarray", "scalar") + dtype + "C" + static_cast<char>(data.size()) + data + "\x86R.";
  };
  const std::pair<std::string, const char*> rows[] = {
      {scalar("f4", "<", "\0\0\x20\x40"s), "2.5"},
      {scalar("f8", ">", "\x3f\xe0\0\0\0\0\0\0"s), "0.5"},
      {scalar("i2", ">", "\xff\xfe"), "-2"},
      {scalar("b1", "|", "\1"), "True"},
      {scalar("c8", "<", "\0\0\x80\x3f\0\0\0\x40"s), "1+2j"},
      {scalar("u8", ">", "\x80\0\0\0\0\0\0\0"s), "uint64[] <9223372036854775808>"},
  };
  for (const auto& [pickle, expected] : rows) EXPECT_EQ(read(pickle), expected);
}

TEST(Pickle, RefusesEverythingElseByName) {
  std::string evil = name("posix", "system") + text("x") + "\x85R.";
  EXPECT_EQ(read(evil), "f:@100: error: 'posix.system' is not on the list of what a pickle may ask for\n");
  EXPECT_EQ(read("]" + text("builtins") + text("eval") + "\x93."),
            "f:@123: error: 'builtins.eval' is not on the list of what a pickle may ask for\n");
  EXPECT_EQ(read(name("torch", "load") + "."),
            "f:@100: error: 'torch.load' is not on the list of what a pickle may ask for\n");
  EXPECT_EQ(read(name("torch", "float32") + ")R."),
            "f:@116: error: 'torch.float32' is not on the list of what a pickle may call\n");
  EXPECT_EQ(read(name("torchvision", "__torch__.x") + "."),
            "f:@100: error: 'torchvision.__torch__.x' is not on the list of what a pickle may ask for\n");
  // Where nothing is asked of them they stay names.
  EXPECT_EQ(read(evil, true), "posix.system('x')");
  EXPECT_EQ(read(name("a", "B") + ")\x81(K\1K\2u}" + text("x") + "Nsb.", true), "a.B(){'x': None}");
}

TEST(Pickle, MakesTensorsOfStorages) {
  const std::pair<std::string, const char*> rows[] = {
      {tensor("ByteStorage", "K\1K\2K\2\x86K\4K\1\x86"), "uint8[2, 2] <1 2 5 6>"},
      {tensor("ShortStorage", "K\0))"s), "int16[] <256>"},
      {tensor("LongStorage", "K\2K\0\x85K\1\x85"s), "int64[0] <>"},
      {tensor("QUInt4x2Storage", "K\0K\2\x85K\1\x85"s), "quint4x2[2]"},
      {name("torch._utils", "_rebuild_parameter") + "(" +
           tensor("ByteStorage", "K\0K\1\x85K\1\x85"s)
               .substr(0, tensor("ByteStorage", "K\0K\1\x85K\1\x85"s).size() - 1) +
           "\x88}tR.",
       "uint8[1] parameter <0>"},
      {tensor("LongStorage", "K\1K\2\x85K\1\x85"),
       "f:@195: error: the tensor [2] is not inside its storage '0' of 16 bytes\n"},
      {tensor("LongStorage", "K\0K\x03\x85K\0\x85"s),
       "int64[3] <506097522914230528 506097522914230528 506097522914230528>"},
      {tensor("BoolStorage", "K\0K\1\x85K\1\x85"s), "f:@195: error: storage '0' has bools that are neither 0 nor 1\n"},
      {tensor("ByteStorage", "K\0J\xff\xff\xff\xff\x85K\1\x85"s),
       "f:@198: error: one of the sizes of a tensor is not an integer, or negative\n"},
      {tensor("ByteStorage", "K\0K\1\x85K\1K\1\x86"s), "f:@197: error: a tensor has 1 size and 2 strides\n"},
      {tensor("StringStorage", "K\0))"s),
       "f:@147: error: 'torch.StringStorage' is not on the list of what a pickle may ask for\n"},
  };
  for (const auto& [pickle, expected] : rows) EXPECT_EQ(read(pickle), expected);
}

// A tensor as `tensor` makes it, with a dict of bits.
std::string tensorWithBits(const std::string& type, const std::string& geometry, std::string_view bit) {
  std::string plain = tensor(type, geometry);
  return plain.substr(0, plain.size() - 3) + "}" + text(bit) + "\x88stR.";
}

TEST(Pickle, TensorsMaySeeNegativesAndConjugates) {
  EXPECT_EQ(read(tensorWithBits("ShortStorage", "K\0K\2\x85K\1\x85"s, "neg")), "int16[2] <-256 -770>");
  EXPECT_EQ(read(tensorWithBits("ByteStorage", "K\1K\2\x85K\1\x85"s, "neg")), "uint8[2] <255 254>");
  EXPECT_EQ(read(tensorWithBits("CharStorage", "K\1K\2\x85K\0\x85"s, "neg")), "int8[2] <-1 -1>");
  EXPECT_EQ(read(tensorWithBits("ShortStorage", "K\0K\2\x85K\1\x85"s, "other")), "int16[2] <256 770>");
  EXPECT_EQ(read(tensorWithBits("FloatStorage", "K\0K\1\x85K\1\x85"s, "conj")),
            "f:@208: error: float32 has no conjugates\n");
}

TEST(Pickle, QuantizedTensorsKeepTheirScales) {
  auto quantized = [](const std::string& how) {
    return name("torch._utils", "_rebuild_qtensor") + "(" + storage("QUInt8Storage") + "K\0K\2K\2\x86K\2K\1\x86"s +
           how + "\x89}tR.";
  };
  std::string perTensor = name("torch", "per_tensor_affine") + "G\x3f\xe0\0\0\0\0\0\0K\3\x87"s;
  std::string scales = "](G\x3f\xe0\0\0\0\0\0\0G\x3f\xf0\0\0\0\0\0\0e"s;
  std::string perChannel = "(" + name("torch", "per_channel_affine") + scales;
  Diagnostics d;
  CountingStorages storages;
  PickleOptions options;
  options.storages = &storages;
  std::string bytes = quantized(perTensor);
  auto tree = readPickle(bytes, options, d);
  ASSERT_TRUE(tree) << shown(d);
  const PickleTensor& t = (*tree)->root().tensor();
  EXPECT_EQ(t.dtype, DType::QUInt8);
  EXPECT_EQ(t.tensor.dtype(), DType::UInt8);
  EXPECT_EQ(t.quantization->scale, 0.5);
  EXPECT_EQ(t.quantization->zeroPoint, 3);
  bytes = quantized(perChannel + "](K\1K\2eK\1t");
  tree = readPickle(bytes, options, d);
  ASSERT_TRUE(tree) << shown(d);
  const Quantization& q = *(*tree)->root().tensor().quantization;
  EXPECT_EQ(q.axis, 1);
  EXPECT_EQ(q.scales.real(1), 1.0);
  EXPECT_EQ(q.zeroPoints.integer(1), 2);
  EXPECT_NE(read(quantized(perChannel + "](K\1K\2eK\2t")).find("the axis of quantisation is 2"), std::string::npos);
  EXPECT_NE(read(quantized(perChannel + "](K\1eK\1t")).find("zero points of a quantised tensor are not 2 numbers"),
            std::string::npos);
}

TEST(Pickle, RejectsWhatIsBroken) {
  const std::pair<std::string, const char*> rows[] = {
      {"", "f:@100: error: the pickle ends too early\n"},
      {"K", "f:@100: error: the pickle ends too early\n"},
      {"N", "f:@101: error: the pickle ends too early\n"},
      {".", "f:@100: error: the pickle does not end with one value\n"},
      {"NN.", "f:@102: error: the pickle does not end with one value\n"},
      {"(N.", "f:@102: error: the pickle does not end with one value\n"},
      {"0.", "f:@100: error: the pickle takes a value that is not there\n"},
      {"N(\x85.", "f:@102: error: the pickle takes a value that is not there\n"},
      {"t.", "f:@100: error: the pickle closes what it has not opened\n"},
      {"I1\n.", "f:@100: error: the pickle instruction 0x49 is not supported\n"},
      {"\x80\x06N.", "f:@100: error: version 6 of pickles is not known\n"},
      {"h\0."s, "f:@100: error: the pickle has not remembered a value as number 0\n"},
      {"Nr\xff\xff\xff\xff.", "f:@101: error: the pickle remembers a value as number 4294967295\n"},
      {"}K\1K\2sK\1K\3s.", "f:@100: error: the dict has the key 1 twice\n"},
      {"NNa.", "f:@102: error: the pickle appends to None\n"},
      {"}(Nu.", "f:@103: error: the pickle has a key without a value\n"},
      {"K\1)R.", "f:@103: error: the pickle calls an integer\n"},
      {"NQ.", "f:@101: error: what the pickle refers to is not a storage\n"},
      {"cno line end", "f:@100: error: the name has no end\n"},
  };
  for (const auto& [pickle, expected] : rows) EXPECT_EQ(read(pickle), expected);
}

TEST(Pickle, KeepsItsLimits) {
  auto nested = [](size_t depth) { return std::string(depth, ']') + std::string(depth - 1, 'a') + "."; };
  EXPECT_EQ(read(nested(3)), "[[[]]]");
  EXPECT_EQ(read(nested(4), false, {.typeDepth = 2}), "f:@102: error: values are more than 2 deep inside each other\n");
  EXPECT_NE(read(nested(1'000'000)).find("deep inside each other"), std::string::npos);
  EXPECT_EQ(read("](]]]e.", false, {.values = 3}),
            "f:@104: error: the pickle has more than 3 values\nnote: the limit is 'values' of Limits\n");
  EXPECT_EQ(read("\x8a\x09" + std::string(9, '\x01') + ".", false, {.numberBytes = 8}),
            "f:@100: error: the integer has 9 bytes, the limit is 8\nnote: the limit is 'number' of Limits\n");
}

TEST(Pickle, EveryPrefixIsRejected) {
  std::string pickle = "\x80\2" + tensor("ByteStorage", "K\1K\2K\2\x86K\4K\1\x86");
  for (size_t n = 0; n < pickle.size(); ++n) EXPECT_NE(read(pickle.substr(0, n)).find("error"), std::string::npos) << n;
}

}  // namespace
}  // namespace tscompile
