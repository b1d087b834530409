// Files on disk: read whole, mapped into memory, or written so that a reader sees the old file or the new one.
#pragma once

#include "ir/support/diagnostics.h"
#include "ir/support/result.h"
#include "ir/values/refcount.h"

#include <string>
#include <string_view>

namespace tscompile {

// The whole of a regular file, or of standard input for "-". Reports what cannot be read, and (as a Limit) what has
// more than `limit` bytes.
Result<std::string> readFile(const std::string& path, uint64_t limit, Diagnostics& diagnostics);
// At most `count` first bytes.
Result<std::string> readFileStart(const std::string& path, uint64_t count, Diagnostics& diagnostics);

// Writes by way of a temporary file in the same folder that is renamed. Replaces regular files and symbolic links to
// them, nothing else.
bool writeFile(const std::string& path, std::string_view bytes, Diagnostics& diagnostics);

// The same in pieces. After a failure, which is reported once, all calls return false; without commit() nothing is
// left. What a process that was killed has left in the folder is removed. A file that is replaced keeps its mode.
class FileWriter {
 public:
  FileWriter(std::string path, Diagnostics& diagnostics);
  ~FileWriter();
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;

  bool write(std::string_view bytes);
  // Makes the bytes durable. Files that belong together are all finished before the first is committed: what can fail
  // then has happened.
  bool finish();
  // The same, and gives the file its name.
  bool commit();

 private:
  bool fail(const std::string& why);
  void forgetTemporary();

  std::string path_, temporary_;
  Diagnostics& diagnostics_;
  int file_ = -1;
  bool finished_ = false;
};

// Why a FileWriter could not write there, as far as that can be told before; empty: nothing is known.
std::string fileFault(const std::string& path);
// The same of files in a folder.
std::string folderFault(const std::string& folder);

// Removes what FileWriters of this process have not committed. For signal handlers that end the process.
void removeUnfinishedFiles();

// A regular file in memory, read-only, for as long as someone holds it. Reading bytes of a file that another process
// has cut short since raises SIGBUS.
class FileMapping : public RefCounted {
 public:
  // Null after a report.
  static Ref<FileMapping> open(const std::string& path, Diagnostics& diagnostics);
  std::string_view bytes() const { return {data_, size_}; }

 private:
  FileMapping(const char* data, size_t size) : data_(data), size_(size) {}
  ~FileMapping() override;

  const char* data_;
  size_t size_;
};

}  // namespace tscompile
