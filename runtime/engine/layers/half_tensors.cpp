#include "runtime/engine/layers/half_tensors.h"

#include "ir/values/encoded.h"
#include "runtime/engine/layers/pointwise_layer.h"
#include "runtime/engine/layers/product_layer.h"
#include "runtime/reference/loops/copy.h"
#include "runtime/reference/promotion.h"

namespace tscompile {
namespace {

bool isLayered(DType d) { return isHalf(d) || d == DType::Float32 || isIntegral(d, true); }

const TensorImpl* tensorOf(const IValue& v) { return v.isTensor() ? v.tensorImpl() : nullptr; }

bool isListOfTensors(const IValue& v) {
  return v.isList() && !v.toList().items.empty() && tensorOf(v.toList().items[0]);
}

// What the tensors of an element-wise call are converted to if that is 16 bits: others among them are integers, bool
// and floats without dimensions.
DType promotedHalf(std::span<const IValue* const> arguments) {
  ResultType type;
  for (const IValue* v : arguments)
    if (const TensorImpl* t = tensorOf(*v)) type.add(TensorInfo{t->dtype(), true, t->sizes()});
  return isHalf(type.get()) ? type.get() : DType::Undefined;
}

// Whether argument i is a factor or divisor of one element, which PyTorch takes as it is (half_operands.h).
bool isFactor(const Operator& op, std::span<const IValue* const> arguments, size_t i) {
  return i == 1 && op.has(Trait::RoundsOnce) && tensorOf(*arguments[1])->numel() == 1 &&
         (arguments.size() < 3 || !tensorOf(*arguments[2]));
}

bool isKnown(const InferredResult& r) {
  if (r.kind != InferredResult::Kind::Tensor) return false;
  const TensorSpec& s = r.tensor;
  return s.hasRank && allKnown(s.sizes) && checkedNumel(s.sizes) > 0 && isLayered(s.dtype);
}

DType halfAmong(std::span<const IValue* const> arguments) {
  for (const IValue* v : arguments)
    if (const TensorImpl* t = tensorOf(*v); t && isHalf(t->dtype())) return t->dtype();
  return DType::Undefined;
}

}  // namespace

bool computesInFloats(const Operator& op, std::span<const IValue* const> arguments, const InferCall& infer) {
  const bool keeps = op.has(Trait::KeepsElements);
  if (!(keeps || op.has(Trait::RoundsOnce) || op.has(Trait::Elementwise)) || op.has(Trait::ReadsLimits) ||
      infer.resultCount() == 0)
    return false;
  for (size_t i = 0; i < infer.resultCount(); ++i)
    if (!isKnown(infer.inferred(i))) return false;
  const DType result = infer.inferred(0).tensor.dtype;
  bool hasHalf = isHalf(result);
  auto fits = [&](const TensorImpl& t) {
    hasHalf |= isHalf(t.dtype());
    return isLayered(t.dtype());
  };
  const std::vector<Argument>& declared = op.schema().arguments;
  const DType half = halfAmong(arguments);
  for (size_t i = 0; i < arguments.size(); ++i) {
    const IValue& v = *arguments[i];
    if (const TensorImpl* t = tensorOf(v)) {
      if (!fits(*t)) return false;
      if (i == 0 && keeps && !isHalf(t->dtype()) && t->dtype() != DType::Float32) return false;
    } else if (isListOfTensors(v)) {
      for (const IValue& item : v.toList().items)
        if (const TensorImpl* t = tensorOf(item); !t || !fits(*t)) return false;
    } else if (declared[i].name == "dtype" && !keeps && !v.isNone() && result != DType::Float32) {
      return false;
    } else if (declared[i].name == "alpha" && half == DType::Float16 && v.isNumber() && v.toDouble() != 1) {
      return false;  // its product is rounded, too
    } else if (declared[i].name == "exponent" && half == DType::BFloat16 && v.isNumber() &&
               (v.toDouble() == 3 || v.toDouble() == -2)) {
      return false;  // so is the square
    } else if ((v.isFloat() || (v.isInt() && declared[i].type->is(TypeKind::Number))) &&
               !isInRange(v.toDouble(), half)) {
      return false;  // kernels of halves know whether it is refused
    }
  }
  return hasHalf;
}

IValue HalfTensors::inFloats(const Node* node, const Operator& op, std::span<const IValue* const> arguments, size_t i) {
  const IValue& v = *arguments[i];
  auto wide = [&](const IValue& item) {
    const TensorImpl* t = tensorOf(item);
    if (!t) return item;
    const IValue inFloat = isHalf(t->dtype()) ? IValue(widened(node, item.toTensor())) : item;
    const bool takesAll = !op.has(Trait::Elementwise) || itemSize(t->dtype()) == 1 || isFactor(op, arguments, i);
    const DType common = takesAll ? DType::Undefined : promotedHalf(arguments);
    return common == DType::Undefined || common == t->dtype() ? inFloat : rounded(node, common, inFloat.toTensor());
  };
  if (isListOfTensors(v)) {
    std::vector<IValue> items;
    for (const IValue& item : v.toList().items) items.push_back(wide(item));
    return Ref<ListValue>::make(v.toList().elementType, std::move(items));
  }
  // Numbers are elements of 16 bits where the operator does not take them into what it rounds once.
  const bool isElement = (v.isInt() || v.isFloat()) && op.has(Trait::Elementwise) && !op.has(Trait::RoundsOnce);
  const DType dtype = isElement ? halfAmong(arguments) : DType::Undefined;
  return dtype == DType::Undefined ? wide(v) : numberOf(elementOf(v, dtype));
}

void HalfTensors::tellDType(const Operator& op, std::span<const IValue* const> arguments, size_t first) {
  if (!op.has(Trait::RoundsOnce) || halfAmong(arguments) != DType::BFloat16) return;
  const Network& network = tensors_.network();
  for (size_t i = first; i < network.layers.size(); ++i)
    if (auto* product = dynamic_cast<ProductLayer*>(network.layers[i].get())) product->setIsOfBrains();
}

Tensor HalfTensors::widened(const Node* node, const Tensor& half) {
  if (!half.storage()->isSymbolic()) return widenedConstant(half);
  if (Tensor wide = tensors_.wideOf(half); wide.defined()) return wide;
  Tensor& made = stored_[half.impl()];
  if (!made.defined()) {
    made = tensors_.make(DType::Float32, half.sizes());
    addConversion(tensors_.network(), node, tensors_.idOf(half), tensors_.idOf(made));
  }
  return made;
}

// Read where it lies, so that what is packed of it for one plan is found again by the next.
Tensor HalfTensors::widenedConstant(const Tensor& half) {
  const Ref<Storage>& storage = half.storage();
  Tensor& all = constants_[storage.get()];
  if (!all.defined()) {
    const Dims sizes{static_cast<int64_t>(storage->bytes() / itemSize(half.dtype()))};
    all = encodedTensor(Tensor::view(half.dtype(), storage, sizes, contiguousStrides(sizes), 0), {}, 0);
  }
  return all.withGeometry(half.sizes(), half.strides(), half.offset());
}

Tensor HalfTensors::rounded(const Node* node, DType dtype, const Tensor& exact) {
  if (!exact.storage()->isSymbolic()) return convertTensor(convertTensor(exact, dtype), DType::Float32);
  Tensor rounded = tensors_.make(DType::Float32, exact.sizes());
  Network& network = tensors_.network();
  const TensorId from = tensors_.idOf(exact);
  auto layer = std::make_unique<PointwiseLayer>(node);
  PointwiseProgram& p = layer->program;
  p.output(p.step(dtype == DType::Float16 ? PointwiseOp::RoundF16 : PointwiseOp::RoundBF16, p.input()));
  layer->inputs = {exact.dtype() == DType::Float32 ? from : addFloats(network, node, from)};
  layer->outputs = {tensors_.idOf(rounded)};
  network.layers.push_back(std::move(layer));
  return rounded;
}

Tensor HalfTensors::narrowed(const Node* node, DType dtype, const Tensor& exact) {
  return tensors_.makeNarrow(node, dtype, rounded(node, dtype, exact));
}

}  // namespace tscompile
