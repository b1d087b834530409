// Files that hold an input, commands, and what these must print; and the console blocks of documents.
#pragma once

#include <string>
#include <vector>

namespace tscompile::test {

// Runs the commands of a golden file and compares everything that they print. With `update` the expectations are
// rewritten instead. Returns what is wrong, or "".
std::string checkGolden(const std::string& path, bool update);

// The same for the ```console blocks of a markdown file whose commands start with `$ tscompile`. They run in a folder
// where `samples` is that of the repository.
std::string checkDocument(const std::string& path, bool update);
// Whether a document has such a block.
bool hasConsole(const std::string& path);

}  // namespace tscompile::test
