// Equality and order of list items: numbers, strings, tensors of one element, tuples of these.
#pragma once

#include "ir/values/ivalue.h"

#include <vector>

namespace tscompile {

// As Python's ==, of tensors as bool(a == b).
bool itemsEqual(const IValue& a, const IValue& b);
// As Python's <. Fails for what has no order.
bool itemLess(const IValue& a, const IValue& b);
// Not stable: equal items end up where PyTorch has them.
void sortItems(std::vector<IValue>& items, bool descending);

}  // namespace tscompile
