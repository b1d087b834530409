// Built-in plugins against cases that tests/tools/make_plugin_cases.py computed: kernel and decomposition, for every
// number of threads. TSCOMPILE_PLUGIN_CASES: another folder of cases.
#include "api/extensions.h"
#include "api/module.h"
#include "ir/error.h"
#include "runtime/plugin/plugin_composite.h"
#include "runtime/plugin/plugin_instance.h"
#include "runtime/plugin/plugin_registry.h"
#include "tests/support/json.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace tscompile::test {
namespace {

Tensor tensorOf(const Json& j) {
  Dims sizes;
  for (const Json& s : j["shape"].items) sizes.push_back(static_cast<int64_t>(s.number));
  Tensor t = Tensor::empty(*dtypeFromName(j["dtype"].text), sizes);
  for (int64_t i = 0; i < t.numel(); ++i) {
    double v = j["data"][static_cast<size_t>(i)].number;
    visitDType(t.dtype(), [&]<class T>(T) {
      if constexpr (requires { T(1.0f); }) t.data<T>()[i] = std::is_integral_v<T> ? T(v) : T(static_cast<float>(v));
    });
  }
  return t;
}

double numberAt(const Tensor& t, int64_t i) {
  double v = 0;
  visitDType(t.dtype(), [&]<class T>(T) {
    if constexpr (requires(T x) { static_cast<float>(x); }) v = static_cast<double>(static_cast<float>(t.data<T>()[i]));
    if constexpr (std::is_integral_v<T>) v = static_cast<double>(t.data<T>()[i]);
  });
  return v;
}

tsc::Field fieldOf(const tsc_field_info& info, const Json& j) {
  tsc::Field f{std::string(tsc::view(info.name)), static_cast<tsc_field_type>(info.type),
               (info.flags & TSC_FIELD_LIST) != 0};
  for (const Json& v : j.kind == Json::Kind::Array ? j.items : std::vector<Json>{j}) {
    if (f.type == TSC_BOOL) f.bytes.push_back(v.boolean);
    if (f.type == TSC_INT) f.integers.push_back(static_cast<int64_t>(v.number));
    if (f.type == TSC_FLOAT) f.numbers.push_back(v.number);
    if (f.type == TSC_STRING) f.strings.push_back(v.text);
  }
  return f;
}

// A call of a plugin, with what it must give.
class PluginCase {
 public:
  explicit PluginCase(const Json& j) : json_(j) {}

  // "" if the kernel and the decomposition give it, else what is wrong.
  std::string check() {
    PluginCreatorPtr creator = PluginRegistry::global().find("tensorrt_llm", json_["plugin"].text);
    if (!creator) return "there is no such plugin";
    std::vector<tsc::Field> fields;
    size_t known = 0;
    for (const tsc_field_info& info : creator->fields())
      if (std::string name(tsc::view(info.name)); json_["fields"].has(name)) {
        fields.push_back(fieldOf(info, json_["fields"][name]));
        ++known;
      }
    if (known != json_["fields"].fields.size()) return "a field is not in the table";
    ParsedFields parsed = completeFields(std::move(fields), *creator);
    if (!parsed.problems.empty()) return parsed.problems[0];
    std::string problem;
    plugin_ = PluginInstance::create(creator, std::move(parsed.fields), TSC_BUILDING, "case", problem);
    if (!plugin_) return problem;
    size_t given = 0;
    for (const tsc_port& p : creator->inputs()) {
      std::string name(tsc::view(p.name));
      PluginInstance::Input in;
      Tensor t;
      if (json_["inputs"].has(name)) {
        t = tensorOf(json_["inputs"][name]);
        in.dtype = static_cast<int32_t>(t.dtype());
        in.sizes = Dims(t.sizes());
        for (int64_t i = 0; (p.flags & TSC_PORT_HOST) && i < t.numel(); ++i) in.elements.push_back(t.integer(i));
        in.elementsKnown = p.flags & TSC_PORT_HOST;
        ++given;
      }
      inputs_.push_back(t);
      described_.push_back(std::move(in));
    }
    if (given != json_["inputs"].fields.size()) return "an input is not in the table";
    try {
      return checkRuns();
    } catch (const ExecutionError& e) {
      return e.message();
    }
  }

 private:
  std::string checkRuns() {
    PluginTensors one = run(1), four = run(4);
    for (size_t o = 0; o < one.size(); ++o)
      if (std::memcmp(one[o].raw(), four[o].raw(), static_cast<size_t>(one[o].numel()) * itemSize(one[o].dtype())))
        return "another number of threads gives other bits";
    if (std::string wrong = compare(one); !wrong.empty()) return "kernel: " + wrong;
    std::string problem, text = plugin_->decomposition(described_);
    if (json_["kernel_only"].boolean) return "";
    if (text.empty()) return "it has no decomposition";
    std::shared_ptr<const PluginComposite> composite = PluginComposite::make(text, problem);
    if (!composite) return problem + "\n" + text;
    std::vector<Tensor> present;
    for (const Tensor& t : copies())
      if (t.defined()) present.push_back(t);
    PluginTensors outputs = room({});
    PluginRun run;
    run.rows.assign(outputs.size(), -1);
    composite->run(present, outputs, run);
    std::string wrong = compare(trimmed(outputs, run.rows));
    return wrong.empty() ? "" : "decomposition: " + wrong + "\n" + text;
  }

  // Plugins write over inputs.
  PluginTensors copies() const {
    PluginTensors out;
    for (const Tensor& t : inputs_) {
      Tensor copy = t.defined() ? Tensor::empty(t.dtype(), t.sizes()) : Tensor();
      if (t.defined() && t.numel())
        std::memcpy(copy.raw(), t.raw(), static_cast<size_t>(t.numel()) * itemSize(t.dtype()));
      out.push_back(copy);
    }
    return out;
  }
  PluginTensors room(const PluginTensors& inputs) const {
    PluginTensors out;
    for (const TensorSpec& s : plugin_->infer(described_)) {
      int alias = plugin_->alias(out.size());
      bool isOver = alias >= 0 && !inputs.empty() && inputs[static_cast<size_t>(alias)].defined();
      out.push_back(isOver ? inputs[static_cast<size_t>(alias)] : Tensor::empty(s.dtype, s.sizes));
    }
    return out;
  }
  static PluginTensors trimmed(PluginTensors outputs, const std::vector<int64_t>& rows) {
    for (size_t o = 0; o < outputs.size(); ++o) {
      if (rows[o] < 0) continue;
      Dims sizes(outputs[o].sizes());
      sizes[0] = rows[o];
      outputs[o] = outputs[o].withGeometry(sizes, contiguousStrides(sizes), outputs[o].offset());
    }
    return outputs;
  }
  PluginTensors run(int threads) const {
    PluginTensors in = copies(), out = room(in);
    std::vector<int64_t> rows;
    plugin_->run(in, out, nullptr, threads, &rows);
    return trimmed(std::move(out), rows);
  }

  std::string compare(const PluginTensors& outputs) const {
    const std::vector<Json>& expected = json_["outputs"].items;
    if (outputs.size() != expected.size()) return "it has " + std::to_string(outputs.size()) + " outputs";
    for (size_t o = 0; o < outputs.size(); ++o) {
      Tensor want = tensorOf(expected[o]);
      const Tensor& got = outputs[o];
      std::string name = "output " + std::to_string(o);
      if (want.dtype() != got.dtype()) return name + " has another type";
      if (!std::equal(want.sizes().begin(), want.sizes().end(), got.sizes().begin(), got.sizes().end()))
        return name + " has other sizes";
      double most = want.dtype() == DType::BFloat16 ? 1e-2 : want.dtype() == DType::Float16 ? 2e-3 : 2e-5;
      if (json_["tolerance"].has("rtol")) most = json_["tolerance"]["rtol"].number;
      if (!isFloating(want.dtype())) most = 0;
      double largest = 1;
      for (int64_t i = 0; i < want.numel(); ++i) largest = std::max(largest, std::abs(numberAt(want, i)));
      for (int64_t i = 0; i < want.numel(); ++i) {
        double w = numberAt(want, i), g = numberAt(got, i);
        if (!(std::abs(w - g) <= most * largest) && !(std::isnan(w) && std::isnan(g)))
          return name + "[" + std::to_string(i) + "] is " + std::to_string(g) + ", expected " + std::to_string(w);
      }
    }
    return "";
  }

  const Json& json_;
  std::shared_ptr<PluginInstance> plugin_;
  PluginTensors inputs_;
  std::vector<PluginInstance::Input> described_;
};

TEST(PluginCases, AreWhatTheFormulasGive) {
  const char* given = std::getenv("TSCOMPILE_PLUGIN_CASES");
  std::string folder = given ? given : std::string(TSCOMPILE_TESTS_DIR) + "/data/plugins/cases";
  size_t files = 0, cases = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".jsonl") continue;
    std::ifstream file(entry.path());
    ++files;
    std::string line;
    int wrong = 0;
    for (int number = 1; std::getline(file, line) && wrong < 3; ++number) {
      Json j = parseJson(line);
      ASSERT_EQ(j.kind, Json::Kind::Object) << entry.path() << ":" << number;
      std::string problem = PluginCase(j).check();
      wrong += !problem.empty();
      EXPECT_EQ(problem, "") << entry.path() << ":" << number;
      ++cases;
    }
  }
  if (!given) EXPECT_GE(files, 13u);
  RecordProperty("cases", static_cast<int>(cases));
}

// Plugins with fields and sizes that do not fit.
TEST(PluginCases, SayWhatIsWrong) {
  struct Wrong {
    const char *inputs, *node, *message;
  };
  constexpr const char* kExperts = "%x : Float(5, 4), %s : Float(5, 3), %u : Float(3, 12, 4), %d : Float(3, 4, 6)";
  const Wrong all[] = {
      {"%x : Int(3), %w : Char(5, 4)", "%y : Tensor = tensorrt_llm::Lookup(%x, %w)",
       "int8 weights need the input per_token_scale"},
      {"%x : Float(2, 3)", "%y : Tensor, %i : Tensor = tensorrt_llm::TopkLastDim[k=4](%x)",
       "k is 4, and the last size of x only 3"},
      {"%x : Float(2, 3)", "%y : Tensor = tensorrt_llm::CumsumLastDim[input_length=4](%x)",
       "the last size of x is 3, expected 4"},
      {"%x : Float(2, 5, 4), %s : Float(2, 2, 4), %w : Float(1, 4, 4)",
       "%y : Tensor, %n : Tensor = tensorrt_llm::MambaConv1d[dim=4, dconv=3](%x, %s, %w)",
       "size 1 of weight is 4, expected 3"},
      {"%x : Float(5, 4), %s : Float(2, 2, 4), %w : Float(1, 3, 4)",
       "%y : Tensor, %n : Tensor = tensorrt_llm::MambaConv1d[dim=4, dconv=3, remove_input_padding=1](%x, %s, %w)",
       "remove_input_padding needs the input last_token_ids"},
      {"%x : Float(2, 3, 4), %h : Float(2, 2, 4)",
       "%y : Tensor, %n : Tensor = tensorrt_llm::SelectiveScan[dim=4, dstate=2, nheads=3, is_mamba2=1, "
       "inputs=[\"input_tensor\", \"state\", \"delta\", \"A\", \"BC\"]](%x, %h, %x, %h, "
       "%x)",
       "dim must be a multiple of nheads"},
      {kExperts,
       "%y : Tensor = tensorrt_llm::MixtureOfExperts[number_of_experts=3, expert_hidden_size=4, expert_inter_size=6, "
       "experts_per_token=4](%x, %s, %u, %d)",
       "experts_per_token is 4, and there are 3 experts"},
      {kExperts,
       "%y : Tensor = tensorrt_llm::MixtureOfExperts[number_of_experts=3, expert_hidden_size=4, expert_inter_size=6, "
       "normalization_mode=\"sparse_mixer\"](%x, %s, %u, %d)",
       "normalization_mode sparse_mixer is not implemented"},
      {kExperts,
       "%y : Tensor = tensorrt_llm::MixtureOfExperts[number_of_experts=3, expert_hidden_size=4, expert_inter_size=6, "
       "activation_type=\"relu\"](%x, %s, %u, %d)",
       "size 1 of expert_weights_1 is 12, expected 6"},
      {"%x : Float(2, 3, 4), %r : Int(2, 1), %a : Float(2, 1, 2, 4), %b : Float(2, 5, 2)",
       "%y : Tensor = tensorrt_llm::Lora[in_hidden_size=4, out_hidden_sizes=[5, 2], max_low_rank=2](%x, %x, %r, %a, "
       "%b)",
       "out_hidden_sizes has 2 numbers, and num_lora_modules is 1"},
      {"%x : Float(2, 3, 4), %a : Float(4), %h : Float(2, 4)",
       "%y : Tensor, %n : Tensor = tensorrt_llm::LRU[dim=4, block_size=2](%x, %a, %h)",
       "with these fields, the input y is missing"},
      {"%x : Float(3, 4)", "%y : Tensor = tensorrt_llm::ReduceScatter[group=[0, 1]](%x)",
       "x has 3 rows, which 2 shards cannot share"},
      {"%l : Float(1, 9), %p : Int(1, 1, 2), %d : Int(1, 1)",
       "%y : Tensor, %n : Tensor = tensorrt_llm::EagleDecodeDraftTokens[use_dynamic_tree=1](%l, %p, %d)",
       "use_dynamic_tree is not implemented"},
  };
  for (const Wrong& w : all) {
    Diagnostics diagnostics;
    LoadOptions options;
    options.extensions = std::make_shared<Extensions>();
    std::string text = std::string("graph(") + w.inputs + "):\n  " + w.node + "\n  return (%y)\n";
    Result<Module> m = Module::fromText(text, "test", options, diagnostics);
    ASSERT_TRUE(m) << text;
    std::vector<IValue> inputs;
    for (const Value* v : m->graph()->inputs())
      inputs.emplace_back(Tensor::zeros(v->type()->tensor().dtype, v->type()->tensor().sizes));
    EXPECT_FALSE(m->forward(inputs, diagnostics)) << text;
    ASSERT_FALSE(diagnostics.list().empty()) << text;
    EXPECT_NE(diagnostics.list()[0].message.find(w.message), std::string::npos) << diagnostics.list()[0].message << "\n"
                                                                                << w.message;
  }
}

}  // namespace
}  // namespace tscompile::test
