// BertAttention: every token sees all tokens of its sequence; attention/ has the mathematics.
#include "runtime/trtllm/attention/gpt_attention.h"
#include "runtime/trtllm/builtin/graph_text.h"
#include "runtime/trtllm/builtin/matmul_support.h"

#include <cmath>

namespace tscompile {
namespace {

struct BertAttention {
  enum Input { Qkv, Lengths, Longest, Bias };
  int64_t heads = 0, size = 0, maxDistance = 0, fmha = 0;
  double qScaling = 1;
  bool relative = false, packed = false;

  static void describe(tsc::Description<BertAttention>& d) {
    using P = BertAttention;
    d.key("tensorrt_llm", "BertAttention", "1",
          "of each sequence and head: softmax(q k^T / (q_scaling * sqrt(head_size)) + bias) v, in f32; rows of padding "
          "become zeros");
    d.field("num_heads", &P::heads, "heads").mandatory().range(1, 1 << 16);
    d.field("head_size", &P::size, "numbers of a head").mandatory().range(1, 1 << 16);
    d.field("q_scaling", &P::qScaling, "scores are divided by q_scaling * sqrt(head_size)");
    d.field("do_relative_attention", &P::relative, "relative_attention_bias is added to the scores");
    d.field("max_distance", &P::maxDistance,
            "0: the bias is one of queries and keys; else of T5's buckets, the last ones for this distance")
        .range(0, 1 << 20);
    d.field("remove_padding", &P::packed, "the tokens of all sequences are packed in one row");
    d.field("context_fmha_type", &P::fmha, "not needed").range(0, 2);
    d.input("qkv", kRowTypes, "[B, S, 3 H D]: all queries, all keys, all values; packed [T, 3 H D]");
    d.input("input_lengths", tsc::kI32, "[B] tokens of each sequence; packed: T together");
    d.input("max_input_length", tsc::kI32, "not needed").optional();
    d.input("relative_attention_bias", kRowTypes, "[H, S or more, S or more], or [H, buckets] with max_distance")
        .optional();
    d.output("context", kRowTypes, "[B, S, H D] or [T, H D]").sameTypeAs("qkv");
  }
  static std::string_view example() {
    return "graph(%qkv : Float(2, 5, 24), %lengths : Int(2), %bias : Float(2, 8)):\n"
           "  %y : Tensor = tensorrt_llm::BertAttention[num_heads=2, head_size=4, do_relative_attention=1, "
           "max_distance=16, inputs=[\"qkv\", \"input_lengths\", \"relative_attention_bias\"]](%qkv, %lengths, %bias)\n"
           "  return (%y)\n";
  }

  void prepare() const { raise(gptAttentionProblem(params())); }

  void shapes(tsc::Shapes& s) const {
    tsc::Shape x = s.input(Qkv);
    expectRank(x, packed ? 2 : 3, packed ? "packed qkv" : "qkv");
    expectRank(s.input(Lengths), 1, "input_lengths");
    s.expect(x.dims.back(), 3 * heads * size, "the last size of qkv");
    if (!packed) expectEqual(s.input(Lengths).dims[0], x.dims[0], "the number of input_lengths", "the batch of qkv");
    if (relative != s.has(Bias))
      tsc::invalid("the input relative_attention_bias goes with the field do_relative_attention");
    if (relative) {
      tsc::Shape bias = s.input(Bias);
      expectRank(bias, maxDistance > 0 ? 2 : 3, "relative_attention_bias");
      s.expect(bias.dims[0], heads, "the first size of relative_attention_bias");
    }
    x.dims.back() = s.constant(heads * size);
    s.output(0, x.dtype, x.dims);
  }

  void run(tsc::Run& r) const {
    GptAttentionInputs in;
    in.qkv = hostTensor(r.input(Qkv));
    in.contextLengths = in.hostContextLengths = hostTensor(r.input(Lengths));
    if (relative) in.relativeAttentionBias = hostTensor(r.input(Bias));
    raise(gptAttention(params(), in, hostTensor(r.output(0)), hostThreads(r)));
  }

  std::string decompose(const tsc::Tensors& t) const {
    GraphText g;
    ValueText qkv = g.input("qkv"), lengths = g.input("input_lengths");
    if (t.input(Longest).present()) g.input("max_input_length");
    ValueText bias = relative ? g.toFloat(g.input("relative_attention_bias")) : ValueText();
    // [B, heads, S, D]; packed tokens are one sequence.
    ValueText x = g.toFloat(qkv);
    if (packed) x = g.unsqueeze(x, 0);
    ValueText batch = g.size(x, 0), tokens = g.size(x, 1);
    x = g.view(x, {batch, tokens, 3, heads, size});
    auto part = [&](int which) { return g.op("aten::transpose", {g.select(x, 2, which), 1, 2}); };
    ValueText scores =
        g.mul(g.matmul(part(0), g.transposed(part(1))), 1 / (qScaling * std::sqrt(static_cast<double>(size))));
    ValueText at = g.op("aten::arange", {tokens, nullptr, nullptr, nullptr, nullptr}), positions = at, hidden, padding;
    auto columns = [&](ValueText v) { return g.unsqueeze(v, 0); };
    auto rows = [&](ValueText v) { return g.unsqueeze(v, 1); };
    if (packed) {
      ValueText ends = g.op("aten::cumsum", {lengths, 0, nullptr});
      ValueText past = g.op("aten::ge", {rows(at), columns(ends)});
      ValueText sequence = g.op("aten::sum", {past, g.ints({1}), false, nullptr});
      positions = g.sub(at, g.op("aten::index_select", {g.sub(ends, lengths), 0, sequence}));
      hidden = g.op("aten::ne", {rows(sequence), columns(sequence)});
    } else {
      padding = g.op("aten::ge", {columns(at), rows(lengths)});  // [B, S]
      hidden = g.unsqueeze(g.unsqueeze(padding, 1), 1);
    }
    if (relative) scores = g.add(scores, biasText(g, bias, rows(positions), columns(positions)));
    scores = g.op("aten::masked_fill", {scores, hidden, -1e38});
    ValueText y = g.matmul(g.op("aten::softmax", {scores, -1, nullptr}), part(2));
    y = g.view(g.op("aten::transpose", {y, 1, 2}), {batch, tokens, heads * size});
    if (packed) y = g.op("aten::squeeze", {y, 0});
    if (!packed) y = g.op("aten::masked_fill", {y, g.unsqueeze(padding, -1), 0.0});
    return g.finish({g.to(y, t.input(Qkv).dtype())});
  }

 private:
  static void raise(const std::optional<GptAttentionProblem>& problem) {
    if (problem) throw tsc::Error(statusOf(problem->kind), problem->message);
  }

  GptAttentionParams params() const {
    GptAttentionParams p;
    p.numHeads = p.numKvHeads = heads;
    p.headSize = size;
    p.qScaling = qScaling;
    p.mask = AttentionMask::Padding;
    p.unidirectional = false;
    p.removeInputPadding = packed;
    p.maxDistance = maxDistance;
    if (relative) p.positionEmbedding = PositionEmbedding::Relative;
    return p;
  }

  // [H, tokens, tokens] for the positions of queries [tokens, 1] and keys [1, tokens].
  ValueText biasText(GraphText& g, ValueText bias, ValueText query, ValueText key) const {
    ValueText tokens = g.size(query, 0);
    ValueText index, flat = bias;
    if (maxDistance == 0) {
      index = g.add(g.mul(query, g.size(bias, 2)), key);
      flat = g.view(bias, {heads, -1});
    } else {
      auto whole = [&](ValueText a, int64_t by) { return g.typed("int", "aten::floordiv", {a, by}); };
      ValueText distance = g.sub(query, key), far = g.op("aten::abs", {distance});
      ValueText half = whole(g.size(bias, 1), 2), exact = whole(half, 2);
      ValueText base = g.to(g.op("aten::clamp_min", {far, 1}), TSC_F64);
      // log(distance / exact) / log(max_distance / exact) of what is left of the buckets.
      ValueText share = g.div(g.op("aten::log", {g.div(base, exact)}),
                              g.typed("float", "aten::log", {g.typed("float", "aten::div", {maxDistance, exact})}));
      ValueText left = g.typed("int", "aten::sub", {half, exact});
      ValueText logarithmic = g.add(g.to(g.mul(share, left), TSC_I64), exact);
      logarithmic = g.op("aten::clamp_max", {logarithmic, g.typed("int", "aten::sub", {half, 1})});
      ValueText bucket = g.where(g.op("aten::lt", {far, exact}), far, logarithmic);
      index = g.add(bucket, g.mul(g.op("aten::lt", {distance, 0}), half));
    }
    ValueText picked = g.op("aten::index_select", {flat, 1, g.view(index, {-1})});
    return g.view(picked, {heads, tokens, tokens});
  }
};

}  // namespace

const tsc_plugin* makeBertAttention() { return tsc::Definition<BertAttention>::table(); }

}  // namespace tscompile
