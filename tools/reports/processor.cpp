#include "tools/reports/processor.h"

#include "ir/support/text.h"
#include "runtime/call/thread_pool.h"

#include <fstream>

namespace tscompile {

std::string processorName() {
  std::string name;
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; name.empty() && std::getline(info, line);)
    if (startsWith(line, "model name"))
      if (size_t colon = line.find(':'); colon != std::string::npos)
        name = trim(std::string_view(line).substr(colon + 1));
  return name + (name.empty() ? "" : ", ") + counted(static_cast<uint64_t>(defaultThreads()), "processor");
}

}  // namespace tscompile
