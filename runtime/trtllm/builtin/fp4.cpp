// QuantizeToFP4 and Fp4Gemm: values of 4 bits (e2m1) in blocks of 16 with scales in fp8 (e4m3).
#include "runtime/call/scratch.h"
#include "runtime/trtllm/builtin/matmul_support.h"
#include "runtime/trtllm/builtin/quantize_text.h"
#include "runtime/trtllm/matmul/matmul.h"

#include <cmath>

namespace tscompile {
namespace {

constexpr int64_t kFp4Block = 16;
constexpr float kFp4Values[16] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};

// The nearest of them, halves to the even code, saturating; NaN becomes 6 with its sign.
uint8_t toFp4(float x) {
  const uint8_t sign = std::signbit(x) ? 8 : 0;
  const float v = std::fabs(x);
  if (!(v <= 5.0f)) return sign | 7;
  if (v >= 3.5f) return sign | 6;
  if (v > 2.5f) return sign | 5;
  if (v >= 1.75f) return sign | 4;
  if (v > 1.25f) return sign | 3;
  if (v >= 0.75f) return sign | 2;
  return v > 0.25f ? sign | 1 : sign;
}

struct QuantizeToFP4 {
  static void describe(tsc::Description<QuantizeToFP4>& d) {
    d.key("tensorrt_llm", "QuantizeToFP4", "1",
          "of each block of 16: scale = fp8(max|x| / 6 * global_scale), q = fp4(x * global_scale / scale), halves to "
          "even; "
          "x is about q * scale / global_scale, where the usual global_scale is 448 * 6 / max|x| of the tensor");
    d.input("x", kRowTypes, "[.., K], K a multiple of 16");
    d.input("global_scale", tsc::kF32, "one factor");
    d.output("q", tsc::kU8, "[.., K / 2]: two values a byte (e2m1), the first one in the lower half");
    d.output("scale", tsc::kU8, "[.., K / 16] fp8 (e4m3)");
  }
  static std::string_view example() {
    return "graph(%x : Float(3, 48), %s : Float(1)):\n"
           "  %q : Tensor, %t : Tensor = tensorrt_llm::QuantizeToFP4(%x, %s)\n"
           "  return (%q, %t)\n";
  }
  void shapes(tsc::Shapes& s) const {
    tsc::Shape x = s.input(0);
    expectRankFrom(x, 1, "x");
    int64_t k;
    if (x.dims.back().known(&k) && k % kFp4Block)
      tsc::invalid("the last size of x is " + std::to_string(k) + ", expected a multiple of 16");
    expectOne(s, 1, "global_scale");
    tsc::Dim last = x.dims.back();
    x.dims.back() = last / 2;
    s.output(0, TSC_U8, x.dims);
    x.dims.back() = last / kFp4Block;
    s.output(1, TSC_U8, x.dims);
  }
  void run(tsc::Run& r) const {
    tsc::Tensor x = r.input(0);
    const ValueFormat format{storageOf(x.dtype())};
    const float global = oneFloat(r.input(1));
    constexpr size_t kGrain = 512;
    r.parallelFor(static_cast<size_t>(x.numel() / kFp4Block), kGrain, [&](size_t begin, size_t end) {
      for (size_t block = begin; block < end; ++block) {
        float values[kFp4Block], most = 0;
        auto at = static_cast<int64_t>(block) * kFp4Block;
        loadValues(format, x.data<std::byte>() + at * format.itemBytes(), kFp4Block, values);
        for (float v : values) most = std::fabs(v) > most ? std::fabs(v) : most;
        const uint8_t scale = toFp8(most / 6.0f * global);
        const float stored = fromFp8(scale), factor = stored != 0 ? global / stored : 0.0f;
        r.output(1).data<uint8_t>()[block] = scale;
        for (int64_t i = 0; i < kFp4Block; i += 2)
          r.output(0).data<uint8_t>()[(at + i) / 2] =
              static_cast<uint8_t>(toFp4(values[i] * factor) | toFp4(values[i + 1] * factor) << 4);
      }
    });
  }
};

// A row of fp4 with its scales, values [first, end).
void loadFp4(const uint8_t* values, const uint8_t* scales, int64_t first, int64_t end, float* to) {
  float scale = 0;
  for (int64_t i = first; i < end; ++i) {
    if (i == first || i % kFp4Block == 0) scale = fromFp8(scales[i / kFp4Block]);
    *to++ = kFp4Values[values[i / 2] >> (i % 2 * 4) & 15] * scale;
  }
}

struct Fp4Gemm {
  enum Input { Mat1, Mat2, Scale1, Scale2, Alpha };
  tsc_dtype type = TSC_F16;

  static void describe(tsc::Description<Fp4Gemm>& d) {
    d.key(
        "tensorrt_llm", "Fp4Gemm", "1",
        "y[m, n] = alpha * sum_k mat1[m, k] mat1_scale[m, k / 16] mat2[n, k] mat2_scale[n, k / 16] of fp4 (e2m1), with "
        "sums in f32; alpha is usually 1 / (global_scale of mat1 * that of mat2)");
    d.choice("type_id", &Fp4Gemm::type, kTypes, floatTypes(), "the type of the result");
    d.input("mat1", tsc::kU8, "[M.., K / 2], as QuantizeToFP4 gives it");
    d.input("mat2", tsc::kU8, "[N, K / 2]");
    d.input("mat1_scale", tsc::kU8, "[M.., K / 16] fp8 (e4m3)");
    d.input("mat2_scale", tsc::kU8, "[N, K / 16]");
    d.input("alpha", tsc::kF32, "one factor");
    d.output("y", kRowTypes, "[M.., N]");
  }
  static std::string_view example() {
    return "graph(%a : Byte(3, 24), %b : Byte(7, 24), %s : Byte(3, 3), %t : Byte(7, 3), %f : Float(1)):\n"
           "  %y : Tensor = tensorrt_llm::Fp4Gemm(%a, %b, %s, %t, %f)\n"
           "  return (%y)\n";
  }
  void shapes(tsc::Shapes& s) const {
    tsc::Shape a = s.input(Mat1), b = s.input(Mat2), sa = s.input(Scale1), sb = s.input(Scale2);
    expectRankFrom(a, 1, "mat1");
    expectRank(b, 2, "mat2");
    expectRank(sa, a.rank(), "mat1_scale");
    expectRank(sb, 2, "mat2_scale");
    expectEqual(b.dims[1], a.dims.back(), "the last size of mat2", "that of mat1");
    int64_t bytes;
    if (a.dims.back().known(&bytes) && bytes % (kFp4Block / 2))
      tsc::invalid("the last size of mat1 is " + std::to_string(bytes) + ", expected a multiple of 8");
    for (size_t i = 0; i + 1 < a.rank(); ++i)
      expectEqual(sa.dims[i], a.dims[i], "size " + std::to_string(i) + " of mat1_scale", "that of mat1");
    expectEqual(sa.dims.back(), a.dims.back() / (kFp4Block / 2), "the last size of mat1_scale", "the blocks of mat1");
    expectEqual(sb.dims[0], b.dims[0], "the first size of mat2_scale", "that of mat2");
    expectEqual(sb.dims[1], b.dims[1] / (kFp4Block / 2), "the last size of mat2_scale", "the blocks of mat2");
    expectOne(s, Alpha, "alpha");
    a.dims.back() = b.dims[0];
    s.output(0, type, a.dims);
  }
  size_t workspace(const tsc::Tensors& t) const {
    return Room::bytesOf(2 * t.input(Mat1).numel(), sizeof(float)) + sumsBytes(t.output(0));
  }
  void run(tsc::Run& r) const {
    tsc::Tensor a = r.input(Mat1), b = r.input(Mat2), out = r.output(0);
    if (out.numel() == 0) return;
    Room room(r.workspace());
    const int64_t m = rowsOf(out), n = widthOf(out), bytes = widthOf(a), k = 2 * bytes, blocks = k / kFp4Block;
    float* x = room.take<float>(m * k);
    r.parallelFor(static_cast<size_t>(m), rowGrain(k), [&](size_t begin, size_t end) {
      for (auto row = static_cast<int64_t>(begin); row < static_cast<int64_t>(end); ++row)
        loadFp4(a.data<uint8_t>() + row * bytes, r.input(Scale1).data<uint8_t>() + row * blocks, 0, k, x + row * k);
    });
    float* sums = sumsFor(out, room);
    auto load = [&](int64_t column, int64_t first, int64_t end, float* to) {
      loadFp4(b.data<uint8_t>() + column * bytes, r.input(Scale2).data<uint8_t>() + column * blocks, first, end, to);
    };
    multiplyColumns(m, n, k, x, load, sums, hostThreads(r));
    storeResult(r, m, n, sums, {oneFloat(r.input(Alpha))}, out);
  }
};

}  // namespace

const tsc_plugin* makeFp4Gemm() { return tsc::Definition<Fp4Gemm>::table(); }
const tsc_plugin* makeQuantizeToFP4() { return tsc::Definition<QuantizeToFP4>::table(); }

}  // namespace tscompile
