#include "tests/support/golden_file.h"

#include "frontend/files/section_file.h"
#include "ir/support/text.h"
#include "tests/support/cli.h"
#include "tests/support/text_file.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <regex>
#include <sstream>

namespace tscompile::test {
namespace {

std::vector<std::string> linesOf(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

void replaceAll(std::string& text, const std::string& from, const std::string& to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

// The first line that differs, for a message.
std::string difference(const std::string& expected, const std::string& found) {
  std::vector<std::string> a = linesOf(expected), b = linesOf(found);
  size_t i = 0;
  while (i < a.size() && i < b.size() && a[i] == b[i]) ++i;
  std::string out = "line " + std::to_string(i + 1) + ":\n";
  out += "  expected: " + (i < a.size() ? a[i] : "<end>") + "\n";
  out += "  found:    " + (i < b.size() ? b[i] : "<end>") + "\n";
  return out + "all that was found:\n" + found;
}

// Numbers, which no two measurements share, as N, with one space before them.
std::string withoutNumbers(const std::string& text) {
  static const std::regex number(" *\\b[0-9]+(\\.[0-9]+)?(e[+-]?[0-9]+)?\\b");
  return std::regex_replace(text, number, " N");
}

// The same of times in JSON alone.
std::string withoutTimes(const std::string& text) {
  static const std::regex time("(\"(first_token_)?ms\": )[0-9.]+");
  return std::regex_replace(text, time, "$1N");
}

// What rounding leaves, in which processors and compilers differ, as R.
std::string withoutRounding(const std::string& text) {
  static const std::regex small("\\b[0-9](\\.[0-9]+)?e-(0[5-9]|1[0-9])\\b");
  return std::regex_replace(text, small, "R");
}

// Checksums of texts whose places name folders of this machine.
std::string withoutTextSums(const std::string& text) {
  static const std::regex sum("(written_with_text = )[0-9a-f]{16}");
  return std::regex_replace(text, sum, "$1H");
}

constexpr std::string_view kNoLineEnd = "\\ no line end";

// "# " before each line.
std::string commented(const std::string& text) {
  std::string out;
  for (const std::string& line : linesOf(text)) out += line.empty() ? "#\n" : "# " + line + "\n";
  if (!text.empty() && text.back() != '\n') out += "# " + std::string(kNoLineEnd) + "\n";
  return out;
}

class GoldenFile {
 public:
  explicit GoldenFile(std::string path) : path_(std::move(path)), text_(readText(path_)) { read(); }

  std::string problem() const { return problem_; }
  const std::string& text() const { return text_; }

  // Runs everything and returns the file as it should be.
  std::string rewritten() {
    TemporaryFolder folder;
    std::string out = head_;
    for (size_t i = 0; i < commands_.size(); ++i) {
      if (i) out += "# RUN: " + commands_[i] + "\n";
      CliResult r = execute(commands_[i], folder);
      failed_ |= r.code != 0;
      if (!r.out.empty()) out += "# STDOUT\n" + commented(r.out);
      if (!r.err.empty()) out += "# STDERR\n" + commented(r.err);
      if (r.code != 0) out += "# EXIT " + std::to_string(r.code) + "\n";
    }
    return out;
  }
  bool failed() const { return failed_; }

  std::vector<GoldenRun> runs(const std::string& more) const {
    TemporaryFolder folder;
    std::vector<GoldenRun> out;
    for (const std::string& command : commands_) {
      const bool isSaid = command.find("--format") != std::string::npos;
      out.push_back({command, run(command, isSaid ? "" : " " + more, folder)});
    }
    return out;
  }

 private:
  static bool isExpectation(const std::string& line) {
    return line == "# STDOUT" || line == "# STDERR" || startsWith(line, "# EXIT ");
  }

  void read() {
    bool inHead = true;
    for (const std::string& line : linesOf(text_)) {
      if (startsWith(line, "# RUN: ")) {
        // A second command needs no expectation before it, so it ends the input as well.
        if (!commands_.empty()) inHead = false;
        commands_.push_back(line.substr(7));
      }
      if (isExpectation(line)) inHead = false;
      if (inHead) head_ += line + "\n";
    }
    if (commands_.empty()) problem_ = "there is no '# RUN: ' line";
  }

  std::string parent() const { return std::filesystem::path(path_).parent_path(); }

  CliResult run(const std::string& command, const std::string& more, const TemporaryFolder& folder) const {
    std::string line = command, input;
    bool takesFile = line.find("%s") == std::string::npos;
    static constexpr const char* kVerbs[] = {"parse",   "lint",    "lower",     "run",   "bench",
                                             "profile", "inspect", "partition", "verify"};
    takesFile &= line.find("%-") == std::string::npos &&
                 std::any_of(std::begin(kVerbs), std::end(kVerbs),
                             [&](const char* v) { return line.substr(0, line.find(' ')) == v; });
    if (takesFile) line += " %s";
    if (size_t at = line.find(" < %s"); at != std::string::npos) {
      input = text_;
      line.erase(at, 5);
    }
    replaceAll(line, "%-", "");
    replaceAll(line, "%s", path_);
    replaceAll(line, "%S", parent());
    replaceAll(line, "%t", folder.path());
    return runCli(shellWords(line + more), input);
  }

  CliResult execute(const std::string& command, const TemporaryFolder& folder) const {
    CliResult r = run(command, "", folder);
    for (std::string* text : {&r.out, &r.err}) {
      replaceAll(*text, parent() + "/", "");
      replaceAll(*text, parent(), "%S");
      replaceAll(*text, folder.path(), "%t");
      *text = withoutTextSums(*text);
      // What is printed is part of the file, too.
      replaceAll(*text, fmt::format("checksum {:016x}", checksumOf(text_)), "checksum of %s");
      if (r.code == 0 && (startsWith(command, "bench ") || startsWith(command, "profile ")))
        *text = withoutNumbers(*text);
      if (startsWith(command, "generate ")) *text = withoutTimes(*text);
    }
    return r;
  }

  std::string path_, text_, problem_, head_;
  std::vector<std::string> commands_;
  bool failed_ = false;
};

}  // namespace

std::vector<GoldenRun> runGolden(const std::string& path, const std::string& more) {
  return GoldenFile(path).runs(more);
}

std::string checkGolden(const std::string& path, bool update) {
  // What stands after the input is part of the file too: places at its end settle at the second try.
  for (int tries = 0;; ++tries) {
    GoldenFile file(path);
    if (!file.problem().empty()) return file.problem();
    std::string wanted = file.rewritten();
    if (wanted != file.text() && update && tries < 3) {
      writeText(path, wanted);
      continue;
    }
    if (wanted != file.text()) return difference(file.text(), wanted);
    bool bad = startsWith(std::filesystem::path(path).filename().string(), "bad_");
    if (bad != file.failed())
      return bad ? "the name starts with bad_, but every command succeeds"
                 : "a command fails, but the name does not start with bad_";
    return "";
  }
}

// ---- documents ----

namespace {

class Document {
 public:
  explicit Document(const std::string& text) : lines_(linesOf(text)) {}

  std::string rewritten() {
    std::string out;
    for (size_t i = 0; i < lines_.size(); ++i) {
      out += lines_[i] + "\n";
      if (lines_[i] != "```console" || i + 1 >= lines_.size() || !startsWith(lines_[i + 1], "$ tscompile")) continue;
      for (++i; i < lines_.size() && lines_[i] != "```"; ++i)
        if (startsWith(lines_[i], "$ tscompile")) out += lines_[i] + "\n" + shown(lines_[i].substr(11));
      out += "```\n";
    }
    return out;
  }

 private:
  // What a terminal shows after the command.
  static std::string shown(std::string line) {
    bool tellCode = endsWith(line, "; echo $?");
    if (tellCode) line.resize(line.size() - 9);
    std::string input;
    if (size_t at = line.find(" < "); at != std::string::npos) {
      input = readText(std::string(trim(std::string_view(line).substr(at + 3))));
      line.resize(at);
    }
    CliResult r = runCliCombined(shellWords(line), input);
    if (!r.out.empty() && r.out.back() != '\n') r.out += '\n';
    return r.out + (tellCode ? std::to_string(r.code) + "\n" : "");
  }

  std::vector<std::string> lines_;
};

}  // namespace

bool hasConsole(const std::string& path) { return readText(path).find("```console\n$ tscompile") != std::string::npos; }

std::string checkDocument(const std::string& path, bool update) {
  std::string text = readText(path);
  TemporaryFolder folder;
  std::filesystem::path before = std::filesystem::current_path(), root = TSCOMPILE_SOURCE_DIR;
  std::filesystem::create_directory_symlink(root / "samples", folder / "samples");
  std::filesystem::current_path(folder.path());
  std::string wanted = Document(text).rewritten();
  std::filesystem::current_path(before);
  if (withoutRounding(wanted) == withoutRounding(text)) return "";
  if (!update) return difference(text, wanted);
  writeText(path, wanted);
  return "";
}

}  // namespace tscompile::test
