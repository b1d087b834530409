#include "tools/session/machine_memory.h"

#include "ir/support/quantities.h"

#include <algorithm>
#include <fstream>
#include <string>
#include <sys/resource.h>
#include <unistd.h>

namespace tscompile {
namespace {

uint64_t numberIn(const std::string& path) {
  std::ifstream file(path);
  std::string text;
  file >> text;
  return parseCount(text).value_or(UINT64_MAX);  // "max", or no such file
}

// Version 2: the limit of a group bounds those inside. Version 1: a file of its own hierarchy.
uint64_t controlGroupLimit() {
  uint64_t limit = UINT64_MAX;
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    std::string controllers = line.substr(first + 1, second - first - 1), group = line.substr(second + 1);
    bool v2 = controllers.empty();
    if (!v2 && controllers.find("memory") == std::string::npos) continue;
    std::string root = v2 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory";
    std::string file = v2 ? "/memory.max" : "/memory.limit_in_bytes";
    while (true) {
      limit = std::min(limit, numberIn(root + (group == "/" ? "" : group) + file));
      if (group.empty() || group == "/") break;
      group.resize(group.rfind('/'));
    }
  }
  return limit;
}

}  // namespace

uint64_t availableMemory() {
  uint64_t memory = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  memory = std::min(memory, controlGroupLimit());
  rlimit space{};
  if (getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY)
    memory = std::min<uint64_t>(memory, space.rlim_cur);
  return memory;
}

uint64_t peakMemory() {
  rusage usage{};
  return getrusage(RUSAGE_SELF, &usage) == 0 ? static_cast<uint64_t>(usage.ru_maxrss) * 1024 : 0;
}

}  // namespace tscompile
