// Folders for results: what stays empty goes again.
#include "frontend/files/made_folder.h"

#include "tests/support/text_file.h"

#include <gtest/gtest.h>

#include <filesystem>

namespace tscompile::test {
namespace {

TEST(MadeFolder, GoesAgainUnlessSomethingIsInIt) {
  TemporaryFolder folder;
  Diagnostics diagnostics;
  {
    const MadeFolder made(folder / "a/b/c");
    EXPECT_TRUE(made.check(diagnostics));
    EXPECT_TRUE(std::filesystem::is_directory(folder / "a/b/c"));
  }
  EXPECT_FALSE(std::filesystem::exists(folder / "a"));
  {
    const MadeFolder made(folder / "a/b");
    folder.write("a/x", "");
  }
  EXPECT_FALSE(std::filesystem::exists(folder / "a/b"));
  EXPECT_TRUE(std::filesystem::exists(folder / "a/x"));
  std::filesystem::create_directory(folder / "was");
  { const MadeFolder made(folder / "was"); }
  EXPECT_TRUE(std::filesystem::exists(folder / "was"));
  EXPECT_FALSE(MadeFolder(folder / "a/x").check(diagnostics));
}

}  // namespace
}  // namespace tscompile::test
