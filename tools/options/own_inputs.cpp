#include "tools/options/own_inputs.h"

#include "api/model_file.h"
#include "ir/support/text.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <unistd.h>

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

namespace {

// Why nothing can be written to a folder; empty: it can.
std::string folderFault(const std::filesystem::path& folder) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(folder, error);
  if (status.type() == std::filesystem::file_type::not_found) return std::strerror(ENOENT);
  if (status.type() != std::filesystem::file_type::directory) return error ? error.message() : std::strerror(ENOTDIR);
  return access(folder.c_str(), W_OK) == 0 ? "" : std::strerror(errno);
}

std::string fileFault(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) return std::strerror(EISDIR);
  if (std::filesystem::exists(path, ignored)) return access(path.c_str(), W_OK) == 0 ? "" : std::strerror(errno);
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  return folderFault(folder.empty() ? "." : folder);
}

// Of a folder that is made with those above it.
std::string newFolderFault(const std::string& path) {
  std::filesystem::path there = std::filesystem::absolute(path).lexically_normal();
  std::error_code ignored;
  while (!std::filesystem::exists(there, ignored) && there.has_relative_path()) there = there.parent_path();
  return folderFault(there);
}

}  // namespace

bool checkOutputPlaces(const Options& options, Diagnostics& diagnostics) {
  constexpr std::array<std::string_view, 3> kFiles = {"compile", "report", "profile"};
  const std::string_view verb = options.verb->name;
  std::error_code ignored;
  const bool isOfFolder =
      verb == "refit" && !options.arguments.empty() && std::filesystem::is_directory(options.arguments[0], ignored);
  for (const SaidOption& said : options.said)
    for (const std::string& path : said.values) {
      const bool isOutput = said.name == "--output";
      const bool isFolder =
          (isOutput && (verb == "build" || isOfFolder)) || (said.name == "--outputs" && verb == "run");
      const bool isFile = (isOutput && (isOneOf(verb, kFiles) || (verb == "refit" && !isOfFolder))) ||
                          (said.name == "--trace" && verb == "profile");
      const std::string fault = path.empty() || path == "-" ? ""
                                : isFolder                  ? newFolderFault(path)
                                : isFile                    ? fileFault(path)
                                                            : "";
      if (fault.empty()) continue;
      diagnostics.fileError(path, {}, (isFolder ? "the folder cannot be made: " : "cannot write: ") + fault,
                            ErrorKind::Io);
      return false;
    }
  return true;
}

}  // namespace tscompile
