// Files of tests as text (or bytes), and a folder for them that goes away.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tscompile::test {

// Empty for a file that cannot be read.
std::string readText(const std::string& path);
void writeText(const std::string& path, std::string_view text);

// A folder that goes with its object.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(std::string_view name) const { return path_ + "/" + std::string(name); }
  // Writes a file and returns its path.
  std::string write(std::string_view name, std::string_view text) const;
  size_t fileCount() const;

 private:
  std::string path_;
};

}  // namespace tscompile::test
