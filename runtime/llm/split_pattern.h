// Regular expressions that tokenizer files cut text by, as Oniguruma reads them: classes of characters, groups with
// alternatives, quantifiers, and looking ahead.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tscompile {

class SplitPattern {
 public:
  // Nothing for an expression with anything else.
  static std::optional<SplitPattern> parse(std::string_view expression);

  // The end of a match that begins at `at`; `at` if there is none, or an empty one.
  size_t matchEnd(std::string_view text, size_t at) const;
  // Whether there are texts with empty matches.
  bool mayBeEmpty() const;
  // Where a match may begin next if none begins at `at`, inside the text.
  size_t afterMiss(std::string_view text, size_t at) const;

  struct Node;

 private:
  using Sequence = std::vector<Node>;
  friend class SplitPatternParser;

  std::shared_ptr<const Sequence> all_;
};

}  // namespace tscompile
