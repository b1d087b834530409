#include "tools/options/own_inputs.h"

#include "api/model_file.h"
#include "ir/support/text.h"

#include <algorithm>
#include <array>
#include <filesystem>

namespace tscompile {
namespace {

template <size_t N>
bool isOneOf(std::string_view name, const std::array<std::string_view, N>& names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::vector<std::string> filesRead(const Options& options) {
  constexpr std::array<std::string_view, 5> kReading = {"--weights", "--rules", "--inputs", "--against",
                                                        "--against-weights"};
  std::vector<std::string> out = options.arguments;
  for (const SaidOption& said : options.said)
    if (isOneOf(said.name, kReading)) out.insert(out.end(), said.values.begin(), said.values.end());
  return out;
}

// What is written for `--output PATH`: the file, the tensors beside a text, the files of a folder.
std::vector<std::string> filesWritten(const std::string& path) {
  std::vector<std::string> out{path, path + "/model.ir", path + "/model.safetensors"};
  if (path.ends_with(".ir")) out.push_back(path.substr(0, path.size() - 3) + ".safetensors");
  return out;
}

bool isSameFile(const std::string& a, const std::string& b) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(a, ignored) && std::filesystem::equivalent(a, b, ignored);
}

bool isTextOverText(const Options& options, const std::string& file) {
  constexpr std::array<std::string_view, 6> kWriteText = {"parse",   "lower",     "rewrite",
                                                          "extract", "partition", "convert"};
  return isOneOf(options.verb->name, kWriteText) && modelFileOf(file) == ModelFile::Text &&
         std::find(options.arguments.begin(), options.arguments.end(), file) != options.arguments.end();
}

}  // namespace

void checkOutputIsNoInput(const Options& options) {
  constexpr std::array<std::string_view, 3> kWriting = {"--output", "--trace", "--timing-cache"};
  if (options.verb->name == "refit") return;
  const std::vector<std::string> read = filesRead(options);
  for (const SaidOption& said : options.said) {
    if (!isOneOf(said.name, kWriting)) continue;
    for (const std::string& path : said.values)
      for (const std::string& file : filesWritten(path))
        for (const std::string& input : read)
          if (isSameFile(file, input) && !isTextOverText(options, input))
            throw UsageError{said.name + " " + abbreviate(path, 200) + " would write over " + abbreviate(input, 200) +
                             ", which is read"};
  }
}

}  // namespace tscompile
