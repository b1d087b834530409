// For plugins that are built in: their tensors as ours, and the threads of a run.
#pragma once

#include "ir/support/diagnostics.h"
#include "ir/values/tensor.h"
#include "runtime/plugin/plugin_host.h"

namespace tscompile {

// What a plugin returns for a failure of the library.
inline tsc_status statusOf(ErrorKind kind) {
  if (kind == ErrorKind::Unsupported) return TSC_UNSUPPORTED;
  return kind == ErrorKind::Limit ? TSC_NO_MEMORY : TSC_INVALID;
}

// The same memory; valid during the run.
inline Tensor hostTensor(const tsc::Tensor& t) {
  return Tensor::borrow(static_cast<DType>(t.dtype()), t.sizes(), t.data<void>());
}

// How many threads this run may use: for kernels that have their own way to divide work by shapes.
inline int hostThreads(const tsc::Run& run) { return static_cast<PluginRun*>(run.handle())->threads; }

}  // namespace tscompile
