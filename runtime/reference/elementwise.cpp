#include "runtime/reference/elementwise.h"

#include "runtime/reference/pytorch_words.h"

namespace tscompile {

// ---- shape functions ----

void inferSameAsSelf(InferCall& call) { call.result(call.tensor(0)); }

void inferFloatUnary(InferCall& call) {
  TensorInfo t = call.tensor(0);
  call.result(t, t.dtype == DType::Undefined ? t.dtype : toFloating(t.dtype));
}

void inferPredicate(InferCall& call) { call.result(call.tensor(0), DType::Bool); }

void refuseBroadcast(DimSpan a, DimSpan b) {
  for (size_t k = 1; k <= std::min(a.size(), b.size()); ++k) {
    int64_t p = a[a.size() - k], q = b[b.size() - k];
    if (p != q && p != 1 && q != 1 && isKnownSize(p) && isKnownSize(q))
      throw ExecutionError(
          ErrorKind::Model,
          fmt::format("the size of tensor a ({}) must match the size of tensor b ({}) at non-singleton dimension {}", p,
                      q, std::max(a.size(), b.size()) - k));
  }
  throw ExecutionError(ErrorKind::Model,
                       fmt::format("the sizes {} and {} cannot be broadcast", dimsText(a), dimsText(b)));
}

void resultBroadcast(InferCall& call, DType dtype, size_t count, size_t first) {
  Dims sizes;
  for (size_t i = first; i < first + count; ++i) {
    if (!call.isTensor(i)) continue;
    TensorInfo t = call.tensor(i);
    if (!t.hasRank) return call.resultOfUnknownRank(dtype);
    Dims before(sizes);
    if (!broadcastInto(sizes, t.sizes)) refuseBroadcast(before, t.sizes);
  }
  call.result(dtype, sizes);
}

DType promotedDType(const InferCall& call, size_t count, size_t first) {
  ResultType type;
  for (size_t i = first; i < first + count; ++i) type.add(call, i);
  return type.get();
}

DType promotedDType(const KernelCall& call, size_t count, size_t first) {
  if (count == 1 && call.argument(first).isTensor()) return call.argument(first).tensorImpl()->dtype();
  InferCall infer(call.op(), call.arguments(), call.size());
  return promotedDType(infer, count, first);
}

void inferBinary(InferCall& call) { resultBroadcast(call, promotedDType(call, 2), 2); }
void inferFloatBinary(InferCall& call) { resultBroadcast(call, toFloating(promotedDType(call, 2)), 2); }
void inferComparison(InferCall& call) { resultBroadcast(call, DType::Bool, 2); }
void inferTernary(InferCall& call) { resultBroadcast(call, promotedDType(call, 3), 3); }

// ---- kernels ----

Tensor operandTensor(const KernelCall& call, size_t i) {
  const IValue& v = call.argument(i);
  return v.isTensor() ? v.toTensor() : scalarTensor(v);
}

Tensor elementwiseOutput(KernelCall& call, std::span<const Tensor* const> inputs) {
  if (call.isInPlace() || call.hasOut()) return call.out();
  const TensorSpec& spec = call.spec();
  bool plain = true;
  for (const Tensor* t : inputs)
    plain = plain && t->isContiguous() &&
            std::equal(spec.sizes.begin(), spec.sizes.end(), t->sizes().begin(), t->sizes().end());
  if (plain) return call.out();
  Tensor out = Tensor::emptyStrided(spec.dtype, spec.sizes, elementwiseStrides(spec.sizes, inputs));
  call.setResult(out);
  return out;
}

void refuseDType(DType dtype) { throw DTypeRefused(dtype); }

namespace {

// Writes a number, converted to `dtype`, as a value of the compute type.
void writeNumber(const IValue& v, DType dtype, Compute compute, std::byte* to) {
  if (compute == Compute::F32 && dtype == DType::Float32 && v.isFloat()) {
    auto x = static_cast<float>(v.toFloat());
    std::memcpy(to, &x, sizeof x);
    return;
  }
  std::byte stored[sizeof(std::complex<double>)];
  auto store = [&](auto x) { tileStorer(kComputeOf<decltype(x)>, dtype)(&x, stored, 0, 1); };
  if (v.isComplex())
    store(v.toComplex());
  else if (v.isFloat())
    store(v.toFloat());
  else if (v.isInt() || v.isBool())
    store(v.isInt() ? v.toInt() : int64_t{v.toBool()});
  else
    throw ExecutionError(ErrorKind::Model, "expected a tensor or a number");
  tileLoader(dtype, compute)(stored, 0, to, 1);
}

}  // namespace

ScalarArgument::ScalarArgument(const KernelCall& call, size_t i, DType dtype) {
  call.require(!call.argument(i).isComplex(), "expected a real number as argument {}, not a complex one", i + 1);
  IValue number = numberFor(call.argument(i), dtype);
  if (isIntegral(dtype, true)) {
    integer_ = number.isInt() ? number.toInt() : number.toBool();
  } else {
    double x = number.toDouble();
    std::byte stored[sizeof(double)];
    tileStorer(Compute::F64, dtype)(&x, stored, 0, 1);
    tileLoader(dtype, Compute::F64)(stored, 0, &real_, 1);
  }
}

void ElementLoop::run(KernelCall& call) const {
  Operand operands[kMaxOperands];
  alignas(16) std::byte numbers[kMaxOperands][sizeof(std::complex<double>)];
  const Tensor* tensors[kMaxOperands];
  size_t tensorCount = 0;
  for (size_t i = 1; i <= count; ++i) {
    const IValue& v = call.argument(first + i - 1);
    Operand& o = operands[i];
    o.compute = typed.in;
    if (v.isTensor()) {
      o.tensor = v.toTensor();
      tensors[tensorCount++] = &o.tensor;
    } else {
      writeNumber(v, dtype, typed.in, numbers[i]);
      o.number = numbers[i];
    }
  }
  operands[0] = {elementwiseOutput(call, std::span(tensors, tensorCount)), typed.out};
  for (size_t i = 1; i <= count; ++i)
    if (Tensor& t = operands[i].tensor; t.defined()) t = convertedFor(t, dtype);
  loopTiles(operands[0].tensor.sizes(), std::span(operands, count + 1), 1, typed.tile, function);
}

void addAliases(OpRegistry& ops, std::initializer_list<std::string_view> names, OpDef def) {
  InPlace inplace = def.inplace;
  for (std::string_view name : names) {
    def.schema = name;
    def.inplace = name.starts_with("aten::special_") ? InPlace::No : inplace;
    ops.add(def);
  }
}

}  // namespace tscompile
