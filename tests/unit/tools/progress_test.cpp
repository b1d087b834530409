// The line that says what a command is doing.
#include "tools/session/progress.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <gmock/gmock.h>
#include <sstream>
#include <thread>

namespace tscompile {
namespace {

using std::chrono::milliseconds;

// Counts what was shown.
class Terminal : public std::stringbuf {
 public:
  // Until something more was shown.
  void wait() {
    auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    for (int before = shown_; shown_ == before && std::chrono::steady_clock::now() < end;)
      std::this_thread::sleep_for(milliseconds(1));
  }

 private:
  int sync() override {
    ++shown_;
    return 0;
  }
  std::atomic<int> shown_{0};
};

TEST(Progress, TellsStepsAndTakesItsLineAway) {
  Terminal buffer;
  std::ostream terminal(&buffer);
  Progress progress(&terminal, milliseconds(0), milliseconds(1));
  progress.step("reading");
  buffer.wait();
  progress.step("building engines");
  buffer.wait();
  buffer.wait();
  progress.end();
  EXPECT_THAT(buffer.str(), testing::StartsWith("\r\033[Kreading (0 s)"));
  EXPECT_THAT(buffer.str(), testing::HasSubstr("\r\033[Kbuilding engines ("));
  EXPECT_THAT(buffer.str(), testing::EndsWith(")\r\033[K"));
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

}  // namespace
}  // namespace tscompile
