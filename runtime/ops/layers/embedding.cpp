// Rows of a table by their numbers: embedding, and bags of rows that are joined into one.
#include "ir/values/size_expression.h"
#include "runtime/engine/layers/bag_layer.h"
#include "runtime/engine/layers/indexing_layer.h"
#include "runtime/ops/call_op.h"
#include "runtime/ops/moved_types.h"
#include "runtime/ops/ops.h"
#include "runtime/reference/dense.h"
#include "runtime/reference/indexing.h"
#include "runtime/reference/loops/copy.h"
#include "runtime/reference/views.h"

#include <algorithm>

namespace tscompile {
namespace {

void requireIndexType(const InferCall& call, const char* name, DType dtype) {
  bool fits = dtype == DType::Int64 || dtype == DType::Int32 || dtype == DType::Undefined;
  call.require(fits,
               "Expected tensor for argument #1 '{}' to have one of the following scalar types: Long, Int; but got "
               "torch.{}Tensor instead (while checking arguments for {})",
               name, graphName(dtype), call.op().kind().name());
}

void requireMatrix(const InferCall& call, const TensorInfo& weight) {
  call.require(!weight.hasRank || weight.rank() == 2, "'weight' must be 2-D, but it has {} dimensions", weight.rank());
}

// ---- embedding ----

void inferEmbedding(InferCall& call) {
  TensorInfo weight = call.tensor(0), indices = call.tensor(1);
  requireMatrix(call, weight);
  requireIndexType(call, "indices", indices.dtype);
  if (!indices.hasRank) return call.resultOfUnknownRank(weight.dtype);
  Dims sizes(indices.sizes);
  sizes.push_back(weight.hasRank ? weight.sizes[1] : kUnknownSize);
  call.result(weight.dtype, sizes);
}

void embeddingKernel(KernelCall& call) {
  Tensor weight = call.tensor(0), indices = convertTensor(call.tensor(1), DType::Int64), out = call.out();
  int64_t rowBytes = weight.stride(0) * static_cast<int64_t>(itemSize(weight.dtype()));
  Tensor offsets = Tensor::empty(DType::Int64, Dims{indices.numel()});
  auto* offset = offsets.data<int64_t>();
  for (int64_t i = 0; i < indices.numel(); ++i)
    offset[i] = checkedIndex(indices.data<int64_t>()[i], weight.size(0), 0, false) * rowBytes;
  gatherBlocks(IndexedView(weight, 0, 1), {offset, static_cast<size_t>(offsets.numel())},
               reshaped(out, Dims{indices.numel(), weight.size(1)}));
}

// ---- embedding_renorm_: rows that are used get a norm of at most max_norm ----

void inferEmbeddingRenorm(InferCall& call) {
  TensorInfo weight = call.tensor(0), indices = call.tensor(1);
  requireMatrix(call, weight);
  requireIndexType(call, "indices", indices.dtype);
  call.result(weight);
}

void renormRows(const KernelCall& call, const Tensor& weight) {
  Tensor indices = convertTensor(call.tensor(1), DType::Int64);
  std::vector<int64_t> rows(indices.data<int64_t>(), indices.data<int64_t>() + indices.numel());
  for (int64_t& row : rows) row = checkedIndex(row, weight.size(0), 0, true);
  std::sort(rows.begin(), rows.end());
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  double most = call.number(2);
  for (int64_t i : rows) {
    Tensor row = selected(weight, 0, i);
    double norm = invokeTensor(call, "aten::norm.Scalar", {row, call.argument(3)}).real(0);
    if (norm > most) invoke(call, "aten::mul_.Scalar", {row, most / (norm + 1e-7)});
    call.context().checkInterrupt(row.numel());
  }
}

void embeddingRenormKernel(KernelCall& call) {
  Tensor weight = call.isInPlace() ? call.tensor(0) : cloneTensor(call.tensor(0));
  if (call.isInPlace()) requireWritable(weight);
  renormRows(call, weight);
  call.setResult(weight);
}

void noGradRenormKernel(KernelCall& call) {
  requireWritable(call.tensor(0));
  renormRows(call, call.tensor(0));
  call.setResult(call.tensor(0));
}

// ---- embedding_bag ----

enum class BagMode : int64_t { Sum, Mean, Max };

// Whether a negative padding_idx counts from the end; elsewhere it means none.
bool countsPadding(const Operator& op) { return op.overload() == "padding_idx"; }

// Arguments: weight, indices, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights, include_last_offset,
// padding_idx. Results: the bags; for each index its bag; the bags' sizes; the rows that the maxima come from. As in
// PyTorch the latter three are filled in as far as a derivative needs them.
struct BagCall {
  explicit BagCall(const KernelCall& call);
  int64_t begin(int64_t bag) const { return offsets.data<int64_t>()[bag]; }
  int64_t end(int64_t bag) const {
    return bag + 1 < offsets.numel() ? offsets.data<int64_t>()[bag + 1] : indices.numel();
  }

  Tensor indices, offsets;  // int64, one after the other
  BagMode mode;
  int64_t bags, padding = -1;
};

BagCall::BagCall(const KernelCall& call)
    : indices(reshaped(convertTensor(call.tensor(1), DType::Int64), Dims{call.tensor(1).numel()})),
      offsets(convertTensor(call.tensor(2), DType::Int64)),
      mode(static_cast<BagMode>(call.integer(4))),
      bags(call.spec().sizes[0]) {
  int64_t rows = call.tensor(0).size(0), n = indices.numel();
  for (int64_t i = 0; i < n; ++i) checkedIndex(indices.data<int64_t>()[i], rows, 0, false);
  call.require(
      !offsets.numel() || begin(0) == 0,
      "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from position 0, but it is {}",
      offsets.numel() ? begin(0) : 0);
  for (int64_t i = 0; i < offsets.numel(); ++i)
    call.require(begin(i) <= end(i),
                 "offsets must not decrease nor be greater than the number of indices, {}, but offset {} is {}", n, i,
                 begin(i));
  if (call.size() <= 8 || call.isNone(8)) return;
  padding = call.integer(8);
  if (countsPadding(call.op()))
    call.require(rows > 0 && wrapDim(padding, rows), "padding_idx must be within the {} rows of the weight, got {}",
                 rows, padding);
}

void inferEmbeddingBag(InferCall& call) {
  TensorInfo weight = call.tensor(0), indices = call.tensor(1), offsets = call.tensor(2);
  requireMatrix(call, weight);
  requireIndexType(call, "indices", indices.dtype);
  requireIndexType(call, "offsets", offsets.dtype);
  call.require(!indices.hasRank || indices.rank() == 1 || indices.rank() == 2,
               "the indices have to be a 1D or 2D tensor, but have {} dimensions", indices.rank());
  call.require(!offsets.hasRank || offsets.rank() == 1, "the offsets have to be a 1D tensor, but have {} dimensions",
               offsets.rank());
  int64_t mode = call.integer(4);
  call.require(mode >= 0 && mode <= 2, "embedding_bag: mode must be 0 (sum), 1 (mean) or 2 (max), got {}", mode);
  if (!call.isNone(6)) {
    TensorInfo samples = call.tensor(6);
    call.require(mode == 0, "embedding_bag: per_sample_weights is only supported with mode 'sum'");
    call.require(samples.dtype == weight.dtype || !call.isRun(),
                 "per_sample_weights must be {} as the weight is, not {}", pythonName(weight.dtype),
                 pythonName(samples.dtype));
    if (samples.hasRank && indices.hasRank) {
      auto given = knownNumel(samples.sizes), needed = knownNumel(indices.sizes);
      call.require(samples.rank() == 1 && (!given || !needed || *given == *needed),
                   "per_sample_weights must have one number for each index: sizes {} for {}", dimsText(samples.sizes),
                   dimsText(indices.sizes));
    }
  }
  DType index = indices.dtype == offsets.dtype ? indices.dtype : DType::Int64;
  if (!weight.hasRank || !offsets.hasRank) {
    call.resultOfUnknownRank(weight.dtype);
    for (int i = 0; i < 3; ++i) call.resultOfUnknownRank(index);
    return;
  }
  int64_t bags = offsets.sizes[0];
  bool includeLast = call.flag(7);
  call.require(!includeLast || bags != 0, "include_last_offset: the number of offsets should be at least 1");
  if (includeLast) bags = (SizeExpression::ofSize(bags) - 1).size();
  bool hasPadding = call.size() > 8 && !call.isNone(8) && (countsPadding(call.op()) || call.integer(8) >= 0);
  // Sums of these dtypes have a way of their own in PyTorch.
  bool isPlainSum = mode == 0 && !hasPadding && (weight.dtype == DType::Float32 || weight.dtype == DType::Float16);
  call.result(weight.dtype, Dims{bags, weight.sizes[1]});
  call.result(index, Dims{isPlainSum ? 0 : indices.hasRank ? elementCount(indices.sizes).size() : kUnknownSize});
  Dims perBag{mode == 0 ? offsets.sizes[0] : bags};
  call.result(index, perBag);
  call.result(index, mode == 2 ? Dims{bags, weight.sizes[1]} : perBag);
}

template <class T>
struct BagLoop {
  const BagCall& bag;
  const T* weight;  // the table, or its rows in the order of the indices
  bool isPicked;
  const T* samples;  // null: all 1
  int64_t columns;
  T* out;
  int64_t* sizes;   // of the bags, without what is padding
  int64_t* maxima;  // null unless the mode is max

  void run() {
    for (int64_t b = 0; b < bag.bags; ++b) {
      join(b);
      RunContext::current().checkInterrupt((bag.end(b) - bag.begin(b) + 1) * columns);
    }
  }

  void join(int64_t b) {
    T* to = out + b * columns;
    std::fill_n(to, columns, T(0));
    // The last bag ends where the indices end for the purpose of a mean, even if an offset says otherwise.
    int64_t counted = b + 1 == bag.bags ? bag.indices.numel() : bag.end(b);
    sizes[b] = 0;
    for (int64_t i = bag.begin(b); i < counted; ++i) {
      int64_t row = bag.indices.data<int64_t>()[i];
      if (row == bag.padding) continue;
      ++sizes[b];
      if (i < bag.end(b)) add(to, b, weight + (isPicked ? i : row) * columns, row, i);
    }
    if (bag.mode == BagMode::Mean && sizes[b])
      for (int64_t k = 0; k < columns; ++k) to[k] /= static_cast<T>(sizes[b]);
  }

  void add(T* to, int64_t b, const T* row, int64_t rowNumber, int64_t i) {
    if (bag.mode != BagMode::Max) {
      T factor = samples ? samples[i] : T(1);
      for (int64_t k = 0; k < columns; ++k) to[k] += factor * row[k];
      return;
    }
    for (int64_t k = 0; k < columns; ++k) {
      if (sizes[b] > 1 && !(row[k] > to[k])) continue;
      to[k] = row[k];
      maxima[b * columns + k] = rowNumber;
    }
  }
};

void embeddingBagKernel(KernelCall& call) {
  BagCall bag(call);
  Tensor table = call.tensor(0), samples = denseTensor(call.tensor(6));
  // A table that is stored in another way is converted, of which few rows are.
  const bool isPicked = bag.indices.numel() < table.size(0);
  if (isPicked) table = invokeTensor(call, "aten::embedding", {table, bag.indices, int64_t{-1}, false, false});
  Tensor weight = denseTensor(table);
  DenseResult out(call.out());
  Tensor sizes = Tensor::zeros(DType::Int64, Dims{bag.bags}), maxima;
  if (bag.mode == BagMode::Max) maxima = Tensor::zeros(DType::Int64, call.spec(3).sizes);
  withFloating(weight.dtype(), [&](auto sample) {
    using T = decltype(sample);
    BagLoop<T>{bag,
               weight.data<T>(),
               isPicked,
               samples.defined() ? samples.data<T>() : nullptr,
               weight.size(1),
               out.data<T>(),
               sizes.data<int64_t>(),
               maxima.defined() ? maxima.data<int64_t>() : nullptr}
        .run();
  });
  out.store();
  Tensor owners = call.out(1), sizesOut = call.out(2), maximaOut = call.out(3);
  if (owners.numel()) {
    Tensor owner = Tensor::zeros(DType::Int64, owners.sizes());
    for (int64_t b = 0; b < bag.offsets.numel(); ++b)
      std::fill(owner.data<int64_t>() + bag.begin(b), owner.data<int64_t>() + bag.end(b), b);
    copyTensor(owners, owner);
  }
  if (bag.mode == BagMode::Sum)
    fillTensor(sizesOut, 0);
  else
    copyTensor(sizesOut, sizes);
  copyTensor(maximaOut, maxima.defined() ? maxima : sizesOut);
}

}  // namespace

void registerEmbeddingOps(OpRegistry& ops) {
  ops.add({.schema = "aten::embedding",
           .infer = inferEmbedding,
           .kernel = embeddingKernel,
           .convert = convertEmbedding,
           .dtypes = kMovedTypes});
  ops.add({.schema = "aten::embedding_renorm_",
           .infer = inferEmbeddingRenorm,
           .kernel = embeddingRenormKernel,
           .dtypes = kFloatingTypes,
           .inplace = InPlace::Direct});
  ops.add({.schema = "aten::embedding_renorm",
           .infer = inferEmbeddingRenorm,
           .kernel = embeddingRenormKernel,
           .dtypes = kFloatingTypes});
  ops.add({.schema = "aten::_no_grad_embedding_renorm_",
           .infer = inferEmbeddingRenorm,
           .kernel = noGradRenormKernel,
           .dtypes = kFloatingTypes,
           .traits = {Trait::SideEffects}});
  for (std::string_view name : {"aten::embedding_bag", "aten::embedding_bag.padding_idx", "aten::_embedding_bag",
                                "aten::_embedding_bag_forward_only"})
    ops.add({.schema = name,
             .infer = inferEmbeddingBag,
             .kernel = embeddingBagKernel,
             .convert = convertEmbeddingBag,
             .dtypes = kFloatingTypes});
}

}  // namespace tscompile
