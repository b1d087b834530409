// QServeGemm, as a graph: weights of 4 bits, activations of 8.
#include "runtime/trtllm/builtin/graph_text.h"
#include "runtime/trtllm/builtin/matmul_support.h"

namespace tscompile {
namespace {

struct QServeGemm {
  enum Input { Activation, Weight, S1Scales, ActScales, S1Zeros, ActSums, S2Scales, S2Zeros };
  int64_t group = -1;
  tsc_dtype type = TSC_F16;

  static void describe(tsc::Description<QServeGemm>& d) {
    using P = QServeGemm;
    d.key(
        "tensorrt_llm", "QServeGemm", "1",
        "with q = weight from 0 to 15: y[m, n] = sum_k activation[m, k] q[n, k] * act_scales[m] * s1_scales[n] - "
        "act_sums[m] * s1_szeros[n]; with groups of group_size columns k: y[m, n] = sum_k activation[m, k] (q[n, k] * "
        "s2_scales[g, n] + s2_zeros[g, n]) * act_scales[m] * s1_scales[n]");
    d.field("group_size", &P::group, "-1: scales for whole rows of the weights").range(-1, 1 << 20);
    d.choice("type_id", &P::type, kTypes, floatTypes(), "the type of the result");
    d.input("activation", tsc::kI8, "[M.., K]");
    d.input("weight", tsc::kU8 | tsc::kI8, "[N, K / 2]: two of a row in a byte, the first one in the lower half");
    d.input("s1_scales", kRowTypes, "[N]");
    d.input("act_scales", kRowTypes, "M scales, those that QuantizePerToken gives");
    d.input("s1_szeros", kRowTypes, "[N]: zero points times scales; without groups").optional();
    d.input("act_sums", kRowTypes, "M sums of the activations before they were quantised; without groups").optional();
    d.input("s2_scales", tsc::kI8, "[K / group_size, N]; with groups").optional();
    d.input("s2_zeros", tsc::kI8, "[K / group_size, N]; with groups").optional();
    d.output("y", kRowTypes, "[M.., N]");
  }
  static std::string_view example() {
    return "graph(%a : Char(3, 16), %w : Byte(5, 8), %s : Float(5), %t : Float(3, 1), %z : Float(5), %u : Float(3, "
           "1)):\n"
           "  %y : Tensor = tensorrt_llm::QServeGemm(%a, %w, %s, %t, %z, %u)\n"
           "  return (%y)\n";
  }
  void prepare() const { tsc::require(group != 0, "group_size is 0, expected -1 or a positive number"); }
  void shapes(tsc::Shapes& s) const {
    tsc::Shape a = s.input(Activation), w = s.input(Weight);
    expectRankFrom(a, 1, "activation");
    expectRank(w, 2, "weight");
    expectEqual(w.dims[1] * 2, a.dims.back(), "K of weight", "that of activation");
    bool grouped = group > 0;
    if (grouped ? !s.has(S2Scales) || !s.has(S2Zeros) : !s.has(S1Zeros) || !s.has(ActSums))
      tsc::invalid(grouped ? "s2_scales and s2_zeros are needed with groups"
                           : "s1_szeros and act_sums are needed without groups");
    for (Input i : {S1Scales, S1Zeros}) {
      if (!s.has(i)) continue;
      std::string name = i == S1Scales ? "s1_scales" : "s1_szeros";
      expectRank(s.input(i), 1, name);
      expectEqual(s.input(i).dims[0], w.dims[0], "the number of " + name, "the rows of weight");
    }
    for (Input i : {S2Scales, S2Zeros}) {
      if (!s.has(i)) continue;
      std::string name = i == S2Scales ? "s2_scales" : "s2_zeros";
      expectRank(s.input(i), 2, name);
      expectEqual(s.input(i).dims[1], w.dims[0], "N of " + name, "the rows of weight");
      if (grouped)
        expectEqual(s.input(i).dims[0], a.dims.back().apply(TSC_DIM_CEIL_DIV, group), "the number of rows of " + name,
                    "the groups of K");
    }
    a.dims.back() = w.dims[0];
    s.output(0, type, a.dims);
  }
  std::string decompose(const tsc::Tensors& t) const {
    GraphText g;
    std::vector<ValueText> in = g.inputs(
        t, {"activation", "weight", "s1_scales", "act_scales", "s1_szeros", "act_sums", "s2_scales", "s2_zeros"});
    ValueText a = g.to(in[Activation], TSC_I32);
    // remainder and floor_divide give both halves of signed and of unsigned bytes.
    ValueText bytes = g.to(in[Weight], TSC_I32);
    ValueText low = g.op("aten::remainder", {bytes, 16});
    ValueText high = g.op("aten::remainder", {g.op("aten::floor_divide", {bytes, 16}), 16});
    ValueText N = g.size(bytes, 0);
    ValueText w = g.view(g.op("aten::stack", {g.tensors({low, high}), -1}), {N, -1});  // [N, K]
    auto spread = [&](Input i) {
      ValueText all = g.op("aten::repeat_interleave", {g.to(in[i], TSC_I32), group, 0, nullptr});
      return g.transposed(g.slice(all, 0, 0, g.size(w, 1)));
    };
    if (group > 0) w = g.add(g.mul(w, spread(S2Scales)), spread(S2Zeros));
    ValueText sums = g.toFloat(g.matmul(a, g.transposed(w)));
    auto column = [&](Input i) { return g.view(g.toFloat(in[i]), {-1, 1}); };
    ValueText rows = g.view(sums, {-1, N});
    ValueText y = g.mul(g.mul(rows, column(ActScales)), g.toFloat(in[S1Scales]));
    if (group < 0) y = g.sub(y, g.mul(column(ActSums), g.toFloat(in[S1Zeros])));
    return g.finish({g.to(g.op("aten::view_as", {y, sums}), type)});
  }
};

}  // namespace

const tsc_plugin* makeQServeGemm() { return tsc::Definition<QServeGemm>::table(); }

}  // namespace tscompile
