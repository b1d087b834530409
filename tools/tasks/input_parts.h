// The tensors of a value, with their names as --shape takes them.
#pragma once

#include "api/input_range.h"
#include "ir/values/ivalue.h"

#include <functional>
#include <string>

namespace tscompile {

// Exactly the sizes of this tensor.
InputRange rangeOf(const std::string& name, const Tensor& t);

// Calls `visit(name, part)` for each tensor of a value, such as "row.cat" of a dictionary in %row, and for each part
// that has none. Containers of containers are not looked into for ever.
void forEachPart(const std::string& name, const IValue& value,
                 const std::function<void(const std::string& name, const IValue& part)>& visit);

}  // namespace tscompile
