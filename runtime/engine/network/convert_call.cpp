#include "runtime/engine/network/convert_call.h"

#include "ir/support/text.h"
#include "runtime/call/session_functions.h"

#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <unordered_set>

namespace tscompile {

Tensor NetworkTensors::make(DType dtype, DimSpan sizes) {
  TensorId id = network_.addTensor(dtype, sizes);
  Ref<Storage> storage = Storage::symbolic(network_.bufferOf(id).bytes);
  buffers_[storage.get()] = network_[id].buffer;
  Tensor t = Tensor::view(dtype, std::move(storage), sizes, contiguousStrides(sizes), 0);
  ids_[t.impl()] = id;
  kept_.push_back(t);
  return t;
}

Tensor NetworkTensors::makeInput(uint32_t index, const Tensor& given) {
  auto buffer = static_cast<BufferId>(network_.buffers.size());
  network_.buffers.push_back({.kind = NetBuffer::Kind::Input, .input = index});
  Ref<Storage> storage = Storage::symbolic(given.storage()->bytes());
  buffers_[storage.get()] = buffer;
  Tensor t = Tensor::view(given.dtype(), std::move(storage), given.sizes(), given.strides(), 0);
  TensorId id = network_.addView(buffer, given.dtype(), given.sizes(), given.strides(), 0);
  network_.tensors[id].input = index;
  ids_[t.impl()] = id;
  kept_.push_back(t);
  return t;
}

Tensor NetworkTensors::makeNarrow(const Node* node, DType dtype, const Tensor& wide) {
  Ref<Storage> storage = Storage::symbolic(static_cast<size_t>(wide.numel()) * itemSize(dtype));
  narrow_[storage.get()] = {node, dtype, wide};
  kept_.push_back(Tensor::view(dtype, std::move(storage), wide.sizes(), wide.strides(), 0));
  return kept_.back();
}

Tensor NetworkTensors::wideOf(const Tensor& narrow) const {
  auto known = narrow_.find(narrow.storage().get());
  if (known == narrow_.end()) return {};
  const Tensor& wide = known->second.wide;
  return Tensor::view(wide.dtype(), wide.storage(), narrow.sizes(), narrow.strides(), wide.offset() + narrow.offset());
}

BufferId NetworkTensors::bufferOf(const Storage* storage) {
  if (auto known = buffers_.find(storage); known != buffers_.end()) return known->second;
  const Narrow& made = narrow_.at(storage);
  const TensorId from = idOf(made.wide), to = network_.addTensor(made.dtype, made.wide.sizes());
  std::vector<std::unique_ptr<Layer>>& layers = network_.layers;
  const size_t end = layers.size();
  size_t at = end;
  // Whoever asks may have added the layer that is to read it, and not yet told what that one reads and writes.
  auto isAwaiting = [&](const Layer& layer) {
    return (layer.inputs.empty() || layer.outputs.empty()) &&
           std::ranges::none_of(layer.outputs, [&](TensorId t) { return network_[t].buffer == network_[from].buffer; });
  };
  while (at > 0 && isAwaiting(*layers[at - 1])) --at;
  addConversion_(network_, made.node, from, to);
  const auto begin = layers.begin();
  std::rotate(begin + static_cast<std::ptrdiff_t>(at), begin + static_cast<std::ptrdiff_t>(end), layers.end());
  return buffers_[storage] = network_[to].buffer;
}

TensorId NetworkTensors::idOf(const Tensor& tensor) {
  if (auto known = ids_.find(tensor.impl()); known != ids_.end()) return known->second;
  TensorId id;
  if (tensor.storage()->isSymbolic()) {
    id = network_.addView(bufferOf(tensor.storage().get()), tensor.dtype(), tensor.sizes(), tensor.strides(),
                          tensor.offset());
  } else {
    id = network_.addConstant(tensor);
  }
  ids_[tensor.impl()] = id;
  kept_.push_back(tensor);
  return id;
}

NetValue NetworkTensors::valueOf(const IValue& value) {
  NetValue v;
  if (value.isTensor() && value.tensorImpl() && value.tensorImpl()->storage()->isSymbolic()) {
    v.kind = NetValue::Kind::Tensor;
    v.tensor = idOf(value.toTensor());
  } else if (value.isList() && isSymbolic(value)) {
    v.kind = NetValue::Kind::List;
    v.elementType = value.toList().elementType;
    for (const IValue& item : value.toList().items) v.items.push_back(valueOf(item));
  } else {
    v.known = value;
  }
  return v;
}

namespace {

const std::vector<IValue>* itemsOf(const IValue& v) {
  return v.isList() ? &v.toList().items : v.isTuple() ? &v.toTuple().items : nullptr;
}
bool isSymbolicTensor(const IValue& v) {
  return v.isTensor() && v.tensorImpl() && v.tensorImpl()->storage()->isSymbolic();
}

}  // namespace

bool NetworkTensors::isSymbolic(const IValue& value) {
  const std::vector<IValue>* items = itemsOf(value);
  if (!items) return isSymbolicTensor(value);
  // Containers in containers may hold each other many times over, or themselves: each is looked at once.
  std::vector<const IValue*> nested;
  std::unordered_set<const RefCounted*> seen;
  while (true) {
    for (const IValue& item : *items) {
      if (isSymbolicTensor(item)) return true;
      if (itemsOf(item) && seen.insert(item.object()).second) nested.push_back(&item);
    }
    if (nested.empty()) return false;
    items = itemsOf(*nested.back());
    nested.pop_back();
  }
}

namespace {

// Puts the defaults of a schema after the arguments that are given. Why they do not fit it; "" if they do.
std::string fitArguments(const Operator& op, std::vector<IValue>& arguments) {
  const Schema& schema = op.schema();
  for (size_t i = arguments.size(); i < schema.arguments.size() && schema.arguments[i].defaultValue; ++i)
    arguments.push_back(*schema.arguments[i].defaultValue);
  if (arguments.size() != schema.arguments.size() || schema.returns.size() != 1 || schema.isMutable())
    return fmt::format("{} is given {} arguments", schemaText(schema), arguments.size());
  for (size_t i = 0; i < arguments.size(); ++i)
    if (TypePtr type = schema.arguments[i].type; !type->hasVariables() && !isInstance(arguments[i], type))
      return fmt::format("argument {} of {} is {}, not {}", schema.arguments[i].name, op.fullName(),
                         typeText(dynamicType(arguments[i])), typeText(type));
  return "";
}

}  // namespace

IValue ConvertCall::compute(std::string_view name, std::vector<IValue> arguments) const {
  auto fail = [&](Reason reason, std::string why) {
    throw Refusal{.node = node_, .verdict = {reason, std::move(why)}, .isFailure = true};
  };
  const OpRegistry& registry = tracer_.registry();
  const Operator* named = registry.find(name);
  std::string why;
  if (named && named->isImplemented()) {
    std::vector<IValue> all = arguments;
    why = fitArguments(*named, all);
    if (why.empty()) return tracer_.trace(*named, all);
  }
  // A name without that of an overload means the first that takes such arguments, as in a graph.
  std::span<const Operator* const> overloads;
  if (name.find('.') == std::string_view::npos) overloads = registry.overloads(Symbol::of(name));
  std::string there;
  size_t count = 0;
  for (const Operator* op : overloads) {
    if (!op->isImplemented() || op->schema().isMutable()) continue;
    std::vector<IValue> all = arguments;
    const std::string problem = fitArguments(*op, all);
    if (problem.empty()) return tracer_.trace(*op, all);
    if (why.empty()) why = problem;
    ++count;
    there += (there.empty() ? "" : ", ") + std::string(op->fullName());
  }
  if (count > 1)
    fail(Reason::NoOverload,
         fmt::format("no overload of {} takes ({}): there are {}", name,
                     join(arguments, ", ", [](const IValue& v) { return typeText(dynamicType(v)); }), there));
  if (why.empty()) fail(Reason::NoOp, fmt::format("there is no operator {}", name));
  fail(Reason::NoOverload, why);
  return {};
}

TensorId ConvertCall::makeResult(size_t i) {
  makeResults(i);
  if (!results_[i].isTensor()) refuse(Reason::NonTensor, fmt::format("result {} is a list", i + 1));
  return tensors_.idOf(results_[i].toTensor());
}

bool ConvertCall::fitsResult(size_t i) const {
  if (i >= inferred_->resultCount() || inferred_->inferred(i).kind != InferredResult::Kind::Tensor) return true;
  return fits(results_[i], inferred_->inferred(i).tensor);
}

Tensor ConvertCall::makeTensor(DType dtype, DimSpan sizes) const {
  if (itemSize(dtype) == 0)
    refuse(Reason::DType, fmt::format("tensors of dtype {} are not supported", pythonName(dtype)));
  return tensors_.make(dtype, sizes);
}

void ConvertCall::makeResults(size_t i) {
  using Kind = InferredResult::Kind;
  Kind kind = i < inferred_->resultCount() ? inferred_->inferred(i).kind : Kind::Unknown;
  if (kind == Kind::Undefined) return setResult(i, Tensor());
  if (kind == Kind::Tensor) {
    const TensorSpec& s = inferred_->inferred(i).tensor;
    if (!s.hasRank || !allKnown(s.sizes) || s.dtype == DType::Undefined)
      kind = Kind::Unknown;
    else
      return setResult(i, makeTensor(s.dtype, s.sizes));
  }
  if (kind != Kind::Tensors)
    refuse(Reason::DataDependent, fmt::format("what {} gives is known only when it runs", op().fullName()));
  std::vector<IValue> items;
  for (const TensorSpec& s : inferred_->inferred(i).tensors) items.push_back(makeTensor(s.dtype, s.sizes));
  setResult(i, Ref<ListValue>::make(types().tensor, std::move(items)));
}

void convertBySession(ConvertCall& call) { call.op().def().session->convert(call); }

}  // namespace tscompile
