// Decoders in files of PyTorch: weights of archives can be replaced, and exports say how long texts may be.
#include "api/refit.h"
#include "frontend/files/weights.h"
#include "tests/unit/api/decoders.h"

namespace tscompile::test {
namespace {

class DecoderFiles : public Decoders {
 protected:
  bool buildsFile(const std::string& name, const std::vector<std::string>& settings = {}) {
    diagnostics_ = Diagnostics();
    Result<Module> module = Module::load(TSCOMPILE_SOURCE_DIR "/tests/data/" + name, {}, diagnostics_);
    BuildConfig config;
    for (const std::string& s : settings) setBuildOption(config, s, diagnostics_);
    return module && buildLanguageModel(*module, config, folder_, diagnostics_);
  }
  // The weights that a folder keeps, without numbers in code.
  std::vector<std::pair<std::string, Tensor>> keptWeights() {
    Result<BuiltModel> built = readBuiltModel(folder_, diagnostics_);
    Result<Module> engine = built ? Module::load(built->engine, {}, diagnostics_) : Result<Module>(Failed{});
    std::vector<std::pair<std::string, Tensor>> out;
    if (!engine || !engine->refitSource()) return out;
    for (const auto& weight : engine->refitSource()->weights)
      if (!engine->refitSource()->attributes.contains("constant:" + weight.first)) out.push_back(weight);
    return out;
  }
  bool refits(const std::vector<std::pair<std::string, Tensor>>& weights, bool partial = false) {
    diagnostics_ = Diagnostics();
    const std::string file = folder_ + "/new.safetensors";
    EXPECT_TRUE(writeSafetensors(file, weights, diagnostics_));
    return refitLanguageModel(folder_, {.weights = {file}, .partial = partial}, folder_, diagnostics_);
  }
  static Tensor times(const Tensor& t, float factor) {
    std::vector<float> values(t.data<float>(), t.data<float>() + t.numel());
    for (float& v : values) v *= factor;
    return Tensor::of<float>(t.sizes(), values);
  }
};

// Of positions that fit as a row and as one of a text, whose numbers count in a row alone.
TEST_F(DecoderFiles, PositionsOfADistanceAreARow) {
  Decoder d;
  d.positions = "  %x.positions : Tensor = aten::mul(%x.ids, %0)\n";
  d.attention = written(kRows +
                        "  %later : Tensor = aten::lt(%row, %at.m)\n"
                        "  %p.rows : Tensor = aten::unsqueeze(%position_ids, %1)\n"
                        "  %p.columns : Tensor = aten::unsqueeze(%position_ids, %0)\n"
                        "  %d : Tensor = aten::sub(%p.rows, %p.columns, %1)\n  %far.d : Tensor = aten::abs(%d)\n"
                        "  %near : Tensor = aten::sub(%scores, %far.d, %1)\n"
                        "  %masked : Tensor = aten::masked_fill(%near, %later, %far)\n");
  ASSERT_TRUE(builds(d)) << messages();
  Decoder counted = d;
  counted.inputs = "%input_ids : Tensor";
  counted.before += "  %position_ids : Tensor = aten::arange(%s, %none, %none, %none, %none)\n";
  EXPECT_EQ(served(9), expected(counted, "i", 9));
}

// Layers multiply the tokens of all texts in one matrix, and rows that are hidden as a whole are looked for.
TEST_F(DecoderFiles, DecomposedLayersAreServedAsLayers) {
  Decoder d;
  d.attention = kRows +
                "  %later : Tensor = aten::lt(%row, %at.m)\n  %low : float = prim::Constant[value=-inf]()\n"
                "  %k.t : Tensor = aten::transpose(%k, %2, %3)\n  %scores : Tensor = aten::matmul(%q, %k.t)\n"
                "  %masked : Tensor = aten::masked_fill(%scores, %later, %low)\n"
                "  %soft : Tensor = aten::softmax(%masked, %m1, %none)\n  %hidden : Tensor = aten::eq(%masked, %low)\n"
                "  %seen : Tensor = aten::logical_not(%hidden)\n  %any : Tensor = aten::any(%seen, %m1, %yes)\n"
                "  %rows.hidden : Tensor = aten::logical_not(%any)\n"
                "  %zeros : Tensor = aten::full_like(%soft, %0, %none, %none, %none, %no, %none)\n"
                "  %chosen : Tensor = aten::where(%rows.hidden, %zeros, %soft)\n"
                "  %sizes : int[] = prim::ListConstruct(%b, %2, %s, %s)\n"
                "  %p : Tensor = aten::expand(%chosen, %sizes, %no)\n  %o : Tensor = aten::matmul(%p, %v)\n";
  d.returned =
      "  %rows.n : int = aten::mul(%b, %s)\n  %rows.s : int[] = prim::ListConstruct(%rows.n, %8)\n"
      "  %y.rows : Tensor = aten::reshape(%y, %rows.s)\n  %words.t : Tensor = aten::t(%words)\n"
      "  %l.rows : Tensor = aten::mm(%y.rows, %words.t)\n  %l.s : int[] = prim::ListConstruct(%b, %s, %m1)\n"
      "  %l : Tensor = aten::reshape(%l.rows, %l.s)\n  return (%l)\n";
  ASSERT_TRUE(builds(d, {"kv_cache_type=paged"})) << messages();
  EXPECT_EQ(served(9), expected(d, "ip", 9));
}

// Keys and values are repeated for the queries of a group, factors stand in front of views, and the weight of a layer
// is repeated for each text.
TEST_F(DecoderFiles, DecomposedGroupsKeepOneHeadOfKeys) {
  ASSERT_TRUE(buildsFile("exports/grouped_decomposed.pt2", {"kv_cache_type=paged"})) << messages();
  Result<BuiltModel> built = readBuiltModel(folder_, diagnostics_);
  ASSERT_TRUE(built) << messages();
  EXPECT_EQ(built->shape.heads, 2);
  EXPECT_EQ(built->shape.kvHeads, 1);
}

// A step has tokens of several texts: more than the program was exported for.
TEST_F(DecoderFiles, BoundsOfExportsHoldForEachText) {
  ASSERT_TRUE(buildsFile("exports/grouped_decomposed.pt2", {"kv_cache_type=paged", "max_num_tokens=512"}))
      << messages();
  EXPECT_EQ(readBuiltModel(folder_, diagnostics_)->config.maxSeqLen, 300);
  EXPECT_FALSE(buildsFile("exports/grouped_decomposed.pt2", {"max_seq_len=400"}));
  EXPECT_NE(messages().find("max_seq_len is 400, but the program was exported for texts of at most 300 tokens"),
            std::string::npos)
      << messages();
}

// For texts of no more than 7 tokens all conditions of the file hold: none is a multiple of 8, and none is over 9.
TEST_F(DecoderFiles, ConditionsOfExportsBoundTexts) {
  ASSERT_TRUE(buildsFile("exports/stretched.pt2")) << messages();
  EXPECT_EQ(readBuiltModel(folder_, diagnostics_)->config.maxSeqLen, 7);
}

// What PyTorch generates with these weights: tests/tools/make_language_archives.py.
TEST_F(DecoderFiles, ArchivesCanBeRefitted) {
  ASSERT_TRUE(buildsFile("language/optional_cache.pt")) << messages();
  EXPECT_TRUE(readBuiltModel(folder_, diagnostics_)->config.useRefit);
  const auto before = served(9);
  std::vector<std::pair<std::string, Tensor>> weights = keptWeights();
  ASSERT_EQ(weights.size(), 5u);
  ASSERT_TRUE(refits(weights)) << messages();
  EXPECT_EQ(served(9), before);
  for (auto& [name, tensor] : weights) {
    if (name == "words.weight") tensor = times(tensor, -1);
    if (name == "qkv.weight") tensor = times(tensor, 0.5f);
  }
  ASSERT_TRUE(refits(weights)) << messages();
  EXPECT_EQ(served(9), (std::vector<std::vector<TokenId>>{
                           {5, 7, 5, 0, 3, 1, 0, 1, 12}, {0, 3, 1, 0, 1, 4, 0, 0, 3}, {5, 0, 3, 5, 1, 0, 0, 12, 1}}));
}

TEST_F(DecoderFiles, WeightsThatAModelDoesNotReadArePassedOverInPart) {
  ASSERT_TRUE(buildsFile("language/optional_cache.pt")) << messages();
  std::vector<std::pair<std::string, Tensor>> weights = keptWeights();
  const Tensor other = Tensor::of<float>(Dims{2}, std::vector<float>{1, 2});
  EXPECT_FALSE(refits({weights[0]}));
  EXPECT_NE(messages().find("4 weights were not given"), std::string::npos) << messages();
  EXPECT_FALSE(refits({weights[0], {"bias", other}}));
  EXPECT_NE(messages().find("1 weight is not in the model: bias"), std::string::npos) << messages();
  EXPECT_TRUE(refits({weights[0], {"bias", other}}, true)) << messages();
  EXPECT_EQ(diagnostics_.warningCount(), 2u) << messages();  // and one of its cache
  EXPECT_FALSE(refits({{"bias", other}}, true));
  EXPECT_NE(messages().find("the model reads none of the weights that are given"), std::string::npos) << messages();
}

TEST_F(DecoderFiles, ExportsSayHowLongTextsMayBe) {
  ASSERT_TRUE(buildsFile("exports/sums.pt2")) << messages();
  Result<BuiltModel> built = readBuiltModel(folder_, diagnostics_);
  ASSERT_TRUE(built) << messages();
  EXPECT_EQ(built->config.kvCacheType, KvCacheType::State);
  EXPECT_EQ(built->config.maxSeqLen, 127);
  EXPECT_FALSE(buildsFile("exports/sums_fixed.pt2"));
  EXPECT_NE(messages().find("the program was exported for 2"), std::string::npos) << messages();
  EXPECT_NE(messages().find("torch.export takes dynamic_shapes="), std::string::npos) << messages();
}

// What PyTorch generates with them, one token a call: tests/tools/make_static_caches.py. The cache has 24 tokens.
TEST_F(DecoderFiles, CachesOfAFixedLengthAreThoseOfTexts) {
  const std::vector<std::vector<TokenId>> tokens{
      {5, 6, 11, 0, 6, 0, 4, 6, 3}, {3, 6, 10, 5, 6, 3, 0, 6, 3}, {11, 0, 6, 11, 3, 5, 6, 4, 5}};
  for (const auto& [name, longest] :
       {std::pair("static_buffers.pt", 24),   std::pair("static_buffers.pt2", 24),
        std::pair("static_one.pt2", 24),      std::pair("static_given.pt2", 24),
        std::pair("static_masked.pt2", 24),   std::pair("static_masked_one.pt2", 24),
        std::pair("static_texts.pt2", 24),    std::pair("static_texts_one.pt2", 24),
        std::pair("static_texts.pt", 24),     std::pair("static_put_one.pt", 24),
        std::pair("static_put.pt", 24),       std::pair("static_added_one.pt2", 24),
        std::pair("static_rooms.pt", 24),     std::pair("static_stacked.pt", 24),
        std::pair("static_layers.pt", 24),    std::pair("static_layers.pt2", 24),
        std::pair("static_unbound.pt", 24),   std::pair("static_listed.pt", 24),
        std::pair("static_from.pt", 24),      std::pair("static_rooms_decomposed.pt2", 24),
        std::pair("static_put_back.pt2", 24), std::pair("static_hiding.pt2", 24),
        std::pair("static_hiding.pt", 24),    std::pair("static_adding.pt", 24),
        std::pair("static_masked.pt", 24),    std::pair("static_spread.pt", 24),
        std::pair("static_aligned.pt", 24)}) {
    ASSERT_TRUE(buildsFile(std::string("language/") + name)) << name << "\n" << messages();
    Result<BuiltModel> built = readBuiltModel(folder_, diagnostics_);
    EXPECT_EQ(built->config.kvCacheType, KvCacheType::Paged) << name << "\n" << messages();
    EXPECT_EQ(built->config.maxSeqLen, longest) << name;
    EXPECT_EQ(served(9), tokens) << name;
  }
}

// A buffer beside a stack of them is written, and only what is written goes from token to token. Places that are read
// again are kept so, too, and those whose number is asked for.
TEST_F(DecoderFiles, RingsOfPlacesAreKeptAsStates) {
  for (const char* name : {"static_ring.pt", "static_put_read.pt", "static_asking.pt"}) {
    ASSERT_TRUE(buildsFile(std::string("language/") + name)) << messages();
    EXPECT_EQ(readBuiltModel(folder_, diagnostics_)->config.kvCacheType, KvCacheType::State) << messages();
    EXPECT_EQ(served(9),
              (std::vector<std::vector<TokenId>>{
                  {5, 6, 11, 0, 6, 0, 4, 6, 3}, {3, 6, 10, 5, 6, 3, 0, 6, 3}, {11, 0, 6, 11, 3, 5, 6, 4, 5}}))
        << name;
  }
}

// Sections of a rotary embedding are told the place of a token each; what is no number of it is not.
TEST_F(DecoderFiles, SectionsOfPositionsAreOnePlace) {
  ASSERT_TRUE(buildsFile("language/static_sections.pt2")) << messages();
  EXPECT_EQ(served(9),
            (std::vector<std::vector<TokenId>>{
                {5, 3, 11, 0, 6, 0, 0, 10, 6}, {3, 11, 1, 5, 10, 4, 9, 10, 3}, {11, 0, 5, 5, 9, 11, 3, 11, 8}}));
  EXPECT_FALSE(buildsFile("language/static_embedded.pt2"));
  EXPECT_NE(messages().find("pos_emb"), std::string::npos) << messages();
}

// Its trace left there how many tokens its example had.
TEST_F(DecoderFiles, CountsThatDoNotBeginWithZeroAreTold) {
  ASSERT_TRUE(buildsFile("language/static_counted.pt")) << messages();
  EXPECT_NE(messages().find("%count does not begin with 0"), std::string::npos) << messages();
  ASSERT_TRUE(buildsFile("language/static_one.pt2")) << messages();
  EXPECT_EQ(messages().find("does not begin with 0"), std::string::npos) << messages();
}

// One call with all tokens of a text overwrites what is in the ring, and calls with one after the other do not.
TEST_F(DecoderFiles, RingsTakeOneTokenAfterTheOther) {
  ASSERT_TRUE(buildsFile("language/static_few.pt2")) << messages();
  EXPECT_NE(messages().find("one call with all tokens of a text forgets some"), std::string::npos) << messages();
  EXPECT_EQ(served(9), (std::vector<std::vector<TokenId>>{{10, 4, 11, 12, 12, 11, 12, 10, 11},
                                                          {6, 6, 4, 0, 10, 11, 0, 10, 11},
                                                          {12, 0, 6, 11, 9, 11, 12, 11, 1}}));
  // Where all places come again no tensor tells how long texts may be.
  for (const char* name : {"language/static_round.pt", "language/static_round.pt2"}) {
    ASSERT_TRUE(buildsFile(name, {"max_seq_len=24"})) << messages();
    EXPECT_EQ(served(9),
              (std::vector<std::vector<TokenId>>{
                  {9, 3, 11, 0, 6, 10, 0, 10, 3}, {9, 2, 7, 0, 10, 11, 0, 10, 3}, {0, 10, 5, 2, 9, 0, 6, 9, 0}}))
        << name;
  }
}

// A state that is returned, beside a cache that grows or is written.
TEST_F(DecoderFiles, StatesMayStandBesideCaches) {
  for (const char* name : {"hybrid.pt2", "hybrid_one.pt2"}) {
    ASSERT_TRUE(buildsFile(std::string("language/") + name)) << name << "\n" << messages();
    EXPECT_EQ(readBuiltModel(folder_, diagnostics_)->config.kvCacheType, KvCacheType::State) << name << messages();
    EXPECT_EQ(served(9),
              (std::vector<std::vector<TokenId>>{
                  {3, 5, 0, 6, 3, 2, 0, 10, 3}, {3, 11, 10, 4, 4, 3, 5, 6, 9}, {11, 12, 6, 11, 9, 0, 7, 4, 3}}))
        << name;
  }
}

// A part of a state is as large as what is copied to it, not as what it fits beside.
TEST_F(DecoderFiles, RowsOfAStateArePutAsTheyAre) {
  ASSERT_TRUE(buildsFile("language/states_rows.pt")) << messages();
  EXPECT_EQ(served(9),
            (std::vector<std::vector<TokenId>>{
                {2, 5, 12, 6, 3, 5, 6, 3, 3}, {12, 12, 1, 7, 3, 12, 10, 5, 3}, {3, 2, 5, 10, 12, 5, 10, 11, 3}}));
}

TEST_F(DecoderFiles, CachesThatMayNotBeEmptyAreRefused) {
  EXPECT_FALSE(buildsFile("language/last.pt2"));
  EXPECT_NE(
      messages().find("the program was exported for %past of 3 or more in dimension 3, and a text begins with none"),
      std::string::npos)
      << messages();
}

TEST_F(DecoderFiles, CachesThatGrowAreThoseOfTexts) {
  const std::vector<std::vector<TokenId>> tokens{
      {5, 6, 11, 0, 6, 0, 4, 6, 3}, {3, 6, 10, 5, 6, 3, 0, 6, 3}, {11, 0, 6, 11, 3, 5, 6, 4, 5}};
  for (const auto& [name, kept] :
       {std::pair("grown_one.pt2", KvCacheType::Paged), std::pair("replaced.pt", KvCacheType::Paged),
        std::pair("held_one.pt2", KvCacheType::Paged), std::pair("grown_told.pt2", KvCacheType::Paged),
        std::pair("grown_fresh.pt2", KvCacheType::Paged), std::pair("grown_texts.pt2", KvCacheType::Paged),
        std::pair("grown_newest_one.pt2", KvCacheType::Paged), std::pair("grown_rowed.pt", KvCacheType::Paged),
        std::pair("grown_half.pt", KvCacheType::State), std::pair("grown_cut.pt", KvCacheType::Paged),
        std::pair("grown_cut.pt2", KvCacheType::Paged), std::pair("grown_halves_one.pt2", KvCacheType::Paged),
        std::pair("grown_paired.pt", KvCacheType::Paged), std::pair("grown_paired.pt2", KvCacheType::Paged),
        std::pair("grown_one_decomposed.pt2", KvCacheType::Paged),
        std::pair("grown_told_decomposed.pt2", KvCacheType::Paged)}) {
    ASSERT_TRUE(buildsFile(std::string("language/") + name)) << name << "\n" << messages();
    EXPECT_EQ(readBuiltModel(folder_, diagnostics_)->config.kvCacheType, kept) << name << messages();
    EXPECT_EQ(served(9), tokens) << name;
  }
}

TEST_F(DecoderFiles, CachesThatGrowOutOfTheirProgramAreRefused) {
  EXPECT_FALSE(buildsFile("language/grown_fixed.pt2"));
  EXPECT_NE(messages().find("the program was exported for 4 in dimension 2 of %keys alone, and gives 5 back, which the "
                            "next call cannot be given"),
            std::string::npos)
      << messages();
}

// Of logits of learned rows before the tokens those of the tokens are built.
TEST_F(DecoderFiles, LearnedRowsBeforeTokensAreNoTokens) {
  ASSERT_TRUE(buildsFile("language/prompted.pt2")) << messages();
  EXPECT_EQ(served(9),
            (std::vector<std::vector<TokenId>>{
                {6, 0, 10, 11, 0, 10, 11, 0, 10}, {5, 6, 12, 6, 3, 6, 3, 6, 3}, {3, 6, 0, 2, 7, 0, 2, 7, 0}}));
}

// A text that begins with zeros there would be another one.
TEST_F(DecoderFiles, WhatIsReadAndComesBackAsItWasGivenIsNoState) {
  EXPECT_FALSE(buildsFile("language/shifted.pt2"));
  EXPECT_NE(messages().find("it is read, and comes back as it was given"), std::string::npos) << messages();
}

// Two tokens are left out by a condition of the file, and longer texts are not.
TEST_F(DecoderFiles, ASizeThatIsLeftOutBoundsNoTexts) {
  ASSERT_TRUE(buildsFile("language/shortened.pt2")) << messages();
  EXPECT_EQ(readBuiltModel(folder_, diagnostics_)->config.maxSeqLen, 1024) << messages();
  EXPECT_EQ(served(9),
            (std::vector<std::vector<TokenId>>{
                {0, 2, 10, 11, 10, 3, 2, 5, 12}, {5, 12, 5, 12, 5, 12, 5, 12, 5}, {3, 12, 2, 1, 4, 5, 12, 5, 12}}));
}

// Zeros in the place of what an encoder returns would give other texts.
TEST_F(DecoderFiles, WhatAnEncoderReturnsIsNoState) {
  EXPECT_FALSE(buildsFile("language/attending_one.pt2"));
  EXPECT_NE(messages().find("what %memory stands for is not known"), std::string::npos) << messages();
  EXPECT_NE(messages().find("a decoder that is given what an encoder returns is called in a session"),
            std::string::npos)
      << messages();
}

// One of them may hide what is outside of a window.
TEST_F(DecoderFiles, TwoMasksOfCachesAreRefused) {
  EXPECT_FALSE(buildsFile("language/static_both_one.pt2"));
  EXPECT_NE(messages().find("%mask and %local_mask are all taken for masks, and one is expected"), std::string::npos)
      << messages();
}

// What a program for long texts alone is given is filled up, unless its tokens see that.
TEST_F(DecoderFiles, TextsAreFilledUpToWhatAProgramIsFor) {
  ASSERT_TRUE(buildsFile("language/long.pt2")) << messages();
  EXPECT_EQ(readBuiltModel(folder_, diagnostics_)->config.maxSeqLen, 24);
  EXPECT_NE(messages().find("the program was exported for 24 tokens alone"), std::string::npos) << messages();
  EXPECT_EQ(served(9), (std::vector<std::vector<TokenId>>{
                           {5, 6, 11, 0, 6, 0, 4, 6, 3}, {3, 6, 10, 5, 6, 3, 0, 6, 3}, {11, 0, 6, 11, 3, 5, 6, 4, 5}}));
  EXPECT_FALSE(buildsFile("language/long_both.pt2"));
  EXPECT_NE(messages().find("the program is for texts of 24 tokens, and shorter ones have no logits of their own"),
            std::string::npos)
      << messages();
}

TEST_F(DecoderFiles, RowsThatFollowFromEachOtherAreNoTexts) {
  EXPECT_FALSE(buildsFile("language/first.pt2"));
  EXPECT_NE(messages().find("the rows of %ids are no texts: what the last of them gives follows from those before"),
            std::string::npos)
      << messages();
}

// A trace does not say that it is for one token a call; that it shows a token later ones does.
TEST_F(DecoderFiles, TracesOfOneTokenACallNeedNotSaySo) {
  ASSERT_TRUE(buildsFile("language/grown_unsaid.pt")) << messages();
  EXPECT_EQ(served(9), (std::vector<std::vector<TokenId>>{
                           {5, 6, 11, 0, 6, 0, 4, 6, 3}, {3, 6, 10, 5, 6, 3, 0, 6, 3}, {11, 0, 6, 11, 3, 5, 6, 4, 5}}));
}

TEST_F(DecoderFiles, WhatForgetsIsRefused) {
  EXPECT_FALSE(buildsFile("language/forgetful_one.pt2"));
  EXPECT_NE(messages().find("forgets the tokens before it"), std::string::npos) << messages();
}

// What is done to one token a call is followed: pairs that are turned, places that are counted up to it, a key that is
// chosen, caches that are read up to it (tests/tools/make_single_calls.py).
TEST_F(DecoderFiles, CallsWithOneTokenHaveTheirCacheInBlocks) {
  for (const char* name : {"single_made.pt2", "single_start.pt2"}) {
    ASSERT_TRUE(buildsFile(std::string("language/") + name)) << name << "\n" << messages();
    EXPECT_EQ(readBuiltModel(folder_, diagnostics_)->config.kvCacheType, KvCacheType::Paged) << name << messages();
    EXPECT_EQ(served(9), (std::vector<std::vector<TokenId>>{
                             {2, 0, 2, 0, 6, 8, 0, 2, 7}, {3, 6, 6, 0, 2, 2, 8, 6, 10}, {11, 0, 5, 2, 1, 2, 1, 6, 11}}))
        << name;
  }
}

// Rows of one token that go to several experts are sorted beside those of others.
TEST_F(DecoderFiles, CallsWithOneTokenMayChooseExperts) {
  ASSERT_TRUE(buildsFile("language/single_experts.pt2")) << messages();
  EXPECT_EQ(readBuiltModel(folder_, diagnostics_)->config.kvCacheType, KvCacheType::Paged) << messages();
  EXPECT_EQ(served(9),
            (std::vector<std::vector<TokenId>>{
                {6, 12, 4, 4, 4, 4, 4, 7, 4}, {12, 4, 2, 7, 4, 10, 1, 10, 12}, {12, 8, 6, 11, 1, 7, 4, 12, 4}}));
}

// A place of which int() makes numbers, and calls that are for two tokens at least.
TEST_F(DecoderFiles, CallsWithSeveralTokensHaveTheirCacheInBlocks) {
  for (const char* name : {"static_numbered.pt", "grown_pairs.pt2"}) {
    ASSERT_TRUE(buildsFile(std::string("language/") + name)) << name << "\n" << messages();
    EXPECT_EQ(readBuiltModel(folder_, diagnostics_)->config.kvCacheType, KvCacheType::Paged) << name << messages();
    EXPECT_EQ(served(9),
              (std::vector<std::vector<TokenId>>{
                  {5, 6, 11, 0, 6, 0, 4, 6, 3}, {3, 6, 10, 5, 6, 3, 0, 6, 3}, {11, 0, 6, 11, 3, 5, 6, 4, 5}}))
        << name;
  }
}

// The place of the token is taken of a tensor that has it alone.
TEST_F(DecoderFiles, PlacesMayBeTakenOfATensor) {
  ASSERT_TRUE(buildsFile("language/single_listed.pt2")) << messages();
  EXPECT_EQ(served(9), (std::vector<std::vector<TokenId>>{
                           {5, 6, 11, 0, 6, 0, 4, 6, 3}, {3, 6, 10, 5, 6, 3, 0, 6, 3}, {11, 0, 6, 11, 3, 5, 6, 4, 5}}));
}

// Why the next call fails is told.
TEST_F(DecoderFiles, CallsThatAreRefusedAreToldWithTheirReason) {
  EXPECT_FALSE(buildsFile("language/grown_short.pt2"));
  EXPECT_NE(messages().find("what a call returns beside logits cannot be given to the next one for %keys, %values"),
            std::string::npos)
      << messages();
  EXPECT_NE(messages().find("the next one fails: dimension 2 of input %keys is "), std::string::npos) << messages();
  EXPECT_NE(messages().find(", but the program was exported for 0..3"), std::string::npos) << messages();
}

// A token without a dimension and a row of logits, or a token of each text.
TEST_F(DecoderFiles, TokensAndLogitsOfOneCallMayBeRows) {
  for (const char* name : {"state_row.pt2", "state_each.pt2"}) {
    const bool isEach = std::string(name) == "state_each.pt2";
    ASSERT_TRUE(buildsFile(std::string("language/") + name)) << name << "\n" << messages();
    EXPECT_NE(messages().find("the model is for one token a call, and what this gives for several is not known"),
              std::string::npos)
        << name << messages();
    const std::vector<std::vector<TokenId>> rows{
        {3, 11, 11, 12, 12, 2, 5, 12, 2}, {5, 12, 10, 5, 9, 9, 9, 9, 9}, {3, 12, 2, 5, 10, 3, 2, 5, 10}},
        each{{2, 1, 4, 3, 2, 5, 12, 2, 1}, {5, 12, 2, 1, 2, 1, 4, 3, 2}, {3, 2, 1, 6, 11, 1, 2, 1, 4}};
    EXPECT_EQ(served(9), isEach ? each : rows) << name;
  }
}

// Of a program that says only among its outputs what becomes of a buffer, PyTorch's module keeps that.
TEST_F(DecoderFiles, WhatAProgramMakesOfItsBuffersGoesOn) {
  for (const char* name : {"recurrent_one.pt2", "state_one.pt2", "state_bare.pt2", "state_one.pt"}) {
    ASSERT_TRUE(buildsFile(std::string("language/") + name)) << messages();
    EXPECT_EQ(served(9), (std::vector<std::vector<TokenId>>{
                             {2, 1, 4, 3, 2, 5, 12, 2, 1}, {5, 12, 2, 1, 2, 1, 4, 3, 2}, {3, 2, 1, 6, 11, 1, 2, 1, 4}}))
        << name;
  }
}

// A trace has no sizes of what it is given: they follow from what is done to it, and from what is returned.
TEST_F(DecoderFiles, StatesOfTracesHaveTheSizesThatFit) {
  ASSERT_TRUE(buildsFile("language/gated.pt")) << messages();
  EXPECT_EQ(served(9), (std::vector<std::vector<TokenId>>{
                           {0, 0, 0, 0, 0, 0, 0, 0, 0}, {5, 5, 11, 5, 5, 5, 5, 5, 5}, {7, 7, 7, 0, 0, 0, 0, 0, 0}}));
  for (const char* name : {"static_given.pt", "static_scattered.pt"}) {
    ASSERT_TRUE(buildsFile(std::string("language/") + name)) << name << "\n" << messages();
    EXPECT_EQ(readBuiltModel(folder_, diagnostics_)->config.maxSeqLen, 24) << name;
    EXPECT_EQ(served(9),
              (std::vector<std::vector<TokenId>>{
                  {5, 6, 11, 0, 6, 0, 4, 6, 3}, {3, 6, 10, 5, 6, 3, 0, 6, 3}, {11, 0, 6, 11, 3, 5, 6, 4, 5}}))
        << name;
  }
}

// What is for one token a call may run with several, of which it takes the first: tests/tools/make_state_archives.py.
TEST_F(DecoderFiles, StatesOfOneTokenACallAreKept) {
  using Texts = std::vector<std::vector<TokenId>>;
  const Texts sums{{4, 4, 4, 4, 4, 4, 4, 4, 4}, {3, 8, 2, 8, 2, 8, 2, 8, 2}, {10, 3, 8, 8, 8, 10, 3, 8, 8}},
      window{{10, 11, 3, 4, 8, 3, 4, 8, 3}, {3, 7, 0, 7, 8, 3, 4, 0, 7}, {3, 4, 8, 3, 4, 8, 3, 4, 8}};
  const std::pair<const char*, Texts> models[] = {
      {"sums", sums},
      {"held", sums},
      {"lone", sums},
      {"lone_held", sums},
      {"handed_on", sums},
      {"placed", sums},
      {"relayed", {{4, 4, 8, 2, 4, 8, 4, 8, 2}, {8, 8, 4, 4, 8, 8, 4, 8, 4}, {3, 4, 10, 11, 1, 1, 1, 1, 1}}},
      {"delayed", {{3, 4, 7, 12, 0, 4, 10, 11, 3}, {11, 9, 0, 4, 8, 6, 8, 7, 12}, {6, 2, 7, 7, 0, 2, 4, 0, 4}}},
      {"window", window},
      {"taps", window},
      {"projected",
       {{7, 0, 10, 11, 3, 4, 10, 11, 3}, {10, 11, 3, 4, 10, 11, 3, 4, 10}, {3, 4, 10, 11, 3, 4, 10, 11, 3}}},
      {"cells", {{7, 0, 10, 11, 1, 7, 0, 10, 11}, {10, 11, 1, 7, 0, 10, 11, 1, 7}, {3, 4, 10, 11, 1, 10, 11, 1, 10}}},
      {"masked", {{4, 4, 4, 10, 4, 0, 10, 7, 12}, {2, 4, 0, 10, 11, 9, 11, 11, 9}, {4, 5, 12, 1, 4, 4, 12, 4, 8}}},
      {"masked_one", {{4, 4, 4, 10, 4, 0, 10, 7, 12}, {2, 4, 0, 10, 11, 9, 11, 11, 9}, {4, 5, 12, 1, 4, 4, 12, 4, 8}}},
      {"beside", {{7, 8, 10, 3, 8, 0, 7, 0, 7}, {3, 4, 11, 7, 11, 10, 0, 10, 10}, {8, 12, 7, 12, 7, 6, 3, 12, 7}}},
      {"after",
       {{12, 0, 0, 12, 12, 12, 12, 12, 12}, {8, 3, 11, 11, 11, 11, 11, 11, 11}, {11, 3, 12, 12, 5, 5, 7, 10, 11}}}};
  for (const auto& [name, tokens] : models) {
    ASSERT_TRUE(buildsFile(std::string("language/states_") + name + ".pt", {"max_seq_len=48"})) << name << "\n"
                                                                                                << messages();
    EXPECT_EQ(readBuiltModel(folder_, diagnostics_)->config.kvCacheType, KvCacheType::State) << name << messages();
    EXPECT_EQ(served(9), tokens) << name;
  }
}

// A dict and a list that the model asks whether they hold something are as they are in the first call.
TEST_F(DecoderFiles, ContainersOfCachesMayBeginEmpty) {
  const std::vector<std::vector<TokenId>> tokens{
      {4, 4, 4, 4, 4, 4, 4, 4, 4}, {1, 10, 11, 10, 11, 10, 11, 10, 11}, {3, 4, 0, 0, 0, 0, 0, 0, 0}};
  for (const char* name : {"asked", "sliced"}) {
    ASSERT_TRUE(buildsFile(std::string("language/states_") + name + ".pt")) << name << "\n" << messages();
    EXPECT_EQ(served(9), tokens) << name;
  }
}

// tests/tools/make_cached_gpt2.py
TEST_F(DecoderFiles, CachesComeBackAsViews) {
  ASSERT_TRUE(buildsFile("language/gpt2_cached.pt")) << messages();
  EXPECT_EQ(readBuiltModel(folder_, diagnostics_)->config.kvCacheType, KvCacheType::Paged) << messages();
  EXPECT_EQ(served(9), (std::vector<std::vector<TokenId>>{{7, 11, 11, 7, 11, 7, 11, 7, 11},
                                                          {7, 11, 7, 11, 7, 11, 7, 11, 7},
                                                          {11, 11, 11, 11, 11, 11, 11, 11, 11}}));
}

TEST_F(DecoderFiles, StatesThatMayBeOtherOutputsAreRefused) {
  EXPECT_FALSE(buildsFile("language/states_extra.pt"));
  EXPECT_NE(messages().find("2 tensors of the form of %state come back beside logits"), std::string::npos)
      << messages();
}

TEST_F(DecoderFiles, StatesThatAllBeforeTheLastTokenIsInAreNotLeftOut) {
  EXPECT_FALSE(buildsFile("language/states_left_out.pt"));
  EXPECT_NE(messages().find("calls that are given for %s what the one before returned say another text"),
            std::string::npos)
      << messages();
}

TEST_F(DecoderFiles, WindowsOfWhichNothingTellsTheLengthAreRefused) {
  for (const char* name : {"shifted", "rolled", "ring", "padded"}) {
    EXPECT_FALSE(buildsFile(std::string("language/states_") + name + ".pt")) << name;
    EXPECT_NE(messages().find("what %inputs stands for is not known"), std::string::npos) << messages();
    EXPECT_NE(messages().find("need sizes: this file has none"), std::string::npos) << messages();
  }
}

TEST_F(DecoderFiles, StatesThatMayBeginInSeveralWaysAreRefused) {
  EXPECT_FALSE(buildsFile("language/states_unmasked.pt"));
  EXPECT_NE(messages().find("what %keys stands for is not known"), std::string::npos) << messages();
  EXPECT_FALSE(buildsFile("language/states_cut.pt"));
  EXPECT_NE(messages().find("what %last stands for is not known"), std::string::npos) << messages();
  EXPECT_FALSE(buildsFile("language/states_unchanged.pt"));
  EXPECT_NE(messages().find("what %sums stands for is not known"), std::string::npos) << messages();
}

TEST_F(DecoderFiles, StatesThatComeBackInAnotherOrderAreRefused) {
  EXPECT_FALSE(buildsFile("language/states_swapped.pt"));
  EXPECT_NE(messages().find("calls that are given for %keys, %values, %last, %seen what the one before returned say "
                            "another text"),
            std::string::npos)
      << messages();
}

TEST_F(DecoderFiles, AttributesThatAreContainersAreNamed) {
  EXPECT_FALSE(buildsFile("language/states_listed.pt"));
  EXPECT_NE(messages().find("the attribute kept is a Tensor[], and what a model keeps in such is not read"),
            std::string::npos)
      << messages();
}

// Ids that are padding take no row of the table of positions. A step has no more texts than the program takes.
TEST_F(DecoderFiles, TextsOfAStepAreThoseOfAnExport) {
  ASSERT_TRUE(buildsFile("language/padded_batch.pt2")) << messages();
  Result<BuiltModel> built = readBuiltModel(folder_, diagnostics_);
  EXPECT_EQ(built->config.kvCacheType, KvCacheType::State);
  EXPECT_EQ(built->config.maxBatchSize, 4);
  EXPECT_NE(messages().find("max_batch_size is 4: the program was exported for so many texts"), std::string::npos)
      << messages();
  EXPECT_TRUE(std::ranges::all_of(built->states, [](const KeptState& s) { return s.batch >= 0; }));
  EXPECT_EQ(served(9),
            (std::vector<std::vector<TokenId>>{
                {1, 7, 0, 11, 1, 7, 1, 11, 0}, {3, 6, 10, 5, 6, 3, 0, 6, 3}, {12, 4, 4, 2, 1, 2, 1, 11, 1}}));
}

TEST_F(DecoderFiles, TextsAreAsLongAsTheModelRunsToTheToken) {
  const Decoder d = decoderOfUncountedPlaces();
  ASSERT_TRUE(builds(d)) << messages();
  EXPECT_EQ(readBuiltModel(folder_, diagnostics_)->config.maxSeqLen, kPositions);
}

}  // namespace
}  // namespace tscompile::test
