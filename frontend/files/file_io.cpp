#include "frontend/files/file_io.h"

#include "ir/support/file_pages.h"
#include "ir/support/text.h"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <limits>
#include <mutex>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

namespace tscompile {
namespace {

std::string errorText(int error) { return std::generic_category().message(error); }

// Closes what it opened.
struct File {
  File(int file, bool owned) : file(file), owned(owned) {}
  ~File() {
    if (owned && file >= 0) ::close(file);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  const int file;
  const bool owned;
};

// Of a file.
std::string folderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

std::string kindText(mode_t mode) { return S_ISDIR(mode) ? errorText(EISDIR) : "Not a regular file"; }

// The name in the same folder that a misspelt one is nearest to; empty: there is none.
std::string nearestFile(const std::string& path) {
  constexpr size_t kMostFiles = 10'000;
  const size_t slash = path.rfind('/');
  NearestName nearest(path.substr(slash == std::string::npos ? 0 : slash + 1));
  std::error_code error;
  size_t count = 0;
  for (std::filesystem::directory_iterator at(folderOf(path), error), end; !error && at != end && count < kMostFiles;
       at.increment(error), ++count)
    nearest.consider(at->path().filename().string());
  return nearest.found() && slash != std::string::npos ? path.substr(0, slash + 1) + nearest.name() : nearest.name();
}

void cannotRead(const std::string& path, const std::string& why, Diagnostics& diagnostics,
                ErrorKind kind = ErrorKind::Io, const std::string& meant = "") {
  Diagnostic& error = diagnostics.fileError(path, {}, "cannot read: " + why, kind);
  if (!meant.empty()) error.note("did you mean '" + abbreviate(meant, 200) + "'?");
  if (path.starts_with('@') && access(path.c_str() + 1, F_OK) == 0)
    error.note("there is '" + abbreviate(path.substr(1), 80) + "': '@' stands before a name only within NAME=@FILE");
}
void cannotRead(const std::string& path, int error, Diagnostics& diagnostics) {
  const std::string meant = error == ENOENT ? nearestFile(path) : "";
  cannotRead(path, errorText(error), diagnostics, error == ENOMEM ? ErrorKind::Limit : ErrorKind::Io, meant);
}

// Opens a regular file and tells its size; -1 after a report. Does not wait for the writer of a pipe.
int openRegular(const std::string& path, uint64_t& size, Diagnostics& diagnostics) {
  int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (file < 0) {
    cannotRead(path, errno, diagnostics);
    return -1;
  }
  struct stat info;
  if (::fstat(file, &info) != 0) {
    cannotRead(path, errno, diagnostics);
  } else if (!S_ISREG(info.st_mode)) {
    cannotRead(path, kindText(info.st_mode), diagnostics);
  } else {
    size = static_cast<uint64_t>(info.st_size);
    return file;
  }
  ::close(file);
  return -1;
}

// Appends what is left of a file, but at most `limit` bytes. Returns an errno.
int readUpTo(int file, uint64_t limit, std::string& out) {
  constexpr size_t kPiece = size_t{1} << 20;
  while (out.size() < limit) {
    size_t had = out.size();
    size_t room = out.capacity() - had;
    size_t want = std::min<uint64_t>(limit - had, room > 0 ? room : kPiece);
    out.resize(had + want);
    ssize_t got = ::read(file, out.data() + had, want);
    int error = errno;
    out.resize(had + static_cast<size_t>(std::max<ssize_t>(got, 0)));
    if (got == 0) return 0;
    if (got < 0 && error != EINTR) return error;
  }
  return 0;
}

}  // namespace

Result<std::string> readFileStart(const std::string& path, uint64_t count, Diagnostics& diagnostics) {
  uint64_t size = 0;
  bool isInput = path == "-";
  File file(isInput ? STDIN_FILENO : openRegular(path, size, diagnostics), !isInput);
  if (file.file < 0) return Failed{};
  std::string bytes;
  bytes.reserve(std::min(size, count) + 1);  // one more, so that the end is seen without growing
  if (int error = readUpTo(file.file, count, bytes)) {
    cannotRead(path, error, diagnostics);
    return Failed{};
  }
  return bytes;
}

Result<std::string> readFile(const std::string& path, uint64_t limit, Diagnostics& diagnostics) {
  uint64_t oneMore = limit == std::numeric_limits<uint64_t>::max() ? limit : limit + 1;
  Result<std::string> bytes = readFileStart(path, oneMore, diagnostics);
  if (bytes && bytes->size() > limit) {
    diagnostics.fileError(path, {}, fmt::format("the file has more than {} bytes", limit), ErrorKind::Limit);
    return Failed{};
  }
  return bytes;
}

bool writeFile(const std::string& path, std::string_view bytes, Diagnostics& diagnostics) {
  FileWriter writer(path, diagnostics);
  return writer.write(bytes) && writer.commit();
}

// ---- FileWriter ----

namespace {
// Names of files that are not committed, for removeUnfinishedFiles(). Whoever finds no place here is not removed.
std::atomic<const char*> gUnfinished[64];
}  // namespace

void removeUnfinishedFiles() {
  for (auto& slot : gUnfinished)
    if (const char* path = slot.load()) ::unlink(path);
}

namespace {

constexpr std::string_view kPrefix = ".tscompile-", kSuffix = ".tmp";

// Locks a file for as long as it is open, however that ends: so that nobody takes it for one that was left. False, with
// EEXIST, if somebody has done so before it was locked.
bool claim(int file) {
  struct stat info;
  while (::flock(file, LOCK_EX) != 0 && errno == EINTR) {
  }
  bool isThere = ::fstat(file, &info) != 0 || info.st_nlink > 0;
  errno = EEXIST;
  return isThere;
}

// Removes a file that nobody writes any more.
void removeIfLeft(const std::string& path) {
  File file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW), true);
  if (file.file >= 0 && ::flock(file.file, LOCK_EX | LOCK_NB) == 0) ::unlink(path.c_str());
}

// Temporary files of processes that were killed. A folder is looked through once.
void removeLeftFiles(const std::string& folder) {
  static std::mutex mutex;
  static std::string latest;
  std::lock_guard lock(mutex);
  if (folder == latest) return;
  latest = folder;
  std::error_code error;
  for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    std::string name = it->path().filename().string();
    if (startsWith(name, kPrefix) && endsWith(name, kSuffix)) removeIfLeft(it->path().string());
  }
}

// Its folder would let it be replaced, but who made it read-only wants to keep it.
std::string readOnlyFault(const std::string& path) {
  if (::faccessat(AT_FDCWD, path.c_str(), W_OK, AT_EACCESS) == 0) return "";
  return errorText(errno) + ": the file that is there is read-only";
}

}  // namespace

void FileWriter::forgetTemporary() {
  for (auto& slot : gUnfinished) {
    const char* mine = temporary_.c_str();
    if (slot.compare_exchange_strong(mine, nullptr)) break;
  }
  temporary_.clear();
}

FileWriter::FileWriter(std::string path, Diagnostics& diagnostics) : path_(std::move(path)), diagnostics_(diagnostics) {
  struct stat info;
  bool replaces = ::stat(path_.c_str(), &info) == 0;
  if (replaces && !S_ISREG(info.st_mode)) {
    fail(kindText(info.st_mode));
    return;
  }
  if (const std::string fault = replaces ? readOnlyFault(path_) : ""; !fault.empty()) {
    fail(fault);
    return;
  }
  removeLeftFiles(folderOf(path_));
  // The name differs between processes and threads; O_EXCL catches what a killed process left.
  static std::atomic<uint64_t> counter{0};
  do {
    temporary_ = fmt::format("{}/{}{}-{}{}", folderOf(path_), kPrefix, ::getpid(), counter++, kSuffix);
    file_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (file_ >= 0 && !claim(file_)) ::close(std::exchange(file_, -1));
  } while (file_ < 0 && (errno == EEXIST || errno == EINTR));
  if (file_ < 0) {
    int error = errno;
    temporary_.clear();
    fail(errorText(error));
    return;
  }
  if (replaces) ::fchmod(file_, info.st_mode & 07777);
  for (auto& slot : gUnfinished) {
    const char* none = nullptr;
    if (slot.compare_exchange_strong(none, temporary_.c_str())) break;
  }
}

std::string folderFault(const std::string& folder) {
  struct stat info;
  if (::stat(folder.c_str(), &info) != 0) return errorText(errno);
  if (!S_ISDIR(info.st_mode)) return errorText(ENOTDIR);
  return ::faccessat(AT_FDCWD, folder.c_str(), W_OK, AT_EACCESS) == 0 ? "" : errorText(errno);
}

// A file is replaced by a new one, which its folder has to take; files that nobody is to write are left as they are.
std::string fileFault(const std::string& path) {
  struct stat info;
  if (::stat(path.c_str(), &info) == 0) {
    if (!S_ISREG(info.st_mode)) return kindText(info.st_mode);
    if (std::string fault = readOnlyFault(path); !fault.empty()) return fault;
  }
  return folderFault(folderOf(path));
}

FileWriter::~FileWriter() {
  if (file_ >= 0) ::close(file_);
  if (temporary_.empty()) return;
  ::unlink(temporary_.c_str());
  forgetTemporary();
}

bool FileWriter::fail(const std::string& why) {
  diagnostics_.fileError(path_, {}, "cannot write: " + why, ErrorKind::Io);
  if (file_ >= 0) ::close(file_);
  file_ = -1;
  return false;
}

bool FileWriter::write(std::string_view bytes) {
  if (file_ < 0) return false;
  while (!bytes.empty()) {
    ssize_t done = ::write(file_, bytes.data(), std::min<size_t>(bytes.size(), size_t{1} << 30));
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return fail(errorText(errno));
    bytes.remove_prefix(static_cast<size_t>(done));
  }
  return true;
}

bool FileWriter::finish() {
  if (file_ < 0) return false;
  if (finished_) return true;
  while (::fsync(file_) != 0)
    if (errno != EINTR) return fail(errorText(errno));
  return finished_ = true;
}

bool FileWriter::commit() {
  if (!finish()) return false;
  while (::rename(temporary_.c_str(), path_.c_str()) != 0)
    if (errno != EINTR) return fail(errorText(errno));
  forgetTemporary();
  // All is written, and an interrupted close has closed.
  ::close(std::exchange(file_, -1));
  // The rename lasts through a power failure once the folder is written; not every file system can be asked for that.
  if (int dir = ::open(folderOf(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); dir >= 0) {
    ::fsync(dir);
    ::close(dir);
  }
  return true;
}

// ---- FileMapping ----

Ref<FileMapping> FileMapping::open(const std::string& path, Diagnostics& diagnostics) {
  uint64_t size = 0;
  File file(openRegular(path, size, diagnostics), true);
  if (file.file < 0) return nullptr;
  const char* data = nullptr;
  if (size > 0) {
    void* memory = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.file, 0);
    if (memory == MAP_FAILED) {
      cannotRead(path, errno, diagnostics);
      return nullptr;
    }
    data = static_cast<const char*>(memory);
    addFilePages(data, size);
  }
  return Ref<FileMapping>::adopt(new FileMapping(data, size));
}

FileMapping::~FileMapping() {
  if (size_ == 0) return;
  removeFilePages(data_);
  ::munmap(const_cast<char*>(data_), size_);
}

}  // namespace tscompile
