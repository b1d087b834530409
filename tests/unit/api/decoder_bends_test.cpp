// What a model does only far from the first token is done by what was built of it: windows and chunks however their
// numbers are written, biases and factors that change at some token, positions that depend on how long a text is.
#include "tests/unit/api/decoders.h"

#include <fmt/core.h>

namespace tscompile::test {
namespace {

struct Bend {
  const char* name;
  std::string text;  // of masked scores, or of positions
  KvCacheType kind;  // that is right for it
};

const std::string kBendFill = "  %masked : Tensor = aten::masked_fill(%scores, %later, %far)\n";
const std::string kBendDistance = kRows +
                                  "  %after : Tensor = aten::gt(%at.m, %row)\n"
                                  "  %distance : Tensor = aten::sub(%row, %at.m, %1)\n";
const std::string kBendHidden = "  %later : Tensor = aten::__or__(%after, %early)\n" + kBendFill;

class DecoderBends : public Decoders {
 protected:
  // Positions without a table, so that texts may be long.
  static Decoder counted() {
    Decoder d;
    d.positions = turned("  %turn : Tensor = aten::mul(%at.p, %places.f)\n");
    return d;
  }
  static std::string turned(const std::string& turn) {
    return "  %at.p : Tensor = aten::unsqueeze(%position_ids, %m1)\n" + turn +
           "  %x.positions : Tensor = aten::cos(%turn)\n";
  }
  static Decoder masked(const std::string& text) {
    Decoder d = counted();
    d.attention = written(text);
    return d;
  }

  void expectLong(const Decoder& d, const Bend& bend) {
    ASSERT_TRUE(builds(d, {"max_seq_len=64"})) << bend.name << messages();
    EXPECT_EQ(served(40), expected(d, "ip", 40)) << bend.name << messages();
    Result<BuiltModel> built = readBuiltModel(folder_, diagnostics_);
    ASSERT_TRUE(built);
    EXPECT_EQ(built->config.kvCacheType, bend.kind) << bend.name << messages();
  }
};

TEST_F(DecoderBends, WindowsShowHoweverTheirNumbersAreWritten) {
  const std::string wide = "  %wide.i : int = prim::Constant[value=24]()\n";
  const Bend kBends[] = {
      {"a float",
       kBendDistance +
           "  %wide : float = prim::Constant[value=23.5]()\n  %f : Tensor = aten::to(%distance, %6, %no, %no, "
           "%none)\n  %early : Tensor = aten::gt(%f, %wide)\n" +
           kBendHidden,
       KvCacheType::Paged},
      {"a tensor",
       kBendDistance +
           "  %wide.n : int = prim::Constant[value=24]()\n"
           "  %wide : Tensor = aten::scalar_tensor(%wide.n, %4, %none, %none, %none)\n  %early : Tensor = "
           "aten::ge(%distance, %wide)\n" +
           kBendHidden,
       KvCacheType::Paged},
      {"a difference of tensors",
       kBendDistance +
           "  %wide.n : int = prim::Constant[value=24]()\n"
           "  %wide : Tensor = aten::scalar_tensor(%wide.n, %4, %none, %none, %none)\n  %back : Tensor = "
           "aten::sub(%row, %wide, %1)\n"
           "  %early : Tensor = aten::le(%at.m, %back)\n" +
           kBendHidden,
       KvCacheType::Paged},
      {"a quotient",
       kBendDistance + "  %by : Tensor = aten::floor_divide(%distance, %4)\n  %early : Tensor = aten::ge(%by, %6)\n" +
           kBendHidden,
       KvCacheType::Paged},
      {"a sum",
       kBendDistance +
           "  %half : int = prim::Constant[value=12]()\n  %back : Tensor = aten::sub(%distance, %half, %1)\n"
           "  %early : Tensor = aten::ge(%back, %half)\n" +
           kBendHidden,
       KvCacheType::Paged},
      {"a square",
       kBendDistance +
           "  %most : int = prim::Constant[value=600]()\n  %two : Tensor = aten::mul(%distance, %distance)\n"
           "  %early : Tensor = aten::gt(%two, %most)\n" +
           kBendHidden,
       KvCacheType::Paged},
      {"a chunk",
       kBendDistance + wide +
           "  %r : Tensor = aten::floor_divide(%row, %wide.i)\n"
           "  %c : Tensor = aten::floor_divide(%at.m, %wide.i)\n"
           "  %early : Tensor = aten::ne(%r, %c)\n" +
           kBendHidden,
       KvCacheType::State},
      {"a window with first tokens",
       kBendDistance + wide +
           "  %far.i : Tensor = aten::ge(%distance, %wide.i)\n"
           "  %inside : Tensor = aten::ge(%at.m, %1)\n"
           "  %early : Tensor = aten::__and__(%far.i, %inside)\n" +
           kBendHidden,
       KvCacheType::State},
  };
  for (const Bend& bend : kBends) expectLong(masked(bend.text), bend);
}

TEST_F(DecoderBends, BiasesAndFactorsMayChangeAtAToken) {
  const std::string some = kBendDistance +
                           "  %later : Tensor = aten::gt(%at.m, %row)\n"
                           "  %edge.n : int = prim::Constant[value=25]()\n"
                           "  %edge : Tensor = aten::scalar_tensor(%edge.n, %4, %none, %none, %none)\n"
                           "  %half : float = prim::Constant[value=0.5]()\n";
  const std::string fill = "  %masked : Tensor = aten::masked_fill(%by, %later, %far)\n";
  const Bend kBends[] = {
      {"a bias behind a distance",
       some +
           "  %d : Tensor = aten::sub(%distance, %edge, %1)\n  %bent : Tensor = aten::relu(%d)\n"
           "  %by : Tensor = aten::sub(%scores, %bent, %half)\n" +
           fill,
       KvCacheType::State},
      {"a factor by rows",
       some +
           "  %is : Tensor = aten::gt(%row, %edge)\n  %more : Tensor = aten::mul(%is, %3)\n"
           "  %factor : Tensor = aten::add(%more, %1, %1)\n  %by : Tensor = aten::mul(%scores, %factor)\n" +
           fill,
       KvCacheType::State},
      {"a factor by keys",
       some +
           "  %is : Tensor = aten::gt(%at.m, %edge)\n  %more : Tensor = aten::mul(%is, %3)\n"
           "  %factor : Tensor = aten::add(%more, %1, %1)\n  %by : Tensor = aten::mul(%scores, %factor)\n" +
           fill,
       KvCacheType::State},
      {"logarithms of rows",
       some +
           "  %least : Tensor = aten::clamp(%row, %edge, %none)\n  %log : Tensor = aten::log(%least)\n"
           "  %by : Tensor = aten::mul(%scores, %log)\n" +
           fill,
       KvCacheType::State},
  };
  for (const Bend& bend : kBends) expectLong(masked(bend.text), bend);
}

TEST_F(DecoderBends, PositionsMayChangeAtATokenOrWithTheLengthOfTexts) {
  const std::string edge =
      "  %edge.n : int = prim::Constant[value=25]()\n"
      "  %edge : Tensor = aten::scalar_tensor(%edge.n, %4, %none, %none, %none)\n  %turn.1 : Tensor = aten::mul(%at.p, "
      "%places.f)\n";
  const Bend kBends[] = {
      {"where a token is far",
       edge + "  %is : Tensor = aten::gt(%at.p, %edge)\n  %more : Tensor = aten::add(%is, %1, %1)\n"
              "  %turn : Tensor = aten::div(%turn.1, %more)\n",
       KvCacheType::Paged},
      {"where the text is long",
       edge + "  %last : Tensor = aten::max(%at.p)\n  %is : Tensor = aten::gt(%last, %edge)\n"
              "  %more : Tensor = aten::add(%is, %1, %1)\n  %turn : Tensor = aten::div(%turn.1, %more)\n",
       KvCacheType::State},
      {"where there are many tokens",
       edge + "  %n : int = aten::size(%input_ids, %1)\n  %n.t : Tensor = aten::scalar_tensor(%n, %6, %none, %none, "
              "%none)\n  %most : Tensor = aten::maximum(%n.t, %edge)\n"
              "  %turn : Tensor = aten::div(%turn.1, %most)\n",
       KvCacheType::State},
  };
  for (const Bend& bend : kBends) {
    Decoder d = counted();
    d.positions = turned(bend.text);
    expectLong(d, bend);
  }
}

TEST_F(DecoderBends, WhatCountsNoFurtherIsNoPosition) {
  Decoder d = counted();
  d.positions =
      "  %n : int = prim::Constant[value=25]()\n  %at.1 : Tensor = aten::arange(%s, %none, %none, %none, %none)\n"
      "  %at.2 : Tensor = aten::clamp(%at.1, %none, %n)\n  %at.p : Tensor = aten::unsqueeze(%at.2, %m1)\n"
      "  %turn : Tensor = aten::mul(%at.p, %places.f)\n  %x.positions : Tensor = aten::cos(%turn)\n";
  ASSERT_TRUE(builds(d, {"max_seq_len=64"})) << messages();
  EXPECT_EQ(served(40), expected(d, "ip", 40)) << messages();
}

TEST_F(DecoderBends, AnUnknownEndOfAMaskIsToldWithItsReason) {
  Decoder d = masked(kBendDistance +
                     "  %wide : int = prim::Constant[value=9000]()\n"
                     "  %early : Tensor = aten::ge(%distance, %wide)\n" +
                     kBendHidden);
  expectRefused(d, "its mask may bend further from the first token than masks are looked at",
                {"kv_cache_type=paged", "max_seq_len=10000"});
  // No text is as long as the window is wide.
  EXPECT_TRUE(builds(d, {"kv_cache_type=paged", "max_seq_len=2000"})) << messages();
}

}  // namespace
}  // namespace tscompile::test
