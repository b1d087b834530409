#include "tools/session/terminal.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <sstream>

namespace tscompile::test {
namespace {

std::string plain(std::string_view text) {
  std::ostringstream to;
  PlainLetters letters(to.rdbuf());
  std::ostream out(&letters);
  out << text;
  return to.str();
}

TEST(PlainLetters, SignsOfMessagesBecomeAsciiAndNamesStay) {
  EXPECT_EQ(plain("first…last  in → out, ≥ 3 × 2 µs – ü 名前 \xff."),
            "first...last  in -> out, >= 3 x 2 us - ü 名前 \xff.");
}

class Locale : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
      const char* value = std::getenv(name);
      before_.emplace_back(name, value ? value : "");
      unsetenv(name);
    }
  }
  void TearDown() override {
    for (const auto& [name, value] : before_) value.empty() ? unsetenv(name) : setenv(name, value.c_str(), 1);
  }

 private:
  std::vector<std::pair<const char*, std::string>> before_;
};

TEST_F(Locale, TheFirstVariableThatIsSetDecides) {
  EXPECT_FALSE(isUtf8Locale());
  setenv("LANG", "de_DE.UTF-8", 1);
  EXPECT_TRUE(isUtf8Locale());
  setenv("LC_CTYPE", "de_DE.ISO-8859-1", 1);
  EXPECT_FALSE(isUtf8Locale());
  setenv("LC_ALL", "C.utf8", 1);
  EXPECT_TRUE(isUtf8Locale());
}

}  // namespace
}  // namespace tscompile::test
