// Loading what is in memory.
#pragma once

#include "api/binding/problem.h"
#include "api/module.h"

#include <string>
#include <string_view>

namespace tscompile {

// Reads the bytes of a file that Module::load() takes: graph text, or a file with weights inside. They are not needed
// afterwards. `name` stands for the path in messages of graph text; of other files they name a path of the process,
// which `said` (out, also of a failure) replaces in all that is said of the module, by its runs too.
Result<Module> loadBytes(std::string_view bytes, const std::string& name, const LoadOptions& options, SourceName& said,
                         Diagnostics& diagnostics);

}  // namespace tscompile
