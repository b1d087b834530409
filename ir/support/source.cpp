#include "ir/support/source.h"

#include <algorithm>
#include <mutex>

namespace tscompile {

SourceFile::SourceFile(std::string path, std::string text) : path_(std::move(path)), text_(std::move(text)) {}

SourcePtr SourceFile::make(std::string path, std::string text) {
  return SourcePtr(new SourceFile(std::move(path), std::move(text)));
}

const std::vector<uint32_t>& SourceFile::lineStarts() const {
  static std::mutex mutex;  // one for all files: lines are asked for only to report something
  std::lock_guard lock(mutex);
  if (lineStarts_.empty()) {
    lineStarts_.push_back(0);
    for (size_t i = text_.find('\n'); i != std::string::npos; i = text_.find('\n', i + 1))
      lineStarts_.push_back(static_cast<uint32_t>(i + 1));
  }
  return lineStarts_;
}

LineColumn SourceFile::lineColumn(uint32_t offset) const {
  const auto& starts = lineStarts();
  auto next = std::upper_bound(starts.begin(), starts.end(), offset);
  return {static_cast<uint32_t>(next - starts.begin()), offset - *(next - 1) + 1};
}

std::string_view SourceFile::lineText(uint32_t line) const {
  const auto& starts = lineStarts();
  if (line == 0 || line > starts.size()) return {};
  std::string_view all = text();
  size_t begin = starts[line - 1];
  size_t end = line < starts.size() ? starts[line] - 1 : all.size();
  while (end > begin && all[end - 1] == '\r') --end;
  return all.substr(begin, end - begin);
}

}  // namespace tscompile
