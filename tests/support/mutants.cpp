// Tells which tests reach which mutants: a line of numbers for each, in the file of TSCOMPILE_MUTANTS_REACHED.
#include "tests/support/mutants.h"

#include <gtest/gtest.h>

#include <fstream>

namespace tscompile::test {
namespace {

class Recorder : public ::testing::EmptyTestEventListener {
  void OnTestEnd(const ::testing::TestInfo& test) override {
    std::ofstream out(std::getenv("TSCOMPILE_MUTANTS_REACHED"), std::ios::app);
    out << test.test_suite_name() << '.' << test.name() << '\t';
    for (int i = 0; i < kMostMutants; ++i)
      if (mutantsReached[i].exchange(false)) out << ' ' << i;
    out << '\n';
  }
};

const bool isListening = [] {
  if (std::getenv("TSCOMPILE_MUTANTS_REACHED"))
    ::testing::UnitTest::GetInstance()->listeners().Append(new Recorder);  // which owns it
  return true;
}();

}  // namespace
}  // namespace tscompile::test
