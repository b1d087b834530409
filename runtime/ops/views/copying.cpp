// Copies of tensors and of views, and tensors overwritten as a whole: clone, view_copy, copy_, fill_, zero_.
#include "ir/support/check.h"
#include "runtime/engine/layers/pointwise_layer.h"
#include "runtime/ops/call_op.h"
#include "runtime/ops/moved_types.h"
#include "runtime/ops/ops.h"
#include "runtime/ops/views/in_format.h"
#include "runtime/ops/views/part_uses.h"
#include "runtime/reference/elementwise.h"
#include "runtime/reference/loops/copy.h"
#include "runtime/reference/loops/numbers.h"
#include "runtime/reference/tensor_options.h"
#include "runtime/reference/views.h"

namespace tscompile {
namespace {

constexpr int64_t kContiguous = 0;

// ---- clone, copy ----

void cloneKernel(KernelCall& call) {
  Tensor t = call.tensor(0), out = emptyLike(t, t.dtype(), formatArgument(call, 1));
  copyTensor(out, t);
  call.setResult(out);
}
void copiedKernel(KernelCall& call) { call.setResult(cloneTensor(call.tensor(0))); }

void checkBroadcast(const KernelCall& call, const Tensor& t, const Tensor& from) {
  call.require(from.defined(), "expected a tensor to copy from");
  Dims sizes(t.sizes());
  if (!broadcastInto(sizes, from.sizes())) refuseBroadcast(t.sizes(), from.sizes());
  call.require(sizes == Dims(t.sizes()), "output with shape {} doesn't match the broadcast shape {}",
               dimsText(t.sizes()), dimsText(sizes));
}

// Writes `from` over a tensor that it can be broadcast to.
void overwrite(const KernelCall& call, const Tensor& t, const Tensor& from) {
  checkBroadcast(call, t, from);
  if (sameElements(t, from)) return;
  requireWritable(t);
  requireNoPartialOverlap(t, from);
  copyTensor(t, from);
}
void copyInPlaceKernel(KernelCall& call) {
  overwrite(call, call.tensor(0), call.tensor(1));
  call.setResult(call.argument(0));
}

// `aten::copy`: what copy_ would leave in self, as a tensor of its own.
void copyKernel(KernelCall& call) {
  Tensor t = call.tensor(0), from = call.tensor(1);
  checkBroadcast(call, t, from);
  Tensor out = emptyLike(t, t.dtype());  // it lies as what is written over, as since PyTorch 2
  copyTensor(out, expandedTo(from, t.sizes()));
  call.setResult(out);
}
// What only replaces a part of another tensor is copied there.
void convertCopyOver(ConvertCall& call) {
  Tensor t = call.tensor(0), from = call.tensor(1);
  if (t.dtype() != from.dtype()) return convertToKernel(call, "the dtype changes");
  if (t.numel() == 0) return convertToKernel(call, "a tensor has no elements");
  checkBroadcast(call, t, from);
  const Tensor expanded = expandedTo(from, t.sizes());
  call.setResult(isPartOfOthers(call) ? IValue(expanded) : call.compute("aten::clone", {expanded, kContiguous}));
}

// ---- fill, zero: writing one element several times does no harm, so overlap is let pass ----

Tensor target(const KernelCall& call, bool inPlace) {
  Tensor t = call.tensor(0);
  if (!inPlace) return emptyLike(t, t.dtype());
  requireOwned(t);
  return t;
}

template <bool kInPlace>
void fillKernel(KernelCall& call) {
  Tensor t = target(call, kInPlace);
  fillTensor(t, call.argument(1));
  call.setResult(t);
}
template <bool kInPlace>
void fillTensorKernel(KernelCall& call) {
  Tensor t = target(call, kInPlace), value = call.tensor(1);
  call.require(value.defined() && value.rank() == 0,
               "fill_ only supports 0-dimension value tensor but got tensor with {} dimensions.",
               value.defined() ? value.rank() : -1);
  if (kInPlace) requireWritable(t);             // PyTorch lets fill_ of a number pass, but not of a tensor
  copyTensor(t, expandedTo(value, t.sizes()));  // it may not fit the dtype, as a number has to
  call.setResult(t);
}
template <bool kInPlace>
void zeroKernel(KernelCall& call) {
  Tensor t = target(call, kInPlace);
  fillTensor(t, false);
  call.setResult(t);
}

void fillStrided(const Tensor& t, int64_t size, int64_t stride, int64_t offset, const IValue& value) {
  if (!fitsStorage(t.dtype(), Dims{size}, Dims{stride}, offset, t.storage()->bytes()))
    throw ExecutionError(ErrorKind::Model, "fill_diagonal_: the wrapped diagonal is outside of the tensor's storage");
  fillTensor(t.withGeometry(Dims{size}, Dims{stride}, offset), value);
}
void fillDiagonalKernel(KernelCall& call) {
  Tensor t = call.tensor(0);
  requireOwned(t);
  call.require(t.rank() >= 2, "dimensions must larger than 1");
  int64_t rows = t.size(0), columns = t.size(1), stride = 0;
  for (int d = 0; d < t.rank(); ++d) {
    call.require(t.rank() == 2 || t.size(d) == rows, "all dimensions of input must be of equal length");
    stride = wrapAdd(stride, t.stride(d));
  }
  int64_t length = std::min(rows, columns);
  if (length) fillStrided(t, length, stride, t.offset(), call.argument(1));
  // A tall matrix takes up the diagonal again, one row below the end of the last.
  if (call.flag(2) && t.rank() == 2 && rows > columns + 1 && columns)
    fillStrided(t, t.numel() / (columns + 1) + (t.numel() % (columns + 1) != 0) - length, stride,
                t.offset() + t.stride(0) * (columns + 1), call.argument(1));
  call.setResult(t);
}

// ---- view_copy and its like: what the operator without "_copy" shows, as a tensor of its own ----

const Operator& viewOf(const Operator& copy) {
  static constexpr std::string_view kEnding = "_copy";
  std::string name = copy.fullName();
  name.erase(name.find(kEnding), kEnding.size());
  if (copy.outCount()) name.erase(name.rfind("out") - 1);  // ".out", "_out"
  if (name == "aten::view") name = "aten::reshape";        // of what no view could show
  const Operator* view = copy.registry().builtIn().find(name);
  TS_CHECK(view && view->isImplemented());
  return *view;
}

void inferCopy(InferCall& call) { viewOf(call.op()).def().infer(call); }

std::vector<IValue> argumentsOf(const KernelCall& call) {
  std::vector<IValue> out;
  for (size_t i = 0; i < call.size(); ++i) out.push_back(call.argument(i));
  return out;
}

// copy(tensor) of the view, or of each if it is a list of them.
template <class Copy>
IValue copied(const IValue& view, Copy copy) {
  if (view.isTensor()) return copy(view.toTensor());
  std::vector<IValue> items;
  for (const IValue& item : view.toList().items) items.push_back(copy(item.toTensor()));
  return Ref<ListValue>::make(types().tensor, std::move(items));
}

void viewCopyKernel(KernelCall& call) {
  const std::vector<IValue> arguments = argumentsOf(call);
  IValue view = invoke(call, viewOf(call.op()).fullName(), std::span(arguments));
  call.setResult(copied(view, [&](const Tensor& t) {
    // A view may show any dtype; what is copied has to be one that others can read.
    call.require(kMovedTypes.contains(t.dtype()), "not implemented for {}", pythonName(t.dtype()));
    Tensor out = Tensor::empty(t.dtype(), t.sizes());
    copyTensor(out, t);
    return out;
  }));
}

void convertViewCopy(ConvertCall& call) {
  IValue view = call.compute(viewOf(call.op()).fullName(), argumentsOf(call));
  if (isCopiedByUsers(call)) return call.setResult(view);
  call.setResult(copied(view, [&](const Tensor& t) { return call.compute("aten::clone", {t, kContiguous}); }));
}

}  // namespace

void registerCopyingOps(OpRegistry& ops) {
  auto add = [&](std::string_view schema, InferFunction infer, KernelFunction kernel) {
    ops.add({.schema = schema, .infer = infer, .kernel = kernel, .dtypes = kMovedTypes});
  };
  ops.add({.schema = "aten::clone",
           .infer = inferInFormat<1>,
           .kernel = cloneKernel,
           .convert = convertCopy,
           .dtypes = kMovedTypes,
           .traits = {Trait::MovesElements, Trait::KeepsElements}});
  add("aten::lift_fresh_copy", inferSameAsSelf, copiedKernel);
  // Torch-TensorRT's lowering leaves it in graphs.
  add("trt::const(Tensor val) -> Tensor", inferSameAsSelf, copiedKernel);
  ops.add({.schema = "aten::copy",
           .infer = inferSameAsSelf,
           .kernel = copyKernel,
           .convert = convertCopyOver,
           .dtypes = kMovedTypes});
  add("aten::copy_", inferSameAsSelf, copyInPlaceKernel);
  add("aten::copy_.Tensor", inferSameAsSelf, copyInPlaceKernel);
  // Of a number it is fill_.
  add("aten::copy_.int", inferSameAsSelf, fillKernel<true>);
  add("aten::copy_.float", inferSameAsSelf, fillKernel<true>);
  add("aten::fill.Scalar", inferSameAsSelf, fillKernel<false>);
  add("aten::fill.Tensor", inferSameAsSelf, fillTensorKernel<false>);
  add("aten::fill_.Scalar", inferSameAsSelf, fillKernel<true>);
  add("aten::fill_.Tensor", inferSameAsSelf, fillTensorKernel<true>);
  add("aten::zero", inferSameAsSelf, zeroKernel<false>);
  add("aten::zero_", inferSameAsSelf, zeroKernel<true>);
  add("aten::fill_diagonal_", inferSameAsSelf, fillDiagonalKernel);
  auto addViewCopy = [&](std::string_view schema, TraitSet traits = {}) {
    ops.add({.schema = schema,
             .infer = inferCopy,
             .kernel = viewCopyKernel,
             .convert = convertViewCopy,
             .dtypes = kMovedTypes,
             .traits = traits});
  };
  for (auto schema : {"aten::as_strided_copy", "aten::view_copy", "aten::view_copy.dtype"})
    addViewCopy(schema, {Trait::MindsStrides});
  for (auto schema : {"aten::alias_copy",
                      "aten::detach_copy",
                      "aten::diagonal_copy",
                      "aten::expand_copy",
                      "aten::permute_copy",
                      "aten::_reshape_alias_copy",
                      "aten::select_copy.int",
                      "aten::slice_copy.Tensor",
                      "aten::split_copy.Tensor",
                      "aten::split_with_sizes_copy",
                      "aten::squeeze_copy",
                      "aten::squeeze_copy.dim",
                      "aten::squeeze_copy.dims(Tensor self, int[] dim) -> Tensor",
                      "aten::t_copy",
                      "aten::transpose_copy.int",
                      "aten::unbind_copy.int",
                      "aten::unfold_copy",
                      "aten::unsqueeze_copy",
                      "aten::view_as_complex_copy",
                      "aten::view_as_real_copy",
                      "aten::_conj_copy"})
    addViewCopy(schema);
}

}  // namespace tscompile
