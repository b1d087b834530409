// Functions of an operator that carry something with them: a user's operator or converter, a plugin. The record of such
// an operator names them in `session`, and takes its plain functions from here.
#pragma once

#include "ir/values/error.h"
#include "runtime/call/kernel_call.h"

#include <functional>
#include <memory>
#include <span>
#include <string_view>

namespace tscompile {

class ConvertCall;

// Adds to the network what computes one node, and sets its results. It may refuse (ConvertCall::refuse) or throw: then
// the node runs in the interpreter, and reports have the reason.
using Converter = std::function<void(ConvertCall&)>;

struct SessionFunctions {
  std::function<void(InferCall&)> infer;  // null: results are known when the kernel has given them
  std::function<void(KernelCall&)> kernel;
  Converter convert;
  // Of operators that may be forgotten: who uses one beyond a call holds this as long. Null: they stay.
  std::weak_ptr<const void> lifetime = {};
};

// What code of others threw that is no ExecutionError.
class SessionFailure : public ExecutionError {
 public:
  explicit SessionFailure(std::string message) : ExecutionError(ErrorKind::Model, std::move(message)) {}
};
// Inside of a handler of all exceptions that names what failed ("the kernel"): throws a SessionFailure of what is being
// handled. That there is no memory is nobody's failure, and is thrown again.
[[noreturn]] void throwSessionFailure(std::string_view what);

// Both throw what the functions throw as ExecutionErrors; in a run, inference has to tell of each result what the
// schema says that it is.
void inferBySession(InferCall& call);
void computeBySession(KernelCall& call);
// Throws where a kernel has left a result out, or gave another one than inference told.
void checkSessionResults(const Operator& op, const InferCall& inferred, std::span<const IValue> results);

// Whether a value is the tensor that inference told, as far as it told it.
bool fits(const IValue& value, const TensorSpec& spec);

}  // namespace tscompile
