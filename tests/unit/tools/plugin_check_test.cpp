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
