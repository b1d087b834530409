// Inputs are ids, positions or masks if their names or their uses say so, and are refused by name otherwise: a model
// that would be given something else than it means must not be built.
#include "api/serving/input_trials.h"
#include "tests/unit/api/decoders.h"

namespace tscompile::test {
namespace {

// Angles of positions, in place of a table of them.
const std::string kAngles =
    "  %at.f : Tensor = aten::to(%where, %6, %no, %no, %none)\n  %at.c : Tensor = aten::unsqueeze(%at.f, %2)\n" +
    weight("rates", 1, 8, 0.4) +
    "  %angles : Tensor = aten::matmul(%at.c, %rates)\n  %x.positions : Tensor = aten::cos(%angles)\n";
const std::string kFill = "  %masked : Tensor = aten::masked_fill(%scores, %later, %far)\n";

// A table of this name, chosen from by %where.
std::string tableOf(const std::string& name, int64_t rows, double factor = 1.9) {
  return weight(name, rows, 8, factor) +
         fmt::format("  %x.positions : Tensor = aten::embedding(%{}, %where, %m1, %no, %no)\n", name);
}

TEST_F(Decoders, InputsWithoutANameForItArePositionsByTheirUse) {
  std::vector<std::string> uses{kAngles, tableOf("model.pos_embed.weight", kPositions),
                                tableOf("transformer.wpe", kPositions)};
  // A table of waves, whatever it is called.
  uses.push_back(
      "  %all : int = prim::Constant[value=24]()\n  %n : Tensor = aten::arange(%all, %6, %none, %none, %none)\n"
      "  %n.c : Tensor = aten::unsqueeze(%n, %1)\n" +
      weight("rates", 1, 8, 0.4) +
      "  %waves.a : Tensor = aten::matmul(%n.c, %rates)\n  %table : Tensor = aten::sin(%waves.a)\n"
      "  %x.positions : Tensor = aten::embedding(%table, %where, %m1, %no, %no)\n");
  for (const std::string& use : uses) {
    Decoder d;
    d.inputs = "%input_ids : Tensor, %where : Tensor";
    d.positions = use;
    expectServed(d);
    d.inputs = "%where : Tensor, %input_ids : Tensor";
    expectServed(d, "pi");
  }
  // Compared with each other, and neither has a name for what it is.
  Decoder compared;
  compared.inputs = "%where : Tensor, %x.1 : Tensor";
  compared.before =
      "  %b : int = aten::size(%x.1, %0)\n  %s : int = aten::size(%x.1, %1)\n"
      "  %x.ids : Tensor = aten::embedding(%words, %x.1, %m1, %no, %no)\n";
  compared.positions = kCounted;
  compared.attention = written(
      "  %pr : Tensor = aten::unsqueeze(%where, %2)\n  %pc : Tensor = aten::unsqueeze(%where, %1)\n"
      "  %gt : Tensor = aten::gt(%pc, %pr)\n  %later : Tensor = aten::unsqueeze(%gt, %1)\n" +
      kFill);
  expectServed(compared, "pi");
}

// Of texts with images, where each token has three: the same in a text alone.
TEST_F(Decoders, PositionsMayHaveAxes) {
  for (const char* type : {"Tensor", "Long(3, *, *)"}) {
    Decoder d;
    d.inputs = std::string("%input_ids : Tensor, %position_ids : ") + type;
    d.positions =
        "  %height : Tensor = aten::select(%position_ids, %0, %0)\n"
        "  %width : Tensor = aten::select(%position_ids, %0, %2)\n"
        "  %some : Tensor = aten::embedding(%places, %height, %m1, %no, %no)\n"
        "  %others : Tensor = aten::embedding(%places, %width, %m1, %no, %no)\n"
        "  %both : Tensor = aten::add(%some, %others, %1)\n  %x.positions : Tensor = aten::div(%both, %2)\n";
    ASSERT_TRUE(builds(d)) << messages();
    EXPECT_EQ(served(9), expected(Decoder(), "ip", 9)) << messages();
  }
}

// A tensor that a count is added to has one number, whatever its name says.
TEST_F(Decoders, TextsBeginAtTheFirstPlace) {
  Decoder d;
  d.inputs = "%input_ids : Tensor, %start_pos : Tensor";
  d.positions =
      "  %at : Tensor = aten::arange(%s, %none, %none, %none, %none)\n"
      "  %from : Tensor = aten::add(%at, %start_pos, %1)\n"
      "  %x.positions : Tensor = aten::embedding(%places, %from, %m1, %no, %no)\n";
  ASSERT_TRUE(builds(d)) << messages();
  EXPECT_EQ(served(9), expected(Decoder(), "ip", 9)) << messages();
}

// What experts compute of several tokens together is rounded otherwise if one of them is another.
TEST_F(Decoders, RoundingShowsNoTokenLaterOnes) {
  Decoder d;
  d.inputs += ", %past_keys : Tensor, %past_values : Tensor";
  auto attending = [](const char* part) {
    return fmt::format(
        "  %ks : Tensor[] = prim::ListConstruct(%past_keys, %k)\n  %k.all : Tensor = aten::cat(%ks, %2)\n"
        "  %vs : Tensor[] = prim::ListConstruct(%past_values, %v)\n  %v.all : Tensor = aten::cat(%vs, %2)\n"
        "  %t : int = aten::size(%k.all, %2)\n  %past : int = aten::sub(%t, %s)\n"
        "  %table : int[] = prim::ListConstruct(%s, %t)\n"
        "  %ones : Tensor = aten::ones(%table, %none, %none, %none, %none)\n"
        "  %low : Tensor = aten::tril(%ones, %past)\n  %11 : int = prim::Constant[value=11]()\n"
        "  %seen : Tensor = aten::to(%low, %11, %no, %no, %none)\n"
        "  %a : Tensor = aten::scaled_dot_product_attention(%q, %k.all, %v.all, %seen, %drop, %no)\n"
        "  %part : float = prim::Constant[value={}]()\n  %rows : int[] = prim::Constant[value=[2]]()\n"
        "  %all : Tensor = aten::mean(%a, %rows, %yes, %none)\n  %some : Tensor = aten::mul(%all, %part)\n"
        "  %o : Tensor = aten::add(%a, %some, %1)\n",
        part);
  };
  d.returned = "  %r : (Tensor, Tensor, Tensor) = prim::TupleConstruct(%logits, %k.all, %v.all)\n  return (%r)\n";
  d.attention = attending("1e-7");
  EXPECT_TRUE(builds(d, {"kv_cache_type=paged"})) << messages();
  d.attention = attending("0.5");
  EXPECT_FALSE(builds(d, {"kv_cache_type=paged"}));
}

TEST_F(Decoders, TwoInputsThatChooseRowsOfTablesAreRefused) {
  // A second text with the same words, types of tokens, speakers: no name says so, or one that seems to.
  for (const char* name : {"tgt", "types", "speaker_ids"})
    for (int64_t rows : {kWords, int64_t{2}, kPositions}) {
      Decoder d;
      d.inputs = fmt::format("%src : Tensor, %{} : Tensor", name);
      d.before =
          "  %b : int = aten::size(%src, %0)\n  %s : int = aten::size(%src, %1)\n"
          "  %x.ids : Tensor = aten::embedding(%words, %src, %m1, %no, %no)\n";
      d.positions = weight("table", rows, 8, 1.9) +
                    fmt::format("  %x.positions : Tensor = aten::embedding(%table, %{}, %m1, %no, %no)\n", name);
      expectRefused(d, fmt::format("%src and %{} are all taken for ids", name));
      EXPECT_NE(messages().find("positions are to be called position_ids"), std::string::npos) << messages();
    }
}

TEST_F(Decoders, WhatSaysNothingOfItselfIsRefused) {
  // Keys and values of what an encoder gave.
  Decoder crossed;
  crossed.inputs = "%input_ids : Tensor, %memory : Tensor";
  crossed.positions = kCounted;
  crossed.attention =
      "  %m.b : int = aten::size(%memory, %1)\n  %m.heads : int[] = prim::ListConstruct(%b, %m.b, %2, %4)\n"
      "  %mk.rows : Tensor = aten::linear(%memory, %wk, %none)\n"
      "  %mk.split : Tensor = aten::reshape(%mk.rows, %m.heads)\n"
      "  %mk : Tensor = aten::transpose(%mk.split, %1, %2)\n"
      "  %o : Tensor = aten::scaled_dot_product_attention(%q, %mk, %mk, %none, %drop, %no)\n";
  expectRefused(crossed, "what %memory stands for is not known");
  EXPECT_NE(messages().find("a decoder that is given what an encoder returns is called in a session"),
            std::string::npos)
      << messages();
  // A mask that does not say so.
  Decoder masked;
  masked.inputs = "%input_ids : Tensor, %keep : Tensor";
  masked.positions = kCounted;
  masked.attention = written(
      "  %none.there : Tensor = aten::eq(%keep, %0)\n  %n1 : Tensor = aten::unsqueeze(%none.there, %1)\n"
      "  %n2 : Tensor = aten::unsqueeze(%n1, %1)\n" +
      kRows + "  %after : Tensor = aten::gt(%at.m, %row)\n  %later : Tensor = aten::__or__(%after, %n2)\n" + kFill);
  expectRefused(masked, "what %keep stands for is not known");
  EXPECT_NE(messages().find("call it attention_mask if it is 1 where tokens are"), std::string::npos) << messages();
  for (size_t at; (at = masked.attention.find("%keep")) != std::string::npos;)
    masked.attention.replace(at, 5, "%attention_mask");
  masked.inputs = "%input_ids : Tensor, %attention_mask : Tensor";
  expectServed(masked, "im");
}

TEST_F(Decoders, PositionsThatNeedNotFitTheTokensAreRefused) {
  // What is called positions is the text of a decoder, and ids are those of its encoder.
  Decoder d;
  d.positions = "  %n.p : int = aten::size(%position_ids, %1)\n";
  d.mixing =
      "  %y.p : Tensor = aten::embedding(%places, %position_ids, %m1, %no, %no)\n"
      "  %x : Tensor = aten::add(%y.p, %0, %1)\n";
  d.attention =
      "  %mk.rows : Tensor = aten::linear(%x.ids, %wk, %none)\n  %mk.split : Tensor = aten::reshape(%mk.rows, %h.m)\n"
      "  %mk : Tensor = aten::transpose(%mk.split, %1, %2)\n"
      "  %o : Tensor = aten::scaled_dot_product_attention(%q, %mk, %mk, %none, %drop, %no)\n";
  d.before += "  %h.m : int[] = prim::ListConstruct(%b, %s, %2, %4)\n";
  std::string text = d.text();
  const std::string heads = "prim::ListConstruct(%b, %s, %2, %4)\n  %q.rows";
  ASSERT_NE(text.find(heads), std::string::npos);
  text.replace(text.find(heads), heads.size(), "prim::ListConstruct(%b, %n.p, %2, %4)\n  %q.rows");
  Result<Module> module = Module::fromText(text, "decoder.ir", {}, diagnostics_);
  ASSERT_TRUE(module) << messages();
  EXPECT_FALSE(buildLanguageModel(*module, {}, folder_, diagnostics_));
  EXPECT_NE(
      messages().find("%position_ids is taken for the positions of tokens, and is none: it need not be as long as "
                      "%input_ids"),
      std::string::npos)
      << messages();
}

// A mask of those that must not be seen: with ones, what follows of the mask itself depends on the fill.
Decoder padded(const char* hidden, const char* fill) {
  Decoder d;
  d.inputs = "%input_ids : Tensor, %pad_mask : Tensor";
  d.positions = kCounted;
  d.attention =
      written(std::string("  %is.pad : Tensor = ") + hidden +
              "\n  %n1 : Tensor = aten::unsqueeze(%is.pad, %1)\n  %n2 : Tensor = aten::unsqueeze(%n1, %1)\n" + kRows +
              "  %after : Tensor = aten::gt(%at.m, %row)\n  %later : Tensor = aten::__or__(%after, %n2)\n"
              "  %minus : float = prim::Constant[value=" +
              fill + "]()\n  %masked : Tensor = aten::masked_fill(%scores, %later, %minus)\n");
  return d;
}

// A model that reads no more of a mask than how many ones it has, and of its ids the first and the last.
TEST_F(Decoders, MasksThatAreCountedHideNothing) {
  Entrance entrance;
  entrance.inputs = {ServingInput::Ids, ServingInput::Mask};
  entrance.dtypes = {DType::Int64, DType::Int64};
  entrance.names = {"input_ids", "attention_mask"};
  entrance.isNamed = {true, true};
  auto run = [](const std::vector<IValue>& inputs, Diagnostics&) -> Result<std::vector<IValue>> {
    const Tensor ids = inputs[0].toTensor(), mask = inputs[1].toTensor();
    if (mask.numel() != ids.numel()) return Failed{};
    double ones = 0;
    for (int64_t i = 0; i < mask.numel(); ++i) ones += mask.real(i);
    std::vector<float> logits;
    for (int64_t i = 0; i < ids.numel(); ++i) {
      logits.push_back(static_cast<float>(ids.real(0) + 2 * ids.real(i) + ones));
      logits.push_back(1);
    }
    return std::vector<IValue>{IValue(Tensor::of<float>(Dims{1, ids.numel(), 2}, logits))};
  };
  EXPECT_TRUE(tryInputs(run, entrance, diagnostics_)) << messages();
}

TEST_F(Decoders, MasksOfPaddingAreRefused) {
  expectServed(padded("aten::eq(%pad_mask, %0)", "-inf"), "im");
  expectServed(padded("aten::eq(%pad_mask, %0)", "-1e30"), "im");
  expectRefused(padded("aten::ne(%pad_mask, %0)", "-inf"),
                "the model as it is gives logits that are no numbers for a text of 5 tokens, with ones for %pad_mask");
  EXPECT_NE(messages().find("one that marks padding is to be inverted"), std::string::npos) << messages();
  expectRefused(
      padded("aten::ne(%pad_mask, %0)", "-1e30"),
      "%pad_mask is taken for a mask that is 1 where tokens are, and is none: tokens are hidden where it is 1");
}

// A mask that says of each two tokens whether the one sees the other is made by the graph.
TEST_F(Decoders, MasksOfPairsOfTokensAreMade) {
  Decoder given;
  given.inputs = "%input_ids : Tensor, %attn_mask : Tensor";
  given.positions = kCounted;
  Decoder usual;
  usual.inputs = "%input_ids : Tensor";
  usual.positions = kCounted;
  const std::string ownMask =
      written(kRows +
              "  %col : Tensor = aten::unsqueeze(%at.m, %0)\n  %hidden : Tensor = aten::gt(%col, %row)\n"
              "  %masked : Tensor = aten::masked_fill(%scores, %hidden, %far)\n");
  const std::string negated = "  %hidden : Tensor = aten::logical_not(%attn_mask)\n";
  const std::string fill = "  %masked : Tensor = aten::masked_fill(%scores, %hidden, %far)\n";
  const std::string four =
      "  %four : int[] = prim::ListConstruct(%1, %1, %s, %s)\n  %wide : Tensor = aten::reshape(%attn_mask, %four)\n";
  for (const std::string& attention :
       {written("  %masked : Tensor = aten::add(%scores, %attn_mask, %1)\n"),            // minus infinity
        written("  %masked : Tensor = aten::masked_fill(%scores, %attn_mask, %far)\n"),  // hidden
        written(negated + fill),                                                         // shown
        written("  %hidden : Tensor = aten::eq(%attn_mask, %0)\n" + fill),
        written(four + "  %masked : Tensor = aten::add(%scores, %wide, %1)\n"),
        written("  %rows : Tensor = aten::select(%attn_mask, %0, %0)\n  %one : Tensor = aten::select(%rows, %0, %0)\n"
                "  %hidden : Tensor = aten::logical_not(%one)\n" +
                fill),
        std::string("  %o : Tensor = aten::scaled_dot_product_attention(%q, %k, %v, %attn_mask, %drop, %no)\n")}) {
    given.attention = attention;
    ASSERT_TRUE(builds(given)) << messages() << given.text();
    const bool isWritten = attention.find("softmax") != std::string::npos;
    usual.attention = isWritten ? ownMask : Decoder().attention;
    EXPECT_EQ(served(9), expected(usual, "i", 9)) << messages() << given.text();
    EXPECT_EQ(messages().find("note: each text keeps"), std::string::npos) << messages();
  }
}

TEST_F(Decoders, LogitsThatAreNoNumbersAreToldAsTheModels) {
  Decoder d;
  d.returned = "  %t : Tensor = aten::log(%logits)\n  return (%t)\n";
  expectRefused(d,
                "the model as it is gives logits that are no numbers for a text of 5 tokens, with 0, 1, .. for "
                "%position_ids");
  // Infinite ones hide words.
  d.returned = weight("bans", 1, kWords, 1.0) + "  %ban : Tensor = aten::gt(%bans, %few)\n" +
               "  %minus : float = prim::Constant[value=-inf]()\n"
               "  %t : Tensor = aten::masked_fill(%logits, %ban, %minus)\n  return (%t)\n";
  d.before += "  %few : float = prim::Constant[value=0.9]()\n";
  expectServed(d);
}

TEST_F(Decoders, WhatFitsNoOtherTextsSaysWhatToChange) {
  Decoder d;
  d.mixing =
      "  %z : Tensor = aten::add(%x.ids, %x.positions, %1)\n  %sizes : int[] = prim::Constant[value=[2, 9, 8]]()\n"
      "  %x : Tensor = aten::reshape(%z, %sizes)\n";
  expectRefused(d, "the model does not run with a text of 5 tokens: ");
  EXPECT_NE(messages().find("shape '[2, 9, 8]' is invalid"), std::string::npos) << messages();
  EXPECT_NE(messages().find("x.shape[0] stays open without int() and len() around it, torch.jit.script keeps loops"),
            std::string::npos)
      << messages();
}

TEST_F(Decoders, InputsThatMayBeNoneAreLeftOut) {
  Decoder d;
  d.inputs = "%input_ids : Tensor, %labels : Tensor?";
  d.positions = kCounted;
  d.returned =
      "  %isGiven : bool = aten::__isnot__(%labels, %none)\n  %loss : Tensor? = prim::If(%isGiven)\n    block0():\n"
      "      %given : Tensor = prim::unchecked_cast(%labels)\n      %sum : Tensor = aten::sum(%given, %none)\n"
      "      -> (%sum)\n    block1():\n      -> (%none)\n"
      "  %r : (Tensor?, Tensor) = prim::TupleConstruct(%loss, %logits)\n  return (%r)\n";
  ASSERT_TRUE(builds(d)) << messages();
  d = Decoder();
  d.positions = kCounted;
  EXPECT_EQ(served(9), expected(Decoder(), "ip", 9)) << messages();
  EXPECT_EQ(readBuiltModel(folder_, diagnostics_)->config.kvCacheType, KvCacheType::Paged) << messages();
}

TEST_F(Decoders, TokensOfOneTextMayHaveNoDimensionForIt) {
  Decoder d;
  d.inputs = "%input_ids : Tensor";
  d.before =
      "  %s : int = aten::size(%input_ids, %0)\n  %b : int = aten::add(%0, %1)\n"
      "  %x.rows : Tensor = aten::embedding(%words, %input_ids, %m1, %no, %no)\n"
      "  %x.ids : Tensor = aten::unsqueeze(%x.rows, %0)\n";
  d.positions = kCounted;
  for (const char* returned :
       {"  %own : Tensor = aten::select(%logits, %0, %0)\n  return (%own)\n",
        "  %own : Tensor = aten::select(%logits, %0, %0)\n  %last : Tensor = aten::select(%own, %0, %m1)\n"
        "  return (%last)\n"}) {
    d.returned = returned;
    ASSERT_TRUE(builds(d)) << messages();
    EXPECT_EQ(served(9), expected(Decoder(), "ip", 9)) << messages();
    EXPECT_EQ(readBuiltModel(folder_, diagnostics_)->config.kvCacheType, KvCacheType::State) << messages();
    EXPECT_EQ(readBuiltModel(folder_, diagnostics_)->config.maxSeqLen, kPositions);
  }
}

// As nn.LSTM in a script, which asks whether there are texts, and a loop over cells.
TEST_F(Decoders, StatesMayGoThroughBranchesAndLoops) {
  const std::string weights = weight("w.ih", 32, 8, 0.7) + weight("w.hh", 32, 8, 1.9);
  const std::string pair = "  %h : Tensor, %c : Tensor = prim::TupleUnpack(%hx)\n";
  const std::string layer =
      "  %flat : Tensor[] = prim::ListConstruct(%w.ih, %w.hh)\n  %hc : Tensor[] = prim::ListConstruct(%h, %c)\n"
      "  %x : Tensor, %hn : Tensor, %cn : Tensor = aten::lstm(%x.ids, %hc, %flat, %no, %1, %drop, %no, %no, %yes)\n";
  const std::string loop =
      "  %all : Tensor[] = prim::ListConstruct()\n"
      "  %hy : (Tensor, Tensor) = prim::Loop(%s, %yes, %hx)\n    block0(%i : int, %now : (Tensor, Tensor)):\n"
      "      %h : Tensor, %c : Tensor = prim::TupleUnpack(%now)\n      %hc : Tensor[] = prim::ListConstruct(%h, %c)\n"
      "      %x.i : Tensor = aten::select(%x.ids, %1, %i)\n"
      "      %h.i : Tensor, %c.i : Tensor = aten::lstm_cell(%x.i, %hc, %w.ih, %w.hh, %none, %none)\n"
      "      %more : Tensor[] = aten::append(%all, %h.i)\n"
      "      %next : (Tensor, Tensor) = prim::TupleConstruct(%h.i, %c.i)\n      -> (%yes, %next)\n"
      "  %hn : Tensor, %cn : Tensor = prim::TupleUnpack(%hy)\n  %x : Tensor = aten::stack(%all, %1)\n";
  for (const bool isLoop : {false, true}) {
    auto zeros = [&](const char* name) {
      return fmt::format(
          "  %{0}.s : int[] = prim::ListConstruct({1}%b, %8)\n"
          "  %{0} : Tensor = aten::zeros(%{0}.s, %6, %none, %none, %none)\n",
          name, isLoop ? "" : "%1, ");
    };
    Decoder own;
    own.inputs = "%input_ids : Tensor";
    own.positions = weights;
    own.attention = "  %o : Tensor = aten::relu(%q)\n";
    Decoder given = own;
    own.mixing =
        isLoop ? zeros("h.0") + zeros("c.0") + "  %hx : (Tensor, Tensor) = prim::TupleConstruct(%h.0, %c.0)\n" + loop
               : zeros("h") + zeros("c") + layer;
    given.inputs = "%input_ids : Tensor, %hidden : (Tensor, Tensor)";
    given.mixing =
        "  %rank : int = aten::dim(%x.ids)\n  %isThree : bool = aten::eq(%rank, %3)\n"
        "  %hx : (Tensor, Tensor) = prim::If(%isThree)\n    block0():\n      -> (%hidden)\n    block1():\n"
        "      %h.1 : Tensor = prim::TupleIndex(%hidden, %0)\n      %h.2 : Tensor = aten::unsqueeze(%h.1, %1)\n"
        "      %c.1 : Tensor = prim::TupleIndex(%hidden, %1)\n      %c.2 : Tensor = aten::unsqueeze(%c.1, %1)\n"
        "      %two : (Tensor, Tensor) = prim::TupleConstruct(%h.2, %c.2)\n      -> (%two)\n" +
        (isLoop ? loop : pair + layer);
    given.returned =
        "  %state : (Tensor, Tensor) = prim::TupleConstruct(%hn, %cn)\n"
        "  %both : (Tensor, (Tensor, Tensor)) = prim::TupleConstruct(%logits, %state)\n  return (%both)\n";
    ASSERT_TRUE(builds(given, {"max_seq_len=48"})) << messages() << given.text();
    EXPECT_EQ(readBuiltModel(folder_, diagnostics_)->config.kvCacheType, KvCacheType::State) << messages();
    EXPECT_EQ(served(9), expected(own, "i", 9)) << messages();
  }
}

}  // namespace
}  // namespace tscompile::test
