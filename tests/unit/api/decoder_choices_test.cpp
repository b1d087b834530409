// Branches of a model that are chosen by how many tokens there are, or by what all of them are; and ids that mean
// something, which only some texts have.
#include "tests/unit/api/decoders.h"

namespace tscompile::test {
namespace {

struct Choice {
  const char* name;
  std::string condition;  // of %is
  KvCacheType kind;       // that is right for it
};

const std::string kEnd = "  %end : int = prim::Constant[value=7]()\n  %ends : Tensor = aten::eq(%input_ids, %end)\n";

class DecoderChoices : public Decoders {
 protected:
  // Twice as large vectors where %is holds.
  static Decoder choosing(const std::string& condition) {
    Decoder d;
    d.positions =
        "  %at.p : Tensor = aten::unsqueeze(%position_ids, %m1)\n  %turn : Tensor = aten::mul(%at.p, %places.f)\n"
        "  %x.positions : Tensor = aten::cos(%turn)\n";
    d.mixing = "  %x.sum : Tensor = aten::add(%x.ids, %x.positions, %1)\n" + condition +
               "  %x : Tensor = prim::If(%is)\n    block0():\n      %twice : Tensor = aten::mul(%x.sum, %2)\n"
               "      -> (%twice)\n    block1():\n      -> (%x.sum)\n";
    return d;
  }

  void expectRight(const Decoder& d, const char* name, KvCacheType kind) {
    ASSERT_TRUE(builds(d, {"max_seq_len=64"})) << name << messages();
    EXPECT_EQ(served(40), expected(d, "ip", 40)) << name << messages();
    Result<BuiltModel> built = readBuiltModel(folder_, diagnostics_);
    ASSERT_TRUE(built);
    EXPECT_EQ(built->config.kvCacheType, kind) << name << messages();
  }
};

TEST_F(DecoderChoices, BranchesMayBeChosenByAllTokens) {
  const Choice kChoices[] = {
      {"far tokens", "  %far.n : int = prim::Constant[value=30]()\n  %is : bool = aten::gt(%s, %far.n)\n",
       KvCacheType::Disabled},
      {"more tokens than any text has",
       "  %far.n : int = prim::Constant[value=64]()\n  %is : bool = aten::gt(%s, %far.n)\n", KvCacheType::Paged},
      {"one length", "  %far.n : int = prim::Constant[value=40]()\n  %is : bool = aten::eq(%s, %far.n)\n",
       KvCacheType::Disabled},
      {"multiples",
       "  %far.n : int = prim::Constant[value=32]()\n  %rest : int = aten::remainder(%s, %far.n)\n"
       "  %is : bool = aten::eq(%rest, %0)\n",
       KvCacheType::Disabled},
      {"several tokens", "  %is : bool = aten::ge(%s, %1)\n", KvCacheType::Paged},
      {"one token", "  %is : bool = aten::eq(%s, %1)\n", KvCacheType::Disabled},
      {"an id", kEnd + "  %any : Tensor = aten::any(%ends)\n  %is : bool = aten::Bool(%any)\n", KvCacheType::State},
  };
  for (const Choice& c : kChoices) expectRight(choosing(c.condition), c.name, c.kind);
}

// What measures the model leaves them out of its texts.
TEST_F(DecoderChoices, IdsThatMeanSomethingStandInTheFolder) {
  ASSERT_TRUE(builds(choosing(kEnd + "  %any : Tensor = aten::any(%ends)\n  %is : bool = aten::Bool(%any)\n"),
                     {"max_seq_len=64"}))
      << messages();
  Result<BuiltModel> built = readBuiltModel(folder_, diagnostics_);
  ASSERT_TRUE(built);
  EXPECT_EQ(built->marked, std::vector<int64_t>{7});
}

TEST_F(DecoderChoices, NumbersThatAreNearlyEqualMayChooseOtherwiseIfWeightsAreRounded) {
  Decoder d;  // what attention gives has steps of 1/8, and some numbers are near the middle of two
  d.attention =
      "  %o.raw : Tensor = aten::scaled_dot_product_attention(%q, %k, %v, %none, %drop, %yes)\n"
      "  %o.eight : Tensor = aten::mul(%o.raw, %8)\n  %o.steps : Tensor = aten::round(%o.eight)\n"
      "  %o : Tensor = aten::div(%o.steps, %8)\n";
  ASSERT_TRUE(builds(d, {"weight_precision=bfloat16"})) << messages();
  EXPECT_NE(messages().find("its own are off by as much if it is rounded in other ways"), std::string::npos)
      << messages();
  expectServed(d);
  EXPECT_EQ(messages().find("rounded in other ways"), std::string::npos) << messages();
}

TEST_F(DecoderChoices, TheLastTokensMayBeAllThatIsRead) {
  Decoder d = choosing("  %is : bool = aten::ge(%s, %1)\n");
  d.before =
      "  %back : int = prim::Constant[value=-16]()\n"
      "  %read : Tensor = aten::slice(%input_ids, %1, %back, %max, %1)\n"
      "  %b : int = aten::size(%read, %0)\n  %s : int = aten::size(%read, %1)\n"
      "  %x.ids : Tensor = aten::embedding(%words, %read, %m1, %no, %no)\n";
  d.inputs = "%input_ids : Tensor";
  d.positions = kCounted;
  ASSERT_TRUE(builds(d, {"max_seq_len=24"})) << messages();
  EXPECT_EQ(served(16), expected(d, "i", 16)) << messages();
}

// The mask of one token hides nothing.
TEST_F(DecoderChoices, OneTokenMayBeMaskedInAWayOfItsOwn) {
  const std::string several = "  %several : bool = aten::gt(%s, %1)\n";
  Decoder d = choosing("  %is : bool = aten::ge(%s, %1)\n");
  d.attention = written(several + kRows +
                        "  %later : Tensor = aten::gt(%at.m, %row)\n"
                        "  %masked : Tensor = prim::If(%several)\n    block0():\n"
                        "      %hidden : Tensor = aten::masked_fill(%scores, %later, %far)\n      -> (%hidden)\n"
                        "    block1():\n      -> (%scores)\n");
  expectRight(d, "a mask", KvCacheType::Paged);
  d.attention = written(several + kRows +
                        "  %later.1 : Tensor = aten::gt(%at.m, %row)\n"
                        "  %later : Tensor? = prim::If(%several)\n    block0():\n      -> (%later.1)\n"
                        "    block1():\n      -> (%none)\n"
                        "  %hides : bool = aten::__isnot__(%later, %none)\n"
                        "  %masked : Tensor = prim::If(%hides)\n    block0():\n"
                        "      %later.2 : Tensor = prim::unchecked_cast(%later)\n"
                        "      %hidden : Tensor = aten::masked_fill(%scores, %later.2, %far)\n      -> (%hidden)\n"
                        "    block1():\n      -> (%scores)\n");
  expectRight(d, "a mask that may be none", KvCacheType::Paged);
  d.attention = several + "  %o : Tensor = aten::scaled_dot_product_attention(%q, %k, %v, %none, %drop, %several)\n";
  expectRight(d, "a flag", KvCacheType::Paged);
}

TEST_F(DecoderChoices, WhatOneIdDoesToAllTokensOfItsTextIsNotDoneToOthers) {
  Decoder d = choosing("  %is : bool = aten::ge(%s, %1)\n");
  d.mixing = "  %x.sum : Tensor = aten::add(%x.ids, %x.positions, %1)\n" + kEnd +
             "  %any : Tensor = aten::any(%ends, %1, %yes)\n  %more : Tensor = aten::unsqueeze(%any, %m1)\n"
             "  %factor : Tensor = aten::add(%more, %1, %1)\n  %x : Tensor = aten::mul(%x.sum, %factor)\n";
  expectRight(d, "a flag", KvCacheType::State);
}

// Random ids of many words hardly come again, and a model that counts how often one did is told from others by texts in
// which some do.
TEST_F(DecoderChoices, IdsThatComeAgainAreTriedOut) {
  Decoder d;
  d.words = 3001;
  d.mixing =
      "  %rows.i : Tensor = aten::unsqueeze(%input_ids, %2)\n  %columns.i : Tensor = aten::unsqueeze(%input_ids, %1)\n"
      "  %same : Tensor = aten::eq(%rows.i, %columns.i)\n  %earlier : Tensor = aten::tril(%same, %m1)\n"
      "  %last : int[] = prim::Constant[value=[-1]]()\n  %times : Tensor = aten::sum(%earlier, %last, %yes, %6)\n"
      "  %z : Tensor = aten::add(%x.ids, %x.positions, %1)\n  %x : Tensor = aten::add(%z, %times, %3)\n";
  ASSERT_TRUE(builds(d)) << messages();
  EXPECT_EQ(readBuiltModel(folder_, diagnostics_)->config.kvCacheType, KvCacheType::State);
  EXPECT_EQ(served(9), expected(d, "ip", 9));
}

// Ids that are told from others by something else than a comparison of their numbers.
TEST_F(DecoderChoices, IdsThatAreToldByWhatTheyBecomeAreTriedOut) {
  Decoder d;
  d.words = 3001;
  d.mixing =
      "  %floats : Tensor = aten::to(%input_ids, %6, %no, %no, %none)\n  %end : float = prim::Constant[value=12.]()\n"
      "  %ends : Tensor = aten::eq(%floats, %end)\n  %counted : Tensor = aten::cumsum(%ends, %1, %6)\n"
      "  %times : Tensor = aten::unsqueeze(%counted, %m1)\n"
      "  %z : Tensor = aten::add(%x.ids, %x.positions, %1)\n  %x : Tensor = aten::add(%z, %times, %3)\n";
  ASSERT_TRUE(builds(d)) << messages();
  EXPECT_EQ(readBuiltModel(folder_, diagnostics_)->config.kvCacheType, KvCacheType::State);
  EXPECT_EQ(served(9), expected(d, "ip", 9));
}

}  // namespace
}  // namespace tscompile::test
