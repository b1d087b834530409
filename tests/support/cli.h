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

}  // namespace tscompile::test
