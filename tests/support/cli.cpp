#include "tests/support/cli.h"

#include "tools/driver.h"

#include <sstream>

namespace tscompile::test {

CliResult runCli(const std::vector<std::string>& args, const std::string& input) {
  std::istringstream in(input);
  std::ostringstream out, err;
  CliResult result;
  result.code = run(args, in, out, err);
  result.out = out.str();
  result.err = err.str();
  return result;
}

CliResult runCliCombined(const std::vector<std::string>& args, const std::string& input) {
  std::istringstream in(input);
  std::ostringstream both;
  CliResult result;
  result.code = run(args, in, both, both);
  result.out = both.str();
  return result;
}

std::vector<std::string> shellWords(std::string_view line) {
  std::vector<std::string> words;
  bool inWord = false;
  char quote = 0;
  for (size_t i = 0; i < line.size(); ++i) {
    char c = line[i];
    if (quote) {
      if (c == quote)
        quote = 0;
      else if (c == '\\' && quote == '"' && i + 1 < line.size() && (line[i + 1] == '"' || line[i + 1] == '\\'))
        words.back() += line[++i];
      else
        words.back() += c;
      continue;
    }
    if (c == ' ' || c == '\t') {
      inWord = false;
      continue;
    }
    if (!inWord) words.emplace_back();
    inWord = true;
    if (c == '\'' || c == '"')
      quote = c;
    else if (c == '\\' && i + 1 < line.size())
      words.back() += line[++i];
    else
      words.back() += c;
  }
  return words;
}

}  // namespace tscompile::test
