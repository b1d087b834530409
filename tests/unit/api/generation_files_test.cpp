#include "api/support/generation_files.h"

#include "frontend/files/file_io.h"
#include "ir/support/diagnostic_printer.h"

#include <gtest/gtest.h>

#include <filesystem>

namespace tscompile::test {
namespace {

class GenerationFiles : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void write(const std::string& name, const std::string& text) {
    FileWriter file(folder_ + "/" + name, diagnostics_);
    ASSERT_TRUE(file.write(text) && file.commit());
  }
  std::vector<TokenId> ends(const Tokenizer* tokenizer = nullptr) {
    diagnostics_ = Diagnostics();
    Result<std::vector<TokenId>> found = endTokensIn(folder_, tokenizer, diagnostics_);
    return found ? *found : std::vector<TokenId>{-1};
  }

  const std::string folder_ = testing::TempDir() + "generation_files";
  Diagnostics diagnostics_;
};

TEST_F(GenerationFiles, TellWhichTokensEndTexts) {
  EXPECT_TRUE(ends().empty());
  write("tokenizer_config.json", R"({"eos_token": {"content": "x"}})");
  std::unique_ptr<Tokenizer> bytes = makeByteTokenizer();
  EXPECT_TRUE(ends().empty());
  EXPECT_EQ(ends(bytes.get()), (std::vector<TokenId>{'x'}));
  write("tokenizer_config.json", R"({"eos_token": "y"})");
  EXPECT_EQ(ends(bytes.get()), (std::vector<TokenId>{'y'}));
  write("generation_config.json", R"({"eos_token_id": null})");
  EXPECT_EQ(ends(bytes.get()), (std::vector<TokenId>{'y'}));
  write("generation_config.json", R"({"eos_token_id": 7})");
  EXPECT_EQ(ends(bytes.get()), (std::vector<TokenId>{7}));
  write("generation_config.json", R"({"eos_token_id": [7, 9]})");
  EXPECT_EQ(ends(bytes.get()), (std::vector<TokenId>{7, 9}));
}

TEST_F(GenerationFiles, WrongOnesAreReportedWhereTheyAre) {
  write("generation_config.json", R"({"eos_token_id": [7, "x"]})");
  EXPECT_EQ(ends(), (std::vector<TokenId>{-1}));
  EXPECT_NE(
      renderDiagnostics(diagnostics_, "test").find("generation_config.json:1:22: error: expected the number of a"),
      std::string::npos)
      << renderDiagnostics(diagnostics_, "test");
  write("generation_config.json", "{");
  EXPECT_EQ(ends(), (std::vector<TokenId>{-1}));
}

TEST_F(GenerationFiles, GoAlongWithTheModel) {
  const std::string other = folder_ + "/built";
  std::filesystem::create_directories(other);
  EXPECT_TRUE(copyGenerationFiles(folder_, other, diagnostics_));
  EXPECT_FALSE(tokenizerIn(other));
  write("tokenizer.json", "{}");
  write("notes.txt", "-");
  EXPECT_TRUE(copyGenerationFiles(folder_, other, diagnostics_));
  EXPECT_EQ(tokenizerIn(other), other);
  EXPECT_FALSE(std::filesystem::exists(other + "/notes.txt"));
  EXPECT_TRUE(copyGenerationFiles(folder_, folder_ + "/.", diagnostics_));
}

// A folder that another model was built into keeps none of its files.
TEST_F(GenerationFiles, OfAnotherModelGo) {
  const std::string other = folder_ + "/built";
  std::filesystem::create_directories(other);
  write("built/vocab.json", "{}");
  write("built/generation_config.json", R"({"eos_token_id": 7})");
  write("built/notes.txt", "-");
  write("generation_config.json", R"({"eos_token_id": 9})");
  EXPECT_TRUE(copyGenerationFiles(folder_, other, diagnostics_));
  EXPECT_FALSE(tokenizerIn(other));
  EXPECT_TRUE(std::filesystem::exists(other + "/notes.txt"));
  Result<std::vector<TokenId>> ends = endTokensIn(other, nullptr, diagnostics_);
  EXPECT_TRUE(ends && *ends == std::vector<TokenId>{9});
}

}  // namespace
}  // namespace tscompile::test
