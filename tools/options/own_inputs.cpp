#include "tools/options/own_inputs.h"

#include "api/model_file.h"
#include "frontend/files/file_io.h"
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

Written writtenBy(const Options& options, const SaidOption& said) {
  for (const OptionSpec& option : options.verb->options)
    if (std::ranges::count(namesOf(option), said.name) > 0) return option.written;
  return Written::Nothing;
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
  const std::vector<std::string> read = filesRead(options);
  for (const SaidOption& said : options.said) {
    if (const Written what = writtenBy(options, said); what == Written::Nothing || what == Written::AsArgument)
      continue;
    for (const std::string& path : said.values)
      for (const std::string& file : filesWritten(path))
        for (const std::string& input : read)
          if (isSameFile(file, input) && !isTextOverText(options, input))
            throw UsageError{said.name + " " + abbreviate(path, 200) + " would write over " + abbreviate(input, 200) +
                             ", which is read"};
  }
}

namespace {

// Why nothing can be written to a folder that is made with those above it; empty: it can.
std::string newFolderFault(const std::string& path) {
  std::filesystem::path there = std::filesystem::absolute(path).lexically_normal();
  std::error_code ignored;
  while (!std::filesystem::exists(there, ignored) && there.has_relative_path()) there = there.parent_path();
  return folderFault(there);
}

bool isFolder(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored);
}

bool checkPlace(const std::string& path, bool makesFolder, Diagnostics& diagnostics) {
  const std::string fault = path.empty() || path == "-" ? "" : makesFolder ? newFolderFault(path) : fileFault(path);
  if (fault.empty()) return true;
  diagnostics.fileError(path, {}, (makesFolder ? "the folder cannot be made: " : "cannot write: ") + fault,
                        ErrorKind::Io);
  return false;
}

}  // namespace

bool checkOutputPlaces(const Options& options, Diagnostics& diagnostics) {
  const bool isOfFolder = !options.arguments.empty() && isFolder(options.arguments[0]);
  bool isSaid = false;
  for (const SaidOption& said : options.said) {
    const Written what = writtenBy(options, said);
    if (what == Written::Nothing || what == Written::Cache) continue;
    isSaid = true;
    const bool makesFolder = what == Written::Folder || (what == Written::AsArgument && isOfFolder);
    for (const std::string& path : said.values)
      if (!checkPlace(path, makesFolder, diagnostics)) return false;
  }
  // What refit is not told a place for takes the place of what it is given.
  const bool replaces =
      std::ranges::any_of(options.verb->options, [](const OptionSpec& o) { return o.written == Written::AsArgument; });
  if (!replaces || isSaid || options.arguments.empty()) return true;
  std::error_code ignored;
  return !std::filesystem::exists(options.arguments[0], ignored) ||
         checkPlace(options.arguments[0], isOfFolder, diagnostics);
}

}  // namespace tscompile
