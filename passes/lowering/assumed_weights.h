// Lowering without weights, for what only asks where nodes would run.
#pragma once

namespace tscompile {

// An argument of rewrites: attributes that are tensors without data become constants without data. What is lowered so
// cannot run.
inline constexpr const char* kAssumedWeights = "assumed_weights";

}  // namespace tscompile
