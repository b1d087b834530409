// Layers that work along one dimension give what the reference kernels give, to the last bit and in the order of ties.
#include "tests/support/engine_case.h"

#include <cstring>

namespace tscompile::test {
namespace {

// Few different values, so that many are equal; NaN and both zeros among them if `wild`.
Tensor withTies(DimSpan sizes, uint64_t seed, bool wild) {
  Tensor t = Tensor::empty(DType::Float32, sizes);
  std::mt19937_64 random(seed);
  for (int64_t i = 0; i < t.numel(); ++i) {
    const auto n = static_cast<int64_t>(random() % 41);
    t.data<float>()[i] = wild && n == 40 ? NAN : wild && n == 39 ? -0.0f : static_cast<float>(n - 20) / 4;
  }
  return t;
}

// Where one has NaN the other has it too.
bool sameNumbers(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || !std::ranges::equal(a.sizes(), b.sizes())) return false;
  for (int64_t i = 0; i < a.numel(); ++i)
    if (!(a.real(i) == b.real(i) || (std::isnan(a.real(i)) && std::isnan(b.real(i))))) return false;
  return true;
}

struct LaneGraph {
  const char* layer;
  std::string body;  // after %x, with %dim, %none, %yes and %no
  bool wild = true;
};

std::vector<LaneGraph> graphs(int64_t count) {
  std::vector<LaneGraph> out{
      {"cumsum", "  %a : Tensor = aten::cumsum(%x, %dim, %none)\n  return (%a)\n", false},
      {"cumprod", "  %a : Tensor = aten::cumprod(%x, %dim, %none)\n  return (%a)\n"},
      {"argmax", "  %a : Tensor = aten::argmax(%x, %dim, %yes)\n  return (%a)\n"},
      {"argmin", "  %a : Tensor, %b : Tensor = aten::min(%x, %dim, %no)\n  return (%a, %b)\n"},
      {"sort", "  %a : Tensor, %b : Tensor = aten::sort(%x, %dim, %yes)\n  return (%a, %b)\n"},
      {"sort", "  %a : Tensor, %b : Tensor = aten::sort(%x, %yes, %dim, %no)\n  return (%a, %b)\n"},
      {"sort", "  %a : Tensor = aten::argsort(%x, %dim, %no)\n  return (%a)\n"},
  };
  for (int64_t k : {int64_t{1}, int64_t{2}, count / 64, count / 7, count})
    for (const char* largest : {"%yes", "%no"})
      if (k > 0 && k <= count)
        out.push_back({"topk", "  %k : int = prim::Constant[value=" + std::to_string(k) + "]()\n" +
                                   "  %a : Tensor, %b : Tensor = aten::topk(%x, %k, %dim, " + largest +
                                   ", %yes)\n  return (%a, %b)\n"});
  return out;
}

TEST(LaneLayers, GiveWhatKernelsGive) {
  for (const Dims& sizes : {Dims{7}, Dims{3, 700}, Dims{2, 300, 5}, Dims{1, 2000}, Dims{4, 130, 70}})
    for (int64_t dim = 0; dim < static_cast<int64_t>(sizes.size()); ++dim)
      for (const LaneGraph& g : graphs(sizes[static_cast<size_t>(dim)])) {
        SCOPED_TRACE(std::string(g.layer) + " over dimension " + std::to_string(dim) + " of " + dimsText(sizes) +
                     g.body);
        EngineCase c(
            "graph(%x : Tensor):\n  %none : NoneType = prim::Constant()\n  %yes : bool = prim::Constant[value=1]()\n"
            "  %no : bool = prim::Constant[value=0]()\n  %dim : int = prim::Constant[value=" +
            std::to_string(dim) + "]()\n" + g.body);
        const std::vector<IValue> inputs{IValue(withTies(sizes, 1, g.wild))};
        EXPECT_EQ(c.layers(inputs), g.layer);
        const std::vector<IValue> want = c.interpret(inputs);
        for (int threads : {1, 3}) {
          const std::vector<IValue> got = c.run(inputs, threads);
          for (size_t i = 0; i < want.size(); ++i) EXPECT_TRUE(sameNumbers(got[i].toTensor(), want[i].toTensor()));
        }
        if (HasFailure()) return;
      }
}

// Lanes without ties are selected from in another way: up to a first value that is equal to the next one.
TEST(LaneLayers, SelectFromDistinctValues) {
  const Dims sizes{40, 200};
  Tensor x = Tensor::empty(DType::Float32, sizes);
  std::mt19937_64 random(3);
  for (int64_t lane = 0; lane < sizes[0]; ++lane) {
    float* run = x.data<float>() + lane * sizes[1];
    for (int64_t i = 0; i < sizes[1]; ++i) run[i] = static_cast<float>(i - 100);
    if (lane > 0) std::shuffle(run, run + sizes[1], random);
    if (lane % 4 == 1) run[random() % 200] = NAN;
    if (lane % 4 == 2) run[random() % 200] = lane % 8 == 2 ? INFINITY : -INFINITY;
    if (lane % 4 == 3) run[random() % 200] = run[0];
  }
  for (const char* largest : {"1", "0"})
    for (int k : {4, 10, 19, 32, 33}) {
      EngineCase c(
          "graph(%x : Tensor):\n  %yes : bool = prim::Constant[value=1]()\n  %largest : bool = "
          "prim::Constant[value=" +
          std::string(largest) +
          "]()\n  %dim : int = prim::Constant[value=1]()\n  %k : int = "
          "prim::Constant[value=" +
          std::to_string(k) +
          "]()\n  %a : Tensor, %b : Tensor = aten::topk(%x, %k, %dim, %largest, %yes)\n  return (%a, %b)\n");
      const std::vector<IValue> inputs{IValue(x)};
      const std::vector<IValue> want = c.interpret(inputs), got = c.run(inputs, 2);
      for (size_t i = 0; i < want.size(); ++i) EXPECT_TRUE(sameNumbers(got[i].toTensor(), want[i].toTensor())) << k;
    }
}

// Long lanes without ties are sorted by digits, whether the order of equal values counts or not.
TEST(LaneLayers, SortDistinctValues) {
  const Dims sizes{6, 500};
  Tensor x = Tensor::empty(DType::Float32, sizes);
  std::mt19937_64 random(5);
  for (int64_t lane = 0; lane < sizes[0]; ++lane) {
    float* run = x.data<float>() + lane * sizes[1];
    for (int64_t i = 0; i < sizes[1]; ++i) run[i] = static_cast<float>(i - 250) / 3;
    run[499] = lane % 2 ? NAN : -INFINITY;
    std::shuffle(run, run + sizes[1], random);
    if (lane == 5) run[3] = run[400];
  }
  for (const char* descending : {"%t", "%f"})
    for (const char* stable : {"", "%f, ", "%t, "}) {
      EngineCase c(graphWithConstants(
          "%x : Tensor",
          "  %v : Tensor, %i : Tensor = aten::sort(%x, " + std::string(stable) + "%last, " + descending + ")\n",
          "%v, %i"));
      const std::vector<IValue> in{IValue(x)}, want = c.interpret(in), got = c.run(in, 2);
      for (size_t i = 0; i < want.size(); ++i) EXPECT_TRUE(sameNumbers(got[i].toTensor(), want[i].toTensor()));
    }
}

// Masks become positions so: integers of several kinds are summed up as they are.
TEST(LaneLayers, WholeNumbersAreSummedUp) {
  for (const char* dtype : {"bool", "i32", "i64"}) {
    EngineCase c(R"(graph(%x : Tensor):
  %none : NoneType = prim::Constant()
  %one : int = prim::Constant[value=1]()
  %y : Tensor = aten::cumsum(%x, %one, %none)
  return (%y)
)");
    Tensor x = Tensor::zeros(dtype[0] == 'b' ? DType::Bool : dtype[1] == '3' ? DType::Int32 : DType::Int64, Dims{3, 9});
    for (int64_t i = 0; i < x.numel(); ++i)
      std::memset(x.raw() + i * static_cast<int64_t>(itemSize(x.dtype())), i % 3 != 0, 1);
    EXPECT_EQ(c.layers({IValue(x)}), "cumsum");
    EXPECT_TRUE(sameNumbers(c.run({IValue(x)})[0].toTensor(), c.interpret({IValue(x)})[0].toTensor()));
  }
}

}  // namespace
TEST(LaneLayers, ExtremesWhosePlacesNobodyReadsAreReductions) {
  EngineCase c(graphWithConstants("%x : Tensor", "  %v : Tensor, %i : Tensor = aten::max(%x, %last, %f)\n", "%v"));
  for (int64_t count : {1, 3, 16, 56, 200}) {
    const std::vector<IValue> in{withTies(Dims{7, count}, 3, true)};
    EXPECT_EQ(c.layers(in, true), "max");
    EXPECT_TRUE(sameNumbers(c.run(in)[0].toTensor(), c.interpret(in)[0].toTensor())) << count;
  }
}

}  // namespace tscompile::test
