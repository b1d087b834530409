// Sizes of inputs that --shape leaves open: of several without a name whose they are, and what follows from the symbols
// that inputs share.
#pragma once

#include "api/input_range.h"
#include "api/module.h"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tscompile {

// The name of the sizes that are given without one when `before` were: of the first input, else of the next of the
// tensors.
std::string unnamedSizes(std::span<const InputRange> said);
// Whether it is such a name, of all but the first; none that users may give.
bool isUnnamed(std::string_view name);
// Gives these the names of inputs. Throws UsageError if there are not so many.
void nameUnnamedSizes(std::vector<InputRange>& ranges, std::span<const ValueInfo> inputs);

// "N=8" of inputs that have N among their sizes, as those of an engine file, becomes the sizes of these; other ranges
// stay.
void spreadSymbols(std::vector<InputRange>& ranges, std::span<const ValueInfo> inputs);
// Adds those of inputs that nothing is said of, as far as they follow from the others.
void addFollowingSizes(std::vector<InputRange>& ranges, std::span<const ValueInfo> inputs);

}  // namespace tscompile
