// Weights that a text names and that were not given: one line for all of them, where each has one else.
#pragma once

#include "api/module.h"

#include <string>
#include <vector>

namespace tscompile {

// Weights were forgotten, or are those of another model. `path` is of the text; whether it was reported.
bool hasForgottenWeights(const std::string& path, const Module& module, Diagnostics& diagnostics);
// Makes one line of what was reported, if each attribute that is read had one. `given`: the names of weights that were
// given and that the text does not ask for.
void summarizeForgotten(const std::string& path, const std::vector<std::string>& given, Diagnostics& diagnostics);
// Module::prepare(), after either.
Result<Method> prepareGiven(const std::string& path, const Module& module, const std::string& method,
                            Diagnostics& diagnostics);

}  // namespace tscompile
