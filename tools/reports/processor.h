// The machine that figures were measured on.
#pragma once

#include <string>

namespace tscompile {

// "AMD EPYC 7763, 2 processors"; what the system does not tell is left out.
std::string processorName();
// What is to be said of figures that `threads` threads are measured with now, if there is more work than theirs; else
// empty.
std::string otherWork(int threads);

}  // namespace tscompile
