// QuantizeTensor and QuantizePerToken: int8 or fp8 from floating point.
#include "runtime/call/scratch.h"
#include "runtime/trtllm/builtin/graph_text.h"
#include "runtime/trtllm/builtin/matmul_support.h"
#include "runtime/trtllm/builtin/quantize_text.h"

#include <cmath>

namespace tscompile {
namespace {

struct QuantizeTensor {
  bool fp8 = false;

  static void describe(tsc::Description<QuantizeTensor>& d) {
    d.key("tensorrt_llm", "QuantizeTensor", "1",
          "q = saturate(round(x * scale)), halves to even, NaN to 0: int8 from -128 to 127, or fp8 (e4m3) up to 448, "
          "which keeps NaN");
    d.choice("type_id", &QuantizeTensor::fp8, "int8|fp8", {false, true},
             "the type of the result; fp8 is kept as uint8");
    d.input("x", kRowTypes, "any sizes");
    d.input("scale", tsc::kF32, "one factor");
    d.output("q", tsc::kI8 | tsc::kU8, "as x");
  }
  static std::string_view example() {
    return "graph(%x : Float(3, 37), %s : Float(1)):\n"
           "  %q : Tensor = tensorrt_llm::QuantizeTensor(%x, %s)\n"
           "  return (%q)\n";
  }
  void shapes(tsc::Shapes& s) const {
    expectOne(s, 1, "scale");
    s.output(0, fp8 ? TSC_U8 : TSC_I8, s.input(0).dims);
  }
  void run(tsc::Run& r) const {
    tsc::Tensor x = r.input(0), out = r.output(0);
    const ValueFormat from{storageOf(x.dtype())}, to{storageOf(out.dtype()), oneFloat(r.input(1))};
    const int64_t item = from.itemBytes();
    constexpr size_t kGrain = 16384;
    r.parallelFor(static_cast<size_t>(x.numel()), kGrain, [&](size_t begin, size_t end) {
      auto at = static_cast<int64_t>(begin), count = static_cast<int64_t>(end - begin);
      float* values = threadScratch(count);
      loadValues(from, x.data<std::byte>() + at * item, count, values);
      storeValues(to, values, count, out.data<std::byte>() + at);
    });
  }
  std::string decompose(const tsc::Tensors&) const {
    if (fp8) return "";
    GraphText g;
    ValueText x = g.input("x"), s = g.input("scale");
    return g.finish({int8Text(g, g.mul(g.toFloat(x), g.view(s, {})))});
  }
};

struct QuantizePerToken {
  bool fp8 = false, clamp = false, sum = false;

  static void describe(tsc::Description<QuantizePerToken>& d) {
    using P = QuantizePerToken;
    d.key("tensorrt_llm", "QuantizePerToken", "1",
          "of each row: largest = max(|x|, 1e-6), q = saturate(round(x * 127 / largest)), scale = largest / 127 (fp8: "
          "448), so that x is about q * scale; NaN is left out of the largest");
    d.choice("type_id", &P::fp8, "int8|fp8", {false, true}, "the type of q; fp8 is kept as uint8");
    d.field("clamp_enabled", &P::clamp, "x is first clamped to clamp_val");
    d.field("sum_per_token", &P::sum, "the sums of the rows are the third output");
    d.input("x", kRowTypes, "[.., N]");
    d.input("clamp_val", tsc::kF32, "[2]: least and largest").optional();
    d.output("q", tsc::kI8 | tsc::kU8, "as x");
    d.output("scale", tsc::kF32, "[.., 1]");
    d.output("sum", tsc::kF32, "[.., 1]");
  }
  static std::string_view example() {
    return "graph(%x : Float(3, 37)):\n"
           "  %q : Tensor, %s : Tensor = tensorrt_llm::QuantizePerToken(%x)\n"
           "  return (%q, %s)\n";
  }
  size_t outputs() const { return sum ? 3 : 2; }
  void shapes(tsc::Shapes& s) const {
    tsc::Shape x = s.input(0);
    expectRankFrom(x, 1, "x");
    if (clamp != s.has(1)) tsc::invalid("the input clamp_val goes with the field clamp_enabled");
    if (s.has(1)) {
      expectRank(s.input(1), 1, "clamp_val");
      s.expect(s.input(1).dims[0], 2, "the size of clamp_val");
    }
    s.output(0, fp8 ? TSC_U8 : TSC_I8, x.dims);
    x.dims.back() = s.constant(1);
    for (size_t o = 1; o < outputs(); ++o) s.output(o, TSC_F32, x.dims);
  }
  void run(tsc::Run& r) const {
    tsc::Tensor x = r.input(0), q = r.output(0);
    const ValueFormat from{storageOf(x.dtype())};
    const int64_t n = widthOf(x), item = from.itemBytes();
    const float largest = fp8 ? 448.0f : 127.0f;
    r.parallelFor(static_cast<size_t>(rowsOf(x)), rowGrain(n), [&](size_t begin, size_t end) {
      float* values = threadScratch(n);
      for (size_t row = begin; row < end; ++row) {
        auto at = static_cast<int64_t>(row) * n;
        loadValues(from, x.data<std::byte>() + at * item, n, values);
        if (clamp) {
          const float* bounds = r.input(1).data<float>();
          for (int64_t i = 0; i < n; ++i)
            values[i] = values[i] < bounds[0] ? bounds[0] : values[i] > bounds[1] ? bounds[1] : values[i];
        }
        float most = 1e-6f;
        double total = 0;
        for (int64_t i = 0; i < n; ++i) most = std::fabs(values[i]) > most ? std::fabs(values[i]) : most;
        storeValues({storageOf(q.dtype()), largest / most}, values, n, q.data<std::byte>() + at);
        r.output(1).data<float>()[row] = most / largest;
        if (!sum) continue;
        for (int64_t i = 0; i < n; ++i) total += static_cast<double>(values[i]);
        r.output(2).data<float>()[row] = static_cast<float>(total);
      }
    });
  }
  std::string decompose(const tsc::Tensors&) const {
    if (fp8) return "";
    GraphText g;
    ValueText x = g.toFloat(g.input("x"));
    if (clamp) x = clampText(g, x, g.input("clamp_val"));
    auto [q, scale] = perTokenText(g, x);
    std::vector<ValueText> results = {q, scale};
    if (sum) results.push_back(rowSumText(g, x));
    return g.finish(results);
  }
};

}  // namespace

const tsc_plugin* makeQuantizeTensor() { return tsc::Definition<QuantizeTensor>::table(); }
const tsc_plugin* makeQuantizePerToken() { return tsc::Definition<QuantizePerToken>::table(); }

}  // namespace tscompile
