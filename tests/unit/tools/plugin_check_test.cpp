// `plugins check` goes on when a plugin takes its process down.
#include "tests/support/json.h"
#include "tests/support/text_file.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <sstream>
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
  // The checking process leaves signals to its parent, also where a sanitizer has a handler for them.
  std::string signal = "it crashes: SIGSEGV";
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

TEST(PluginProcess, OperatorsThatEndItAreNamed) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers report crashes themselves";
#endif
  TemporaryFolder folder;
  for (const auto& [name, said] : {std::pair("kernel", "the kernel of crashing::kernel has crashed: SIGSEGV\n"),
                                   {"converter", "the converter of crashing::converter has crashed: SIGSEGV\n"},
                                   {"layer", "a layer of crashing::layer has crashed: SIGSEGV\n"}}) {
    const std::string text = folder / "graph.ir", err = folder / "err";
    writeText(text, std::string("graph(%x : Tensor):\n  %y : Tensor = crashing::") + name + "(%x)\n  return (%y)\n");
    const int status =
        std::system((std::string(TSCOMPILE_TOOL) + " run " + text + " --input x=2:f32:ones --executor engine" +
                     " --custom-torch-ops " + TSCOMPILE_TEST_PLUGINS + "/crashing_operators.so >/dev/null 2>" + err)
                        .c_str());
    ASSERT_TRUE(WIFEXITED(status)) << name;
    EXPECT_EQ(WEXITSTATUS(status), 8) << name;
    EXPECT_EQ(readText(err), "tscompile: error: " + std::string(said));
  }
}

TEST(PluginProcess, TheOtherKindOfLibraryIsNamed) {
  for (const auto& [option, library, said] :
       {std::tuple("--plugin", "crashing_operators.so", "docs/writing_converters.md"),
        {"--custom-torch-ops", "scale_plugins.so", "docs/plugins.md"}}) {
    TemporaryFolder folder;
    const std::string err = folder / "err";
    const int status = std::system((std::string(TSCOMPILE_TOOL) + " ops aten::relu " + option + " " +
                                    TSCOMPILE_TEST_PLUGINS + "/" + library + " >/dev/null 2>" + err)
                                       .c_str());
    ASSERT_TRUE(WIFEXITED(status)) << option;
    EXPECT_EQ(WEXITSTATUS(status), 3) << option;
    EXPECT_NE(readText(err).find(said), std::string::npos) << readText(err);
  }
}

struct Fault {
  std::string name, check, said;
  int runCode;
  bool isLibrary() const { return name.ends_with(".so"); }
  std::string library() const {
    return std::string(TSCOMPILE_TEST_PLUGINS) + "/" + (isLibrary() ? name : "faulty_plugins.so");
  }
};

// The rows of tests/data/plugin_faults.txt.
std::vector<Fault> faults() {
  std::vector<Fault> out;
  std::istringstream lines(readText(TSCOMPILE_TESTS_DIR "/data/plugin_faults.txt"));
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::vector<std::string> cells(1);
    for (char c : line) {
      if (c == '|') cells.emplace_back();
      if (c != '|') cells.back() += c;
    }
    for (std::string& cell : cells) {
      while (cell.ends_with(' ')) cell.pop_back();
      cell.erase(0, cell.find_first_not_of(' '));
    }
    out.push_back({cells.at(0), cells.at(1), cells.at(2), std::atoi(cells.at(3).c_str())});
  }
  return out;
}

TEST(PluginFaults, AreFoundAndNameThePlugin) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP()
      << "under the thread sanitizer checks are not done in the time that they are given, and its heap tells less";
#endif
  const std::string all = check("faulty_plugins", "--limit-time 2s", 1);
  size_t found = 0;
  for (const Fault& f : faults()) {
#if defined(__SANITIZE_ADDRESS__)
    if (f.name == "leaks") continue;  // its heap does not tell how much is in use
#endif
    const std::string out = f.isLibrary() ? check(f.name.substr(0, f.name.size() - 3), "--limit-time 2s", 1) : all;
    const std::string of = f.isLibrary() ? f.check + ": " : "faulty::" + f.name + " version 1, " + f.check + ": ";
    bool isFound = false;
    std::istringstream lines(out);
    for (std::string line; std::getline(lines, line);)
      isFound |= line.find(of) != std::string::npos && line.find(f.said) != std::string::npos;
    EXPECT_EQ(isFound, !f.check.empty()) << f.name << "\n" << out;
    found += isFound;
  }
  EXPECT_EQ(all.find("constant_shape"), std::string::npos) << all;
#if !defined(__SANITIZE_ADDRESS__)
  EXPECT_EQ(found, 33u);
#endif
}

TEST(PluginFaults, NameThePluginInARun) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers report crashes themselves";
#endif
  TemporaryFolder folder;
  const std::string text = folder / "graph.ir", err = folder / "err";
  for (const Fault& f : faults()) {
    const std::string kind = f.isLibrary() ? "aten::relu" : "faulty::" + f.name;
    writeText(text, "graph(%x : Tensor):\n  %y : Tensor = " + kind + "(%x)\n  return (%y)\n");
    int status = std::system((std::string(TSCOMPILE_TOOL) + " run " + text +
                              " --input 'x=4x4:f32=[1 2 3 4; 5 6 7 8; 9 8 7 6; 5 4 3 2]' --verify-plugins" +
                              " --limit-time 2s --plugin " + f.library() + " >/dev/null 2>" + err)
                                 .c_str());
    ASSERT_TRUE(WIFEXITED(status)) << f.name;
    EXPECT_EQ(WEXITSTATUS(status), f.runCode) << f.name << "\n" << readText(err);
    const std::string named = f.name == "taken_name.so" ? "tensorrt_llm::Identity" : f.isLibrary() ? f.name : kind;
    EXPECT_EQ(readText(err).find(named) != std::string::npos, f.runCode != 0) << f.name << "\n" << readText(err);
  }
}

TEST(PluginCheckProcess, GoodLibrariesAndThoseThatCannotBeOpened) {
  EXPECT_EQ(check("scale_plugins", "", 0), "2 plugins, 23 checks, nothing found\n");
  std::string out = check("other_abi_plugins", "", 1);
  EXPECT_NE(out.find("library: "), std::string::npos) << out;
  EXPECT_NE(out.find("it was made for version 2 of the interface"), std::string::npos) << out;
  EXPECT_NE(out.find("\n0 plugins, 1 check, 1 finding\n"), std::string::npos) << out;
  Json json = parseJson(check("scale_plugins", "--format json", 0));
  EXPECT_EQ(json["plugins"].number, 2);
  EXPECT_EQ(json["checks"].number, 23);
}

}  // namespace
}  // namespace tscompile::test
