// Element-wise operators that loops of steps do not compute: the function of one element that their kernel is made of,
// called on planned memory in pieces, on all threads. Bodies of kernels that are templates of their call are
// converters:
// `.kernel = shiftKernel<KernelCall>, .convert = convertMapped<shiftKernel<ConvertCall>>`.
#pragma once

#include "runtime/engine/layers/pointwise_steps.h"
#include "runtime/reference/elementwise.h"

#include <memory>

namespace tscompile {

// The loop of a function over runs of elements, and what the function holds.
struct MapFunction {
  TypedTile typed;
  std::shared_ptr<const void> held;
};

// A layer for result 0 that maps `count` arguments from `first` on, converted to `dtype`; what it cannot do is called.
void addMapLayer(ConvertCall& call, DType dtype, size_t first, size_t count, MapFunction function);

// As for kernels (elementwise.h).
template <TypeSet kTypes, size_t kInputs, class F>
void mapElements(ConvertCall& call, DType dtype, const F& f, size_t first = 0) {
  if (!(kTypes & kI64)) dtype = toFloating(dtype);
  const TypedTile typed = typedTile<kTypes, kInputs, F>(computeTypeOf(dtype));
  if (!typed.tile) refuseDType(dtype);
  addMapLayer(call, dtype, first, kInputs, {typed, std::make_shared<F>(f)});
}
template <TypeSet kTypes, size_t kInputs, class F>
void mapInputs(ConvertCall& call, const F& f) {
  mapElements<kTypes, kInputs>(call, promotedDType(call, kInputs), f);
}

// Runs the body; dtypes that it refuses are the kernel's to tell.
using MapBody = void (*)(ConvertCall&);
void convertByBody(ConvertCall& call, MapBody body);
// The same where there are no loops of such steps.
void convertStepsOrBody(ConvertCall& call, PointwiseSteps steps, MapBody body);

template <MapBody kBody>
void convertMapped(ConvertCall& call) {
  convertByBody(call, kBody);
}
template <PointwiseSteps kSteps, MapBody kBody>
void convertStepsOr(ConvertCall& call) {
  convertStepsOrBody(call, kSteps, kBody);
}

// A function of the first arguments as a kernel and as a converter.
struct MappedFunction {
  KernelFunction kernel;
  ConvertFunction convert;
};
template <TypeSet kTypes, size_t kInputs, auto kF>
void mapAll(ConvertCall& call) {
  mapInputs<kTypes, kInputs>(call, kF);
}
template <TypeSet kTypes, auto kF>
inline constexpr MappedFunction kMapped{unaryKernel<kTypes, kF>, convertMapped<mapAll<kTypes, 1, kF>>};
template <TypeSet kTypes, auto kF>
inline constexpr MappedFunction kMappedPair{binaryKernel<kTypes, kF>, convertMapped<mapAll<kTypes, 2, kF>>};
// With steps where there are loops of them.
template <PointwiseSteps kSteps, TypeSet kTypes, auto kF>
inline constexpr MappedFunction kStepsOr{unaryKernel<kTypes, kF>, convertStepsOr<kSteps, mapAll<kTypes, 1, kF>>};

}  // namespace tscompile
