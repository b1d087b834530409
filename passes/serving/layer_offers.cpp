#include "passes/serving/layer_offers.h"

#include "ir/support/text.h"
#include "ir/values/aten.h"
#include "passes/lowering/clean_up.h"
#include "passes/rewrite/edits.h"
#include "passes/rewrite/formula.h"
#include "passes/serving/attention_node.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>

namespace tscompile {
namespace {

constexpr const char* kOwnLayer = "engines have a layer of their own for it";
constexpr const char* kApart = "the weights of its experts are no tensor of all experts";
constexpr const char* kInStates = "its state is a tensor of each text, and the plugin wants slots of a pool";

bool isAten(const Node* n, std::string_view name) {
  return n && n->kind().nameSpace() == "aten" && n->kind().name() == name;
}

// Who else computes a layer, told by its operator.
struct Others {
  std::string_view name;  // of aten
  const char *layer, *plugin, *refusal;
};
constexpr Others kOthers[] = {
    {"layer_norm", "norm", "Layernorm", kOwnLayer},
    {"rms_norm", "norm", "Rmsnorm", kOwnLayer},
    {"embedding", "table", "Lookup", kOwnLayer},
    {"cumsum", "sum of tokens", "CumsumLastDim", kOwnLayer},
    {"_grouped_mm", "experts", "MixtureOfExperts", "what chooses experts is no part of the product"},
    {"index_add", "experts", "MixtureOfExperts", kApart},
    {"index_add_", "experts", "MixtureOfExperts", kApart},
    {"conv1d", "convolution", "MambaConv1d", kInStates},
    {"convolution", "convolution", "MambaConv1d", kInStates},
    {"_convolution", "convolution", "MambaConv1d", kInStates},
};

std::string nameOf(const Node* n) {
  return fmt::format("%{} ({})", n->outputCount() ? n->output(0)->name() : "", n->kind().text());
}

// A norm that is written out, x * rsqrt(mean(x * x) + eps) * weight, and what its plugin takes.
struct WrittenNorm {
  Value* x;
  double eps;
  Value* weight;  // or null
  Node* result;
};

class Offers {
 public:
  Offers(Graph& graph, RewriteContext& context, const std::string& noAttention)
      : graph_(graph), c_(context), noAttention_(noAttention) {}

  std::vector<LayerOffer> run() {
    std::vector<Node*> nodes;
    forEachNode(graph_, [&](Node* n) { nodes.push_back(n); });
    for (Node* n : nodes) look(n);
    for (const WrittenNorm& norm : norms_) replace(norm);
    if (!norms_.empty()) {
      c_.facts.refresh();
      removeDeadCode(graph_, c_);
    }
    return std::move(out_);
  }

 private:
  void tell(const char* layer, const char* plugin, const Node* n, std::string refusal) {
    out_.push_back({layer, std::string("tensorrt_llm::") + plugin, std::move(refusal), nameOf(n)});
  }

  void look(Node* n) {
    const Symbol k = n->kind();
    if (k == sym::GptAttention) return tell("attention", "GPTAttention", n, "");
    if (k == aten::scaled_dot_product_attention || (k == aten::softmax && isAttention(n)))
      return tell("attention", "GPTAttention", n, noAttention_);
    if (k == aten::linear || k == aten::matmul) return lookAtProduct(n);
    if (isAten(n, "rsqrt") || isAten(n, "sqrt")) return lookAtNorm(n);
    for (const Others& o : kOthers)
      if (isAten(n, o.name)) return tell(o.layer, o.plugin, n, o.refusal);
    if (k == sym::Loop) return tell("scan", "SelectiveScan", n, kInStates);
  }

  // Whether it is of products, and its result goes into one.
  bool isAttention(const Node* n) const {
    const Node* reader = n->output()->useCount() ? (*n->output()->uses().begin()).user : nullptr;
    return reader && (reader->kind() == aten::matmul || isAten(reader, "bmm"));
  }

  // ---- products ----

  void lookAtProduct(const Node* n) {
    const IValue* weight = GraphFacts::constant(n->input(1));
    if (isDequantized(n->input(1)))
      return tell("quantised product", "WeightOnlyQuantMatmul", n, "engines multiply such weights themselves");
    if (!weight || !weight->isTensor() || weight->toTensor().rank() != 2) return;
    const Node* before = n->input(0)->node();
    if (before && before->kind() == n->kind() && isNarrow(before) && !isNarrow(n))
      return tell("adapter", "Lora", n, "all requests have the same one, and its products are layers of engines");
    tell("product", "Gemm", n, kOwnLayer);
  }
  static bool isDequantized(const Value* weight) {
    const Node* n = weight->node();
    return n && n->kind().text().find("dequantize") != std::string_view::npos;
  }
  // To far fewer numbers than it takes.
  static bool isNarrow(const Node* n) {
    constexpr int64_t kTimes = 4;
    const IValue* weight = GraphFacts::constant(n->input(1));
    if (!weight || !weight->isTensor() || weight->toTensor().rank() != 2) return false;
    const bool isLinear = n->kind() == aten::linear;
    Tensor w = weight->toTensor();
    return w.size(isLinear ? 0 : 1) * kTimes <= w.size(isLinear ? 1 : 0);
  }

  // ---- norms ----

  void lookAtNorm(Node* root) {
    std::string refusal;
    std::optional<WrittenNorm> norm = writtenNorm(root, refusal);
    if (!norm && refusal.empty()) return;
    tell("norm", "Rmsnorm", norm ? norm->result : root, refusal);
    if (norm) norms_.push_back(*norm);
  }

  std::optional<WrittenNorm> writtenNorm(Node* root, std::string& refusal) {
    Node *sum = onlyFor(root->input(0)), *mean = nullptr;
    if (!sum || sum->kind() != aten::add) return std::nullopt;
    std::optional<double> eps;
    for (size_t i : {0, 1})
      if (std::optional<double> e = numberOf(sum->input(1 - i)); e && !mean) mean = onlyFor(sum->input(i)), eps = e;
    Value* x = mean && mean->kind() == aten::mean ? squared(mean->input(0)) : nullptr;
    if (!x) return std::nullopt;
    auto fail = [&](const char* why) {
      refusal = why;
      return std::nullopt;
    };
    std::optional<size_t> rank = c_.facts.rank(x);
    std::optional<Dims> dims = c_.facts.integers(mean->input(1));
    const bool isLast =
        dims && dims->size() == 1 && ((*dims)[0] == -1 || (rank && (*dims)[0] == static_cast<int64_t>(*rank) - 1));
    if (!isLast || c_.facts.boolean(mean->input(2)) != true) return fail("it is not over the last dimension");
    if (c_.facts.dtype(x) != DType::Float32) return fail("it is not computed in float32");
    Node* scaled = isAten(root, "rsqrt") ? product(root->output(), x) : quotient(root->output(), x);
    if (!scaled) return fail("what is scaled is not what the mean is of");
    WrittenNorm norm{x, *eps, nullptr, scaled};
    if (Node* weighted = onlyReader(scaled->output()); weighted && weighted->kind() == aten::mul) {
      Value* other = weighted->input(weighted->input(0) == scaled->output() ? 1 : 0);
      if (isWeight(other, x)) norm.weight = other, norm.result = weighted;
    }
    return norm;
  }

  // The node behind a value that nothing else reads.
  Node* onlyFor(const Value* v) {
    Node* n = v->useCount() == 1 ? v->node() : nullptr;
    return n && c_.facts.isPure(n) && n->outputCount() == 1 ? n : nullptr;
  }
  static Node* onlyReader(const Value* v) { return v->useCount() == 1 ? (*v->uses().begin()).user : nullptr; }

  std::optional<double> numberOf(const Value* v) const {
    if (std::optional<double> n = c_.facts.number(v)) return n;
    const IValue* constant = GraphFacts::constant(v);
    if (!constant || !constant->isTensor() || !constant->toTensor().defined()) return std::nullopt;
    Tensor t = constant->toTensor();
    return t.numel() == 1 && isFloating(t.dtype()) ? std::optional(t.real(0)) : std::nullopt;
  }

  Value* squared(const Value* v) {
    Node* n = onlyFor(v);
    const bool isPower = isAten(n, "pow") && numberOf(n->input(1)) == 2.0;
    const bool isProduct = n && n->kind() == aten::mul && n->input(0) == n->input(1);
    return isPower || isProduct || isAten(n, "square") ? n->input(0) : nullptr;
  }

  static Node* product(const Value* root, const Value* x) {
    Node* n = onlyReader(root);
    if (!n || n->kind() != aten::mul) return nullptr;
    return n->input(n->input(0) == root ? 1 : 0) == x ? n : nullptr;
  }
  static Node* quotient(const Value* root, const Value* x) {
    Node* n = onlyReader(root);
    return n && n->kind() == aten::div && n->inputCount() == 2 && n->input(0) == x ? n : nullptr;
  }

  // A constant of one row.
  bool isWeight(const Value* v, const Value* x) {
    const IValue* constant = GraphFacts::constant(v);
    if (!constant || !constant->isTensor()) return false;
    Tensor t = constant->toTensor();
    if (!t.defined() || t.dtype() != DType::Float32 || t.rank() != 1) return false;
    const TensorFacts& facts = c_.facts.tensor(x);
    return facts.hasRank && !facts.sizes.empty() && facts.sizes.back() == t.size(0);
  }

  void replace(const WrittenNorm& norm) {
    Formula f(norm.result, c_);
    Node* made = norm.weight ? f.builder().insert(Symbol::of("tensorrt_llm::Rmsnorm"), {norm.x, norm.weight})
                             : f.builder().insert(Symbol::of("tensorrt_llm::Rmsnorm"), {norm.x});
    made->setAttribute(Symbol::of("eps"), IValue(norm.eps));
    made->output()->setType(norm.result->output()->type());
    replaceValue(norm.result->output(), made->output());
  }

  Graph& graph_;
  RewriteContext& c_;
  const std::string& noAttention_;
  std::vector<WrittenNorm> norms_;
  std::vector<LayerOffer> out_;
};

}  // namespace

std::vector<LayerOffer> offerLayers(Graph& graph, const OpRegistry& registry, const std::string& noAttention,
                                    Diagnostics& diagnostics) {
  RewriteContext context(graph, registry, diagnostics);
  return Offers(graph, context, noAttention).run();
}

std::string offersText(const std::vector<LayerOffer>& offers) {
  struct Line {
    const LayerOffer* first;
    size_t count;
  };
  std::vector<Line> lines;
  size_t layers = 0, plugins = 0;
  for (const LayerOffer& o : offers) {
    auto same = std::ranges::find_if(lines, [&](const Line& l) {
      return l.first->layer == o.layer && l.first->plugin == o.plugin && l.first->refusal == o.refusal;
    });
    if (same == lines.end()) same = lines.insert(lines.end(), {&o, 0});
    ++same->count;
    layers = std::max(layers, o.layer.size()), plugins = std::max(plugins, o.plugin.size());
  }
  std::string out;
  for (const Line& l : lines)
    out += fmt::format("{:>4} {:<{}}  {:<{}}  {}: {}{}\n", l.count, l.first->layer, layers, l.first->plugin, plugins,
                       l.first->refusal.empty() ? "taken" : "not taken",
                       l.first->refusal.empty() ? "" : l.first->refusal + "; ",
                       (l.count > 1 ? "the first is " : "") + l.first->node);
  return out;
}

}  // namespace tscompile
