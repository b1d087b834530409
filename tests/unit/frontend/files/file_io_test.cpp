#include "frontend/files/file_io.h"

#include "tests/support/files.h"

#include <csignal>
#include <filesystem>
#include <sys/resource.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

namespace tscompile {
namespace {

using test::readText;
using test::shown;
using test::TemporaryFolder;

TEST(ReadFile, GivesTheWholeFileUpToItsLimit) {
  TemporaryFolder folder;
  std::string path = folder.write("a", "hello");
  Diagnostics d;
  EXPECT_EQ(*readFile(path, 5, d), "hello");
  EXPECT_EQ(*readFile(path, 1 << 20, d), "hello");
  EXPECT_EQ(*readFileStart(path, 3, d), "hel");
  EXPECT_EQ(*readFile(folder.write("empty", ""), 0, d), "");
  EXPECT_FALSE(d.hasErrors());
  EXPECT_FALSE(readFile(path, 4, d));
  EXPECT_EQ(d.firstErrorKind(), ErrorKind::Limit);
  EXPECT_EQ(shown(d), "a: error: the file has more than 4 bytes\n");
}

TEST(ReadFile, ReadsLargeFiles) {
  TemporaryFolder folder;
  std::string bytes(3'500'000, 'x');
  bytes[2'000'000] = 'y';
  Diagnostics d;
  EXPECT_EQ(*readFile(folder.write("large", bytes), 1 << 30, d), bytes);
}

TEST(ReadFile, ReportsWhatCannotBeRead) {
  TemporaryFolder folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  struct Row {
    std::string path;
    const char* message;
  };
  const Row rows[] = {
      {folder / "none", "none: error: cannot read: No such file or directory\n"},
      {folder.path(), ": error: cannot read: Is a directory\n"},
      {folder / "pipe", "pipe: error: cannot read: Not a regular file\n"},
      {"/dev/zero", "/dev/zero: error: cannot read: Not a regular file\n"},
      {folder.write("file", "") + "/x", "x: error: cannot read: Not a directory\n"},
  };
  for (const Row& r : rows) {
    Diagnostics d;
    EXPECT_FALSE(readFile(r.path, 100, d));
    EXPECT_EQ(d.firstErrorKind(), ErrorKind::Io);
    EXPECT_TRUE(shown(d).ends_with(r.message)) << shown(d);
    EXPECT_FALSE(FileMapping::open(r.path, d));
    EXPECT_EQ(d.errorCount(), 2u);
  }
}

TEST(ReadFile, ReadsStandardInput) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  ASSERT_EQ(::write(ends[1], "hello", 5), 5);
  ::close(ends[1]);
  int before = ::dup(STDIN_FILENO);
  ASSERT_GE(::dup2(ends[0], STDIN_FILENO), 0);
  ::close(ends[0]);
  Diagnostics d;
  Result<std::string> bytes = readFile("-", 5, d);
  ::dup2(before, STDIN_FILENO);
  ::close(before);
  ASSERT_TRUE(bytes) << shown(d);
  EXPECT_EQ(*bytes, "hello");
}

TEST(FileMapping, ShowsTheBytes) {
  TemporaryFolder folder;
  Diagnostics d;
  EXPECT_EQ(FileMapping::open(folder.write("a", "hello"), d)->bytes(), "hello");
  EXPECT_EQ(FileMapping::open(folder.write("empty", ""), d)->bytes(), "");
  EXPECT_FALSE(d.hasErrors());
}

TEST(WriteFile, ReplacesTheFileAndLeavesNothingElse) {
  TemporaryFolder folder;
  Diagnostics d;
  EXPECT_TRUE(writeFile(folder / "a", "one", d));
  EXPECT_TRUE(writeFile(folder / "a", "two", d));
  EXPECT_TRUE(writeFile(folder / "empty", "", d));
  EXPECT_EQ(readText(folder / "a"), "two");
  EXPECT_EQ(readText(folder / "empty"), "");
  EXPECT_EQ(folder.fileCount(), 2u);
  EXPECT_FALSE(d.hasErrors());
}

// A reader that has the old file open keeps it, and a link is replaced, not followed.
TEST(WriteFile, DoesNotTouchTheOldBytes) {
  TemporaryFolder folder;
  Diagnostics d;
  std::string old = folder.write("old", "old");
  std::filesystem::create_symlink(old, folder / "link");
  Ref<FileMapping> reader = FileMapping::open(old, d);
  EXPECT_TRUE(writeFile(folder / "link", "new", d));
  EXPECT_EQ(readText(old), "old");
  EXPECT_TRUE(writeFile(old, "newer", d));
  EXPECT_EQ(reader->bytes(), "old");
  EXPECT_EQ(readText(folder / "link"), "new");
}

TEST(WriteFile, ReportsWhatCannotBeWritten) {
  TemporaryFolder folder;
  struct Row {
    std::string path;
    const char* message;
  };
  const Row rows[] = {
      {folder / "none/a", "a: error: cannot write: No such file or directory\n"},
      {folder.path(), ": error: cannot write: Is a directory\n"},
      {"/dev/null", "/dev/null: error: cannot write: Not a regular file\n"},
      {"", "error: cannot write: No such file or directory\n"},
  };
  for (const Row& r : rows) {
    Diagnostics d;
    EXPECT_FALSE(writeFile(r.path, "x", d)) << r.path;
    EXPECT_EQ(d.errorCount(), 1u);
    EXPECT_EQ(d.firstErrorKind(), ErrorKind::Io);
    EXPECT_TRUE(shown(d).ends_with(r.message)) << shown(d);
  }
  EXPECT_EQ(folder.fileCount(), 0u);
}

// Who made it read-only wants to keep it, though its folder would let it be replaced.
TEST(WriteFile, KeepsFilesThatAreReadOnly) {
  constexpr uid_t kNobody = 65534;
  TemporaryFolder folder;
  const std::string path = folder.write("kept", "old");
  ASSERT_EQ(::chmod(path.c_str(), 0444), 0);
  ASSERT_EQ(::chmod(folder.path().c_str(), 0777), 0);
  const bool isRoot = ::geteuid() == 0;  // who may write to all files
  if (isRoot) {
    ASSERT_EQ(::seteuid(kNobody), 0);
  }
  const std::string fault = fileFault(path);
  Diagnostics d;
  const bool isWritten = writeFile(path, "new", d);
  if (isRoot) {
    ASSERT_EQ(::seteuid(0), 0);
  }
  EXPECT_EQ(fault, "Permission denied: the file that is there is read-only");
  EXPECT_FALSE(isWritten);
  EXPECT_EQ(shown(d), "kept: error: cannot write: Permission denied: the file that is there is read-only\n");
  EXPECT_EQ(readText(path), "old");
}

// With a limit on file sizes the second write fails; the old file stays and the temporary one goes.
TEST(WriteFile, KeepsTheOldFileOnFailure) {
  TemporaryFolder folder;
  Diagnostics d;
  ASSERT_TRUE(writeFile(folder / "a", "old", d));
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  auto oldHandler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit small{1000, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  EXPECT_FALSE(writeFile(folder / "a", std::string(5000, 'x'), d));
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, oldHandler);
  EXPECT_EQ(shown(d), "a: error: cannot write: File too large\n");
  EXPECT_EQ(readText(folder / "a"), "old");
  EXPECT_EQ(folder.fileCount(), 1u);
}

TEST(FileWriter, LeavesNothingWithoutCommit) {
  TemporaryFolder folder;
  Diagnostics d;
  {
    FileWriter writer(folder / "a", d);
    EXPECT_TRUE(writer.write("abc"));
  }
  EXPECT_EQ(folder.fileCount(), 0u);
}

// Readers see one of the two files, whole, whatever the writers do.
TEST(FileWriter, ManyWritersOneFile) {
  TemporaryFolder folder;
  std::string path = folder.write("a", std::string(10000, 'a'));
  std::vector<std::thread> threads;
  for (char c : {'b', 'c', 'd'})
    threads.emplace_back([&, c] {
      for (int i = 0; i < 50; ++i) {
        Diagnostics d;
        EXPECT_TRUE(writeFile(path, std::string(10000, c), d));
      }
    });
  for (int i = 0; i < 200; ++i) {
    Diagnostics d;
    Result<std::string> bytes = readFile(path, 20000, d);
    ASSERT_TRUE(bytes);
    EXPECT_EQ(*bytes, std::string(10000, (*bytes)[0]));
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(folder.fileCount(), 1u);
}

}  // namespace
}  // namespace tscompile
