// What a shape function sees: the arguments of one call, known in full while a graph runs, in part while it is
// analysed. One function serves both, so an analysis cannot disagree with a run.
#pragma once

#include "ir/operators/op_registry.h"
#include "ir/values/error.h"
#include "ir/values/ivalue.h"
#include "ir/values/shape.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace tscompile {

// What is known of a tensor argument. `sizes` may hold unknown sizes during analysis.
struct TensorInfo {
  DType dtype = DType::Undefined;
  bool hasRank = false;
  DimSpan sizes;
  size_t rank() const { return sizes.size(); }
  // Whether it may turn out to have no elements.
  bool mayBeEmpty() const {
    return !hasRank || std::any_of(sizes.begin(), sizes.end(), [](int64_t s) { return s <= 0; });
  }
};

// What is known of a result.
struct TensorSpec {
  DType dtype = DType::Undefined;
  bool hasRank = false;
  Dims sizes;
};

// A value during analysis.
struct SymbolicValue {
  TypePtr type = nullptr;
  std::optional<IValue> constant;    // known in full
  std::optional<Dims> integers;      // of an int (one entry) or an int[]; entries may be unknown (isUnknownInteger)
  std::vector<SymbolicValue> items;  // of a list or tuple whose length is known
  bool hasItems = false;
};

// A result of inference: a tensor, or anything else.
struct InferredResult {
  enum class Kind : uint8_t { Unknown, Tensor, Integers, Tensors, Undefined } kind = Kind::Unknown;
  TensorSpec tensor;                // of Integers: they are its sizes; entries may be unknown (isUnknownInteger)
  std::vector<TensorSpec> tensors;  // of a list of tensors
};

class InferCall {
 public:
  // Thrown (and caught by the analysis) when a function asks for what is not known.
  struct NotKnown {};

  InferCall(const Operator& op, const IValue* const* values, size_t count) : op_(op), values_(values), count_(count) {}
  InferCall(const Operator& op, std::span<const SymbolicValue> symbols)
      : op_(op), symbols_(symbols.data()), count_(symbols.size()) {}
  InferCall(const InferCall&) = delete;
  InferCall& operator=(const InferCall&) = delete;
  ~InferCall() {
    for (size_t i = 0; i < resultCount_; ++i) results()[i].~InferredResult();
  }

  size_t size() const { return count_; }
  const Operator& op() const { return op_; }
  // False during analysis: then sizes may be unknown, and checks that need them are left to the run.
  bool isRun() const { return values_ != nullptr; }

  // ---- arguments, by position in the schema ----
  bool isNone(size_t i) const;
  bool isTensor(size_t i) const;
  // The argument if it is known in full, else null.
  const IValue* constant(size_t i) const { return known(i); }
  TensorInfo tensor(size_t i) const;        // fails if it is None or undefined
  TensorInfo rankedTensor(size_t i) const;  // stops the analysis if the rank is not known
  std::vector<TensorInfo> tensors(size_t i) const;
  // Of a `Tensor?[]`: nothing for items that are None.
  std::vector<std::optional<TensorInfo>> optionalTensors(size_t i) const;
  int64_t integer(size_t i) const;
  int64_t size(size_t i) const;   // an integer that may be unknown during analysis (isUnknownInteger)
  double number(size_t i) const;  // int, float or bool
  bool flag(size_t i) const;
  std::string_view text(size_t i) const;
  Dims integers(size_t i) const;  // an int[] without unknown entries; one int stands for a list of it
  Dims sizes(size_t i) const;     // an int[] whose entries may be unknown during analysis (isUnknownInteger)
  // The category and default dtype of a Scalar: bool, int64, float64 or complex128.
  DType scalarType(size_t i) const;
  // A `ScalarType?` argument, or `otherwise` for None.
  DType dtypeOr(size_t i, DType otherwise) const;
  // A dimension of a tensor of this rank, counted from the front; fails if it is out of range.
  int64_t dim(size_t i, size_t rank) const { return wrap(integer(i), rank); }
  int64_t wrap(int64_t dim, size_t rank) const;
  // A list of distinct dimensions; None and the empty list give all of them if `emptyIsAll`.
  Dims dims(size_t i, size_t rank, bool emptyIsAll) const;

  // ---- results, in order ----
  void result(DType dtype, DimSpan sizes);
  void result(const TensorInfo& like) { result(like, like.dtype); }
  void result(const TensorInfo& like, DType dtype);
  void resultOfUnknownRank(DType dtype);
  void resultTensors(std::vector<TensorSpec> tensors);
  // An int or int[] that holds sizes of tensors, which may be unknown.
  void resultSizes(DimSpan sizes);
  void resultUnknown();
  void resultUndefined();  // no tensor, such as weights that nobody asks for

  size_t resultCount() const { return resultCount_; }
  const InferredResult& inferred(size_t i) const { return results()[i]; }
  InferredResult& inferred(size_t i) { return results()[i]; }

  template <class... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) const {
    throw ExecutionError(ErrorKind::Model, fmt::format(format, std::forward<Args>(args)...));
  }
  template <class... Args>
  void require(bool condition, fmt::format_string<Args...> format, Args&&... args) const {
    if (!condition) [[unlikely]]
      fail(format, std::forward<Args>(args)...);
  }

 private:
  const IValue* known(size_t i) const {
    if (values_) return values_[i];
    return symbols_[i].constant ? &*symbols_[i].constant : nullptr;
  }
  const IValue& needed(size_t i) const {
    if (const IValue* v = known(i)) return *v;
    throw NotKnown{};
  }
  InferredResult& next();
  InferredResult* results() { return reinterpret_cast<InferredResult*>(storage_); }
  const InferredResult* results() const { return reinterpret_cast<const InferredResult*>(storage_); }

  const Operator& op_;
  const IValue* const* values_ = nullptr;
  const SymbolicValue* symbols_ = nullptr;
  size_t count_;
  static constexpr size_t kMaxResults = 8;
  size_t resultCount_ = 0;
  // Made one by one: most operators have one result, and calls must be cheap.
  alignas(InferredResult) std::byte storage_[kMaxResults * sizeof(InferredResult)];
};

}  // namespace tscompile
