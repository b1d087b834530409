// Tensors over memory of Python's objects, and the other way round.
#pragma once

#include "ir/values/tensor.h"

#include <nanobind/nanobind.h>
#include <optional>

namespace tscompile::python {

// What Python sees of a tensor.
struct PyTensor {
  Tensor tensor;
};

// Over the memory of an object that has the buffer protocol or DLPack, which it keeps; nothing if it has neither.
// Throws a Python error for memory that no tensor can have.
std::optional<Tensor> tensorOf(PyObject* object);

void addTensors(nanobind::module_& m);

}  // namespace tscompile::python
