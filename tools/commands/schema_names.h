// Names of the schemas of tools/schemas.
#pragma once

#include <string>
#include <vector>

namespace tscompile {

std::vector<std::string> schemaNames();

}  // namespace tscompile
