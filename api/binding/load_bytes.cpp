#include "api/binding/load_bytes.h"

#include "api/model_file.h"
#include "frontend/files/file_kind.h"

#include <cerrno>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

namespace tscompile {
namespace {

// A file of the process alone, which goes when nothing maps it any more.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view bytes) : file_(memfd_create("tscompile", MFD_CLOEXEC)) {
    while (file_ >= 0 && !bytes.empty()) {
      ssize_t count = ::write(file_, bytes.data(), bytes.size());
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) return;
      bytes.remove_prefix(static_cast<size_t>(count));
    }
    complete_ = file_ >= 0;
  }
  ~MemoryFile() {
    if (file_ >= 0) ::close(file_);
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  bool complete() const { return complete_; }
  std::string path() const { return "/proc/self/fd/" + std::to_string(file_); }

 private:
  int file_;
  bool complete_ = false;
};

// Whether Module::load() tells it from text by its content.
bool hasWeightsInside(std::string_view bytes) {
  return bytes.starts_with("PK") || detectFileKind(bytes.substr(0, kFileKindBytes)) == FileKind::EngineFile;
}

}  // namespace

Result<Module> loadBytes(std::string_view bytes, const std::string& name, const LoadOptions& options, SourceName& said,
                         Diagnostics& diagnostics) {
  if (!hasWeightsInside(bytes)) {
    if (!checkGraphText(name, bytes, diagnostics)) return Failed{};
    return Module::fromText(std::string(bytes), name, options, diagnostics);
  }
  MemoryFile file(bytes);
  if (!file.complete()) {
    diagnostics.fileError(name, {}, std::string("the bytes do not fit into memory once more: ") + std::strerror(errno),
                          ErrorKind::Limit);
    return Failed{};
  }
  said = {file.path(), name};
  LoadOptions named = options;
  named.name = name;
  return Module::load(file.path(), named, diagnostics);
}

}  // namespace tscompile
