// Bitwise operators and shifts on integer tensors; and, or, xor and not on bool ones.
#include "runtime/engine/layers/alone/map_layer.h"
#include "runtime/ops/ops.h"

namespace tscompile {
namespace {

template <auto kF, class Call = KernelCall>
void bitwiseKernel(Call& call) {
  DType dtype = promotedDType(call, 2);
  if (!isIntegral(dtype, true)) refuseDType(dtype);
  mapElements<kI64, 2>(call, dtype, kF);
}

// Counts that are negative, or no smaller than the bits there are, leave nothing but the sign.
template <bool kLeft, class Call = KernelCall>
void shiftKernel(Call& call) {
  DType dtype = promotedDType(call, 2);
  if (!isIntegral(dtype, false)) refuseDType(dtype);
  const auto bits = static_cast<int64_t>(itemSize(dtype)) * 8;
  mapElements<kI64, 2>(call, dtype, [=](int64_t a, int64_t count) -> int64_t {
    bool within = count >= 0 && count < bits;
    if (!kLeft) return a >> (within ? count : 63);
    return within ? static_cast<int64_t>(static_cast<uint64_t>(a) << count) : 0;
  });
}

template <class Call>
void notKernel(Call& call) {
  if (call.tensor(0).dtype() == DType::Bool) return mapInputs<kI64, 1>(call, [](int64_t x) { return int64_t{x == 0}; });
  mapInputs<kI64, 1>(call, [](int64_t x) { return ~x; });
}

template <PointwiseOp kOp>
int ofIntegers(StepBuilder& b) {
  return isIntegral(b.call().spec().dtype, false) ? singleStep<kOp>(b) : b.fail("the elements are no integers");
}
// Of truth values the bits are the truth.
template <PointwiseOp kOp, PointwiseOp kOnBits>
int bitSteps(StepBuilder& b) {
  return b.call().spec().dtype == DType::Bool ? singleStep<kOp>(b) : ofIntegers<kOnBits>(b);
}
// ~x = -1 - x
int notSteps(StepBuilder& b) {
  if (b.call().spec().dtype == DType::Bool) return singleStep<PointwiseOp::Not>(b);
  if (!isIntegral(b.call().spec().dtype, false)) return b.fail("the elements are no integers");
  return b.step(PointwiseOp::Sub, b.constant(-1), b.value(0));
}

}  // namespace

void registerBitwiseOps(OpRegistry& ops) {
  auto add = [&](std::initializer_list<std::string_view> names, KernelFunction kernel, InPlace inplace,
                 bool commutative = false, ConvertFunction convert = nullptr) {
    addAliases(
        ops, names,
        {.infer = inferBinary,
         .kernel = kernel,
         .convert = convert,
         .dtypes = kAllTypes,
         .inplace = inplace,
         .traits = commutative ? TraitSet{Trait::Elementwise, Trait::Commutative} : TraitSet{Trait::Elementwise}});
  };
  constexpr auto kAndOf = [](int64_t a, int64_t b) { return a & b; };
  constexpr KernelFunction kAnd = bitwiseKernel<kAndOf>;
  constexpr auto kOrOf = [](int64_t a, int64_t b) { return a | b; };
  constexpr KernelFunction kOr = bitwiseKernel<kOrOf>;
  constexpr auto kXorOf = [](int64_t a, int64_t b) { return a ^ b; };
  constexpr KernelFunction kXor = bitwiseKernel<kXorOf>;
  constexpr ConvertFunction kAndSteps =
      convertStepsOr<bitSteps<PointwiseOp::And, PointwiseOp::BitAnd>, bitwiseKernel<kAndOf, ConvertCall>>;
  constexpr ConvertFunction kOrSteps =
      convertStepsOr<bitSteps<PointwiseOp::Or, PointwiseOp::BitOr>, bitwiseKernel<kOrOf, ConvertCall>>;
  constexpr ConvertFunction kXorSteps =
      convertStepsOr<bitSteps<PointwiseOp::Xor, PointwiseOp::BitXor>, bitwiseKernel<kXorOf, ConvertCall>>;
  constexpr KernelFunction kLeft = shiftKernel<true>, kRight = shiftKernel<false>;
  constexpr ConvertFunction kLeftSteps =
      convertStepsOr<ofIntegers<PointwiseOp::ShiftLeft>, shiftKernel<true, ConvertCall>>;
  constexpr ConvertFunction kRightSteps =
      convertStepsOr<ofIntegers<PointwiseOp::ShiftRight>, shiftKernel<false, ConvertCall>>;
  add({"aten::bitwise_and.Tensor", "aten::bitwise_and.Scalar", "aten::__iand__.Tensor", "aten::__iand__.Scalar"}, kAnd,
      InPlace::Direct, true, kAndSteps);
  add({"aten::bitwise_or.Tensor", "aten::bitwise_or.Scalar", "aten::__ior__.Tensor", "aten::__ior__.Scalar"}, kOr,
      InPlace::Direct, true, kOrSteps);
  add({"aten::bitwise_xor.Tensor", "aten::bitwise_xor.Scalar", "aten::__ixor__.Tensor", "aten::__ixor__.Scalar"}, kXor,
      InPlace::Direct, true, kXorSteps);
  add({"aten::bitwise_left_shift.Tensor", "aten::bitwise_left_shift.Tensor_Scalar", "aten::__ilshift__.Tensor",
       "aten::__ilshift__.Scalar"},
      kLeft, InPlace::Direct, false, kLeftSteps);
  add({"aten::bitwise_right_shift.Tensor", "aten::bitwise_right_shift.Tensor_Scalar", "aten::__irshift__.Tensor",
       "aten::__irshift__.Scalar"},
      kRight, InPlace::Direct, false, kRightSteps);
  add({"aten::bitwise_and.Scalar_Tensor", "aten::__and__.Tensor", "aten::__and__.Scalar"}, kAnd, InPlace::No, true,
      kAndSteps);
  add({"aten::bitwise_or.Scalar_Tensor", "aten::__or__.Tensor", "aten::__or__.Scalar"}, kOr, InPlace::No, true,
      kOrSteps);
  add({"aten::bitwise_xor.Scalar_Tensor", "aten::__xor__.Tensor", "aten::__xor__.Scalar"}, kXor, InPlace::No, true,
      kXorSteps);
  add({"aten::bitwise_left_shift.Scalar_Tensor", "aten::__lshift__.Tensor", "aten::__lshift__.Scalar"}, kLeft,
      InPlace::No, false, kLeftSteps);
  add({"aten::bitwise_right_shift.Scalar_Tensor", "aten::__rshift__.Tensor", "aten::__rshift__.Scalar"}, kRight,
      InPlace::No, false, kRightSteps);
  ops.add({.schema = "aten::bitwise_not",
           .infer = inferSameAsSelf,
           .kernel = notKernel<KernelCall>,
           .convert = convertStepsOr<notSteps, notKernel<ConvertCall>>,
           .dtypes = kIntegerTypes | kBoolType,
           .inplace = InPlace::Direct,
           .traits = {Trait::Elementwise}});
}

}  // namespace tscompile
