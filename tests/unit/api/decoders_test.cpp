// Decoders in the forms that people write them in are built and say the tokens of the model as it was given, or are
// refused: none says others.
#include "tests/unit/api/decoders.h"

#include <fmt/core.h>

#include <fstream>
#include <iterator>

namespace tscompile::test {
namespace {

TEST_F(Decoders, InputsAreWhatTheirNamesSay) {
  expectServed({});
  Decoder swapped;
  swapped.inputs = "%position_ids : Tensor, %input_ids : Tensor";
  expectServed(swapped, "pi");
  Decoder all;
  all.inputs = "%input_ids : Tensor, %attention_mask : Tensor, %position_ids : Tensor";
  expectServed(all, "imp");
  Decoder alone;
  alone.inputs = "%input_ids : Tensor";
  alone.positions = kCounted;
  expectServed(alone, "i");
}

TEST_F(Decoders, PositionsAreWhateverCountsTokens) {
  const char* kWays[] = {
      // the mask summed up
      "  %sum : Tensor = aten::cumsum(%attention_mask, %m1, %none)\n  %at : Tensor = aten::sub(%sum, %1, %1)\n"
      "  %x.positions : Tensor = aten::embedding(%places, %at, %m1, %no, %no)\n",
      // with an offset
      "  %at0 : Tensor = aten::arange(%s, %none, %none, %none, %none)\n  %at1 : Tensor = aten::add(%at0, %2, %1)\n"
      "  %at : Tensor = aten::unsqueeze(%at1, %0)\n"
      "  %x.positions : Tensor = aten::embedding(%places, %at, %m1, %no, %no)\n",
      // the beginning of a table
      "  %x.positions : Tensor = aten::slice(%places, %0, %0, %s, %1)\n",
      // as floats
      "  %at : Tensor = aten::arange(%s, %6, %none, %none, %none)\n  %at.c : Tensor = aten::unsqueeze(%at, %1)\n"
      "  %at.f : Tensor = aten::mul(%at.c, %places.f)\n  %x.positions : Tensor = aten::cos(%at.f)\n",
  };
  for (const char* way : kWays) {
    Decoder d;
    d.inputs = "%input_ids : Tensor, %attention_mask : Tensor";
    d.positions = way;
    expectServed(d, "im");
  }
}

TEST_F(Decoders, TablesBoundTheLengthOfTexts) {
  Decoder d;
  d.positions =
      "  %at : Tensor = aten::add(%position_ids, %2, %1)\n"
      "  %x.positions : Tensor = aten::embedding(%places, %at, %m1, %no, %no)\n";
  ASSERT_TRUE(builds(d)) << messages();
  auto model = LanguageModel::load(folder_, {}, diagnostics_);
  ASSERT_TRUE(model) << messages();
  EXPECT_EQ(model->config().maxSeqLen, kPositions - 2);
  EXPECT_FALSE(builds(d, {"max_seq_len=24"}));
  EXPECT_NE(messages().find("max_seq_len is 24, but the model has 22 positions"), std::string::npos) << messages();
}

TEST_F(Decoders, TablesOfDistancesBoundNothing) {
  Decoder d;
  d.inputs = "%input_ids : Tensor";
  d.positions = "  %x.positions : Tensor = aten::mul(%x.ids, %0)\n" + weight("far.ones", 5, 2, 1.1);
  d.attention =
      written(kRows +
              "  %column : Tensor = aten::unsqueeze(%at.m, %0)\n"
              "  %away : Tensor = aten::sub(%column, %row, %1)\n  %near : Tensor = aten::clamp(%away, %m2, %2)\n"
              "  %which : Tensor = aten::add(%near, %2, %1)\n"
              "  %each : Tensor = aten::embedding(%far.ones, %which, %m1, %no, %no)\n"
              "  %order : int[] = prim::ListConstruct(%2, %0, %1)\n"
              "  %bias : Tensor = aten::permute(%each, %order)\n"
              "  %biased : Tensor = aten::add(%scores, %bias, %1)\n"
              "  %later : Tensor = aten::gt(%column, %row)\n"
              "  %masked : Tensor = aten::masked_fill(%biased, %later, %far)\n");
  d.before += "  %m2 : int = prim::Constant[value=-2]()\n";
  expectServed(d, "i");
  auto model = LanguageModel::load(folder_, {}, diagnostics_);
  ASSERT_TRUE(model) << messages();
  EXPECT_EQ(model->config().maxSeqLen, 1024);
}

TEST_F(Decoders, LogitsAreFoundAmongOutputs) {
  const char* kOutputs[] = {
      "  %t : (Tensor, Tensor) = prim::TupleConstruct(%logits, %y)\n  return (%t)\n",
      "  return (%logits, %y)\n",
      "  %h : str = prim::Constant[value=\"hidden\"]()\n  %l : str = prim::Constant[value=\"logits\"]()\n"
      "  %t : Dict(str, Tensor) = prim::DictConstruct(%h, %y, %l, %logits)\n  return (%t)\n",
      // the last position alone
      "  %t : Tensor = aten::select(%logits, %1, %m1)\n  return (%t)\n",
      "  %t : Tensor = aten::slice(%logits, %1, %m1, %max, %1)\n  return (%t)\n",
      // with a bound and a factor
      "  %t1 : Tensor = aten::mul(%logits, %words.f)\n  %t2 : Tensor = aten::tanh(%t1)\n"
      "  %t : Tensor = aten::mul(%t2, %places.f)\n  return (%t)\n",
  };
  for (const char* returned : kOutputs) {
    Decoder d;
    d.returned = returned;
    expectServed(d);
  }
}

TEST_F(Decoders, MasksAreReadByTheirElements) {
  const std::string fill = "  %masked : Tensor = aten::masked_fill(%scores, %later, %far)\n";
  const std::string kMasks[] = {
      kRows + "  %later : Tensor = aten::gt(%at.m, %row)\n" + fill,
      // a window of three tokens
      kRows +
          "  %later.1 : Tensor = aten::gt(%at.m, %row)\n  %back : Tensor = aten::sub(%row, %3, %1)\n"
          "  %early : Tensor = aten::le(%at.m, %back)\n  %later : Tensor = aten::__or__(%later.1, %early)\n" +
          fill,
      // a window that no text fills
      kRows +
          "  %later.1 : Tensor = aten::gt(%at.m, %row)\n  %wide : int = prim::Constant[value=100000]()\n"
          "  %back : Tensor = aten::sub(%row, %wide, %1)\n  %early : Tensor = aten::le(%at.m, %back)\n"
          "  %later : Tensor = aten::__or__(%later.1, %early)\n" +
          fill,
      // rows of packed texts, which positions that rise by one do not have
      "  %before : Tensor = aten::slice(%position_ids, %1, %0, %1, %1)\n  %b1 : Tensor = aten::sub(%before, %1, %1)\n"
      "  %step : Tensor = aten::diff(%position_ids, %1, %m1, %b1, %none)\n  %new : Tensor = aten::ne(%step, %1)\n"
      "  %text : Tensor = aten::cumsum(%new, %m1, %none)\n  %tr : Tensor = aten::unsqueeze(%text, %2)\n"
      "  %tc : Tensor = aten::unsqueeze(%text, %1)\n  %other : Tensor = aten::ne(%tr, %tc)\n"
      "  %pr : Tensor = aten::unsqueeze(%position_ids, %2)\n  %pc : Tensor = aten::unsqueeze(%position_ids, %1)\n"
      "  %gt : Tensor = aten::gt(%pc, %pr)\n  %or : Tensor = aten::__or__(%gt, %other)\n"
      "  %later : Tensor = aten::unsqueeze(%or, %1)\n" +
          fill,
  };
  for (const std::string& mask : kMasks) {
    Decoder d;
    d.attention = written(mask);
    expectServed(d);
  }
}

TEST_F(Decoders, ScoresMayBeMadeInAnyWay) {
  const std::string causal = kRows + "  %later : Tensor = aten::gt(%at.m, %row)\n";
  const std::string kWays[] = {
      // a factor after the mask
      causal +
          "  %filled : Tensor = aten::masked_fill(%scores, %later, %far)\n"
          "  %masked : Tensor = aten::div(%filled, %3)\n",
      // a bound from below
      causal +
          "  %wide : Tensor = aten::to(%later, %6, %no, %no, %none)\n  %low : Tensor = aten::mul(%wide, %far)\n"
          "  %sum : Tensor = aten::add(%scores, %low, %1)\n  %least : Tensor = aten::scalar_tensor(%far, %6, %none, "
          "%none, %none)\n"
          "  %masked : Tensor = aten::max(%sum, %least)\n",
      // what is left of the scores, and what takes the place of others
      causal +
          "  %wide : Tensor = aten::to(%later, %6, %no, %no, %none)\n  %kept : Tensor = aten::rsub(%wide, %1, %1)\n"
          "  %low : Tensor = aten::mul(%wide, %far)\n  %seen : Tensor = aten::mul(%scores, %kept)\n"
          "  %masked : Tensor = aten::add(%seen, %low, %1)\n",
      // biases that grow with the distance, for each head its own
      causal + weight("slopes", 2, 1, 0.4) +
          "  %by : Tensor = aten::unsqueeze(%slopes, %m1)\n  %bias : Tensor = aten::mul(%by, %at.m)\n"
          "  %biased : Tensor = aten::add(%scores, %bias, %1)\n"
          "  %masked : Tensor = aten::masked_fill(%biased, %later, %far)\n",
  };
  for (const std::string& way : kWays) {
    Decoder d;
    d.attention = written(way);
    expectServed(d);
  }
  Decoder summed;
  summed.attention =
      causal + weight("slopes", 2, 1, 0.4) +
      "  %k.t : Tensor = aten::transpose(%k, %2, %3)\n  %q.f : Tensor = aten::flatten(%q, %0, %1)\n"
      "  %k.f : Tensor = aten::flatten(%k.t, %0, %1)\n  %rows : int[] = prim::ListConstruct(%b, %1, %1)\n"
      "  %by : Tensor = aten::unsqueeze(%slopes, %m1)\n  %each : Tensor = aten::repeat(%by, %rows)\n"
      "  %bias : Tensor = aten::mul(%each, %at.m)\n"
      "  %scores : Tensor = aten::baddbmm(%bias, %q.f, %k.f, %1, %words.f)\n"
      "  %four : int[] = prim::ListConstruct(%b, %2, %s, %s)\n  %split : Tensor = aten::reshape(%scores, %four)\n"
      "  %masked : Tensor = aten::masked_fill(%split, %later, %far)\n"
      "  %p : Tensor = aten::softmax(%masked, %m1, %none)\n  %o : Tensor = aten::matmul(%p, %v)\n";
  expectServed(summed);
}

TEST_F(Decoders, ProductsMayBeWrittenWithLetters) {
  Decoder d;
  d.attention = kRows +
                "  %later : Tensor = aten::gt(%at.m, %row)\n"
                "  %e1 : str = prim::Constant[value=\"bhqd, bkhd -> bhqk\"]()\n"
                "  %e2 : str = prim::Constant[value=\"bhqk,bhkd->bqhd\"]()\n"
                "  %k.s : Tensor = aten::transpose(%k, %1, %2)\n  %qk : Tensor[] = prim::ListConstruct(%q, %k.s)\n"
                "  %scores : Tensor = aten::einsum(%e1, %qk, %none)\n"
                "  %masked : Tensor = aten::masked_fill(%scores, %later, %far)\n"
                "  %p : Tensor = aten::softmax(%masked, %m1, %none)\n  %pv : Tensor[] = prim::ListConstruct(%p, %v)\n"
                "  %o.s : Tensor = aten::einsum(%e2, %pv, %none)\n  %o : Tensor = aten::transpose(%o.s, %1, %2)\n";
  expectServed(d);
}

TEST_F(Decoders, SoftmaxMayBeWrittenOut) {
  Decoder d;
  d.attention = kRows +
                "  %later : Tensor = aten::gt(%at.m, %row)\n  %k.t : Tensor = aten::transpose(%k, %2, %3)\n"
                "  %scores : Tensor = aten::matmul(%q, %k.t)\n"
                "  %masked : Tensor = aten::masked_fill(%scores, %later, %far)\n"
                "  %most : Tensor, %which : Tensor = aten::max(%masked, %m1, %yes)\n"
                "  %less : Tensor = aten::sub(%masked, %most, %1)\n  %e : Tensor = aten::exp(%less)\n"
                "  %last : int[] = prim::Constant[value=[-1]]()\n"
                "  %sum : Tensor = aten::sum(%e, %last, %yes, %none)\n  %p : Tensor = aten::div(%e, %sum)\n"
                "  %o : Tensor = aten::matmul(%p, %v)\n";
  expectServed(d);
}

TEST_F(Decoders, LayersOfPyTorchAreTakenApart) {
  auto vector = [](const std::string& name, int64_t size, double factor) {
    return weight(name + ".w", 1, size, factor) + fmt::format("  %{0} : Tensor = aten::select(%{0}.w, %0, %0)\n", name);
  };
  const std::string weights = kRows + "  %later : Tensor = aten::gt(%at.m, %row)\n" + weight("w.in", 24, 8, 0.37) +
                              vector("b.in", 24, 0.7) + weight("w.out", 8, 8, 1.1) + vector("b.out", 8, 0.3);
  const std::string heads =
      "  %split : Tensor = aten::reshape(%mh, %heads)\n  %o : Tensor = aten::transpose(%split, %1, %2)\n";
  Decoder attention;
  attention.attention =
      weights +
      "  %mh : Tensor, %mw : Tensor = aten::_native_multi_head_attention(%x, %x, %x, %8, %2, %w.in, %b.in, %w.out, "
      "%b.out, %later, %no, %no, %0)\n" +
      heads;
  expectServed(attention);
  for (const char* first : {"%yes", "%no"}) {
    Decoder layer;
    layer.attention = weights + vector("n1", 8, 0.5) + vector("n2", 8, 0.9) + weight("up", 16, 8, 0.6) +
                      vector("b.up", 16, 0.2) + weight("down", 8, 16, 0.8) +
                      "  %eps : float = prim::Constant[value=1e-05]()\n"
                      "  %mh : Tensor = aten::_transformer_encoder_layer_fwd(%x, %8, %2, %w.in, %b.in, %w.out, %b.out, "
                      "%yes, " +
                      first + ", %eps, %n1, %n2, %n2, %n1, %up, %b.up, %down, %b.out, %later, %0)\n" + heads;
    expectServed(layer);
  }
}

// As scripts of torch.nn choose them: by the rank and the dtype of what they are given.
TEST_F(Decoders, LayersInBranchesAreTakenApart) {
  Decoder d;
  d.positions = kCounted;
  d.inputs = "%input_ids : Tensor";
  d.attention =
      weight("w.in", 24, 8, 0.37) + weight("b.i", 1, 24, 0.7) + weight("w.out", 8, 8, 1.1) + weight("b.o", 1, 8, 0.3) +
      "  %b.in : Tensor = aten::select(%b.i, %0, %0)\n  %b.out : Tensor = aten::select(%b.o, %0, %0)\n" + kRows +
      "  %later : Tensor = aten::gt(%at.m, %row)\n  %dtype : int = prim::dtype(%x)\n"
      "  %zeros : Tensor = aten::zeros_like(%later, %dtype, %none, %none, %none, %none)\n"
      "  %mask : Tensor = aten::masked_fill(%zeros, %later, %far)\n"
      "  %rank : int = aten::dim(%x)\n  %isBatch : bool = aten::eq(%rank, %3)\n"
      "  %isFloat : bool = aten::is_floating_point(%mask)\n"
      "  %mh : Tensor = prim::If(%isBatch)\n    block0():\n"
      "      %m : Tensor = prim::If(%isFloat)\n        block0():\n          -> (%mask)\n        block1():\n"
      "          %wide : Tensor = aten::mul(%mask, %later)\n          -> (%wide)\n"
      "      %same : bool = aten::__is__(%x, %x)\n      %y : Tensor = prim::If(%same)\n        block0():\n"
      "          %out : Tensor, %w : Tensor = aten::_native_multi_head_attention(%x, %x, %x, %8, %2, %w.in, %b.in, "
      "%w.out, %b.out, %m, %no, %no, %0)\n          -> (%out)\n        block1():\n          -> (%x)\n"
      "      -> (%y)\n    block1():\n      %u : Tensor = aten::matmul(%w.in, %x)\n      -> (%u)\n"
      "  %split : Tensor = aten::reshape(%mh, %heads)\n  %o : Tensor = aten::transpose(%split, %1, %2)\n";
  expectServed(d, "i");
  EXPECT_EQ(readBuiltModel(folder_, diagnostics_)->config.kvCacheType, KvCacheType::Paged) << messages();
}

// As torch.nn writes it out: tokens before texts, and heads of all texts in one dimension.
// As Falcon's rotary positions: keys are turned when groups have theirs already, values are not.
TEST_F(Decoders, KeysMayBeTurnedInEachHeadOfAGroup) {
  Decoder d;
  d.attention = weight("wkv", 8, 8, 0.7) +
                "  %kv : Tensor = aten::linear(%x, %wkv, %none)\n  %one : int[] = prim::ListConstruct(%b, %s, %1, %8)\n"
                "  %kv.4 : Tensor = aten::reshape(%kv, %one)\n  %k.1 : Tensor = aten::slice(%kv.4, %3, %0, %4, %1)\n"
                "  %v.1 : Tensor = aten::slice(%kv.4, %3, %4, %8, %1)\n";
  for (const char* part : {"k", "v"})
    d.attention += fmt::format(
        "  %{0}.2 : Tensor = aten::expand(%{0}.1, %heads, %no)\n  %{0}.3 : Tensor = aten::reshape(%{0}.2, %heads)\n"
        "  %{0}.5 : Tensor = aten::transpose(%{0}.3, %1, %2)\n",
        part);
  d.attention +=
      "  %angle : Tensor = aten::cos(%x.positions)\n  %turn : Tensor = aten::slice(%angle, %m1, %0, %4, %1)\n"
      "  %turn.4 : Tensor = aten::unsqueeze(%turn, %1)\n  %k.6 : Tensor = aten::mul(%k.5, %turn.4)\n"
      "  %o : Tensor = aten::scaled_dot_product_attention(%q, %k.6, %v.5, %none, %drop, %yes)\n";
  expectServed(d);
  EXPECT_EQ(readBuiltModel(folder_, diagnostics_)->config.kvCacheType, KvCacheType::Paged) << messages();
}

TEST_F(Decoders, KeysMayBeCopiedTogether) {
  Decoder d;
  d.attention =
      "  %sizes : int[] = prim::ListConstruct(%b, %2, %s, %4)\n"
      "  %k2 : Tensor = aten::new_empty(%k, %sizes, %none, %none, %none, %none)\n"
      "  %a : Tensor = aten::slice(%k, %3, %2, %max, %1)\n  %b1 : Tensor = aten::slice(%k, %3, %0, %2, %1)\n"
      "  %to.b : Tensor = aten::slice(%k2, %3, %2, %max, %1)\n  %c1 : Tensor = aten::copy_(%to.b, %b1, %no)\n"
      "  %to.a : Tensor = aten::slice(%k2, %3, %0, %2, %1)\n  %c2 : Tensor = aten::copy_(%to.a, %a, %no)\n"
      "  %o : Tensor = aten::scaled_dot_product_attention(%q, %k2, %v, %none, %drop, %yes)\n";
  expectServed(d);
}

TEST_F(Decoders, SinksTakeWeightFromKeys) {
  Decoder d;
  d.attention =
      kRows + "  %later : Tensor = aten::gt(%at.m, %row)\n" + weight("sinks", 2, 1, 0.7) +
      "  %k.t : Tensor = aten::transpose(%k, %2, %3)\n  %scores : Tensor = aten::matmul(%q, %k.t)\n"
      "  %masked : Tensor = aten::masked_fill(%scores, %later, %far)\n"
      "  %by : Tensor = aten::unsqueeze(%sinks, %0)\n  %by4 : Tensor = aten::unsqueeze(%by, %m1)\n"
      "  %wide : int[] = prim::ListConstruct(%b, %m1, %s, %m1)\n  %each : Tensor = aten::expand(%by4, %wide, %no)\n"
      "  %both : Tensor[] = prim::ListConstruct(%masked, %each)\n  %all : Tensor = aten::cat(%both, %m1)\n"
      "  %most : Tensor = aten::amax(%all, %last, %yes)\n  %less : Tensor = aten::sub(%all, %most, %1)\n"
      "  %p.all : Tensor = aten::softmax(%less, %m1, %none)\n"
      "  %p : Tensor = aten::slice(%p.all, %m1, %0, %m1, %1)\n  %o : Tensor = aten::matmul(%p, %v)\n";
  d.positions += "  %last : int[] = prim::Constant[value=[-1]]()\n";
  expectServed(d);
}

// The factor is the part that keys have of the sum of exponentials.
TEST_F(Decoders, SinksMayBeAFactorOfTheResult) {
  const std::string sum = "  %lse : Tensor = aten::logsumexp(%masked, %last, %no)\n";
  const std::string parts =
      "  %most : Tensor = aten::amax(%masked, %last, %yes)\n  %less : Tensor = aten::sub(%masked, %most, %1)\n"
      "  %exp : Tensor = aten::exp(%less)\n  %sum : Tensor = aten::sum(%exp, %last, %no, %none)\n"
      "  %log : Tensor = aten::log(%sum)\n  %row.most : Tensor = aten::squeeze(%most, %last)\n"
      "  %lse : Tensor = aten::add(%log, %row.most, %1)\n";
  for (const std::string& logSumExp : {sum, parts}) {
    Decoder d;
    d.attention = kRows + "  %later : Tensor = aten::gt(%at.m, %row)\n" + weight("sinks", 2, 1, 0.7) +
                  "  %k.t : Tensor = aten::transpose(%k, %2, %3)\n  %scores : Tensor = aten::matmul(%q, %k.t)\n"
                  "  %masked : Tensor = aten::masked_fill(%scores, %later, %far)\n" +
                  logSumExp +
                  "  %by : Tensor = aten::unsqueeze(%sinks, %0)\n  %over : Tensor = aten::sub(%lse, %by, %1)\n"
                  "  %part : Tensor = aten::sigmoid(%over)\n  %gate : Tensor = aten::unsqueeze(%part, %m1)\n"
                  "  %p : Tensor = aten::softmax(%masked, %m1, %none)\n  %all : Tensor = aten::matmul(%p, %v)\n"
                  "  %o : Tensor = aten::mul(%all, %gate)\n";
    d.positions += "  %last : int[] = prim::Constant[value=[-1]]()\n";
    ASSERT_TRUE(builds(d, {"kv_cache_type=paged"})) << messages() << d.text();
    EXPECT_EQ(served(9), expected(d, "ip", 9));
  }
}

TEST_F(Decoders, ValuesMayHaveAnotherSizeThanQueries) {
  for (const char* part : {"q", "v"}) {
    Decoder d;
    // One head of the others' twice over, and the first half of the result.
    std::string other = part == std::string("q") ? "q" : "v";
    d.attention = other == "v"
                      ? "  %both : Tensor[] = prim::ListConstruct(%v, %v)\n  %w : Tensor = aten::cat(%both, %m1)\n"
                        "  %o.wide : Tensor = aten::scaled_dot_product_attention(%q, %k, %w, %none, %drop, %yes)\n"
                        "  %o : Tensor = aten::slice(%o.wide, %3, %2, %6, %1)\n"
                      : "  %qq : Tensor[] = prim::ListConstruct(%q, %q)\n  %q2 : Tensor = aten::cat(%qq, %m1)\n"
                        "  %kk : Tensor[] = prim::ListConstruct(%k, %k)\n  %k2 : Tensor = aten::cat(%kk, %m1)\n"
                        "  %o : Tensor = aten::scaled_dot_product_attention(%q2, %k2, %v, %none, %drop, %yes)\n";
    expectServed(d);
  }
}

TEST_F(Decoders, WhatMixesTokensOutsideOfAttentionIsKept) {
  struct Mixing {
    const char *text, *difference;  // which the first one of a cache of keys and values is found in
    int states;                     // besides keys, values and the ids, which tell how many tokens there are
  };
  const Mixing kMixing[] = {
      // each token sees the one before it
      {"  %z : Tensor = aten::add(%x.ids, %x.positions, %1)\n  %front : Tensor = aten::slice(%z, %1, %0, %1, %1)\n"
       "  %rest : Tensor = aten::slice(%z, %1, %0, %m1, %1)\n  %both : Tensor[] = prim::ListConstruct(%front, %rest)\n"
       "  %before : Tensor = aten::cat(%both, %1)\n  %x : Tensor = aten::add(%z, %before, %1)\n",
       "%before : Tensor = aten::cat", 1},
      // a sum of all tokens up to it
      {"  %z : Tensor = aten::add(%x.ids, %x.positions, %1)\n  %x : Tensor = aten::cumsum(%z, %1, %none)\n",
       "%x : Tensor = aten::cumsum", 1},
      // a factor by the length of the text, which is another for all tokens when more come: their sum is all that stays
      {"  %z : Tensor = aten::add(%x.ids, %x.positions, %1)\n  %x : Tensor = aten::div(%z, %s)\n",
       "%x : Tensor = aten::div", -1},
  };
  for (const Mixing& m : kMixing) {
    Decoder d;
    d.mixing = m.text;
    expectRefused(d, "this model cannot be served: tokens that come piece by piece get other numbers here",
                  {"kv_cache_type=paged"});
    EXPECT_NE(messages().find(m.difference), std::string::npos) << messages();
    expectServedByState(d, "ip", 3 + m.states);
  }
  Decoder padded;
  padded.inputs = "%input_ids : Tensor";
  padded.positions =
      "  %is : Tensor = aten::ne(%input_ids, %1)\n  %at : Tensor = aten::cumsum(%is, %m1, %none)\n"
      "  %x.positions : Tensor = aten::embedding(%places, %at, %m1, %no, %no)\n";
  expectRefused(padded, "this model cannot be served: tokens that come piece by piece get other numbers here",
                {"kv_cache_type=paged"});
  EXPECT_NE(messages().find("%at : Tensor = aten::cumsum"), std::string::npos) << messages();
  expectServedByState(padded, "i", 4);
}

// The tokens of a step, which are those of several texts, are more than the table has rows.
TEST_F(Decoders, WhatFailsForTextsTogetherIsToldWhereTheyAreMixed) {
  Decoder d;
  d.mixing =
      "  %last : int[] = prim::ListConstruct(%m1)\n  %all : Tensor = aten::ge(%input_ids, %0)\n"
      "  %n : Tensor = aten::sum(%all, %last, %yes, %none)\n"
      "  %n.1 : Tensor = aten::sub(%n, %1, %1)\n  %z.n : Tensor = aten::embedding(%places, %n.1, %m1, %no, %no)\n"
      "  %z : Tensor = aten::add(%x.ids, %x.positions, %1)\n  %x : Tensor = aten::add(%z, %z.n, %1)\n";
  expectRefused(d, "this model cannot be served: tokens that come piece by piece get other numbers here",
                {"kv_cache_type=paged"});
  EXPECT_NE(messages().find("%x : Tensor = aten::add(%z, %z.n"), std::string::npos) << messages();
  EXPECT_NE(messages().find("a step fails with them: "), std::string::npos) << messages();
}

// In place of attention.
const std::string kConvolved =
    "  %w3 : int[] = prim::Constant[value=[8, 1, 3]]()\n" + weight("filters", 8, 3, 0.7) +
    "  %filter : Tensor = aten::reshape(%filters, %w3)\n  %one : int[] = prim::Constant[value=[1]]()\n"
    "  %two : int[] = prim::Constant[value=[2]]()\n  %x.c : Tensor = aten::transpose(%x, %1, %2)\n"
    "  %wide : Tensor = aten::conv1d(%x.c, %filter, %none, %one, %two, %one, %8)\n"
    "  %cut : Tensor = aten::slice(%wide, %2, %0, %s, %1)\n  %rows.c : Tensor = aten::transpose(%cut, %1, %2)\n"
    "  %o.h : Tensor = aten::reshape(%rows.c, %heads)\n  %o : Tensor = aten::transpose(%o.h, %1, %2)\n";

TEST_F(Decoders, ConvolutionsKeepTheTokensThatTheySee) {
  Decoder d;
  d.attention = kConvolved;
  expectServedByState(d, "ip", 2);
  Result<BuiltModel> built = readBuiltModel(folder_, diagnostics_);
  ASSERT_TRUE(built);
  const KeptState rows{DType::Float32, Dims{1, 8, 0}, 2, 2, 0}, ids{DType::Int64, Dims{1, 0}, 1, 2, 0};
  EXPECT_EQ(std::count(built->states.begin(), built->states.end(), rows), 1);
  EXPECT_EQ(std::count(built->states.begin(), built->states.end(), ids), 1);
  // A folder that says something else is refused.
  std::ifstream in(folder_ + "/config.json");
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  for (auto [old, by] : {std::pair("\"dim\": 2", "\"dim\": 9"), std::pair("\"dtype\": \"float32\"", "\"dtype\": 3"),
                         std::pair("\"most\": 2", "\"most\": -1"), std::pair("\"batch\": 0", "\"batch\": 9"),
                         std::pair("\"states\": [", "\"states\": [7, ")}) {
    std::string other = text;
    ASSERT_NE(other.find(old), std::string::npos) << old;
    other.replace(other.find(old), std::string(old).size(), by);
    std::ofstream(folder_ + "/config.json") << other;
    diagnostics_ = Diagnostics();
    EXPECT_FALSE(LanguageModel::load(folder_, {}, diagnostics_));
    EXPECT_NE(messages().find("states are not what a build writes"), std::string::npos) << messages();
  }
}

TEST_F(Decoders, RecurrentLayersKeepTheirState) {
  const std::string layer =
      weight("w.ih", 24, 8, 0.7) + weight("w.hh", 24, 8, 0.9) +
      "  %h.sizes : int[] = prim::ListConstruct(%1, %b, %8)\n"
      "  %h0 : Tensor = aten::zeros(%h.sizes, %6, %none, %none, %none)\n"
      "  %weights : Tensor[] = prim::ListConstruct(%w.ih, %w.hh)\n"
      "  %rows.r : Tensor, %h1 : Tensor = aten::gru(%x, %h0, %weights, %no, %1, %drop, %no, %no, %yes)\n"
      "  %o.h : Tensor = aten::reshape(%rows.r, %heads)\n  %o : Tensor = aten::transpose(%o.h, %1, %2)\n";
  Decoder d;
  d.attention = layer;
  expectServedByState(d, "ip", 1);
  Result<BuiltModel> built = readBuiltModel(folder_, diagnostics_);
  ASSERT_TRUE(built);
  EXPECT_EQ(built->states.back(), (KeptState{DType::Float32, Dims{0, 1, 1, 8}, 0, 1, 2}));
}

// Steps and runs of the model for four texts of other lengths, and what they say.
TEST_F(Decoders, TextsWithStatesOfOneSizeRunTogether) {
  auto serve = [&](const std::vector<std::vector<TokenId>>& prompts, int64_t& runs) {
    auto model = LanguageModel::load(folder_, {}, diagnostics_);
    auto batcher = model ? Batcher::make(*model, model->cache(), model->limits(), diagnostics_) : nullptr;
    std::vector<std::vector<TokenId>> out;
    std::vector<RequestId> ids;
    for (const std::vector<TokenId>& prompt : prompts) {
      Request r;
      r.prompt = prompt;
      r.maxNewTokens = 8;
      if (batcher) ids.push_back(*batcher->add(std::move(r), diagnostics_));
    }
    if (batcher) batcher->run(diagnostics_);
    for (RequestId id : ids) out.push_back(batcher->take(id)->tokens);
    runs = model ? model->runs() : 0;
    return out;
  };
  const std::vector<std::vector<TokenId>> prompts{{3, 11, 7, 1}, {0, 12, 5, 5, 2, 9, 4}, {8, 1, 1}, {5, 6, 7, 8}};
  Decoder convolved;
  convolved.attention = kConvolved;
  ASSERT_TRUE(builds(convolved)) << messages();
  std::vector<std::vector<TokenId>> alone;
  int64_t runs = 0;
  for (const std::vector<TokenId>& prompt : prompts) alone.push_back(serve({prompt}, runs)[0]);
  EXPECT_EQ(runs, 8);
  EXPECT_EQ(serve(prompts, runs), alone);
  EXPECT_EQ(runs, 3 + 7) << "prompts of three lengths, then one token of each";
}

TEST_F(Decoders, LoopsOverTokensKeepWhatTheyCarry) {
  Decoder d;
  d.attention =
      "  %z.sizes : int[] = prim::ListConstruct(%b, %8)\n  %rows.l : Tensor[] = prim::ListConstruct()\n"
      "  %z0 : Tensor = aten::zeros(%z.sizes, %6, %none, %none, %none)\n"
      "  %z.n : Tensor = prim::Loop(%s, %yes, %z0)\n    block0(%i : int, %z : Tensor):\n"
      "      %xi : Tensor = aten::select(%x, %1, %i)\n      %t : Tensor = aten::tanh(%z)\n"
      "      %next : Tensor = aten::add(%t, %xi, %1)\n      %l : Tensor[] = aten::append(%rows.l, %next)\n"
      "      -> (%yes, %next)\n  %rows.r : Tensor = aten::stack(%rows.l, %1)\n"
      "  %o.h : Tensor = aten::reshape(%rows.r, %heads)\n  %o : Tensor = aten::transpose(%o.h, %1, %2)\n";
  expectServedByState(d, "ip", 1);
}

TEST_F(Decoders, AttentionOfAnyKindKeepsItsKeysAndValues) {
  // Scores that heads exchange before their softmax.
  Decoder d;
  d.attention = kRows + "  %later : Tensor = aten::gt(%at.m, %row)\n  %k.t : Tensor = aten::transpose(%k, %2, %3)\n" +
                weight("talk", 2, 2, 0.8) +
                "  %scores : Tensor = aten::matmul(%q, %k.t)\n  %last : int[] = prim::Constant[value=[0, 2, 3, 1]]()\n"
                "  %first : int[] = prim::Constant[value=[0, 3, 1, 2]]()\n"
                "  %s.p : Tensor = aten::permute(%scores, %last)\n  %s.t : Tensor = aten::linear(%s.p, %talk, %none)\n"
                "  %s.b : Tensor = aten::permute(%s.t, %first)\n"
                "  %masked : Tensor = aten::masked_fill(%s.b, %later, %far)\n"
                "  %p : Tensor = aten::softmax(%masked, %m1, %none)\n  %o : Tensor = aten::matmul(%p, %v)\n";
  expectServedByState(d, "ip", 3);
}

TEST_F(Decoders, StatesAreTheSameWithBeamsAndInPieces) {
  Decoder d;
  d.attention = kConvolved;
  auto tokensWith = [&](const std::vector<std::string>& settings) {
    EXPECT_TRUE(builds(d, settings)) << messages();
    return served(9);
  };
  auto want = tokensWith({"kv_cache_type=disabled"});
  EXPECT_EQ(tokensWith({"kv_cache_type=state"}), want);
  EXPECT_EQ(tokensWith({"kv_cache_type=state", "max_num_tokens=8", "max_beam_width=2"}), want);
  EXPECT_EQ(tokensWith({"kv_cache_type=state", "kv_cache_blocks=2", "tokens_per_block=16", "max_seq_len=24"}), want);
}

TEST_F(Decoders, TheLongestTextIsTriedToo) {
  // From the 23rd token on all tokens are others, and keys and values with them.
  Decoder d;
  d.mixing =
      "  %z : Tensor = aten::add(%x.ids, %x.positions, %1)\n  %few : int = prim::Constant[value=22]()\n"
      "  %more : int = aten::sub(%s, %few)\n  %list : int[] = prim::ListConstruct(%more, %0)\n"
      "  %t.more : Tensor = aten::tensor(%list, %none, %none, %no)\n  %least : Tensor = aten::max(%t.more)\n"
      "  %by : Tensor = aten::add(%least, %1, %1)\n  %x : Tensor = aten::div(%z, %by)\n";
  expectRefused(d, "the logits of token 24", {"kv_cache_type=state"});
  expectServed(d);
  EXPECT_EQ(diagnostics_.warningCount(), 1u) << messages();
}

// All tokens at once.
const char* const kMeans =
    "  %mean : Tensor = aten::mean(%logits, %mean.dims, %yes, %none)\n"
    "  %t : Tensor = aten::add(%logits, %mean, %1)\n  return (%t)\n";

TEST_F(Decoders, WhatHasNoStateIsServedByWholeTexts) {
  Decoder d;
  d.positions += "  %mean.dims : int[] = prim::Constant[value=[1]]()\n";
  d.returned = kMeans;
  expectServed(d);
  EXPECT_EQ(diagnostics_.warningCount(), 1u) << messages();
  EXPECT_NE(messages().find("warning: each step computes whole texts, since no cache of keys and values is right for "
                            "this model"),
            std::string::npos)
      << messages();
  auto model = LanguageModel::load(folder_, {}, diagnostics_);
  ASSERT_TRUE(model) << messages();
  EXPECT_FALSE(model->isCached());
  expectRefused(d, "its logits depend on all tokens at once", {"kv_cache_type=state"});
}

TEST_F(Decoders, WithoutAttentionAnythingIsServedThatRuns) {
  // No attention at all, logits of the last token alone, in a dictionary, and a mask of floats.
  Decoder d;
  d.inputs = "%attention_mask : Float(*, *), %input_ids : Tensor";
  d.positions = kCounted;
  d.mixing =
      "  %z : Tensor = aten::add(%x.ids, %x.positions, %1)\n  %seen : Tensor = aten::unsqueeze(%attention_mask, %m1)\n"
      "  %x : Tensor = aten::mul(%z, %seen)\n";
  d.attention = "  %o : Tensor = aten::cumsum(%v, %2, %none)\n";
  d.returned =
      "  %l : str = prim::Constant[value=\"logits\"]()\n  %last : Tensor = aten::select(%logits, %1, %m1)\n"
      "  %t : Dict(str, Tensor) = prim::DictConstruct(%l, %last)\n  return (%t)\n";
  ASSERT_TRUE(builds(d, {"kv_cache_type=disabled"})) << messages();
  auto model = LanguageModel::load(folder_, {}, diagnostics_);
  ASSERT_TRUE(model) << messages();
  EXPECT_FALSE(model->isCached());
  EXPECT_EQ(model->cacheBytes(), 0);
  auto want = served(9);
  ASSERT_TRUE(builds(d)) << messages();
  EXPECT_EQ(served(9), want);
  model = LanguageModel::load(folder_, {}, diagnostics_);
  EXPECT_EQ(model->config().kvCacheType, KvCacheType::State);
}

TEST_F(Decoders, TokensMayComeBeforeTexts) {
  Decoder d;
  d.inputs = "%tokens_first : Tensor";
  d.positions =
      "  %input_ids : Tensor = aten::t(%tokens_first)\n  %b : int = aten::size(%input_ids, %0)\n"
      "  %s : int = aten::size(%input_ids, %1)\n  %x.ids : Tensor = aten::embedding(%words, %input_ids, %m1, %no, "
      "%no)\n" +
      kCounted;
  d.before = "";
  d.returned = "  %t : Tensor = aten::transpose(%logits, %0, %1)\n  return (%t)\n";
  ASSERT_TRUE(builds(d)) << messages();
  Result<BuiltModel> built = readBuiltModel(folder_, diagnostics_);
  ASSERT_TRUE(built) << messages();
  EXPECT_EQ(built->config.kvCacheType, KvCacheType::State);
  Result<Module> module = loaded(d);
  for (const std::vector<TokenId>& prompt : kPrompts) {
    std::vector<int64_t> ids(prompt.begin(), prompt.end());
    Result<std::vector<IValue>> out =
        module->forward({{IValue(Tensor::of<int64_t>(Dims{static_cast<int64_t>(ids.size()), 1}, ids))}}, diagnostics_);
    ASSERT_TRUE(out) << messages();
    Tensor logits = logitsOf(*out);
    int64_t first = logits.numel() - kWords, best = 0;
    for (int64_t w = 1; w < kWords; ++w)
      if (logits.real(first + w) > logits.real(first + best)) best = w;
    EXPECT_EQ(served(1).at(static_cast<size_t>(&prompt - kPrompts.data())),
              (std::vector<TokenId>{static_cast<TokenId>(best)}));
  }
}

TEST_F(Decoders, WithoutBlocksTextsAreAsLongAsTheModelRuns) {
  const Decoder d = decoderOfUncountedPlaces();
  ASSERT_TRUE(builds(d)) << messages();
  auto model = LanguageModel::load(folder_, {}, diagnostics_);
  ASSERT_TRUE(model) << messages();
  EXPECT_EQ(model->config().kvCacheType, KvCacheType::State);
  EXPECT_LE(model->config().maxSeqLen, kPositions);
  EXPECT_FALSE(builds(d, {"max_seq_len=100"}));
}

// Of tokens at %at all that are there up to each, of %all.
const std::string kSeen =
    "  %cols : Tensor = aten::arange(%all, %none, %none, %none, %none)\n"
    "  %rows.at : Tensor = aten::unsqueeze(%at, %1)\n  %seen : Tensor = aten::le(%cols, %rows.at)\n";

TEST_F(Decoders, CachesAmongInputsAndOutputsAreDropped) {
  const Decoder plain;
  auto takes = [&](const std::string& inputs, const std::string& taken) {
    Decoder d;
    d.inputs = "%input_ids : Tensor, " + inputs;
    d.before += taken +
                "  %past : int = aten::size(%k.past, %2)\n  %all : int = aten::add(%past, %s)\n"
                "  %at : Tensor = aten::arange(%past, %all, %none, %none, %none, %none)\n";
    d.positions = "  %x.positions : Tensor = aten::embedding(%places, %at, %m1, %no, %no)\n";
    d.attention =
        "  %k.both : Tensor[] = prim::ListConstruct(%k.past, %k)\n  %k.all : Tensor = aten::cat(%k.both, %2)\n"
        "  %v.both : Tensor[] = prim::ListConstruct(%v.past, %v)\n  %v.all : Tensor = aten::cat(%v.both, %2)\n" +
        kSeen + "  %o : Tensor = aten::scaled_dot_product_attention(%q, %k.all, %v.all, %seen, %drop, %no)\n";
    d.returned =
        "  %kv : (Tensor, Tensor) = prim::TupleConstruct(%k.all, %v.all)\n"
        "  %r : (Tensor, (Tensor, Tensor)) = prim::TupleConstruct(%logits, %kv)\n  return (%r)\n";
    ASSERT_TRUE(builds(d)) << messages() << d.text();
    EXPECT_EQ(served(9), expected(plain, "ip", 9)) << messages();
    EXPECT_EQ(readBuiltModel(folder_, diagnostics_)->config.kvCacheType, KvCacheType::Paged) << messages();
  };
  takes("%k.past : Tensor, %v.past : Tensor", "");
  takes("%position_ids : Tensor, %k.past : Tensor, %v.past : Tensor", "");  // which it does not look at
  takes("%caches : (Tensor, Tensor)", "  %k.past : Tensor, %v.past : Tensor = prim::TupleUnpack(%caches)\n");
  takes("%caches : Tensor[]",
        "  %k.past : Tensor = aten::__getitem__(%caches, %0)\n  %v.past : Tensor = aten::__getitem__(%caches, %1)\n");
  // As a DynamicCache of transformers takes them.
  takes("%k.0 : Tensor, %v.0 : Tensor",
        "  %no.s : int[] = prim::Constant[value=[0]]()\n"
        "  %empty : Tensor = aten::zeros(%no.s, %6, %none, %none, %none)\n"
        "  %minus2 : int = prim::Constant[value=-2]()\n"
        "  %k.from : Tensor[] = prim::ListConstruct(%empty, %k.0)\n  %k.past : Tensor = aten::cat(%k.from, %minus2)\n"
        "  %v.from : Tensor[] = prim::ListConstruct(%empty, %v.0)\n  %v.past : Tensor = aten::cat(%v.from, %minus2)\n");
}

// Calls say another text then than one call with all of it.
TEST_F(Decoders, CachesThatBecomeOthersFromCallToCallAreRefused) {
  auto build = [&](const std::string& keys, const std::string& values, const std::string& returned) {
    Decoder d;
    d.inputs = "%input_ids : Tensor, %k.past : Tensor, %v.past : Tensor";
    d.before +=
        "  %past : int = aten::size(%k.past, %2)\n  %all : int = aten::add(%past, %s)\n"
        "  %at : Tensor = aten::arange(%past, %all, %none, %none, %none, %none)\n"
        "  %half : float = prim::Constant[value=0.5]()\n  %few : int = prim::Constant[value=-8]()\n"
        "  %most : int = prim::Constant[value=9223372036854775807]()\n"
        "  %k.cut : Tensor = aten::slice(%k.past, %2, %1, %most, %1)\n"
        "  %v.cut : Tensor = aten::slice(%v.past, %2, %1, %most, %1)\n";
    d.positions = "  %x.positions : Tensor = aten::embedding(%places, %at, %m1, %no, %no)\n";
    d.attention =
        fmt::format(
            "  %k.both : Tensor[] = prim::ListConstruct({}, %k)\n  %k.all : Tensor = aten::cat(%k.both, %2)\n"
            "  %v.both : Tensor[] = prim::ListConstruct({}, %v)\n  %v.all : Tensor = aten::cat(%v.both, %2)\n",
            keys, values) +
        kSeen + "  %o : Tensor = aten::scaled_dot_product_attention(%q, %k.all, %v.all, %seen, %drop, %no)\n";
    d.returned = returned;
    return builds(d);
  };
  const std::string same = "  return (%logits, %k.all, %v.all)\n";
  ASSERT_TRUE(build("%k.past", "%v.past", same)) << messages();
  const char* const expected =
      "calls that are given for %k.past, %v.past what the one before returned say another text";
  auto refuses = [&](const std::string& keys, const std::string& values, const std::string& returned) {
    EXPECT_FALSE(build(keys, values, returned)) << returned;
    EXPECT_NE(messages().find(expected), std::string::npos) << messages();
  };
  refuses("%v.past", "%k.past", same);
  refuses("%k.past", "%k.past", same);
  refuses("%k.past", "%v.past", "  return (%logits, %v.all, %k.all)\n");
  refuses("%k.past", "%v.past", "  %k.next : Tensor = aten::mul(%k.all, %half)\n  return (%logits, %k.next, %v.all)\n");
  // A window that a call with all tokens has not, and which short texts do not fill.
  refuses("%k.past", "%v.past",
          "  %k.next : Tensor = aten::slice(%k.all, %2, %few, %most, %1)\n"
          "  %v.next : Tensor = aten::slice(%v.all, %2, %few, %most, %1)\n  return (%logits, %k.next, %v.next)\n");
  // Each call forgets one, and how many there are at first is not told.
  EXPECT_FALSE(build("%k.cut", "%v.cut", same));
  // Not of this form: an image that stands in front of them.
  EXPECT_FALSE(build("%k.past", "%v.past", "  return (%logits, %x)\n"));
  EXPECT_NE(messages().find("what a call returns beside logits cannot be given to the next one"), std::string::npos)
      << messages();
  // What does not run at all is told as that.
  EXPECT_FALSE(build("%k.past", "%v.past",
                     "  %no.such : Tensor = aten::matmul(%logits, %wq)\n  return (%no.such, %k.all, %v.all)\n"));
  EXPECT_NE(messages().find("the model does not run with a text of 5 tokens"), std::string::npos) << messages();
}

// Few of many words: texts of random ids would not have the one that ends a document.
TEST_F(Decoders, IdsThatSeparateDocumentsHideWhatIsBeforeThem) {
  Decoder d;
  d.words = 1000;
  d.attention =
      "  %is : Tensor = aten::eq(%input_ids, %2)\n  %number : Tensor = aten::cumsum(%is, %1, %none)\n"
      "  %number.r : Tensor = aten::unsqueeze(%number, %2)\n  %number.c : Tensor = aten::unsqueeze(%number, %1)\n"
      "  %same : Tensor = aten::eq(%number.r, %number.c)\n" +
      kRows +
      "  %before : Tensor = aten::le(%at.m, %row)\n  %seen : Tensor = aten::__and__(%same, %before)\n"
      "  %mask : Tensor = aten::unsqueeze(%seen, %1)\n"
      "  %o : Tensor = aten::scaled_dot_product_attention(%q, %k, %v, %mask, %drop, %no)\n";
  expectServed(d);
}

// The softmax may be in float32.
TEST_F(Decoders, WeightsOfHalfPrecisionHaveCachesInBlocks) {
  const std::string eager =
      kRows +
      "  %type : int = prim::dtype(%q)\n  %later : Tensor = aten::gt(%at.m, %row)\n"
      "  %k.t : Tensor = aten::transpose(%k, %2, %3)\n  %scores : Tensor = aten::matmul(%q, %k.t)\n"
      "  %least : float = prim::Constant[value=-60000.]()\n"
      "  %masked : Tensor = aten::masked_fill(%scores, %later, %least)\n"
      "  %p.32 : Tensor = aten::softmax(%masked, %m1, %6)\n"
      "  %p : Tensor = aten::to(%p.32, %type, %no, %no, %none)\n  %o : Tensor = aten::matmul(%p, %v)\n";
  for (DType dtype : {DType::Float16, DType::BFloat16})
    for (const std::string& attention : {Decoder().attention, eager}) {
      Decoder d;
      d.dtype = static_cast<int>(dtype);
      d.attention = attention;
      ASSERT_TRUE(builds(d)) << messages();
      EXPECT_EQ(readBuiltModel(folder_, diagnostics_)->config.kvCacheType, KvCacheType::Paged) << messages();
      EXPECT_EQ(served(9), expected(d, "ip", 9)) << messages();
    }
}

// tests/tools/make_language_archives.py prints what PyTorch generates.
TEST_F(Decoders, InputsThatMayBeLeftOutAre) {
  Result<Module> module = Module::load(TSCOMPILE_SOURCE_DIR "/tests/data/language/optional_cache.pt", {}, diagnostics_);
  ASSERT_TRUE(module && buildLanguageModel(*module, {}, folder_, diagnostics_)) << messages();
  EXPECT_EQ(readBuiltModel(folder_, diagnostics_)->config.kvCacheType, KvCacheType::Paged) << messages();
  // Its positions begin at 0 in each call.
  EXPECT_NE(messages().find("what is built says what the model says without %cache"), std::string::npos) << messages();
  EXPECT_EQ(served(9), (std::vector<std::vector<TokenId>>{
                           {5, 6, 11, 0, 6, 0, 4, 6, 3}, {3, 6, 10, 5, 6, 3, 0, 6, 3}, {11, 0, 6, 11, 3, 5, 6, 4, 5}}));
}

TEST_F(Decoders, InputsThatAreNeitherIdsNorMasksNorPositionsAreRefused) {
  Decoder d;
  d.inputs = "%input_ids : Tensor, %position_ids : Tensor, %cache : Tensor[]";
  expectRefused(d, "expected ids, and a mask and positions at most, found an input %cache : Tensor[]");
  d.inputs = "%input_ids : Tensor, %position_ids : Tensor, %attention_mask : Tensor, %other : Tensor";
  expectRefused(d, "what %other stands for is not known");
  d.inputs = "%input_ids : Tensor, %position_ids : Tensor, %a_mask : Tensor, %b_mask : Tensor";
  expectRefused(d, "%a_mask and %b_mask are all taken for masks");
  d.inputs = "%input_ids : Tensor, %a_mask : Tensor, %b_mask : Tensor";
  d.positions = kCounted;
  expectRefused(d, "%a_mask and %b_mask are all taken for masks");
  d.inputs = "%input_ids : Long(1, 1), %n : Long(1), %a : Float(1, 8), %b : Float(1, 8)";
  expectRefused(d, "call %n position_ids if it counts tokens from 0");
  d.inputs = "%input_ids : Tensor, %sizes : int[]";
  d.positions =
      "  %count : int = aten::len(%sizes)\n  %at.0 : Tensor = aten::arange(%s, %none, %none, %none, %none)\n"
      "  %at : Tensor = aten::add(%at.0, %count, %1)\n"
      "  %x.positions : Tensor = aten::embedding(%places, %at, %m1, %no, %no)\n";
  expectRefused(d, "found an input %sizes : int[]");
}

}  // namespace
}  // namespace tscompile::test
