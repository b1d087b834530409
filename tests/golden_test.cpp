// One test for each file below tests/golden and for each document with console blocks. `--update` rewrites what they
// expect; the difference is for you to read.
#include "tests/support/golden_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <functional>

namespace {

using Check = std::function<std::string()>;

class FileTest : public testing::Test {
 public:
  explicit FileTest(Check check) : check_(std::move(check)) {}
  void TestBody() override {
    std::string problem = check_();
    if (!problem.empty()) ADD_FAILURE() << problem;
  }

 private:
  Check check_;
};

void add(const char* suite, const std::string& name, const std::string& path, Check check) {
  testing::RegisterTest(suite, name.c_str(), nullptr, nullptr, path.c_str(), 1,
                        [check] { return new FileTest(check); });
}

std::vector<std::filesystem::path> filesBelow(const std::filesystem::path& folder, const std::string& extension) {
  std::vector<std::filesystem::path> out;
  if (!std::filesystem::exists(folder)) return out;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
    if (entry.is_regular_file() && entry.path().extension() == extension) out.push_back(entry.path());
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  bool update = argc > 1 && std::string(argv[1]) == "--update";
  for (int i = 1; i < argc; ++i)
    if (std::string arg = argv[i]; arg != "--update" && arg.rfind("--gtest_", 0) != 0) {
      std::fprintf(stderr, "golden_tests: unknown argument '%s'\n", argv[i]);
      return 2;
    }
  std::filesystem::path tests = TSCOMPILE_TESTS_DIR, root = TSCOMPILE_SOURCE_DIR;
  for (const auto& path : filesBelow(tests / "golden", ".ir"))
    add("Golden", path.lexically_relative(tests / "golden").string(), path,
        [=] { return tscompile::test::checkGolden(path, update); });
  std::vector<std::filesystem::path> documents = filesBelow(root / "docs", ".md");
  if (std::filesystem::exists(root / "README.md")) documents.push_back(root / "README.md");
  for (const auto& path : documents)
    if (tscompile::test::hasConsole(path))
      add("Docs", path.filename(), path, [=] { return tscompile::test::checkDocument(path, update); });
  return RUN_ALL_TESTS();
}
