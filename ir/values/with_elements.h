// Types that differ from others in what they hold.
#pragma once

#include "ir/values/type.h"

#include <span>

namespace tscompile {

// A type of this kind, and of the name and fields of a named tuple, that has other elements, as many as `type` has.
TypePtr withElements(TypePtr type, std::span<const TypePtr> elements);

}  // namespace tscompile
