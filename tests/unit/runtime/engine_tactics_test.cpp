// The choice between tactics: by the model, by measuring, by a cache.
#include "runtime/engine/tactics.h"

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

TEST(Tactics, TheCacheComesFirst) {
  const ConvTactic& byModel = chooseConvTactic(kShape, nullptr, false, 1);
  EXPECT_STRNE(byModel.name, "im2col");
  TacticCache cache;
  EXPECT_EQ(&chooseConvTactic(kShape, &cache, false, 1), &byModel);
  EXPECT_EQ(cache.text(), "tscompile tactics 1\n");  // the model's choice is no measurement
  const ConvTactic& byTime = chooseConvTactic(kShape, &cache, true, 1);
  std::string text = cache.text();
  EXPECT_NE(text.find(std::string("on 1 threads ")), std::string::npos) << text;
  EXPECT_NE(text.find(std::string(": ") + byTime.name + "\n"), std::string::npos) << text;

  // The same measurement with another outcome.
  size_t at = text.rfind(": ");
  Diagnostics diagnostics;
  TacticCache changed;
  ASSERT_TRUE(changed.read(text.substr(0, at) + ": im2col\n", "tactics.txt", diagnostics));
  EXPECT_STREQ(chooseConvTactic(kShape, &changed, true, 1).name, "im2col");
  EXPECT_EQ(&chooseConvTactic(kShape, &changed, false, 2), &byModel);  // of other threads it says nothing
}

TEST(Tactics, MeasuringTakesWhatRuns) {
  for (int64_t groups : {1, 4, 32}) {
    ConvShape shape = kShape;
    shape.groups = groups;
    const ConvTactic& t = chooseConvTactic(shape, nullptr, true, 2);
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
