// The proof of what serves a language model: a fault in any part of what lowering for serving makes is found, and the
// first node is named that computes other numbers.
#include "api/lower.h"
#include "api/serving_proof.h"
#include "ir/graph/clone.h"
#include "ir/support/diagnostic_printer.h"
#include "ir/values/aten.h"
#include "passes/serving/attention_node.h"
#include "passes/serving/serving.h"
#include "runtime/interpreter/evaluator.h"
#include "tests/unit/api/decoder_text.h"

#include <gtest/gtest.h>

#include <functional>

namespace tscompile::test {
namespace {

// A model and what serves it, before it is compiled.
class Served {
 public:
  Served(Result<Module> given, Diagnostics& diagnostics) : given_(std::move(given)), diagnostics_(diagnostics) {}

  bool prepare() {
    LowerOptions lowering;
    lowering.query = Query().including({"default", "any_sizes"});
    if (!given_ || !(lowered_ = given_->lowered(lowering, diagnostics_))) return false;
    graph_ = cloneGraph(*lowered_->graph());
    std::unique_ptr<Evaluator> evaluator = makeEvaluator(given_->registry());
    entrance_ = openEntrance(*graph_, given_->registry(), *evaluator, diagnostics_);
    if (!entrance_) return false;
    opened_ = lowered_->withGraph(cloneGraph(*graph_));
    constexpr int64_t kLongest = 24;
    ServingOptions options;
    options.longest = kLongest;
    Result<ServingModel> made = prepareForServing(*graph_, given_->registry(), *evaluator, options, diagnostics_);
    if (!made) return false;
    built_.config.maxSeqLen = built_.config.maxInputLen = kLongest;
    built_.config.kvCacheType = KvCacheType::Paged;
    built_.shape = {made->layers, made->heads, made->kvHeads, made->headSize, made->hidden, made->vocabulary};
    built_.cache = cacheOf(built_.config, built_.shape);
    built_.inputs = made->inputs;
    for (AttentionNode& node : AttentionNode::all(*graph_)) node.set("inplace", IValue(1));
    return true;
  }

  // What the proof says of the graph after `fault`; empty: nothing is wrong.
  std::string prove(const std::function<void(Graph&)>& fault) {
    std::unique_ptr<Graph> graph = cloneGraph(*graph_);
    fault(*graph);
    Module packed = lowered_->withGraph(std::move(graph));
    Diagnostics said;
    if (proveServing({*given_, *entrance_, packed, &*opened_, &packed}, built_, said)) return "";
    return renderDiagnostics(said, "test");
  }

 private:
  Result<Module> given_;
  Diagnostics& diagnostics_;
  Result<Module> lowered_ = Failed{}, opened_ = Failed{};
  Result<Entrance> entrance_ = Failed{};
  std::unique_ptr<Graph> graph_;
  BuiltModel built_;
};

AttentionNode layer(Graph& g, size_t index = 0) { return AttentionNode::all(g).at(index); }

Value* inputNamed(Graph& g, const std::string& name) {
  for (Value* v : g.inputs())
    if (v->name() == name) return v;
  ADD_FAILURE() << name;
  return nullptr;
}

// Puts what `make` makes of a value in its place for all that read it.
void replace(Graph& g, Value* v, const std::function<Value*(Builder&, Value*)>& make) {
  Builder b(g);
  if (v->node())
    b.setPointAfter(v->node());
  else
    b.setPointAtStart(g.block());
  std::vector<std::pair<Node*, size_t>> readers;
  for (const Use& use : v->uses()) readers.emplace_back(use.user, use.index());
  Value* other = make(b, v);
  for (auto [reader, index] : readers) reader->replaceInput(index, other);
}
Value* scaled(Builder& b, Value* v, double factor) {
  return b.call(aten::mul, {v, b.constant(IValue(factor))}, types().tensor);
}
Value* moved(Builder& b, Value* v, int64_t by) {
  return b.call(aten::add, {v, b.constant(IValue(by)), b.constant(IValue(1))}, types().tensor);
}

// The first node of a kind, or the n-th.
Node* nodeOf(Graph& g, const char* kind, size_t index = 0) {
  for (Node* n : g.block()->nodes())
    if (n->kind() == Symbol::of(kind) && index-- == 0) return n;
  ADD_FAILURE() << kind;
  return nullptr;
}

struct Fault {
  const char* name;
  std::function<void(Graph&)> plant;
  const char* said;  // a part of the message: the node behind attention, where the lowering is inside of it
};

class PlantedFaults : public testing::Test {
 protected:
  void expectFound(Result<Module> module, const std::vector<Fault>& faults) {
    Served served(std::move(module), diagnostics_);
    ASSERT_TRUE(served.prepare()) << renderDiagnostics(diagnostics_, "test");
    EXPECT_EQ(served.prove([](Graph&) {}), "") << "without a fault";
    for (const Fault& f : faults) {
      std::string said = served.prove(f.plant);
      EXPECT_NE(said.find("this model cannot be served"), std::string::npos) << f.name << "\n" << said;
      EXPECT_NE(said.find(f.said), std::string::npos) << f.name << "\n" << said;
    }
  }
  Result<Module> text(const Decoder& d) { return Module::fromText(d.text(), "decoder.ir", {}, diagnostics_); }

  Diagnostics diagnostics_;
};

TEST_F(PlantedFaults, OfRotaryPositionsAndGroupedHeads) {
  const std::string folder = TSCOMPILE_SOURCE_DIR "/samples/language/byte_qwen/";
  LoadOptions load;
  load.weights = {folder + "model.weights"};
  auto field = [](const char* name, IValue value, size_t index = 0) {
    return [=](Graph& g) { layer(g, index).set(name, value); };
  };
  auto input = [](const char* name, const char* other) {
    return [=](Graph& g) { layer(g, 1).setInput(name, inputNamed(g, other)); };
  };
  expectFound(
      Module::load(folder + "model.ir", load, diagnostics_),
      {
          {"factor of scores", field("q_scaling", IValue(1.5)), "%154 : Tensor = aten::linear"},
          {"base of rotation", field("rotary_embedding_base", IValue(500.0), 2), "%424 : Tensor = aten::linear"},
          {"size of rotation", field("rotary_embedding_dim", IValue(8)), "%154 : Tensor = aten::linear"},
          {"pairs of rotation", field("position_embedding_type", IValue(std::string("rope_gptj"))),
           "%154 : Tensor = aten::linear"},
          {"scale of rotation",
           [](Graph& g) {
             layer(g, 3).set("rotary_embedding_scale_type", std::string("linear"));
             layer(g, 3).set("rotary_embedding_scale", 2.0);
           },
           "%559 : Tensor = aten::linear"},
          {"window", field("attention_window", IValue(3), 1), "%289 : Tensor = aten::linear"},
          {"bound of scores", field("attn_logit_softcapping_scale", IValue(0.2)), "%154 : Tensor = aten::linear"},
          {"a cache for two layers", input("kv_cache_pool", "kv_cache_pool_0"), "%154 : Tensor = aten::linear"},
          {"tokens in the cache", input("host_past_key_value_lengths", "sequence_length"),
           "GPTAttention: sequence_length"},
          {"last tokens",
           [](Graph& g) {
             replace(g, inputNamed(g, "last_token_ids"), [](Builder& b, Value* v) { return moved(b, v, -1); });
           },
           "%22 : Tensor = aten::linear"},
          {"logits", [](Graph& g) { replace(g, g.output(0), [](Builder& b, Value* v) { return scaled(b, v, 1.1); }); },
           "get other logits"},
          {"a norm's weight",
           [](Graph& g) {
             Node* n = nodeOf(g, "aten::rsqrt", 2);
             replace(g, n->output(), [](Builder& b, Value* v) { return scaled(b, v, 1.05); });
           },
           "%203 : Tensor = aten::mul"},
          {"a bias that is lost",
           [](Graph& g) {
             Node* n = nodeOf(g, "aten::linear", 1);
             Builder b(g, n);
             n->replaceInput(2, b.constant(IValue()));
           },
           "%80 : Tensor = aten::linear"},
          {"words",
           [](Graph& g) {
             Node* n = nodeOf(g, "aten::embedding");
             Builder b(g, n);
             n->replaceInput(1, b.call(Symbol::of("aten::abs"), {moved(b, n->input(1), -1)}, types().tensor));
           },
           "%x.1 : Tensor = aten::embedding"},
      });
}

TEST_F(PlantedFaults, OfMasksBiasesAndSinks) {
  const std::string causal = kRows + "  %later : Tensor = aten::gt(%at.m, %row)\n";
  Decoder alibi;
  alibi.attention = written(causal + weight("slopes", 2, 1, 0.4) +
                            "  %by : Tensor = aten::unsqueeze(%slopes, %m1)\n  %bias : Tensor = aten::mul(%by, %at.m)\n"
                            "  %biased : Tensor = aten::add(%scores, %bias, %1)\n"
                            "  %masked : Tensor = aten::masked_fill(%biased, %later, %far)\n");
  auto times = [](const char* name) {
    return [=](Graph& g) {
      AttentionNode a = layer(g);
      ASSERT_TRUE(a.input(name)) << name;
      Builder b(g, a.node());
      a.setInput(name, scaled(b, a.input(name), 1.5));
    };
  };
  expectFound(text(alibi),
              {
                  {"slopes", times("alibi_slopes"), "%o.rows : Tensor = aten::flatten"},
                  {"positions",
                   [](Graph& g) {
                     replace(g, inputNamed(g, "position_ids"), [](Builder& b, Value* v) { return moved(b, v, 1); });
                   },
                   "%x.positions : Tensor = aten::embedding"},
                  {"what is attended to",
                   [](Graph& g) { layer(g).set("position_embedding_type", std::string("learned_absolute")); },
                   "%o.rows : Tensor = aten::flatten"},
                  {"keys and values", times("qkv"), "%o.rows : Tensor = aten::flatten"},
              });
  Decoder window;
  window.attention =
      written(kRows +
              "  %later.1 : Tensor = aten::gt(%at.m, %row)\n  %back : Tensor = aten::sub(%row, %3, %1)\n"
              "  %early : Tensor = aten::le(%at.m, %back)\n  %later : Tensor = aten::__or__(%later.1, %early)\n"
              "  %masked : Tensor = aten::masked_fill(%scores, %later, %far)\n");
  expectFound(
      text(window),
      {
          {"a token less", [](Graph& g) { layer(g).set("attention_window", 2); }, "%o.rows : Tensor = aten::flatten"},
          {"no window", [](Graph& g) { layer(g).set("attention_window", 0); }, "%o.rows : Tensor = aten::flatten"},
      });
}

}  // namespace
}  // namespace tscompile::test
