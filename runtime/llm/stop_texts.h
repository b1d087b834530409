// Ends a text that comes in pieces where one of some texts begins, wherever tokens end.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tscompile {

class StopTexts {
 public:
  // None of them is empty.
  explicit StopTexts(std::vector<std::string> texts) : texts_(std::move(texts)) {}

  // What is sure to belong to the text: nothing of a stop text, and nothing that may be the beginning of one.
  std::string push(std::string_view piece);
  // What is left when no more comes.
  std::string finish();
  // A stop text was there; what follows is passed over.
  bool found() const { return found_; }

 private:
  std::vector<std::string> texts_;
  std::string held_;
  bool found_ = false;
};

}  // namespace tscompile
