// What tokens stand for, as the decoder of a tokenizer file says it: each by itself, so that texts can be written while
// they come.
#pragma once

#include "runtime/llm/pre_tokenizers.h"

namespace tscompile {

class TokenSpelling {
 public:
  // Appends the steps of a decoder. False with a reason.
  bool read(const JsonTree::Value& decoder, Unsupported& why);
  // Of a file without one: bytes, or words with spaces between them.
  static TokenSpelling without(bool areBytes);

  // Added tokens stand for themselves, not for bytes.
  std::string operator()(std::string_view token, bool isAdded) const;
  // Of whole texts.
  bool dropsFirstSpace = false, dropsLastSpace = false;

 private:
  bool replace(const JsonTree::Value& v, Unsupported& why);
  bool strip(const JsonTree::Value& v, Unsupported& why);
  bool wordPiece(const JsonTree::Value& v);
  bool add(std::function<std::string(std::string_view)> step);
  // False if tokens may become too long by this and all steps before.
  bool growsBy(double factor);

  struct Step {
    std::function<std::string(std::string_view)> spell;
    bool isForAdded = true;
  };
  std::vector<Step> steps_;
  bool isFused_ = false;  // what follows is said of whole texts
  double growth_ = 1;     // how many times as long tokens may become
};

}  // namespace tscompile
