// Tokens of a word, or of a text whose spaces are marks, without merges.
#pragma once

#include "runtime/llm/prefix_tree.h"
#include "runtime/llm/tokens.h"

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace tscompile {

// Kudo 2018: of all ways to write a text the likeliest, by Viterbi's algorithm.
class UnigramModel {
 public:
  void add(std::string_view token, double score);
  // Parts in their order; neighbours that are no token are one part. A character that is no token counts as less likely
  // than all that are.
  using Part = std::function<void(std::string_view)>;
  void encode(std::string_view text, std::string_view unknown, const Part& part) const;

 private:
  PrefixTree tokens_;
  std::vector<double> scores_;
  double least_ = 0;
};

// Schuster and Nakajima 2012: the longest token that a word begins with, then the longest of those that go on.
class WordPieceModel {
 public:
  std::string goesOn = "##";  // what tokens begin with that go on with a word
  size_t mostCharacters = 100;

  void add(std::string_view token, TokenId id);
  // False, with nothing appended, for a word that is not made of tokens.
  bool encode(std::string_view word, std::vector<TokenId>& out) const;

 private:
  PrefixTree first_, others_;  // others without their mark
};

}  // namespace tscompile
