// Values as Python prints them: str() and repr() of numbers, strings, containers, tensors.
#pragma once

#include <string>

#include "ir/ivalue.h"

namespace tscompile {

// As Python's repr(): the shortest digits that read back as the same number, "1e-05", "inf".
std::string pythonFloat(double value);
// str() at the top level, repr() inside containers, as TorchScript's print, str() and format() have it.
std::string pythonText(const IValue& value);

}  // namespace tscompile
