// Archives that PyTorch wrote give what PyTorch gave: each NAME.pt in a folder of data/archives has a NAME.txt of
// inputs and outputs (tests/tools/pack_archives.py). `source` has the source language, `quantized` quantised models,
// `versions` operators as they were before.
#include "api/compiler.h"
#include "api/lower.h"
#include "api/value_text.h"
#include "ir/graph/builder.h"
#include "ir/support/diagnostic_printer.h"
#include "ir/values/literal.h"
#include "runtime/reference/loops/copy.h"
#include "tests/support/text_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>

namespace tscompile {
namespace {

const std::filesystem::path kFolder = std::filesystem::path(TSCOMPILE_TESTS_DIR) / "data" / "archives";

std::string reports(const Diagnostics& diagnostics) {
  std::string out;
  for (const Diagnostic& d : diagnostics.list()) out += d.message + "\n";
  return out;
}

bool isNear(double a, double b) {
  return a == b || (std::isnan(a) && std::isnan(b)) || std::fabs(a - b) <= 1e-5 + 1e-5 * std::fabs(b);
}

bool isNear(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || !std::equal(a.sizes().begin(), a.sizes().end(), b.sizes().begin(), b.sizes().end()))
    return false;
  Tensor x = contiguous(a), y = contiguous(b);
  for (int64_t i = 0; i < x.numel(); ++i)
    if (!isNear(x.real(i), y.real(i))) return false;
  return true;
}

bool isNear(const IValue& a, const IValue& b) {
  auto all = [](const std::vector<IValue>& x, const std::vector<IValue>& y) {
    return std::equal(x.begin(), x.end(), y.begin(), y.end(),
                      [](const IValue& p, const IValue& q) { return isNear(p, q); });
  };
  if (a.tag() != b.tag()) return false;
  if (a.isTensor()) return isNear(a.toTensor(), b.toTensor());
  if (a.isList()) return all(a.toList().items, b.toList().items);
  if (a.isTuple()) return all(a.toTuple().items, b.toTuple().items);
  if (a.isFloat()) return isNear(a.toFloat(), b.toFloat());
  if (!a.isDict()) return valuesEqual(a, b);
  bool same = a.toDict().size() == b.toDict().size();
  a.toDict().forEach([&](const IValue& key, const IValue& value) {
    IValue* other = b.toDict().find(key);
    same = same && other && isNear(value, *other);
  });
  return same;
}

class ArchiveTest : public testing::TestWithParam<std::string> {};

// What the text beside an archive says.
void readCase(const std::string& name, const Graph* graph, std::vector<IValue>& inputs, std::vector<IValue>& outputs) {
  Diagnostics diagnostics;
  std::ifstream file(kFolder / (name + ".txt"));
  for (std::string line; std::getline(file, line);) {
    size_t blank = line.find(' ');
    bool isInput = line.substr(0, blank) == "input";
    TypePtr type = isInput ? graph->input(inputs.size() + 1)->type() : graph->output(outputs.size())->type();
    Result<IValue> value = parseValueText(line.substr(blank + 1), "value", diagnostics, type);
    ASSERT_TRUE(value.ok()) << reports(diagnostics) << line;
    (isInput ? inputs : outputs).push_back(*value);
  }
}

void runsAsInPyTorch(const std::string& name, bool compiled) {
  Diagnostics diagnostics;
  Result<Module> module = Module::load(kFolder / (name + ".pt"), {}, diagnostics);
  ASSERT_TRUE(module.ok()) << reports(diagnostics);
  ASSERT_TRUE(module->graph());
  std::vector<IValue> inputs, outputs;
  ASSERT_NO_FATAL_FAILURE(readCase(name, module->graph(), inputs, outputs));
  Result<Module> run = compiled ? module->compiled({}, diagnostics) : module;
  ASSERT_TRUE(run.ok()) << reports(diagnostics);
  Result<std::vector<IValue>> results = run->forward(inputs, diagnostics);
  ASSERT_TRUE(results.ok()) << reports(diagnostics);
  ASSERT_EQ(results->size(), outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i)
    EXPECT_TRUE(isNear((*results)[i], outputs[i]))
        << valueToText((*results)[i]) << "\nPyTorch: " << valueToText(outputs[i]);
}

TEST_P(ArchiveTest, RunsAsInPyTorch) { runsAsInPyTorch(GetParam(), false); }

// Nested tensors go where it is lowered; the interpreter has none.
TEST(CompiledArchive, LayersOfTransformersHideWhatIsMasked) { runsAsInPyTorch("compiled/transformer", true); }

// The text that lowering a file and writing it to another gives, without what names the weights beside it.
std::string loweredText(const std::filesystem::path& from, const std::string& to) {
  Diagnostics diagnostics;
  LoadOptions options;
  std::filesystem::path weights = std::filesystem::path(from).replace_extension(".safetensors");
  if (std::filesystem::exists(weights)) options.weights.push_back(weights);
  Result<Module> module = Module::load(from, options, diagnostics);
  EXPECT_TRUE(module.ok()) << reports(diagnostics);
  Result<Module> lowered = module ? module->lowered({}, diagnostics) : Result<Module>(Failed{});
  EXPECT_TRUE(lowered && lowered->write(to, diagnostics)) << reports(diagnostics);
  std::string text = test::readText(to);
  return text.substr(text.find("graph("));
}

// The first member of a zip may be anything.
TEST(Archive, IsKnownWhateverItsFirstMember) {
  for (const char* name : {"traced_2.pt", "saved_along_2.pt", "packed_anew_2.pt"}) {
    Diagnostics d;
    Result<Module> m = Module::load(kFolder / name, {}, d);
    ASSERT_TRUE(m.ok()) << name << ": " << reports(d);
    Result<std::vector<IValue>> out = m->forward({IValue(Tensor::zeros(DType::Float32, {2}))}, d);
    ASSERT_TRUE(out.ok()) << name << ": " << reports(d);
    EXPECT_EQ(valueToText(out->at(0)), "2:f32=[0 0]");
  }
}

// Their conversions are in the graph, so that nothing is left of them that an engine file could not run.
TEST(Archive, RegionsOfAutocastAreGoneWhenTheyAreLowered) {
  Diagnostics d;
  Result<Module> m = Module::load(kFolder / "source/autocast.pt", {}, d);
  ASSERT_TRUE(m.ok()) << reports(d);
  Result<Module> lowered = m->lowered({}, d);
  ASSERT_TRUE(lowered.ok()) << reports(d);
  for (Symbol kind : {sym::Enter, sym::Exit}) EXPECT_EQ(lowered->graph()->kinds().count(kind), 0u) << kind.text();
}

TEST(Archive, HooksThatNobodyRunsAreTold) {
  Diagnostics diagnostics;
  EXPECT_TRUE(Module::load(kFolder / "hooked.pt", {}, diagnostics).ok());
  EXPECT_EQ(diagnostics.warningCount(), 1u);
  EXPECT_NE(reports(diagnostics).find("hooks of the outermost module are not run"), std::string::npos);
}

// What attributes hold and inputs that are left out go beside the text, and into an engine file.
TEST(WrittenArchive, KeepsTensorsInContainersAndDefaults) {
  Diagnostics diagnostics;
  Result<Module> module = Module::load(kFolder / "source/MHolds.pt", {}, diagnostics);
  ASSERT_TRUE(module.ok()) << reports(diagnostics);
  std::vector<IValue> inputs, outputs;
  ASSERT_NO_FATAL_FAILURE(readCase("source/MHolds", module->graph(), inputs, outputs));
  test::TemporaryFolder folder;
  Result<Module> lowered = module->lowered({}, diagnostics), compiled = module->compiled({}, diagnostics);
  ASSERT_TRUE(lowered && lowered->write(folder / "model.ir", diagnostics)) << reports(diagnostics);
  ASSERT_TRUE(compiled && compiled->save(folder / "model.tse", diagnostics)) << reports(diagnostics);
  for (const char* name : {"model.ir", "model.tse"}) {
    LoadOptions options;
    if (std::string_view(name) == "model.ir") options.weights.push_back(folder / "model.safetensors");
    Result<Module> again = Module::load(folder / name, options, diagnostics);
    ASSERT_TRUE(again.ok()) << reports(diagnostics);
    std::map<std::string, IValue> defaults = again->defaults();
    EXPECT_EQ(defaults.size(), 2u) << name;
    EXPECT_TRUE(valuesEqual(defaults["scale"], IValue(0.5)) && defaults["sizes"].isNone()) << name;
    // Twice: what a run puts into them is gone.
    for (int run = 0; run < 2; ++run) {
      Result<std::vector<IValue>> results = again->forward(inputs, diagnostics);
      ASSERT_TRUE(results.ok()) << reports(diagnostics);
      EXPECT_TRUE(isNear((*results)[0], outputs[0])) << name << ": " << valueToText((*results)[0]);
    }
    // A run does with them what it is not given, at the end; before that, nothing may be missing.
    std::vector<IValue> first = inputs;
    Result<Method> method = again->prepare(diagnostics);
    ASSERT_TRUE(method.ok()) << reports(diagnostics);
    while (!first.empty() && defaults.contains(method->inputs()[first.size() - 1].name)) first.pop_back();
    EXPECT_TRUE(method->run(first, diagnostics).ok()) << reports(diagnostics);
    Diagnostics missing;
    EXPECT_FALSE(method->run({}, missing).ok());
    EXPECT_EQ(missing.firstErrorKind(), ErrorKind::Input);
  }
}

// What text says otherwise or elsewhere: calls by an interface, what members of enums stand for, what attributes share,
// methods of contexts.
TEST(WrittenArchive, KeepsWhatTextHasNoPlaceFor) {
  for (const char* name :
       {"MIface", "ByInterface", "MIfaceChosen", "MEnumParts", "MShared", "MStatistics", "with_class"}) {
    Diagnostics diagnostics;
    Result<Module> module = Module::load(kFolder / "source" / (std::string(name) + ".pt"), {}, diagnostics);
    ASSERT_TRUE(module.ok()) << reports(diagnostics);
    std::vector<IValue> inputs, outputs;
    ASSERT_NO_FATAL_FAILURE(readCase(std::string("source/") + name, module->graph(), inputs, outputs));
    test::TemporaryFolder folder;
    Result<Module> lowered = module->lowered({}, diagnostics), compiled = module->compiled({}, diagnostics);
    ASSERT_TRUE(lowered && lowered->write(folder / "model.ir", diagnostics)) << name << reports(diagnostics);
    ASSERT_TRUE(compiled && compiled->save(folder / "model.tse", diagnostics)) << name << reports(diagnostics);
    for (const char* file : {"model.ir", "model.tse"}) {
      LoadOptions options;
      if (std::filesystem::exists(folder / "model.safetensors") && std::string_view(file) == "model.ir")
        options.weights.push_back(folder / "model.safetensors");
      Result<Module> again = Module::load(folder / file, options, diagnostics);
      ASSERT_TRUE(again.ok()) << name << reports(diagnostics);
      // Twice: what a run writes is gone after it.
      for (int run = 0; run < 2; ++run) {
        Result<std::vector<IValue>> results = again->forward(inputs, diagnostics);
        ASSERT_TRUE(results.ok()) << name << reports(diagnostics);
        ASSERT_EQ(results->size(), outputs.size());
        for (size_t i = 0; i < outputs.size(); ++i)
          EXPECT_TRUE(isNear((*results)[i], outputs[i])) << name << ": " << valueToText((*results)[i]);
      }
    }
  }
}

class QuantizedArchiveTest : public ArchiveTest {};

// Packed weights and quantised tensors have no text: a file has the integers, and nodes that make the rest.
TEST_P(QuantizedArchiveTest, RunsFromAnEngineFileToTheSameBits) {
  Diagnostics diagnostics;
  Result<Module> module = Module::load(kFolder / (GetParam() + ".pt"), {}, diagnostics);
  ASSERT_TRUE(module.ok()) << reports(diagnostics);
  std::vector<IValue> inputs, ignored;
  ASSERT_NO_FATAL_FAILURE(readCase(GetParam(), module->graph(), inputs, ignored));
  Result<Module> compiled = module->compiled({}, diagnostics);
  ASSERT_TRUE(compiled.ok()) << reports(diagnostics);
  test::TemporaryFolder folder;
  ASSERT_TRUE(compiled->save(folder / "model.tse", diagnostics)) << reports(diagnostics);
  Result<Module> saved = Module::load(folder / "model.tse", {}, diagnostics);
  ASSERT_TRUE(saved.ok()) << reports(diagnostics);
  Result<std::vector<IValue>> interpreted = module->forward(inputs, diagnostics);
  Result<std::vector<IValue>> before = compiled->forward(inputs, diagnostics);
  Result<std::vector<IValue>> after = saved->forward(inputs, diagnostics);
  ASSERT_TRUE(interpreted.ok() && before.ok() && after.ok()) << reports(diagnostics);
  ASSERT_TRUE(after->size() == before->size() && after->size() == interpreted->size());
  for (size_t i = 0; i < before->size(); ++i) {
    EXPECT_EQ(valueToText((*after)[i]), valueToText((*before)[i]));
    EXPECT_TRUE(isNear((*after)[i], (*interpreted)[i]));
  }
}

// What packed weights are made of again is merged as all else is.
TEST_P(QuantizedArchiveTest, LoweringItsTextOnceMoreChangesNothing) {
  test::TemporaryFolder folder;
  std::string once = loweredText(kFolder / (GetParam() + ".pt"), folder / "once.ir");
  std::string twice = loweredText(folder / "once.ir", folder / "twice.ir");
  EXPECT_FALSE(once.empty());
  EXPECT_EQ(once, twice);
}

// Other constants of this size stay what they are computed from.
TEST(PackedWeights, OfAnySizeAreFoldedAndWrittenAgain) {
  Graph graph;
  Builder b(graph);
  Value* integers = b.constant(IValue(Tensor::zeros(DType::Int8, Dims{2 << 20})), types().tensor);
  Value* inputs[] = {integers, b.constant(0.5), b.constant(int64_t{0})};
  Value* packed = b.insert(Symbol::of("aten::_make_per_tensor_quantized_tensor"), inputs)->output();
  graph.addOutput(b.insert(Symbol::of("aten::int_repr"), std::span<Value* const>(&packed, 1))->output());
  test::TemporaryFolder folder;
  Diagnostics diagnostics;
  ASSERT_TRUE(writeGraphWithWeights(graph, nullptr, folder / "graph.ir", diagnostics)) << reports(diagnostics);
  std::string once = loweredText(folder / "graph.ir", folder / "once.ir");
  EXPECT_NE(once.find("%packed.1 : Tensor = prim::Constant"), std::string::npos) << once;
  EXPECT_EQ(once, loweredText(folder / "once.ir", folder / "twice.ir"));
}

// "source/Nested"
std::vector<std::string> names(std::initializer_list<const char*> folders) {
  std::vector<std::string> out;
  for (const char* folder : folders)
    for (const auto& entry : std::filesystem::directory_iterator(kFolder / folder))
      if (entry.path().extension() == ".pt") out.push_back(std::string(folder) + "/" + entry.path().stem().string());
  std::sort(out.begin(), out.end());
  return out;
}

std::string testName(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '/', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Files, ArchiveTest, testing::ValuesIn(names({"source", "quantized", "versions"})), testName);
INSTANTIATE_TEST_SUITE_P(Files, QuantizedArchiveTest, testing::ValuesIn(names({"quantized"})), testName);

}  // namespace
}  // namespace tscompile
