// What lowering tells of itself on the command line where that is no golden: times differ.
#include "tests/support/cli.h"
#include "tests/support/json.h"

#include <gtest/gtest.h>

namespace tscompile::test {
namespace {

constexpr const char* kRewritten =
    "graph(%x : Float(2)):\n  %a : Float(2) = aten::neg(%x)\n  %b : Float(2) = aten::neg(%a)\n"
    "  %c : Float(2) = aten::exp(%b)\n  %d : Float(2) = aten::exp(%b)\n  return (%c, %d)\n";

// The first part of a profile with this name; null if there is none.
const Json& part(const Json& profile, const std::string& name) {
  static const Json kNone;
  for (const char* list : {"rewriters", "rewrites"})
    for (const Json& p : profile[list].items)
      if (p["name"].text == name) return p;
  return kNone;
}

}  // namespace

TEST(LowerProfile, JsonTellsWhatWasApplied) {
  CliResult r = runCli({"lower", "-", "--passes", "merge1,neg_neg,remove_dead_code", "--profile", "json"}, kRewritten);
  ASSERT_EQ(r.code, 0) << r.err;
  Json profile = parseJson(r.err);
  EXPECT_EQ(profile["name"].text, "lowering");
  EXPECT_EQ(profile["class"].text, "SequentialGraphRewriter");
  EXPECT_EQ(profile["nodes_before"].number, 4);
  EXPECT_EQ(profile["nodes_after"].number, 2);
  const Json& canonicalize = part(profile, "canonicalize");
  EXPECT_EQ(canonicalize["class"].text, "EquilibriumGraphRewriter");
  EXPECT_EQ(part(canonicalize, "neg_neg")["applied"].number, 1);
  EXPECT_GE(part(canonicalize, "neg_neg")["time"].number, 0);
  for (const char* name : {"merge1", "remove_dead_code"}) EXPECT_FALSE(part(profile, name).isNull()) << name;
}

TEST(LowerProfile, TextHasTheLayoutOfTheProfile) {
  CliResult r = runCli({"lower", "-", "--passes", "neg_neg", "--profile", "text"}, kRewritten);
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(r.err.find("Rewriter Profile\n----------------\n SequentialGraphRewriter  lowering  time 0."), 0u) << r.err;
  for (const char* line : {"s for 4/2 nodes before/after rewriting\n",
                           "     EquilibriumGraphRewriter      canonicalize\n", " - 1 - 0 - neg_neg\n"})
    EXPECT_NE(r.err.find(line), std::string::npos) << line << r.err;
  EXPECT_NE(r.out.find("aten::exp(%x)"), std::string::npos);
}

}  // namespace tscompile::test
