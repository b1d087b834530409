// `plugins check` goes on when a plugin takes its process down.
#include "tests/support/json.h"
#include "tests/support/text_file.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <sys/wait.h>

namespace tscompile::test {
namespace {

// The tool itself: what runs in the process of a test is not started anew.
std::string check(const std::string& library, const std::string& options, int expected) {
  TemporaryFolder folder;
  std::string path = std::string(TSCOMPILE_TEST_PLUGINS) + "/" + library + ".so", out = folder / "out";
  int status = std::system(
      (std::string(TSCOMPILE_TOOL) + " plugins check " + path + " " + options + " >" + out + " 2>/dev/null").c_str());
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), expected);
  return readText(out);
}

TEST(PluginCheckProcess, WhatCrashesOrHangsIsAFinding) {
  std::string out = check("crashing_plugins", "--limit-time 2s", 1);
#if defined(__SANITIZE_ADDRESS__)
  std::string signal = "it ends the process, with exit code";
#else
  std::string signal = "it crashes: SIGSEGV";
#endif
  for (const std::string& line :
       {std::string("crashing::Aborts version 1, create: it crashes: SIGABRT\n"),
        std::string("crashing::Exits version 1, sizes: it ends the process, with exit code 0\n"),
        std::string("crashing::Hangs version 1, runs: it is not done after 2 s\n"),
        "crashing::Segfaults version 1, runs: " + signal, "crashing::Segfaults version 1, threads: " + signal})
    EXPECT_NE(out.find(line), std::string::npos) << line << "is not in\n" << out;
  EXPECT_EQ(out.find("crashing::Works"), std::string::npos) << out;
  EXPECT_EQ(out.find("crashing::Scribbles"), std::string::npos) << out;
  EXPECT_NE(out.find("\n6 plugins, "), std::string::npos) << out;
}

TEST(PluginCheckProcess, WrongSizesAndRowsAreFindings) {
  std::string out = check("wrong_plugins", "", 1);
  for (const char* line : {"wrong::Shapeless version 1, sizes: it takes none of the sizes that were tried, and has no "
                           "example; the last time: ",
                           "wrong::Negative version 1, runs: it says that the output y has a negative number of rows\n",
                           "wrong::TooMany version 1, runs: it says that the output y has 1000000 rows, more than its "
                           "shape told\n",
                           "wrong::Overruns version 1, runs: it crashes: SIGSEGV\n",
                           "wrong::Leaves version 1, runs: it ends the process, with exit code 0\n"})
    EXPECT_NE(out.find(line), std::string::npos) << line << "is not in\n" << out;
}

// What a run with a plugin says that takes the process with it.
TEST(PluginProcess, WhatEndsItIsNamed) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers report crashes themselves";
#endif
  TemporaryFolder folder;
  for (const auto& [name, said] :
       {std::pair("Falls", "tscompile: error: the plugin wrong::Falls has crashed: SIGSEGV\n"),
        {"Leaves", "tscompile: error: the plugin wrong::Leaves has ended the process\n"},
        {"Negative", "error: wrong::Negative: it says that the output y has a negative number of rows\n"}}) {
    const std::string text = folder / "graph.ir", err = folder / "err";
    writeText(text, std::string("graph(%x : Tensor):\n  %y : Tensor = wrong::") + name + "(%x)\n  return (%y)\n");
    for (const char* options : {"--executor interpreter", "--executor engine", "--verify-plugins"}) {
      int status =
          std::system((std::string(TSCOMPILE_TOOL) + " run " + text + " --input 'x=2x2:f32=[1 2; 3 4]' " + options +
                       " --plugin " + TSCOMPILE_TEST_PLUGINS + "/wrong_plugins.so >/dev/null 2>" + err)
                          .c_str());
      ASSERT_TRUE(WIFEXITED(status)) << name << " " << options;
      EXPECT_EQ(WEXITSTATUS(status), 8) << name << " " << options;
      EXPECT_NE(readText(err).find(said), std::string::npos) << options << "\n" << readText(err);
    }
  }
}

TEST(PluginCheckProcess, GoodLibrariesAndThoseThatCannotBeOpened) {
  EXPECT_EQ(check("scale_plugins", "", 0), "2 plugins, 21 checks, nothing found\n");
  std::string out = check("other_abi_plugins", "", 1);
  EXPECT_NE(out.find("library: "), std::string::npos) << out;
  EXPECT_NE(out.find("it was made for version 2 of the interface"), std::string::npos) << out;
  EXPECT_NE(out.find("\n0 plugins, 1 check, 1 finding\n"), std::string::npos) << out;
  Json json = parseJson(check("scale_plugins", "--format json", 0));
  EXPECT_EQ(json["plugins"].number, 2);
  EXPECT_EQ(json["checks"].number, 21);
}

}  // namespace
}  // namespace tscompile::test
