// The choice between tactics: by the model, by measuring, by a cache.
#include "runtime/engine/network/tactics.h"

#include <gtest/gtest.h>

namespace tscompile {
namespace {

constexpr ConvShape kShape{.inChannels = 32,
                           .outChannels = 32,
                           .inHeight = 14,
                           .inWidth = 14,
                           .kernelHeight = 3,
                           .kernelWidth = 3,
                           .padTop = 1,
                           .padLeft = 1,
                           .padBottom = 1,
                           .padRight = 1};

EngineOptions withCache(bool measure) {
  EngineOptions options;
  options.tactics = std::make_shared<TacticCache>();
  options.measureTactics = measure;
  return options;
}

TEST(Tactics, TheCacheComesFirst) {
  const ConvTactic& byModel = chooseConvTactic(kShape, {}, 1);
  EXPECT_STRNE(byModel.name, "im2col");
  EngineOptions options = withCache(false);
  EXPECT_EQ(&chooseConvTactic(kShape, options, 1), &byModel);
  EXPECT_EQ(options.tactics->text(), "tscompile tactics 1\n");  // the model's choice is no measurement
  options.measureTactics = true;
  const ConvTactic& byTime = chooseConvTactic(kShape, options, 1);
  std::string text = options.tactics->text();
  EXPECT_NE(text.find(std::string("on 1 threads ")), std::string::npos) << text;
  EXPECT_NE(text.find(std::string(": ") + byTime.name + "\n"), std::string::npos) << text;

  // The same measurement with another outcome.
  size_t at = text.rfind(": ");
  Diagnostics diagnostics;
  EngineOptions changed = withCache(true);
  ASSERT_TRUE(changed.tactics->read(text.substr(0, at) + ": im2col\n", "tactics.txt", diagnostics));
  EXPECT_STREQ(chooseConvTactic(kShape, changed, 1).name, "im2col");
  changed.measureTactics = false;
  EXPECT_EQ(&chooseConvTactic(kShape, changed, 2), &byModel);  // of other threads it says nothing
}

TEST(Tactics, KeepToTheirWorkspace) {
  for (const ConvTactic* t : convTactics()) {
    if (!t->accepts(kShape)) continue;
    EngineOptions options = withCache(true);
    options.tactics->timingRuns = 1;
    options.tactics->workspaceLimit = static_cast<size_t>(t->workspace(kShape, WeightStorage::F32));
    const ConvTactic& chosen = chooseConvTactic(kShape, options, 1);
    EXPECT_LE(chosen.workspace(kShape, WeightStorage::F32), t->workspace(kShape, WeightStorage::F32))
        << chosen.name << " instead of " << t->name;
  }
  // What every shape needs is there whatever the limit.
  EngineOptions none = withCache(false);
  none.tactics->workspaceLimit = 0;
  ConvShape dilated = kShape;
  dilated.inChannels = dilated.outChannels = 3;
  dilated.dilationHeight = 2;
  EXPECT_TRUE(chooseConvTactic(dilated, none, 1).accepts(dilated));
}

TEST(Tactics, MeasuringTakesWhatRuns) {
  EngineOptions options;
  options.measureTactics = true;
  for (int64_t groups : {1, 4, 32}) {
    ConvShape shape = kShape;
    shape.groups = groups;
    const ConvTactic& t = chooseConvTactic(shape, options, 2);
    EXPECT_TRUE(t.accepts(shape));
  }
}

TEST(Tactics, OtherTextsAreRefused) {
  const char* texts[] = {"", "tactics\n", "tscompile tactics 1\nno colon\n", "tscompile tactics 1\nconv: fastest\n"};
  for (const char* text : texts) {
    Diagnostics diagnostics;
    TacticCache cache;
    EXPECT_FALSE(cache.read(text, "tactics.txt", diagnostics)) << text;
    EXPECT_EQ(diagnostics.errorCount(), 1u);
  }
}

}  // namespace
}  // namespace tscompile
