// The sizes in a text are those of the example that it was made with, and inputs mostly lie in memory in the order of
// their dimensions. What was compiled by that serves such inputs; for others the method is compiled once more without.
#pragma once

#include "api/compile.h"

#include <mutex>
#include <optional>
#include <string_view>

namespace tscompile {

// Of LowerOptions::arguments: inputs may lie in memory in any order. Else what is lowered may serve only those that lie
// in the order of their dimensions; a run refuses others, and engine files keep it as kInputOrder.
inline constexpr const char* kAnyOrder = "any_order";
inline constexpr std::string_view kInputOrder = "input-order";

class OtherInputs {
 public:
  // What runs for inputs of other sizes, and for those that lie otherwise.
  static std::shared_ptr<const OtherInputs> ofOtherSizes(const Module& source, CompileSpec spec);
  static std::shared_ptr<const OtherInputs> inAnyOrder(const Module& source, CompileSpec spec);

  OtherInputs(Module source, CompileSpec spec);
  // Made at the first call.
  Result<Method> method(Diagnostics& diagnostics) const;

 private:
  Module source_;
  CompileSpec spec_;
  mutable std::mutex mutex_;
  mutable std::optional<Method> made_;
};

}  // namespace tscompile
