#include "tools/reports/processor.h"

#include "ir/support/text.h"
#include "runtime/call/thread_pool.h"

#include <fmt/core.h>

#include <cstdlib>
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

std::string otherWork(int threads) {
  double load = 0;
  const bool isMore = getloadavg(&load, 1) == 1 && load > 0.5 + static_cast<double>(threads);
  return isMore ? fmt::format("the machine is busy with other work: its load is {:.1f}", load) : "";
}

}  // namespace tscompile
