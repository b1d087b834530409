// Converters of operators on complex numbers: what they compute, written down on real and imaginary parts in f32.
#pragma once

#include "runtime/engine/layers/alone/map_layer.h"

namespace tscompile {

// Whether the result is complex64, and all arguments are numbers, or tensors of complex64 and float32.
bool isOnParts(const ConvertCall& call);

// Each gives its result in full, or calls the kernel.
void convertComplexAdd(ConvertCall& call);       // self, other, alpha
void convertComplexSub(ConvertCall& call);       // self, other, alpha
void convertComplexProduct(ConvertCall& call);   // self, other
void convertComplexQuotient(ConvertCall& call);  // self, other
void convertComplexNegation(ConvertCall& call);

// For records: on complex numbers another way than on real ones; by the body where there are no loops of such steps.
template <PointwiseSteps kSteps, void kComplex(ConvertCall&), MapBody kBody>
void convertNumbers(ConvertCall& call) {
  isOnParts(call) ? kComplex(call) : convertStepsOrBody(call, kSteps, kBody);
}

// The length of vectors (x, y) without overflow on the way.
int hypotenuse(StepBuilder& b, int x, int y);

void convertMagnitude(ConvertCall& call);
void convertAngle(ConvertCall& call);
void convertComplexExp(ConvertCall& call);
void convertFromParts(ConvertCall& call);  // aten::complex
void convertFromPolar(ConvertCall& call);  // aten::polar
void convertConjugate(ConvertCall& call);

}  // namespace tscompile
