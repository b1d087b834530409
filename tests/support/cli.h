// The command line tool, called in process.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tscompile::test {

struct CliResult {
  int code = 0;
  std::string out, err;
};

CliResult runCli(const std::vector<std::string>& args, const std::string& input = "");
// What a terminal would show: both streams in the order of writing.
CliResult runCliCombined(const std::vector<std::string>& args, const std::string& input = "");

// A command line as a shell splits it: blanks, quotes, backslashes.
std::vector<std::string> shellWords(std::string_view line);

std::string readText(const std::string& path);
void writeText(const std::string& path, std::string_view text);

// A folder that goes with its object.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }
  std::string operator/(std::string_view name) const { return path_ + "/" + std::string(name); }

 private:
  std::string path_;
};

}  // namespace tscompile::test
