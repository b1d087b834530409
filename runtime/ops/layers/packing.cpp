// Sequences of several lengths, packed for recurrent networks: the steps' batches one after the other, without padding.
#include "runtime/call/kernel_call.h"
#include "runtime/ops/ops.h"
#include "runtime/reference/loops/copy.h"
#include "runtime/reference/views.h"

#include <algorithm>

namespace tscompile {
namespace {

// ---- _pack_padded_sequence(input, lengths, batch_first) -> the data and how many sequences go on at each step ----

void inferPack(InferCall& call) {
  TensorInfo x = call.rankedTensor(0), lengths = call.tensor(1);
  call.require(x.rank() >= 2, "expected an input of at least 2 dimensions, got {}", x.rank());
  call.require(lengths.dtype == DType::Int64 || lengths.dtype == DType::Undefined, "the lengths must be int64, not {}",
               pythonName(lengths.dtype));
  call.require(!lengths.hasRank || lengths.rank() == 1, "the lengths must be a 1D tensor, got {} dimensions",
               lengths.rank());
  Dims sizes{kUnknownSize};
  for (int64_t size : x.sizes.subspan(2)) sizes.push_back(size);
  call.result(x.dtype, sizes);
  call.result(DType::Int64, Dims{kUnknownSize});
}

void packKernel(KernelCall& call) {
  Tensor x = call.tensor(0), lengths = contiguous(call.tensor(1));
  if (call.flag(2)) x = transposed(x, 0, 1);
  int64_t steps = x.size(0), batch = x.size(1), rows = 0;
  const auto* length = lengths.data<int64_t>();
  call.require(batch > 0 && lengths.numel() == batch, "expected {} lengths for a batch of {}, got {}", batch, batch,
               lengths.numel());
  for (int64_t b = 0; b < batch; ++b) {
    call.require(length[b] > 0 && length[b] <= steps, "length {} of sequence {} is not from 1 to {}", length[b], b,
                 steps);
    call.require(b == 0 || length[b] <= length[b - 1], "the lengths must be sorted in decreasing order");
    rows += length[b];
  }
  Dims sizes{rows};
  for (int64_t size : x.sizes().subspan(2)) sizes.push_back(size);
  Tensor data = Tensor::empty(x.dtype(), sizes), counts = Tensor::empty(DType::Int64, Dims{length[0]});
  int64_t going = batch, at = 0;
  for (int64_t t = 0; t < length[0]; ++t) {
    while (length[going - 1] <= t) --going;
    copyTensor(narrowed(data, 0, at, going), narrowed(selected(x, 0, t), 0, 0, going));
    counts.data<int64_t>()[t] = going;
    at += going;
    call.context().checkInterrupt(256);
  }
  call.setResult(0, data);
  call.setResult(1, counts);
}

// ---- _pad_packed_sequence(data, batch_sizes, batch_first, padding_value, total_length) -> sequences, lengths ----

void inferPadPacked(InferCall& call) {
  TensorInfo x = call.rankedTensor(0), counts = call.tensor(1);
  call.require(x.rank() >= 1, "expected data with dimensions");
  call.require(counts.dtype == DType::Int64 || counts.dtype == DType::Undefined,
               "the batch sizes must be int64, not {}", pythonName(counts.dtype));
  call.require(!counts.hasRank || counts.rank() == 1, "the batch sizes must be a 1D tensor, got {} dimensions",
               counts.rank());
  Dims sizes{kUnknownSize, kUnknownSize};
  for (int64_t size : x.sizes.subspan(1)) sizes.push_back(size);
  call.result(x.dtype, sizes);
  call.result(DType::Int64, Dims{kUnknownSize});
}

void padPackedKernel(KernelCall& call) {
  Tensor x = call.tensor(0), counts = contiguous(call.tensor(1));
  const auto* count = counts.data<int64_t>();
  int64_t steps = counts.numel(), total = call.integer(4), rows = 0;
  call.require(steps > 0, "expected at least one batch size");
  call.require(total <= 0 || total >= steps,
               "expected total_length to be at least the length of the longest sequence, {}, got {}", steps, total);
  for (int64_t t = 0; t < steps; ++t) {
    call.require(count[t] > 0 && (t == 0 || count[t] <= count[t - 1]),
                 "the batch sizes must be positive and not increase");
    call.require(count[t] <= x.size(0) - rows, "the batch sizes need more than the {} rows of the data", x.size(0));
    rows += count[t];
  }
  Dims sizes{std::max(total, steps), count[0]};
  for (int64_t size : x.sizes().subspan(1)) sizes.push_back(size);
  Tensor out = Tensor::empty(x.dtype(), sizes), lengths = Tensor::zeros(DType::Int64, Dims{count[0]});
  fillTensor(out, call.argument(3));
  for (int64_t t = 0, at = 0; t < steps; at += count[t++]) {
    copyTensor(narrowed(selected(out, 0, t), 0, 0, count[t]), narrowed(x, 0, at, count[t]));
    for (int64_t b = 0; b < count[t]; ++b) ++lengths.data<int64_t>()[b];
    call.context().checkInterrupt(256);
  }
  call.setResult(0, call.flag(2) ? transposed(out, 0, 1) : out);
  call.setResult(1, lengths);
}

// ---- nested tensors of rows of several lengths, which only the layers of nn.TransformerEncoder take ----

// The elements of the rows that a mask counts: a row has as many as its mask has truths, from the left.
std::vector<int64_t> countedLengths(const KernelCall& call, const Tensor& mask) {
  const Tensor m = contiguous(mask);
  std::vector<int64_t> lengths;
  for (int64_t b = 0; b < m.size(0); ++b) {
    const bool* row = m.data<bool>() + b * m.size(1);
    lengths.push_back(std::count(row, row + m.size(1), true));
    call.context().checkInterrupt(m.size(1));
  }
  return lengths;
}

void requireMaskOfRows(InferCall& call) {
  TensorInfo t = call.tensor(0), mask = call.tensor(1);
  call.require(mask.dtype == DType::Bool || mask.dtype == DType::Undefined,
               "Expected mask to be of ScalarType Bool, but got {} instead.", pythonName(mask.dtype));
  call.require(!mask.hasRank || mask.rank() == 2, "Padding mask should be 2D");
  call.require(!t.hasRank || t.rank() == 3, "Input should be a 3D tensor, N * L * D");
  for (size_t d = 0; t.hasRank && mask.hasRank && d < 2; ++d)
    call.require(t.sizes[d] == mask.sizes[d] || t.sizes[d] < 0 || mask.sizes[d] < 0,
                 "Mask size should match input size");
}

// Whether the truths of each row of a mask come before what it leaves out.
bool isLeftAligned(const KernelCall& call, const Tensor& mask) {
  const Tensor m = contiguous(mask);
  const std::vector<int64_t> lengths = countedLengths(call, m);
  for (int64_t b = 0; b < m.size(0); ++b) {
    const bool* row = m.data<bool>() + b * m.size(1);
    if (std::find(row, row + m.size(1), false) - row != lengths[static_cast<size_t>(b)]) return false;
  }
  return true;
}

void leftAlignedKernel(KernelCall& call) { call.setResult(isLeftAligned(call, call.tensor(1))); }

void inferNested(InferCall& call) {
  requireMaskOfRows(call);
  TensorInfo t = call.rankedTensor(0);
  call.result(t.dtype, Dims(t.sizes));
}

[[noreturn]] void refuseNested(KernelCall& call) {
  call.unsupported(
      "nested tensors are computed where they go through layers of nn.TransformerEncoder to a padded tensor, and "
      "nowhere else");
}

// tscompile::pad_rows(t, mask, padding, sizes, where_aligned): the rows of t up to their lengths, and `padding` after
// them; with where_aligned, t itself unless its rows are aligned to the left.
void inferPadRows(InferCall& call) {
  requireMaskOfRows(call);
  if (call.isNone(3)) return;
  TensorInfo t = call.tensor(0);
  Dims sizes(call.integers(3));
  for (size_t d = 0; call.flag(4) && d < sizes.size(); ++d)
    if (!t.hasRank || t.rank() != sizes.size() || t.sizes[d] != sizes[d]) sizes[d] = kUnknownSize;
  call.result(t.dtype, sizes);
}

void padRowsKernel(KernelCall& call) {
  const Tensor t = call.tensor(0);
  if (call.flag(4) && !isLeftAligned(call, call.tensor(1))) {
    call.setResult(cloneTensor(t));
    return;
  }
  const std::vector<int64_t> lengths = countedLengths(call, call.tensor(1));
  const int64_t longest = lengths.empty() ? 0 : *std::max_element(lengths.begin(), lengths.end());
  Dims sizes = call.isNone(3) ? Dims{t.size(0), longest, t.size(2)} : Dims(call.integers(3));
  call.require(sizes.size() == 3,
               "Length of output_size does not match NestedTensor dims. Broadcasting is not supported.");
  call.require(sizes[0] >= t.size(0) && sizes[1] >= longest && sizes[2] >= t.size(2),
               "Value in output_size is less than NestedTensor padded size. Truncation is not supported.");
  Tensor out = Tensor::empty(t.dtype(), sizes);
  fillTensor(out, call.argument(2));
  for (int64_t b = 0; b < t.size(0); ++b) {
    const int64_t length = lengths[static_cast<size_t>(b)];
    Tensor part = narrowed(narrowed(selected(out, 0, b), 0, 0, length), 1, 0, t.size(2));
    copyTensor(part, narrowed(selected(t, 0, b), 0, 0, length));
  }
  call.setResult(out);
}

}  // namespace

void registerPackingOps(OpRegistry& ops) {
  ops.add({.schema = "aten::_pack_padded_sequence", .infer = inferPack, .kernel = packKernel, .dtypes = kAllTypes});
  ops.add({.schema = "aten::_pad_packed_sequence",
           .infer = inferPadPacked,
           .kernel = padPackedKernel,
           .dtypes = kAllTypes,
           .traits = {Trait::OwnStrides}});
  ops.add({.schema = "aten::_nested_tensor_from_mask_left_aligned",
           .infer = requireMaskOfRows,
           .kernel = leftAlignedKernel,
           .dtypes = kAllTypes,
           .traits = {Trait::DependsOnElements}});
  ops.add({.schema = "aten::_nested_tensor_from_mask",
           .infer = inferNested,
           .kernel = refuseNested,
           .dtypes = kAllTypes,
           .inEngines = false});
  ops.add({.schema = "aten::to_padded_tensor", .kernel = refuseNested, .dtypes = kAllTypes, .inEngines = false});
  ops.add({.schema = "tscompile::pad_rows(Tensor self, Tensor mask, float padding, int[]? output_size, "
                     "bool where_aligned) -> Tensor",
           .infer = inferPadRows,
           .kernel = padRowsKernel,
           .dtypes = kAllTypes});
}

}  // namespace tscompile
