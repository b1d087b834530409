// What tokenizer files do to a text before it is cut.
#pragma once

#include "frontend/files/json_tree.h"

#include <functional>
#include <string>
#include <string_view>

namespace tscompile {

using Normalizer = std::function<std::string(std::string_view)>;

// Of an entry that is no Sequence of others; empty if it is not known, or not whole.
Normalizer readNormalizer(const JsonTree::Value& v);

}  // namespace tscompile
