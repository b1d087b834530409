#include "runtime/reference/reduction_call.h"

#include "runtime/reference/loops/copy.h"
#include "runtime/reference/loops/reduce.h"

namespace tscompile {

size_t argumentIndex(const Operator& op, std::string_view name) {
  return op.schema().argumentIndex(name).value_or(op.schema().arguments.size());
}

namespace {

// Overloads `dims`, of any and all, take the empty list at its word.
template <class Call>
bool isEmptyAll(const Call& call, size_t dim) {
  return call.isNone(dim) || call.op().overload() != "dims";
}

}  // namespace

void inferReductions(InferCall& call, std::initializer_list<DType> dtypes) {
  TensorInfo t = call.tensor(0);
  size_t dim = argumentIndex(call.op(), "dim"), keep = argumentIndex(call.op(), "keepdim");
  bool all = dim >= call.size() || (t.hasRank && call.isNone(dim));
  bool keepDim = keep < call.size() && call.flag(keep);
  if (!t.hasRank && (!all || keepDim)) {
    for (DType d : dtypes) call.resultOfUnknownRank(d);
    return;
  }
  Dims reduced;
  if (t.hasRank && dim < call.size())
    reduced = call.dims(dim, t.rank(), isEmptyAll(call, dim));
  else
    for (size_t d = 0; d < t.rank(); ++d) reduced.push_back(static_cast<int64_t>(d));
  Dims sizes = reducedSizes(t.sizes, reduced, keepDim);
  for (DType d : dtypes) call.result(d, sizes);
}

void inferReduction(InferCall& call, DType dtype) { inferReductions(call, {dtype}); }

DType reductionDType(const InferCall& call, DType (*otherwise)(DType)) {
  size_t i = argumentIndex(call.op(), "dtype");
  DType dtype = otherwise(call.tensor(0).dtype);
  return i < call.size() ? call.dtypeOr(i, dtype) : dtype;
}

Dims reducedDims(const KernelCall& call, int rank) {
  size_t i = argumentIndex(call.op(), "dim");
  if (i < call.size()) return call.dims(i, rank, isEmptyAll(call, i));
  Dims all;
  for (int d = 0; d < rank; ++d) all.push_back(d);
  return all;
}

}  // namespace tscompile
