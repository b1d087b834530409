#include "runtime/llm/stop_texts.h"

#include <gtest/gtest.h>

namespace tscompile::test {
namespace {

// What comes out piece by piece.
std::vector<std::string> pieces(StopTexts stop, const std::vector<std::string>& in) {
  std::vector<std::string> out;
  for (const std::string& piece : in) out.push_back(stop.push(piece));
  out.push_back(stop.finish());
  return out;
}
using Pieces = std::vector<std::string>;

TEST(StopTexts, EndWhereOneBegins) {
  EXPECT_EQ(pieces(StopTexts({"END"}), {"a E", "N", "D b", "c"}), (Pieces{"a ", "", "", "", ""}));
  EXPECT_EQ(pieces(StopTexts({"\n\n"}), {"a\n", "b\n", "\n", "c"}), (Pieces{"a", "\nb", "", "", ""}));
  EXPECT_EQ(pieces(StopTexts({"b", "ab"}), {"xa", "b"}), (Pieces{"x", "", ""})) << "the first to begin";
}

TEST(StopTexts, WhatOnlyLooksLikeOneComesLater) {
  EXPECT_EQ(pieces(StopTexts({"abab", "abd"}), {"ab", "a", "c", "ab"}), (Pieces{"", "", "abac", "", "ab"}));
  EXPECT_EQ(pieces(StopTexts({"aab"}), {"a", "a", "a", "c"}), (Pieces{"", "", "a", "aac", ""}));
}

TEST(StopTexts, TellsWhetherOneWasThere) {
  StopTexts stop({"x"});
  stop.push("abc");
  EXPECT_FALSE(stop.found());
  stop.push("dxe");
  EXPECT_TRUE(stop.found());
}

}  // namespace
}  // namespace tscompile::test
