#include "runtime/call/kernel_call.h"

#include "runtime/call/overlap.h"

namespace tscompile {

void KernelCall::failArgument(size_t i) const { fail("argument {}, counted from 0, is asked for, of {}", i, count_); }
void KernelCall::failResult(size_t i) const { fail("result {}, counted from 0, is asked for, of {}", i, resultCount_); }
void KernelCall::failSpec(size_t i) const {
  fail("what result {} is to be is asked for, and its inference tells {}", i + 1,
       inferred_ ? fmt::format("of {}", inferred_->resultCount()) : "nothing");
}

Tensor KernelCall::tensor(size_t i) const {
  const IValue& v = argument(i);
  if (v.isTensor()) return v.toTensor();
  if (!v.isNone()) fail("expected a tensor as argument {}", i + 1);
  return {};
}

std::vector<Tensor> KernelCall::tensors(size_t i) const {
  const IValue& v = argument(i);
  if (!v.isList()) fail("expected a list of tensors as argument {}", i + 1);
  std::vector<Tensor> out;
  out.reserve(v.toList().items.size());
  for (const IValue& item : v.toList().items) {
    if (!item.isTensor() && !item.isNone()) fail("expected tensors in the list that is argument {}", i + 1);
    out.push_back(item.isTensor() ? item.toTensor() : Tensor());
  }
  return out;
}

int64_t KernelCall::integer(size_t i) const {
  const IValue& v = argument(i);
  if (v.isInt()) return v.toInt();
  if (v.isBool()) return v.toBool();
  if (v.isFloat()) return static_cast<int64_t>(v.toFloat());
  fail("expected an integer as argument {}", i + 1);
}

double KernelCall::number(size_t i) const {
  const IValue& v = argument(i);
  if (v.isComplex()) {
    if (v.toComplex().imag() != 0) fail("value cannot be converted to type double without overflow");
    return v.toComplex().real();
  }
  if (!v.isNumber()) fail("expected a number as argument {}", i + 1);
  return v.toDouble();
}

std::complex<double> KernelCall::complex(size_t i) const {
  const IValue& v = argument(i);
  return v.isComplex() ? v.toComplex() : std::complex<double>(number(i));
}

bool KernelCall::flag(size_t i) const {
  const IValue& v = argument(i);
  if (!v.isBool() && !v.isInt()) fail("expected a bool as argument {}", i + 1);
  return v.isInt() ? v.toInt() != 0 : v.toBool();
}

const std::string& KernelCall::text(size_t i) const {
  const IValue& v = argument(i);
  if (!v.isString()) fail("expected a string as argument {}", i + 1);
  return v.toString();
}

Dims KernelCall::integers(size_t i) const {
  const IValue& v = argument(i);
  Dims out;
  if (v.isInt()) {
    out.push_back(v.toInt());
  } else if (v.isList()) {
    for (const IValue& item : v.toList().items) {
      if (!item.isInt()) fail("expected integers in the list that is argument {}", i + 1);
      out.push_back(item.toInt());
    }
  } else if (!v.isNone()) {
    fail("expected a list of integers as argument {}", i + 1);
  }
  return out;
}

std::vector<double> KernelCall::numbers(size_t i) const {
  const IValue& v = argument(i);
  std::vector<double> out;
  if (v.isNumber()) {
    out.push_back(v.toDouble());
  } else if (v.isList()) {
    for (const IValue& item : v.toList().items) {
      if (!item.isNumber() || item.isComplex()) fail("expected numbers in the list that is argument {}", i + 1);
      out.push_back(item.toDouble());
    }
  } else if (!v.isNone()) {
    fail("expected a list of numbers as argument {}", i + 1);
  }
  return out;
}

DType KernelCall::dtypeOr(size_t i, DType otherwise) const {
  const IValue& v = argument(i);
  if (v.isNone()) return otherwise;
  std::optional<DType> dtype = v.isInt() ? dtypeFromNumber(v.toInt()) : std::nullopt;
  if (!dtype) fail("expected the number of a dtype as argument {}", i + 1);
  return *dtype;
}

namespace {
void wrap(const KernelCall& call, int64_t& dim, int64_t rank) {
  const int64_t given = dim, n = std::max<int64_t>(rank, 1);
  call.require(wrapDim(dim, rank), "dimension out of range (expected to be in range of [{}, {}], but got {})", -n,
               n - 1, given);
}
}  // namespace

int64_t KernelCall::dim(size_t i, int rank) const {
  int64_t d = integer(i);
  wrap(*this, d, rank);
  return d;
}

Dims KernelCall::dims(size_t i, int rank, bool emptyIsAll) const {
  Dims out = integers(i);
  if (out.empty() && emptyIsAll)
    for (int64_t d = 0; d < rank; ++d) out.push_back(d);
  else
    for (int64_t& d : out) wrap(*this, d, rank);
  return out;
}

Tensor KernelCall::out(size_t i) {
  if (hasOut(i)) return results_[i].toTensor();
  bool isSelf = i == 0 && isInPlace();
  if (!isSelf && inferred_ && inferred_->inferred(i).kind == InferredResult::Kind::Unknown) [[unlikely]]
    fail("out({}) has no sizes: its inference tells none, so setResult({}, ...) is to give it", i, i);
  Tensor t = isSelf ? tensor(0) : Tensor::empty(spec(i).dtype, spec(i).sizes);
  if (isSelf) requireWritable(t);
  results_[i] = t;
  return t;
}

void requireOwned(const Tensor& t) {
  if (t.storage()->readOnly())
    throw ExecutionError(ErrorKind::Model,
                         "an in-place operation writes to what runs only read: a constant, a weight, or memory that "
                         "the caller lent as const (Tensor::borrow of a const pointer)");
}

void requireWritable(const Tensor& t) {
  requireOwned(t);
  if (repeatsElements(t.sizes(), t.strides()))
    throw ExecutionError(ErrorKind::Model,
                         "unsupported operation: more than one element of the written-to tensor refers to a single "
                         "memory location. Please clone() the tensor before performing the operation.");
}

void requireNoPartialOverlap(const Tensor& to, const Tensor& from) {
  if (!sameElements(to, from) && memoryOverlaps(to, from))
    throw ExecutionError(ErrorKind::Model, std::string(kOverlapRefused));
}

}  // namespace tscompile
