#include "runtime/ops/quantized/packed_params.h"

#include "ir/values/error.h"
#include "ir/values/quantization.h"

#include <fmt/core.h>

namespace tscompile {
namespace {

[[noreturn]] void failState(std::string_view className) {
  throw ExecutionError(ErrorKind::Input, fmt::format("the state of {} is not one that PyTorch saves", className));
}

// The parts of a saved state, each with the kind that it must have.
class State {
 public:
  State(std::string_view className, const IValue& v) : className_(className) {
    if (!v.isTuple()) fail();
    items_ = v.toTuple().items;
  }
  State(std::string_view className, std::vector<IValue> items) : className_(className), items_(std::move(items)) {}
  [[noreturn]] void fail() const { failState(className_); }

  size_t size() const { return items_.size(); }
  const IValue& at(size_t i) const { return i < items_.size() ? items_[i] : (fail(), items_[0]); }
  Tensor tensor(size_t i) const {
    if (!at(i).isTensor() || !at(i).tensorImpl()) fail();
    return at(i).toTensor();
  }
  Tensor optionalTensor(size_t i) const { return at(i).isNone() ? Tensor() : tensor(i); }
  int64_t integer(size_t i) const {
    return at(i).isInt() ? at(i).toInt() : at(i).isBool() ? at(i).toBool() : (fail(), 0);
  }
  State list(size_t i) const {
    if (!at(i).isList()) fail();
    return {className_, at(i).toList().items};
  }
  Dims integers(size_t i) const {
    return list(i).all([](const State& s, size_t k) { return s.integer(k); });
  }
  // Of a list of tensors with one element each, as old files have it.
  Dims elements(size_t i) const {
    return list(i).all([](const State& s, size_t k) { return s.element(k); });
  }
  int64_t element(size_t i) const { return tensor(i).numel() == 1 ? tensor(i).integer(0) : (fail(), 0); }

 private:
  template <class F>
  Dims all(F f) const {
    Dims out;
    for (size_t i = 0; i < size(); ++i) out.push_back(f(*this, i));
    return out;
  }
  std::string_view className_;
  std::vector<IValue> items_;
};

// [dimensions, stride…, padding…, dilation…, output padding…, groups, transposed]
PackedWeight fromNumbers(const State& state, const Dims& numbers) {
  PackedWeight w;
  size_t dims = numbers.empty() || numbers[0] < 1 || numbers[0] > 3 ? 0 : static_cast<size_t>(numbers[0]);
  if (dims == 0 || numbers.size() != 4 * dims + 3) state.fail();
  auto part = [&](size_t i) { return Dims(DimSpan(numbers).subspan(1 + i * dims, dims)); };
  w.shape = {part(0), part(1), part(2), part(3), numbers[4 * dims + 1]};
  w.transposed = numbers[4 * dims + 2] != 0;
  return w;
}

// Three versions; the first has the tensors in front, the others say which they are.
PackedWeight convolution(const State& state) {
  if (state.at(0).isTensor()) {
    PackedWeight w;
    w.shape = {state.elements(2), state.elements(3), state.elements(4), Dims(state.elements(2).size(), 0),
               state.element(5)};
    w.weight = state.tensor(0);
    w.bias = state.optionalTensor(1);
    return w;
  }
  if (state.at(0).isString() && state.at(0).toString() == "2") {
    State tensors = state.list(1);
    Tensor numbers = tensors.tensor(0);
    Dims values;
    for (int64_t i = 0; i < numbers.numel(); ++i) values.push_back(numbers.integer(i));
    PackedWeight w = fromNumbers(state, values);
    w.weight = tensors.tensor(1);
    w.bias = state.list(2).optionalTensor(0);
    return w;
  }
  if (state.integer(0) != 3) state.fail();
  PackedWeight w = fromNumbers(state, state.integers(1));
  w.weight = state.list(2).tensor(1);
  w.bias = state.list(2).optionalTensor(2);
  return w;
}

PackedWeight context(const State& state, bool transposed) {
  size_t at = 2;
  PackedWeight w{.weight = state.tensor(0), .bias = state.optionalTensor(1), .shape = {}, .transposed = transposed};
  w.shape.stride = state.integers(at++);
  w.shape.padding = state.integers(at++);
  w.shape.outputPadding = transposed ? state.integers(at++) : Dims(w.shape.stride.size(), 0);
  w.shape.dilation = state.integers(at++);
  w.shape.groups = state.integer(at++);
  w.least = state.at(at++);
  w.most = state.at(at);
  return w;
}

// (kind, tensors, floats, integers, products)
IValue cell(const State& state) {
  if (!state.at(0).isString()) state.fail();
  const std::string& kind = state.at(0).toString();
  if (kind == "quantized_dynamic")
    return packCell(state.list(4).at(0), state.list(4).at(1),
                    state.list(3).size() > 0 && state.list(3).integer(0) != 0);
  if (kind == "quantized_fp16") return packCell(state.list(4).at(0), state.list(4).at(1), false);
  throw ExecutionError(ErrorKind::Unsupported, fmt::format("recurrent cells of the kind {} are not supported", kind));
}

Symbol name(std::string_view text) { return Symbol::of(text); }

}  // namespace

IValue pack(std::string_view className, const PackedWeight& w) {
  auto object = Ref<ObjectValue>::make(classType(std::string(className)));
  object->set(name("weight"), w.weight);
  object->set(name("bias"), w.bias.defined() ? IValue(w.bias) : IValue());
  object->set(name("stride"), intList(w.shape.stride));
  object->set(name("padding"), intList(w.shape.padding));
  object->set(name("dilation"), intList(w.shape.dilation));
  object->set(name("output_padding"), intList(w.shape.outputPadding));
  object->set(name("groups"), w.shape.groups);
  object->set(name("transpose"), w.transposed);
  object->set(name("output_min"), w.least);
  object->set(name("output_max"), w.most);
  object->shared = true;
  return IValue(std::move(object));
}

const IValue& attributeOf(const IValue& object, std::string_view attribute) {
  const IValue* v = object.isObject() ? object.toObject().find(name(attribute)) : nullptr;
  if (!v) throw ExecutionError(ErrorKind::Model, "expected packed parameters");
  return *v;
}

PackedWeight unpacked(const IValue& object) {
  auto check = [](bool good) {
    if (!good) throw ExecutionError(ErrorKind::Model, "expected packed parameters");
  };
  auto dims = [&](const char* attribute) {
    const IValue& list = attributeOf(object, attribute);
    check(list.isList());
    Dims out;
    for (const IValue& v : list.toList().items) {
      check(v.isInt());
      out.push_back(v.toInt());
    }
    return out;
  };
  const IValue& bias = attributeOf(object, "bias");
  const IValue& weight = attributeOf(object, "weight");
  check(weight.isTensor() && weight.tensorImpl() && attributeOf(object, "groups").isInt() &&
        attributeOf(object, "transpose").isBool());
  return {.weight = weight.toTensor(),
          .bias = bias.isTensor() ? bias.toTensor() : Tensor(),
          .shape = {dims("stride"), dims("padding"), dims("dilation"), dims("output_padding"),
                    attributeOf(object, "groups").toInt()},
          .transposed = attributeOf(object, "transpose").toBool(),
          .least = attributeOf(object, "output_min"),
          .most = attributeOf(object, "output_max")};
}

IValue packCell(IValue inputWeight, IValue hiddenWeight, bool reduceRange) {
  auto object = Ref<ObjectValue>::make(classType(std::string(kCellParams)));
  object->set(name("w_ih"), std::move(inputWeight));
  object->set(name("w_hh"), std::move(hiddenWeight));
  object->set(name("reduce_range"), reduceRange);
  object->shared = true;
  return IValue(std::move(object));
}

IValue restorePacked(const std::string& className, const IValue& value) {
  State state(className, value);
  if (className == kConv2dParams || className == kConv3dParams) return pack(className, convolution(state));
  if (className == kCellParams) return cell(state);
  if (className == kConvContext || className == kTransposedContext)
    return pack(className, context(state, className == kTransposedContext));
  PackedWeight w;
  if (className == kEmbeddingParams) {
    w.weight = state.list(1).tensor(0);
  } else if (className == kLinearParams || className == kLinearContext) {
    w.weight = state.tensor(0);
    w.bias = state.optionalTensor(1);
    if (className == kLinearContext) {
      w.least = state.at(2);
      w.most = state.at(3);
    }
  } else {
    throw ExecutionError(ErrorKind::Unsupported, fmt::format("{} is not supported", className));
  }
  return pack(className, w);
}

}  // namespace tscompile
