// A folder that a command writes to.
#pragma once

#include "ir/support/diagnostics.h"

#include <string>
#include <vector>

namespace tscompile {

// Makes it, with those above it. What it has made and what is still empty at its end is removed again, so that a
// command that could write nothing leaves nothing.
class MadeFolder {
 public:
  explicit MadeFolder(const std::string& path);
  ~MadeFolder();
  MadeFolder(const MadeFolder&) = delete;
  MadeFolder& operator=(const MadeFolder&) = delete;

  // Whether it is there; reports that it is not.
  bool check(Diagnostics& diagnostics) const;

 private:
  std::string path_, failure_;
  std::vector<std::string> made_;  // from the outermost on
};

}  // namespace tscompile
