// The command line tool.
#include "tools/commit.h"
#include "tools/driver.h"
#include "tools/reports/build_info.h"
#include "tools/session/process.h"
#include "tools/session/terminal.h"

#include <iostream>
#include <vector>

int main(int argc, char** argv) {
  std::ios::sync_with_stdio(false);
  tscompile::prepareProcess();
  tscompile::setSourceCommit(tscompile::kSourceCommit);
  tscompile::PlainLettersScope letters;
  tscompile::setHelpColumns(tscompile::terminalWidth(std::cout));
  std::vector<std::string> args(argv + (argc > 0), argv + argc);
  return tscompile::run(args, std::cin, std::cout, std::cerr);
}
