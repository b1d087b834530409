// Files of torch.export against what PyTorch returned for them: tests/tools/make_exports.py.
#include "api/compile.h"
#include "api/module.h"
#include "api/refit.h"
#include "api/value_text.h"
#include "tests/support/files.h"
#include "tests/support/text_file.h"
#include "tests/support/value_checks.h"

#include <cmath>
#include <filesystem>
#include <fstream>

namespace tscompile {
namespace {

using test::expectNear;
using test::flatten;
using test::parsedValue;
using test::shown;

std::string exportFile(const std::string& name) { return TSCOMPILE_TESTS_DIR "/data/exports/" + name; }

struct Recorded {
  std::vector<IValue> inputs, outputs;
};
Recorded readRecorded(const std::string& name) {
  std::ifstream file(exportFile(name + ".txt"));
  Recorded r;
  for (std::string line; std::getline(file, line);)
    line.rfind("in: ", 0) == 0 ? r.inputs.push_back(parsedValue(line.substr(4)))
                               : r.outputs.push_back(parsedValue(line.substr(5)));
  return r;
}

void expectOutputs(const Module& m, const Recorded& r) {
  Diagnostics d;
  std::vector<IValue> inputs;
  for (const IValue& v : r.inputs) inputs.push_back(parsedValue(valueToText(v)));  // some programs write to them
  Result<std::vector<IValue>> out = m.forward(inputs, d);
  ASSERT_TRUE(out.ok()) << shown(d);
  std::vector<IValue> leaves;
  for (const IValue& v : *out) flatten(v, leaves);
  ASSERT_EQ(leaves.size(), r.outputs.size());
  for (size_t i = 0; i < leaves.size(); ++i) expectNear(leaves[i], r.outputs[i]);
}

class Exports : public testing::TestWithParam<const char*> {};

TEST_P(Exports, EqualPyTorch) {
  Diagnostics d;
  Result<Module> m = Module::load(exportFile(GetParam() + std::string(".pt2")), {}, d);
  ASSERT_TRUE(m.ok()) << shown(d);
  Recorded r = readRecorded(GetParam());
  expectOutputs(*m, r);
  expectOutputs(*m, r);  // buffers are what they were
  Result<Module> fast = m->compiled({}, d);
  ASSERT_TRUE(fast.ok()) << shown(d);
  expectOutputs(*fast, r);
}

INSTANTIATE_TEST_SUITE_P(Files, Exports,
                         testing::Values("net", "net_decomposed", "trees", "choice", "counter", "counter_decomposed",
                                         "writer", "sizes", "attention", "attention_decomposed", "constants", "loops",
                                         "loops_decomposed", "mapped", "prefixes", "mixed", "solved", "numbered",
                                         "truths", "shared", "seen", "moved", "placed", "heads", "quantized",
                                         "old_layout", "old_signature", "old_indices", "old_containers", "old_slopes",
                                         "old_folders", "torchao", "sums", "sums_fixed", "grouped_decomposed",
                                         "leaky_decomposed", "containers", "masked_decomposed", "primitives",
                                         "primitives_of_numbers", "writes_by_primitives", "derived", "regrouped",
                                         "compared", "guarded", "stretched", "implicit"),
                         [](const auto& info) { return std::string(info.param); });

// Constants that a program only numbers stay as they are: another program may have others by these names.
TEST(Exports, RefitLeavesConstants) {
  Diagnostics d;
  test::TemporaryFolder folder;
  Result<Module> m = Module::load(exportFile("constants.pt2"), {}, d);
  ASSERT_TRUE(m.ok()) << shown(d);
  CompileSpec spec;
  spec.refittable = true;
  Result<Module> engine = m->compiled(spec, d);
  ASSERT_TRUE(engine && engine->save(folder / "old.tse", d)) << shown(d);
  RefitOptions options;
  options.weights = {exportFile("constants.pt2")};
  ASSERT_TRUE(refitEngine(folder / "old.tse", options, folder / "new.tse", d)) << shown(d);
  Result<Module> refitted = Module::load(folder / "new.tse", {}, d);
  ASSERT_TRUE(refitted.ok()) << shown(d);
  expectOutputs(*refitted, readRecorded("constants"));
}

// Parameters and buffers of one program for another; its constants are none of them.
TEST(Exports, AreWeightsOfOthers) {
  Diagnostics d;
  LoadOptions options;
  options.weights = {exportFile("net.pt2")};
  for (const char* name : {"net", "net_decomposed"}) {
    Result<Module> m = Module::load(exportFile(name + std::string(".pt2")), options, d);
    ASSERT_TRUE(m.ok()) << shown(d);
    expectOutputs(*m, readRecorded("net"));
  }
  EXPECT_TRUE(d.list().empty()) << shown(d);
  options.weights = {exportFile("constants.pt2")};
  EXPECT_FALSE(Module::load(exportFile("net.pt2"), options, d).ok());
  EXPECT_NE(shown(d).find("the weights have no tensor of the model"), std::string::npos) << shown(d);
}

std::string failure(const Module& m, std::initializer_list<const char*> inputs) {
  std::vector<IValue> values;
  for (const char* text : inputs) values.push_back(parsedValue(text));
  Diagnostics d;
  EXPECT_FALSE(m.forward(values, d).ok());
  return d.list().empty() ? "" : d.list()[0].message;
}

TEST(ExportedSizes, AreHeldTo) {
  Diagnostics d;
  Result<Module> m = Module::load(exportFile("sizes.pt2"), {}, d);
  ASSERT_TRUE(m.ok()) << shown(d);
  EXPECT_EQ(failure(*m, {"10x2:f32:ones", "1x2:f32:ones"}),
            "dimension 0 of input %x is 10, but the program was exported for 3..9");
  EXPECT_EQ(failure(*m, {"4x3:f32:ones", "1x2:f32:ones"}),
            "dimension 1 of input %x is 3, but the program was exported for 2");
  EXPECT_EQ(failure(*m, {"4:f32:ones", "1x2:f32:ones"}), "input %x has 1 dimension, not 2");
}

TEST(ExportedSizes, ThatAreMadeOfOthersAreHeldTo) {
  Diagnostics d;
  Result<Module> m = Module::load(exportFile("derived.pt2"), {}, d);
  ASSERT_TRUE(m.ok()) << shown(d);
  Result<Module> fast = m->compiled({}, d);
  ASSERT_TRUE(fast.ok()) << shown(d);
  for (const Module* each : {&*m, &*fast}) {
    EXPECT_EQ(failure(*each, {"36x3:f32:ones", "37:f32:ones"}),
              "dimension 0 of input %x is 36, but the program was exported for 0..32");
    EXPECT_EQ(failure(*each, {"6x3:f32:ones", "5:f32:ones"}),
              "dimension 0 of input %x is 6, but the program was exported for 4*s69");
    EXPECT_EQ(failure(*each, {"8x3:f32:ones", "13:f32:ones"}),
              "dimension 0 of input %y is 13, but the program was exported for 4*s69 + 1");
    std::vector<IValue> fits{parsedValue("12x3:f32:ones"), parsedValue("13:f32:ones")};
    EXPECT_TRUE(each->forward(fits, d).ok()) << shown(d);
  }
}

// What PyTorch's module says: "Guard failed: …".
TEST(ExportedConditions, AreHeldTo) {
  Diagnostics d;
  Result<Module> m = Module::load(exportFile("guarded.pt2"), {}, d);
  ASSERT_TRUE(m.ok()) << shown(d);
  Result<Module> fast = m->compiled({}, d);
  ASSERT_TRUE(fast.ok()) << shown(d);
  test::TemporaryFolder folder;
  ASSERT_TRUE(fast->save(folder / "guarded.tse", d)) << shown(d);
  Result<Module> saved = Module::load(folder / "guarded.tse", {}, d);
  ASSERT_TRUE(saved.ok()) << shown(d);
  Result<Module> lowered = m->lowered({}, d);
  ASSERT_TRUE(lowered.ok() && lowered->write(folder / "guarded.ir", d)) << shown(d);
  Result<Module> text = Module::load(folder / "guarded.ir", {.weights = {folder / "guarded.safetensors"}}, d);
  ASSERT_TRUE(text.ok()) << shown(d);
  const char *x = "4x5:f32:ones", *pair = "(5:f32:ones, 2x2:f32:ones)", *first = "2x2:f32:ones",
             *scale = "scalar:f32=2";
  for (const Module* each : {&*m, &*fast, &*saved, &*text}) {
    EXPECT_EQ(failure(*each, {x, "2", pair, first, "3:f32:ones", scale, "6:f32:ones"}),
              "%n is 2, but the program was exported for inputs where %n > 2");
    EXPECT_EQ(failure(*each, {x, "6", pair, first, "3:f32:ones", scale, "6:f32:ones"}),
              "%n is 6, %pair.0.size(0) is 5, but the program was exported for inputs where %n >= 0 and %n <= "
              "%pair.0.size(0)");
    EXPECT_EQ(failure(*each, {x, "4", pair, first, "8:f32:ones", scale, "6:f32:ones"}),
              "%rest_1.size(0) is 8, but the program was exported for inputs where (%rest_1.size(0) % 4) != 0");
    EXPECT_EQ(
        failure(*each, {x, "4", "(9:f32:ones, 2x2:f32:ones)", first, "3:f32:ones", scale, "6:f32:ones"}),
        "%pair.0.size(0) is 9, but the program was exported for inputs where math.ceil(%pair.0.size(0) / 4) == 2");
    EXPECT_EQ(failure(*each, {x, "4", pair, first, "3:f32:ones", scale, "3:f32:ones"}),
              "%other.size(0) is 3, %x.size(0) is 4, but the program was exported for inputs where "
              "%other.size(0)*%x.size(0) > 12");
    // A bound of one size.
    EXPECT_EQ(failure(*each, {"4x9:f32:ones", "4", pair, first, "3:f32:ones", scale, "6:f32:ones"}),
              "dimension 1 of input %x is 9, but the program was exported for 0..8");
  }
}

// Branches that the exporter took by them are in no file.
TEST(ExportedConditions, OfStridesTellWhatToExport) {
  Diagnostics d;
  Result<Module> m = Module::load(exportFile("sliced.pt2"), {}, d);
  ASSERT_TRUE(m.ok()) << shown(d);
  const IValue inOrder[] = {parsedValue("4x2:f32:ones")};
  EXPECT_FALSE(m->forward(inOrder, d).ok());
  EXPECT_EQ(d.list().at(0).message,
            "%x.stride(0) is 2, %x.size(1) is 2, but the program was exported for inputs where %x.stride(0) != "
            "%x.size(1)");
  ASSERT_FALSE(d.list().at(0).notes.empty());
  const Tensor rows = parsedValue("4x3:f32:ones").toTensor();
  const IValue slice[] = {rows.withGeometry(Dims{4, 2}, Dims{3, 1}, 0)};
  EXPECT_TRUE(m->forward(slice, d).ok());
}

TEST(ExportedPrograms, OfOneFileAreMethods) {
  Diagnostics d;
  Result<Module> m = Module::load(exportFile("several.pt2"), {}, d);
  ASSERT_TRUE(m.ok()) << shown(d);
  EXPECT_EQ(m->methods(), (std::vector<std::string>{"first", "second"}));
  EXPECT_EQ(m->graph("forward"), nullptr);
  const char* const kWidths[] = {"first", "second"};
  for (int64_t width : {1, 2}) {
    std::string name = kWidths[width - 1];
    std::vector<IValue> inputs{parsedValue("2x2:f32=[1 -2; 3 4]")};
    Result<Method> method = m->prepare(d, name);
    ASSERT_TRUE(method.ok()) << shown(d);
    Result<std::vector<IValue>> out = method->run(inputs, d);
    ASSERT_TRUE(out.ok()) << shown(d);
    EXPECT_EQ(Dims((*out)[0].toTensor().sizes()), (Dims{2, width}));
    // Each is held to its own sizes, lowered too.
    inputs[0] = parsedValue("10x2:f32:ones");
    CompileSpec spec;
    spec.lowering.method = name;
    Result<Module> fast = m->compiled(spec, d);
    ASSERT_TRUE(fast.ok()) << shown(d);
    Diagnostics refused;
    EXPECT_FALSE(fast->forward(inputs, refused).ok());
    EXPECT_EQ(refused.list()[0].message,
              width == 1 ? "dimension 0 of input %input is 10, but the program was exported for 0..9"
                         : "dimension 0 of input %input is 10, but the program was exported for 2");
  }
}

TEST(ExportedWrites, ReachInputs) {
  Diagnostics d;
  Result<Module> m = Module::load(exportFile("writer.pt2"), {}, d);
  ASSERT_TRUE(m.ok()) << shown(d);
  std::vector<IValue> inputs{parsedValue("2:f32=[1 2]"), parsedValue("2:f32=[5 5]")};
  ASSERT_TRUE(m->forward(inputs, d).ok()) << shown(d);
  EXPECT_EQ(valueToText(inputs[0]), "2:f32=[2 4]");
}

}  // namespace
}  // namespace tscompile
