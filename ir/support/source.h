// Source texts and places in them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tscompile {

struct LineColumn {
  uint32_t line = 0;    // 1-based
  uint32_t column = 0;  // 1-based, in bytes
};

// A text and the name it goes by in messages. Texts are at most 4 GiB, so offsets fit in 32 bits.
class SourceFile : public std::enable_shared_from_this<SourceFile> {
 public:
  static std::shared_ptr<const SourceFile> make(std::string path, std::string text);

  const std::string& path() const { return path_; }
  std::string_view text() const { return {text_.data(), text_.size()}; }
  LineColumn lineColumn(uint32_t offset) const;
  // The text of a 1-based line, without its line end.
  std::string_view lineText(uint32_t line) const;

 private:
  SourceFile(std::string path, std::string text);
  const std::vector<uint32_t>& lineStarts() const;

  std::string path_;
  std::string text_;
  mutable std::vector<uint32_t> lineStarts_;  // made at the first question
};

using SourcePtr = std::shared_ptr<const SourceFile>;

// A half-open range of bytes of one text. The text must outlive the range: graphs keep theirs alive.
struct SourceRange {
  const SourceFile* file = nullptr;
  uint32_t begin = 0;
  uint32_t end = 0;

  bool valid() const { return file != nullptr; }
  std::string_view text() const { return valid() ? file->text().substr(begin, end - begin) : std::string_view(); }
};

}  // namespace tscompile
