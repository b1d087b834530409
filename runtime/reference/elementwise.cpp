#include "runtime/reference/elementwise.h"

namespace tscompile {

// ---- shape functions ----

void inferSameAsSelf(InferCall& call) { call.result(call.tensor(0)); }

void inferFloatUnary(InferCall& call) {
  TensorInfo t = call.tensor(0);
  call.result(t, t.dtype == DType::Undefined ? t.dtype : toFloating(t.dtype));
}

void inferPredicate(InferCall& call) { call.result(call.tensor(0), DType::Bool); }

namespace {

// The broadcast sizes of the first two arguments; false if a rank is not known.
bool broadcastSizes(InferCall& call, Dims& sizes) {
  for (size_t i = 0; i < 2; ++i) {
    if (!call.isTensor(i)) continue;
    TensorInfo t = call.tensor(i);
    if (!t.hasRank) return false;
    if (!broadcastInto(sizes, t.sizes)) {
      TensorInfo a = call.tensor(0), b = call.tensor(1);
      Dims x(a.sizes), y(b.sizes);
      for (size_t k = 1; k <= std::min(x.size(), y.size()); ++k) {
        int64_t p = x[x.size() - k], q = y[y.size() - k];
        if (p != q && p != 1 && q != 1 && isKnownSize(p) && isKnownSize(q))
          call.fail("the size of tensor a ({}) must match the size of tensor b ({}) at non-singleton dimension {}", p, q,
                    std::max(x.size(), y.size()) - k);
      }
      call.fail("the sizes {} and {} cannot be broadcast", dimsText(a.sizes), dimsText(b.sizes));
    }
  }
  return true;
}

void resultBroadcast(InferCall& call, DType dtype) {
  Dims sizes;
  if (broadcastSizes(call, sizes))
    call.result(dtype, sizes);
  else
    call.resultOfUnknownRank(dtype);
}

DType common(const InferCall& call) {
  ResultType type;
  type.add(call, 0);
  type.add(call, 1);
  return type.get();
}

}  // namespace

void inferBinary(InferCall& call) { resultBroadcast(call, common(call)); }
void inferFloatBinary(InferCall& call) { resultBroadcast(call, toFloating(common(call))); }
void inferComparison(InferCall& call) { resultBroadcast(call, DType::Bool); }

// ---- kernels ----

Tensor operandTensor(const KernelCall& call, size_t i) {
  const IValue& v = call.argument(i);
  return v.isTensor() ? v.toTensor() : scalarTensor(v);
}

DType commonDType(const KernelCall& call) {
  InferCall infer(call.op(), call.arguments(), call.size());
  return common(infer);
}

Tensor elementwiseOutput(KernelCall& call, std::initializer_list<const Tensor*> inputs) {
  if (call.isInPlace()) return call.out();
  const TensorSpec& spec = call.spec();
  bool plain = true;
  for (const Tensor* t : inputs)
    plain = plain && t->isContiguous() && std::equal(spec.sizes.begin(), spec.sizes.end(), t->sizes().begin(), t->sizes().end());
  if (plain) return call.out();
  Tensor out = Tensor::emptyStrided(spec.dtype, spec.sizes,
                                    elementwiseStrides(spec.sizes, std::span(inputs.begin(), inputs.size())));
  call.setResult(out);
  return out;
}

namespace {
TileFunction chosen(const KernelCall& call, const TileSet& tiles, DType dtype) {
  TileFunction f = tiles.of(computeTypeOf(dtype));
  if (!f) call.unsupported(fmt::format("{} is not implemented for {}", call.op().kind().text(), pythonName(dtype)));
  return f;
}
}  // namespace

void runUnary(KernelCall& call, const TileSet& tiles, DType dtype, bool predicate, const void* parameters) {
  Compute c = computeTypeOf(dtype);
  TileFunction f = chosen(call, tiles, dtype);
  Tensor a = call.tensor(0);
  Tensor out = elementwiseOutput(call, {&a});
  Operand operands[] = {{out, predicate ? Compute::Bool : c}, {std::move(a), c}};
  loopTiles(out.sizes(), operands, 1, f, parameters);
}

void runBinary(KernelCall& call, const TileSet& tiles, DType dtype, bool predicate, const void* parameters) {
  Compute c = computeTypeOf(dtype);
  TileFunction f = chosen(call, tiles, dtype);
  Tensor a = operandTensor(call, 0), b = operandTensor(call, 1);
  Tensor out = elementwiseOutput(call, {&a, &b});
  Operand operands[] = {{out, predicate ? Compute::Bool : c}, {std::move(a), c}, {std::move(b), c}};
  loopTiles(out.sizes(), operands, 1, f, parameters);
}

}  // namespace tscompile
