// What a tensor is: sizes, strides, dtype, device. Numbers, bools and lists; no elements are looked at.
#include "ir/values/rounded_number.h"
#include "runtime/call/kernel_call.h"
#include "runtime/ops/ops.h"
#include "runtime/reference/loops/copy.h"
#include "runtime/reference/loops/cpp_types.h"
#include "runtime/reference/loops/memory_format.h"
#include "runtime/reference/loops/scalars.h"
#include "runtime/reference/views.h"

namespace tscompile {
namespace {

Tensor handleOf(const IValue& v) {
  tensorOf(v);
  return v.toTensor();
}

// ---- sizes (the propagation of shapes knows these operators by name) ----

int64_t entryOf(DimSpan entries, int64_t dim) {
  int64_t wrapped = dim;
  auto rank = static_cast<int64_t>(entries.size());
  if (rank == 0) failRun("dimension specified as " + std::to_string(dim) + " but tensor has no dimensions");
  if (!wrapDim(wrapped, rank))
    failRun(
        fmt::format("dimension out of range (expected to be in range of [{}, {}], but got {})", -rank, rank - 1, dim));
  return entries[static_cast<size_t>(wrapped)];
}

void size(Arguments a, IValue& r) { r = intList(tensorOf(*a[0]).sizes()); }
void sizeInt(Arguments a, IValue& r) { r = entryOf(tensorOf(*a[0]).sizes(), a[1]->toInt()); }
void stride(Arguments a, IValue& r) { r = intList(tensorOf(*a[0]).strides()); }
void strideInt(Arguments a, IValue& r) { r = entryOf(tensorOf(*a[0]).strides(), a[1]->toInt()); }
void dim(Arguments a, IValue& r) { r = static_cast<int64_t>(tensorOf(*a[0]).rank()); }
void numel(Arguments a, IValue& r) { r = tensorOf(*a[0]).numel(); }
void storageOffset(Arguments a, IValue& r) { r = tensorOf(*a[0]).offset(); }
void tensorLength(Arguments a, IValue& r) {
  const TensorImpl& t = tensorOf(*a[0]);
  if (t.rank() == 0) failRun("len() of a 0-d tensor");
  r = t.sizes()[0];
}

void inferShapeAsTensor(InferCall& call) {
  TensorInfo t = call.tensor(0);
  call.result(DType::Int64, Dims{t.hasRank ? static_cast<int64_t>(t.rank()) : kUnknownSize});
}
void shapeAsTensorKernel(KernelCall& call) {
  Tensor t = call.tensor(0);
  call.setResult(Tensor::of<int64_t>(Dims{t.rank()}, t.sizes()));
}

// ---- memory ----

void isContiguous(Arguments a, IValue& r) { r = tensorOf(*a[0]).isContiguous(); }
MemoryFormat formatOf(const IValue& v) {
  if (!v.isInt() || v.toInt() < 0 || v.toInt() > 3) failRun("expected the number of a memory format");
  return static_cast<MemoryFormat>(v.toInt());
}
void isContiguousInFormat(Arguments a, IValue& r) { r = isContiguousIn(handleOf(*a[0]), formatOf(*a[1])); }
void isStridesLike(Arguments a, IValue& r) {
  MemoryFormat format = formatOf(*a[1]);
  bool isLast = format == MemoryFormat::ChannelsLast || format == MemoryFormat::ChannelsLast3d;
  r = isLast && suggestedFormat(handleOf(*a[0])) == format;
}
void isDense(Arguments a, IValue& r) {
  r = isNonOverlappingAndDense(tensorOf(*a[0]).sizes(), tensorOf(*a[0]).strides());
}
void elementSize(Arguments a, IValue& r) { r = static_cast<int64_t>(itemSize(tensorOf(*a[0]).dtype())); }
void byteCount(Arguments a, IValue& r) {
  const TensorImpl& t = tensorOf(*a[0]);
  r = t.numel() * static_cast<int64_t>(itemSize(t.dtype()));
}
void isSameSize(Arguments a, IValue& r) { r = Dims(tensorOf(*a[0]).sizes()) == Dims(tensorOf(*a[1]).sizes()); }
void isSetTo(Arguments a, IValue& r) {
  const TensorImpl &x = tensorOf(*a[0]), &y = tensorOf(*a[1]);
  r = x.storage() == y.storage() && x.offset() == y.offset() && Dims(x.sizes()) == Dims(y.sizes()) &&
      Dims(x.strides()) == Dims(y.strides());
}
void hasSameStorageNumel(Arguments a, IValue& r) {
  const TensorImpl &x = tensorOf(*a[0]), &y = tensorOf(*a[1]);
  r = x.storage()->bytes() / itemSize(x.dtype()) == y.storage()->bytes() / itemSize(y.dtype());
}

// ---- device, dtype, what the tensors of a CPU without gradients have in common ----

void deviceOf(Arguments a, IValue& r) {
  tensorOf(*a[0]);
  r = Device{};
}
void dtypeOf(Arguments a, IValue& r) { r = static_cast<int64_t>(tensorOf(*a[0]).dtype()); }
template <auto kAnswer>
void always(Arguments a, IValue& r) {
  tensorOf(*a[0]);
  r = kAnswer;
}
void returnNone(Arguments, IValue& r) { r = IValue(); }
void roundedFactor(Arguments a, IValue& r) {
  const DType dtype = tensorOf(*a[1]).dtype();
  r = *a[0];
  if (a[0]->isFloat()) r = roundedTo(dtype, a[0]->toDouble());
  if (a[0]->isInt() && hasSixteenBits(dtype))
    r = static_cast<int64_t>(roundedTo(dtype, static_cast<double>(a[0]->toInt())));
}
void self(Arguments a, IValue& r) { r = handleOf(*a[0]); }
void requireGrad(Arguments a, IValue& r) {
  Tensor t = handleOf(*a[0]);
  if (!a[1]->isBool()) failRun("expected a bool to say whether gradients are required");
  if (a[1]->toBool() && isIntegral(t.dtype(), true))
    failRun("only tensors of floating point and complex dtype can require gradients");
  r = t;
}
void detached(Arguments a, IValue& r) { r = aliased(handleOf(*a[0])); }
void undefined(Arguments, IValue& r) { r = Tensor(); }
void setData(Arguments a, IValue& r) {
  Tensor t = handleOf(*a[0]), other = handleOf(*a[1]);
  requireOwned(t);
  t.impl()->become(*other.impl());
  r = IValue();
}
// Of any dtype.
void shareData(Arguments a, IValue& r) {
  setData(a, r);
  r = *a[0];
}
void requireSettable(Arguments a) {
  const DType self = handleOf(*a[0]).dtype(), source = handleOf(*a[1]).dtype();
  if (self != source)
    failRun(fmt::format("Could not set tensor of type {} to a tensor of type {}", cppName(source), cppName(self)));
}
void setTensor(Arguments a, IValue& r) {
  requireSettable(a);
  shareData(a, r);
}
// A copy of the first that takes over the second is no more than another view of that.
void setCopy(Arguments a, IValue& r) {
  requireSettable(a);
  r = aliased(handleOf(*a[1]));
}

// ---- lists of sizes ----

const ListValue& intListOf(const IValue& v) {
  if (!v.isList()) failRun("expected a list of integers");
  for (const IValue& item : v.toList().items)
    if (!item.isInt()) failRun("expected a list of integers");
  return v.toList();
}
Dims checkedSizesOf(const IValue& v) {
  Dims sizes;
  for (const IValue& item : intListOf(v).items) sizes.push_back(item.toInt());
  return sizes;
}

void listToTensor(Arguments a, IValue& r) {
  Dims sizes = checkedSizesOf(*a[0]);
  Tensor wide = Tensor::of<int64_t>(Dims{static_cast<int64_t>(sizes.size())}, std::span<const int64_t>(sizes));
  r = convertTensor(wide, DType::Int32);
}
void tensorToList(Arguments a, IValue& r) {
  Tensor t = handleOf(*a[0]);
  if (t.rank() != 1 || t.numel() > 1 << 20) failRun("expected a 1-dimensional tensor of at most 2^20 elements");
  Dims values;
  for (int64_t i = 0; i < t.numel(); ++i) values.push_back(t.integer(i));
  r = intList(values);
}

struct Query {
  const char* schema;
  ScalarFunction f;
  TraitSet traits = {};
};
constexpr TraitSet kReads{Trait::ReadsGeometry}, kOptions{Trait::ReadsGeometry, Trait::ReadsOptions},
    kSizes{Trait::ReadsSizes, Trait::ReadsGeometry}, kStrides{Trait::ReadsGeometry, Trait::ReadsStrides},
    kMaySelf{Trait::MayShare},
    kTakesOver{Trait::TakesOverMemory, Trait::ChangesGeometry, Trait::MindsStrides, Trait::ReadsStrides},
    kMarks{Trait::SideEffects};  // of gradients
constexpr Query kQueries[] = {
    {"aten::size", size, kSizes},
    {"aten::size.int", sizeInt, kSizes},
    {"prim::shape(Tensor self) -> int[]", size, kSizes},  // of fusion groups
    {"aten::sym_size", size, kSizes},
    {"aten::sym_size.int", sizeInt, kSizes},
    {"aten::stride", stride, kStrides},
    {"aten::stride.int", strideInt, kStrides},
    {"aten::sym_stride", stride, kStrides},
    {"aten::sym_stride.int", strideInt, kStrides},
    {"aten::dim", dim, kSizes},
    {"aten::numel", numel, kSizes},
    {"aten::sym_numel", numel, kSizes},
    {"aten::len.Tensor", tensorLength, kReads},
    {"aten::storage_offset", storageOffset, {Trait::ReadsStrides}},
    {"aten::sym_storage_offset", storageOffset, {Trait::ReadsStrides}},
    {"aten::is_contiguous", isContiguous, kStrides},
    {"aten::is_contiguous.memory_format", isContiguousInFormat, kStrides},
    {"aten::is_strides_like_format", isStridesLike, kStrides},
    {"aten::is_non_overlapping_and_dense", isDense, kStrides},
    {"aten::element_size", elementSize, kReads},
    {"prim::itemsize", elementSize, kReads},
    {"prim::nbytes", byteCount, kReads},
    {"aten::is_same_size", isSameSize, kReads},
    {"aten::is_set_to", isSetTo, {Trait::MindsStrides, Trait::ReadsStrides}},
    {"aten::_has_same_storage_numel", hasSameStorageNumel},
    {"prim::device", deviceOf, kOptions},
    {"prim::dtype", dtypeOf, kOptions},
    {"prim::layout", always<int64_t{0}>, kOptions},
    {"prim::is_cpu", always<true>, kOptions},
    {"aten::get_device", always<int64_t{-1}>, kReads},
    {"aten::_version", always<int64_t{0}>, kReads},
    {"aten::output_nr", always<int64_t{0}>, kReads},
    {"aten::is_leaf", always<true>, kReads},
    {"aten::retain_grad", returnNone, kMarks},
    {"prim::name", returnNone},
    {"prim::grad", undefined},
    {"aten::requires_grad_", requireGrad, kMarks},
    {"aten::pin_memory", self, kMaySelf},
    {"aten::_pin_memory", self, kMaySelf},
    {"aten::data", detached, kMaySelf},
    {"prim::data", detached, kMaySelf},
    {"aten::set_data", setData, kTakesOver},
    {"aten::set_.source_Tensor", setTensor, kTakesOver},
    // What torch.export writes of `tensor.data = other`.
    {"aten::shallow_copy_data_(Tensor(a!) self, Tensor source) -> Tensor(a!)", shareData, kTakesOver},
    {"aten::set.source_Tensor", setCopy, {Trait::MayShare, Trait::GivesViews}},
    {"tscompile::rounded_factor(Scalar factor, Tensor self) -> Scalar", roundedFactor, kOptions},
    {"aten::_list_to_tensor", listToTensor, {Trait::DependsOnElements}},
    {"aten::_tensor_to_list", tensorToList, {Trait::DependsOnElements}},
};
// Properties that no tensor here has.
constexpr const char* kNever[] = {
    "prim::is_cuda",      "prim::is_ipu",         "prim::is_meta",      "prim::is_mkldnn",     "prim::is_mps",
    "prim::is_nested",    "prim::is_ort",         "prim::is_sparse",    "prim::is_sparse_csr", "prim::is_vulkan",
    "prim::is_xpu",       "prim::requires_grad",  "aten::is_pinned",    "aten::is_conj",       "aten::is_neg",
    "aten::is_inference", "aten::is_distributed", "aten::retains_grad", "aten::is_coalesced",  "prim::is_mtia",
    "prim::is_xla",
};

}  // namespace

void registerQueriesOps(OpRegistry& ops) {
  for (const Query& q : kQueries) ops.add({.schema = q.schema, .scalar = q.f, .traits = q.traits});
  for (const char* schema : kNever) ops.add({.schema = schema, .scalar = always<false>, .traits = kOptions});
  ops.add({.schema = "aten::_shape_as_tensor",
           .infer = inferShapeAsTensor,
           .kernel = shapeAsTensorKernel,
           .dtypes = kAllTypes,
           .traits = {Trait::ReadsSizes}});
}

}  // namespace tscompile
