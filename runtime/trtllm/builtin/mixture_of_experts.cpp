// MixtureOfExperts: each token goes through the few feed-forward networks that its scores choose.
#include "runtime/trtllm/builtin/charged_bytes.h"
#include "runtime/trtllm/builtin/float_rows.h"
#include "runtime/trtllm/builtin/floats.h"
#include "runtime/trtllm/builtin/graph_text.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tscompile {
namespace {

enum class ExpertActivation { Gelu, Relu, Silu, Swiglu, Geglu, Identity };
enum class Normalization { None, Renormalize, SparseMixer };

constexpr int64_t kColumns = 64, kRows = 48;  // of a piece of work

struct MixtureOfExperts {
  int64_t experts = 0, perToken = 2, width = 0, inner = 0, quantMode = 0, groupSize = -1, groupAlgorithm = 0;
  int64_t tensorRanks = 1, tensorRank = 0, expertRanks = 1, expertRank = 0, sideStream = 0, mostRank = 0;
  ExpertActivation activation = ExpertActivation::Swiglu;
  Normalization normalization = Normalization::Renormalize;
  tsc_dtype type = TSC_NONE;
  bool packed = false, biased = false, finalScales = true, lora = false;

  enum In { kX, kRouting, kUp, kDown, kUpBias, kDownBias, kChosen, kScales };

  static void describe(tsc::Description<MixtureOfExperts>& d) {
    using P = MixtureOfExperts;
    d.key(
        "tensorrt_llm", "MixtureOfExperts", "1",
        "probabilities = softmax(routing); the experts_per_token largest choose experts (of equal ones the first) and "
        "weigh their results W2 act(W1 x + b1) + b2");
    d.field("number_of_experts", &P::experts, "on all ranks").mandatory().range(1, 1 << 16);
    d.field("experts_per_token", &P::perToken, "how many each token goes to").range(1, 1 << 10);
    d.field("expert_hidden_size", &P::width, "columns of the input").mandatory().range(1, 1 << 24);
    d.field("expert_inter_size", &P::inner, "columns between the two products, of this rank")
        .mandatory()
        .range(1, 1 << 24);
    d.choice("activation_type", &P::activation, "gelu|relu|silu|swiglu|geglu|identity",
             {ExpertActivation::Gelu, ExpertActivation::Relu, ExpertActivation::Silu, ExpertActivation::Swiglu,
              ExpertActivation::Geglu, ExpertActivation::Identity},
             "between the products; swiglu and geglu: up * act(gate), where expert_weights_1 has the rows of up first");
    d.choice("normalization_mode", &P::normalization, "none|renormalize|sparse_mixer",
             {Normalization::None, Normalization::Renormalize, Normalization::SparseMixer},
             "renormalize: the chosen probabilities are divided by their sum");
    d.field("use_final_scales", &P::finalScales, "without it, results are summed as they are");
    d.field("use_bias", &P::biased, "expert_bias_1 and expert_bias_2 are given");
    d.choice("type_id", &P::type, kTypeNames, typeValues(), "type of the result; auto: as the input");
    d.field("remove_input_padding", &P::packed, "not needed: any leading sizes are taken");
    d.field("quant_mode", &P::quantMode, "must be 0");
    d.field("groupwise_quant_algo", &P::groupAlgorithm, "must be 0");
    d.field("group_size", &P::groupSize, "not needed");
    d.field("tp_size", &P::tensorRanks, "ranks that share each expert: results are to be summed").range(1, 1 << 16);
    d.field("tp_rank", &P::tensorRank, "which of them it is; the first adds expert_bias_2").range(0, 1 << 16);
    d.field("ep_size", &P::expertRanks, "ranks that share the experts: results are to be summed").range(1, 1 << 16);
    d.field("ep_rank", &P::expertRank, "which of them it is").range(0, 1 << 16);
    d.field("side_stream_id", &P::sideStream, "not needed");
    d.field("use_lora", &P::lora, "must be false");
    d.field("max_low_rank", &P::mostRank, "not needed");
    d.input("input", kFloatsOfPlugins, "[.., expert_hidden_size]");
    d.input("routing", kFloatsOfPlugins, "scores [.., number_of_experts] before softmax").optional();
    d.input("expert_weights_1", kFloatsOfPlugins, "[experts of this rank, inner (twice that with a gate), hidden]");
    d.input("expert_weights_2", kFloatsOfPlugins, "[experts of this rank, hidden, inner]");
    d.input("expert_bias_1", kFloatsOfPlugins, "[experts of this rank, inner (twice that with a gate)]").optional();
    d.input("expert_bias_2", kFloatsOfPlugins, "[experts of this rank, hidden]").optional();
    d.input("token_selected_experts", tsc::kI32, "in place of routing: [.., experts_per_token]").optional();
    d.input("token_final_scales", tsc::kF32, "[.., experts_per_token], with token_selected_experts").optional();
    d.output("output", kFloatsOfPlugins, "as the input");
  }
  static std::string_view example() {
    return "graph(%x : Float(5, 4), %scores : Float(5, 3), %up : Float(3, 12, 4), %down : Float(3, 4, 6)):\n"
           "  %y : Tensor = tensorrt_llm::MixtureOfExperts[number_of_experts=3, expert_hidden_size=4, "
           "expert_inter_size=6](%x, %scores, %up, %down)\n"
           "  return (%y)\n";
  }

  bool gated() const { return activation == ExpertActivation::Swiglu || activation == ExpertActivation::Geglu; }
  int64_t upRows() const { return gated() ? 2 * inner : inner; }
  int64_t ownExperts() const { return experts / expertRanks; }
  Activation function() const {
    switch (activation) {
      case ExpertActivation::Gelu:
      case ExpertActivation::Geglu:
        return Activation::Gelu;
      case ExpertActivation::Relu:
        return Activation::Relu;
      case ExpertActivation::Silu:
      case ExpertActivation::Swiglu:
        return Activation::Silu;
      default:
        return Activation::None;
    }
  }

  void prepare() const {
    if (perToken > experts)
      tsc::invalid(fmt::format("experts_per_token is {}, and there are {} experts", perToken, experts));
    if (experts % expertRanks || expertRank >= expertRanks)
      tsc::invalid(fmt::format("ep_size {} must divide number_of_experts {}, and ep_rank {} be below it", expertRanks,
                               experts, expertRank));
    if (tensorRank >= tensorRanks) tsc::invalid("tp_rank must be below tp_size");
    if (normalization == Normalization::SparseMixer)
      tsc::unsupported("normalization_mode sparse_mixer is not implemented");
    if (quantMode || groupAlgorithm) tsc::unsupported("quant_mode and groupwise_quant_algo are not implemented");
    if (lora) tsc::unsupported("use_lora is not implemented");
  }

  void shapes(tsc::Shapes& s) const {
    tsc::Shape x = s.input(kX);
    if (x.rank() == 0) tsc::invalid("input has no dimensions, expected one at least");
    s.expect(x.dims.back(), width, "the last size of input");
    if (s.has(kRouting) == s.has(kChosen)) tsc::invalid("routing or token_selected_experts must be given, not both");
    if (s.has(kChosen) != s.has(kScales)) tsc::invalid("token_final_scales goes with token_selected_experts");
    expectLeading(s, kRouting, "routing", experts);
    expectLeading(s, kChosen, "token_selected_experts", perToken);
    expectLeading(s, kScales, "token_final_scales", perToken);
    expectShape(s, s.input(kUp), "expert_weights_1", {ownExperts(), upRows(), width});
    expectShape(s, s.input(kDown), "expert_weights_2", {ownExperts(), width, inner});
    if (biased != s.has(kUpBias) || biased != s.has(kDownBias))
      tsc::invalid("expert_bias_1 and expert_bias_2 go with use_bias");
    if (biased) {
      expectShape(s, s.input(kUpBias), "expert_bias_1", {ownExperts(), upRows()});
      expectShape(s, s.input(kDownBias), "expert_bias_2", {ownExperts(), width});
    }
    s.output(0, type == TSC_NONE ? x.dtype : type, x.dims);
  }
  static void expectLeading(const tsc::Shapes& s, size_t input, std::string_view name, int64_t last) {
    if (!s.has(input)) return;
    std::vector<int64_t> sizes(s.input(kX).rank(), -1);
    sizes.back() = last;
    expectShape(s, s.input(input), name, sizes);
    for (size_t d = 0; d + 1 < sizes.size(); ++d)
      expectEqual(s, s.input(input).dims[d], s.input(kX).dims[d], fmt::format("size {} of {}", d, name));
  }

  // ---- routing ----

  struct Choice {
    int64_t expert;
    float weight;
  };
  // Which experts a token goes to, the most probable first.
  void choose(const tsc::Run& r, int64_t token, Choice* to) const {
    if (r.has(kChosen)) {
      for (int64_t k = 0; k < perToken; ++k) {
        int64_t expert = integerAt(r.input(kChosen), token * perToken + k);
        if (expert < 0 || expert >= experts)
          tsc::invalid(fmt::format("token_selected_experts has {}, and there are {} experts", expert, experts));
        to[k] = {expert, r.input(kScales).data<float>()[token * perToken + k]};
      }
    } else {
      std::vector<float> scores(static_cast<size_t>(experts));
      loadFloats(r.input(kRouting), token * experts, experts, scores.data());
      chooseByScores(scores, to);
    }
    for (int64_t k = 0; k < perToken && !finalScales; ++k) to[k].weight = 1;
  }
  void chooseByScores(std::vector<float>& p, Choice* to) const {
    float most = *std::max_element(p.begin(), p.end()), sum = 0, chosen = 0;
    for (float& v : p) sum += v = std::exp(v - most);
    std::vector<int64_t> order(p.size());
    std::iota(order.begin(), order.end(), 0);
    auto probability = [&](int64_t e) { return p[static_cast<size_t>(e)]; };
    std::partial_sort(order.begin(), order.begin() + perToken, order.end(), [&](int64_t a, int64_t b) {
      return probability(a) != probability(b) ? probability(a) > probability(b) : a < b;
    });
    for (int64_t k = 0; k < perToken; ++k) chosen += probability(order[static_cast<size_t>(k)]);
    float divisor = normalization == Normalization::Renormalize ? chosen : sum;
    for (int64_t k = 0; k < perToken; ++k) {
      int64_t e = order[static_cast<size_t>(k)];
      to[k] = {e, probability(e) / divisor};
    }
  }

  // ---- experts ----

  // Pairs (token, choice) of one expert, in the order of tokens.
  struct Group {
    int64_t expert;  // of this rank
    std::vector<int64_t> pairs;
  };
  // Some pairs of a group.
  struct Piece {
    const Group* group;
    size_t first, count;
  };

  void run(tsc::Run& r) const {
    tsc::Tensor in = r.input(kX);
    int64_t tokens = in.numel() / width, pairs = tokens * perToken;
    std::vector<Choice> choices(static_cast<size_t>(pairs));
    for (int64_t t = 0; t < tokens; ++t) choose(r, t, choices.data() + t * perToken);
    std::vector<Group> groups(static_cast<size_t>(ownExperts()));
    for (int64_t i = 0; i < pairs; ++i) {
      int64_t e = choices[static_cast<size_t>(i)].expert - expertRank * ownExperts();
      if (e >= 0 && e < ownExperts()) groups[static_cast<size_t>(e)].pairs.push_back(i);
    }
    std::vector<Piece> pieces;
    for (size_t e = 0; e < groups.size(); ++e) {
      groups[e].expert = static_cast<int64_t>(e);
      for (size_t i = 0; i < groups[e].pairs.size(); i += kRows)
        pieces.push_back({&groups[e], i, std::min<size_t>(kRows, groups[e].pairs.size() - i)});
    }
    Floats x(in);
    ChargedBytes charged(static_cast<size_t>(pairs) * static_cast<size_t>(inner + width) * sizeof(float));
    std::vector<float> hidden(static_cast<size_t>(pairs * inner)), results(static_cast<size_t>(pairs * width));
    forColumns(r, pieces, inner,
               [&](const Piece& p, int64_t first, int64_t count) { up(r, p, first, count, x.data(), hidden.data()); });
    forColumns(r, pieces, width, [&](const Piece& p, int64_t first, int64_t count) {
      down(r, p, first, count, hidden.data(), results.data());
    });
    sum(r, choices, results);
  }

  template <class F>
  static void forColumns(const tsc::Run& r, const std::vector<Piece>& pieces, int64_t columns, F&& body) {
    int64_t blocks = (columns + kColumns - 1) / kColumns;
    r.parallelFor(pieces.size() * static_cast<size_t>(blocks), 1, [&](size_t begin, size_t end) {
      for (size_t i = begin; i < end; ++i) {
        int64_t first = static_cast<int64_t>(i) % blocks * kColumns;
        body(pieces[i / static_cast<size_t>(blocks)], first, std::min(kColumns, columns - first));
      }
    });
  }

  // out[pair, column] = rows . weights[row of the column] + bias.
  static void product(const tsc::Run& r, In weights, In bias, bool isBiased, int64_t firstRow, int64_t count, int64_t k,
                      const std::vector<const float*>& rows, float* out) {
    tsc::Tensor w = r.input(weights);
    std::vector<float> wide;
    const float* data = w.data<float>() + firstRow * k;
    if (w.dtype() != TSC_F32) {
      wide.resize(static_cast<size_t>(count * k));
      loadFloats(w, firstRow * k, count * k, wide.data());
      data = wide.data();
    }
    auto m = static_cast<int64_t>(rows.size());
    productOfRows(rows.data(), m, data, count, k, k, out, kColumns);
    if (!isBiased) return;
    float added[kColumns];
    loadFloats(r.input(bias), firstRow, count, added);
    for (int64_t i = 0; i < m; ++i)
      for (int64_t c = 0; c < count; ++c) out[i * kColumns + c] += added[c];
  }

  void up(const tsc::Run& r, const Piece& p, int64_t first, int64_t count, const float* x, float* hidden) const {
    std::vector<const float*> rows;
    const int64_t* pairs = p.group->pairs.data() + p.first;
    for (size_t i = 0; i < p.count; ++i) rows.push_back(x + pairs[i] / perToken * width);
    std::vector<float> values(p.count * kColumns), gate(gated() ? p.count * kColumns : 0);
    int64_t row = p.group->expert * upRows() + first;
    product(r, kUp, kUpBias, biased, row, count, width, rows, values.data());
    if (gated()) product(r, kUp, kUpBias, biased, row + inner, count, width, rows, gate.data());
    for (size_t i = 0; i < p.count; ++i) {
      float *v = values.data() + i * kColumns, *to = hidden + pairs[i] * inner + first;
      if (!gated()) {
        activateRow(function(), v, to, count);
        continue;
      }
      float* g = gate.data() + i * kColumns;
      activateRow(function(), g, g, count);
      for (int64_t c = 0; c < count; ++c) to[c] = v[c] * g[c];
    }
  }

  void down(const tsc::Run& r, const Piece& p, int64_t first, int64_t count, const float* hidden,
            float* results) const {
    std::vector<const float*> rows;
    const int64_t* pairs = p.group->pairs.data() + p.first;
    for (size_t i = 0; i < p.count; ++i) rows.push_back(hidden + pairs[i] * inner);
    std::vector<float> values(p.count * kColumns);
    product(r, kDown, kDownBias, biased && tensorRank == 0, p.group->expert * width + first, count, inner, rows,
            values.data());
    for (size_t i = 0; i < p.count; ++i)
      std::copy_n(values.data() + i * kColumns, count, results + pairs[i] * width + first);
  }

  // In the order of choices: the most probable expert first.
  void sum(const tsc::Run& r, const std::vector<Choice>& choices, const std::vector<float>& results) const {
    auto tokens = static_cast<size_t>(r.input(kX).numel() / width);
    r.parallelFor(tokens, 8, [&](size_t begin, size_t end) {
      std::vector<float> row(static_cast<size_t>(width));
      for (size_t t = begin; t < end; ++t) {
        std::fill(row.begin(), row.end(), 0.0f);
        for (auto k = 0; k < perToken; ++k) {
          size_t pair = t * static_cast<size_t>(perToken) + static_cast<size_t>(k);
          int64_t e = choices[pair].expert - expertRank * ownExperts();
          if (e < 0 || e >= ownExperts()) continue;
          const float* from = results.data() + pair * static_cast<size_t>(width);
          for (int64_t c = 0; c < width; ++c) row[static_cast<size_t>(c)] += choices[pair].weight * from[c];
        }
        storeFloats(row.data(), width, r.output(0), static_cast<int64_t>(t) * width);
      }
    });
  }

  // All tokens go through all experts, and most results count nothing.
  std::string decompose(const tsc::Tensors& in) const {
    GraphText g;
    std::vector<ValueText> names =
        g.inputs(in, {"x", "routing", "up", "down", "up_bias", "down_bias", "chosen", "scales"});
    ValueText x = g.toFloat(names[kX]), chosen = names[kChosen], scales = names[kScales];
    if (chosen.empty()) {
      ValueText p = g.op("aten::softmax", {g.toFloat(names[kRouting]), -1, nullptr});
      auto [sorted, order] = g.two("aten::sort", {p, true, -1, true});
      scales = g.slice(sorted, -1, 0, perToken);
      chosen = g.slice(order, -1, 0, perToken);
      ValueText sum = g.op("aten::sum", {scales, g.ints({-1}), true, nullptr});
      if (normalization == Normalization::Renormalize) scales = g.div(scales, sum);
    }
    if (!finalScales) scales = g.op("aten::ones_like", {scales, nullptr, nullptr, nullptr, nullptr, nullptr});
    ValueText up = g.toFloat(names[kUp]), down = g.toFloat(names[kDown]), y;
    for (int64_t e = 0; e < ownExperts(); ++e) {
      ValueText isIt = g.op("aten::eq", {chosen, e + expertRank * ownExperts()});
      ValueText weight = g.op("aten::sum", {g.mul(scales, isIt), g.ints({-1}), true, nullptr});
      ValueText h = g.matmul(x, g.transposed(g.select(up, 0, e)));
      if (biased) h = g.add(h, g.select(g.toFloat(names[kUpBias]), 0, e));
      h = gated() ? g.mul(g.slice(h, -1, 0, inner), activated(g, g.slice(h, -1, inner, 2 * inner))) : activated(g, h);
      h = g.matmul(h, g.transposed(g.select(down, 0, e)));
      if (biased && tensorRank == 0) h = g.add(h, g.select(g.toFloat(names[kDownBias]), 0, e));
      y = e ? g.add(y, g.mul(weight, h)) : g.mul(weight, h);
    }
    return g.finish({g.to(y, type == TSC_NONE ? in.input(0).dtype() : type)});
  }
  ValueText activated(GraphText& g, ValueText x) const {
    switch (function()) {
      case Activation::Gelu:
        return g.op("aten::gelu", {x, GraphText::text("none")});
      case Activation::Relu:
        return g.op("aten::relu", {x});
      case Activation::Silu:
        return g.op("aten::silu", {x});
      default:
        return x;
    }
  }
};

}  // namespace

const tsc_plugin* makeMixtureOfExperts() { return tsc::Definition<MixtureOfExperts>::table(); }

}  // namespace tscompile
