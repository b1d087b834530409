// The sizes in a text are those of the example that it was made with. What was compiled by them serves inputs that have
// them; for others the method is compiled once more without.
#pragma once

#include "api/compile.h"

#include <mutex>
#include <optional>

namespace tscompile {

class OtherSizes {
 public:
  OtherSizes(Module source, CompileSpec spec) : source_(std::move(source)), spec_(std::move(spec)) {
    spec_.lowering.forgetSizes = true;
    spec_.requiredCoverage = 0;
    spec_.onPartition = nullptr;
  }
  // Made at the first call.
  Result<Method> method(Diagnostics& diagnostics) const;

 private:
  Module source_;
  CompileSpec spec_;
  mutable std::mutex mutex_;
  mutable std::optional<Method> made_;
};

}  // namespace tscompile
