// The command line tool as a function, so that tests can call it.
#pragma once

#include <istream>
#include <ostream>
#include <span>
#include <string>

namespace tscompile {

// Data goes to `out`, talk to `err`. Returns the exit code.
int run(std::span<const std::string> args, std::istream& in, std::ostream& out, std::ostream& err);

}  // namespace tscompile
