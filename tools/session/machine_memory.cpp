#include "tools/session/machine_memory.h"

#include "ir/support/control_groups.h"

#include <algorithm>
#include <fstream>
#include <string>
#include <sys/resource.h>
#include <unistd.h>

namespace tscompile {

uint64_t availableMemory() {
  uint64_t memory = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  memory = std::min(memory, controlGroupLimits().memory);
  rlimit space{};
  if (getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY)
    memory = std::min<uint64_t>(memory, space.rlim_cur);
  return memory;
}

uint64_t peakMemory() {
  // What getrusage tells is no less than what the program had that started this one.
  std::ifstream status("/proc/self/status");
  uint64_t kilobytes = 0;
  for (std::string word; status >> word;)
    if (word == "VmHWM:") status >> kilobytes;
  return kilobytes * 1024;
}

}  // namespace tscompile
