#include "passes/lowering/functional_form.h"

#include "ir/values/size_expression.h"

#include <algorithm>

namespace tscompile {
namespace {

// Whether the operator gives a tensor of these sizes, or refuses the arguments, as it does in either form.
bool givesSizes(const Operator& op, std::span<const SymbolicValue> arguments, DimSpan sizes) {
  try {
    InferCall call(op, arguments);
    op.def().infer(call);
    if (call.resultCount() != 1 || call.inferred(0).kind != InferredResult::Kind::Tensor) return false;
    const TensorSpec& spec = call.inferred(0).tensor;
    return spec.hasRank && std::equal(spec.sizes.begin(), spec.sizes.end(), sizes.begin(), sizes.end(), sameSize);
  } catch (const InferCall::NotKnown&) {
    return false;
  } catch (const ExecutionError&) {
    return true;
  }
}

// Undefined: it is not known. Nothing: the arguments are refused.
std::optional<DType> inferredDType(const Operator& op, std::span<const SymbolicValue> arguments) {
  try {
    InferCall call(op, arguments);
    op.def().infer(call);
    if (call.resultCount() != 1 || call.inferred(0).kind != InferredResult::Kind::Tensor) return DType::Undefined;
    return call.inferred(0).tensor.dtype;
  } catch (const InferCall::NotKnown&) {
    return DType::Undefined;
  } catch (const ExecutionError&) {
    return std::nullopt;
  }
}

std::vector<SymbolicValue> argumentsOf(const Node* n, GraphFacts& facts) {
  std::vector<SymbolicValue> arguments;
  for (const Use& u : n->inputs()) arguments.push_back(facts.symbolic(u.value));
  return arguments;
}

bool isWritten(std::optional<DType> result, DType to) {
  return result && (*result == DType::Undefined || canCast(*result, to));
}

}  // namespace

bool keepsSizes(const Node* n, const Operator& twin, GraphFacts& facts) {
  if (!twin.def().infer) return false;
  std::vector<SymbolicValue> arguments = argumentsOf(n, facts);
  SymbolicValue& self = arguments[0];
  self.constant.reset();
  const TensorFacts known = self.type->tensor();
  if (known.hasRank && std::ranges::all_of(known.sizes, [](int64_t s) { return s != kUnknownSize; }))
    return givesSizes(twin, arguments, known.sizes);
  // What is not known is tried: shape functions compare and broadcast sizes, so these few tell all cases apart.
  size_t least = known.hasRank ? known.sizes.size() : 0, most = known.hasRank ? least : 5;
  for (size_t rank = least; rank <= most; ++rank)
    for (int64_t tried : {1, 2, 0, 7}) {
      TensorFacts assumed = known;
      assumed.hasRank = true;
      assumed.hasStrides = false;
      assumed.sizes.resize(rank, kUnknownSize);
      for (size_t d = 0; d < rank; ++d)
        if (!isKnownSize(assumed.sizes[d])) assumed.sizes[d] = tried == 7 ? 7 + 2 * static_cast<int64_t>(d) : tried;
      self.type = tensorType(assumed);
      if (!givesSizes(twin, arguments, assumed.sizes)) return false;
    }
  return true;
}

bool keepsDType(const Node* n, const Operator& twin, GraphFacts& facts) {
  if (!twin.def().infer) return false;
  std::vector<SymbolicValue> arguments = argumentsOf(n, facts);
  SymbolicValue& self = arguments[0];
  TensorFacts known = self.type->tensor();
  self.constant.reset();
  for (int d = 0; d < static_cast<int>(DType::Undefined); ++d) {
    auto dtype = static_cast<DType>(d);
    if (known.dtype != DType::Undefined && dtype != known.dtype) continue;
    TensorFacts assumed = known;
    assumed.dtype = dtype;
    self.type = tensorType(assumed);
    if (!kAllTypes.contains(dtype) || !(twin.def().dtypes.empty() || twin.def().dtypes.contains(dtype))) continue;
    const std::optional<DType> given = inferredDType(twin, arguments);  // nothing: both forms refuse them
    if (given && *given != dtype) return false;
  }
  return true;
}

bool takesAlike(const Node* n, const Operator& op, const Operator& twin, GraphFacts& facts) {
  if (!op.def().infer || !twin.def().infer) return true;
  std::vector<SymbolicValue> arguments = argumentsOf(n, facts);
  const std::vector<SymbolicValue> known = arguments;
  auto assume = [&](size_t i, DType dtype) {
    TensorFacts t = known[i].type->tensor();
    if (i != 0 && t.dtype != DType::Undefined) return;
    if (t.dtype == DType::Undefined) t.dtype = dtype;
    arguments[i].type = tensorType(t);
    if (i == 0) arguments[i].constant.reset();
  };
  constexpr DType kTried[] = {DType::Float32,   DType::Float64, DType::Float16, DType::Int64,
                              DType::Complex64, DType::Bool,    DType::UInt8};
  for (DType self : kTried)
    for (DType others : kTried) {
      assume(0, self);
      for (size_t i = 1; i < arguments.size(); ++i)
        if (known[i].type->isTensor()) assume(i, others);
      const DType to = arguments[0].type->tensor().dtype;
      if (isWritten(inferredDType(op, arguments), to) != isWritten(inferredDType(twin, arguments), to)) return false;
    }
  return true;
}

}  // namespace tscompile
