// The machine that figures were measured on.
#pragma once

#include <string>

namespace tscompile {

// "AMD EPYC 7763, 2 processors"; what the system does not tell is left out.
std::string processorName();

}  // namespace tscompile
