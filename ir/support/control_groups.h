// What the control groups of this process leave it, as containers and services set it.
#pragma once

#include <cstdint>
#include <istream>
#include <optional>
#include <string>

namespace tscompile {

struct ControlGroupLimits {
  uint64_t memory = UINT64_MAX;      // bytes
  std::optional<double> processors;  // processor time per time
};

ControlGroupLimits controlGroupLimits();
// Those of the groups that lines of /proc/PID/cgroup name, in the file system at `root`.
ControlGroupLimits controlGroupLimits(std::istream& groups, const std::string& root);

}  // namespace tscompile
