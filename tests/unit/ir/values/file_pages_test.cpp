#include "ir/support/file_pages.h"

#include "tests/support/text_file.h"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

namespace tscompile::test {
namespace {

// How many pages of a mapping this process has touched and not given back, as /proc/self/smaps counts them.
size_t residentBytes(const void* data) {
  std::string smaps = readText("/proc/self/smaps");
  char start[32];
  std::snprintf(start, sizeof(start), "%lx-", reinterpret_cast<unsigned long>(data));
  size_t at = smaps.find(std::string("\n") + start);
  if (at == std::string::npos) return 0;
  at = smaps.find("\nRss:", at);
  return std::stoul(smaps.substr(at + 5)) * 1024;
}

TEST(FilePages, GoBackToTheSystemAndAreReadAgain) {
  TemporaryFolder folder;
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE)), size = 64 * page;
  writeText(folder / "file", std::string(size, 'x'));
  int file = open((folder / "file").c_str(), O_RDONLY);
  ASSERT_GE(file, 0);
  auto* data = static_cast<char*>(mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0));
  close(file);
  ASSERT_NE(data, MAP_FAILED);
  addFilePages(data, size);
  auto sum = [&] {
    size_t count = 0;
    for (size_t i = 0; i < size; ++i) count += data[i] == 'x';
    return count;
  };
  EXPECT_EQ(sum(), size);
  EXPECT_EQ(residentBytes(data), size);
  // Only pages that lie wholly inside, and nothing that reaches past the file.
  releaseFilePages(data + 1, page);
  releaseFilePages(data, size + 1);
  EXPECT_EQ(residentBytes(data), size);
  releaseFilePages(data, size);
  EXPECT_LT(residentBytes(data), size);
  EXPECT_EQ(sum(), size);
  removeFilePages(data);
  releaseFilePages(data, size);
  EXPECT_EQ(residentBytes(data), size);
  munmap(data, size);
}

TEST(FilePages, OtherMemoryStays) {
  std::vector<char> memory(1 << 20, 'x');
  releaseFilePages(memory.data(), memory.size());
  EXPECT_EQ(std::string(memory.begin(), memory.end()), std::string(1 << 20, 'x'));
}

}  // namespace
}  // namespace tscompile::test
