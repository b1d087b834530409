// Weights computed ahead however large they are, for files that store constants in fewer bits.
#pragma once

namespace tscompile {

// An argument of rewrites: what is computed from constants and takes no more memory than they do becomes a constant of
// any size, as the weights of a convolution that takes in a batch norm.
inline constexpr const char* kWholeWeights = "whole_weights";

}  // namespace tscompile
