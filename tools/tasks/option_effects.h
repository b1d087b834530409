// Options that can have no effect on the file at hand: they are refused by name.
#pragma once

#include "api/module.h"
#include "tools/options/options.h"

#include <initializer_list>
#include <string_view>

namespace tscompile {

// Throws UsageError for an option that says how engines are made where none are: of an engine file, and with
// --executor interpreter. `but`: settings that have an effect all the same.
void checkOptionEffects(const Options& options, const Module& module, std::initializer_list<std::string_view> but = {});

}  // namespace tscompile
