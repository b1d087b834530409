// Scratch of a plugin that its inputs make large, counted against the run's limit of memory.
#pragma once

#include "ir/values/error.h"
#include "ir/values/memory.h"
#ifndef TSC_VISIBILITY
#define TSC_VISIBILITY  // we are one library with it
#endif
#include "runtime/plugin/plugin_sdk.h"

namespace tscompile {

// For as long as it lives. Throws tsc::Error if the bytes do not fit.
class ChargedBytes {
 public:
  explicit ChargedBytes(uint64_t bytes) try { charge_.raise(bytes); } catch (const ExecutionError& e) {
    throw tsc::Error(TSC_NO_MEMORY, e.message());
  }

 private:
  MemoryCharge charge_;
};

}  // namespace tscompile
