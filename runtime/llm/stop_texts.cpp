#include "runtime/llm/stop_texts.h"

#include "ir/support/text.h"

#include <algorithm>
#include <utility>

namespace tscompile {

std::string StopTexts::push(std::string_view piece) {
  if (found_) return "";
  held_ += piece;
  size_t first = std::string::npos;
  for (const std::string& text : texts_) first = std::min(first, held_.find(text));
  if (first != std::string::npos) {
    found_ = true;
    return std::exchange(held_, "").substr(0, first);
  }
  // The longest end that is the beginning of a stop text waits.
  size_t keep = 0;
  for (const std::string& text : texts_)
    for (size_t n = std::min(text.size() - 1, held_.size()); n > keep; --n)
      if (endsWith(held_, std::string_view(text).substr(0, n))) keep = n;
  std::string sure = held_.substr(0, held_.size() - keep);
  held_.erase(0, sure.size());
  return sure;
}

std::string StopTexts::finish() { return std::exchange(held_, ""); }

}  // namespace tscompile
