#include "api/lower.h"

#include "api/value_text.h"
#include "tests/support/module_checks.h"
#include "tests/support/text_file.h"

#include <filesystem>

namespace tscompile::test {
namespace {

Module loaded(const std::string& text, const std::vector<std::string>& weights = {}) {
  Diagnostics diagnostics;
  LoadOptions options;
  options.weights = weights;
  Result<Module> m = Module::fromText(text, "model.ir", options, diagnostics);
  EXPECT_TRUE(m.ok()) << renderDiagnostics(diagnostics, "test") << text;
  return m ? *m : Module();
}

Module loweredOf(const Module& m, const std::string& method = "forward") {
  Diagnostics diagnostics;
  LowerOptions options;
  options.method = method;
  options.query = Query().including({"inline_calls", "freeze", "fold_constants"});
  Result<Module> l = m.lowered(options, diagnostics);
  EXPECT_TRUE(l.ok()) << renderDiagnostics(diagnostics, "test");
  return l ? *l : Module();
}

// The results in full, or the reports.
std::string shownRun(const Module& m, const std::vector<IValue>& inputs, const std::string& method = "forward") {
  Diagnostics diagnostics;
  Result<Method> prepared = m.prepare(diagnostics, method);
  if (!prepared) return renderDiagnostics(diagnostics, "test");
  Result<std::vector<IValue>> results = prepared->run(inputs, diagnostics);
  if (!results) return renderDiagnostics(diagnostics, "test");
  std::string out;
  for (const IValue& v : *results) out += valueToText(v) + "\n";
  return out;
}

// The module behind the files that a lowered module was written to.
class Written {
 public:
  explicit Written(const Module& lowered) {
    Diagnostics diagnostics;
    EXPECT_TRUE(lowered.write(path(), diagnostics)) << renderDiagnostics(diagnostics, "test");
    std::vector<std::string> weights;
    if (hasWeights()) weights.push_back(folder_ / "out.safetensors");
    module = loaded(text(), weights);
  }
  std::string path() const { return folder_ / "out.ir"; }
  std::string text() const { return readText(path()); }
  bool hasWeights() const { return std::filesystem::exists(folder_ / "out.safetensors"); }

  Module module;

 private:
  TemporaryFolder folder_;
};

constexpr const char* kDump = R"(module __torch__.Net {
  parameters {
  }
  attributes {
    training = False
    scale = 2.5
    inner = <__torch__.Inner object at 0x1>
  }
  methods {
    method forward {
      graph(%self : __torch__.Net, %x : Tensor):
        %inner : __torch__.Inner = prim::GetAttr[name="inner"](%self)
        %y : Tensor = prim::CallMethod[name="forward"](%inner, %x)
        %s : float = prim::GetAttr[name="scale"](%self)
        %z : Tensor = aten::mul(%y, %s)
        return (%z)
  
    }
    method twice {
      graph(%self : __torch__.Net, %x : Tensor):
        %a : Tensor = prim::CallMethod[name="forward"](%self, %x)
        %b : Tensor = prim::CallMethod[name="forward"](%self, %a)
        return (%b)
  
    }
  }
  submodules {
    module __torch__.Inner {
      parameters {
        weight = ...
      }
      attributes {
        weight = ...
        count = ...
      }
      methods {
        method forward {
          graph(%self : __torch__.Inner, %x : Tensor):
            %w : Tensor = prim::GetAttr[name="weight"](%self)
            %c : Tensor = prim::GetAttr[name="count"](%self)
            %one : int = prim::Constant[value=1]()
            %d : Tensor = aten::add(%c, %one, %one)
             = prim::SetAttr[name="count"](%self, %d)
            %t : Float(12) = prim::Constant[value=<Tensor>]()
            %e : Tensor = aten::max(%t)
            %y : Tensor = aten::mul(%x, %w)
            %n : Tensor = prim::GetAttr[name="count"](%self)
            %z : Tensor = aten::add(%y, %n, %one)
            %r : Tensor = aten::add(%z, %e, %one)
            return (%r)
  
        }
      }
      submodules {
      }
    }
  }
}
)";

class Recipe {
 public:
  explicit Recipe(const std::string& text) { writeText(path(), text); }
  std::string path() const { return folder_ / "model.weights"; }

 private:
  TemporaryFolder folder_;
};

constexpr const char* kWeights =
    "inner.weight = 3:f32=[0.1 -0.7 3]\ninner.count = 1:f32=[5]\n__torch__.Inner.forward:t = 12:f32:randn(seed=1)\n";

}  // namespace

TEST(Lower, AMethodAndAllThatItCallsIsOneGraph) {
  Recipe recipe(kWeights);
  Module m = loaded(kDump, {recipe.path()});
  for (const char* method : {"forward", "twice"}) {
    Module l = loweredOf(m, method);
    std::string text = graphText(*l.graph());
    EXPECT_EQ(text.find("CallMethod"), std::string::npos) << text;
    EXPECT_EQ(text.find("\"weight\""), std::string::npos) << text;
    EXPECT_NE(text.find("prim::SetAttr[name=\"count\"]"), std::string::npos) << text;
    std::string expected = shownRun(m, {floats({1, 2, 3})}, method);
    EXPECT_EQ(shownRun(l, {floats({1, 2, 3})}), expected) << text;
    Written w(l);
    EXPECT_EQ(shownRun(w.module, {floats({1, 2, 3})}), expected) << w.text();
    // Lowering again changes nothing.
    EXPECT_EQ(graphText(*loweredOf(l).graph()), text);
    EXPECT_EQ(graphText(*loweredOf(w.module).graph()), text);
  }
}

TEST(Lower, WithoutWeightsTheirAttributesStay) {
  Module l = loweredOf(loaded(kDump));
  std::string text = graphText(*l.graph());
  EXPECT_NE(text.find("prim::GetAttr[name=\"weight\"](%inner)"), std::string::npos) << text;
  EXPECT_NE(text.find("prim::Constant[value=2.5]"), std::string::npos) << text;
  Module plain = loweredOf(loaded(R"(graph(%self : __torch__.Net, %x : Tensor):
  %w : Tensor = prim::GetAttr[name="w"](%self)
  %y : Tensor = aten::mul(%x, %w)
  return (%y)
)"));
  EXPECT_NE(shownRun(plain, {floats({1})}).find("weight 'w' was not supplied"), std::string::npos);
}

TEST(Lower, TellsWhatIsWrong) {
  Diagnostics diagnostics;
  LowerOptions options;
  options.method = "backward";
  EXPECT_FALSE(loaded(kDump).lowered(options, diagnostics).ok());
  EXPECT_NE(renderDiagnostics(diagnostics, "test").find("there is no method 'backward'"), std::string::npos);
}

TEST(Lower, AModuleOutlivesTheOneItWasMadeFrom) {
  Module l;
  {
    Recipe recipe(kWeights);
    l = loweredOf(loaded(kDump, {recipe.path()}));
  }
  EXPECT_EQ(shownRun(l, {floats({1, 2, 3})}).substr(0, 6), "3:f32=");
}

// ---- written pairs ----

namespace {

// A graph that returns constants, which hold these values.
std::unique_ptr<Graph> graphOfConstants(const std::vector<std::pair<std::string, IValue>>& values) {
  auto graph = std::make_unique<Graph>();
  Builder b(*graph);
  for (const auto& [name, value] : values) {
    Value* v = b.constant(value);
    if (!name.empty()) v->setName(name);
    graph->addOutput(v);
  }
  return graph;
}

// Writes it, reads it, and compares all values to the last bit.
void expectKept(const std::vector<std::pair<std::string, IValue>>& values, bool needsWeights) {
  std::unique_ptr<Graph> graph = graphOfConstants(values);
  TemporaryFolder folder;
  Diagnostics diagnostics;
  std::string path = folder / "out.ir", weights = folder / "out.safetensors";
  ASSERT_TRUE(writeGraphWithWeights(*graph, nullptr, path, diagnostics)) << renderDiagnostics(diagnostics, "test");
  EXPECT_EQ(std::filesystem::exists(weights), needsWeights) << readText(path);
  LoadOptions options;
  if (needsWeights) options.weights.push_back(weights);
  Result<Module> m = Module::load(path, options, diagnostics);
  ASSERT_TRUE(m.ok()) << renderDiagnostics(diagnostics, "test");
  Result<std::vector<IValue>> results = m->forward({}, diagnostics);
  ASSERT_TRUE(results.ok()) << renderDiagnostics(diagnostics, "test") << readText(path);
  EXPECT_EQ(diagnostics.warningCount(), 0u) << renderDiagnostics(diagnostics, "test");
  EXPECT_TRUE(m->unusedWeights().empty());
  ASSERT_EQ(results->size(), values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(valueToText((*results)[i]), valueToText(values[i].second)) << readText(path);
    if (!values[i].second.isTensor()) continue;
    EXPECT_EQ(dimsText((*results)[i].toTensor().strides()), dimsText(values[i].second.toTensor().strides()));
  }
}

Tensor ofDType(DType dtype, std::initializer_list<int64_t> sizes, uint8_t step) {
  std::vector<int64_t> s(sizes);
  Tensor t = Tensor::empty(dtype, s);
  size_t bytes = static_cast<size_t>(t.numel()) * itemSize(dtype);
  for (size_t i = 0; i < bytes; ++i)
    t.raw()[i] = static_cast<std::byte>(dtype == DType::Bool ? i % 2 : (i * step + 3) % 120);
  return t;
}

}  // namespace

TEST(WriteGraph, WhatTheTextSaysNeedsNoWeights) {
  expectKept({{"a", IValue(floats({1, 2, 3}))},
              {"b", IValue(floats({}, {0.5}))},
              {"", IValue(ofDType(DType::Int64, {}, 7))},
              {"c", IValue(ofDType(DType::Bool, {2, 3}, 1))},
              {"d", IValue(0.1)},
              {"", IValue(-std::numeric_limits<double>::infinity())},
              {"e", IValue(intList(Dims{}))},
              {"f", tuple({IValue(1), IValue(true), IValue(2.5), IValue("a\"\n\xc3\xa9"), IValue()})},
              {"g", tensorList({})}},
             false);
}

TEST(WriteGraph, TensorsThatTheTextRoundsOrLeavesOut) {
  expectKept({{"tenth", IValue(floats({}, {0.1f}))},
              {"", IValue(floats({0.1f, 1.f}))},
              {"minus", IValue(floats({-0.f}))},
              {"nan", IValue(floats({NAN, -INFINITY, 1e30f}))},
              {"", IValue(ofDType(DType::Float32, {11}, 7))},
              {"none", IValue(ofDType(DType::Float32, {0, 3}, 7))},
              {"t", IValue(ofDType(DType::Float32, {3, 4}, 5).permuted(Dims{1, 0}))},
              {"small", IValue(ofDType(DType::Float32, {2, 2}, 5).permuted(Dims{1, 0}))},
              {"list", tensorList({floats({1}), floats({0.1f, 0.2f})})}},
             true);
}

TEST(WriteGraph, EveryDType) {
  for (DType d : {DType::UInt8, DType::Int8, DType::Int16, DType::Int32, DType::Int64, DType::Float16, DType::BFloat16,
                  DType::Float32, DType::Float64, DType::Complex64, DType::Complex128, DType::Bool})
    expectKept({{"x", IValue(ofDType(d, {3, 5}, 11))}, {"one", IValue(ofDType(d, {1}, 11))}}, true);
}

// A reader finds tensors by the names of values, and lists by names with numbers after them.
TEST(WriteGraph, NamesAreNotTakenForOthers) {
  Tensor big = ofDType(DType::Float32, {12}, 7), other = ofDType(DType::Float32, {12}, 9);
  expectKept({{"w", tensorList({big, other})},
              {"w.0", IValue(other)},
              {"w.2", IValue(big)},
              {"w.1", IValue(floats({1}))},
              {"v.1", IValue(other)},
              {"v", tensorList({big, big})},
              {"", IValue(big)}},
             true);
}

TEST(WriteGraph, AttributesThatAreStillRead) {
  Recipe recipe("w = 12:f32:randn(seed=1)\ninner.w = 12:f32:randn(seed=2)\n");
  Module m = loaded(R"(graph(%self : __torch__.Net, %x : Tensor):
  %inner : __torch__.Inner = prim::GetAttr[name="inner"](%self)
  %w : Tensor = prim::GetAttr[name="w"](%self)
  %v : Tensor = prim::GetAttr[name="w"](%inner)
   = prim::SetAttr[name="w"](%self, %x)
  %u : Tensor = prim::GetAttr[name="w"](%self)
  %one : int = prim::Constant[value=1]()
  %y : Tensor = aten::add(%w, %v, %one)
  %z : Tensor = aten::add(%y, %u, %one)
  return (%z)
)",
                    {recipe.path()});
  Module l = loweredOf(m);
  EXPECT_NE(graphText(*l.graph()).find("prim::GetAttr[name=\"w\"](%self)"), std::string::npos);
  EXPECT_EQ(graphText(*l.graph()).find("%inner"), std::string::npos);
  Written w(l);
  std::vector<IValue> inputs{ofDType(DType::Float32, {12}, 7)};
  EXPECT_EQ(shownRun(w.module, inputs), shownRun(m, inputs));
  EXPECT_EQ(shownRun(l, inputs), shownRun(m, inputs));
}

TEST(WriteGraph, TensorsInContainers) {
  const Tensor big = ofDType(DType::Float32, {12}, 7), other = ofDType(DType::Int64, {3}, 9);
  auto optionals = Ref<ListValue>::make(optionalType(types().tensor), std::vector<IValue>{IValue(), IValue(big)});
  auto dict = Ref<DictValue>::make(types().string, types().tensor);
  dict->set(IValue("a"), IValue(other));
  dict->set(IValue("b"), IValue(big));
  expectKept({{"t", tuple({IValue(floats({0.1f})), IValue(1)})},
              {"t.1", IValue(big)},
              {"columns", IValue(optionals)},
              {"d", IValue(dict)},
              {"deep", tuple({IValue(2), tuple({tensorList({big, other}), IValue(optionals)})})}},
             true);
}

}  // namespace tscompile::test
