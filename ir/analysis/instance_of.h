// What types tell of `isinstance`.
#pragma once

#include "ir/values/type.h"

#include <optional>
#include <span>

namespace tscompile {

// Whether each value of a type is of one of the wanted types, or none is; nullopt if some may be.
std::optional<bool> isInstanceOf(TypePtr own, std::span<const TypePtr> wanted);

}  // namespace tscompile
