// Weights as quantised layers and files for mobiles hold them: objects of classes that PyTorch has built in
// (`__torch__.torch.classes.*`). Here each is a plain object with attributes.
#pragma once

#include "ir/graph/builder.h"
#include "ir/values/ivalue.h"
#include "runtime/reference/convolution.h"

#include <string>
#include <string_view>

namespace tscompile {

inline constexpr std::string_view kConv2dParams = "__torch__.torch.classes.quantized.Conv2dPackedParamsBase";
inline constexpr std::string_view kConv3dParams = "__torch__.torch.classes.quantized.Conv3dPackedParamsBase";
inline constexpr std::string_view kLinearParams = "__torch__.torch.classes.quantized.LinearPackedParamsBase";
inline constexpr std::string_view kEmbeddingParams = "__torch__.torch.classes.quantized.EmbeddingPackedParamsBase";
inline constexpr std::string_view kCellParams = "__torch__.torch.classes.rnn.CellParamsBase";
inline constexpr std::string_view kConvContext = "__torch__.torch.classes.xnnpack.Conv2dOpContext";
inline constexpr std::string_view kTransposedContext = "__torch__.torch.classes.xnnpack.TransposeConv2dOpContext";
inline constexpr std::string_view kLinearContext = "__torch__.torch.classes.xnnpack.LinearOpContext";

// A convolution or a product: what all of them hold.
struct PackedWeight {
  Tensor weight = {};
  Tensor bias = {};  // may be undefined
  ConvolutionShape shape = {};
  bool transposed = false;
  IValue least = {}, most = {};  // of the output; None if it is not bounded
};

IValue pack(std::string_view className, const PackedWeight& weight);
// Fails if the value is no object that pack() makes.
PackedWeight unpacked(const IValue& object);

// A cell of a recurrent layer: its two products, and the biases that are added beside them.
IValue packCell(IValue inputWeight, IValue hiddenWeight, bool reduceRange);
const IValue& attributeOf(const IValue& object, std::string_view name);

// What an archive saved as the state of such a class, as an object. Throws ExecutionError if the class is none of
// these, or the state not one of its own.
IValue restorePacked(const std::string& className, const IValue& state);

// Whether text has no way to say the value: such an object, or a quantised tensor.
bool isPacked(const IValue& value);
// Inserts the nodes that make it anew, of numbers and plain tensors. Null for objects that are none of these.
Value* insertPacked(Builder& builder, const IValue& value);

}  // namespace tscompile
