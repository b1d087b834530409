// TorchScript archives as modules: the object tree of the file joined with the graphs of its code.
#pragma once

#include "ir/graph/module.h"
#include "ir/operators/op_registry.h"
#include "ir/operators/unknown_operators.h"
#include "ir/support/diagnostics.h"
#include "ir/support/limits.h"
#include "ir/support/result.h"
#include "ir/values/ivalue.h"

#include <map>
#include <string>
#include <vector>

namespace tscompile {

struct OpenedArchive {
  ParsedText text;  // a dump, in which each class has its graphs once
  // What arguments of the module's methods are if they are not given: by method, then by name.
  std::map<std::string, std::map<std::string, IValue>> defaults;
  std::vector<IValue> members;            // of the enums of the code
  std::vector<Ref<ObjectValue>> objects;  // after the modules of the dump, as far as they stand for instances
};

// Whether the file begins as PyTorch's archives do.
bool isTorchArchive(const std::string& path);
// Reads the file and compiles the methods of its module and all that they call. Tensors are mapped, not copied.
Result<OpenedArchive> openArchive(const std::string& path, const OpRegistry& registry, const Limits& limits,
                                  Diagnostics& diagnostics, UnknownOperators unknown = UnknownOperators::Refused);

}  // namespace tscompile
