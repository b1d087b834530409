// Patches of an image as rows of lines (line_product.h): what an output of a convolution of few channels sees.
#pragma once

#include "runtime/kernels/product.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tscompile {

// Pieces of memory that are to be one row of lines: `rows` times `columns` pieces of `bytes` each.
struct LinePatch {
  int64_t rows, columns;
  int64_t rowDistance, columnDistance, bytes;
};
// What a line takes, at which distance from the patch. What is masked is not read.
struct PatchLoad {
  int64_t from;
  uint64_t mask;
};
// Of each of the lines; zeros fill up the last one.
std::vector<std::vector<PatchLoad>> patchLoads(const LinePatch& patch, int64_t lines);
// The lines of `count` patches, `distance` bytes apart.
void patchesToLines(const std::byte* from, int64_t distance, int64_t count,
                    const std::vector<std::vector<PatchLoad>>& loads, CacheLine* to);

}  // namespace tscompile
