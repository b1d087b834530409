// Layernorm and Rmsnorm.
#include "runtime/call/scratch.h"
#include "runtime/kernels/rows.h"
#include "runtime/trtllm/builtin/norm_text.h"

namespace tscompile {
namespace {

// Inputs x, weight and bias: both have the last size of x.
template <bool kCentered>
struct Norm {
  double eps = kCentered ? 1e-5 : 1e-6;
  bool differenceOfSquares = false;
  tsc_dtype type = TSC_NONE;

  static void describe(tsc::Description<Norm>& d) {
    if (kCentered)
      d.key("tensorrt_llm", "Layernorm", "1",
            "y = (x - mean) / sqrt(variance + eps) * weight + bias over the last dimension, in f32");
    else
      d.key("tensorrt_llm", "Rmsnorm", "1",
            "y = x / sqrt(mean of squares + eps) * weight + bias over the last dimension, in f32");
    d.field("eps", &Norm::eps, "added below the root").range(0, 1e9);
    if (kCentered)
      d.field("use_diff_of_squares", &Norm::differenceOfSquares,
              "not needed: variances are means of squared differences");
    d.choice("type_id", &Norm::type, kResultTypes, resultTypes(), "the type of the result");
    d.input("x", kRowTypes, "[.., N]");
    d.input("weight", kRowTypes, "[N]").optional();
    d.input("bias", kRowTypes, "[N]").optional();
    d.output("y", kRowTypes, "as x");
  }
  static std::string_view example() {
    return kCentered ? "graph(%x : Float(3, 37), %w : Float(37), %b : Float(37)):\n"
                       "  %y : Tensor = tensorrt_llm::Layernorm(%x, %w, %b)\n"
                       "  return (%y)\n"
                     : "graph(%x : Float(3, 37), %w : Float(37)):\n"
                       "  %y : Tensor = tensorrt_llm::Rmsnorm(%x, %w)\n"
                       "  return (%y)\n";
  }
  void shapes(tsc::Shapes& s) const {
    tsc::Shape x = s.input(0);
    expectRankFrom(x, 1, "x");
    expectVector(s, 1, x.dims.back(), "weight", "x");
    expectVector(s, 2, x.dims.back(), "bias", "x");
    s.output(0, type == TSC_NONE ? x.dtype : type, x.dims);
  }
  size_t workspace(const tsc::Tensors& t) const {
    return floatBytes(t.input(0)) + floatBytes(t.input(1)) + floatBytes(t.input(2)) + sumsBytes(t.output(0));
  }
  void run(tsc::Run& r) const {
    tsc::Tensor x = r.input(0), out = r.output(0);
    if (out.numel() == 0) return;
    Room room(r.workspace());
    const int64_t rows = rowsOf(x), n = widthOf(x);
    const float *from = asFloats(r, x, room), *weight = asFloats(r, r.input(1), room),
                *bias = asFloats(r, r.input(2), room);
    float* to = sumsFor(out, room);
    if constexpr (kCentered) {
      layerNormRows(rows, n, from, weight, bias, eps, to, hostThreads(r));
    } else {
      rmsNormRows(rows, n, from, weight, eps, to, hostThreads(r));
      if (bias)
        for (int64_t row = 0; row < rows; ++row)
          for (int64_t c = 0; c < n; ++c) to[row * n + c] += bias[c];
    }
    storeResult(r, rows, n, to, {}, out);
  }
  std::string decompose(const tsc::Tensors& t) const {
    GraphText g;
    std::vector<ValueText> in = g.inputs(t, {"x", "weight", "bias"});
    ValueText y = normText(g, kCentered, g.toFloat(in[0]), eps, in[1], in[2]);
    return g.finish({g.to(y, type == TSC_NONE ? t.input(0).dtype() : type)});
  }
};

}  // namespace

const tsc_plugin* makeLayernorm() { return tsc::Definition<Norm<true>>::table(); }
const tsc_plugin* makeRmsnorm() { return tsc::Definition<Norm<false>>::table(); }

}  // namespace tscompile
