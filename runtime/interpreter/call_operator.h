// One operator on values, with the rules that all operators share.
#pragma once

#include "runtime/call/kernel_call.h"

namespace tscompile {

// Runs one operator: inference, checks that all operators share (dtype, in-place rules), the kernel, results.
// `results` has room for `resultCount` values.
void callOperator(const Operator& op, const IValue* const* arguments, size_t count, IValue* results, size_t resultCount,
                  RunContext& context);

}  // namespace tscompile
