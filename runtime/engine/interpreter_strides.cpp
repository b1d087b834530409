#include "runtime/engine/interpreter_strides.h"

#include "ir/values/aten.h"
#include "ir/values/quantization.h"
#include "runtime/call/kernel_call.h"
#include "runtime/call/quantized_arguments.h"
#include "runtime/engine/network/convert_call.h"
#include "runtime/engine/support.h"
#include "runtime/interpreter/call_operator.h"
#include "runtime/reference/loops/copy.h"

#include <algorithm>

namespace tscompile {
namespace {

bool isSymbolic(const IValue& v) { return v.isTensor() && v.tensorImpl() && v.tensorImpl()->storage()->isSymbolic(); }

template <class F>
bool allTensors(const IValue& v, const F& f) {
  if (v.isTensor()) return !v.tensorImpl() || f(*v.tensorImpl());
  return !v.isList() || std::ranges::all_of(v.toList().items, [&](const IValue& item) { return allTensors(item, f); });
}
// With the strides that rows have, those of single elements too, which kernels hand on.
bool isInRows(const IValue& v) {
  return allTensors(v,
                    [](const TensorImpl& t) { return std::ranges::equal(t.strides(), contiguousStrides(t.sizes())); });
}

// A value with each symbolic tensor in it replaced; nothing where `f` gives nothing.
template <class F>
std::optional<IValue> replaced(const IValue& v, const F& f) {
  if (isSymbolic(v)) return f(v.toTensor());
  if (!v.isList() || !NetworkTensors::isSymbolic(v)) return v;
  std::vector<IValue> items;
  for (const IValue& item : v.toList().items) {
    std::optional<IValue> one = replaced(item, f);
    if (!one) return std::nullopt;
    items.push_back(std::move(*one));
  }
  return IValue(Ref<ListValue>::make(v.toList().elementType, std::move(items)));
}

std::vector<const IValue*> pointersTo(std::span<const IValue> values) {
  std::vector<const IValue*> out;
  for (const IValue& v : values) out.push_back(&v);
  return out;
}

// Whether results lie in rows because all arguments do, or whatever they do.
bool givesRows(const Operator& op, std::span<const IValue> arguments) {
  if (op.has(Trait::SetsStrides)) return true;
  if (op.kind() == aten::contiguous && arguments.size() == 2) return arguments[1].isInt() && arguments[1].toInt() == 0;
  const std::vector<Argument>& known = op.schema().arguments;  // others may follow: of aten::format
  bool rows = !op.has(Trait::OwnStrides);
  for (size_t i = 0; i < arguments.size(); ++i) {
    const bool isFormat = i < known.size() && known[i].name == "memory_format" && arguments[i].isInt();
    rows &= isInRows(arguments[i]) && !(isFormat && arguments[i].toInt() != 0);
  }
  return rows;
}

// A tensor of zeros that lies as another one, whose strides may need more memory than it has in the network.
IValue zerosLike(const Tensor& t) {
  int64_t last = t.offset();
  for (int d = 0; d < t.rank(); ++d) last += std::max<int64_t>(t.size(d) - 1, 0) * t.stride(d);
  const auto bytes = static_cast<int64_t>(t.storage()->bytes()), item = static_cast<int64_t>(itemSize(t.dtype()));
  Tensor memory = Tensor::zeros(DType::UInt8, Dims{std::max(bytes, (last + 1) * item)});
  if (const Quantization* q = t.storage()->quantization()) memory.storage()->setQuantization(*q);
  return Tensor::view(t.dtype(), memory.storage(), t.sizes(), t.strides(), t.offset());
}

// Zeros, but for ones on the diagonals of square matrices: what can be inverted and factorized.
IValue unitsLike(const Tensor& t) {
  Tensor made = zerosLike(t).toTensor();
  const int rank = t.rank();
  if (rank < 2 || t.numel() == 0 || t.size(rank - 1) != t.size(rank - 2)) return made;
  Dims sizes(t.sizes().first(static_cast<size_t>(rank - 1))), strides(t.strides().first(static_cast<size_t>(rank - 1)));
  strides.back() += t.strides().back();
  fillTensor(made.withGeometry(sizes, strides, made.offset()), 1);
  return made;
}

}  // namespace

bool placeAlike(DimSpan sizes, DimSpan a, DimSpan b) {
  for (size_t d = 0; d < sizes.size(); ++d)
    if (sizes[d] != 1 && a[d] != b[d]) return false;
  return true;
}

std::optional<Dims> denseOrder(DimSpan sizes, DimSpan strides) {
  if (!isNonOverlappingAndDense(sizes, strides)) return std::nullopt;
  Dims order;
  for (size_t d = 0; d < sizes.size(); ++d) order.push_back(static_cast<int64_t>(d));
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return std::pair(strides[a], sizes[a]) > std::pair(strides[b], sizes[b]);
  });
  return order;
}

std::optional<IValue> InterpreterStrides::of(const IValue& value) const {
  if (entries_.empty()) return value;
  return replaced(value, [&](const Tensor& t) -> std::optional<IValue> {
    auto known = entries_.find(t.impl());
    if (known == entries_.end()) return IValue(t);
    if (!known->second.strides) return std::nullopt;
    return IValue(Tensor::view(t.dtype(), t.storage(), t.sizes(), *known->second.strides, t.offset()));
  });
}

void InterpreterStrides::note(const Operator& op, std::span<const IValue* const> arguments, std::span<IValue> results) {
  if (op.schema().isMutable() || (!op.has(Trait::OwnStrides) && isViewAsTold(arguments, results))) return;
  if (std::ranges::none_of(arguments, [](const IValue* v) { return NetworkTensors::isSymbolic(*v); })) return;
  std::optional<std::vector<IValue>> interpreted = all(arguments);
  if (op.has(Trait::SetsStrides) || (interpreted && givesRows(op, *interpreted))) return recordRows(results);
  if (interpreted) interpreted = computed(op, *interpreted, results.size());
  interpreted ? record(results, *interpreted) : forget(results);
}

// Whether the results are views in the network of tensors that lie as the interpreter has them.
bool InterpreterStrides::isViewAsTold(std::span<const IValue* const> arguments, std::span<const IValue> results) const {
  if (arguments.empty() || !isSymbolic(*arguments[0]) || entries_.contains(arguments[0]->tensorImpl())) return false;
  const Storage* memory = arguments[0]->tensorImpl()->storage().get();
  return std::ranges::all_of(results, [&](const IValue& v) {
    return NetworkTensors::isSymbolic(v) &&
           allTensors(v, [&](const TensorImpl& t) { return t.storage().get() == memory; });
  });
}

std::optional<std::vector<IValue>> InterpreterStrides::all(std::span<const IValue* const> arguments) const {
  std::vector<IValue> out;
  for (const IValue* v : arguments) {
    std::optional<IValue> one = of(*v);
    if (!one) return std::nullopt;
    out.push_back(std::move(*one));
  }
  return out;
}

// What the interpreter gives for zeros that lie as the arguments do, or where these are refused, for units.
std::optional<std::vector<IValue>> InterpreterStrides::computed(const Operator& op,
                                                                const std::vector<IValue>& arguments, size_t count) {
  for (IValue (*made)(const Tensor&) : {zerosLike, unitsLike}) {
    std::vector<IValue> given, results(count);
    try {
      for (const IValue& v : arguments)
        given.push_back(*replaced(v, [&](const Tensor& t) { return std::optional(made(t)); }));
      callOperator(op, pointersTo(given).data(), given.size(), results.data(), count, context_);
      return results;
    } catch (const ExecutionError& e) {
      if (e.kind() == ErrorKind::Interrupted) throw;
    }
  }
  return std::nullopt;
}

// A constant lies as the interpreter's result does.
void InterpreterStrides::layOut(IValue& constant, DimSpan strides) {
  if (!constant.isTensor() || !constant.tensorImpl() || std::ranges::equal(constant.tensorImpl()->strides(), strides))
    return;
  Tensor t = constant.toTensor();
  if (!isNonOverlappingAndDense(t.sizes(), strides)) return;
  Tensor out = Tensor::emptyStrided(t.dtype(), t.sizes(), strides);
  copyTensor(out, t);
  constant = out;
}

void InterpreterStrides::forget(std::span<IValue> results) {
  for (IValue& v : results) {
    if (v.isList()) forget(v.toList().items);
    if (isSymbolic(v)) record(v, std::nullopt);
  }
}

void InterpreterStrides::recordRows(std::span<IValue> results) {
  for (IValue& v : results) {
    if (v.isList()) recordRows(v.toList().items);
    if (isSymbolic(v))
      record(v, contiguousStrides(v.tensorImpl()->sizes()));
    else if (v.isTensor() && v.tensorImpl())
      layOut(v, contiguousStrides(v.tensorImpl()->sizes()));
  }
}

void InterpreterStrides::record(std::span<IValue> results, std::span<const IValue> interpreted) {
  if (results.size() != interpreted.size()) return forget(results);
  for (size_t i = 0; i < results.size(); ++i) {
    IValue& made = results[i];
    const IValue& like = interpreted[i];
    if (made.isList() && like.isList()) record(made.toList().items, like.toList().items);
    if (!made.isTensor() || !made.tensorImpl()) continue;
    const bool fits = like.isTensor() && like.tensorImpl() &&
                      std::ranges::equal(like.tensorImpl()->sizes(), made.tensorImpl()->sizes());
    if (!isSymbolic(made)) {
      if (fits) layOut(made, like.tensorImpl()->strides());
      continue;
    }
    record(made, fits ? Strides(Dims(like.tensorImpl()->strides())) : std::nullopt);
  }
}

// What is an argument in the network may be new memory in the interpreter: so what lies otherwise there becomes a
// tensor of its own.
void InterpreterStrides::record(IValue& result, Strides strides) {
  Tensor t = result.toTensor();
  const bool isOther = !strides || !std::ranges::equal(*strides, t.strides());
  if (isOther || entries_.contains(t.impl())) result = t = t.withGeometry(t.sizes(), t.strides(), t.offset());
  if (isOther) entries_.emplace(t.impl(), Entry{t, std::move(strides)});
}

}  // namespace tscompile
