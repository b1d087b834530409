#include "frontend/files/made_folder.h"

#include <filesystem>

namespace tscompile {

MadeFolder::MadeFolder(const std::string& path) : path_(path) {
  std::error_code error;
  for (std::filesystem::path p = path; !p.empty() && !std::filesystem::exists(p, error); p = p.parent_path())
    made_.insert(made_.begin(), p.string());
  std::filesystem::create_directories(path, error);
  if (error || !std::filesystem::is_directory(path, error)) failure_ = error ? error.message() : "Not a directory";
}

MadeFolder::~MadeFolder() {
  std::error_code ignored;
  for (auto folder = made_.rbegin(); folder != made_.rend(); ++folder)
    if (std::filesystem::is_directory(*folder, ignored)) std::filesystem::remove(*folder, ignored);
}

bool MadeFolder::check(Diagnostics& diagnostics) const {
  if (!failure_.empty()) diagnostics.fileError(path_, {}, "the folder cannot be made: " + failure_, ErrorKind::Io);
  return failure_.empty();
}

}  // namespace tscompile
