#include "passes/serving/serving.h"

#include "ir/support/text.h"
#include "ir/values/aten.h"
#include "ir/values/kind_set.h"
#include "passes/lowering/clean_up.h"
#include "passes/rewrite/plan.h"
#include "passes/serving/attention_node.h"
#include "passes/serving/fixed_caches.h"
#include "passes/serving/last_tokens.h"
#include "passes/serving/serving_passes.h"
#include "passes/serving/text_length.h"

#include <fmt/core.h>

#include <map>

namespace tscompile {
namespace {

TypePtr tensorOf(DType dtype, std::initializer_list<int64_t> sizes) {
  TensorFacts facts;
  facts.dtype = dtype;
  facts.hasRank = true;
  facts.sizes = Dims(sizes);
  return tensorType(facts);
}

constexpr int64_t kAny = kUnknownSize;
constexpr int64_t kPastWindow = 8;  // tokens

class Preparation {
 public:
  Preparation(Graph& graph, const OpRegistry& registry, Evaluator& evaluator, const ServingOptions& options,
              Diagnostics& diagnostics)
      : graph_(graph), options_(options), longest_(options.longest), context_(graph, registry, diagnostics) {
    context_.evaluator = &evaluator;
  }

  Result<ServingModel> run() {
    writePlainly(graph_, context_);
    if (!checkOptions() || !takeInputs()) return Failed{};
    answerQuestions(context_, positions_, longest_);
    if (!readCaches()) return Failed{};
    widenLogits();
    const bool wasSplit = splitRows(context_, ids_, positions_);
    if (sinkFactors(context_, positions_) || wasSplit) {
      cleanUp();
      context_.facts.refresh();
    }
    if (!findLastLayer() || !checkSizes() || !makeNodes() || !describe()) return Failed{};
    if (options_.fuseQkvBias) fuseBiases();
    if (!options_.gatherContextLogits) gatherLastTokens();
    addInputs();
    cleanUp();
    return model_;
  }

 private:
  bool fail(SourceRange where, std::string message) {
    context_.diagnostics.error(where, std::move(message));
    return false;
  }

  bool checkOptions() {
    int64_t t = options_.tokensPerBlock;
    if (t <= 0 || (t & (t - 1)) != 0)
      return fail({}, fmt::format("the number of tokens in a block must be a power of two, found {}", t));
    if (options_.kvCacheQuantMode != 0 && options_.kvCacheQuantMode != 64 && options_.kvCacheQuantMode != 128)
      return fail(
          {}, fmt::format("the cache holds floats (0), int8 (64) or fp8 (128), found {}", options_.kvCacheQuantMode));
    if (options_.cache == ServingOptions::Cache::Contiguous && options_.removeInputPadding)
      return fail({}, "tokens of several requests in one row need a paged cache");
    return true;
  }

  bool takeInputs() {
    std::span<Value* const> inputs = graph_.inputs();
    if (inputs.size() != 2 || !inputs[0]->type()->isTensor() || !inputs[1]->type()->isTensor())
      return fail(graph_.range, fmt::format("expected the inputs input_ids and position_ids, found {}",
                                            counted(inputs.size(), "input")));
    bool swapped = inputs[0]->givenName() == "position_ids" || inputs[1]->givenName() == "input_ids";
    ids_ = inputs[swapped ? 1 : 0];
    positions_ = inputs[swapped ? 0 : 1];
    ids_->setName("input_ids");
    positions_->setName("position_ids");
    int64_t rows = options_.removeInputPadding ? 1 : kAny;
    // Sizes are told when attention has been found, which takes others.
    const TensorFacts& known = ids_->type()->tensor();
    const int64_t texts =
        options_.removeInputPadding && known.hasRank && known.sizes.size() == 2 && known.sizes[0] == 1 ? 1 : kAny;
    ids_->setType(tensorOf(DType::Int64, {texts, kAny}));
    positions_->setType(tensorOf(DType::Int64, {texts, kAny}));
    types_ = {tensorOf(DType::Int64, {rows, kAny}), tensorOf(DType::Int64, {rows, kAny})};
    return true;
  }

  // Tensors that have places for so many tokens bound texts.
  bool readCaches() {
    Result<int64_t> places = readNewTokens(context_, ids_, positions_);
    if (!places) return false;
    model_.places = *places;
    if (*places == 0) return true;
    longest_ = longest_ ? std::min(longest_, *places) : *places;
    cleanUp();
    context_.facts.refresh();
    return true;
  }

  void widenLogits() {
    if (graph_.outputs().size() != 1) return;
    const DType dtype = SmallInstance(context_, 2, 5, positions_).dtype(graph_.output(0));
    if (dtype != DType::Float16 && dtype != DType::BFloat16) return;
    Builder b(graph_, graph_.returnNode());
    Value *no = b.constant(IValue(false)), *type = b.constant(IValue(static_cast<int64_t>(DType::Float32)));
    Value* wide = b.call(aten::to, {graph_.output(0), type, no, no, b.constant(IValue())}, types().tensor);
    graph_.returnNode()->replaceInput(0, wide);
    context_.facts.refresh();
  }

  // What gives each token something of itself alone, whatever its place.
  bool isDoneToEach(const Node* n) {
    if (n->kind() == aten::softmax || n->kind() == Symbol::of("aten::log_softmax")) return true;
    const Operator* op = context_.facts.resolve(n);
    return op && (op->has(Trait::Elementwise) || op->has(Trait::KeepsElements));
  }

  // Numbers, and what every token sees the same of.
  bool isPerToken(const Value* v, const SmallInstance& small) {
    if (!v->type()->isTensor()) return true;
    std::optional<Dims> sizes = small.sizes(v);
    if (!sizes || sizes->size() > 2 || (sizes->size() == 2 && sizes->front() != 1)) return false;
    return small.compute(v).has_value();
  }

  // The input of a node, or that of all tokens if it is of the last ones.
  Value* unchosen(Node* user, size_t slot, const SmallInstance& small) {
    Value* v = user->input(slot);
    while (Value* all = withAllTokens(v, small, context_.facts)) user->replaceInput(slot, v = all);
    return v;
  }

  // A layer with a constant matrix.
  std::optional<Dims> matrixOf(const Node* n) {
    if (n->inputCount() < 2 || (n->kind() != aten::linear && n->kind() != aten::matmul)) return std::nullopt;
    std::optional<Dims> sizes = GraphFacts::constant(n->input(1)) ? context_.facts.sizes(n->input(1)) : std::nullopt;
    return sizes && sizes->size() == 2 ? sizes : std::nullopt;
  }

  // What makes logits of hidden values: a layer, or several side by side, as adapters are; after it only what is done
  // to each token by itself. Where it is something else, logits of all tokens are made. Where logits are those of the
  // last tokens alone they become those of all.
  bool findLastLayer() {
    if (graph_.outputs().size() != 1)
      return fail(graph_.range, fmt::format("expected logits as the one output, found {}",
                                            counted(graph_.outputs().size(), "output")));
    makeOfAllTokens(context_, positions_);
    const SmallInstance small(context_, 2, 5, positions_);
    Value* logits = unchosen(graph_.returnNode(), 0, small);
    if (!logits->node()) return fail(graph_.range, "logits must be made of hidden values");
    hidden_ = hiddenBehind(logits, small);
    if (!hidden_) hidden_ = logits, head_ = {graph_.returnNode()};
    std::erase_if(head_, [&](const Node* n) {
      return std::ranges::none_of(n->inputs(), [&](const Use& u) { return u.value == hidden_; });
    });
    lastLayer_ = head_.back();
    const std::optional<Dims> sizes = small.sizes(hidden_), words = small.sizes(logits), matrix = matrixOf(lastLayer_);
    const bool isLinear = lastLayer_->kind() == aten::linear;
    if (matrix) model_.vocabulary = (*matrix)[isLinear ? 0 : 1], model_.hidden = (*matrix)[isLinear ? 1 : 0];
    if (words && !words->empty()) model_.vocabulary = words->back();
    if (!matrix) model_.hidden = 0;
    return true;
  }
  // That all of `head_` make logits of; null: there is no such.
  Value* hiddenBehind(Value* logits, const SmallInstance& small) {
    std::vector<Value*> made{logits};
    bool hasLayer = false;
    while (made.size() > 1 || !hasLayer) {
      const auto last = std::ranges::max_element(made, isMadeBefore);
      Node* n = (*last)->node();
      made.erase(last);
      const bool isLayer = n && matrixOf(n);
      if (!n || n->inputCount() == 0 || !(isLayer || isDoneToEach(n))) return nullptr;
      bool hasTokens = false;
      for (size_t i = 0; i < (isLayer ? 1 : n->inputCount()); ++i) {
        if (!isLayer && isPerToken(n->input(i), small)) continue;
        hasTokens = true;
        Value* from = unchosen(n, i, small);
        if (std::ranges::find(made, from) == made.end()) made.push_back(from);
      }
      if (!hasTokens) return nullptr;
      head_.push_back(n);
      hasLayer |= isLayer;
    }
    return made.front();
  }
  const Node* placeOfHead() const { return lastLayer_ == graph_.returnNode() ? hidden_->node() : lastLayer_; }
  static bool isMadeBefore(const Value* a, const Value* b) {
    if (!a->node() || !b->node()) return !a->node() && b->node();
    return a->node()->isBefore(b->node());
  }

  // Asked before attention is made, which other analyses may not know.
  bool checkSizes() {
    SmallInstance small(context_, 2, 5, positions_);
    if (!small.fits()) return true;  // told where attention is looked for
    std::optional<Dims> hidden = small.sizes(hidden_), logits = small.sizes(graph_.output(0));
    auto isOfTokens = [&](const std::optional<Dims>& sizes) {
      return sizes && sizes->size() == 3 && (*sizes)[0] == small.batch && (*sizes)[1] == small.tokens;
    };
    if (isOfTokens(hidden) && (model_.hidden == 0 || hidden->back() == model_.hidden) &&
        logits == Dims{small.batch, small.tokens, model_.vocabulary})
      return keepsAllTokens();
    return fail(placeOfHead()->range,
                "logits must be made of [batch, tokens, hidden] and have the form [batch, tokens, vocabulary]");
  }

  // A model may read the last tokens of a text alone.
  bool keepsAllTokens() {
    for (int64_t tokens : {longest_, options_.mostTokens}) {
      if (tokens == 0) continue;
      std::optional<Dims> logits = SmallInstance(context_, 1, tokens, positions_).sizes(graph_.output(0));
      if (logits && logits->size() == 3 && (*logits)[1] < tokens)
        return fail(placeOfHead()->range,
                    fmt::format("of {} tokens the model gives logits of {} alone", tokens, (*logits)[1]));
    }
    return true;
  }

  bool makeNodes() {
    const TextLengthFindings lengths = findTextLengths(context_, ids_, positions_, longest_, options_.mostTokens);
    if (lengths.choice)
      return fail(lengths.choice->range,
                  "this is chosen by all tokens at once, and those of several texts are computed together");
    std::map<const Value*, std::string> changing;
    for (const Value* v : lengths.changing) changing[v] = v->name();
    AttentionFindings found = makeAttention(context_, {.positions = positions_,
                                                       .fuseRotary = options_.fuseRotary,
                                                       .longest = longest_,
                                                       .inFloat = options_.cache != ServingOptions::Cache::None,
                                                       .changing = &lengths.changing});
    if (found.conflict) {
      fail(found.conflict->node->range,
           fmt::format("sizes do not fit for every batch and number of tokens: {}", found.conflict->message));
      return false;
    }
    nodes_ = AttentionNode::all(graph_);
    if (!found.misses.empty()) {
      for (const AttentionMatcher::Miss& m : found.misses)
        fail(m.node->range, fmt::format("this attention cannot be served: {}", m.reason));
      return false;
    }
    if (nodes_.empty()) return fail(graph_.range, "no causal attention was found");
    for (const AttentionNode& a : nodes_)
      if (const int64_t window = a.integer("attention_window", 0))
        model_.bends = std::max(model_.bends, window + kPastWindow);
    return readsNoLength(changing);
  }

  // What attention does with its scores has been looked at; the rest must not be other in longer texts.
  bool readsNoLength(const std::map<const Value*, std::string>& changing) {
    for (const Node* n : graph_.block()->nodes())
      for (const Use& u : n->inputs()) {
        auto found = changing.find(u.value);
        if (found != changing.end() && found->second == u.value->name() && u.value->node())
          return refuseLength(n, u.value);
      }
    return true;
  }

  bool refuseLength(const Node* reader, const Value* read) {
    Diagnostic& d = context_.diagnostics.error(
        reader->range,
        "this model cannot be served: tokens that come piece by piece get other numbers here than in the whole text");
    d.note(read->node()->range, "this is another for the same tokens in longer texts");
    return false;
  }

  bool describe() {
    const AttentionNode& first = nodes_.front();
    model_.layers = static_cast<int64_t>(nodes_.size());
    model_.heads = first.heads();
    model_.kvHeads = first.kvHeads();
    model_.headSize = first.headSize();
    if (model_.hidden == 0) model_.hidden = model_.heads * model_.headSize;
    for (const AttentionNode& a : nodes_) {
      if (!a.isWellFormed() || a.input("past_key_value") || a.input("kv_cache_pool"))
        return fail(a.node()->range, "expected attention without a cache");
      if (a.heads() == model_.heads && a.kvHeads() == model_.kvHeads && a.headSize() == model_.headSize) continue;
      Diagnostic& d = context_.diagnostics.error(
          a.node()->range, fmt::format("all layers must have the same heads: found {}", headsText(a)));
      d.note(first.node()->range, fmt::format("the first layer has {}", headsText(first)));
      return false;
    }
    return true;
  }

  static std::string headsText(const AttentionNode& a) {
    return fmt::format("{} heads of size {}, {} for keys", a.heads(), a.headSize(), a.kvHeads());
  }

  void fuseBiases() {
    Plan::walk("fuse_qkv_bias", {fuseQkvBias()}).run(context_);
    context_.facts.refresh();
  }

  Value* add(const std::string& name, TypePtr type) {
    Value* v = graph_.addInput(type);
    v->setName(name);
    return v;
  }

  // Hidden values of the last tokens alone: rows of [batch * tokens, hidden].
  void gatherLastTokens() {
    Value* places = add("last_token_ids", tensorOf(DType::Int32, {kAny}));
    Builder b(graph_, lastLayer_);
    b.setPlaceOf(placeOfHead());
    TypePtr tensor = types().tensor, integer = types().integer;
    Value *zero = b.constant(IValue(0)), *one = b.constant(IValue(1)), *no = b.constant(IValue(false)),
          *none = b.constant(IValue()), *i64 = b.constant(IValue(static_cast<int64_t>(DType::Int64)));
    Value* hidden = hidden_;
    Value* rows = b.call(aten::flatten, {hidden, zero, one}, tensor);
    Value* wide = b.call(aten::to, {places, i64, no, no, none}, tensor);
    Value* at = b.call(aten::sub, {wide, one, one}, tensor);
    if (!options_.removeInputPadding) {
      // Each row of the batch begins where the one before it ends.
      Value* batch = b.call(aten::size, {hidden, zero}, integer);
      Value* tokens = b.call(aten::size, {hidden, one}, integer);
      Value* starts = b.call(aten::arange, {batch, i64, none, none, none}, tensor);
      at = b.call(aten::add, {at, b.call(aten::mul, {starts, tokens}, tensor), one}, tensor);
    }
    Value* last = b.call(aten::index_select, {rows, zero, at}, tensor);
    for (Node* n : head_)
      for (size_t i = 0; i < n->inputCount(); ++i)
        if (n->input(i) == hidden) n->replaceInput(i, last);
    for (Node* n = lastLayer_; n; n = n->next())
      for (Value* v : n->outputs())
        if (v->type()->isTensor() && n->kind() != sym::Constant) v->setType(tensor);
  }

  void give(const std::string& name, TypePtr type) {
    Value* v = add(name, type);
    for (AttentionNode& a : nodes_) a.setInput(name, v);
  }

  void addInputs() {
    const DType i32 = DType::Int32;
    bool cached = options_.cache != ServingOptions::Cache::None, paged = options_.cache == ServingOptions::Cache::Paged;
    if (cached) {
      give("sequence_length", tensorOf(i32, {kAny}));
      give("host_past_key_value_lengths", tensorOf(i32, {kAny}));
    }
    give("host_max_attention_window_sizes", tensorOf(i32, {model_.layers}));
    give("host_sink_token_length", tensorOf(i32, {1}));
    give("context_lengths", tensorOf(i32, {kAny}));
    if (options_.cacheIndirection && cached) give("cache_indirection", tensorOf(i32, {kAny, kAny, kAny}));
    give("host_request_types", tensorOf(i32, {kAny}));
    if (paged) give("kv_cache_block_offsets", tensorOf(i32, {kAny, 2, kAny}));
    if (cached && options_.kvCacheQuantMode) {
      give("kv_cache_quantization_scale", tensorOf(DType::Float32, {1}));
      give("kv_cache_dequantization_scale", tensorOf(DType::Float32, {1}));
    }
    graph_.output(0)->setName("logits");
    for (const AttentionNode& a : nodes_) setFields(a, cached, paged);
    if (cached) addCaches(paged);
    ids_->setType(types_[0]);
    positions_->setType(types_[1]);
    for (const Value* v : graph_.inputs()) model_.inputs.push_back(v->name());
    for (const Use& u : graph_.outputs()) model_.outputs.push_back(u.value->name());
  }

  void setFields(AttentionNode a, bool cached, bool paged) {
    // The list of inputs stays after the fields.
    IValue inputs = *a.node()->attributeValue(Symbol::of("inputs"));
    a.node()->removeAttribute(Symbol::of("inputs"));
    if (options_.removeInputPadding) a.set("remove_input_padding", int64_t{1});
    a.set("use_cache", int64_t{cached});
    a.set("paged_kv_cache", int64_t{paged});
    if (paged) a.set("tokens_per_block", options_.tokensPerBlock);
    if (cached && options_.kvCacheQuantMode) a.set("kv_cache_quant_mode", options_.kvCacheQuantMode);
    a.set("inputs", std::move(inputs));
  }

  // The cache of each layer goes in and, with the new keys and values, out.
  void addCaches(bool paged) {
    DType dtype = options_.kvCacheQuantMode == 64 ? DType::Int8
                  : options_.kvCacheQuantMode     ? DType::UInt8
                                                  : DType::Float32;
    for (size_t layer = 0; layer < nodes_.size(); ++layer) {
      AttentionNode& a = nodes_[layer];
      TypePtr type =
          tensorOf(dtype, {kAny, 2, model_.kvHeads, paged ? options_.tokensPerBlock : kAny, model_.headSize});
      const char* name = paged ? "kv_cache_pool" : "past_key_value";
      a.setInput(name, add(fmt::format("{}_{}", name, layer), type));
      Value* out = a.node()->addOutput(type);
      out->setName(fmt::format("{}_{}", paged ? "present_kv_cache_pool" : "present_key_value", layer));
      graph_.addOutput(out);
    }
  }

  void cleanUp() {
    for (auto pass : {foldConstants, mergeCommonSubexpressions, poolConstants, removeDeadCode}) {
      context_.facts.refresh();
      pass(graph_, context_);
    }
  }

  Graph& graph_;
  const ServingOptions& options_;
  int64_t longest_;
  RewriteContext context_;
  ServingModel model_;
  Value *ids_ = nullptr, *positions_ = nullptr;
  std::vector<TypePtr> types_;
  std::vector<Node*> head_;  // that take hidden values to make logits of them, the first one last
  Value* hidden_ = nullptr;
  Node* lastLayer_ = nullptr;
  std::vector<AttentionNode> nodes_;
};

}  // namespace

Result<ServingModel> prepareForServing(Graph& graph, const OpRegistry& registry, Evaluator& evaluator,
                                       const ServingOptions& options, Diagnostics& diagnostics) {
  return Preparation(graph, registry, evaluator, options, diagnostics).run();
}

}  // namespace tscompile
