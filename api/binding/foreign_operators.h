// Operators whose kernels are functions in another language, and what programs in such languages load with.
#pragma once

#include "api/extensions.h"

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace tscompile {

struct ForeignOperator {
  std::string schema;  // "mylib::foo(Tensor x, float by=1.5) -> Tensor"
  // Gives the results that the schema has. Arguments that it says are written are written where they lie; none may be
  // kept. Called by several threads at once. Throws ExecutionError.
  std::function<std::vector<IValue>(std::span<const IValue* const> arguments, std::span<const Argument> results)>
      compute;
};

// For all that is loaded from now on in this process; takes the place of one of the same name. False after reporting
// what is wrong with the schema.
bool registerOperator(ForeignOperator op, Diagnostics& diagnostics);

// The operators that are registered, and the plugins of these libraries; null if there are none of both.
Result<std::shared_ptr<const Extensions>> extensionsOf(const std::vector<std::string>& plugins,
                                                       Diagnostics& diagnostics);

}  // namespace tscompile
