// Loaded in front of the C library (LD_PRELOAD): the n-th allocation or the n-th step of writing files fails.
//
//   TS_FAULT=alloc:N         the N-th allocation fails; alloc:N+ all from there on
//   TS_FAULT=thread-ends     what the C library takes to note destructors of thread_local objects fails
//   TS_FAULT=file:N:FAULT    the N-th open, write, fsync, rename or close of a file that is written: FAULT is KILL,
//                            ENOSPC, EIO or EINTR
//   TS_FAULT_COUNT=FILE      writes how many of each there were
//
// Nothing here allocates.
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);
}

namespace {

std::atomic<long> gAllocations{0}, gFileCalls{0};
long gFailAllocation = 0, gFailFile = 0;
bool gAllFollowing = false, gKills = false, gFailThreadEnds = false;
thread_local bool tNotesThreadEnd = false;
int gError = 0;

bool startsWith(const char* text, const char* with) { return std::strncmp(text, with, std::strlen(with)) == 0; }

[[gnu::constructor]] void readEnvironment() {
  const char* fault = std::getenv("TS_FAULT");
  if (!fault) return;
  char* end = nullptr;
  if (startsWith(fault, "alloc:")) {
    gFailAllocation = std::strtol(fault + 6, &end, 10);
    gAllFollowing = *end == '+';
    gAllocations = 0;
  } else if (startsWith(fault, "thread-ends")) {
    gFailThreadEnds = true;
  } else if (startsWith(fault, "file:")) {
    gFailFile = std::strtol(fault + 5, &end, 10);
    gKills = std::strcmp(end, ":KILL") == 0;
    gError = std::strcmp(end, ":ENOSPC") == 0 ? ENOSPC : std::strcmp(end, ":EIO") == 0 ? EIO : EINTR;
  }
}

[[gnu::destructor]] void tellCounts() {
  const char* path = std::getenv("TS_FAULT_COUNT");
  if (!path) return;
  long allocations = gAllocations, calls = gFileCalls;
  char text[64];
  int length = std::snprintf(text, sizeof text, "%ld %ld\n", allocations, calls);
  long file = syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  syscall(SYS_write, file, text, length);
  syscall(SYS_close, file);
}

bool allocationFails() {
  long n = ++gAllocations;
  if (tNotesThreadEnd) return true;
  if (gFailAllocation == 0 || (n != gFailAllocation && !(gAllFollowing && n > gFailAllocation))) return false;
  errno = ENOMEM;
  return true;
}

bool fileFails() {
  if (++gFileCalls != gFailFile) return false;
  if (gKills) {
    kill(getpid(), SIGKILL);
    pause();
  }
  errno = gError;
  return true;
}

// Files that a command writes, not its standard streams and not what it only reads.
bool isWritten(int file) { return file > 2 && (fcntl(file, F_GETFL) & O_ACCMODE) != O_RDONLY; }

long result(long value) { return value; }  // syscall() has set errno

}  // namespace

extern "C" {

void* malloc(size_t bytes) { return allocationFails() ? nullptr : __libc_malloc(bytes); }
void* calloc(size_t count, size_t bytes) { return allocationFails() ? nullptr : __libc_calloc(count, bytes); }
void* realloc(void* memory, size_t bytes) { return allocationFails() ? nullptr : __libc_realloc(memory, bytes); }
void* aligned_alloc(size_t alignment, size_t bytes) {
  return allocationFails() ? nullptr : __libc_memalign(alignment, bytes);
}
int posix_memalign(void** memory, size_t alignment, size_t bytes) {
  if (allocationFails()) return ENOMEM;
  *memory = __libc_memalign(alignment, bytes);
  return *memory ? 0 : ENOMEM;
}

int __cxa_thread_atexit_impl(void (*end)(void*), void* object, void* library) {
  using Function = int (*)(void (*)(void*), void*, void*);
  static const auto note = reinterpret_cast<Function>(dlsym(RTLD_NEXT, "__cxa_thread_atexit_impl"));
  tNotesThreadEnd = gFailThreadEnds;
  const int noted = note(end, object, library);
  tNotesThreadEnd = false;
  return noted;
}

ssize_t write(int file, const void* bytes, size_t count) {
  if (isWritten(file) && fileFails()) return -1;
  return result(syscall(SYS_write, file, bytes, count));
}
int fsync(int file) {
  if (fileFails()) return -1;
  return static_cast<int>(result(syscall(SYS_fsync, file)));
}
int rename(const char* from, const char* to) {
  if (fileFails()) return -1;
  return static_cast<int>(result(syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0)));
}
int close(int file) {
  bool fails = isWritten(file) && fileFails();
  long closed = syscall(SYS_close, file);
  return fails ? -1 : static_cast<int>(closed);
}
int open(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  int mode = va_arg(rest, int);
  va_end(rest);
  if ((flags & O_ACCMODE) != O_RDONLY && fileFails()) return -1;
  return static_cast<int>(result(syscall(SYS_openat, AT_FDCWD, path, flags, mode)));
}

}  // extern "C"
