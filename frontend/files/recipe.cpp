#include "frontend/files/recipe.h"

#include "frontend/files/tensor_formats.h"
#include "frontend/files/tensor_text.h"
#include "ir/support/text.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>

namespace tscompile {
namespace {

class RecipeReader {
 public:
  RecipeReader(SourcePtr source, Diagnostics& diagnostics, const Limits& limits)
      : source_(std::move(source)), diagnostics_(diagnostics), limits_(limits) {}

  bool readLine(size_t begin, size_t end);
  std::vector<std::pair<std::string, Tensor>> take() { return std::move(tensors_); }

 private:
  bool readName(TextCursor& c, std::string& name);

  SourcePtr source_;
  Diagnostics& diagnostics_;
  Limits limits_;  // generatedBytes: what is left
  std::vector<std::pair<std::string, Tensor>> tensors_;
  std::map<std::string, SourceRange, std::less<>> places_;
};

bool RecipeReader::readName(TextCursor& c, std::string& name) {
  size_t begin = c.at();
  std::string_view rest = c.rest();
  size_t length = std::min(rest.find_first_of(" \t\r=#"), rest.size());
  c.skip(length);
  name = rest.substr(0, length);
  if (name.empty()) return c.expected("the name of a tensor");
  if (length > limits_.identifierBytes)
    return c.failLimit(begin, fmt::format("the name has more than {} bytes", limits_.identifierBytes), "identifier");
  SourceRange range{source_.get(), static_cast<uint32_t>(begin), static_cast<uint32_t>(c.at())};
  auto [known, isNew] = places_.emplace(name, range);
  if (!isNew)
    c.error(begin, fmt::format("{} is defined again", tensorText(name))).note(known->second, "it was defined here");
  return isNew;
}

bool RecipeReader::readLine(size_t begin, size_t end) {
  TextCursor c(source_, diagnostics_, begin, end);
  c.skipBlanks();
  if (c.atEnd() || c.peek() == '#') return true;
  if (tensors_.size() == limits_.tensors)
    return c.failLimit(c.at(), fmt::format("the recipe has more than {} tensors", limits_.tensors), "tensors");
  std::string name;
  if (!readName(c, name)) return false;
  c.skipBlanks();
  if (!c.take('=')) return c.expected("'='");
  c.skipBlanks();
  if (!startsTensor(c)) return c.expected("a tensor such as 2x3:f32:zeros");
  Tensor tensor;
  if (!readTensorText(c, limits_, tensor)) return false;
  c.skipBlanks();
  if (!c.atEnd() && c.peek() != '#') return c.expected("the end of the line");
  limits_.generatedBytes -= std::min<uint64_t>(limits_.generatedBytes, tensor.storage()->bytes());
  tensors_.emplace_back(std::move(name), std::move(tensor));
  return true;
}

}  // namespace

Result<std::vector<std::pair<std::string, Tensor>>> parseRecipe(SourcePtr source, Diagnostics& diagnostics,
                                                                const Limits& limits) {
  RecipeReader reader(source, diagnostics, limits);
  std::string_view text = source->text();
  bool good = true;
  for (size_t begin = startsWith(text, "\xef\xbb\xbf") ? 3 : 0; begin < text.size();) {
    size_t end = std::min(text.find('\n', begin), text.size());
    good &= reader.readLine(begin, end);
    begin = end + 1;
    if (!good && diagnostics.full()) break;
  }
  if (!good) return Failed{};
  return reader.take();
}

}  // namespace tscompile
