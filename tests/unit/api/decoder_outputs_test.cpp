// Logits are found among what a model returns, and made of probabilities; what draws tokens by itself leaves that to
// those who generate.
#include "tests/unit/api/decoders.h"

namespace tscompile::test {
namespace {

class DecoderOutputs : public Decoders {
 protected:
  static Decoder returning(const std::string& returned) {
    Decoder d;
    d.returned = returned;
    return d;
  }
  // The tokens of the model that returns its logits.
  void expectLogits(const Decoder& decoder) {
    ASSERT_TRUE(builds(decoder)) << messages() << decoder.text();
    EXPECT_EQ(diagnostics_.warningCount(), 0u) << messages();
    EXPECT_EQ(served(9), expected(Decoder(), "ip", 9)) << messages() << decoder.text();
  }
  std::vector<TokenId> drawn(uint64_t seed) {
    auto model = LanguageModel::load(folder_, {}, diagnostics_);
    auto batcher = model ? Batcher::make(*model, model->cache(), model->limits(), diagnostics_) : nullptr;
    if (!batcher) return {};
    Request r;
    r.prompt = kPrompts.front();
    r.maxNewTokens = 12;
    r.sampling.temperature = 3;
    r.sampling.topK = kWords;
    r.sampling.randomSeed = seed;
    Result<RequestId> id = batcher->add(std::move(r), diagnostics_);
    if (!id) return {};
    batcher->run(diagnostics_);
    return batcher->take(*id)->tokens;
  }
};

// As a call in training returns them: what a loss is computed from is no input of texts.
TEST_F(DecoderOutputs, TargetsAreLeftOut) {
  const std::string loss =
      "  %rows : Tensor = aten::flatten(%logits, %0, %1)\n  %wanted : Tensor = aten::flatten(%targets, %0, %1)\n"
      "  %loss : Tensor = aten::cross_entropy_loss(%rows, %wanted, %none, %1, %m1, %drop)\n";
  for (const char* order : {"%logits, %loss", "%loss, %logits"}) {
    Decoder d = returning(loss + "  %r : (Tensor, Tensor) = prim::TupleConstruct(" + order + ")\n  return (%r)\n");
    d.inputs += ", %targets : Tensor";
    expectLogits(d);
  }
}

// Chosen before they are normalised, and as torch.export decomposes what comes then: rows of a matrix, whose sizes say
// that there is one token.
TEST_F(DecoderOutputs, LogitsMayBeOfTheLastTokensAlone) {
  const std::string normalised =
      "  %wide : int[] = prim::ListConstruct(%8)\n  %eps : float = prim::Constant[value=1e-05]()\n"
      "  %n : Tensor = aten::layer_norm(%chosen, %wide, %none, %none, %eps, %no)\n";
  const std::string layer = normalised + "  %l : Tensor = aten::linear(%n, %words, %none)\n  return (%l)\n";
  const std::string product =
      normalised +
      "  %n.s : int[] = prim::ListConstruct(%b, %8)\n  %n.rows : Tensor = aten::reshape(%n, %n.s)\n"
      "  %turned : Tensor = aten::t(%words)\n  %l.rows : Tensor = aten::mm(%n.rows, %turned)\n"
      "  %l.s : int[] = prim::ListConstruct(%b, %1, %m1)\n"
      "  %l : Tensor = aten::reshape(%l.rows, %l.s)\n  return (%l)\n";
  const Decoder all = returning("  %chosen : Tensor = aten::slice(%y, %1, %0, %max, %1)\n" + layer);
  for (const std::string& chosen : {"  %chosen : Tensor = aten::slice(%y, %1, %m1, %max, %1)\n" + layer,
                                    "  %chosen : Tensor = aten::select(%y, %1, %m1)\n" + layer,
                                    "  %chosen : Tensor = aten::slice(%y, %1, %m1, %max, %1)\n" + product,
                                    "  %chosen : Tensor = aten::select(%y, %1, %m1)\n" + product}) {
    const Decoder d = returning(chosen);
    ASSERT_TRUE(builds(d)) << messages() << d.text();
    EXPECT_EQ(readBuiltModel(folder_, diagnostics_)->config.kvCacheType, KvCacheType::Paged) << messages();
    EXPECT_EQ(served(9), expected(all, "ip", 9)) << messages() << d.text();
  }
  // What is made of others beside them is not that of one token.
  const Decoder mixed = returning(
      "  %last : Tensor = aten::slice(%y, %1, %m1, %max, %1)\n  %dims : int[] = prim::ListConstruct(%1)\n"
      "  %mean : Tensor = aten::mean(%y, %dims, %yes, %none)\n"
      "  %chosen : Tensor = aten::add(%last, %mean, %1)\n" +
      layer);
  ASSERT_TRUE(builds(mixed)) << messages();
  EXPECT_NE(readBuiltModel(folder_, diagnostics_)->config.kvCacheType, KvCacheType::Paged);
  EXPECT_EQ(served(9), expected(mixed, "ip", 9)) << messages();
}

TEST_F(DecoderOutputs, LogitsAreWhatHasANumberForEachWord) {
  expectLogits(returning("  %r : (Tensor, Tensor) = prim::TupleConstruct(%y, %logits)\n  return (%r)\n"));
  expectLogits(returning("  return (%y, %logits)\n"));
  expectLogits(
      returning("  %key.y : str = prim::Constant[value=\"hidden\"]()\n"
                "  %key.l : str = prim::Constant[value=\"scores\"]()\n"
                "  %r : Dict(str, Tensor) = prim::DictConstruct(%key.y, %y, %key.l, %logits)\n"
                "  return (%r)\n"));
  // A loss may be left out.
  expectLogits(returning("  %r : (NoneType, Tensor) = prim::TupleConstruct(%none, %logits)\n  return (%r)\n"));
  expectLogits(
      returning("  %key.y : str = prim::Constant[value=\"loss\"]()\n"
                "  %key.l : str = prim::Constant[value=\"logits\"]()\n"
                "  %r : Dict(str, Tensor) = prim::DictConstruct()\n   = aten::_set_item(%r, %key.y, %y)\n"
                "   = aten::_set_item(%r, %key.l, %logits)\n  return (%r)\n"));
  // Also where a run gives what may be left out.
  const std::string aux =
      "  %isGiven : bool = aten::gt(%b, %0)\n  %aux : Tensor? = prim::If(%isGiven)\n    block0():\n      -> (%y)\n    "
      "block1():\n      -> (%none)\n";
  expectLogits(returning(aux + "  %r : (Tensor?, Tensor) = prim::TupleConstruct(%aux, %logits)\n  return (%r)\n"));
  expectLogits(returning(aux + "  %key.y : str = prim::Constant[value=\"aux\"]()\n"
                               "  %key.l : str = prim::Constant[value=\"out\"]()\n"
                               "  %r : Dict(str, Tensor?) = prim::DictConstruct(%key.y, %aux, %key.l, %logits)\n"
                               "  return (%r)\n"));
  // A loss is one number.
  expectLogits(
      returning("  %loss : Tensor = aten::mean(%logits, %none)\n"
                "  %pair : (Tensor, Tensor) = prim::TupleConstruct(%y, %logits)\n"
                "  %r : (Tensor, (Tensor, Tensor)) = prim::TupleConstruct(%loss, %pair)\n  return (%r)\n"));
}

// Of several that have one the first, unless another is called so.
TEST_F(DecoderOutputs, SeveralValuesMayHaveANumberForEachWord) {
  const std::string more =
      "  %loss : Tensor = aten::mean(%logits, %none)\n  %twice : Tensor = aten::mul(%logits, %2)\n"
      "  %other : Tensor = aten::neg(%logits)\n";
  expectLogits(returning(more + "  %pair : Tensor[] = prim::ListConstruct(%logits, %twice)\n"
                                "  %r : (Tensor, Tensor[]) = prim::TupleConstruct(%loss, %pair)\n  return (%r)\n"));
  expectLogits(returning(more + "  %r : NamedTuple(loss : Tensor, past : Tensor, logits : Tensor) = "
                                "prim::TupleConstruct(%loss, %other, %logits)\n  return (%r)\n"));
}

// Layers side by side, what is done to each token behind them, and whatever else makes logits.
TEST_F(DecoderOutputs, LogitsMayBeMadeBySeveralLayers) {
  const std::string small = weight("down", 3, 8, 0.7) + weight("up", 13, 3, 1.1);
  for (const std::string& head :
       {small + "  %low : Tensor = aten::linear(%y, %down, %none)\n  %more : Tensor = aten::linear(%low, %up, %none)\n"
                "  %sum : Tensor = aten::add(%more, %logits, %2)\n",
        weight("scale", 1, 13, 0.3) + "  %sum : Tensor = aten::mul(%logits, %scale)\n",
        std::string("  %dims : int[] = prim::Constant[value=[-1]]()\n"
                    "  %most : Tensor = aten::amax(%y, %dims, %yes)\n  %sum : Tensor = aten::mul(%logits, %most)\n")}) {
    Decoder d = returning(head + "  return (%sum)\n");
    ASSERT_TRUE(builds(d)) << messages() << d.text();
    EXPECT_EQ(readBuiltModel(folder_, diagnostics_)->config.kvCacheType, KvCacheType::Paged) << messages();
    EXPECT_EQ(served(9), expected(d, "ip", 9)) << messages() << d.text();
  }
}

TEST_F(DecoderOutputs, WordsMayComeBeforeTokens) {
  expectLogits(returning("  %turned : Tensor = aten::transpose(%logits, %1, %2)\n  return (%turned)\n"));
}

// Learned rows before those of tokens (soft prompts), words before tokens, and tokens that the model chooses.
TEST_F(DecoderOutputs, LearnedRowsBeforeTokensAreLeftOut) {
  const std::string all = weight("soft", 3, 13, 0.3) +
                          "  %soft.s : int[] = prim::ListConstruct(%b, %m1, %m1)\n"
                          "  %soft.e : Tensor = aten::expand(%soft, %soft.s, %no)\n"
                          "  %both : Tensor[] = prim::ListConstruct(%soft.e, %logits)\n"
                          "  %all : Tensor = aten::cat(%both, %1)\n";
  for (const char* returned :
       {"  return (%all)\n", "  %turned : Tensor = aten::transpose(%all, %1, %2)\n  return (%turned)\n",
        "  %t : Tensor = aten::argmax(%all, %m1, %no)\n  return (%t)\n"})
    expectLogits(returning(all + returned));
}

// The last hidden state of a recurrent layer is what all tokens left: no rows of tokens lead to logits.
TEST_F(DecoderOutputs, LogitsMayFollowFromWhatALayerLeaves) {
  Decoder d;
  d.inputs = "%input_ids : Tensor";
  d.positions = weight("w.ih", 32, 8, 0.7) + weight("w.hh", 32, 8, 1.9);
  d.mixing =
      "  %state.s : int[] = prim::ListConstruct(%1, %b, %8)\n"
      "  %h : Tensor = aten::zeros(%state.s, %6, %none, %none, %none)\n"
      "  %hc : Tensor[] = prim::ListConstruct(%h, %h)\n  %flat : Tensor[] = prim::ListConstruct(%w.ih, %w.hh)\n"
      "  %x : Tensor, %hn : Tensor, %cn : Tensor = aten::lstm(%x.ids, %hc, %flat, %no, %1, %drop, %no, %no, %yes)\n";
  d.returned =
      "  %last : Tensor = aten::select(%hn, %0, %m1)\n  %left : Tensor = aten::linear(%last, %words, %none)\n"
      "  return (%left)\n";
  expectServedByState(d, "i", 2);
}

TEST_F(DecoderOutputs, TokensThatTheModelChoosesAreLeftToThoseWhoGenerate) {
  const std::string last = "  %last : Tensor = aten::select(%logits, %1, %m1)\n";
  for (const char* returned :
       {"  %t : Tensor = aten::argmax(%logits, %m1, %no)\n  return (%t)\n",
        "  %a : Tensor = aten::argmax(%logits, %2, %yes)\n  %t : Tensor = aten::squeeze(%a, %m1)\n  return (%t)\n",
        "  %p : Tensor = aten::softmax(%logits, %m1, %none)\n  %v : Tensor, %t : Tensor = aten::max(%p, %m1, %no)\n"
        "  return (%v, %t)\n",
        "  %v : Tensor, %t : Tensor = aten::topk(%logits, %3, %m1, %yes, %yes)\n  return (%v, %t)\n"})
    expectLogits(returning(returned));
  expectLogits(returning(last + "  %t : Tensor = aten::argmax(%last, %m1, %no)\n  return (%t)\n"));
  expectLogits(returning(last + "  %p : Tensor = aten::softmax(%last, %m1, %none)\n"
                                "  %t : Tensor = aten::multinomial(%p, %1, %no, %none)\n  return (%t)\n"));
  EXPECT_NE(messages().find("the model chooses tokens itself, by aten::multinomial"), std::string::npos) << messages();
}

TEST_F(DecoderOutputs, TokensAreDrawnByProbabilitiesAsByTheirLogits) {
  ASSERT_TRUE(builds(Decoder())) << messages();
  std::vector<std::vector<TokenId>> expected;
  for (uint64_t seed : {1, 2, 3}) expected.push_back(drawn(seed));
  EXPECT_NE(expected[0], expected[1]);
  const std::string probabilities = "  %p : Tensor = aten::softmax(%logits, %m1, %none)\n";
  for (const std::string& returned :
       {probabilities + "  return (%p)\n",
        probabilities + "  %last : Tensor = aten::slice(%p, %1, %m1, %max, %1)\n  return (%last)\n",
        // Of several tables together, such as those that copy words of the text.
        probabilities + "  %half : float = prim::Constant[value=0.5]()\n  %h : Tensor = aten::mul(%p, %half)\n"
                        "  %both : Tensor = aten::add(%h, %h, %1)\n  return (%both)\n"}) {
    ASSERT_TRUE(builds(returning(returned))) << messages() << returned;
    for (uint64_t seed : {1, 2, 3}) EXPECT_EQ(drawn(seed), expected[seed - 1]) << returned;
  }
}

TEST_F(DecoderOutputs, RandomLogitsAreRefused) {
  Decoder d;
  d.mixing =
      "  %rate : float = prim::Constant[value=0.1]()\n  %x.sum : Tensor = aten::add(%x.ids, %x.positions, %1)\n"
      "  %x : Tensor = aten::dropout(%x.sum, %rate, %yes)\n";
  expectRefused(d, "aten::dropout draws random numbers, and logits follow from them");
  EXPECT_NE(messages().find("model.eval()"), std::string::npos) << messages();
}

TEST_F(DecoderOutputs, WhatLooksAtTheFirstTokenAloneIsRefused) {
  Decoder d;
  d.before =
      "  %b : int = aten::size(%input_ids, %0)\n  %s : int = aten::size(%input_ids, %1)\n"
      "  %first : Tensor = aten::slice(%input_ids, %1, %0, %1, %1)\n"
      "  %x.ids : Tensor = aten::embedding(%words, %first, %m1, %no, %no)\n";
  expectRefused(d, "of a text of 5 tokens the model looks at the first ones alone");
}

}  // namespace
}  // namespace tscompile::test
