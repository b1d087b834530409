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
  // Tells dtype and sizes of the results of what is known of the arguments, as UserOperator::infer does. Null: they are
  // known when the function has run.
  std::function<void(InferCall&)> infer = nullptr;
};

// For all that is loaded from now on in this process; takes the place of one of the same name. False after reporting
// what is wrong with the schema.
bool registerOperator(ForeignOperator op, Diagnostics& diagnostics);

// Whether there is one of this name and overload, "mylib::foo.out".
bool isRegistered(const std::string& name);

// What a model is loaded with.
struct ForeignExtensions {
  std::vector<std::string> plugins = {};  // libraries
  std::vector<std::string> rules = {};    // files; what has a line break is the text itself
};
// With the operators that are registered; null if there is nothing.
Result<std::shared_ptr<const Extensions>> extensionsOf(const ForeignExtensions& given, const Limits& limits,
                                                       Diagnostics& diagnostics);

}  // namespace tscompile
