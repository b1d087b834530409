// Quantised tensors and packed weights as nodes that make them of plain tensors.
#include "ir/values/quantization.h"
#include "runtime/ops/quantized/packed_params.h"
#include "runtime/reference/loops/copy.h"

#include <fmt/core.h>

namespace tscompile {
namespace {

class Maker {
 public:
  explicit Maker(Builder& builder) : builder_(builder) {}

  Value* tensor(const Tensor& t) {
    if (!isQuantized(t.dtype())) return builder_.constant(IValue(t), types().tensor);
    const Quantization& q = quantizationOf(t);
    Tensor integers = Tensor::empty(storedAs(t.dtype()), t.sizes());
    copyTensor(integers, integersOf(t));
    Value* stored = builder_.constant(IValue(integers), types().tensor);
    if (q.isPerTensor())
      return call("aten::_make_per_tensor_quantized_tensor",
                  {stored, builder_.constant(q.scale), builder_.constant(q.zeroPoint)}, types().tensor);
    return call("aten::_make_per_channel_quantized_tensor",
                {stored, tensor(q.scales), tensor(q.zeroPoints), builder_.constant(q.axis)}, types().tensor);
  }

  Value* object(const IValue& v) {
    const std::string& name = v.toObject().type->name();
    TypePtr type = v.toObject().type;
    if (name == kCellParams) return cell(v, type);
    PackedWeight w = unpacked(v);
    Value *weight = tensor(w.weight), *bias = w.bias.defined() ? tensor(w.bias) : none(types().tensor);
    if (name == kLinearParams)
      return call(isQuantized(w.weight.dtype()) ? "quantized::linear_prepack" : "quantized::linear_prepack_fp16",
                  {weight, bias}, type);
    if (name == kEmbeddingParams) return call("quantized::embedding_bag_prepack", {weight}, type);
    if (name == kLinearContext)
      return call("prepacked::linear_clamp_prepack", {weight, bias, bound(w.least), bound(w.most)}, type);
    std::vector<Value*> inputs{weight, bias, dims(w.shape.stride), dims(w.shape.padding)};
    if (w.transposed) inputs.push_back(dims(w.shape.outputPadding));
    inputs.push_back(dims(w.shape.dilation));
    inputs.push_back(builder_.constant(w.shape.groups));
    std::string kind =
        fmt::format("quantized::conv{}{}d_prepack", w.transposed ? "_transpose" : "", w.shape.stride.size());
    if (name == kConvContext || name == kTransposedContext) {
      kind = w.transposed ? "prepacked::conv2d_transpose_clamp_prepack" : "prepacked::conv2d_clamp_prepack";
      inputs.push_back(bound(w.least));
      inputs.push_back(bound(w.most));
    }
    return call(kind, inputs, type);
  }

 private:
  Value* cell(const IValue& v, TypePtr type) {
    const IValue &input = attributeOf(v, "w_ih"), &hidden = attributeOf(v, "w_hh");
    Value *ofInput = object(input), *ofHidden = object(hidden);
    PackedWeight x = unpacked(input), h = unpacked(hidden);
    if (!isQuantized(x.weight.dtype()))
      return call("quantized::make_quantized_cell_params_fp16", {ofInput, ofHidden}, type);
    auto bias = [&](const PackedWeight& w) {
      return tensor(w.bias.defined() ? w.bias : Tensor::zeros(DType::Float32, Dims{0}));
    };
    Value* reduced = builder_.constant(attributeOf(v, "reduce_range"));
    return call("quantized::make_quantized_cell_params_dynamic", {ofInput, ofHidden, bias(x), bias(h), reduced}, type);
  }

  Value* call(std::string_view kind, std::span<Value* const> inputs, TypePtr type) {
    Value* v = builder_.insert(Symbol::of(kind), inputs)->output();
    v->setType(type);
    return v;
  }
  Value* call(std::string_view kind, std::initializer_list<Value*> inputs, TypePtr type) {
    return call(kind, std::span<Value* const>(inputs.begin(), inputs.size()), type);
  }
  Value* none(TypePtr of) { return builder_.constant(IValue(), optionalType(of)); }
  Value* bound(const IValue& v) { return v.isNone() ? none(types().number) : builder_.constant(v); }
  Value* dims(const Dims& values) { return builder_.constant(intList(values)); }

  Builder& builder_;
};

}  // namespace

bool isPacked(const IValue& v) {
  if (v.isTensor()) return v.tensorImpl() && isQuantized(v.tensorImpl()->dtype());
  return v.isObject() && v.toObject().type->name().starts_with("__torch__.torch.classes.");
}

Value* insertPacked(Builder& builder, const IValue& v) {
  if (v.isTensor()) return Maker(builder).tensor(v.toTensor());
  bool isKnown = v.toObject().find(Symbol::of("weight")) || v.toObject().find(Symbol::of("w_ih"));
  return isKnown ? Maker(builder).object(v) : nullptr;
}

}  // namespace tscompile
