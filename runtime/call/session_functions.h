// Functions of an operator that carry something with them: a user's operator or converter, a plugin. The record of such
// an operator names them in `session`, and takes its plain functions from here.
#pragma once

#include "runtime/call/kernel_call.h"

#include <functional>
#include <memory>

namespace tscompile {

class ConvertCall;

// Adds to the network what computes one node, and sets its results. It may refuse (ConvertCall::refuse) or throw: then
// the node runs in the interpreter, and reports have the reason.
using Converter = std::function<void(ConvertCall&)>;

struct SessionFunctions {
  std::function<void(InferCall&)> infer;
  std::function<void(KernelCall&)> kernel;
  Converter convert;
  // Of operators that may be forgotten: who uses one beyond a call holds this as long. Null: they stay.
  std::weak_ptr<const void> lifetime = {};
};

inline void inferBySession(InferCall& call) { call.op().def().session->infer(call); }
inline void computeBySession(KernelCall& call) { call.op().def().session->kernel(call); }

}  // namespace tscompile
