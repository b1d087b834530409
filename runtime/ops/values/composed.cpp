// Operators of PyTorch 2 that are made of others: assertions, products with integer weights, forms without checks.
#include "runtime/ops/call_op.h"
#include "runtime/ops/ops.h"
#include "runtime/reference/elementwise.h"
#include "runtime/reference/loops/copy.h"
#include "runtime/reference/loops/scalars.h"

namespace tscompile {
namespace {

// ---- assertions ----

bool isTrue(const KernelCall& call, const Tensor& t) {
  call.require(t.numel() == 1, "expected one element to assert, not {}", t.numel());
  return t.complex(0) != 0.0;
}
void assertTensor(KernelCall& call) {
  call.require(isTrue(call, call.tensor(0)), "Expected Tensor with single nonzero value");
}
void assertWithMessage(KernelCall& call) { call.require(isTrue(call, call.tensor(0)), "{}", call.text(1)); }
void assertScalar(KernelCall& call) { call.require(call.complex(0) != 0.0, "{}", call.text(1)); }

// (tensor, sizes, strides, dtype, ...)
void assertMetadata(KernelCall& call) {
  Tensor t = call.tensor(0);
  auto check = [&](size_t i, DimSpan found, const char* what) {
    if (!call.isNone(i))
      call.require(call.integers(i) == Dims(found), "Tensor {} mismatch! Expected: {}, Got: {}", what,
                   dimsText(call.integers(i)), dimsText(found));
  };
  check(1, t.sizes(), "sizes");
  check(2, t.strides(), "strides");
  DType dtype = call.dtypeOr(3, t.dtype());
  call.require(dtype == t.dtype(), "Tensor dtype mismatch! Expected: {}, Got: {}", pythonName(dtype),
               pythonName(t.dtype()));
}

// (size, min, max)
void constrainRange(KernelCall& call) {
  double size = call.number(0);
  call.require(call.isNone(1) || size >= call.number(1), "Invalid value range: {} is below {}", size,
               call.isNone(1) ? 0 : call.number(1));
  call.require(call.isNone(2) || size <= call.number(2), "Invalid value range: {} is above {}", size,
               call.isNone(2) ? 0 : call.number(2));
}

// ---- made of others ----

template <const char* kOperator>
void asOperator(KernelCall& call) {
  std::vector<IValue> arguments;
  for (size_t i = 0; i < call.size(); ++i) arguments.push_back(call.argument(i));
  call.setResult(invoke(call, kOperator, std::span<const IValue>(arguments)));
}
constexpr char kAll[] = "aten::all", kAny[] = "aten::any", kIndex[] = "aten::index.Tensor";
constexpr char kIndexPut[] = "aten::index_put";

// Rows of minus infinity become zeros instead of NaN.
void safeSoftmax(KernelCall& call) {
  Tensor x = call.tensor(0);
  Tensor probabilities = invokeTensor(call, "aten::softmax.int", {x, call.argument(1), call.argument(2)});
  Tensor out = invokeTensor(call, "aten::eq.Scalar", {x, -std::numeric_limits<double>::infinity()});
  Tensor hidden = x.rank() ? invokeTensor(call, "aten::all.dim", {out, call.argument(1), true}) : out;
  call.setResult(invoke(call, "aten::masked_fill.Scalar", {probabilities, hidden, int64_t{0}}));
}

// int8 x int8 -> int32.
void intProduct(KernelCall& call) {
  Tensor a = call.tensor(0), b = call.tensor(1);
  call.require(a.dtype() == DType::Int8 && b.dtype() == DType::Int8, "expected two int8 matrices");
  call.setResult(invoke(call, "aten::mm", {convertTensor(a, DType::Int32), convertTensor(b, DType::Int32)}));
}

// x times the transpose of int8 weights, which have a scale for each row.
void int8Product(KernelCall& call) {
  Tensor x = call.tensor(0), weight = call.tensor(1);
  call.require(weight.dtype() == DType::Int8, "expected int8 weights, not {}", pythonName(weight.dtype()));
  Tensor product =
      invokeTensor(call, "aten::mm", {x, invokeTensor(call, "aten::t", {convertTensor(weight, x.dtype())})});
  call.setResult(invoke(call, "aten::mul.Tensor", {product, call.tensor(2)}));
}

// The weight has the shape of x, or one that is broadcast to it.
void preluOfWeights(KernelCall& call) {
  Tensor x = call.tensor(0);
  Tensor positive = invokeTensor(call, "aten::gt.Scalar", {x, int64_t{0}});
  Tensor scaled = invokeTensor(call, "aten::mul.Tensor", {x, call.tensor(1)});
  call.setResult(invoke(call, "aten::where.self", {positive, x, scaled}));
}

// The first `size` rows of nonzero, filled up: (x, size, fill).
void nonzeroStatic(KernelCall& call) {
  Tensor x = call.tensor(0), found = invokeTensor(call, "aten::nonzero", {x});
  int64_t size = call.integer(1), count = std::min(found.size(0), size);
  call.require(size >= 0, "nonzero_static: the size {} is negative", size);
  Tensor out = Tensor::empty(DType::Int64, Dims{size, found.size(1)});
  fillTensor(out, call.argument(2));
  Tensor to = invokeTensor(call, "aten::narrow", {out, 0, 0, count});
  copyTensor(to, invokeTensor(call, "aten::narrow", {found, 0, 0, count}));
  call.setResult(out);
}

void inferBoolScalar(InferCall& call) { call.result(DType::Bool, Dims{}); }

}  // namespace

void registerComposedOps(OpRegistry& ops) {
  auto check = [&](const char* schema, KernelFunction kernel) {
    ops.add({.schema = schema, .kernel = kernel, .dtypes = {}, .traits = {Trait::SideEffects}});
  };
  check("aten::_assert_async", assertTensor);
  check("aten::_assert_async.msg(Tensor self, str assert_msg) -> ()", assertWithMessage);
  check("aten::_assert_scalar", assertScalar);
  check("aten::_assert_tensor_metadata", assertMetadata);
  check(
      "aten::_assert_tensor_metadata.device(Tensor a, int[]? size=None, int[]? stride=None, ScalarType? dtype=None, *, "
      "Device? device=None, Layout? layout=None) -> ()",
      assertMetadata);
  check("aten::sym_constrain_range", constrainRange);
  check("aten::sym_constrain_range_for_size", constrainRange);

  auto add = [&](const char* schema, KernelFunction kernel, InferFunction infer = nullptr) {
    ops.add({.schema = schema, .infer = infer, .kernel = kernel, .dtypes = kAllTypes});
  };
  add("aten::_is_all_true", asOperator<kAll>, inferBoolScalar);
  add("aten::_is_any_true", asOperator<kAny>, inferBoolScalar);
  add("aten::_unsafe_index.Tensor", asOperator<kIndex>);
  add("aten::_unsafe_index_put", asOperator<kIndexPut>, inferSameAsSelf);
  add("aten::_safe_softmax", safeSoftmax);
  add("aten::_int_mm", intProduct);
  add("aten::_weight_int8pack_mm", int8Product);
  add("aten::_prelu_kernel", preluOfWeights, inferSameAsSelf);
  ops.add({.schema = "aten::nonzero_static",
           .kernel = nonzeroStatic,
           .dtypes = kAllTypes,
           .traits = {Trait::DependsOnElements}});
}

}  // namespace tscompile
