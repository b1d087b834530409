// Files that hold an input, commands, and what these must print; and the console blocks of documents.
#pragma once

#include "tests/support/cli.h"

#include <string>
#include <vector>

namespace tscompile::test {

// Runs the commands of a golden file and compares everything that they print. With `update` the expectations are
// rewritten instead. Returns what is wrong, or "".
std::string checkGolden(const std::string& path, bool update);

// The commands of a golden file with more words at their ends, and what they print. Those that say a --format keep it.
struct GoldenRun {
  std::string command;
  CliResult result;
};
std::vector<GoldenRun> runGolden(const std::string& path, const std::string& more);

// The same for the ```console blocks of a markdown file whose commands start with `$ tscompile`. They run in a folder
// where `samples` is that of the repository.
std::string checkDocument(const std::string& path, bool update);
// Whether a document has such a block.
bool hasConsole(const std::string& path);

}  // namespace tscompile::test
