#include "tests/support/text_file.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>

namespace tscompile::test {

std::string readText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

void writeText(const std::string& path, std::string_view text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
}

TemporaryFolder::TemporaryFolder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "tscompile-test-XXXXXX").string();
  const char* made = mkdtemp(pattern.data());
  if (!made) throw std::runtime_error("cannot make a folder like " + pattern);
  path_ = made;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string TemporaryFolder::write(std::string_view name, std::string_view text) const {
  std::string path = *this / name;
  writeText(path, text);
  return path;
}

size_t TemporaryFolder::fileCount() const {
  auto all = std::filesystem::directory_iterator(path_);
  return static_cast<size_t>(std::distance(begin(all), end(all)));
}

}  // namespace tscompile::test
