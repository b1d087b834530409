// Plugins replaced by what they decompose into.
#include "api/unpack_plugins.h"

#include "api/extensions.h"
#include "api/lower.h"
#include "api/module.h"
#include "ir/graph/printer.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tscompile::test {
namespace {

class UnpackPlugins : public testing::Test {
 protected:
  Module load(const std::string& text) {
    LoadOptions options;
    options.extensions = std::make_shared<Extensions>();
    Result<Module> m = Module::fromText(text, "test", options, diagnostics);
    EXPECT_TRUE(m) << message();
    return std::move(*m);
  }
  Result<Module> unpacked(const Module& m) {
    LowerOptions options;
    options.unpackPlugins = true;
    return m.lowered(options, diagnostics);
  }
  std::string message() const { return diagnostics.list().empty() ? "" : diagnostics.list()[0].message; }
  static Tensor wave(Dims sizes, double phase) {
    Tensor t = Tensor::empty(DType::Float32, sizes);
    for (int64_t i = 0; i < t.numel(); ++i)
      t.data<float>()[i] = static_cast<float>(std::sin(phase + 0.7 * static_cast<double>(i)));
    return t;
  }
  Diagnostics diagnostics;
};

// Two plugins, one in a branch; names of results, and a state that is written.
constexpr const char* kGraph =
    "graph(%x : Float(2, 5, 4), %state : Float(2, 2, 4), %weight : Float(1, 3, 4), %scores : Float(2, 5, 3),\n"
    "      %up : Float(3, 12, 4), %down : Float(3, 4, 6), %deep : bool):\n"
    "  %y : Tensor, %new : Tensor = tensorrt_llm::MambaConv1d[dim=4, dconv=3, inplace=1](%x, %state, %weight)\n"
    "  %z : Tensor = prim::If(%deep)\n"
    "    block0():\n"
    "      %e : Tensor = tensorrt_llm::MixtureOfExperts[number_of_experts=3, expert_hidden_size=4, "
    "expert_inter_size=6](%y, %scores, %up, %down)\n"
    "      -> (%e)\n"
    "    block1():\n"
    "      -> (%y)\n"
    "  return (%z, %new)\n";

TEST_F(UnpackPlugins, ComputesTheSame) {
  Module packed = load(kGraph);
  Result<Module> flat = unpacked(packed);
  ASSERT_TRUE(flat) << message();
  std::string text = graphText(*flat->graph());
  EXPECT_EQ(text.find("tensorrt_llm"), std::string::npos) << text;
  EXPECT_EQ(diagnostics.list().size(), 0u) << message();
  for (bool deep : {false, true}) {
    std::vector<std::vector<Tensor>> results;
    for (const Module& m : {packed, *flat}) {
      Tensor state = wave({2, 2, 4}, 1);
      std::vector<IValue> inputs{wave({2, 5, 4}, 2), state, wave({1, 3, 4}, 3), wave({2, 5, 3}, 4), wave({3, 12, 4}, 5),
                                 wave({3, 4, 6}, 6), deep};
      auto out = m.forward(inputs, diagnostics);
      ASSERT_TRUE(out) << message();
      results.push_back({out->at(0).toTensor(), out->at(1).toTensor(), state});
    }
    for (size_t o = 0; o < results[0].size(); ++o) {
      const Tensor &a = results[0][o], &b = results[1][o];
      ASSERT_EQ(a.numel(), b.numel());
      for (int64_t i = 0; i < a.numel(); ++i)
        EXPECT_NEAR(a.data<float>()[i], b.data<float>()[i], 1e-5) << o << " " << i;
    }
  }
}

TEST_F(UnpackPlugins, LeavesWhatIsNotKnown) {
  Module packed = load("graph(%x : Tensor):\n  %y : Tensor = tensorrt_llm::CumsumLastDim(%x)\n  return (%y)\n");
  Result<Module> same = unpacked(packed);
  ASSERT_TRUE(same) << message();
  EXPECT_NE(graphText(*same->graph()).find("tensorrt_llm::CumsumLastDim"), std::string::npos);
  EXPECT_EQ(message(), "tensorrt_llm::CumsumLastDim stays a plugin: dtype or rank of %x is not known");
}

TEST_F(UnpackPlugins, TellsWhatCannotBeMade) {
  Module packed = load("graph(%x : Float(2, 3)):\n  %y : Tensor = tensorrt_llm::TopkLastDim[q=1](%x)\n  return (%y)\n");
  EXPECT_FALSE(unpacked(packed));
  EXPECT_NE(message().find("there is no field q"), std::string::npos) << message();
}

}  // namespace
}  // namespace tscompile::test
