// The arguments of the register tile of tile-inl.h.
#pragma once

#include <cstdint>

namespace tscompile {

// c[row, panel, lane] = start + sum over step, k of a[row * rowStride + steps[step] + k] * b[panel, step * depth + k,
// lane] where start is c itself, or the bias, plus the residual.
struct Tile {
  const float* a;
  int64_t rowStride;
  const int64_t* steps;
  int64_t stepCount, depth;
  const float* b;
  int64_t panelStride;  // floats between panels of b
  float* c;
  int64_t cRow, cPanel;   // floats between rows and panels of c
  const float* bias;      // kBlock floats a panel, or null
  const float* residual;  // strides of c, or null
  const float* ahead;     // lines of B needed next; fetched on the way, or null
  int64_t aheadStride;    // floats between those of each panel
  int64_t aheadLines;     // in a step
  bool accumulate;        // start from c; bias is not read
  int64_t lanes;          // of a panel that is only partly there
  bool clamp;
  float low, high;
};

}  // namespace tscompile
