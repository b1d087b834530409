#include "ir/support/file_pages.h"

#include <cstdint>
#include <map>
#include <mutex>
#include <sys/mman.h>
#include <unistd.h>

namespace tscompile {
namespace {

struct Files {
  std::mutex mutex;
  std::map<uintptr_t, uintptr_t> ends;  // by begin
};

// Never destroyed: mappings may outlive static objects.
Files& files() {
  static Files* all = new Files;
  return *all;
}

uintptr_t addressOf(const void* data) { return reinterpret_cast<uintptr_t>(data); }

}  // namespace

void addFilePages(const void* data, size_t bytes) {
  std::lock_guard lock(files().mutex);
  files().ends[addressOf(data)] = addressOf(data) + bytes;
}

void removeFilePages(const void* data) {
  std::lock_guard lock(files().mutex);
  files().ends.erase(addressOf(data));
}

bool mayShowFile(const void* data) {
  std::unique_lock lock(files().mutex, std::try_to_lock);
  if (!lock.owns_lock()) return true;
  auto file = files().ends.upper_bound(addressOf(data));
  return file != files().ends.begin() && addressOf(data) < std::prev(file)->second;
}

void releaseFilePages(const void* data, size_t bytes) {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t begin = (addressOf(data) + page - 1) / page * page, end = (addressOf(data) + bytes) / page * page;
  if (begin >= end) return;
  std::lock_guard lock(files().mutex);
  auto file = files().ends.upper_bound(addressOf(data));
  if (file == files().ends.begin()) return;
  --file;
  if (addressOf(data) + bytes <= file->second) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

}  // namespace tscompile
