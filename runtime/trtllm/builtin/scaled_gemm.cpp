// Products of matrices in fp8 (uint8, e4m3) or floating point with scales: LowLatencyGemm, Fp8RowwiseGemm,
// Fp8BlockScalingGemm, Fp8CurrentScalingGemm, and GemmSwiglu and LowLatencyGemmSwiglu, which go through a gate.
#include "runtime/call/scratch.h"
#include "runtime/trtllm/builtin/graph_text.h"
#include "runtime/trtllm/builtin/matmul_support.h"
#include "runtime/trtllm/builtin/quantize_text.h"
#include "runtime/trtllm/matmul/matmul.h"

#include <algorithm>
#include <cmath>

namespace tscompile {
namespace {

constexpr uint32_t kAnyTypes = kRowTypes | tsc::kU8;

// y[m][n] = a[m][k] * b[n][k]^T with f32 sums.
void multiply(const tsc::Run& r, const float* a, const tsc::Tensor& b, int64_t m, float* y) {
  const ValueFormat format{storageOf(b.dtype())};
  const int64_t k = b.size(1), item = format.itemBytes();
  auto load = [&](int64_t column, int64_t first, int64_t end, float* to) {
    loadValues(format, b.data<std::byte>() + (column * k + first) * item, end - first, to);
  };
  multiplyColumns(m, b.size(0), k, a, load, y, hostThreads(r));
}

// Checks mat1 [M.., K] and mat2 [N, K]; the sizes of the result.
std::vector<tsc::Dim> expectOperands(const tsc::Shapes& s) {
  tsc::Shape a = s.input(0), b = s.input(1);
  expectRankFrom(a, 1, "mat1");
  expectRank(b, 2, "mat2");
  expectEqual(b.dims[1], a.dims.back(), "K of mat2", "that of mat1");
  a.dims.back() = b.dims[0];
  return a.dims;
}

// mat1 and mat2; the sums are in the output or in `room`.
float* multiplyInputs(const tsc::Run& r, Room& room) {
  const float* a = asFloats(r, r.input(0), room);
  float* sums = sumsFor(r.output(0), room);
  multiply(r, a, r.input(1), rowsOf(r.output(0)), sums);
  return sums;
}
size_t operandBytes(const tsc::Tensors& t) { return floatBytes(t.input(0)); }

struct LowLatencyGemm {
  double alpha = 1;
  tsc_dtype type = TSC_F16;

  static void describe(tsc::Description<LowLatencyGemm>& d) {
    d.key("tensorrt_llm", "LowLatencyGemm", "1",
          "y[m, n] = alpha * sum_k mat1[m, k] mat2[n, k] of fp8 (e4m3, as uint8) or floating point, with sums in f32");
    d.field("alpha", &LowLatencyGemm::alpha, "a factor, the product of the scales of both");
    d.choice("type_id", &LowLatencyGemm::type, kTypes, floatTypes(), "the type of the result");
    d.input("mat1", kAnyTypes, "[M.., K]");
    d.input("mat2", kAnyTypes, "[N, K]");
    d.output("y", kRowTypes, "[M.., N]");
  }
  static std::string_view example() {
    return "graph(%a : Byte(3, 37), %b : Byte(19, 37)):\n"
           "  %y : Tensor = tensorrt_llm::LowLatencyGemm[alpha=0.5](%a, %b)\n"
           "  return (%y)\n";
  }
  void shapes(tsc::Shapes& s) const { s.output(0, type, expectOperands(s)); }
  size_t workspace(const tsc::Tensors& t) const { return operandBytes(t) + sumsBytes(t.output(0)); }
  void run(tsc::Run& r) const {
    tsc::Tensor out = r.output(0);
    if (out.numel() == 0) return;
    Room room(r.workspace());
    float* sums = multiplyInputs(r, room);
    storeResult(r, rowsOf(out), widthOf(out), sums, {static_cast<float>(alpha)}, out);
  }
  std::string decompose(const tsc::Tensors& t) const {
    if (t.input(0).dtype() == TSC_U8 || t.input(1).dtype() == TSC_U8) return "";
    GraphText g;
    ValueText a = g.input("mat1"), b = g.input("mat2");
    ValueText y = g.matmul(g.toFloat(a), g.transposed(g.toFloat(b)));
    return g.finish({g.to(g.mul(y, alpha), type)});
  }
};

struct Fp8RowwiseGemm {
  bool perToken = true, perChannel = true;
  tsc_dtype type = TSC_F16;

  static void describe(tsc::Description<Fp8RowwiseGemm>& d) {
    using P = Fp8RowwiseGemm;
    d.key("tensorrt_llm", "Fp8RowwiseGemm", "1",
          "y[m, n] = sum_k mat1[m, k] mat2[n, k] * scale_tokens[m] * scale_channels[n] of fp8 (e4m3, as uint8), with "
          "sums "
          "in f32");
    d.field("has_per_token_scaling", &P::perToken, "scale_tokens has one scale a row, else one for all");
    d.field("has_per_channel_scaling", &P::perChannel, "scale_channels has one scale a column, else one for all");
    d.choice("type_id", &P::type, kTypes, floatTypes(), "the type of the result");
    d.input("mat1", tsc::kU8, "[M.., K]");
    d.input("mat2", tsc::kU8, "[N, K]");
    d.input("scale_tokens", tsc::kF32, "M scales or one");
    d.input("scale_channels", tsc::kF32, "N scales or one");
    d.output("y", kRowTypes, "[M.., N]");
  }
  static std::string_view example() {
    return "graph(%a : Byte(3, 37), %b : Byte(19, 37), %s : Float(3, 1), %c : Float(1, 19)):\n"
           "  %y : Tensor = tensorrt_llm::Fp8RowwiseGemm(%a, %b, %s, %c)\n"
           "  return (%y)\n";
  }
  void shapes(tsc::Shapes& s) const {
    std::vector<tsc::Dim> dims = expectOperands(s);
    tsc::Dim rows = s.constant(1);
    for (size_t i = 0; i + 1 < dims.size(); ++i) rows = rows * dims[i];
    expectCount(s, 2, perToken ? rows : s.constant(1), "scale_tokens", perToken ? "the rows of mat1" : "one scale");
    expectCount(s, 3, perChannel ? dims.back() : s.constant(1), "scale_channels",
                perChannel ? "the rows of mat2" : "one scale");
    s.output(0, type, dims);
  }
  size_t workspace(const tsc::Tensors& t) const { return operandBytes(t) + sumsBytes(t.output(0)); }
  void run(tsc::Run& r) const {
    tsc::Tensor out = r.output(0);
    if (out.numel() == 0) return;
    Room room(r.workspace());
    float* sums = multiplyInputs(r, room);
    ResultScales scales = scalesOf(r.input(2), perToken, r.input(3), perChannel);
    storeResult(r, rowsOf(out), widthOf(out), sums, scales, out);
  }
};

// Values [first, end) of a row, each by the scale of its block.
void scaleBlocks(const float* scales, int64_t block, int64_t first, int64_t end, float* values) {
  for (int64_t k = first; k < end;) {
    const float scale = scales[k / block];
    for (const int64_t stop = std::min(end, (k / block + 1) * block); k < stop; ++k) values[k - first] *= scale;
  }
}

struct Fp8BlockScalingGemm {
  int64_t block = 128;
  tsc_dtype type = TSC_BF16;

  static void describe(tsc::Description<Fp8BlockScalingGemm>& d) {
    using P = Fp8BlockScalingGemm;
    d.key("tensorrt_llm", "Fp8BlockScalingGemm", "1",
          "y[m, n] = sum_k mat1[m, k] mat1_scale[m, k / B] * mat2[n, k] mat2_scale[n / B, k / B], with sums in f32: "
          "weights in fp8 (e4m3, as uint8) with a scale for each block of B x B, as DeepSeek-V3 stores them");
    d.field("block_size", &P::block, "B, rows and columns of a block").range(1, 1 << 20);
    d.choice("type_id", &P::type, kTypes, floatTypes(), "the type of the result");
    d.input("mat1", kAnyTypes, "[M.., K]");
    d.input("mat2", tsc::kU8, "[N, K]");
    d.input("mat2_scale", tsc::kF32, "[N / B, K / B], rounded up");
    d.input("mat1_scale", tsc::kF32, "[M.., K / B], rounded up; without it mat1 is not scaled").optional();
    d.output("y", kRowTypes, "[M.., N]");
  }
  static std::string_view example() {
    return "graph(%a : Byte(3, 37), %b : Byte(19, 37), %s : Float(2, 3), %c : Float(3, 3)):\n"
           "  %y : Tensor = tensorrt_llm::Fp8BlockScalingGemm[block_size=16](%a, %b, %s, %c)\n"
           "  return (%y)\n";
  }
  void shapes(tsc::Shapes& s) const {
    const std::vector<tsc::Dim> dims = expectOperands(s);
    const tsc::Shape scale = s.input(2);
    const tsc::Dim blocks = blocksOf(s.input(0).dims.back());
    expectRank(scale, 2, "mat2_scale");
    expectEqual(scale.dims[0], blocksOf(dims.back()), "the first size of mat2_scale", "the blocks of N");
    expectEqual(scale.dims[1], blocks, "the last size of mat2_scale", "the blocks of K");
    tsc::Dim rows = blocks;
    for (size_t i = 0; i + 1 < dims.size(); ++i) rows = rows * dims[i];
    expectCount(s, 3, rows, "mat1_scale", "the blocks of the rows of mat1");
    s.output(0, type, dims);
  }
  size_t workspace(const tsc::Tensors& t) const {
    return Room::bytesOf(t.input(0).numel(), sizeof(float)) + sumsBytes(t.output(0));
  }
  void run(tsc::Run& r) const {
    const tsc::Tensor b = r.input(1), scales = r.input(2), out = r.output(0);
    if (out.numel() == 0) return;
    Room room(r.workspace());
    const float* a = scaledRows(r, room);
    float* sums = sumsFor(out, room);
    const int64_t k = b.size(1), blocks = scales.size(1);
    auto load = [&](int64_t column, int64_t first, int64_t end, float* to) {
      loadValues({DType::Float8E4M3FN}, b.data<std::byte>() + column * k + first, end - first, to);
      scaleBlocks(scales.data<float>() + column / block * blocks, block, first, end, to);
    };
    multiplyColumns(rowsOf(out), b.size(0), k, a, load, sums, hostThreads(r));
    storeResult(r, rowsOf(out), widthOf(out), sums, {}, out);
  }

 private:
  tsc::Dim blocksOf(const tsc::Dim& size) const { return (size + (block - 1)) / block; }
  const float* scaledRows(const tsc::Run& r, Room& room) const {
    const tsc::Tensor a = r.input(0), scales = r.input(3);
    if (!scales.present()) return asFloats(r, a, room);
    const ValueFormat format{storageOf(a.dtype())};
    const int64_t k = widthOf(a), blocks = widthOf(scales);
    float* to = room.take<float>(a.numel());
    r.parallelFor(static_cast<size_t>(rowsOf(a)), rowGrain(k), [&](size_t begin, size_t end) {
      for (auto row = static_cast<int64_t>(begin); row < static_cast<int64_t>(end); ++row) {
        loadValues(format, a.data<std::byte>() + row * k * format.itemBytes(), k, to + row * k);
        scaleBlocks(scales.data<float>() + row * blocks, block, 0, k, to + row * k);
      }
    });
    return to;
  }
};

struct Fp8CurrentScalingGemm {
  tsc_dtype type = TSC_NONE;

  static void describe(tsc::Description<Fp8CurrentScalingGemm>& d) {
    d.key("tensorrt_llm", "Fp8CurrentScalingGemm", "1",
          "s = max(|activation|, 1e-6) / 448 over all of it; y[m, n] = sum_k fp8(activation[m, k] / s) weight[n, k] * "
          "s * "
          "weight_scale, with sums in f32");
    d.choice("type_id", &Fp8CurrentScalingGemm::type, kResultTypes, resultTypes(), "the type of the result");
    d.input("activation", kRowTypes, "[M.., K]");
    d.input("weight", tsc::kU8, "[N, K] fp8 (e4m3)");
    d.input("weight_scale", tsc::kF32, "one scale");
    d.output("y", kRowTypes, "[M.., N]");
  }
  static std::string_view example() {
    return "graph(%a : Float(3, 37), %b : Byte(19, 37), %s : Float(1)):\n"
           "  %y : Tensor = tensorrt_llm::Fp8CurrentScalingGemm(%a, %b, %s)\n"
           "  return (%y)\n";
  }
  void shapes(tsc::Shapes& s) const {
    tsc::Shape x = s.input(0);
    expectOne(s, 2, "weight_scale");
    s.output(0, type == TSC_NONE ? x.dtype : type, expectOperands(s));
  }
  size_t workspace(const tsc::Tensors& t) const {
    return Room::bytesOf(t.input(0).numel(), sizeof(float)) + operandBytes(t) + sumsBytes(t.output(0));
  }
  void run(tsc::Run& r) const {
    tsc::Tensor x = r.input(0), out = r.output(0);
    if (out.numel() == 0) return;
    Room room(r.workspace());
    const float* a = asFloats(r, x, room);
    float most = 1e-6f;
    for (int64_t i = 0; i < x.numel(); ++i) most = std::fabs(a[i]) > most ? std::fabs(a[i]) : most;
    float* rounded = room.take<float>(x.numel());
    const float factor = 448.0f / most;
    constexpr size_t kGrain = 4096;
    r.parallelFor(static_cast<size_t>(x.numel()), kGrain, [&](size_t begin, size_t end) {
      for (size_t i = begin; i < end; ++i) rounded[i] = fromFp8(toFp8(a[i] * factor));
    });
    float* sums = sumsFor(out, room);
    multiply(r, rounded, r.input(1), rowsOf(out), sums);
    storeResult(r, rowsOf(out), widthOf(out), sums, {most / 448.0f * oneFloat(r.input(2))}, out);
  }
};

// Both are the same computation: the product has twice as many columns, the first half is the gate.
template <bool kLowLatency>
struct GemmSwiglu {
  double scaleGate = 1, scaleUp = 1, scaleOutput = 1;
  bool hasBias = false;
  std::string typeName = "input";

  static void describe(tsc::Description<GemmSwiglu>& d) {
    d.key("tensorrt_llm", kLowLatency ? "LowLatencyGemmSwiglu" : "GemmSwiglu", "1",
          "of u = mat1 mat2^T + bias: y = silu(u[.., :N] * scale_d0) * (u[.., N:] * scale_d1) * scale_output, with "
          "sums in "
          "f32; fp8 is e4m3 as uint8");
    d.field("scale_d0", &GemmSwiglu::scaleGate, "of the gate, the first half of the columns");
    d.field("scale_d1", &GemmSwiglu::scaleUp, "of the second half");
    d.field("scale_output", &GemmSwiglu::scaleOutput, "of the result");
    if (!kLowLatency) d.field("has_bias", &GemmSwiglu::hasBias, "there is a bias");
    d.field("type_id", &GemmSwiglu::typeName, "the type of the result").choices("input|float32|float16|bfloat16|fp8");
    d.input("mat1", kAnyTypes, "[M.., K]");
    d.input("mat2", kAnyTypes, "[2 N, K]");
    if (!kLowLatency) d.input("bias", kRowTypes, "[2 N]").optional();
    d.output("y", kAnyTypes, "[M.., N]");
  }
  static std::string_view example() {
    return kLowLatency ? "graph(%a : Byte(3, 37), %b : Byte(22, 37)):\n"
                         "  %y : Tensor = tensorrt_llm::LowLatencyGemmSwiglu[scale_d0=0.25](%a, %b)\n"
                         "  return (%y)\n"
                       : "graph(%a : Float(3, 37), %b : Float(22, 37)):\n"
                         "  %y : Tensor = tensorrt_llm::GemmSwiglu(%a, %b)\n"
                         "  return (%y)\n";
  }
  void shapes(tsc::Shapes& s) const {
    std::vector<tsc::Dim> dims = expectOperands(s);
    int64_t columns;
    if (dims.back().known(&columns) && columns % 2)
      tsc::invalid("mat2 has " + std::to_string(columns) + " rows, expected an even number");
    if (!kLowLatency) {
      if (hasBias != s.has(2)) tsc::invalid("the input bias goes with the field has_bias");
      if (hasBias) {
        expectRank(s.input(2), 1, "bias");
        expectEqual(s.input(2).dims[0], dims.back(), "the size of bias", "the rows of mat2");
      }
    }
    dims.back() = dims.back() / 2;
    s.output(0, resultOf(s.input(0).dtype), dims);
  }
  size_t workspace(const tsc::Tensors& t) const {
    size_t bias = !kLowLatency && t.inputs() > 2 ? floatBytes(t.input(2)) : 0;
    return operandBytes(t) + bias + Room::bytesOf(2 * t.output(0).numel(), sizeof(float));
  }
  void run(tsc::Run& r) const {
    tsc::Tensor out = r.output(0);
    if (out.numel() == 0) return;
    Room room(r.workspace());
    const float* a = asFloats(r, r.input(0), room);
    const float* bias = nullptr;
    if constexpr (!kLowLatency) bias = asFloats(r, r.input(2), room);
    const int64_t m = rowsOf(out), n = widthOf(out);
    float* sums = room.take<float>(2 * m * n);
    multiply(r, a, r.input(1), m, sums);
    const ValueFormat format{storageOf(out.dtype())};
    const auto gateScale = static_cast<float>(scaleGate), upScale = static_cast<float>(scaleUp),
               scale = static_cast<float>(scaleOutput);
    r.parallelFor(static_cast<size_t>(m), rowGrain(n), [&](size_t begin, size_t end) {
      float* to = threadScratch(n);
      for (auto row = static_cast<int64_t>(begin); row < static_cast<int64_t>(end); ++row) {
        const float *gate = sums + row * 2 * n, *up = gate + n;
        for (int64_t c = 0; c < n; ++c) {
          float g = (gate[c] + (bias ? bias[c] : 0.0f)) * gateScale,
                u = (up[c] + (bias ? bias[n + c] : 0.0f)) * upScale;
          to[c] = g / (1.0f + std::exp(-g)) * u * scale;
        }
        storeValues(format, to, n, out.data<std::byte>() + row * n * format.itemBytes());
      }
    });
  }
  std::string decompose(const tsc::Tensors& t) const {
    tsc_dtype result = resultOf(t.input(0).dtype());
    if (t.input(0).dtype() == TSC_U8 || t.input(1).dtype() == TSC_U8 || result == TSC_U8) return "";
    GraphText g;
    ValueText a = g.input("mat1"), b = g.input("mat2"), bias = hasBias ? g.input("bias") : ValueText();
    ValueText u = g.matmul(g.toFloat(a), g.transposed(g.toFloat(b)));
    if (hasBias) u = g.add(u, g.toFloat(bias));
    ValueText all = g.size(u, -1), half = g.typed("int", "aten::floordiv", {all, 2});
    ValueText gate = g.slice(u, -1, 0, half), up = g.slice(u, -1, half, all);
    ValueText y = g.mul(g.op("aten::silu", {g.mul(gate, scaleGate)}), g.mul(up, scaleUp));
    return g.finish({g.to(g.mul(y, scaleOutput), result)});
  }

 private:
  tsc_dtype resultOf(tsc_dtype given) const {
    if (typeName == "float32") return TSC_F32;
    if (typeName == "float16") return TSC_F16;
    if (typeName == "bfloat16") return TSC_BF16;
    return typeName == "fp8" ? TSC_U8 : given;
  }
};

}  // namespace

const tsc_plugin* makeFp8BlockScalingGemm() { return tsc::Definition<Fp8BlockScalingGemm>::table(); }
const tsc_plugin* makeFp8CurrentScalingGemm() { return tsc::Definition<Fp8CurrentScalingGemm>::table(); }
const tsc_plugin* makeFp8RowwiseGemm() { return tsc::Definition<Fp8RowwiseGemm>::table(); }
const tsc_plugin* makeGemmSwiglu() { return tsc::Definition<GemmSwiglu<false>>::table(); }
const tsc_plugin* makeLowLatencyGemm() { return tsc::Definition<LowLatencyGemm>::table(); }
const tsc_plugin* makeLowLatencyGemmSwiglu() { return tsc::Definition<GemmSwiglu<true>>::table(); }

}  // namespace tscompile
