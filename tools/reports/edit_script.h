// The least edits that make one sequence of another.
#pragma once

#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

namespace tscompile {

// Pairs (i, j) of items that stay, in order: the longest common subsequence, by Myers' algorithm, which takes time and
// memory by the number of edits. Beyond `mostEdits` everything between the common start and end counts as changed.
std::vector<std::pair<size_t, size_t>> commonItems(size_t a, size_t b, const std::function<bool(size_t, size_t)>& equal,
                                                   size_t mostEdits = 4000);

}  // namespace tscompile
