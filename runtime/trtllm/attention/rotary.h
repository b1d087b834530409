// Rotary position embeddings: the frequencies of each scaling, the table of cosines and sines, the rotation.
#pragma once

#include "runtime/trtllm/attention/params.h"

#include <cstdint>
#include <vector>

namespace tscompile {

// rotaryDim / 2 angles per position, scaling included; `length` is the total length of the sequence, which the dynamic
// scaling depends on. long_rope has no formula: its factors come in tables.
std::vector<double> rotaryFrequencies(const GptAttentionParams& params, int64_t length);
// What cosines and sines are multiplied by.
double rotaryMagnitude(const GptAttentionParams& params, int64_t length);
// long_rope: sqrt(1 + ln(most / original) / ln(original)), 1 if the model was not extended.
double longRopeMagnitude(int64_t most, int64_t original);
// yarn: the frequencies between these indices are blended.
struct YarnRange {
  double low, high;
};
YarnRange yarnRange(int64_t dim, double base, int64_t original);
// 0.1 m ln(scale) + 1
double yarnMagnitude(double scale, double m);
// Positions of a model whose picture tokens share one position.
int64_t visionPosition(int64_t position, int64_t start, int64_t length);

// 2 * frequencies.size() floats: (cos, sin) of each frequency, from angles in double.
void rotaryAngles(const std::vector<double>& frequencies, double magnitude, int64_t position, float* to);
// Rows 0 .. positions - 1 of such pairs: the input `rotary_cos_sin`.
std::vector<float> rotaryTable(const GptAttentionParams& params, int64_t positions);

// Rotates the first `dim` of a head's values: pairs (2i, 2i + 1) as GPT-J, or (i, i + dim / 2) as GPT-NeoX.
void rotate(float* values, const float* angles, int64_t dim, bool neox);

}  // namespace tscompile
