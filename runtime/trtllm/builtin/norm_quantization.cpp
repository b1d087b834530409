// Norms followed by quantisation to int8, as graphs: LayernormQuantization, RmsnormQuantization, FusedLayernorm.
#include "runtime/trtllm/builtin/matmul_support.h"
#include "runtime/trtllm/builtin/norm_text.h"
#include "runtime/trtllm/builtin/quantize_text.h"

namespace tscompile {
namespace {

template <bool kCentered>
struct NormQuantization {
  enum Input { X, Weight, Bias, Scale, Clamp };
  double eps = kCentered ? 1e-5 : 1e-6;
  bool differenceOfSquares = false, dynamic = false, clamp = false, sum = false;

  static void describe(tsc::Description<NormQuantization>& d) {
    using P = NormQuantization;
    d.key("tensorrt_llm", kCentered ? "LayernormQuantization" : "RmsnormQuantization", "1",
          kCentered
              ? "q = saturate(round(layernorm(x) * scale)) as int8, halves to even; or with a scale for each row, "
                "as QuantizePerToken"
              : "q = saturate(round(rmsnorm(x) * scale)) as int8, halves to even; or with a scale for each row, as "
                "QuantizePerToken");
    d.field("eps", &P::eps, "added below the root").range(0, 1e9);
    if (kCentered) d.field("use_diff_of_squares", &P::differenceOfSquares, "not needed");
    d.field("dyn_act_scaling", &P::dynamic, "each row has a scale of its own, the second output");
    d.field("clamp_enabled", &P::clamp, "what is quantised is first clamped to clamp_val");
    d.field("sum_per_token", &P::sum, "the sums of the rows that are quantised are the last output");
    d.input("x", kRowTypes, "[.., N]");
    d.input("weight", kRowTypes, "[N]");
    d.input("bias", kRowTypes, "[N]").optional();
    d.input("scale", tsc::kF32, "one factor, unless dyn_act_scaling").optional();
    d.input("clamp_val", tsc::kF32, "[2]: least and largest").optional();
    d.output("q", tsc::kI8, "as x");
    d.output("scale_or_sum", tsc::kF32, "[.., 1]: the scales with dyn_act_scaling, else the sums");
    d.output("sum", tsc::kF32, "[.., 1]");
  }
  static std::string_view example() {
    return kCentered
               ? "graph(%x : Float(3, 37), %w : Float(37), %b : Float(37)):\n"
                 "  %q : Tensor, %s : Tensor, %t : Tensor = tensorrt_llm::LayernormQuantization[dyn_act_scaling=1, "
                 "sum_per_token=1](%x, %w, %b)\n"
                 "  return (%q, %s, %t)\n"
               : "graph(%x : Float(3, 37), %w : Float(37)):\n"
                 "  %q : Tensor, %s : Tensor = tensorrt_llm::RmsnormQuantization[dyn_act_scaling=1](%x, %w)\n"
                 "  return (%q, %s)\n";
  }
  size_t outputs() const { return 1 + dynamic + sum; }
  void shapes(tsc::Shapes& s) const {
    tsc::Shape x = s.input(X);
    expectRankFrom(x, 1, "x");
    expectVector(s, Weight, x.dims.back(), "weight", "x");
    expectVector(s, Bias, x.dims.back(), "bias", "x");
    if (!dynamic && !s.has(Scale)) tsc::invalid("the input scale is needed without dyn_act_scaling");
    expectOne(s, Scale, "scale");
    if (clamp != s.has(Clamp)) tsc::invalid("the input clamp_val goes with the field clamp_enabled");
    s.output(0, TSC_I8, x.dims);
    x.dims.back() = s.constant(1);
    for (size_t o = 1; o < outputs(); ++o) s.output(o, TSC_F32, x.dims);
  }
  std::string decompose(const tsc::Tensors& t) const {
    GraphText g;
    std::vector<ValueText> in = g.inputs(t, {"x", "weight", "bias", "scale", "clamp_val"});
    ValueText y = normText(g, kCentered, g.toFloat(in[X]), eps, in[Weight], in[Bias]);
    if (clamp) y = clampText(g, y, in[Clamp]);
    std::vector<ValueText> results;
    if (dynamic) {
      auto [q, scales] = perTokenText(g, y);
      results = {q, scales};
    } else {
      results = {int8Text(g, g.mul(y, g.view(in[Scale], {})))};
    }
    if (sum) results.push_back(rowSumText(g, y));
    return g.finish(results);
  }
};

// The sum of two tensors, its norm, and that quantised.
struct FusedLayernorm {
  enum Input { X, Residual, Weight, Bias, Scale };
  enum class Quantize { None, Tensor, Token };
  double eps = 1e-5;
  bool rms = false;
  Quantize quantize = Quantize::None;

  static void describe(tsc::Description<FusedLayernorm>& d) {
    using P = FusedLayernorm;
    d.key("tensorrt_llm", "FusedLayernorm", "1",
          "sum = input + residual; y = layernorm(sum) or rmsnorm(sum), as it is or quantised to int8");
    d.field("eps", &P::eps, "added below the root").range(0, 1e9);
    d.field("use_rms", &P::rms, "rmsnorm, else layernorm");
    d.choice("quantize", &P::quantize, "none|tensor|token", {Quantize::None, Quantize::Tensor, Quantize::Token},
             "tensor: int8 with the input scale, as QuantizeTensor; token: int8 with a scale for each row, as "
             "QuantizePerToken");
    d.input("input", kRowTypes, "[.., N]");
    d.input("residual", kRowTypes, "as input").sameTypeAs("input");
    d.input("weight", kRowTypes, "[N]");
    d.input("bias", kRowTypes, "[N]").optional();
    d.input("scale", tsc::kF32, "one factor, of quantize=\"tensor\"").optional();
    d.output("y", kRowTypes | tsc::kI8, "as input");
    d.output("sum", kRowTypes, "as input").sameTypeAs("input");
    d.output("scale", tsc::kF32, "[.., 1], of quantize=\"token\"");
  }
  static std::string_view example() {
    return "graph(%x : Float(3, 37), %r : Float(3, 37), %w : Float(37)):\n"
           "  %q : Tensor, %y : Tensor, %s : Tensor = tensorrt_llm::FusedLayernorm[quantize=\"token\", use_rms=1](%x, "
           "%r, %w)\n"
           "  return (%q, %y, %s)\n";
  }
  size_t outputs() const { return quantize == Quantize::Token ? 3 : 2; }
  void shapes(tsc::Shapes& s) const {
    tsc::Shape x = s.input(X), residual = s.input(Residual);
    expectRankFrom(x, 1, "input");
    expectRank(residual, x.rank(), "residual");
    for (size_t i = 0; i < x.rank(); ++i)
      expectEqual(residual.dims[i], x.dims[i], "size " + std::to_string(i) + " of residual", "that of input");
    expectVector(s, Weight, x.dims.back(), "weight", "input");
    expectVector(s, Bias, x.dims.back(), "bias", "input");
    if ((quantize == Quantize::Tensor) != s.has(Scale)) tsc::invalid("the input scale goes with quantize=\"tensor\"");
    expectOne(s, Scale, "scale");
    s.output(0, quantize == Quantize::None ? x.dtype : TSC_I8, x.dims);
    s.output(1, x);
    x.dims.back() = s.constant(1);
    if (quantize == Quantize::Token) s.output(2, TSC_F32, x.dims);
  }
  std::string decompose(const tsc::Tensors& t) const {
    GraphText g;
    std::vector<ValueText> in = g.inputs(t, {"input", "residual", "weight", "bias", "scale"});
    tsc_dtype type = t.input(X).dtype();
    ValueText sum = g.add(g.toFloat(in[X]), g.toFloat(in[Residual]));
    ValueText y = normText(g, !rms, sum, eps, in[Weight], in[Bias]);
    sum = g.to(sum, type);
    if (quantize == Quantize::None) return g.finish({g.to(y, type), sum});
    if (quantize == Quantize::Tensor) return g.finish({int8Text(g, g.mul(y, g.view(in[Scale], {}))), sum});
    auto [q, scales] = perTokenText(g, y);
    return g.finish({q, sum, scales});
  }
};

}  // namespace

const tsc_plugin* makeFusedLayernorm() { return tsc::Definition<FusedLayernorm>::table(); }
const tsc_plugin* makeLayernormQuantization() { return tsc::Definition<NormQuantization<true>>::table(); }
const tsc_plugin* makeRmsnormQuantization() { return tsc::Definition<NormQuantization<false>>::table(); }

}  // namespace tscompile
