// The C interface as its header promises it.
#include "api/c/tscompile.h"
#include "tests/support/json.h"
#include "tests/support/text_file.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace {

template <auto free>
struct Freed {
  template <class T>
  void operator()(T* p) const {
    free(p);
  }
};
using tscompile::test::parseJson;
using tscompile::test::readText;
using tscompile::test::TemporaryFolder;
using tscompile::test::writeText;
using Error = std::unique_ptr<tscompile_error, Freed<tscompile_error_free>>;
using Value = std::unique_ptr<tscompile_value, Freed<tscompile_value_free>>;
using Module = std::unique_ptr<tscompile_module, Freed<tscompile_module_free>>;
using Method = std::unique_ptr<tscompile_method, Freed<tscompile_method_free>>;
using Text = std::unique_ptr<char, Freed<tscompile_string_free>>;

const std::string kFolder = TSCOMPILE_TESTS_DIR;

constexpr const char* kGraph = R"(graph(%x.1 : Tensor,
      %scale : float):
  %one : int = prim::Constant[value=1]()
  %r : Tensor = aten::relu(%x.1)
  %y : Tensor = aten::mul(%r, %scale)
  %z : Tensor = aten::add(%y, %x.1, %one)
  %w : Tensor = aten::sigmoid(%z)
  return (%w)
)";

Module load(const std::string& text) {
  tscompile_module* m = nullptr;
  tscompile_error* e = nullptr;
  EXPECT_EQ(tscompile_load_memory(text.data(), text.size(), "memory.ir", nullptr, &m, &e), TSCOMPILE_OK)
      << tscompile_error_text(e);
  Error owner(e);
  return Module(m);
}

Method prepare(const Module& module, const char* name = nullptr) {
  tscompile_method* m = nullptr;
  tscompile_error* e = nullptr;
  EXPECT_EQ(tscompile_module_prepare(module.get(), name, &m, &e), TSCOMPILE_OK) << tscompile_error_text(e);
  Error owner(e);
  return Method(m);
}

Value parse(const char* text) {
  tscompile_value* v = nullptr;
  EXPECT_EQ(tscompile_value_parse(text, &v, nullptr), TSCOMPILE_OK) << text;
  return Value(v);
}

std::string textOf(const tscompile_value* value) {
  char* text = nullptr;
  EXPECT_EQ(tscompile_value_text(value, &text, nullptr), TSCOMPILE_OK);
  return Text(text).get();
}

// The text of the only result, or of the error.
std::string run(const Method& method, std::vector<const tscompile_value*> inputs,
                const tscompile_run_options* options = nullptr) {
  tscompile_value* out = nullptr;
  tscompile_error* e = nullptr;
  if (tscompile_method_run(method.get(), inputs.data(), inputs.size(), options, &out, 1, &e) == TSCOMPILE_OK)
    return textOf(Value(out).get());
  EXPECT_EQ(out, nullptr);
  Error error(e);
  return std::to_string(tscompile_error_status(e)) + " " + tscompile_error_text(e);
}

std::string returned(const std::string& type, const std::string& value) {
  return run(prepare(load("graph(%x : " + type + "):\n  return (%x)\n")), {parse(value.c_str()).get()});
}

TEST(CInterface, RunsOnMemoryOfTheCallerAndReleasesItOnce) {
  Method method = prepare(load(kGraph));
  float data[] = {1, -1, 2, -2, 3, -3};
  int64_t sizes[] = {2, 3}, strides[] = {-1, -2};  // from the last element back
  int releases = 0;
  tscompile_tensor t = {sizeof t, TSCOMPILE_FLOAT32, 2, sizes, strides, data + 5, 0};
  tscompile_value* x = nullptr;
  ASSERT_EQ(tscompile_value_tensor(
                &t, [](void* n) { ++*static_cast<int*>(n); }, &releases, &x, nullptr),
            TSCOMPILE_OK);
  Value scale(tscompile_value_int(2)), value(x);
  EXPECT_EQ(textOf(x), "2x3:f32=[-3 -2 -1; 3 2 1]");
  const tscompile_value* inputs[] = {x, scale.get()};
  tscompile_value* out = nullptr;
  ASSERT_EQ(tscompile_method_run(method.get(), inputs, 2, nullptr, &out, 1, nullptr), TSCOMPILE_OK);
  Value result(out);
  tscompile_tensor y = {};
  y.size = sizeof y;
  ASSERT_TRUE(tscompile_value_get_tensor(out, &y));
  EXPECT_EQ(y.rank, 2);
  EXPECT_EQ(y.sizes[1], 3);
  float elements[6];
  ASSERT_EQ(tscompile_value_copy_elements(out, elements, sizeof elements, nullptr), TSCOMPILE_OK);
  EXPECT_FLOAT_EQ(elements[0], 1 / (1 + std::exp(3.0f)));
  EXPECT_FLOAT_EQ(elements[3], 1 / (1 + std::exp(-9.0f)));
  EXPECT_EQ(tscompile_value_copy_elements(out, elements, 23, nullptr), TSCOMPILE_USAGE);
  EXPECT_EQ(releases, 0);
  value.reset();
  EXPECT_EQ(releases, 1);
}

TEST(CInterface, ResultsThatAreViewsKeepTheMemory) {
  Method method =
      prepare(load("graph(%x : Tensor):\n  %d : int = prim::Constant[value=0]()\n"
                   "  %y : Tensor = aten::unsqueeze(%x, %d)\n  return (%y)\n"));
  float data[] = {1, 2};
  int64_t sizes[] = {2};
  int releases = 0;
  tscompile_tensor t = {sizeof t, TSCOMPILE_FLOAT32, 1, sizes, nullptr, data, 0};
  tscompile_value *x = nullptr, *y = nullptr;
  ASSERT_EQ(tscompile_value_tensor(
                &t, [](void* n) { ++*static_cast<int*>(n); }, &releases, &x, nullptr),
            TSCOMPILE_OK);
  ASSERT_EQ(tscompile_method_run(method.get(), &x, 1, nullptr, &y, 1, nullptr), TSCOMPILE_OK);
  tscompile_value_free(x);
  EXPECT_EQ(releases, 0);
  tscompile_tensor seen = {};
  seen.size = sizeof seen;
  ASSERT_TRUE(tscompile_value_get_tensor(y, &seen));
  EXPECT_EQ(seen.data, data);
  tscompile_value_free(y);
  EXPECT_EQ(releases, 1);
}

TEST(CInterface, MemoryThatMayNotBeWrittenIsNot) {
  Method method = prepare(load("graph(%x : Tensor):\n  %y : Tensor = aten::relu_(%x)\n  return (%y)\n"));
  float data[] = {-1, 2};
  int64_t sizes[] = {2};
  for (int readOnly : {1, 0}) {
    tscompile_tensor t = {sizeof t, TSCOMPILE_FLOAT32, 1, sizes, nullptr, data, readOnly};
    tscompile_value* x = nullptr;
    ASSERT_EQ(tscompile_value_tensor(&t, nullptr, nullptr, &x, nullptr), TSCOMPILE_OK);
    EXPECT_EQ(run(method, {Value(x).get()}).starts_with("8 "), readOnly == 1);
    EXPECT_EQ(data[0], readOnly ? -1 : 0);
  }
}

TEST(CInterface, ContainersTakeTheTypesOfTheInput) {
  EXPECT_EQ(returned("float[]", "[1, 2]"), "[1.0, 2.0]");
  EXPECT_EQ(returned("int[]", "(1, 2)"), "[1, 2]");
  EXPECT_EQ(returned("int[]", "[]"), "[]");
  EXPECT_EQ(returned("(int, float)", "[1, 2]"), "(1, 2.0)");
  EXPECT_EQ(returned("Dict(str, float)", "{\"a\": 1}"), "{\"a\": 1.0}");
  EXPECT_EQ(returned("float?[]", "[1, None]"), "[1.0, None]");
  EXPECT_EQ(returned("str", "\"a\\nb\""), "\"a\\nb\"");
  EXPECT_EQ(returned("complex", "1"), "1.0+0.0j");
  EXPECT_EQ(returned("int[]", "[1.5]"), "3 tscompile: error: input %x takes int[], not float[]");
  EXPECT_EQ(returned("(int, int)", "(1, 2, 3)"), "3 tscompile: error: input %x takes (int, int), not (int, int, int)");
}

TEST(CInterface, ContainersAreTakenApart) {
  Value a(tscompile_value_string("a\0b", 3)), n(tscompile_value_int(3)), none(tscompile_value_none());
  tscompile_value* items[] = {a.get(), n.get(), none.get()};
  tscompile_value *list = nullptr, *dict = nullptr, *bad = nullptr;
  ASSERT_EQ(tscompile_value_tuple(items, 3, &list, nullptr), TSCOMPILE_OK);
  ASSERT_EQ(tscompile_value_dict(items, items + 1, 1, &dict, nullptr), TSCOMPILE_OK);
  EXPECT_EQ(tscompile_value_dict(&list, items, 1, &bad, nullptr), TSCOMPILE_INPUT);
  Value l(list), d(dict);
  EXPECT_EQ(tscompile_value_kind(list), TSCOMPILE_TUPLE);
  EXPECT_EQ(tscompile_value_count(list), 3u);
  Value first(tscompile_value_item(list, 0)), key(tscompile_value_key(dict, 0)), value(tscompile_value_item(dict, 0));
  const char* bytes = nullptr;
  size_t count = 0;
  ASSERT_TRUE(tscompile_value_get_string(first.get(), &bytes, &count));
  EXPECT_EQ(std::string(bytes, count), std::string("a\0b", 3));
  int64_t number = 0;
  ASSERT_TRUE(tscompile_value_get_int(value.get(), &number));
  EXPECT_EQ(number, 3);
  double real = 0;
  EXPECT_TRUE(tscompile_value_get_float(value.get(), &real));
  int truth = 0;
  EXPECT_FALSE(tscompile_value_get_bool(value.get(), &truth));
  EXPECT_EQ(tscompile_value_kind(key.get()), TSCOMPILE_STRING);
  EXPECT_EQ(tscompile_value_item(list, 3), nullptr);
  EXPECT_EQ(tscompile_value_key(list, 0), nullptr);
}

TEST(CInterface, NumbersAreTakenApart) {
  int truth = 0;
  double real = 0, imaginary = 0;
  EXPECT_TRUE(tscompile_value_get_bool(Value(tscompile_value_bool(7)).get(), &truth));
  EXPECT_EQ(truth, 1);
  EXPECT_TRUE(tscompile_value_get_float(Value(tscompile_value_float(1.5)).get(), &real));
  EXPECT_EQ(real, 1.5);
  Value complex(tscompile_value_complex(1, -2));
  EXPECT_EQ(tscompile_value_kind(complex.get()), TSCOMPILE_COMPLEX);
  EXPECT_TRUE(tscompile_value_get_complex(complex.get(), &real, &imaginary));
  EXPECT_EQ(imaginary, -2);
  EXPECT_FALSE(tscompile_value_get_float(complex.get(), &real));
  EXPECT_STRNE(tscompile_version(), "");
}

TEST(CInterface, NamedTuplesHaveNames) {
  Method method =
      prepare(load("graph(%a : int, %b : int):\n"
                   "  %p : NamedTuple(first : int, second : int) = prim::TupleConstruct(%a, %b)\n"
                   "  return (%p)\n"));
  Value a = parse("1"), b = parse("2");
  const tscompile_value* inputs[] = {a.get(), b.get()};
  tscompile_value* out = nullptr;
  tscompile_error* e = nullptr;
  ASSERT_EQ(tscompile_method_run(method.get(), inputs, 2, nullptr, &out, 1, &e), TSCOMPILE_OK)
      << tscompile_error_text(e);
  Value pair(out);
  EXPECT_STREQ(tscompile_value_item_name(out, 1), "second");
  EXPECT_EQ(tscompile_value_item_name(out, 2), nullptr);
}

TEST(CInterface, ErrorsHaveTheirPlace) {
  const std::string text = "graph(%x : Tensor):\n  %y : Tensor = aten::rleu(%x)\n  return (%y)\n";
  tscompile_method* method = nullptr;
  tscompile_error* e = nullptr;
  EXPECT_NE(tscompile_module_prepare(load(text).get(), nullptr, &method, &e), TSCOMPILE_OK);
  Error error(e);
  ASSERT_EQ(tscompile_error_count(e), 1u);
  tscompile_problem p = {};
  p.size = sizeof p;
  ASSERT_TRUE(tscompile_error_problem(e, 0, &p));
  EXPECT_STREQ(p.file, "memory.ir");
  EXPECT_EQ(p.line, 2u);
  EXPECT_GT(p.column, 0u);
  EXPECT_EQ(p.status, tscompile_error_status(e));
  EXPECT_NE(std::string(tscompile_error_text(e)).find("memory.ir:2:"), std::string::npos);
  EXPECT_NE(std::string(p.notes).find("aten::relu"), std::string::npos);
  EXPECT_FALSE(tscompile_error_problem(e, 1, &p));
}

// A caller of an older or newer header.
TEST(CInterface, StructsAreReadAndFilledAsFarAsTheyGo) {
  Method method = prepare(load(kGraph));
  tscompile_value_info info;
  std::memset(&info, 0x55, sizeof info);
  info.size = offsetof(tscompile_value_info, type);
  ASSERT_TRUE(tscompile_method_input(method.get(), 0, &info));
  EXPECT_STREQ(info.name, "x.1");
  EXPECT_EQ(info.rank, 0x55555555);
  EXPECT_EQ(info.size, offsetof(tscompile_value_info, type));
  info.size = sizeof info;
  ASSERT_TRUE(tscompile_method_input(method.get(), 1, &info));
  EXPECT_EQ(info.kind, TSCOMPILE_FLOAT);
  EXPECT_STREQ(info.type, "float");
  EXPECT_FALSE(tscompile_method_input(method.get(), 2, &info));
  struct {
    tscompile_run_options options;
    char more[64];
  } newer = {};
  std::memset(newer.more, 0x7f, sizeof newer.more);
  newer.options.size = sizeof newer;
  EXPECT_EQ(run(method, {parse("1:f32=[0]").get(), parse("1").get()}, &newer.options), "1:f32=[0.5]");
  tscompile_run_options unset = {};
  EXPECT_EQ(run(method, {parse("1:f32=[0]").get(), parse("1").get()}, &unset).substr(0, 2), "2 ");
}

TEST(CInterface, NullIsAFailureOfTheCall) {
  tscompile_error* e = nullptr;
  tscompile_module* m = nullptr;
  tscompile_value* v = nullptr;
  char* text = nullptr;
  tscompile_method* method = nullptr;
  EXPECT_EQ(tscompile_load(nullptr, nullptr, &m, nullptr), TSCOMPILE_USAGE);
  EXPECT_EQ(tscompile_load("x", nullptr, nullptr, nullptr), TSCOMPILE_USAGE);
  EXPECT_EQ(tscompile_load_memory(nullptr, 1, nullptr, nullptr, &m, nullptr), TSCOMPILE_USAGE);
  EXPECT_EQ(tscompile_module_compile(nullptr, nullptr, &m, nullptr), TSCOMPILE_USAGE);
  EXPECT_EQ(tscompile_module_save(nullptr, "x", nullptr), TSCOMPILE_USAGE);
  EXPECT_EQ(tscompile_module_partition(nullptr, nullptr, &text, nullptr), TSCOMPILE_USAGE);
  EXPECT_EQ(tscompile_module_explain(nullptr, nullptr, "%x", &text, nullptr), TSCOMPILE_USAGE);
  EXPECT_EQ(tscompile_module_prepare(nullptr, nullptr, &method, nullptr), TSCOMPILE_USAGE);
  EXPECT_EQ(tscompile_method_run(nullptr, nullptr, 0, nullptr, nullptr, 0, nullptr), TSCOMPILE_USAGE);
  EXPECT_EQ(tscompile_method_profile(nullptr, nullptr, 0, nullptr, 1, &text, nullptr), TSCOMPILE_USAGE);
  EXPECT_EQ(tscompile_value_tensor(nullptr, nullptr, nullptr, &v, nullptr), TSCOMPILE_USAGE);
  EXPECT_EQ(tscompile_value_list(nullptr, 1, &v, nullptr), TSCOMPILE_USAGE);
  EXPECT_EQ(tscompile_value_text(nullptr, &text, &e), TSCOMPILE_USAGE);
  ASSERT_NE(e, nullptr);
  EXPECT_STREQ(tscompile_error_text(e), "tscompile: error: value is NULL");
  tscompile_error_free(e);
  EXPECT_EQ(tscompile_error_status(nullptr), TSCOMPILE_OK);
  EXPECT_EQ(tscompile_error_count(nullptr), 0u);
  EXPECT_EQ(tscompile_module_method_count(nullptr), 0u);
  EXPECT_EQ(tscompile_module_method_name(nullptr, 0), nullptr);
  EXPECT_EQ(tscompile_method_input_count(nullptr) + tscompile_method_output_count(nullptr), 0u);
  EXPECT_EQ(tscompile_value_kind(nullptr), TSCOMPILE_NONE);
  EXPECT_EQ(tscompile_value_share(nullptr), nullptr);
  tscompile_interrupt_set(nullptr, 1);
  tscompile_interrupt_free(nullptr);
  tscompile_module_free(nullptr);
  tscompile_method_free(nullptr);
  EXPECT_EQ(tscompile_c_version(), static_cast<uint32_t>(TSCOMPILE_C_VERSION));
}

TEST(CInterface, TensorsThatCannotBeAreRefused) {
  float data[4] = {};
  tscompile_value* v = nullptr;
  auto status = [&](int dtype, std::vector<int64_t> sizes, std::vector<int64_t> strides) {
    tscompile_tensor t = {sizeof t,
                          static_cast<tscompile_dtype>(dtype),
                          static_cast<int32_t>(sizes.size()),
                          sizes.data(),
                          strides.empty() ? nullptr : strides.data(),
                          data,
                          0};
    return tscompile_value_tensor(
        &t, [](void*) { FAIL() << "released"; }, nullptr, &v, nullptr);
  };
  EXPECT_EQ(status(99, {2}, {}), TSCOMPILE_USAGE);
  EXPECT_EQ(status(-1, {2}, {}), TSCOMPILE_USAGE);
  EXPECT_EQ(status(6, {-2}, {}), TSCOMPILE_USAGE);
  EXPECT_EQ(status(6, {INT64_MAX, INT64_MAX}, {}), TSCOMPILE_INPUT);
  EXPECT_EQ(status(6, {2, 2}, {INT64_MAX, 1}), TSCOMPILE_INPUT);
  EXPECT_EQ(status(6, {3, 3}, {INT64_MIN, INT64_MIN}), TSCOMPILE_INPUT);
  EXPECT_EQ(status(6, std::vector<int64_t>(65, 1), {}), TSCOMPILE_USAGE);
  EXPECT_EQ(v, nullptr);
}

TEST(CInterface, LoadsEveryKindOfFileFromMemory) {
  for (const char* file : {"/data/archives/script_1.pt", "/data/exports/net.pt2"}) {
    const std::string bytes = readText(kFolder + file);
    ASSERT_FALSE(bytes.empty()) << file;
    Module module = load(bytes);
    EXPECT_GT(tscompile_method_input_count(prepare(module).get()), 0u) << file;
    EXPECT_FALSE(tscompile_module_is_compiled(module.get()));
  }
  tscompile_module* m = nullptr;
  tscompile_error* e = nullptr;
  std::string cut = readText(kFolder + "/data/archives/script_1.pt");
  cut.resize(cut.size() / 2);
  EXPECT_EQ(tscompile_load_memory(cut.data(), cut.size(), "cut.pt", nullptr, &m, &e), TSCOMPILE_INPUT);
  Error error(e);
  EXPECT_EQ(std::string(tscompile_error_text(e)).substr(0, 7), "cut.pt:");
  EXPECT_EQ(m, nullptr);
}

TEST(CInterface, TellsOtherFilesAndForgottenWeightsInOneSentence) {
  tscompile_module* m = nullptr;
  tscompile_error* e = nullptr;
  EXPECT_EQ(tscompile_load((kFolder + "/golden/data/x.npy").c_str(), nullptr, &m, &e), TSCOMPILE_INPUT);
  Error other(e);
  EXPECT_NE(std::string(tscompile_error_text(e)).find("expected graph text, found an .npy file"), std::string::npos);
  Module module = load(
      "graph(%self : __torch__.Net, %x : Tensor):\n  %a : Tensor = prim::GetAttr[name=\"a\"](%self)\n"
      "  %b : Tensor = prim::GetAttr[name=\"b\"](%self)\n  %y : Tensor = aten::mul(%a, %b)\n  return (%y)\n");
  tscompile_method* method = nullptr;
  EXPECT_EQ(tscompile_module_prepare(module.get(), nullptr, &method, &e), TSCOMPILE_INPUT);
  Error forgotten(e);
  EXPECT_STREQ(tscompile_error_text(e),
               "memory.ir: error: the text names 2 tensors without their data, and no weights were given\n"
               "note: give them as 'weights'; the first is 'a'");
}

TEST(CInterface, TellsWhatLoadingWarnedOf) {
  Module plain = load("graph(%x : Tensor):\n  %y : Tensor = aten::relu(%x)\n  return (%y)\n");
  EXPECT_EQ(tscompile_module_warnings(plain.get()), nullptr);
  EXPECT_EQ(tscompile_module_warnings(nullptr), nullptr);
  // The weights have one of its ten tensors.
  TemporaryFolder folder;
  const std::string model = TSCOMPILE_SOURCE_DIR "/samples/models/lenet_archive/model.pt";
  const std::string part = folder / "part.safetensors";
  const std::string header = R"({"feat.conv1.bias":{"dtype":"F32","shape":[6],"data_offsets":[0,24]}})";
  writeText(part,
            std::string{static_cast<char>(header.size())} + std::string(7, '\0') + header + std::string(24, '\0'));
  const char* weights[] = {part.c_str()};
  tscompile_load_options options{};
  options.size = sizeof options, options.weights = weights, options.weight_count = 1;
  tscompile_module* m = nullptr;
  ASSERT_EQ(tscompile_load(model.c_str(), &options, &m, nullptr), TSCOMPILE_OK);
  const Module module(m);
  const tscompile_error* warnings = tscompile_module_warnings(m);
  ASSERT_NE(warnings, nullptr);
  EXPECT_EQ(tscompile_error_status(warnings), TSCOMPILE_OK);
  ASSERT_EQ(tscompile_error_count(warnings), 1u);
  tscompile_problem problem{};
  problem.size = sizeof problem;
  ASSERT_TRUE(tscompile_error_problem(warnings, 0, &problem));
  EXPECT_EQ(problem.status, TSCOMPILE_OK);
  EXPECT_EQ(std::string(problem.message).substr(0, 18), "the weights lack '") << problem.message;
  EXPECT_NE(std::string(tscompile_error_text(warnings)).find(problem.message), std::string::npos);
}

// What an engine says of its source does not depend on what else the process has open.
TEST(CInterface, EnginesOfArchivesInMemoryHaveTheirNames) {
  const std::string bytes = readText(TSCOMPILE_SOURCE_DIR "/samples/models/lenet_archive/model.pt");
  TemporaryFolder folder;
  const auto saved = [&](const std::string& path) {
    tscompile_module* m = nullptr;
    EXPECT_EQ(tscompile_load_memory(bytes.data(), bytes.size(), "given.pt", nullptr, &m, nullptr), TSCOMPILE_OK);
    const Module module(m);
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> other(std::fopen("/dev/null", "r"), std::fclose);
    const char* inputs[] = {"1x1x32x32"};
    const tscompile_compile_options options = {sizeof options, nullptr, inputs, 1, nullptr, 0};
    tscompile_module* c = nullptr;
    EXPECT_EQ(tscompile_module_compile(module.get(), &options, &c, nullptr), TSCOMPILE_OK);
    const Module compiled(c);
    EXPECT_EQ(tscompile_module_save(c, path.c_str(), nullptr), TSCOMPILE_OK);
    return readText(path);
  };
  const std::string first = saved(folder / "first.tse");
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> another(std::fopen("/dev/null", "r"), std::fclose);
  EXPECT_EQ(first, saved(folder / "second.tse"));
  EXPECT_NE(first.find("given.pt"), std::string::npos);
}

TEST(CInterface, CompilesSavesAndTells) {
  Module module = load(kGraph);
  const char* inputs[] = {"x.1=1..4x3"};
  const char* settings[] = {"min-block-size=1"};
  tscompile_compile_options options = {sizeof options, nullptr, inputs, 1, settings, 1};
  tscompile_module* c = nullptr;
  tscompile_error* e = nullptr;
  ASSERT_EQ(tscompile_module_compile(module.get(), &options, &c, &e), TSCOMPILE_OK) << tscompile_error_text(e);
  Module compiled(c);
  EXPECT_TRUE(tscompile_module_is_compiled(c));
  TemporaryFolder folder;
  const std::string path = folder / "model.tse";
  ASSERT_EQ(tscompile_module_save(c, path.c_str(), nullptr), TSCOMPILE_OK);
  EXPECT_EQ(tscompile_module_save(module.get(), path.c_str(), nullptr), TSCOMPILE_UNSUPPORTED);
  Value x = parse("2x3:f32:randn(seed=1)"), scale = parse("2.0"), wide = parse("5x3:f32:zeros");
  const std::string result = run(prepare(load(readText(path))), {x.get(), scale.get()});
  EXPECT_EQ(result, run(prepare(compiled), {x.get(), scale.get()}));
  EXPECT_EQ(run(prepare(compiled), {wide.get(), scale.get()}).substr(0, 2), "8 ");
  char *partition = nullptr, *explain = nullptr, *profile = nullptr;
  ASSERT_EQ(tscompile_module_partition(module.get(), &options, &partition, nullptr), TSCOMPILE_OK);
  ASSERT_EQ(tscompile_module_explain(module.get(), &options, "aten::relu", &explain, nullptr), TSCOMPILE_OK);
  Method method = prepare(compiled);
  const tscompile_value* given[] = {x.get(), scale.get()};
  ASSERT_EQ(tscompile_method_profile(method.get(), given, 2, nullptr, 2, &profile, nullptr), TSCOMPILE_OK);
  for (const char* name : {"modules", "operators", "run_us"}) EXPECT_TRUE(parseJson(profile).has(name)) << profile;
  for (char* json : {partition, explain, profile}) {
    EXPECT_TRUE(parseJson(json).has("nodes")) << json;
    tscompile_string_free(json);
  }
  char* none = nullptr;
  EXPECT_EQ(tscompile_module_explain(module.get(), &options, "aten::rleu", &none, &e), TSCOMPILE_INPUT);
  EXPECT_EQ(std::string(tscompile_error_text(Error(e).get())),
            "tscompile: error: no node of the graph is 'aten::rleu'\nnote: did you mean 'aten::relu'?");
  auto refused = [&](const char* setting) {
    const char* one[] = {setting};
    tscompile_compile_options own = {sizeof own, nullptr, nullptr, 0, one, 1};
    tscompile_error* error = nullptr;
    EXPECT_EQ(tscompile_module_compile(module.get(), &own, &c, &error), TSCOMPILE_USAGE) << setting;
    return std::string(tscompile_error_text(Error(error).get()));
  };
  EXPECT_EQ(refused("min-block-size=x"), "tscompile: error: min-block-size takes a number from 1 up, not 'x'");
  EXPECT_EQ(refused("precision=f17"),
            "tscompile: error: precision takes one of f32, f16, bf16, int8, not 'f17', did you mean 'f16'?");
  EXPECT_EQ(refused("precission=f16"), "tscompile: error: there is no setting 'precission', did you mean 'precision'?");
  EXPECT_EQ(refused("refittable=1"), "tscompile: error: refittable takes no value");
  EXPECT_EQ(refused("strategy"), "tscompile: error: strategy needs a value: greedy|dependency|minimal|cost");
  tscompile_compile_options unsized = {};
  EXPECT_EQ(tscompile_module_compile(module.get(), &unsized, &c, &e), TSCOMPILE_USAGE);
  EXPECT_EQ(std::string(tscompile_error_text(Error(e).get())),
            "tscompile: error: the size of tscompile_compile_options is not set");
  const char* nowhere[] = {"nope=1..8x16"};
  tscompile_compile_options ranges = {sizeof ranges, nullptr, nowhere, 1, nullptr, 0};
  EXPECT_EQ(tscompile_module_compile(module.get(), &ranges, &c, &e), TSCOMPILE_INPUT);
  EXPECT_EQ(std::string(tscompile_error_text(Error(e).get())),
            "tscompile: error: the graph has no input 'nope'\nnote: it takes %x.1 : Tensor, %scale : float");
  const char* wrong[] = {"x.1=4..1"};
  options.inputs = wrong;
  EXPECT_EQ(tscompile_module_compile(module.get(), &options, &c, nullptr), TSCOMPILE_USAGE);
}

constexpr const char* kEndless = R"(graph(%n : int):
  %t : bool = prim::Constant[value=1]()
  %most : int = prim::Constant[value=9223372036854775807]()
  %s : str = prim::Constant[value="running"]()
   = prim::Print(%s)
  %r : int = prim::Loop(%most, %t, %n)
    block0(%i : int, %v : int):
      %w : int = aten::add(%v, %i)
      -> (%t, %w)
  return (%r)
)";

TEST(CInterface, RunsAreStopped) {
  Method method = prepare(load(kEndless));
  Value n = parse("0");
  tscompile_interrupt* interrupt = tscompile_interrupt_new();
  tscompile_run_options options = {};
  options.size = sizeof options;
  options.interrupt = interrupt;
  // Set by what the model prints: while it runs.
  options.print = [](void* context, const char* text) {
    EXPECT_STREQ(text, "running\n");
    tscompile_interrupt_set(static_cast<tscompile_interrupt*>(context), 1);
  };
  options.context = interrupt;
  EXPECT_EQ(run(method, {n.get()}, &options).substr(0, 4), "130 ");
  tscompile_interrupt_set(interrupt, 0);
  options.print = nullptr;
  options.time_limit_ns = 1'000'000;
  EXPECT_EQ(run(method, {n.get()}, &options).substr(0, 2), "6 ");
  tscompile_interrupt_free(interrupt);
}

TEST(CInterface, ThreadsShareMethodsAndValues) {
  Method method = prepare(load(kGraph));
  Value x = parse("64x64:f32:randn(seed=3)"), scale = parse("0.5");
  const std::string expected = run(method, {x.get(), scale.get()});
  std::atomic<int> same = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 10; ++i) same += run(method, {x.get(), scale.get()}) == expected;
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(same, 40);
}

TEST(CInterface, RunsGoOnWhereOthersEnded) {
  tscompile_module* m = nullptr;
  ASSERT_EQ(tscompile_load((kFolder + "/data/state/stream.pt").c_str(), nullptr, &m, nullptr), TSCOMPILE_OK);
  Module module(m);
  const Method method = prepare(module);
  const Value x = parse("2x4:f32:ones");
  const auto callsOf = [&](tscompile_state* state) {
    tscompile_run_options options{};
    options.size = sizeof options;
    options.state = state;
    const tscompile_value* inputs[] = {x.get()};
    tscompile_value* out = nullptr;
    EXPECT_EQ(tscompile_method_run(method.get(), inputs, 1, &options, &out, 1, nullptr), TSCOMPILE_OK);
    Value tuple(out), calls(tscompile_value_item(out, 2));
    return textOf(calls.get());
  };
  std::unique_ptr<tscompile_state, Freed<tscompile_state_free>> state(tscompile_state_new());
  std::string calls;
  for (tscompile_state* each : {state.get(), state.get(), static_cast<tscompile_state*>(nullptr), state.get()})
    calls += callsOf(each);
  EXPECT_EQ(calls, "1213");
  tscompile_state_clear(state.get());
  EXPECT_EQ(callsOf(state.get()), "1");
}

// x * by + user_data, by its own hand; fails for what it does not take.
tscompile_status shifted(void* by, const tscompile_value* const* arguments, size_t, tscompile_value** results, size_t,
                         char* message, size_t room) {
  tscompile_tensor x = {};
  x.size = sizeof x;
  double factor = 0;
  if (!tscompile_value_get_tensor(arguments[0], &x) || x.dtype != TSCOMPILE_FLOAT32 || x.rank != 1) {
    std::snprintf(message, room, "x has %d dimensions", x.rank);
    return TSCOMPILE_UNSUPPORTED;
  }
  tscompile_value_get_float(arguments[1], &factor);
  std::vector<float> y(static_cast<size_t>(x.sizes[0]));
  for (size_t i = 0; i < y.size(); ++i)
    y[i] = static_cast<const float*>(x.data)[i] * static_cast<float>(factor) + *static_cast<float*>(by);
  x.data = y.data(), x.strides = nullptr;
  return tscompile_value_tensor_copy(&x, results, nullptr);
}

constexpr const char* kShifted = R"(graph(%x : Tensor):
  %by : float = prim::Constant[value=2.]()
  %r : Tensor = aten::relu(%x)
  %y : Tensor = mylib::shifted(%r, %by)
  %z : Tensor = aten::neg(%y)
  return (%z)
)";

TEST(CInterface, RulesAreAppliedWhereModelsAreCompiled) {
  const char* rules =
      "rule relu_of\nmatch:\ngraph(%x):\n  %y = aten::relu(%x)\n  return (%y)\nreplace:\ngraph(%x):\n  %y = "
      "aten::tanh(%x)\n"
      "  return (%y)\n";
  const std::string text = "graph(%x : Tensor):\n  %y : Tensor = aten::relu(%x)\n  return (%y)\n";
  tscompile_load_options options = {};
  options.size = sizeof options;
  options.rules = &rules;
  options.rule_count = 1;
  tscompile_module *m = nullptr, *c = nullptr;
  ASSERT_EQ(tscompile_load_memory(text.data(), text.size(), "memory.ir", &options, &m, nullptr), TSCOMPILE_OK);
  Module module(m);
  ASSERT_EQ(tscompile_module_compile(m, nullptr, &c, nullptr), TSCOMPILE_OK);
  Module compiled(c);
  Value x = parse("1:f32=[-100]");
  EXPECT_EQ(run(prepare(module), {x.get()}), "1:f32=[0]");
  EXPECT_EQ(run(prepare(compiled), {x.get()}), "1:f32=[-1]");
  rules = "rule broken\n";
  tscompile_error* e = nullptr;
  EXPECT_EQ(tscompile_load_memory(text.data(), text.size(), "memory.ir", &options, &m, &e), TSCOMPILE_INPUT);
  EXPECT_NE(std::string(tscompile_error_text(Error(e).get())).find("<rules>:1:1"), std::string::npos);
}

TEST(CInterface, OperatorsOfTheCallerRun) {
  static float by = 0.5F;
  ASSERT_EQ(tscompile_register_operator("mylib::shifted(Tensor x, float by=1.5) -> Tensor", shifted, &by, nullptr),
            TSCOMPILE_OK);
  const Module module = load(kShifted);
  tscompile_module* made = nullptr;
  ASSERT_EQ(tscompile_module_compile(module.get(), nullptr, &made, nullptr), TSCOMPILE_OK);
  const Module compiled(made);
  const Value x = parse("3:f32=[-1 0 2]");
  for (const Module* m : {&module, &compiled}) {
    EXPECT_EQ(run(prepare(*m), {x.get()}), "3:f32=[-0.5 -0.5 -4.5]");
    EXPECT_EQ(run(prepare(*m), {parse("1x2:f32=[1 2]").get()}),
              "4 memory.ir:4:3: error: mylib::shifted: x has 2 dimensions\n"
              "    %y : Tensor = mylib::shifted(%r, %by)\n"
              "    ^~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~\nnote: with %r = Float(1, 2), %by = 2.");
  }
  char* report = nullptr;
  ASSERT_EQ(tscompile_module_explain(module.get(), nullptr, "mylib::shifted", &report, nullptr), TSCOMPILE_OK);
  const Text json(report);
  EXPECT_NE(std::string(report).find("mylib::shifted has no shape function"), std::string::npos) << report;
}

// As many elements as its argument has, doubled in the dimension that is an argument.
tscompile_status repeatedShapes(void*, tscompile_shapes* shapes, char* message, size_t room) {
  tscompile_tensor x = {};
  x.size = sizeof x;
  int64_t dim = 0;
  if (!tscompile_shapes_tensor(shapes, 0, &x) || x.rank < 0 || !tscompile_shapes_int(shapes, 1, &dim))
    return TSCOMPILE_OK;
  if (dim >= x.rank) {
    std::snprintf(message, room, "there is no dimension %d", static_cast<int>(dim));
    return TSCOMPILE_MODEL;
  }
  std::vector<int64_t> sizes(x.sizes, x.sizes + x.rank);
  int64_t& repeated = sizes[static_cast<size_t>(dim)];
  repeated = repeated < 0 ? TSCOMPILE_OPEN : 2 * repeated;
  return tscompile_shapes_result(shapes, 0, x.dtype, x.rank, sizes.data());
}

TEST(CInterface, ShapeFunctionsLetOperatorsIntoEngines) {
  auto repeated = [](void*, const tscompile_value* const* arguments, size_t, tscompile_value** results, size_t, char*,
                     size_t) -> tscompile_status {
    tscompile_tensor x = {};
    x.size = sizeof x;
    tscompile_value_get_tensor(arguments[0], &x);
    const auto count = static_cast<size_t>(x.sizes[0]);
    std::vector<float> y(static_cast<float*>(x.data), static_cast<float*>(x.data) + count);
    y.insert(y.end(), y.begin(), y.begin() + static_cast<std::ptrdiff_t>(count));
    const int64_t sizes[] = {2 * x.sizes[0]};
    x.data = y.data(), x.sizes = sizes, x.strides = nullptr;
    return tscompile_value_tensor_copy(&x, results, nullptr);
  };
  ASSERT_EQ(tscompile_register_shaped_operator("mylib::repeated(Tensor x, int dim) -> Tensor", repeated, repeatedShapes,
                                               nullptr, nullptr),
            TSCOMPILE_OK);
  auto calling = [](int dim) {
    return load("graph(%x : Tensor):\n  %d : int = prim::Constant[value=" + std::to_string(dim) +
                "]()\n  %r : Tensor = aten::relu(%x)\n  %y : Tensor = mylib::repeated(%r, %d)\n"
                "  %z : Tensor = aten::neg(%y)\n  return (%z)\n");
  };
  const Module module = calling(0);
  const Value x = parse("2:f32=[-1 2]");
  for (const char* sizes : {"2", "1..8"}) {
    tscompile_compile_options options = {};
    options.size = sizeof options, options.inputs = &sizes, options.input_count = 1;
    tscompile_module* made = nullptr;
    ASSERT_EQ(tscompile_module_compile(module.get(), &options, &made, nullptr), TSCOMPILE_OK);
    const Module compiled(made);
    EXPECT_EQ(run(prepare(compiled), {x.get()}), "4:f32=[-0 -2 -0 -2]");
    char* report = nullptr;
    ASSERT_EQ(tscompile_module_partition(module.get(), &options, &report, nullptr), TSCOMPILE_OK);
    const Text json(report);
    EXPECT_EQ(parseJson(report)["coverage"].number, 1) << report;
  }
  EXPECT_NE(run(prepare(calling(1)), {x.get()}).find("mylib::repeated: there is no dimension 1"), std::string::npos);
}

TEST(CInterface, ShapeFunctionsSeeListsAndTexts) {
  auto first = [](void*, const tscompile_value* const* arguments, size_t, tscompile_value** results, size_t, char*,
                  size_t) -> tscompile_status {
    const Value item(tscompile_value_item(arguments[0], 0));
    tscompile_tensor x = {};
    x.size = sizeof x;
    tscompile_value_get_tensor(item.get(), &x);
    return tscompile_value_tensor_copy(&x, results, nullptr);
  };
  auto shapes = [](void*, tscompile_shapes* s, char* message, size_t room) -> tscompile_status {
    const Value which(tscompile_shapes_value(s, 1));
    const char* text = nullptr;
    size_t length = 0;
    tscompile_tensor x = {};
    x.size = sizeof x;
    if (!which || !tscompile_value_get_string(which.get(), &text, &length) || tscompile_shapes_value(s, 0) ||
        tscompile_shapes_tensor(s, 0, &x) || tscompile_shapes_item(s, 0, 2, &x)) {
      std::snprintf(message, room, "which is to be a text");
      return TSCOMPILE_MODEL;
    }
    if (tscompile_shapes_count(s, 0) != 2 || !tscompile_shapes_item(s, 0, 0, &x)) return TSCOMPILE_OK;
    EXPECT_EQ(tscompile_shapes_result(s, 1, x.dtype, x.rank, x.sizes), TSCOMPILE_USAGE);
    return tscompile_shapes_result(s, 0, x.dtype, x.rank, x.sizes);
  };
  ASSERT_EQ(tscompile_register_shaped_operator("mylib::first(Tensor[] xs, str which) -> Tensor", first, shapes, nullptr,
                                               nullptr),
            TSCOMPILE_OK);
  const Module module = load(
      "graph(%x : Tensor):\n  %w : str = prim::Constant[value=\"first\"]()\n  %r : Tensor = aten::relu(%x)\n"
      "  %l : Tensor[] = prim::ListConstruct(%r, %x)\n  %y : Tensor = mylib::first(%l, %w)\n"
      "  %z : Tensor = aten::neg(%y)\n  return (%z)\n");
  const char* sizes = "1..8";
  tscompile_compile_options options = {};
  options.size = sizeof options, options.inputs = &sizes, options.input_count = 1;
  char* report = nullptr;
  ASSERT_EQ(tscompile_module_partition(module.get(), &options, &report, nullptr), TSCOMPILE_OK);
  const Text json(report);
  EXPECT_EQ(parseJson(report)["coverage"].number, 1) << report;
  EXPECT_EQ(run(prepare(module), {parse("2:f32=[-1 2]").get()}), "2:f32=[-0 -2]");
}

TEST(CInterface, OperatorsOfTheCallerGiveWhatTheirSchemaSays) {
  // Its argument as a new one, nothing, and a list of whole numbers for one of floats.
  auto same = [](void*, const tscompile_value* const* arguments, size_t, tscompile_value** results, size_t, char*,
                 size_t) { return results[0] = tscompile_value_share(arguments[0]), TSCOMPILE_OK; };
  auto nothing = [](void*, const tscompile_value* const*, size_t, tscompile_value**, size_t, char*, size_t) {
    return TSCOMPILE_OK;
  };
  auto numbers = [](void*, const tscompile_value* const*, size_t, tscompile_value** results, size_t, char*, size_t) {
    return tscompile_value_parse("[1, 2]", results, nullptr);
  };
  auto fill = [](void*, const tscompile_value* const* arguments, size_t, tscompile_value**, size_t, char*, size_t) {
    tscompile_tensor x = {};
    x.size = sizeof x;
    tscompile_value_get_tensor(arguments[0], &x);
    static_cast<float*>(x.data)[0] = 7;
    return TSCOMPILE_OK;
  };
  ASSERT_EQ(tscompile_register_operator("mylib::same(Tensor x) -> Tensor", same, nullptr, nullptr), TSCOMPILE_OK);
  ASSERT_EQ(tscompile_register_operator("mylib::nothing(Tensor x) -> Tensor", nothing, nullptr, nullptr), TSCOMPILE_OK);
  ASSERT_EQ(tscompile_register_operator("mylib::numbers(Tensor x) -> float[]", numbers, nullptr, nullptr),
            TSCOMPILE_OK);
  ASSERT_EQ(tscompile_register_operator("mylib::fill_(Tensor(a!) x) -> Tensor(a!)", fill, nullptr, nullptr),
            TSCOMPILE_OK);
  auto resultOf = [](const std::string& call) {
    return run(prepare(load("graph(%x : Tensor):\n  %y : " + call + "(%x)\n  return (%y)\n")),
               {parse("2:f32=[1 2]").get()});
  };
  EXPECT_EQ(resultOf("Tensor = mylib::fill_"), "2:f32=[7 2]");
  EXPECT_EQ(resultOf("float[] = mylib::numbers"), "[1.0, 2.0]");
  EXPECT_NE(resultOf("Tensor = mylib::nothing").find("its kernel left result 1 unset"), std::string::npos);
  // What writes to the result leaves the argument alone.
  const Method method =
      prepare(load("graph(%x : Tensor):\n  %one : int = prim::Constant[value=1]()\n  %y : Tensor = mylib::same(%x)\n"
                   "  %z : Tensor = aten::add_(%y, %one, %one)\n  return (%z)\n"));
  const Value x = parse("2:f32=[1 2]");
  EXPECT_EQ(run(method, {x.get()}), "2:f32=[2 3]");
  EXPECT_EQ(textOf(x.get()), "2:f32=[1 2]");
}

TEST(CInterface, SchemasOfOperatorsAreChecked) {
  auto messageOf = [](const char* schema, tscompile_operator function) {
    tscompile_error* e = nullptr;
    const tscompile_status status = tscompile_register_operator(schema, function, nullptr, &e);
    const Error error(e);
    return std::to_string(status) + " " + tscompile_error_text(e);
  };
  EXPECT_EQ(
      messageOf("foo", shifted),
      "3 tscompile: error: an operator needs a schema such as mine::scale(Tensor self, float by) -> Tensor, not 'foo'");
  EXPECT_EQ(messageOf("mylib::foo(Tensor x) -> Tensor", nullptr), "2 tscompile: error: function is NULL");
  EXPECT_EQ(messageOf(nullptr, shifted), "2 tscompile: error: schema is NULL");
  EXPECT_EQ(messageOf("prim::foo(Tensor x) -> Tensor", shifted),
            "3 tscompile: error: the operators of prim are ours: prim::foo needs another name space");
}

TEST(CInterface, OperatorsOfTheCallerGiveHandlesOfTheirOwn) {
  auto argument = [](void*, const tscompile_value* const* arguments, size_t, tscompile_value** results, size_t, char*,
                     size_t) { return results[0] = const_cast<tscompile_value*>(arguments[0]), TSCOMPILE_OK; };
  auto twice = [](void*, const tscompile_value* const*, size_t, tscompile_value** results, size_t, char*, size_t) {
    return results[0] = results[1] = tscompile_value_int(3), TSCOMPILE_OK;
  };
  ASSERT_EQ(tscompile_register_operator("mylib::back(Tensor x) -> Tensor", argument, nullptr, nullptr), TSCOMPILE_OK);
  ASSERT_EQ(tscompile_register_operator("mylib::two(Tensor x) -> (int, int)", twice, nullptr, nullptr), TSCOMPILE_OK);
  const Value x = parse("2:f32=[1 2]");
  EXPECT_NE(run(prepare(load("graph(%x : Tensor):\n  %y : Tensor = mylib::back(%x)\n  return (%y)\n")), {x.get()})
                .find("as result 1: give a handle of its own, by tscompile_value_share"),
            std::string::npos);
  EXPECT_NE(run(prepare(load("graph(%x : Tensor):\n  %y : int, %z : int = mylib::two(%x)\n  return (%y)\n")), {x.get()})
                .find("as result 2: give a handle of its own"),
            std::string::npos);
  EXPECT_EQ(textOf(x.get()), "2:f32=[1 2]");
}

}  // namespace
