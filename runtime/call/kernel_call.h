// What a kernel sees: checked arguments, results whose dtype and sizes are known, the context of the run.
#pragma once

#include "ir/operators/infer_call.h"
#include "runtime/call/run_context.h"

#include <fmt/core.h>

#include <complex>
#include <string>
#include <vector>

namespace tscompile {

class KernelCall {
 public:
  KernelCall(const Operator& op, const IValue* const* arguments, size_t count, const InferCall* inferred,
             IValue* results, size_t resultCount, RunContext& context)
      : op_(op),
        arguments_(arguments),
        count_(count),
        inferred_(inferred),
        results_(results),
        resultCount_(resultCount),
        context_(context) {}

  // ---- arguments, by position in the schema ----
  size_t size() const { return count_; }
  const IValue& argument(size_t i) const {
    if (i >= count_) [[unlikely]]
      failArgument(i);
    return *arguments_[i];
  }
  const IValue* const* arguments() const { return arguments_; }
  bool isNone(size_t i) const {
    const IValue& v = argument(i);
    return v.isNone() || (v.isTensor() && !v.tensorImpl());
  }
  Tensor tensor(size_t i) const;  // undefined if it is None
  std::vector<Tensor> tensors(size_t i) const;
  int64_t integer(size_t i) const;
  double number(size_t i) const;
  std::complex<double> complex(size_t i) const;
  bool flag(size_t i) const;
  const std::string& text(size_t i) const;
  Dims integers(size_t i) const;
  std::vector<double> numbers(size_t i) const;
  DType dtypeOr(size_t i, DType otherwise) const;
  // A dimension counted from the front; inference has checked it.
  int64_t dim(size_t i, int rank) const;
  Dims dims(size_t i, int rank, bool emptyIsAll) const;

  // ---- results ----
  size_t resultCount() const { return resultCount_; }
  // What inference said of result i.
  const TensorSpec& spec(size_t i = 0) const {
    if (!inferred_ || i >= inferred_->resultCount()) [[unlikely]]
      failSpec(i);
    return inferred_->inferred(i).tensor;
  }
  // The result as a contiguous tensor to be written; of in-place operators, the first argument itself.
  Tensor out(size_t i = 0);
  bool hasOut(size_t i = 0) const { return result(i).isTensor() && result(i).tensorImpl(); }
  void setResult(size_t i, IValue value) { result(i) = std::move(value); }
  void setResult(IValue value) { setResult(0, std::move(value)); }
  // Whether out() is the first argument.
  bool isInPlace() const { return op_.isInPlaceVariant() && !aside_; }
  // Makes out() a tensor of its own all the same.
  void computeAside() { aside_ = true; }

  RunContext& context() const { return context_; }
  const Operator& op() const { return op_; }

  template <class... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) const {
    throw ExecutionError(ErrorKind::Model, fmt::format(format, std::forward<Args>(args)...));
  }
  template <class... Args>
  void require(bool condition, fmt::format_string<Args...> format, Args&&... args) const {
    if (!condition) [[unlikely]]
      fail(format, std::forward<Args>(args)...);
  }
  [[noreturn]] void unsupported(std::string what) const {
    throw ExecutionError(ErrorKind::Unsupported, std::move(what));
  }

 private:
  // Functions of others may ask for anything.
  [[noreturn]] void failArgument(size_t i) const;
  [[noreturn]] void failSpec(size_t i) const;
  [[noreturn]] void failResult(size_t i) const;
  IValue& result(size_t i) const {
    if (i >= resultCount_) [[unlikely]]
      failResult(i);
    return results_[i];
  }

  const Operator& op_;
  const IValue* const* arguments_;
  size_t count_;
  const InferCall* inferred_;
  IValue* results_;
  size_t resultCount_;
  RunContext& context_;
  bool aside_ = false;  // an in-place operator that computes a result of its own first
};

// For kernels that write to an argument without being made as a variant with a trailing underscore. They fail for ...
void requireOwned(const Tensor& t);                                  // ... constants and weights, which runs share
void requireWritable(const Tensor& t);                               // ... these, and elements that stand for several
void requireNoPartialOverlap(const Tensor& to, const Tensor& from);  // ... two tensors that are not the same but share

}  // namespace tscompile
