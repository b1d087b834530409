// WeightOnlyQuantMatmul and WeightOnlyGroupwiseQuantMatmul: products with weights of 8 or 4 bits.
#include "runtime/trtllm/builtin/graph_text.h"
#include "runtime/trtllm/builtin/matmul_support.h"
#include "runtime/trtllm/matmul/matmul.h"

namespace tscompile {
namespace {

constexpr std::string_view kDTypes = "int8|int4";
constexpr std::string_view kWeightDoc =
    "int8: weight is [K, N]; int4: [K, N / 2], two columns a byte, the first one in the lower half, from -8 to 7";

// Checks x and weight; returns N.
tsc::Dim expectWeight(const tsc::Shape& x, const tsc::Shape& w, DType type) {
  expectRankFrom(x, 1, "activation");
  expectRank(w, 2, "weight");
  expectEqual(w.dims[0], x.dims.back(), "K of weight", "that of activation");
  return type == DType::Int4 ? w.dims[1] * 2 : w.dims[1];
}

// The weights as f32 [K, N].
ValueText weightText(GraphText& g, ValueText w, DType type) {
  if (type == DType::Int8) return g.toFloat(w);
  // The lower half with its sign is the byte, 16 times as large and cut to 8 bits, over 16; the upper one floor(byte /
  // 16).
  ValueText bytes = g.to(w, TSC_I32);
  ValueText low = g.sub(g.op("aten::remainder", {g.add(bytes, 8), 16}), 8);
  ValueText high = g.op("aten::floor_divide", {bytes, 16});
  ValueText pairs = g.op("aten::stack", {g.tensors({low, high}), -1});
  return g.toFloat(g.view(pairs, {g.size(w, 0), -1}));
}

WeightRows rowsOfWeight(const tsc::Tensor& w, DType type) {
  WeightRows rows;
  rows.format = type;
  rows.data = w.data<std::byte>();
  rows.k = w.size(0);
  rows.n = type == DType::Int8 ? w.size(1) : w.size(1) * 2;
  return rows;
}

struct WeightOnlyQuantMatmul {
  DType weights = DType::Int8;
  tsc_dtype type = TSC_NONE;

  static void describe(tsc::Description<WeightOnlyQuantMatmul>& d) {
    using P = WeightOnlyQuantMatmul;
    d.key("tensorrt_llm", "WeightOnlyQuantMatmul", "1",
          "y[m, n] = sum_k activation[m, k] * weight[k, n] * per_channel_scale[n], with sums in f32; weights are read "
          "where they lie, without a copy in another format");
    d.choice("weight_type_id", &P::weights, kDTypes, {DType::Int8, DType::Int4}, kWeightDoc);
    d.choice("type_id", &P::type, kResultTypes, resultTypes(), "the type of the result");
    d.input("activation", kRowTypes, "[M.., K]");
    d.input("weight", tsc::kI8, "[K, N] or [K, N / 2]");
    d.input("per_channel_scale", kRowTypes, "[N]");
    d.output("y", kRowTypes, "[M.., N]");
  }
  static std::string_view example() {
    return "graph(%x : Float(2, 37), %w : Char(37, 83), %s : Float(83)):\n"
           "  %y : Tensor = tensorrt_llm::WeightOnlyQuantMatmul(%x, %w, %s)\n"
           "  return (%y)\n";
  }
  void shapes(tsc::Shapes& s) const {
    tsc::Shape x = s.input(0), scale = s.input(2);
    tsc::Dim n = expectWeight(x, s.input(1), weights);
    expectRank(scale, 1, "per_channel_scale");
    expectEqual(scale.dims[0], n, "the number of per_channel_scale", "N of weight");
    x.dims.back() = n;
    s.output(0, type == TSC_NONE ? x.dtype : type, x.dims);
  }
  size_t workspace(const tsc::Tensors& t) const {
    return floatBytes(t.input(0)) + floatBytes(t.input(2)) + sumsBytes(t.output(0));
  }
  void run(tsc::Run& r) const {
    tsc::Tensor x = r.input(0), out = r.output(0);
    if (out.numel() == 0) return;
    Room room(r.workspace());
    const float* from = asFloats(r, x, room);
    WeightRows w = rowsOfWeight(r.input(1), weights);
    w.scales = asFloats(r, r.input(2), room);
    float* sums = sumsFor(out, room);
    multiplyRows(w, rowsOf(x), from, nullptr, sums, hostThreads(r));
    storeResult(r, rowsOf(x), w.n, sums, {}, out);
  }
  std::string decompose(const tsc::Tensors& t) const {
    GraphText g;
    ValueText x = g.input("activation"), w = g.input("weight"), s = g.input("per_channel_scale");
    ValueText y = g.mul(g.matmul(g.toFloat(x), weightText(g, w, weights)), g.toFloat(s));
    return g.finish({g.to(y, type == TSC_NONE ? t.input(0).dtype() : type)});
  }
};

struct WeightOnlyGroupwiseQuantMatmul {
  enum Input { Activation, PreQuantScale, Weight, Scales, Zeros, Biases };
  DType weights = DType::Int4;
  int64_t groupSize = 128;
  tsc_dtype type = TSC_NONE;

  static void describe(tsc::Description<WeightOnlyGroupwiseQuantMatmul>& d) {
    using P = WeightOnlyGroupwiseQuantMatmul;
    d.key("tensorrt_llm", "WeightOnlyGroupwiseQuantMatmul", "1",
          "y[m, n] = sum_k activation[m, k] * pre_quant_scale[k] * (weight[k, n] * scales[k / group_size, n] + "
          "zeros[k / group_size, n]) + biases[n], with sums in f32; weights are read where they lie");
    d.field("group_size", &P::groupSize, "rows of the weights that share scales").range(1, 1 << 20);
    d.choice("weight_type_id", &P::weights, kDTypes, {DType::Int8, DType::Int4}, kWeightDoc);
    d.choice("type_id", &P::type, kResultTypes, resultTypes(), "the type of the result");
    d.input("activation", kRowTypes, "[M.., K]");
    d.input("pre_quant_scale", kRowTypes, "K factors of the activations").optional();
    d.input("weight", tsc::kI8, "[K, N] or [K, N / 2]");
    d.input("scales", kRowTypes, "[K / group_size, N], rounded up");
    d.input("zeros", kRowTypes, "as scales: what is added to the scaled weights").optional();
    d.input("biases", kRowTypes, "[N]").optional();
    d.output("y", kRowTypes, "[M.., N]");
  }
  static std::string_view example() {
    return "graph(%x : Float(2, 40), %p : Float(40), %w : Char(40, 11), %s : Float(3, 22), %z : Float(3, 22), "
           "%b : Float(22)):\n"
           "  %y : Tensor = tensorrt_llm::WeightOnlyGroupwiseQuantMatmul[group_size=16](%x, %p, %w, %s, %z, %b)\n"
           "  return (%y)\n";
  }
  void shapes(tsc::Shapes& s) const {
    tsc::Shape x = s.input(Activation), w = s.input(Weight), scales = s.input(Scales);
    tsc::Dim n = expectWeight(x, w, weights);
    expectRank(scales, 2, "scales");
    tsc::Dim groups = w.dims[0].apply(TSC_DIM_CEIL_DIV, groupSize);
    expectEqual(scales.dims[0], groups, "the number of rows of scales", "the groups of weight");
    expectEqual(scales.dims[1], n, "N of scales", "that of weight");
    if (s.has(Zeros)) {
      tsc::Shape zeros = s.input(Zeros);
      expectRank(zeros, 2, "zeros");
      expectEqual(zeros.dims[0], groups, "the number of rows of zeros", "the groups of weight");
      expectEqual(zeros.dims[1], n, "N of zeros", "that of weight");
    }
    expectCount(s, PreQuantScale, w.dims[0], "pre_quant_scale", "K of weight");
    if (s.has(Biases)) {
      tsc::Shape biases = s.input(Biases);
      expectRank(biases, 1, "biases");
      expectEqual(biases.dims[0], n, "the number of biases", "N of weight");
    }
    x.dims.back() = n;
    s.output(0, type == TSC_NONE ? x.dtype : type, x.dims);
  }
  size_t workspace(const tsc::Tensors& t) const {
    size_t bytes = sumsBytes(t.output(0)) + Room::bytesOf(t.input(Activation).numel(), sizeof(float));
    for (size_t i : {Activation, PreQuantScale, Scales, Zeros, Biases}) bytes += floatBytes(t.input(i));
    return bytes;
  }
  void run(tsc::Run& r) const {
    tsc::Tensor x = r.input(Activation), out = r.output(0);
    if (out.numel() == 0) return;
    Room room(r.workspace());
    const float* from = asFloats(r, x, room);
    WeightRows w = rowsOfWeight(r.input(Weight), weights);
    w.group = groupSize;
    w.scales = asFloats(r, r.input(Scales), room);
    w.zeros = asFloats(r, r.input(Zeros), room);
    const float* biases = asFloats(r, r.input(Biases), room);
    if (const float* factors = asFloats(r, r.input(PreQuantScale), room)) {
      float* scaled = room.take<float>(x.numel());
      r.parallelFor(static_cast<size_t>(rowsOf(x)), rowGrain(w.k), [&](size_t begin, size_t end) {
        for (size_t row = begin; row < end; ++row)
          for (int64_t k = 0; k < w.k; ++k) {
            int64_t at = static_cast<int64_t>(row) * w.k + k;
            scaled[at] = from[at] * factors[k];
          }
      });
      from = scaled;
    }
    float* sums = sumsFor(out, room);
    multiplyRows(w, rowsOf(x), from, biases, sums, hostThreads(r));
    storeResult(r, rowsOf(x), w.n, sums, {}, out);
  }
  std::string decompose(const tsc::Tensors& t) const {
    GraphText g;
    std::vector<ValueText> in = g.inputs(t, {"activation", "pre_quant_scale", "weight", "scales", "zeros", "biases"});
    auto floats = [&](Input i) { return g.toFloat(in[i]); };
    // Each row of scales for group_size rows, as many as there are.
    auto spread = [&](Input i) {
      ValueText all = g.op("aten::repeat_interleave", {floats(i), groupSize, 0, nullptr});
      return g.slice(all, 0, 0, g.size(in[Weight], 0));
    };
    ValueText w = g.mul(weightText(g, in[Weight], weights), spread(Scales));
    if (!in[Zeros].empty()) w = g.add(w, spread(Zeros));
    ValueText x = floats(Activation);
    if (!in[PreQuantScale].empty()) x = g.mul(x, g.view(floats(PreQuantScale), {-1}));
    ValueText y = g.matmul(x, w);
    if (!in[Biases].empty()) y = g.add(y, floats(Biases));
    return g.finish({g.to(y, type == TSC_NONE ? t.input(0).dtype() : type)});
  }
};

}  // namespace

const tsc_plugin* makeWeightOnlyQuantMatmul() { return tsc::Definition<WeightOnlyQuantMatmul>::table(); }
const tsc_plugin* makeWeightOnlyGroupwiseQuantMatmul() {
  return tsc::Definition<WeightOnlyGroupwiseQuantMatmul>::table();
}

}  // namespace tscompile
