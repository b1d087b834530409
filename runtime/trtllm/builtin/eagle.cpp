// EagleDecodeDraftTokens, EagleSampleAndAcceptDraftTokens, EaglePrepareDrafterInputs: trees of draft tokens, whose
// nodes are the root 0 (the last token that is certain) and node i, which has draft token i - 1. paths [requests,
// paths, length] are the ways from the root to the leaves as nodes, with -1 after a leaf. Choices are greedy.
#include "runtime/trtllm/builtin/floats.h"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace tscompile {
namespace {

// The trees of all requests.
class Trees {
 public:
  Trees(const tsc::Tensor& paths, int64_t drafts)
      : paths_(paths.data<int32_t>()), count_(paths.size(1)), length_(paths.size(2)) {
    for (int64_t i = 0; i < paths.numel(); ++i)
      if (paths_[i] < -1 || paths_[i] > drafts)
        tsc::invalid(fmt::format("paths has node {}, and there are {} draft tokens", paths_[i], drafts));
    for (int64_t b = 0; b < paths.size(0); ++b)
      for (int64_t p = 0; p < count_ && length_; ++p)
        if (at(b, p, 0) > 0)
          tsc::invalid("paths must begin with the root, 0");
        else
          for (int64_t n = 1; n < length_; ++n)
            if (at(b, p, n) == 0) tsc::invalid("paths must have the root, 0, at their beginning only");
  }
  int64_t count() const { return count_; }
  int64_t length() const { return length_; }
  // The node at a place of a path, or -1.
  int64_t at(int64_t request, int64_t path, int64_t place) const {
    return place < length_ ? paths_[(request * count_ + path) * length_ + place] : -1;
  }
  // Nodes at this depth that have children, in their order; children of one, in their order.
  std::vector<int64_t> parents(int64_t request, int64_t depth) const {
    std::vector<int64_t> out;
    for (int64_t p = 0; p < count_; ++p)
      if (at(request, p, depth) >= 0 && at(request, p, depth + 1) >= 0) out.push_back(at(request, p, depth));
    return unique(std::move(out));
  }
  std::vector<int64_t> children(int64_t request, int64_t depth, int64_t node) const {
    std::vector<int64_t> out;
    for (int64_t p = 0; p < count_; ++p)
      if (at(request, p, depth) == node && at(request, p, depth + 1) >= 0) out.push_back(at(request, p, depth + 1));
    return unique(std::move(out));
  }

 private:
  static std::vector<int64_t> unique(std::vector<int64_t> nodes) {
    std::sort(nodes.begin(), nodes.end());
    nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
    return nodes;
  }
  const int32_t* paths_;
  int64_t count_, length_;
};

// The `count` largest elements of a row of logits, the first of equal ones first.
std::vector<int32_t> largest(const tsc::Tensor& logits, int64_t row, int64_t count) {
  int64_t vocabulary = logits.size(1);
  if (row >= logits.size(0))
    tsc::invalid(fmt::format("logits has {} rows, and the trees ask for more", logits.size(0)));
  if (count > vocabulary)
    tsc::invalid(fmt::format("a node has {} children, and there are {} tokens", count, vocabulary));
  std::vector<float> values(static_cast<size_t>(vocabulary));
  loadFloats(logits, row * vocabulary, vocabulary, values.data());
  std::vector<int32_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::partial_sort(order.begin(), order.begin() + count, order.end(), [&](int32_t a, int32_t b) {
    float x = values[static_cast<size_t>(a)], y = values[static_cast<size_t>(b)];
    return x != y ? x > y : a < b;
  });
  order.resize(static_cast<size_t>(count));
  return order;
}

void expectTrees(const tsc::Shapes& s, size_t paths, size_t likeRequests) {
  expectShape(s, s.input(paths), "paths", {-1, -1, -1});
  expectEqual(s, s.input(paths).dims[0], s.input(likeRequests).dims[0], "size 0 of paths");
}

struct EagleDecodeDraftTokens {
  int64_t layer = 0;
  bool dynamic = false;

  static void describe(tsc::Description<EagleDecodeDraftTokens>& d) {
    using P = EagleDecodeDraftTokens;
    d.key("tensorrt_llm", "EagleDecodeDraftTokens", "1",
          "children of the nodes at depth layer_idx get the most probable tokens of their parent's logits, in order");
    d.field("layer_idx", &P::layer, "depth of the nodes that logits are of").range(0, 1 << 10);
    d.field("use_dynamic_tree", &P::dynamic, "must be false");
    d.input("logits", kFloatsOfPlugins,
            "[rows, vocabulary]: one row for each node of that depth that has children, "
            "request by request, in the order of nodes");
    d.input("paths", tsc::kI32, "[requests, paths, length]");
    d.input("input_draft_token_ids", tsc::kI32, "[requests, draft tokens] of the layers before");
    d.output("output_draft_token_ids", tsc::kI32, "[requests, draft tokens]");
    d.output("output_draft_lens", tsc::kI32, "[requests] draft tokens down to the next depth");
  }
  static std::string_view example() {
    return "graph(%logits : Float(0, 7), %paths : Int(2, 0, 0), %drafts : Int(2, 3)):\n"
           "  %d : Tensor, %n : Tensor = tensorrt_llm::EagleDecodeDraftTokens(%logits, %paths, %drafts)\n"
           "  return (%d, %n)\n";
  }
  void prepare() const {
    if (dynamic) tsc::unsupported("use_dynamic_tree is not implemented");
  }
  void shapes(tsc::Shapes& s) const {
    expectShape(s, s.input(0), "logits", {-1, -1});
    expectShape(s, s.input(2), "input_draft_token_ids", {-1, -1});
    expectTrees(s, 1, 2);
    s.output(0, s.input(2));
    s.output(1, TSC_I32, {s.input(2).dims[0]});
  }
  void run(tsc::Run& r) const {
    tsc::Tensor drafts = r.input(2);
    Trees trees(r.input(1), drafts.size(1));
    std::copy_n(drafts.data<int32_t>(), drafts.numel(), r.output(0).data<int32_t>());
    int64_t row = 0;
    for (int64_t b = 0; b < drafts.size(0); ++b) {
      int32_t* tokens = r.output(0).data<int32_t>() + b * drafts.size(1);
      for (int64_t parent : trees.parents(b, layer)) {
        std::vector<int64_t> children = trees.children(b, layer, parent);
        std::vector<int32_t> best = largest(r.input(0), row++, static_cast<int64_t>(children.size()));
        for (size_t i = 0; i < children.size(); ++i)
          if (children[i] > 0) tokens[children[i] - 1] = best[i];
      }
      int64_t known = 0;
      for (int64_t depth = 0; depth <= layer; ++depth)
        for (int64_t parent : trees.parents(b, depth))
          known += static_cast<int64_t>(trees.children(b, depth, parent).size());
      r.output(1).data<int32_t>()[b] = static_cast<int32_t>(known);
    }
  }
};

struct EagleSampleAndAcceptDraftTokens {
  bool greedy = true;

  static void describe(tsc::Description<EagleSampleAndAcceptDraftTokens>& d) {
    using P = EagleSampleAndAcceptDraftTokens;
    d.key("tensorrt_llm", "EagleSampleAndAcceptDraftTokens", "1",
          "the most probable token of each node is the model's; the path whose drafts agree longest with that is taken "
          "(of equal ones the first), and gives the tokens of its nodes");
    d.field("greedy_sampling", &P::greedy, "must be true");
    d.input("logits", kFloatsOfPlugins,
            "[rows, vocabulary]: of each request, the root and its draft_lens draft tokens");
    d.input("draft_tokens", tsc::kI32, "[requests, draft tokens]");
    d.input("draft_lens", tsc::kI32, "[requests]");
    d.input("paths", tsc::kI32, "[requests, paths, length]");
    d.output("accepted_tokens", tsc::kI32, "[requests, length] with -1 after the last");
    d.output("num_accepted_tokens", tsc::kI32, "[requests]");
    d.output("accepted_paths", tsc::kI32, "[requests] which path it is");
  }
  static std::string_view example() {
    return "graph(%logits : Float(0, 7), %drafts : Int(0, 3), %lens : Int(0), %paths : Int(0, 2, 3)):\n"
           "  %t : Tensor, %n : Tensor, %p : Tensor = tensorrt_llm::EagleSampleAndAcceptDraftTokens(%logits, %drafts, "
           "%lens, %paths)\n"
           "  return (%t, %n, %p)\n";
  }
  void prepare() const {
    if (!greedy) tsc::unsupported("greedy_sampling = false is not implemented");
  }
  void shapes(tsc::Shapes& s) const {
    expectShape(s, s.input(0), "logits", {-1, -1});
    expectShape(s, s.input(1), "draft_tokens", {-1, -1});
    expectShape(s, s.input(2), "draft_lens", {-1});
    expectEqual(s, s.input(2).dims[0], s.input(1).dims[0], "size 0 of draft_lens");
    expectTrees(s, 3, 1);
    tsc::Dim requests = s.input(1).dims[0];
    s.output(0, TSC_I32, {requests, s.input(3).dims[2]});
    s.output(1, TSC_I32, {requests});
    s.output(2, TSC_I32, {requests});
  }
  void run(tsc::Run& r) const {
    tsc::Tensor drafts = r.input(1);
    Trees trees(r.input(3), drafts.size(1));
    int64_t row = 0;
    for (int64_t b = 0; b < drafts.size(0); ++b) {
      int64_t length = integerAt(r.input(2), b);
      if (length < 0 || length > drafts.size(1))
        tsc::invalid(fmt::format("draft_lens has {}, expected 0 to {}", length, drafts.size(1)));
      std::vector<int32_t> target;
      for (int64_t node = 0; node <= length; ++node) target.push_back(largest(r.input(0), row + node, 1)[0]);
      row += length + 1;
      accept(r, trees, b, target);
    }
  }
  static void accept(const tsc::Run& r, const Trees& trees, int64_t b, const std::vector<int32_t>& target) {
    const int32_t* drafts = r.input(1).data<int32_t>() + b * r.input(1).size(1);
    auto nodes = static_cast<int64_t>(target.size());
    int64_t best = 0, most = 0;
    for (int64_t p = 0; p < trees.count(); ++p) {
      int64_t n = 0;
      for (; n < trees.length(); ++n) {
        int64_t node = trees.at(b, p, n);
        if (node < 0 || node >= nodes) break;
        if (n && drafts[node - 1] != target[static_cast<size_t>(trees.at(b, p, n - 1))]) break;
      }
      if (n > most) best = p, most = n;
    }
    int32_t* tokens = r.output(0).data<int32_t>() + b * trees.length();
    std::fill_n(tokens, trees.length(), -1);
    for (int64_t i = 0; i < most; ++i) tokens[i] = target[static_cast<size_t>(trees.at(b, best, i))];
    r.output(1).data<int32_t>()[b] = static_cast<int32_t>(most);
    r.output(2).data<int32_t>()[b] = static_cast<int32_t>(best);
  }
};

struct EaglePrepareDrafterInputs {
  int64_t layer = 0;

  static void describe(tsc::Description<EaglePrepareDrafterInputs>& d) {
    using P = EaglePrepareDrafterInputs;
    d.key(
        "tensorrt_llm", "EaglePrepareDrafterInputs", "1",
        "what the first layer of drafts reads: the accepted tokens of all requests packed in one row, their positions, "
        "and where the hidden states are that they came from");
    d.field("layer_idx", &P::layer, "must be 0").range(0, 1 << 10);
    d.input("accepted_tokens", tsc::kI32, "[requests, length]");
    d.input("num_accepted_tokens", tsc::kI32, "[requests]");
    d.input("accepted_paths", tsc::kI32, "[requests]");
    d.input("paths", tsc::kI32, "[requests, paths, length]");
    d.input("draft_lens", tsc::kI32, "[requests] draft tokens that the model has seen: it has a row more of each");
    d.input("sequence_lengths", tsc::kI32, "[requests] tokens up to the root, included");
    d.output("output_ids", tsc::kI32, "[up to requests * length]").fewerRows();
    d.output("position_ids", tsc::kI32, "[up to requests * length]").fewerRows();
    d.output("hidden_states_indices", tsc::kI32, "[up to requests * length] rows of the model's hidden states")
        .fewerRows();
    d.output("next_sequence_lengths", tsc::kI32, "[requests] with the accepted tokens");
  }
  static std::string_view example() {
    return "graph(%t : Int(0, 3), %n : Int(0), %p : Int(0), %paths : Int(0, 2, 3), %lens : Int(0), %seq : Int(0)):\n"
           "  %i : Tensor, %q : Tensor, %h : Tensor, %s : Tensor = tensorrt_llm::EaglePrepareDrafterInputs(%t, %n, %p, "
           "%paths, %lens, %seq)\n"
           "  return (%i, %q, %h, %s)\n";
  }
  void prepare() const {
    if (layer != 0) tsc::unsupported("layer_idx other than 0 is not implemented");
  }
  void shapes(tsc::Shapes& s) const {
    tsc::Shape tokens = s.input(0);
    expectShape(s, tokens, "accepted_tokens", {-1, -1});
    expectTrees(s, 3, 0);
    expectEqual(s, s.input(3).dims[2], tokens.dims[1], "size 2 of paths");
    for (auto [input, name] : {std::pair(1, "num_accepted_tokens"), std::pair(2, "accepted_paths"),
                               std::pair(4, "draft_lens"), std::pair(5, "sequence_lengths")}) {
      tsc::Shape numbers = s.input(static_cast<size_t>(input));
      expectShape(s, numbers, name, {-1});
      expectEqual(s, numbers.dims[0], tokens.dims[0], fmt::format("size 0 of {}", name));
    }
    for (size_t o = 0; o < 3; ++o) s.output(o, TSC_I32, {tokens.dims[0] * tokens.dims[1]});
    s.output(3, TSC_I32, {tokens.dims[0]});
  }
  void run(tsc::Run& r) const {
    tsc::Tensor tokens = r.input(0);
    int64_t most = std::numeric_limits<int32_t>::max(), rows = 0, at = 0;
    Trees trees(r.input(3), most);
    for (int64_t b = 0; b < tokens.size(0); ++b) {
      int64_t count = integerAt(r.input(1), b), path = integerAt(r.input(2), b), length = integerAt(r.input(5), b);
      if (count < 0 || count > tokens.size(1))
        tsc::invalid(fmt::format("num_accepted_tokens has {}, expected 0 to {}", count, tokens.size(1)));
      if (count && (path < 0 || path >= trees.count()))
        tsc::invalid(fmt::format("accepted_paths has {}, and there are {} paths", path, trees.count()));
      for (int64_t i = 0; i < count; ++i, ++at) {
        int64_t node = trees.at(b, path, i);
        if (node < 0) tsc::invalid(fmt::format("request {} has {} accepted tokens, and its path is shorter", b, count));
        r.output(0).data<int32_t>()[at] = tokens.data<int32_t>()[b * tokens.size(1) + i];
        r.output(1).data<int32_t>()[at] = static_cast<int32_t>(length + i);
        r.output(2).data<int32_t>()[at] = static_cast<int32_t>(rows + node);
      }
      rows += integerAt(r.input(4), b) + 1;
      r.output(3).data<int32_t>()[b] = static_cast<int32_t>(length + count);
    }
    for (size_t o = 0; o < 3; ++o) r.setRows(o, at);
  }
};

}  // namespace

const tsc_plugin* makeEagleDecodeDraftTokens() { return tsc::Definition<EagleDecodeDraftTokens>::table(); }
const tsc_plugin* makeEaglePrepareDrafterInputs() { return tsc::Definition<EaglePrepareDrafterInputs>::table(); }
const tsc_plugin* makeEagleSampleAndAcceptDraftTokens() {
  return tsc::Definition<EagleSampleAndAcceptDraftTokens>::table();
}

}  // namespace tscompile
