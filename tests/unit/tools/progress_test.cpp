// The line that says what a command is doing.
#include "tools/progress.h"

#include <gtest/gtest.h>

#include <gmock/gmock.h>
#include <sstream>

namespace tscompile {
namespace {

using std::chrono::milliseconds;

TEST(Progress, TellsStepsAndTakesItsLineAway) {
  std::ostringstream terminal;
  Progress progress(&terminal, milliseconds(0), milliseconds(1));
  progress.step("reading");
  std::this_thread::sleep_for(milliseconds(30));
  progress.step("building engines");
  std::this_thread::sleep_for(milliseconds(30));
  progress.end();
  EXPECT_THAT(terminal.str(), testing::StartsWith("\r\033[Kreading (0 s)"));
  EXPECT_THAT(terminal.str(), testing::HasSubstr("\r\033[Kbuilding engines (0 s)"));
  EXPECT_THAT(terminal.str(), testing::EndsWith(")\r\033[K"));
}

TEST(Progress, SaysNothingOfWhatIsQuick) {
  std::ostringstream terminal;
  {
    Progress progress(&terminal);
    progress.step("reading");
    progress.end();
    progress.step("writing");
  }
  EXPECT_EQ(terminal.str(), "");
}

TEST(Progress, WithoutTerminalNothingIsWritten) {
  Progress progress(nullptr, milliseconds(0), milliseconds(1));
  progress.step("reading");
  progress.end();
}

}  // namespace
}  // namespace tscompile
