// Every text of the corpus before and after the default lowering: the same results, bit for bit; and on engines, but
// for roundings. Those that do not run are listed with the reason; a text that is listed and runs after all is a
// failure, as is one that is not and does not.
#include "api/compile.h"
#include "api/lower.h"
#include "api/value_text.h"
#include "ir/graph/clone.h"
#include "passes/rewrite/compare.h"
#include "passes/rewrite/samples.h"
#include "runtime/interpreter/program.h"
#include "runtime/reference/loops/copy.h"
#include "tests/support/analysis_checks.h"
#include "tests/support/module_checks.h"
#include "tests/support/text_file.h"

#include <filesystem>
#include <map>

namespace tscompile::test {
namespace {

namespace fs = std::filesystem;

fs::path corpus() { return std::string(TSCOMPILE_TESTS_DIR) + "/data/corpus/text"; }

using Inputs = std::map<std::string, std::string>;

// Where inputs made from their types alone would not do.
const std::map<std::string, Inputs> kInputs = {
    {"fn_batched_nms.script_inlined.ir",
     {{"boxes.1", "4x4:f32=[0 0 10 10; 1 1 11 11; 20 20 30 30; 0 0 9 9]"},
      {"scores.1", "4:f32=[0.9 0.8 0.7 0.6]"},
      {"idxs.1", "4:i64=[0 0 1 1]"},
      {"iou_threshold.1", "0.5"}}},
    {"fn_containers.script.ir", {{"xs.1", "[3, 1, 2]"}, {"d.1", "{\"a\": 1}"}, {"t.1", "(1, \"b\")"}, {"o.1", "2"}}},
    {"fn_inplace.script.ir", {{"x.1", "4x3:f32:randn(seed=1)"}, {"idx.1", "4:i64=[0 1 3 1]"}, {"v.1", "2.0"}}},
    {"fn_nms.script_inlined.ir",
     {{"boxes.1", "4x4:f32=[0 0 10 10; 1 1 11 11; 20 20 30 30; 0 0 9 9]"},
      {"scores.1", "4:f32=[0.9 0.8 0.7 0.6]"},
      {"iou.1", "0.5"},
      {"top.1", "3"}}},
    {"fn_postprocess.script_inlined.ir",
     {{"cls.1", "[1x2x2:f32=[-9 -9; -9 -9]]"},
      {"reg.1", "[1x2x2x4:f32:randn(seed=2)]"},
      {"sizes.1", "[(32, 32)]"},
      {"thr.1", "0.5"}}},
    {"fn_raise.script.ir", {{"x.1", "2x3:f32:randn(seed=1)"}, {"k.1", "2"}}},
    {"fn_scalars.script.ir", {{"i.1", "7"}, {"f.1", "2.5"}, {"b.1", "true"}, {"c.1", "1+2j"}}},
    {"fn_strings.script.ir", {{"s.1", "\"Hello, world\""}, {"n.1", "3"}, {"f.1", "2.5"}}},
    {"fn_union_any.script.ir", {{"u.1", "[1, 2]"}, {"a.1", "3"}, {"f.1", "2:f32=[1 2]"}}},
    {"mha.frozen.ir",
     {{"q.2", "2x3x8:f32:randn(seed=1)"},
      {"k.2", "2x3x8:f32:randn(seed=2)"},
      {"v.2", "2x3x8:f32:randn(seed=3)"},
      {"pad.1", "None"}}},
    {"mha.script_inlined.ir",
     {{"q.1", "2x3x8:f32:randn(seed=1)"},
      {"k.1", "2x3x8:f32:randn(seed=2)"},
      {"v.1", "2x3x8:f32:randn(seed=3)"},
      {"pad.1", "None"}}},
    {"tinygpt.frozen.ir", {{"idx.1", "1x8:i64=[1 5 3 9 2 2 0 7]"}, {"targets.1", "None"}}},
};
// The same for whatever a model calls its first input.
const std::map<std::string, std::string> kFirstInput = {
    {"lenet", "1x1x28x28:f32:randn(seed=1)"},    {"legacy_lenet", "1x1x28x28:f32:randn(seed=1)"},
    {"mlp", "2x20:f32:randn(seed=1)"},           {"mobilenet_v2", "1x3x32x32:f32:randn(seed=1)"},
    {"resnet18", "1x3x32x32:f32:randn(seed=1)"}, {"tinygpt", "1x8:i64=[1 5 3 9 2 2 0 7]"},
};

// Sizes of the weights that no frozen text of the model names any more.
const std::map<std::string, Inputs> kWeights = {
    {"mlp",
     {{"net.1.weight", "16"},
      {"net.1.bias", "16"},
      {"net.5.weight", "8"},
      {"net.5.bias", "8"},
      {"net.9.weight", "4"},
      {"net.9.bias", "4"},
      {"net.1.running_mean", "16"},
      {"net.1.running_var", "16"},
      {"net.5.running_mean", "8"},
      {"net.5.running_var", "8"},
      {"net.9.running_mean", "4"},
      {"net.9.running_var", "4"},
      {"net.4.bias", "8"},
      {"net.8.bias", "4"},
      {"head.lin.bias", "3"}}},
    {"tinygpt",
     {{"blocks.0.attn.mask", "1x1x16x16"},
      {"blocks.1.attn.mask", "1x1x16x16"},
      {"blocks.0.ln1.weight", "16"},
      {"blocks.0.ln1.bias", "16"},
      {"blocks.0.ln2.weight", "16"},
      {"blocks.0.ln2.bias", "16"},
      {"blocks.1.ln1.weight", "16"},
      {"blocks.1.ln1.bias", "16"},
      {"blocks.1.ln2.weight", "16"},
      {"blocks.1.ln2.bias", "16"},
      {"ln_f.weight", "16"},
      {"ln_f.bias", "16"}}},
};

const std::map<std::string, std::string> kDoesNotRun = {
    {"fn_autograd_function.trace.ir", "the Python operator 'ScaleGrad' is not part of the text"},
    {"fn_class.script.ir", "method '__init__' of __torch__.Accumulator is not part of the text"},
    {"fn_enum_box.script.ir", "no input of type Enum<__torch__.Color>"},
    {"fn_fork.script.ir", "function 'f_fork_inner' is not part of the text"},
    {"fn_fork.script_inlined.ir", "function 'f_fork_inner' is not part of the text"},
    {"fn_inplace.script.ir",
     "some elements of the input tensor and the written-to tensor refer to a single memory location"},
    {"fn_nms.script.ir", "function 'f_area' is not part of the text"},
    {"fn_postprocess.script.ir", "function 'f_nms' is not part of the text"},
    {"fn_pyop.script.ir", "the Python operator 'py_side' is not part of the text"},
    {"gru_decoder.script_inlined.ir", "weight 'out.weight' was not supplied"},
    {"holder.frozen.ir", "the data of %self.tl is not part of the text"},
    {"holder.script.ir", "weight 'vec' was not supplied"},
    {"lenet.module_dump.ir", "function 'relu' is not part of the text"},
    {"lenet.onnx.ir", "unknown operator onnx::Conv"},
    {"lenet.script.ir", "method 'forward' of __torch__.torch.nn.modules.conv.Conv2d is not part of the text"},
    {"lenet.trace.ir",
     "method 'forward' of __torch__.torch.nn.modules.conv.___torch_mangle_3.Conv2d is not part of the text"},
    {"lenet.trace_verbosity0.ir", "no overload of aten::_convolution takes (Tensor, Tensor, Tensor, int[]"},
    {"lstm_tagger.script_inlined.ir", "weight 'out.weight' was not supplied"},
    {"lstm_tagger.trace_inlined.ir", "weight 'emb.weight' was not supplied"},
    {"mha.script_inlined.ir", "attribute 'mha.dropout' was not supplied"},
    {"mlp.script_inlined.ir", "weight 'net.9.num_batches_tracked' was not supplied"},
    {"mobilenet_v2.trace.ir",
     "method 'forward' of __torch__.torch.nn.modules.container.___torch_mangle_396.Sequential is not part of the text"},
    {"mobilenet_v2.trace_inlined.ir", "weight 'features.0.0.weight' was not supplied"},
    {"pipeline.script.ir", "attribute 'counter' was not supplied"},
    {"pipeline.script_inlined.ir", "attribute 'counter' was not supplied"},
    {"resnet18.script.ir",
     "method '_forward_impl' of __torch__.torchvision.models.resnet.ResNet is not part of the text"},
    {"resnet18.script_inlined.ir", "weight 'layer4.1.bn2.num_batches_tracked' was not supplied"},
    {"resnet18.trace_inlined.ir", "weight 'conv1.weight' was not supplied"},
    {"scan_lstm.script.ir", "method 'cell' of __torch__.ScanLSTM is not part of the text"},
    {"siamese_mlp.script.ir", "weight 'temperature' was not supplied"},
    {"textconv.script_inlined.ir", "weight 'ln.weight' was not supplied"},
    {"tinygpt.generate.ir", "attribute 'block' was not supplied"},
    {"tinygpt.generate_inlined.ir", "attribute 'block' was not supplied"},
    {"tinygpt.module_dump.ir", "function 'cross_entropy' is not part of the text"},
    {"tinygpt.script.ir", "attribute 'block' was not supplied"},
    {"tinygpt.script_inlined.ir", "attribute 'block' was not supplied"},
    {"tinygpt.trace_inlined.ir", "aten::view: shape '[1, 8, 2, 16]' is invalid for input of size 128"},
    {"transformer_encoder_layer.script.ir", "attribute 'training' was not supplied"},
    {"transformer_encoder_layer.script_inlined.ir", "attribute 'training' was not supplied"},
    {"transformer_encoder_layer.trace_inlined.ir", "weight 'norm1.bias' was not supplied"},
    {"unet.script_inlined.ir", "weight 'out.weight' was not supplied"},
    {"unet.trace_inlined.ir", "weight 'd1.0.bias' was not supplied"},
    {"vae.module_dump.ir", "function 'binary_cross_entropy' is not part of the text"},
    {"vae.sample_method.ir",
     "method 'forward' of __torch__.torch.nn.modules.container.___torch_mangle_648.Sequential is not part of the text"},
    {"vae.script.ir", "attribute 'training' was not supplied"},
};

// A recipe for the constants of which a frozen text has type and sizes, but no data. They are called as the attributes
// of the module that was frozen, so the other texts of the model take theirs from here.
void addRecipe(const Graph& graph, std::map<std::string, std::string>& recipe) {
  forEachNode(graph, [&](Node* n) {
    if (n->kind() != sym::Constant || !n->output()->type()->isTensor() || GraphFacts::constant(n->output())) return;
    const TensorFacts& t = n->output()->type()->tensor();
    if (!t.hasRank || !t.hasAllSizes() || t.dtype == DType::Undefined) return;
    std::string text = t.sizes.empty() ? "scalar" : "";
    for (size_t i = 0; i < t.sizes.size(); ++i) text += (i ? "x" : "") + std::to_string(t.sizes[i]);
    text += ":" + std::string(shortName(t.dtype)) + ":";
    // Above 0, as variances are; small, so that nothing overflows.
    text +=
        kFloatingTypes.contains(t.dtype) ? "uniform(0.01, 0.1, seed=" + std::to_string(recipe.size()) + ")" : "ones";
    std::string name = n->output()->name();
    recipe[name] = text;
    if (name.starts_with("self.")) recipe[name.substr(5)] = text;
  });
}

std::string messageOf(const Diagnostics& diagnostics) {
  for (const Diagnostic& d : diagnostics.list())
    if (d.severity == Severity::Error) return d.message;
  return "?";
}

// A text with what can be made up for it.
class Case {
 public:
  explicit Case(const fs::path& file) : name_(file.filename()), text_(readText(file)) {
    model_ = name_.substr(0, name_.find('.'));
  }

  // Why it does not run; "" if it does, and then gives the same before and after.
  std::string check() {
    Diagnostics diagnostics;
    Result<Module> module = load(diagnostics);
    if (!module) return messageOf(diagnostics);
    Result<Method> method = module->prepare(diagnostics);
    if (!method) return messageOf(diagnostics);
    LowerOptions options;
    options.settings.verify = true;
    // Weights that scales are folded into are rounded anew; all else keeps every bit.
    options.query = options.query.excluding({"fold_batch_norms", "fold_factors", "fold_terms", "fold_parallel_layers"});
    std::string error;
    for (int sample = 0; sample < 3; ++sample) {
      std::optional<std::vector<IValue>> first = inputs(*method, sample, error),
                                         second = inputs(*method, sample, error);
      if (!first || !second) return error;
      std::optional<std::vector<IValue>> before = run(*module, *first, error);
      if (!before) continue;
      Result<Module> lowered = module->lowered(options, diagnostics);
      EXPECT_TRUE(lowered.ok()) << renderDiagnostics(diagnostics, "test");
      if (!lowered) return "";
      std::optional<std::vector<IValue>> after = run(*lowered, *second, error);
      EXPECT_TRUE(after.has_value()) << error;
      if (!after) return "";
      for (const auto& m : {compareResults(*before, *after, {0, 0}), compareResults(*first, *second, {0, 0})})
        EXPECT_FALSE(m) << m->text();
      checkEngines(*module, *method, sample, *before);
      checkSizes(*module, *method, sample);
      return "";
    }
    return error;
  }

 private:
  // The same on engines, but for roundings.
  void checkEngines(const Module& module, const Method& method, int sample, const std::vector<IValue>& expected) {
    Diagnostics diagnostics;
    CompileSpec spec;
    spec.minBlockSize = 1;
    Result<Module> compiled = module.compiled(spec, diagnostics);
    ASSERT_TRUE(compiled.ok()) << renderDiagnostics(diagnostics, "test");
    forEachNode(*compiled->graph(), [&](const Node* n) {
      engines_ += n->kind() == sym::Engine;
      enginesInside_ += n->kind() == sym::Engine && n->block()->owner();
    });
    std::string error;
    std::optional<std::vector<IValue>> own = inputs(method, sample, error), got = run(*compiled, *own, error);
    ASSERT_TRUE(got.has_value()) << error;
    std::optional<RewriteMismatch> m = compareResults(expected, *got, {1e-3, 1e-4});
    EXPECT_FALSE(m) << m->text();
  }

  // What is told of each value's sizes with open ones among the inputs is what runs give, with more rows and fewer too.
  void checkSizes(const Module& module, const Method& method, int sample) {
    Diagnostics diagnostics;
    LowerOptions options;
    options.forgetSizes = true;
    Result<Module> lowered = module.lowered(options, diagnostics);
    ASSERT_TRUE(lowered.ok()) << renderDiagnostics(diagnostics, "test");
    std::unique_ptr<Graph> graph = cloneGraph(*lowered->graph());
    std::string error;
    std::optional<std::vector<IValue>> given = inputs(method, sample, error);
    if (!given || given->size() != graph->inputs().size()) return;
    returnEverything(*graph);
    ShapePropagation told(*graph, lowered->registry(), knownInputs(*graph, *given, Knowledge::Ranks));
    Result<std::shared_ptr<const Program>> program = Program::compile(*graph, lowered->registry(), {}, diagnostics);
    ASSERT_TRUE(program.ok()) << renderDiagnostics(diagnostics, "test");
    for (int64_t rows : {0, 1, 2, 5}) {
      std::vector<IValue> sized = *given;
      for (IValue& v : sized)
        if (rows && v.isTensor() && v.toTensor().rank() > 0 && v.toTensor().size(0) > 0)
          v = IValue(withRows(v.toTensor(), rows));
      RunOptions quiet;
      quiet.print = quiet.warn = [](std::string_view) {};
      Diagnostics failures;
      Result<std::vector<IValue>> results = (*program)->run(sized, quiet, failures);
      if (!results) continue;
      EXPECT_EQ(wrongShapes(*graph, told, sized, *results), "");
      ++sizedRuns_;
    }
  }

  // The first row so many times.
  static Tensor withRows(const Tensor& t, int64_t rows) {
    Dims sizes(t.sizes()), strides(t.strides());
    sizes[0] = rows;
    strides[0] = 0;
    return contiguous(t.withGeometry(sizes, strides, t.offset()));
  }

  Result<Module> load(Diagnostics& diagnostics) {
    Result<Module> bare = Module::fromText(text_, name_, {}, diagnostics);
    if (!bare) return bare;
    std::map<std::string, std::string> recipe;
    addRecipe(*bare->graph(), recipe);
    if (auto own = kWeights.find(model_); own != kWeights.end())
      for (const auto& [name, sizes] : own->second) recipe[name] = sizes + ":f32:uniform(0.5, 1, seed=1)";
    if (fs::path frozen = corpus() / ((model_ == "legacy_lenet" ? "lenet" : model_) + ".frozen.ir");
        name_ != frozen.filename() && fs::exists(frozen)) {
      Result<Module> sibling = Module::fromText(readText(frozen), "frozen", {}, diagnostics);
      if (sibling) addRecipe(*sibling->graph(), recipe);
    }
    std::string lines;
    for (const auto& [name, tensor] : recipe) lines += name + " = " + tensor + "\n";
    writeText(folder_ / "made.weights", lines);
    LoadOptions options;
    options.weights = {folder_ / "made.weights"};
    return Module::fromText(text_, name_, options, diagnostics);
  }

  std::optional<std::vector<IValue>> inputs(const Method& method, int sample, std::string& error) const {
    std::vector<IValue> out;
    Graph types;
    auto own = kInputs.find(name_);
    auto first = kFirstInput.find(model_);
    for (const ValueInfo& i : method.inputs()) {
      std::string text;
      if (own != kInputs.end() && own->second.contains(i.name)) text = own->second.at(i.name);
      if (text.empty() && out.empty() && first != kFirstInput.end()) text = first->second;
      types.addInput(i.type);
      Diagnostics diagnostics;
      if (!text.empty()) {
        Result<IValue> v = parseValueText(text, i.name, diagnostics, i.type, Limits());
        if (!v) {
          error = i.name + ": " + messageOf(diagnostics);
          return std::nullopt;
        }
        out.push_back(*v);
        continue;
      }
      Graph one;
      one.addInput(i.type);
      std::optional<std::vector<IValue>> made = sampleInputs(one, sample);
      if (!made) {
        error = "no input of type " + typeText(i.type);
        return std::nullopt;
      }
      out.push_back(made->back());
    }
    return out;
  }

  static std::optional<std::vector<IValue>> run(const Module& module, const std::vector<IValue>& inputs,
                                                std::string& error) {
    Diagnostics diagnostics;
    RunOptions options;
    options.timeLimit = std::chrono::seconds(60);
    options.print = options.warn = [](std::string_view) {};
    Result<std::vector<IValue>> r = module.forward(inputs, diagnostics, options);
    if (r) return *r;
    error = messageOf(diagnostics);
    return std::nullopt;
  }

  std::string name_, text_, model_;
  TemporaryFolder folder_;

 public:
  static inline size_t engines_ = 0, enginesInside_ = 0;  // of all texts; the latter in branches and loops
  static inline size_t sizedRuns_ = 0;
};

}  // namespace

TEST(CorpusLowering, GivesTheSameResults) {
  std::vector<fs::path> files;
  for (const auto& e : fs::directory_iterator(corpus()))
    if (e.path().extension() == ".ir") files.push_back(e.path());
  std::sort(files.begin(), files.end());
  ASSERT_FALSE(files.empty());
  size_t run = 0;
  for (const fs::path& f : files) {
    SCOPED_TRACE(f.filename());
    std::string why = Case(f).check();
    run += why.empty();
    auto listed = kDoesNotRun.find(f.filename());
    if (listed == kDoesNotRun.end()) {
      EXPECT_EQ(why, "") << "does not run";
    } else {
      EXPECT_NE(why, "") << "runs, though it is listed";
      EXPECT_NE(why.find(listed->second), std::string::npos) << why << "\n  is not the reason that is listed";
    }
  }
  EXPECT_EQ(run + kDoesNotRun.size(), files.size());
  EXPECT_GT(Case::engines_, 40u);
  EXPECT_GT(Case::enginesInside_, 4u);
  EXPECT_GT(Case::sizedRuns_, 60u);
}

}  // namespace tscompile::test
