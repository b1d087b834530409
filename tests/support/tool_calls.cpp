// The command line tool for scripts that call it many thousand times: standard input has, for each call, the number of
// arguments in a line, and each argument as a line with its bytes' number and the bytes; the answer is a line with the
// exit code and the sizes of what both streams got, and these.
#include "tests/support/cli.h"

#include <iostream>

int main() {
  std::ios::sync_with_stdio(false);
  for (size_t count = 0; std::cin >> count;) {
    std::vector<std::string> args;
    for (size_t size = 0; args.size() < count && std::cin >> size;) {
      std::cin.get();  // the end of its line
      args.emplace_back(size, '\0');
      std::cin.read(args.back().data(), static_cast<std::streamsize>(size));
    }
    const tscompile::test::CliResult r = tscompile::test::runCli(args);
    std::cout << r.code << ' ' << r.out.size() << ' ' << r.err.size() << '\n' << r.out << r.err << std::flush;
  }
  return 0;
}
