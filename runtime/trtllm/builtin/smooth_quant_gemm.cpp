// SmoothQuantGemm: a product of int8 matrices with scales of rows and columns.
#include "runtime/trtllm/builtin/graph_text.h"
#include "runtime/trtllm/builtin/matmul_support.h"
#include "runtime/trtllm/matmul/matmul.h"

namespace tscompile {
namespace {

struct SmoothQuantGemm {
  bool perToken = false, perChannel = false;
  tsc_dtype type = TSC_F32;

  static void describe(tsc::Description<SmoothQuantGemm>& d) {
    using P = SmoothQuantGemm;
    d.key("tensorrt_llm", "SmoothQuantGemm", "1",
          "y[m, n] = sum_k mat1[m, k] mat2[n, k] * scale_tokens[m] * scale_channels[n], with exact sums in int32");
    d.field("has_per_token_scaling", &P::perToken, "scale_tokens has one scale a row, else one for all");
    d.field("has_per_channel_scaling", &P::perChannel, "scale_channels has one scale a column, else one for all");
    d.choice("type_id", &P::type, "float32|float16|bfloat16|int32", {TSC_F32, TSC_F16, TSC_BF16, TSC_I32},
             "the type of the result; int32: the sums, without scales");
    d.input("mat1", tsc::kI8, "[M.., K]");
    d.input("mat2", tsc::kI8, "[N, K]");
    d.input("scale_tokens", tsc::kF32, "M scales or one").optional();
    d.input("scale_channels", tsc::kF32, "N scales or one").optional();
    d.output("y", kRowTypes | tsc::kI32, "[M.., N]");
  }
  static std::string_view example() {
    return "graph(%a : Char(5, 70), %b : Char(9, 70), %s : Float(5, 1), %c : Float(1, 9)):\n"
           "  %y : Tensor = tensorrt_llm::SmoothQuantGemm[has_per_token_scaling=1, "
           "has_per_channel_scaling=1](%a, %b, %s, %c)\n"
           "  return (%y)\n";
  }

  void shapes(tsc::Shapes& s) const {
    tsc::Shape a = s.input(0), b = s.input(1);
    expectRankFrom(a, 1, "mat1");
    expectRank(b, 2, "mat2");
    expectEqual(b.dims[1], a.dims.back(), "K of mat2", "that of mat1");
    if (type != TSC_I32 && (!s.has(2) || !s.has(3))) tsc::invalid("scale_tokens and scale_channels are needed");
    tsc::Dim rows = s.constant(1);
    for (size_t i = 0; i + 1 < a.rank(); ++i) rows = rows * a.dims[i];
    expectCount(s, 2, perToken ? rows : s.constant(1), "scale_tokens", perToken ? "the rows of mat1" : "one scale");
    expectCount(s, 3, perChannel ? b.dims[0] : s.constant(1), "scale_channels",
                perChannel ? "the rows of mat2" : "one scale");
    a.dims.back() = b.dims[0];
    s.output(0, type, a.dims);
  }

  size_t workspace(const tsc::Tensors& t) const {
    return type == TSC_I32 ? 0 : Room::bytesOf(t.output(0).numel(), sizeof(int32_t));
  }

  void run(tsc::Run& r) const {
    tsc::Tensor a = r.input(0), b = r.input(1), out = r.output(0);
    const int64_t m = rowsOf(a), n = b.size(0), k = b.size(1);
    if (out.numel() == 0) return;
    auto* sums = type == TSC_I32 ? out.data<int32_t>() : reinterpret_cast<int32_t*>(r.workspace().data());
    multiplyInt8(m, n, k, a.data<int8_t>(), b.data<int8_t>(), sums, hostThreads(r));
    if (type == TSC_I32) return;
    ResultScales scales = scalesOf(r.input(2), perToken, r.input(3), perChannel);
    storeResult(r, m, n, sums, scales, out);
  }

  std::string decompose(const tsc::Tensors& t) const {
    GraphText g;
    std::vector<ValueText> in = g.inputs(t, {"mat1", "mat2", "scale_tokens", "scale_channels"});
    ValueText sums = g.matmul(g.to(in[0], TSC_I32), g.transposed(g.to(in[1], TSC_I32)));
    if (type == TSC_I32) return g.finish({sums});
    ValueText y = g.toFloat(sums);
    ValueText rows = g.view(y, {-1, g.size(in[1], 0)});
    rows = g.mul(rows, g.mul(g.view(in[2], {-1, 1}), g.view(in[3], {1, -1})));
    return g.finish({g.to(g.op("aten::view_as", {rows, y}), type)});
  }
};

}  // namespace

const tsc_plugin* makeSmoothQuantGemm() { return tsc::Definition<SmoothQuantGemm>::table(); }

}  // namespace tscompile
