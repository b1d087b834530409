// Which values a prim::Constant can hold so that its text, together with a weights file, says all of it.
#pragma once

#include "ir/values/ivalue.h"

namespace tscompile {

// None, numbers, strings, devices, tensors that are defined, lists of tensors; lists and tuples of what is no tensor.
// Packed weights of quantised layers too: their text is nodes that make them.
bool fitsConstant(const IValue& value);
// The type to give to such a constant where a value of type `declared` stood: of numbers and tensors their own, which
// their text needs to be read back.
TypePtr constantType(const IValue& value, TypePtr declared);

}  // namespace tscompile
