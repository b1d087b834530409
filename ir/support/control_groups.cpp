#include "ir/support/control_groups.h"

#include "ir/support/quantities.h"

#include <algorithm>
#include <fstream>

namespace tscompile {
namespace {

std::string wordIn(const std::string& path, int index = 0) {
  std::ifstream file(path);
  std::string word;
  for (int i = 0; i <= index; ++i)
    if (!(file >> word)) return "";
  return word;
}

bool hasWord(const std::string& list, const std::string& word) {
  return ("," + list + ",").find("," + word + ",") != std::string::npos;
}

class Hierarchies {
 public:
  Hierarchies(std::string root, ControlGroupLimits& limits) : root_(std::move(root)), limits_(limits) {}

  // A limit of a group bounds those inside. What a container sees ends with its own group.
  void add(const std::string& controllers, std::string group) {
    if (group == "/") group.clear();
    addGroup(controllers, group);
    while (!group.empty()) {
      group.resize(group.find('/') == std::string::npos ? 0 : group.rfind('/'));
      addGroup(controllers, group);
    }
  }

 private:
  void addGroup(const std::string& controllers, const std::string& group) {
    if (controllers.empty()) {
      boundMemory(wordIn(root_ + group + "/memory.max"));
      boundProcessors(wordIn(root_ + group + "/cpu.max"), wordIn(root_ + group + "/cpu.max", 1));
    }
    // Version 1: each controller has a hierarchy of its own.
    if (hasWord(controllers, "memory")) boundMemory(wordIn(root_ + "/memory" + group + "/memory.limit_in_bytes"));
    if (const std::string at = root_ + "/cpu" + group; hasWord(controllers, "cpu"))
      boundProcessors(wordIn(at + "/cpu.cfs_quota_us"), wordIn(at + "/cpu.cfs_period_us"));
  }

  // Words that are no numbers, or none, are no limits: "max", "-1".
  void boundMemory(const std::string& bytes) {
    limits_.memory = std::min(limits_.memory, parseCount(bytes).value_or(UINT64_MAX));
  }
  void boundProcessors(const std::string& quota, const std::string& period) {
    const std::optional<uint64_t> time = parseCount(quota), of = parseCount(period);
    if (!time || !of || *of == 0) return;
    const double processors = static_cast<double>(*time) / static_cast<double>(*of);
    limits_.processors = std::min(processors, limits_.processors.value_or(processors));
  }

  std::string root_;
  ControlGroupLimits& limits_;
};

}  // namespace

ControlGroupLimits controlGroupLimits(std::istream& groups, const std::string& root) {
  ControlGroupLimits limits;
  Hierarchies hierarchies(root, limits);
  for (std::string line; std::getline(groups, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second != std::string::npos)
      hierarchies.add(line.substr(first + 1, second - first - 1), line.substr(second + 1));
  }
  return limits;
}

ControlGroupLimits controlGroupLimits() {
  std::ifstream groups("/proc/self/cgroup");
  return controlGroupLimits(groups, "/sys/fs/cgroup");
}

}  // namespace tscompile
