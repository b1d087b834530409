// Built-in plugins against results of PyTorch and numpy (tests/tools/plugin_goldens.py), as kernels and as the graphs
// that they decompose into, in the interpreter and in engines.
#include "api/compile.h"
#include "api/extensions.h"
#include "api/module.h"
#include "runtime/plugin/plugin_composite.h"
#include "runtime/plugin/plugin_instance.h"
#include "runtime/registry.h"
#include "tests/support/json.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <set>

namespace tscompile::test {
namespace {

// The folder with the cases: those of the repository, or many more.
std::string folder() {
  const char* other = std::getenv("TSCOMPILE_PLUGIN_GOLDENS");
  return other ? other : std::string(TSCOMPILE_TESTS_DIR) + "/data/plugins";
}

std::vector<std::string> pluginFiles() {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder()))
    if (entry.path().extension() == ".json") names.insert(entry.path().stem().string());
  return {names.begin(), names.end()};
}

double numberOf(const Json& j) {
  if (j.kind == Json::Kind::Number) return j.number;
  return j.text == "nan" ? NAN : j.text == "inf" ? INFINITY : -INFINITY;
}

DType dtypeOf(const std::string& name) {
  for (DType d : {DType::Float32, DType::Float16, DType::BFloat16, DType::Float64, DType::Int8, DType::UInt8,
                  DType::Int32, DType::Int64, DType::Bool})
    if (name == pythonName(d)) return d;
  ADD_FAILURE() << "no type " << name;
  return DType::Float32;
}

Tensor tensorOf(const Json& j) {
  Dims sizes;
  for (const Json& s : j["sizes"].items) sizes.push_back(static_cast<int64_t>(s.number));
  Tensor t = Tensor::empty(dtypeOf(j["dtype"].text), sizes);
  const auto& values = j["values"].items;
  EXPECT_EQ(static_cast<int64_t>(values.size()), t.numel());
  for (size_t i = 0; i < values.size(); ++i)
    visitDType(t.dtype(), [&]<class T>(T) {
      if constexpr (std::is_arithmetic_v<T>)
        t.data<T>()[i] = static_cast<T>(numberOf(values[i]));
      else if constexpr (requires { T(1.0f); })
        t.data<T>()[i] = T(static_cast<float>(numberOf(values[i])));
    });
  return t;
}

double elementOf(const Tensor& t, int64_t i) {
  double value = 0;
  visitDType(t.dtype(), [&]<class T>(T) {
    if constexpr (std::is_arithmetic_v<T>)
      value = static_cast<double>(t.data<T>()[i]);
    else if constexpr (requires(T v) { static_cast<float>(v); })
      value = static_cast<double>(static_cast<float>(t.data<T>()[i]));
  });
  return value;
}

// "" if they are equal up to the tolerance, which is relative to 1 + the largest number; integers up to `slack`.
std::string difference(const Tensor& got, const Tensor& want, double tolerance, double slack) {
  if (got.dtype() != want.dtype()) return "the type is " + std::string(pythonName(got.dtype()));
  if (!std::equal(got.sizes().begin(), got.sizes().end(), want.sizes().begin(), want.sizes().end()))
    return "the sizes are others";
  double largest = 0;
  for (int64_t i = 0; i < want.numel(); ++i)
    if (std::isfinite(elementOf(want, i))) largest = std::max(largest, std::fabs(elementOf(want, i)));
  double allowed = kFloatingTypes.contains(want.dtype()) ? tolerance * (1 + largest) : slack;
  for (int64_t i = 0; i < want.numel(); ++i) {
    double a = elementOf(got, i), b = elementOf(want, i);
    if ((std::isnan(a) && std::isnan(b)) || a == b || std::fabs(a - b) <= allowed) continue;
    return "element " + std::to_string(i) + " is " + std::to_string(a) + ", expected " + std::to_string(b);
  }
  return "";
}

std::string firstError(const Diagnostics& diagnostics) {
  for (const Diagnostic& d : diagnostics.list())
    if (d.severity == Severity::Error) return d.message;
  return "no error";
}

class GoldenCase {
 public:
  explicit GoldenCase(const Json& j) : json_(j) {
    for (const Json& t : j["outputs"].items) wanted_.push_back(tensorOf(t));
  }

  void check() {
    SCOPED_TRACE(json_["graph"].text);
    Diagnostics diagnostics;
    auto module = load(diagnostics);
    ASSERT_TRUE(module) << firstError(diagnostics);
    std::vector<IValue> first;
    for (int threads : {1, 4}) {
      RunOptions run;
      run.threads = threads;
      auto out = module->forward(arguments(), diagnostics, run);
      ASSERT_TRUE(out) << firstError(diagnostics);
      compare(*out, threads == 1 ? "as a kernel" : "on four threads");
      if (threads == 1) first = *out;
      for (size_t i = 0; i < out->size(); ++i)
        EXPECT_EQ(bytesOf((*out)[i].toTensor()), bytesOf(first[i].toTensor())) << "other bits on other threads";
    }
    decomposed(*module);
  }
  void checkEngine() {
    SCOPED_TRACE(json_["graph"].text);
    Diagnostics diagnostics;
    auto module = load(diagnostics);
    ASSERT_TRUE(module) << firstError(diagnostics);
    CompileSpec spec;
    spec.minBlockSize = 1;
    auto engine = compile(*module, spec, diagnostics);
    ASSERT_TRUE(engine) << firstError(diagnostics);
    auto out = engine->forward(arguments(), diagnostics);
    ASSERT_TRUE(out) << firstError(diagnostics);
    compare(*out, "in an engine");
  }

 private:
  Result<Module> load(Diagnostics& diagnostics) const {
    LoadOptions options;
    options.extensions = extensions_;
    return Module::fromText(json_["graph"].text, "case", options, diagnostics);
  }
  // Copies: plugins write over inputs.
  std::vector<IValue> arguments() const {
    std::vector<IValue> out;
    for (const Json& t : json_["inputs"].items) out.emplace_back(tensorOf(t));
    return out;
  }
  static std::string bytesOf(const Tensor& t) {
    return {reinterpret_cast<const char*>(t.raw()), static_cast<size_t>(t.numel()) * itemSize(t.dtype())};
  }
  void compare(const std::vector<IValue>& out, const char* how) {
    ASSERT_EQ(out.size(), wanted_.size()) << how;
    for (size_t i = 0; i < out.size(); ++i)
      EXPECT_EQ(difference(out[i].toTensor(), wanted_[i], json_["tolerances"][i].number,
                           json_.has("slack") ? json_["slack"].number : 0),
                "")
          << how << ", output " << i;
  }

  void decomposed(const Module& module) {
    const Node* node = nullptr;
    for (const Node* n : module.graph()->block()->nodes())
      if (n->kind().nameSpace() == "tensorrt_llm") node = n;
    ASSERT_TRUE(node);
    PluginOperators operators(allPlugins(), extensions_->registry());
    OperatorProblem refused;
    auto instance = operators.instanceOf(*node, &refused);
    ASSERT_TRUE(instance) << refused.text;
    std::string problem;
    std::vector<int> places = PluginOperators::inputsOf(*node, instance->creator(), problem);
    std::vector<PluginInstance::Input> described(places.size());
    std::vector<Tensor> present, results;
    std::vector<IValue> given = arguments();
    for (size_t i = 0; i < places.size(); ++i) {
      if (places[i] < 0) continue;
      Tensor t = given[static_cast<size_t>(places[i])].toTensor();
      described[i] = {static_cast<int32_t>(t.dtype()), Dims(static_cast<size_t>(t.rank()), kUnknownSize), {}, false};
      present.push_back(t);
    }
    std::string text = instance->decomposition(described);
    ASSERT_EQ(text.empty(), json_["kernel_only"].boolean) << "whether there is a decomposition";
    if (text.empty()) return;
    auto composite = PluginComposite::make(text, allOps(), problem);
    ASSERT_TRUE(composite) << problem << "\n" << text;
    for (const Tensor& t : wanted_) results.push_back(Tensor::empty(t.dtype(), t.sizes()));
    PluginRun run;
    try {
      composite->run(present, results, run);
    } catch (const ExecutionError& e) {
      FAIL() << e.message() << "\n" << text;
    }
    compare(std::vector<IValue>(results.begin(), results.end()), "decomposed");
  }

  const Json& json_;
  std::vector<Tensor> wanted_;
  std::shared_ptr<Extensions> extensions_ = std::make_shared<Extensions>();
};

class PluginGolden : public testing::TestWithParam<std::string> {};

TEST_P(PluginGolden, EqualsPyTorch) {
  Json file = readJson(folder() + "/" + GetParam() + ".json");
  ASSERT_FALSE(file.isNull());
  ASSERT_GT(file["cases"].size(), 0u);
  size_t failures = 0;
  for (size_t i = 0; i < file["cases"].size() && failures < 3; ++i) {
    SCOPED_TRACE("case " + std::to_string(i));
    GoldenCase c(file["cases"][i]);
    c.check();
    if (i % 8 == 0) c.checkEngine();
    if (::testing::Test::HasFailure()) ++failures;
  }
}

INSTANTIATE_TEST_SUITE_P(All, PluginGolden, testing::ValuesIn(pluginFiles()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace tscompile::test
