// Names of weights where the model stands in a module that was put around it: `self.model = model`.
#pragma once

#include <span>
#include <string>

namespace tscompile {

// "model.", if all names of the model begin so and none that is given, and one that is given is the model's behind it;
// else empty.
std::string wrapperPart(std::span<const std::string> stored, std::span<const std::string> given);
std::string wrapperText(const std::string& part);

}  // namespace tscompile
