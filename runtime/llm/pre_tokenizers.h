// What tokenizer files call pre_tokenizers: steps that cut a text into the pieces that are encoded one by one. Some
// change it: spaces become marks, bytes become characters.
#pragma once

#include "frontend/files/json_tree.h"

#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace tscompile {

inline constexpr std::string_view kSpaceMark = "\u2581";

// GPT-2's files write bytes as characters: those that Latin-1 prints as themselves, the others, in their order, as
// U+0100, U+0101 and so on.
void appendInAlphabet(std::string_view bytes, std::string& text);
// Appends the bytes that the text stands for; false if a character stands for none.
bool bytesOfAlphabet(std::string_view text, std::string& bytes);

struct Piece {
  std::string_view text;
  bool isFirst = false;  // begins where all does
};

// Of a text, in their order; none is empty.
class Pieces {
 public:
  // Views into `text`.
  Pieces(std::string_view text, bool isFirst);
  const std::vector<Piece>& list() const { return list_; }

  using Parts = std::vector<std::string_view>;
  // Each becomes those of its parts that `cut` appends.
  void cut(const std::function<void(std::string_view piece, Parts& parts)>& cut);
  // Each becomes what `change` appends.
  void change(const std::function<void(const Piece& piece, std::string& text)>& change);

 private:
  std::vector<Piece> list_;
  std::deque<std::string> made_;
};

using PreTokenizer = std::function<void(Pieces&)>;

struct PreTokenizers {
  std::vector<PreTokenizer> steps;
  bool makesBytes = false;  // characters of GPT-2's alphabet, for bytes
  double growth = 1;        // how many times as long texts may become
};

// What of a file is not done here.
struct Unsupported {
  JsonTree::Value at;
  std::string what;
};

// Appends the steps of a pre_tokenizer. False with a reason.
bool readPreTokenizer(const JsonTree::Value& v, PreTokenizers& out, Unsupported& why);
// That of vocab.json with merges.txt.
PreTokenizers gpt2PreTokenizer();

}  // namespace tscompile
