// Attention becomes GPTAttention and operators again without a change of numbers, and the graphs of language models
// become those of serving.
#include "passes/serving/serving.h"

#include "api/lower.h"
#include "ir/analysis/verifier.h"
#include "ir/graph/clone.h"
#include "ir/graph/printer.h"
#include "ir/support/diagnostic_printer.h"
#include "passes/serving/attention_node.h"
#include "passes/serving/serving_passes.h"
#include "runtime/interpreter/evaluator.h"
#include "runtime/registry.h"
#include "tests/support/module_checks.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

namespace tscompile::test {
namespace {

const std::string kSamples = TSCOMPILE_SOURCE_DIR "/samples/language/";

Module loaded(const std::string& path, const std::string& weights = "") {
  Diagnostics diagnostics;
  LoadOptions options;
  if (!weights.empty()) options.weights = {weights};
  Result<Module> m = Module::load(path, options, diagnostics);
  EXPECT_TRUE(m.ok()) << renderDiagnostics(diagnostics, "test");
  return m ? *m : Module();
}

Module loweredWith(const Module& m, const Query::Tags& tags, RewriteArguments arguments = {}) {
  Diagnostics diagnostics;
  LowerOptions options;
  Query::Tags all{"default"};
  all.insert(tags.begin(), tags.end());
  options.query = Query().including(all);
  options.settings.verify = true;
  options.arguments = std::move(arguments);
  Result<Module> l = m.lowered(options, diagnostics);
  EXPECT_TRUE(l.ok()) << renderDiagnostics(diagnostics, "test");
  return l ? *l : Module();
}

size_t countOf(const Module& m) { return AttentionNode::all(*m.graph()).size(); }

Tensor places(int64_t batch, int64_t tokens, int64_t base, int64_t factor) {
  Tensor t = Tensor::empty(DType::Int64, Dims{batch, tokens});
  for (int64_t i = 0; i < batch * tokens; ++i)
    t.data<int64_t>()[i] = factor == 0 ? i % tokens : (base + i * factor) % 256;
  return t;
}

std::vector<IValue> run(const Module& m, std::vector<IValue> inputs) {
  Diagnostics diagnostics;
  Result<std::vector<IValue>> out = m.forward(inputs, diagnostics);
  EXPECT_TRUE(out.ok()) << renderDiagnostics(diagnostics, "test") << graphText(*m.graph());
  return out ? *out : std::vector<IValue>{};
}

double difference(const std::vector<IValue>& a, const std::vector<IValue>& b) {
  if (a.size() != 1 || b.size() != 1) return INFINITY;
  Tensor x = a[0].toTensor(), y = b[0].toTensor();
  if (x.numel() != y.numel() || !std::equal(x.sizes().begin(), x.sizes().end(), y.sizes().begin())) return INFINITY;
  double most = 0;
  for (int64_t i = 0; i < x.numel(); ++i) most = std::max(most, std::abs(x.real(i) - y.real(i)));
  return most;
}

std::unique_ptr<Graph> modelGraph(const std::string& name, const std::string& text = "model") {
  Module m = loaded(kSamples + name + "/" + text + ".ir", kSamples + name + "/model.weights");
  return cloneGraph(*loweredWith(m, {}).graph());
}

struct Served {
  std::unique_ptr<Graph> graph;
  Result<ServingModel> model = Failed{};
  std::string messages;
};
Served serve(std::unique_ptr<Graph> graph, const ServingOptions& options = {}) {
  Served s;
  s.graph = std::move(graph);
  Diagnostics diagnostics;
  std::unique_ptr<Evaluator> evaluator = makeEvaluator(allOps());
  s.model = prepareForServing(*s.graph, allOps(), *evaluator, options, diagnostics);
  s.messages = renderDiagnostics(diagnostics, "test");
  EXPECT_TRUE(!s.model || verify(*s.graph, allOps(), diagnostics)) << renderDiagnostics(diagnostics, "test");
  return s;
}

}  // namespace

// ---- there and back ----

struct Sample {
  const char* text;
  const char* weights;
  size_t layers;
};

class AttentionOfSamples : public testing::TestWithParam<Sample> {};

TEST_P(AttentionOfSamples, IsTheSameThereAndBack) {
  const Sample& s = GetParam();
  Module m = loaded(kSamples + s.text, kSamples + s.weights);
  EXPECT_EQ(countOf(loweredWith(m, {"plugins"})), s.layers);
  for (const Query::Tags& tags :
       {Query::Tags{"plugins"}, Query::Tags{"plugin_rotary"}, Query::Tags{"plugin_rotary", "plugin_bias"}}) {
    Module plugins = loweredWith(m, tags);
    EXPECT_EQ(countOf(plugins), s.layers);
    bool fused = tags.contains("plugin_bias");
    for (const AttentionNode& a : AttentionNode::all(*plugins.graph()))
      EXPECT_EQ(a.input("qkv_bias") != nullptr, fused);
    Query::Tags back = tags;
    back.insert("unpack_gpt_attention");
    Module unpacked = loweredWith(m, back);
    ASSERT_EQ(countOf(unpacked), 0u);
    for (auto [batch, tokens] : {std::pair(1, 1), std::pair(1, 9), std::pair(3, 20)}) {
      std::vector<IValue> inputs{places(batch, tokens, 17, 31), places(batch, tokens, 0, 0)};
      EXPECT_LT(difference(run(m, inputs), run(unpacked, inputs)), 5e-5) << batch << " x " << tokens;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, AttentionOfSamples,
                         testing::Values(Sample{"byte_gpt/model.ir", "byte_gpt/model.weights", 4},
                                         Sample{"byte_gpt/operator.ir", "byte_gpt/model.weights", 4},
                                         Sample{"byte_qwen/model.ir", "byte_qwen/model.weights", 4}),
                         [](const auto& info) {
                           std::string name = info.param.text;
                           std::replace_if(
                               name.begin(), name.end(), [](char c) { return !std::isalnum(c); }, '_');
                           return name;
                         });

// The goldens hold attention as other models write it: those that become GPTAttention give the same numbers.
TEST(AttentionGoldens, AreTheSameThereAndBack) {
  size_t made = 0, others = 0;
  for (const auto& entry : std::filesystem::directory_iterator(TSCOMPILE_TESTS_DIR "/golden/lower")) {
    if (!entry.path().stem().string().starts_with("attention_")) continue;
    Module m = loaded(entry.path());
    if (countOf(loweredWith(m, {"plugins"})) == 0) {
      ++others;
      continue;
    }
    ++made;
    Module unpacked = loweredWith(m, {"plugins", "unpack_gpt_attention"});
    Dims given = m.graph()->input(0)->type()->tensor().sizes;
    for (auto [batch, tokens] : {std::pair(1, 1), std::pair(2, 11)}) {
      Dims sizes = given[0] < 0 ? Dims{batch, tokens, given.back()} : given;
      Tensor x = Tensor::empty(DType::Float32, sizes);
      for (int64_t i = 0; i < x.numel(); ++i) x.data<float>()[i] = static_cast<float>(std::sin(double(i * i % 1009)));
      EXPECT_LT(difference(run(m, {x}), run(unpacked, {x})), 1e-5) << entry.path();
    }
  }
  EXPECT_EQ(made, 8u);
  EXPECT_EQ(others, 2u);
}

TEST(RemovePadding, WithArguments) {
  Module m = loaded(kSamples + "byte_gpt/model.ir", kSamples + "byte_gpt/model.weights");
  EXPECT_EQ(graphText(*loweredWith(m, {"plugins", "packed"}).graph()), graphText(*loweredWith(m, {"plugins"}).graph()));
  Module packed = loweredWith(m, {"plugins", "packed"}, {{"batch_size", IValue(3)}, {"in_len", IValue(7)}});
  for (const AttentionNode& a : AttentionNode::all(*packed.graph())) {
    EXPECT_EQ(a.integer("remove_input_padding", 0), 1);
    EXPECT_EQ(a.inputNames(), (std::vector<std::string>{"qkv", "context_lengths"}));
    EXPECT_EQ(a.input("qkv")->node()->kind().text(), "aten::reshape");
    EXPECT_EQ(a.node()->output()->firstUse()->user->kind().text(), "aten::reshape");
  }
}

TEST(RemovePadding, FollowsRecords) {
  Module m = loaded(kSamples + "byte_gpt/model.ir", kSamples + "byte_gpt/model.weights");
  Diagnostics diagnostics;
  LowerOptions options;
  options.query = Query().including({"default", "plugins", "packed"});
  options.arguments = {{"batch_size", IValue(3)}, {"in_len", IValue(7)}};
  options.records = {"tensorrt_llm::GPTAttention"};
  size_t seen = 0;
  options.onRecords = [&](const CallRecords& records) {
    for (const CallRecord* r : records.ofKind("tensorrt_llm::GPTAttention")) {
      ++seen;
      ASSERT_EQ(r->nodes().size(), 1u);
      EXPECT_EQ(r->input("qkv"), r->nodes()[0]->input(0));
      EXPECT_NE(r->input("context_lengths"), nullptr);
    }
  };
  ASSERT_TRUE(m.lowered(options, diagnostics).ok()) << renderDiagnostics(diagnostics, "test");
  EXPECT_EQ(seen, 4u);
}

// ---- serving ----

TEST(Serving, DescribesTheModel) {
  Served s = serve(modelGraph("byte_qwen"));
  ASSERT_TRUE(s.model.ok()) << s.messages;
  EXPECT_EQ(s.model->layers, 4);
  EXPECT_EQ(s.model->heads, 6);
  EXPECT_EQ(s.model->kvHeads, 2);
  EXPECT_EQ(s.model->headSize, 16);
  EXPECT_EQ(s.model->vocabulary, 256);
  EXPECT_EQ(s.model->hidden, 96);
  EXPECT_EQ(s.model->inputs,
            (std::vector<std::string>{
                "input_ids", "position_ids", "last_token_ids", "sequence_length", "host_past_key_value_lengths",
                "host_max_attention_window_sizes", "host_sink_token_length", "context_lengths", "host_request_types",
                "kv_cache_block_offsets", "kv_cache_pool_0", "kv_cache_pool_1", "kv_cache_pool_2", "kv_cache_pool_3"}));
  EXPECT_EQ(s.model->outputs, (std::vector<std::string>{"logits", "present_kv_cache_pool_0", "present_kv_cache_pool_1",
                                                        "present_kv_cache_pool_2", "present_kv_cache_pool_3"}));
  EXPECT_EQ(typeText(s.graph->find("kv_cache_pool_0")->type()), "Float(*, 2, 2, 64, 16)");
  EXPECT_EQ(typeText(s.graph->find("input_ids")->type()), "Long(1, *)");
  std::vector<AttentionNode> nodes = AttentionNode::all(*s.graph);
  ASSERT_EQ(nodes.size(), 4u);
  for (size_t i = 0; i < nodes.size(); ++i) {
    EXPECT_EQ(nodes[i].integer("layer_idx", -1), static_cast<int64_t>(i));
    EXPECT_EQ(nodes[i].text("position_embedding_type", ""), "rope_gpt_neox");
    EXPECT_EQ(nodes[i].input("kv_cache_pool")->name(), "kv_cache_pool_" + std::to_string(i));
    EXPECT_EQ(nodes[i].inputNames(),
              (std::vector<std::string>{"qkv", "k", "v", "sequence_length", "host_past_key_value_lengths",
                                        "host_max_attention_window_sizes", "host_sink_token_length", "context_lengths",
                                        "host_request_types", "kv_cache_block_offsets", "kv_cache_pool"}));
  }
}

TEST(Serving, TakesOptions) {
  ServingOptions options;
  options.cache = ServingOptions::Cache::Contiguous;
  options.removeInputPadding = false;
  options.cacheIndirection = options.fuseQkvBias = options.gatherContextLogits = true;
  options.kvCacheQuantMode = 64;
  Served s = serve(modelGraph("byte_gpt", "operator"), options);
  ASSERT_TRUE(s.model.ok()) << s.messages;
  EXPECT_EQ(s.graph->find("last_token_ids"), nullptr);
  EXPECT_EQ(typeText(s.graph->find("past_key_value_3")->type()), "Char(*, 2, 4, *, 16)");
  EXPECT_EQ(s.model->outputs.back(), "present_key_value_3");
  AttentionNode a = AttentionNode::all(*s.graph).front();
  EXPECT_TRUE(a.input("qkv_bias") && a.input("cache_indirection") && a.input("kv_cache_quantization_scale"));
  EXPECT_TRUE(GraphFacts::isNone(a.input("qkv")->node()->input(2)));
  EXPECT_EQ(a.integer("qkv_bias_enabled", 0), 1);
  EXPECT_EQ(a.integer("kv_cache_quant_mode", 0), 64);

  options = {};
  options.cache = ServingOptions::Cache::None;
  options.fuseRotary = false;
  s = serve(modelGraph("byte_qwen"), options);
  ASSERT_TRUE(s.model.ok()) << s.messages;
  EXPECT_EQ(s.model->outputs, std::vector<std::string>{"logits"});
  EXPECT_EQ(AttentionNode::all(*s.graph).front().text("position_embedding_type", ""), "learned_absolute");
}

// Without a cache and with padding the attention can be unpacked once the inputs of serving are taken away again; the
// rows that are gathered are those of all logits.
TEST(Serving, GathersTheLastTokens) {
  Module m = loaded(kSamples + "byte_gpt/model.ir", kSamples + "byte_gpt/model.weights");
  for (bool packed : {true, false}) {
    ServingOptions options;
    options.cache = ServingOptions::Cache::None;
    options.removeInputPadding = packed;
    Served s = serve(modelGraph("byte_gpt"), options);
    ASSERT_TRUE(s.model.ok()) << s.messages;
    for (AttentionNode& a : AttentionNode::all(*s.graph)) {
      while (a.node()->inputCount() > 1) a.node()->removeInput(1);
      a.set("inputs", IValue(Ref<ListValue>::make(types().string, std::vector<IValue>{IValue("qkv")})));
      for (const char* field : {"remove_input_padding", "use_cache", "paged_kv_cache"})
        a.node()->removeAttribute(Symbol::of(field));
    }
    Module served = loweredWith(m.withGraph(std::move(s.graph)), {"unpack_gpt_attention"});
    int64_t batch = packed ? 1 : 3, tokens = 8;
    std::vector<int32_t> last = packed ? std::vector<int32_t>{8, 1, 3} : std::vector<int32_t>{2, 8, 5};
    std::vector<IValue> inputs;
    for (const std::string& name : s.model->inputs) {
      if (name == "input_ids")
        inputs.emplace_back(places(batch, tokens, 5, 13));
      else if (name == "position_ids")
        inputs.emplace_back(places(batch, tokens, 0, 0));
      else if (name == "last_token_ids")
        inputs.emplace_back(Tensor::of<int32_t>(Dims{3}, last));
      else
        inputs.emplace_back(Tensor::zeros(DType::Int32, Dims{name == "host_max_attention_window_sizes" ? 4 : 1}));
    }
    std::vector<IValue> some = run(served, inputs), all = run(m, {inputs[0], inputs[1]});
    ASSERT_EQ(some.size(), 1u);
    ASSERT_EQ(dimsText(some[0].toTensor().sizes()), "[3, 256]");
    for (int64_t r = 0; r < 3; ++r)
      for (int64_t i = 0; i < 256; ++i) {
        int64_t row = (packed ? 0 : r * tokens) + last[static_cast<size_t>(r)] - 1;
        EXPECT_NEAR(some[0].toTensor().real(r * 256 + i), all[0].toTensor().real(row * 256 + i), 2e-5);
      }
  }
}

// ---- what cannot be served ----

namespace {

constexpr const char* kHead = R"(graph(%input_ids : Tensor, %position_ids : Tensor):
  %none : NoneType = prim::Constant()
  %0 : int = prim::Constant[value=0]()
  %1 : int = prim::Constant[value=1]()
  %2 : int = prim::Constant[value=2]()
  %3 : int = prim::Constant[value=3]()
  %4 : int = prim::Constant[value=4]()
  %12 : int = prim::Constant[value=12]()
  %no : bool = prim::Constant[value=0]()
  %yes : bool = prim::Constant[value=1]()
  %drop : float = prim::Constant[value=0.]()
  %narrow : int[] = prim::Constant[value=[7, 12]]()
  %broad : int[] = prim::Constant[value=[36, 12]]()
  %table : Tensor = aten::ones(%narrow, %none, %none, %none, %none)
  %wide : Tensor = aten::ones(%broad, %none, %none, %none, %none)
  %x : Tensor = aten::embedding(%table, %input_ids, %1, %no, %no)
  %b : int = aten::size(%x, %0)
  %s : int = aten::size(%x, %1)
  %qkv : Tensor = aten::linear(%x, %wide, %none)
  %shape : int[] = prim::ListConstruct(%b, %s, %3, %3, %4)
  %order : int[] = prim::Constant[value=[2, 0, 3, 1, 4]]()
  %split : Tensor = aten::reshape(%qkv, %shape)
  %turned : Tensor = aten::permute(%split, %order)
  %q : Tensor = aten::select(%turned, %0, %0)
  %k : Tensor = aten::select(%turned, %0, %1)
  %v : Tensor = aten::select(%turned, %0, %2)
)";

std::unique_ptr<Graph> lowGraph(const std::string& rest) {
  Diagnostics diagnostics;
  Result<Module> m = Module::fromText(kHead + rest, "text", {}, diagnostics);
  EXPECT_TRUE(m.ok()) << renderDiagnostics(diagnostics, "test") << rest;
  return m ? cloneGraph(*loweredWith(*m, {}).graph()) : std::make_unique<Graph>();
}

std::string messageOf(const std::string& rest, const ServingOptions& options = {}) {
  Served s = serve(lowGraph(rest), options);
  EXPECT_FALSE(s.model.ok());
  return s.messages;
}

constexpr const char* kTail = R"(  %t : Tensor = aten::transpose(%o, %1, %2)
  %y : Tensor = aten::flatten(%t, %2, %3)
  %logits : Tensor = aten::linear(%y, %table, %none)
  return (%logits)
)";

}  // namespace

TEST(Serving, RefusesWhatItCannotServe) {
  const std::string causal = "  %o : Tensor = aten::scaled_dot_product_attention(%q, %k, %v, %none, %drop, %yes)\n";
  Served good = serve(lowGraph(causal + kTail));
  ASSERT_TRUE(good.model.ok()) << good.messages;
  EXPECT_EQ(good.model->heads, 3);
  EXPECT_EQ(good.model->vocabulary, 7);

  const std::pair<std::string, const char*> kCases[] = {
      {"  %o : Tensor = aten::relu(%q)\n" + std::string(kTail), "no causal attention was found"},
      {"  %o : Tensor = aten::scaled_dot_product_attention(%q, %k, %v, %none, %drop, %no)\n" + std::string(kTail),
       "text:27:3: error: this attention cannot be served: nothing hides the tokens that come later"},
      {causal + "  return (%o)\n",
       "text:27:3: error: logits must be made of [batch, tokens, hidden] and have the form"},
      {causal + "  %turned : Tensor = aten::transpose(%x, %0, %1)\n  %logits : Tensor = aten::linear(%turned, %table, "
                "%none)\n"
                "  return (%logits)\n",
       "text:29:3: error: logits must be made of [batch, tokens, hidden]"},
      {causal + "  return (%o, %x)\n", "expected logits as the one output, found 2 outputs"},
      {causal + "  %fixed : int[] = prim::Constant[value=[1, 4, 12]]()\n  %z : Tensor = aten::reshape(%x, %fixed)\n"
                "  %logits : Tensor = aten::linear(%z, %table, %none)\n  return (%logits)\n",
       "text:29:3: error: sizes do not fit for every batch and number of tokens"},
      {causal +
           "  %o2 : Tensor = aten::transpose(%o, %1, %2)\n  %wider : int[] = prim::ListConstruct(%b, %s, %2, %3, %2)\n"
           "  %y0 : Tensor = aten::flatten(%o2, %2, %3)\n  %s2 : int[] = prim::ListConstruct(%b, %s, %2, %12)\n"
           "  %six : int = prim::Constant[value=6]()\n  %s3 : int[] = prim::ListConstruct(%b, %s, %2, %six)\n"
           "  %h0 : Tensor = aten::reshape(%y0, %s3)\n  %h : Tensor = aten::transpose(%h0, %1, %2)\n"
           "  %p : Tensor = aten::scaled_dot_product_attention(%h, %h, %h, %none, %drop, %yes)\n"
           "  %t : Tensor = aten::transpose(%p, %1, %2)\n  %y : Tensor = aten::flatten(%t, %2, %3)\n"
           "  %logits : Tensor = aten::linear(%y, %table, %none)\n  return (%logits)\n",
       "all layers must have the same heads: found 2 heads of size 6, 2 for keys"},
  };
  for (const auto& [text, message] : kCases) {
    std::string found = messageOf(text);
    EXPECT_NE(found.find(message), std::string::npos) << found << "instead of\n" << message;
  }
  ServingOptions options;
  options.tokensPerBlock = 48;
  EXPECT_NE(messageOf(causal + kTail, options).find("a power of two, found 48"), std::string::npos);
  options = {};
  options.cache = ServingOptions::Cache::Contiguous;
  EXPECT_NE(messageOf(causal + kTail, options).find("need a paged cache"), std::string::npos);
}

}  // namespace tscompile::test
