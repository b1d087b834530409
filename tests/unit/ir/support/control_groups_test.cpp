#include "ir/support/control_groups.h"

#include "tests/support/text_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>

namespace tscompile {
namespace {

class ControlGroups : public testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(folder_ / path).parent_path());
    test::writeText(folder_ / path, text);
  }
  ControlGroupLimits limits(const std::string& groups) {
    std::istringstream lines(groups);
    return controlGroupLimits(lines, folder_.path());
  }
  test::TemporaryFolder folder_;
};

TEST_F(ControlGroups, WithoutFilesNothingIsLimited) {
  EXPECT_EQ(limits("0::/\n").memory, UINT64_MAX);
  EXPECT_FALSE(limits("0::/system.slice/a.service\n").processors);
  EXPECT_FALSE(limits("no line of it\n").processors);
}

TEST_F(ControlGroups, AServiceHasTheLeastOfWhatItIsIn) {
  write("system.slice/memory.max", "1000000\n");
  write("system.slice/a.service/memory.max", "max\n");
  write("system.slice/cpu.max", "400000 100000\n");
  write("system.slice/a.service/cpu.max", "150000 100000\n");
  const ControlGroupLimits found = limits("0::/system.slice/a.service\n");
  EXPECT_EQ(found.memory, 1000000u);
  EXPECT_EQ(found.processors, 1.5);
}

TEST_F(ControlGroups, AContainerSeesItsOwnGroupAtTheRoot) {
  write("memory.max", "4096\n");
  write("cpu.max", "50000 100000\n");
  for (const char* groups : {"0::/\n", "0::/docker/0123\n"}) {
    EXPECT_EQ(limits(groups).memory, 4096u);
    EXPECT_EQ(limits(groups).processors, 0.5);
  }
}

TEST_F(ControlGroups, NoLimitOfProcessorsIsNone) {
  write("cpu.max", "max 100000\n");
  write("cpu/cpu.cfs_quota_us", "-1\n");
  write("cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_FALSE(limits("0::/\n4:cpu,cpuacct:/\n").processors);
}

TEST_F(ControlGroups, TheFirstVersionHasAHierarchyForEachController) {
  write("memory/a/memory.limit_in_bytes", "8192\n");
  write("cpu/a/cpu.cfs_quota_us", "300000\n");
  write("cpu/a/cpu.cfs_period_us", "100000\n");
  const ControlGroupLimits found = limits("9:memory:/a\n4:cpu,cpuacct:/a\n3:cpuset:/b\n0::/\n");
  EXPECT_EQ(found.memory, 8192u);
  EXPECT_EQ(found.processors, 3.0);
  EXPECT_EQ(limits("9:pids:/a\n").memory, UINT64_MAX);
}

}  // namespace
}  // namespace tscompile
