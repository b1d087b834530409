// What tokenizer files do to a text before it is cut.
#pragma once

#include "frontend/files/json_tree.h"

#include <functional>
#include <string>
#include <string_view>

namespace tscompile {

using Normalizer = std::function<std::string(std::string_view)>;

// Of an entry that is no Sequence of others; empty if it is not known, or not whole. `growth` is multiplied by how much
// longer texts may become by what the entry says.
Normalizer readNormalizer(const JsonTree::Value& v, double& growth);

std::string replaced(std::string_view text, std::string_view what, std::string_view by);

}  // namespace tscompile
