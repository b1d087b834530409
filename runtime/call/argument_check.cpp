#include "runtime/call/argument_check.h"

#include "ir/values/error.h"

#include <fmt/core.h>

#include <algorithm>

namespace tscompile {
namespace {

bool isDefined(const IValue& v) { return v.isTensor() && v.tensorImpl(); }
bool isFlag(const IValue& v) { return v.isBool() || v.isInt(); }
bool isUndefined(const IValue& v) { return v.isTensor() && !v.tensorImpl(); }

template <class F>
bool allItems(const IValue& list, F&& fits) {
  return std::all_of(list.toList().items.begin(), list.toList().items.end(), fits);
}

// What was expected, in front of "argument 1", or null if the value fits.
const char* listProblem(const IValue& v, TypePtr element) {
  switch (element->kind()) {
    case TypeKind::Tensor:
      if (!v.isList()) return "a list of tensors as";
      return allItems(v, isDefined) ? nullptr : "tensors in the list that is";
    case TypeKind::Optional:
      if (!element->element()->isTensor()) return nullptr;
      if (!v.isList()) return "a list of tensors as";
      return allItems(v, [](const IValue& item) { return item.isNone() || item.isTensor(); })
                 ? nullptr
                 : "tensors or None in the list that is";
    case TypeKind::Bool:
      if (isFlag(v)) return nullptr;
      return v.isList() && allItems(v, isFlag) ? nullptr : "a list of bools as";
    case TypeKind::Int:
    case TypeKind::Float:
    case TypeKind::Number:
      return v.isList() || v.isNumber() || v.isNone() ? nullptr : "a list of numbers as";
    default:
      return nullptr;
  }
}

const char* problem(const IValue& v, TypePtr type) {
  switch (type->kind()) {
    case TypeKind::Optional:
      return v.isNone() || isUndefined(v) ? nullptr : problem(v, type->element());
    case TypeKind::Tensor:
      return isDefined(v) || v.isNumber() ? nullptr : "a tensor as";
    case TypeKind::Number:
      return isDefined(v) || v.isNumber() ? nullptr : "a number as";
    case TypeKind::Float:
      return v.isNumber() ? nullptr : "a number as";
    case TypeKind::Int:
      return v.isInt() || v.isBool() || v.isFloat() ? nullptr : "an integer as";
    case TypeKind::Bool:
      return isFlag(v) ? nullptr : "a bool as";
    case TypeKind::String:
      return v.isString() ? nullptr : "a string as";
    case TypeKind::List:
      return listProblem(v, type->element());
    default:
      return nullptr;
  }
}

}  // namespace

void checkArguments(const Operator& op, const IValue* const* arguments, size_t count) {
  const auto& declared = op.schema().arguments;
  count = std::min(count, declared.size());
  for (size_t i = 0; i < count; ++i) {
    const char* expected = problem(*arguments[i], declared[i].type);
    if (declared[i].isWritten() && declared[i].type->isTensor() && !isDefined(*arguments[i])) expected = "a tensor as";
    if (!expected) [[likely]]
      continue;
    throw ExecutionError(ErrorKind::Model, fmt::format("expected {} argument {}{}", expected, i + 1,
                                                       isUndefined(*arguments[i]) ? ", not an undefined one" : ""));
  }
}

}  // namespace tscompile
