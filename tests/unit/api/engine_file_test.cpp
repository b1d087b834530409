// Engine files: they run as the module does, hold each tensor once, have no place for damage, and replace an older file
// whole or not at all.
#include "api/engine_file.h"

#include "api/compile.h"
#include "api/value_text.h"
#include "frontend/files/section_file.h"
#include "frontend/text/parse.h"
#include "ir/support/diagnostic_printer.h"
#include "partition/stitch.h"
#include "runtime/engine/network/tactics.h"
#include "tests/support/cli.h"
#include "tests/support/json.h"
#include "tests/support/text_file.h"
#include "tools/reports/remedy_words.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstring>
#include <functional>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace tscompile::test {
namespace {

// A convolution, a classifier that uses its weight twice, and in between an operator that is kept out of engines.
constexpr const char* kSmallNet = R"(graph(%x : Tensor):
  %w : Float(1, 1, 3, 3) = prim::Constant[value=<Tensor>]()
  %fc : Float(4, 4) = prim::Constant[value=<Tensor>]()
  %none : NoneType = prim::Constant()
  %false : bool = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %minus : int = prim::Constant[value=-1]()
  %ones : int[] = prim::Constant[value=[1, 1]]()
  %twos : int[] = prim::Constant[value=[2, 2]]()
  %zeros : int[] = prim::Constant[value=[0, 0]]()
  %a : Tensor = aten::conv2d(%x, %w, %none, %ones, %zeros, %ones, %one)
  %b : Tensor = aten::relu(%a)
  %c : Tensor = aten::avg_pool2d(%b, %twos, %twos, %zeros, %false, %false, %none)
  %d : Tensor = aten::flatten(%c, %one, %minus)
  %e : Tensor = aten::linear(%d, %fc, %none)
  %f : Tensor = aten::lgamma(%e)
  %g : Tensor = aten::linear(%f, %fc, %none)
  %h : Tensor = aten::relu(%g)
  return (%h)
)";

class EngineFileTest : public testing::Test {
 protected:
  EngineFileTest() {
    text_ = folder_.write("net.ir", kSmallNet);
    weights_ = folder_.write("net.weights", "w = 1x1x3x3:f32:randn(seed=1)\nfc = 4x4:f32:uniform(0.1,1)\n");
  }

  Module load() {
    LoadOptions options;
    options.weights = {weights_};
    return loaded(text_, options);
  }
  Module loaded(const std::string& path, const LoadOptions& options = {}) {
    Diagnostics d;
    Result<Module> m = Module::load(path, options, d);
    EXPECT_TRUE(m.ok()) << renderDiagnostics(d, "test");
    return m ? *m : Module(*Module::fromText("graph():\n  return ()\n", "none", {}, d));
  }

  static CompileSpec spec() {
    CompileSpec s;
    s.minBlockSize = 1;
    s.torchExecutedOps = {"aten::lgamma"};
    s.shapes = {*parseInputRange("x=1..8x1x6..7x6")};
    return s;
  }

  Module compiled(const CompileSpec& s = spec()) {
    Diagnostics d;
    Result<Module> m = load().compiled(s, d);
    EXPECT_TRUE(m.ok()) << renderDiagnostics(d, "test");
    return *m;
  }

  // Of the engine file of that module.
  std::string bytes() {
    Diagnostics d;
    EXPECT_TRUE(compiled().save(folder_ / "net.tse", d)) << renderDiagnostics(d, "test");
    return readText(folder_ / "net.tse");
  }

  static IValue input(const std::string& text = "2x1x6x6:f32:randn(seed=3)") {
    Diagnostics d;
    return *parseValueText(text, "x", d, types().tensor);
  }

  static std::string outputs(const Module& m, const IValue& x) {
    Diagnostics d;
    Result<std::vector<IValue>> out = m.forward(std::vector<IValue>{x}, d);
    return out ? valueToText((*out)[0]) : renderDiagnostics(d, "test");
  }

  TemporaryFolder folder_;
  std::string text_, weights_;
};

TEST_F(EngineFileTest, RunsAsTheModuleThatWasSaved) {
  Module before = compiled();
  Diagnostics d;
  ASSERT_TRUE(before.save(folder_ / "net.tse", d)) << renderDiagnostics(d, "test");
  Module after = loaded(folder_ / "net.tse");
  EXPECT_EQ(outputs(after, input()), outputs(before, input()));
  size_t engines = 0;
  forEachNode(*after.graph(), [&](const Node* n) { engines += n->kind() == sym::Engine; });
  EXPECT_EQ(engines, 2u);
  // What was loaded can be saved again, and lowered and compiled in another way.
  ASSERT_TRUE(after.save(folder_ / "again.tse", d)) << renderDiagnostics(d, "test");
  EXPECT_EQ(readText(folder_ / "again.tse"), readText(folder_ / "net.tse"));
  Result<Module> whole = after.compiled({}, d);
  ASSERT_TRUE(whole.ok()) << renderDiagnostics(d, "test");
  EXPECT_EQ(outputs(*whole, input()), outputs(compiled({}), input()));
}

// PyTorch lets modules have names that no text can call a value by.
TEST_F(EngineFileTest, AttributesMayHaveAnyName) {
  std::string paths[] = {"a b", "c,d", "e(f", "g=h", "i:j", "k%l", "m]n", "o->p", " ", "a_b"};
  std::string text = "graph(%self : __torch__.Net, %x : Tensor):\n  %none : NoneType = prim::Constant()\n";
  std::string last = "%x";
  LoadOptions options;
  for (size_t i = 0; i < std::size(paths); ++i) {
    text += fmt::format(
        "  %m{0} : __torch__.Linear = prim::GetAttr[name=\"{1}\"](%self)\n"
        "  %w{0} : Tensor = prim::GetAttr[name=\"weight\"](%m{0})\n"
        "  %y{0} : Tensor = aten::linear({2}, %w{0}, %none)\n",
        i, paths[i], last);
    last = fmt::format("%y{}", i);
    Tensor weight = Tensor::zeros(DType::Float32, {1, 1});
    weight.data<float>()[0] = static_cast<float>(i + 1);
    options.tensors.emplace_back(paths[i] + ".weight", weight);
  }
  text += "  return (" + last + ")\n";
  Diagnostics d;
  Result<Module> source = Module::fromText(text, "named.ir", options, d);
  ASSERT_TRUE(source.ok()) << renderDiagnostics(d, "test");
  Result<Module> fast = source->compiled({}, d), lowered = source->lowered({}, d);
  const std::string engine = folder_.path() + "/named.tse", written = folder_.path() + "/named.ir";
  ASSERT_TRUE(fast.ok() && fast->save(engine, d)) << renderDiagnostics(d, "test");
  ASSERT_TRUE(lowered.ok() && lowered->write(written, d)) << renderDiagnostics(d, "test");
  LoadOptions beside;
  if (const std::string weights = folder_.path() + "/named.safetensors"; std::filesystem::exists(weights))
    beside.weights = {weights};
  for (const Result<Module>& m : {Module::load(engine, {}, d), Module::load(written, beside, d)}) {
    ASSERT_TRUE(m.ok()) << renderDiagnostics(d, "test");
    Tensor x = Tensor::zeros(DType::Float32, {1, 1});
    x.data<float>()[0] = 1;
    Result<std::vector<IValue>> out = m->forward({IValue(x)}, d);
    ASSERT_TRUE(out.ok()) << renderDiagnostics(d, "test");
    EXPECT_EQ(valueToText(out->at(0)), "1x1:f32=[3628800]");
  }
}

TEST_F(EngineFileTest, TellsHowItWasMade) {
  bytes();
  Module m = loaded(folder_ / "net.tse");
  ASSERT_TRUE(m.engineInfo());
  const EngineInfo& info = *m.engineInfo();
  EXPECT_EQ(info.version, libraryVersion());
  EXPECT_EQ(info.source, "net.ir");
  EXPECT_EQ(info.weights, std::vector<std::string>{"net.weights"});
  EXPECT_EQ(info.options,
            (std::vector<std::string>{"min-block-size=1", "torch-executed-op=aten::lgamma", "shape=x=1..8x1x6..7x6"}));
  EXPECT_EQ(
      textOf(info.compileAgain("out.tse", false)),
      "compile it again from net.ir with min-block-size=1, torch-executed-op=aten::lgamma, shape=x=1..8x1x6..7x6");
  EXPECT_EQ(commandLineWords(info.compileAgain("out.tse", true)),
            "compile it again here: tscompile compile net.ir --weights net.weights --min-block-size 1 "
            "--torch-executed-op aten::lgamma --shape x=1..8x1x6..7x6 -o out.tse");
  // No paths.
  EXPECT_EQ(readText(folder_ / "net.tse").find(folder_.path()), std::string::npos);
}

TEST_F(EngineFileTest, ALineOfJsonNearTheStartTellsWhatItIs) {
  Diagnostics d;
  Result<Module> compiled = load().compiled(spec(), d);
  const std::string path = folder_ / "net.tse";
  ASSERT_TRUE(compiled && compiled->save(path, d)) << renderDiagnostics(d, "test");
  // As `head -c 2000 FILE | grep -a '^{'` finds it.
  const std::string start = readText(path).substr(0, 2000);
  const size_t begin = start.find("\n{") + 1, end = start.find('\n', begin);
  ASSERT_NE(end, std::string::npos);
  const Json about = parseJson(start.substr(begin, end - begin));
  EXPECT_EQ(about["tscompile"].text, libraryVersion());
  EXPECT_EQ(about["format"].number, kEngineFormat);
  EXPECT_EQ(about["source"].text, "net.ir");
  EXPECT_EQ(about["weights"][0].text, "net.weights");
  EXPECT_EQ(about["inputs"][0].text, "x=1..8x1x6..7x6");
  EXPECT_EQ(about["precision"].text, "f32");
}

TEST_F(EngineFileTest, KeepsWhatItsEnginesAreMadeWith) {
  constexpr const char* kTactics = "tscompile tactics 1\nsome layer on 1 threads: im2col\n";
  CompileSpec s = spec();
  s.engine.precision = DType::BFloat16;
  s.engine.tactics = std::make_shared<TacticCache>();
  Diagnostics d;
  ASSERT_TRUE(s.engine.tactics->read(kTactics, "tactics", d)) << renderDiagnostics(d, "test");
  Module before = compiled(s);
  ASSERT_TRUE(before.save(folder_ / "net.tse", d)) << renderDiagnostics(d, "test");
  Module after = loaded(folder_ / "net.tse");
  EXPECT_EQ(after.engineInfo()->precision, DType::BFloat16);
  EXPECT_EQ(after.engineInfo()->tactics, kTactics);
  EXPECT_EQ(outputs(after, input()), outputs(before, input()));
  EXPECT_NE(outputs(after, input()), outputs(compiled(), input()));
}

// Earlier versions kept the words of a command line.
TEST_F(EngineFileTest, ReadsTheWordsOfOlderFiles) {
  GraphParts parts;
  Diagnostics d;
  parts.graph = std::move(*parseGraph(SourceFile::make("g", "graph():\n  return ()\n"), d));
  EngineInfo info;
  info.options = {"--min-block-size", "1", "--shape", "x=1x2", "--no-lower", "--require-full=50", "--refittable"};
  ASSERT_TRUE(writeEngineFile(folder_ / "old.tse", info, parts, d)) << renderDiagnostics(d, "test");
  Ref<FileMapping> mapping = FileMapping::open(folder_ / "old.tse", d);
  Result<EngineFile> file = parseEngineFile(mapping->bytes(), mapping.get(), "old.tse", d);
  ASSERT_TRUE(file.ok()) << renderDiagnostics(d, "test");
  EXPECT_EQ(file->info.options,
            (std::vector<std::string>{"min-block-size=1", "shape=x=1x2", "no-lower", "require-full=50", "refittable"}));
}

TEST_F(EngineFileTest, TensorsAreSharedAlignedAndNotCopied) {
  bytes();
  Diagnostics d;
  Ref<FileMapping> mapping = FileMapping::open(folder_ / "net.tse", d);
  Result<EngineFile> file = parseEngineFile(mapping->bytes(), mapping.get(), "net.tse", d);
  ASSERT_TRUE(file.ok()) << renderDiagnostics(d, "test");
  ASSERT_EQ(file->tensors.size(), 2u);  // both segments have %fc
  for (const auto& [name, t] : file->tensors) {
    const char* data = reinterpret_cast<const char*>(t.raw());
    EXPECT_TRUE(mapping->bytes().data() <= data && data < mapping->bytes().data() + mapping->bytes().size()) << name;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(data) % 64, 0u) << name;
    EXPECT_TRUE(t.storage()->readOnly()) << name;
  }
}

TEST_F(EngineFileTest, LikeBytesAreStoredOnce) {
  Diagnostics d;
  GraphParts parts;
  parts.graph = std::move(*parseGraph(SourceFile::make("g", "graph():\n  return ()\n"), d));
  auto tensor = [](float last) { return Tensor::of<float>(std::vector<int64_t>{3}, std::vector<float>{1, 2, last}); };
  parts.tensors = {{"a", tensor(3)}, {"b", tensor(3)}, {"c", tensor(4)}, {"d", tensor(3)}};
  ASSERT_TRUE(writeEngineFile(folder_ / "t.tse", {}, parts, d));
  Ref<FileMapping> mapping = FileMapping::open(folder_ / "t.tse", d);
  Result<EngineFile> file = parseEngineFile(mapping->bytes(), mapping.get(), "t", d);
  ASSERT_TRUE(file.ok()) << renderDiagnostics(d, "test");
  const auto& t = file->tensors;
  ASSERT_EQ(t.size(), 4u);
  EXPECT_EQ(t[0].second.raw(), t[1].second.raw());
  EXPECT_EQ(t[0].second.raw(), t[3].second.raw());
  EXPECT_NE(t[0].second.raw(), t[2].second.raw());
  for (size_t i = 0; i < t.size(); ++i)
    EXPECT_EQ(valueToText(IValue(t[i].second)), valueToText(IValue(parts.tensors[i].second))) << t[i].first;
}

// Both times in processes of their own.
TEST_F(EngineFileTest, TheSameInputGivesTheSameBytes) {
  auto compile = [&](const std::string& out) {
    return std::system((std::string(TSCOMPILE_TOOL) + " compile " + text_ + " --weights " + weights_ +
                        " --min-block-size 1 --torch-executed-op aten::lgamma -o " + out + " >/dev/null")
                           .c_str());
  };
  ASSERT_EQ(compile(folder_ / "a.tse"), 0);
  ASSERT_EQ(compile(folder_ / "b.tse"), 0);
  EXPECT_EQ(readText(folder_ / "a.tse"), readText(folder_ / "b.tse"));
  EXPECT_FALSE(readText(folder_ / "a.tse").empty());
}

TEST_F(EngineFileTest, EveryTruncationIsRejected) {
  const std::string good = bytes();
  for (size_t size = 0; size < good.size(); ++size) {
    Diagnostics d;
    Result<EngineFile> file = parseEngineFile(std::string_view(good).substr(0, size), nullptr, "net.tse", d);
    ASSERT_FALSE(file.ok()) << size;
    ASSERT_EQ(d.errorCount(), 1u) << size;
  }
}

TEST_F(EngineFileTest, EveryBitIsChecked) {
  std::string bits = bytes();
  for (size_t bit = 0; bit < bits.size() * 8; ++bit) {
    bits[bit / 8] ^= static_cast<char>(1 << bit % 8);
    Diagnostics d;
    Result<EngineFile> file = parseEngineFile(bits, nullptr, "net.tse", d);
    ASSERT_FALSE(file.ok()) << bit;
    ASSERT_EQ(d.errorCount(), 1u) << bit;
    bits[bit / 8] ^= static_cast<char>(1 << bit % 8);
  }
  Diagnostics d;
  EXPECT_TRUE(parseEngineFile(bits, nullptr, "net.tse", d).ok());
}

// ---- files that are whole but not for us ----

std::string record(const std::vector<std::string>& texts) {
  std::string out;
  for (const std::string& t : texts) {
    for (int shift = 0; shift < 32; shift += 8) out += static_cast<char>(t.size() >> shift);
    out += t;
  }
  return out;
}

std::string engineBytes(uint32_t version, const std::string& fields, const std::string& tensors = "",
                        const std::string& weights = "", const std::string& graph = "graph():\n  return ()\n") {
  std::string out;
  putSectionFile(version, {{"fields", {fields}}, {"graph", {graph}}, {"tensors", {tensors}}, {"weights", {weights}}},
                 [&](std::string_view bytes) {
                   out += bytes;
                   return true;
                 });
  return out;
}

std::string tensorRecord(const std::string& name, const std::string& dtype, const std::vector<int64_t>& sizes,
                         uint64_t begin) {
  std::string out = record({name, dtype});
  out += static_cast<char>(sizes.size());
  auto number = [&](uint64_t value) {
    for (int shift = 0; shift < 64; shift += 8) out += static_cast<char>(value >> shift);
  };
  for (int64_t s : sizes) number(static_cast<uint64_t>(s));
  number(begin);
  return out;
}

TEST(EngineFile, OfAnotherFormatOrProcessor) {
  struct Row {
    std::string bytes, message;
  };
  const std::string made = record({"tscompile", "9.8", "source", "my net.ir", "weights", "w.safetensors"});
  const Row rows[] = {
      {engineBytes(2, made),
       "e.tse: error: the engine file has format 2, and this tscompile " + std::string(libraryVersion()) +
           " reads format 1\nnote: it was made by tscompile 9.8\nnote: compile it again: tscompile compile 'my net.ir' "
           "--weights w.safetensors -o e.tse\n"},
      {engineBytes(3, "not fields"),
       "e.tse: error: the engine file has format 3, and this tscompile " + std::string(libraryVersion()) +
           " reads format 1\nnote: compile it again: tscompile compile MODEL --weights WEIGHTS -o e.tse\n"},
      {engineBytes(1, made + record({"cpu", "avx9000", "cpu", "tail"})),
       "e.tse: error: the engine file is for another processor: this one lacks avx9000, tail\n"
       "note: compile it again here: tscompile compile 'my net.ir' --weights w.safetensors -o e.tse\n"},
  };
  RemedyWordsScope words(commandLineWords);
  for (const Row& r : rows) {
    Diagnostics d;
    EXPECT_FALSE(parseEngineFile(r.bytes, nullptr, "e.tse", d).ok());
    EXPECT_EQ(renderDiagnostics(d, "test"), r.message);
    EXPECT_EQ(d.firstErrorKind(), ErrorKind::Incompatible);
  }
}

TEST(EngineFile, MalformedParts) {
  const std::string f32 = tensorRecord("a", "F32", {2, 2}, 0);
  struct Row {
    std::string bytes, message;
  };
  const Row rows[] = {
      {engineBytes(1, "x"), "its fields are malformed"},
      {engineBytes(1, record({"colour", "red"})), "its fields are malformed"},
      {engineBytes(1, record({"input", "x=3..1"})), "its fields are malformed"},
      {engineBytes(1, record({"precision", "f8"})), "its fields are malformed"},
      {engineBytes(1, record({"tscompile"})), "its fields are malformed"},
      {engineBytes(1, "", "x"), "its list of tensors is malformed"},
      {engineBytes(1, "", f32.substr(0, f32.size() - 1), std::string(16, 'x')), "its list of tensors is malformed"},
      {engineBytes(1, "", tensorRecord("a", "F31", {1}, 0), "xxxx"), "its list of tensors is malformed"},
      {engineBytes(1, "", f32, std::string(15, 'x')), "tensor 'a' is not inside of it"},
      {engineBytes(1, "", tensorRecord("a", "F32", {1}, 4), std::string(16, 'x')), "tensor 'a' is not inside of it"},
      {engineBytes(1, "", tensorRecord("a", "F32", {-1}, 0), std::string(16, 'x')), "tensor 'a' is not inside of it"},
      {engineBytes(1, "", tensorRecord("a", "F32", {int64_t{1} << 40, int64_t{1} << 40}, 0), "xxxx"),
       "tensor 'a' is not inside of it"},
      {engineBytes(1, "", tensorRecord("a", "F32", {1}, ~uint64_t{63}), "xxxx"), "tensor 'a' is not inside of it"},
      {engineBytes(1, "", tensorRecord("a", "BOOL", {2}, 0), std::string("\1\2")),
       "tensor 'a' has elements that are neither 0 nor 1"},
  };
  for (const Row& r : rows) {
    Diagnostics d;
    EXPECT_FALSE(parseEngineFile(r.bytes, nullptr, "e.tse", d).ok());
    EXPECT_EQ(renderDiagnostics(d, "test"), "e.tse: error: the engine file is malformed: " + r.message + "\n");
    EXPECT_EQ(d.firstErrorKind(), ErrorKind::Input);
  }
  Diagnostics d;
  EXPECT_TRUE(parseEngineFile(engineBytes(1, "", f32, std::string(16, 'x')), nullptr, "e.tse", d).ok());
}

// ---- ranges ----

TEST_F(EngineFileTest, InputsOutsideOfTheirRangesAreTurnedDown) {
  bytes();
  struct Row {
    std::string input, message;
  };
  const std::string compiledFor = ", and this was compiled for 1..8x1x6..7x6\n";
  const Row rows[] = {
      {"9x1x6x6:f32:zeros", "dimension 0 of input %x is 9, outside of 1..8\nnote: it is 9x1x6x6" + compiledFor},
      {"0x1x6x6:f32:zeros", "dimension 0 of input %x is 0, outside of 1..8\nnote: it is 0x1x6x6" + compiledFor},
      {"1x2x6x6:f32:zeros", "dimension 1 of input %x is 2, not 1\nnote: it is 1x2x6x6" + compiledFor},
      {"1x1x8x6:f32:zeros", "dimension 2 of input %x is 8, outside of 6..7\nnote: it is 1x1x8x6" + compiledFor},
      {"1x6x6:f32:zeros", "input %x has 3 dimensions, not 4\nnote: it is 1x6x6" + compiledFor +
                              "note: the model takes %x as 1x1x6x6:f32, not as 1x6x6:f32: add a dimension of 1 in "
                              "front, for the batch\n"},
  };
  for (const Module& m : {compiled(), loaded(folder_ / "net.tse")}) {
    for (const Row& r : rows) EXPECT_EQ(outputs(m, input(r.input)), "test: error: " + r.message);
    for (const char* good : {"1x1x6x6:f32:zeros", "8x1x6x6:f32:zeros", "3x1x6x6:f32:zeros"})
      EXPECT_EQ(outputs(m, input(good)).find("error"), std::string::npos) << good;
    Diagnostics d;
    EXPECT_FALSE(m.forward(std::vector<IValue>{input(rows[0].input)}, d).ok());
    EXPECT_EQ(d.firstErrorKind(), ErrorKind::Model);
  }
}

TEST_F(EngineFileTest, TypesOfInputsAreCheckedWhereTheyWereGiven) {
  CompileSpec s = spec();
  s.shapes = {*parseInputRange("x=1x1x6x6:f32")};
  EXPECT_EQ(outputs(compiled(s), input("1x1x6x6:f64:zeros")),
            "test: error: input %x is float64, not float32\nnote: it is 1x1x6x6, and this was compiled for 1x1x6x6\n");
}

// ---- one engine of a method ----

TEST_F(EngineFileTest, AMethodAsOneEngine) {
  Diagnostics d;
  Result<Module> m = load().convertToEngine({}, d);
  ASSERT_TRUE(m.ok()) << renderDiagnostics(d, "test");
  size_t nodes = 0;
  forEachNode(*m->graph(), [&](const Node*) { ++nodes; });
  EXPECT_EQ(nodes, 1u);
  EXPECT_FALSE(load().convertToEngine(spec(), d).ok());
  EXPECT_EQ(d.firstErrorKind(), ErrorKind::Unsupported);
  std::string shown = renderDiagnostics(d, "test");
  for (const char* part :
       {"nodes run in engines, and 100 % are required", "net.ir:16:3: error: aten::lgamma cannot run",
        "note: the node is %f : Float(*, 4) = aten::lgamma", "note: its schema is aten::lgamma(Tensor self) -> Tensor"})
    EXPECT_NE(shown.find(part), std::string::npos) << part << "\n" << shown;
}

// ---- graphs with engines as text and weights ----

TEST_F(EngineFileTest, TextAndWeightsOfAGraphWithEngines) {
  Module m = compiled();
  Diagnostics d;
  ASSERT_TRUE(m.write(folder_ / "cut.ir", d)) << renderDiagnostics(d, "test");
  LoadOptions options;
  options.weights = {folder_ / "cut.safetensors"};
  EXPECT_EQ(outputs(loaded(folder_ / "cut.ir", options), input()), outputs(m, input()));
}

TEST(GraphParts, LikeNamesOfDifferentTensorsAreTakenApart) {
  Diagnostics d;
  std::unique_ptr<Graph> g = std::move(*parseGraph(SourceFile::make("g", R"(graph(%x : Tensor):
  %w : Tensor = prim::Constant[value=<Tensor>]()
  %a : Tensor = tscompile::Engine_0(%x)
  %b : Tensor = tscompile::Engine_1(%a)
  %c : Tensor = aten::mul(%b, %w)
  return (%c)
with tscompile::Engine_0 = graph(%x : Tensor):
  %w : Tensor = prim::Constant[value=<Tensor>]()
  %a : Tensor = aten::mul(%x, %w)
  return (%a)
with tscompile::Engine_1 = graph(%a : Tensor):
  %w : Tensor = prim::Constant[value=<Tensor>]()
  %b : Tensor = aten::mul(%a, %w)
  return (%b)
)"),
                                                   d));
  std::vector<Node*> constants;
  auto collect = [&](Node* n) {
    if (n->kind() == sym::Constant) constants.push_back(n);
  };
  forEachNode(*g, [&](Node* n) {
    collect(n);
    if (n->subgraph()) forEachNode(*n->subgraph(), collect);
  });
  ASSERT_EQ(constants.size(), 3u);
  auto many = [](float value) { return Tensor::of<float>(std::vector<int64_t>{11}, std::vector<float>(11, value)); };
  constants[0]->setAttribute(sym::value, IValue(many(2)));
  constants[1]->setAttribute(sym::value, IValue(many(3)));
  constants[2]->setAttribute(sym::value, IValue(many(2)));
  std::optional<GraphParts> parts = separateTensors(*g, nullptr, d);
  ASSERT_TRUE(parts);
  ASSERT_EQ(parts->tensors.size(), 2u);
  EXPECT_EQ(parts->tensors[0].first, "w");
  EXPECT_EQ(parts->tensors[1].first, "constant.1");
  TemporaryFolder folder;
  ASSERT_TRUE(writeGraphWithWeights(*g, nullptr, folder / "g.ir", d)) << renderDiagnostics(d, "test");
  LoadOptions options;
  options.weights = {folder / "g.safetensors"};
  Result<Module> m = Module::load(folder / "g.ir", options, d);
  ASSERT_TRUE(m.ok()) << renderDiagnostics(d, "test");
  Result<std::vector<IValue>> out = m->forward(std::vector<IValue>{IValue(many(1))}, d);
  ASSERT_TRUE(out.ok()) << renderDiagnostics(d, "test");
  EXPECT_EQ(valueToText((*out)[0]), valueToText(IValue(many(12))));
}

// ---- failures while writing ----

TEST_F(EngineFileTest, AFullDiskLeavesTheOldFile) {
  const std::string good = bytes(), path = folder_.write("net.tse", "old");
  const size_t files = folder_.fileCount();
  Module m = compiled();
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  auto oldHandler = std::signal(SIGXFSZ, SIG_IGN);
  for (size_t size = 0; size <= good.size(); size += size + 61 < good.size() ? 61 : 1) {
    rlimit small{size, before.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
    Diagnostics d;
    bool done = m.save(path, d);
    ::setrlimit(RLIMIT_FSIZE, &before);
    ASSERT_EQ(done, size == good.size()) << size;
    ASSERT_EQ(readText(path), done ? good : "old") << size;
    ASSERT_EQ(folder_.fileCount(), files);
    ASSERT_EQ(renderDiagnostics(d, "test"), done ? "" : path + ": error: cannot write: File too large\n");
  }
  std::signal(SIGXFSZ, oldHandler);
}

size_t soakFactor(size_t factor) { return std::getenv("TSCOMPILE_SOAK_MINUTES") ? factor : 1; }

TEST_F(EngineFileTest, PropertyAKilledWriterLeavesTheOldOrTheNewFile) {
  const std::string path = folder_ / "net.tse", one = bytes();
  CompileSpec other = spec();
  other.shapes.clear();
  Module first = compiled(), second = compiled(other);
  Diagnostics d;
  ASSERT_TRUE(second.save(path, d));
  const std::string two = readText(path);
  ASSERT_NE(one, two);
  std::srand(1);
  for (size_t i = 0; i < 30 * soakFactor(30); ++i) {
    pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      for (;;) {
        Diagnostics ignored;
        first.save(path, ignored);
        second.save(path, ignored);
      }
    }
    ::usleep(static_cast<useconds_t>(std::rand() % 20000));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    std::string now = readText(path);
    ASSERT_TRUE(now == one || now == two) << "after " << i << " children: " << now.size() << " bytes";
  }
}

// Lets a child save until it comes to its `count`th system call, on the way in or out, and kills it there. False if it
// has ended before.
bool killAtSystemCall(size_t count, const std::function<void()>& save) {
  pid_t child = ::fork();
  if (child == 0) {
    ::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
    ::raise(SIGSTOP);
    save();
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  for (size_t i = 0; i < count && WIFSTOPPED(status); ++i) {
    ::ptrace(PTRACE_SYSCALL, child, nullptr, nullptr);
    ::waitpid(child, &status, 0);
  }
  if (!WIFSTOPPED(status)) return false;
  ::kill(child, SIGKILL);
  ::waitpid(child, &status, 0);
  return true;
}

bool mayTrace() {
  pid_t child = ::fork();
  if (child == 0) ::_exit(::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) == 0 ? 0 : 1);
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST_F(EngineFileTest, PropertyAWriterKilledAtAnySystemCallLeavesTheOldOrTheNewFile) {
  if (!mayTrace()) GTEST_SKIP() << "processes may not be traced here";
  const std::string good = bytes(), path = folder_ / "net.tse";
  Module m = compiled();
  size_t old = 0, replaced = 0;
  const size_t step = soakFactor(2) == 2 ? 1 : 3;
  for (size_t count = 0;; count += step) {
    writeText(path, "old");
    bool killed = killAtSystemCall(count, [&] {
      Diagnostics ignored;
      m.save(path, ignored);
    });
    std::string now = readText(path);
    ASSERT_TRUE(now == "old" || now == good) << "at system call " << count << ": " << now.size() << " bytes";
    (now == "old" ? old : replaced) += 1;
    if (!killed) break;
    ASSERT_LT(count, 100'000u);
  }
  // Opening, writing, syncing, closing, renaming.
  EXPECT_GE(old * step, 8u);
  EXPECT_GE(replaced, 1u);
}

TEST_F(EngineFileTest, PropertyThreadsGetTheSameBits) {
  bytes();
  Module m = loaded(folder_ / "net.tse");
  Diagnostics d;
  Result<Method> method = m.prepare(d);
  ASSERT_TRUE(method.ok());
  const std::vector<IValue> inputs{input(), input("7x1x7x6:f32:randn(seed=4)"), input("1x1x6x6:f32:randn(seed=5)")};
  std::vector<std::vector<float>> expected;
  auto run = [&](size_t i) {
    Diagnostics mine;
    Result<std::vector<IValue>> out = method->run(std::vector<IValue>{inputs[i]}, mine);
    if (!out) return std::vector<float>();
    const Tensor t = (*out)[0].toTensor();
    std::vector<float> values(static_cast<size_t>(t.numel()));
    std::memcpy(values.data(), t.raw(), values.size() * sizeof(float));
    return values;
  };
  for (size_t i = 0; i < inputs.size(); ++i) expected.push_back(run(i));
  ASSERT_FALSE(expected[0].empty());
  std::atomic<size_t> different{0};
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 16; ++t)
    threads.emplace_back([&, t] {
      for (size_t i = 0; i < 20 * soakFactor(50); ++i) {
        std::vector<float> got = run((t + i) % inputs.size());
        const std::vector<float>& wanted = expected[(t + i) % inputs.size()];
        different += got.size() != wanted.size() || std::memcmp(got.data(), wanted.data(), got.size() * 4) != 0;
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(different, 0u);
}

}  // namespace
}  // namespace tscompile::test
