// The command line tool.
#include "tools/driver.h"
#include "tools/session/process.h"

#include <iostream>
#include <vector>

int main(int argc, char** argv) {
  std::ios::sync_with_stdio(false);
  tscompile::prepareProcess();
  std::vector<std::string> args(argv + (argc > 0), argv + argc);
  return tscompile::run(args, std::cin, std::cout, std::cerr);
}
