#include "api/binding/foreign_values.h"
#include "api/c/handles.h"
#include "api/value_text.h"
#include "runtime/reference/loops/copy.h"

#include <algorithm>

using namespace tscompile;
using namespace tscompile::c;

static_assert(TSCOMPILE_BFLOAT16 == static_cast<int>(DType::BFloat16) &&
              TSCOMPILE_BOOLEAN == static_cast<int>(DType::Bool) &&
              TSCOMPILE_COMPLEX128 == static_cast<int>(DType::Complex128));

namespace {

tscompile_value* made(IValue value) { return new tscompile_value{std::move(value)}; }
template <class T>
tscompile_value* madeOrNull(T value) noexcept {
  try {
    return made(IValue(std::move(value)));
  } catch (...) {
    return nullptr;
  }
}

const IValue* valueOf(const tscompile_value* handle) { return handle ? &handle->value : nullptr; }

std::vector<IValue> valuesOf(tscompile_value* const* items, size_t count) {
  if (count > 0) given(items, "items");
  std::vector<IValue> out;
  out.reserve(count);
  for (size_t i = 0; i < count; ++i) out.push_back(given(items[i], "an item").value);
  return out;
}

// The tensor that the struct describes, over the caller's memory.
Tensor borrowed(const tscompile_tensor* described, tscompile_release release, void* context) {
  given(described, "tensor");
  const tscompile_tensor t = optionsOf(described, "tscompile_tensor");
  std::optional<DType> dtype = dtypeFromNumber(t.dtype);
  if (!dtype || !isSupported(*dtype)) failUsage("no tensor has the dtype " + std::to_string(t.dtype));
  if (t.rank < 0 || t.rank > kMaxRank) failUsage("no tensor has " + std::to_string(t.rank) + " dimensions");
  const auto rank = static_cast<size_t>(t.rank);
  if (rank > 0) given(t.sizes, "sizes");
  const DimSpan sizes(t.sizes, rank);
  if (std::any_of(sizes.begin(), sizes.end(), [](int64_t s) { return s < 0; })) failUsage("a size is negative");
  if (!t.data && checkedNumel(sizes) != 0) failUsage("data is NULL");
  return borrowTensor(*dtype, sizes, DimSpan(t.strides, t.strides ? rank : 0), t.data, t.read_only != 0, release,
                      context);
}

// Tensors that have memory.
const TensorImpl* tensorOf(const tscompile_value* value) {
  const IValue* v = valueOf(value);
  return v && v->isTensor() ? v->tensorImpl() : nullptr;
}

const std::vector<IValue>* itemsOf(const IValue* v) {
  return v && v->isList() ? &v->toList().items : v && v->isTuple() ? &v->toTuple().items : nullptr;
}

tscompile_value* entry(const tscompile_value* value, size_t index, bool key) noexcept {
  const IValue* v = valueOf(value);
  if (!v || !v->isDict()) return nullptr;
  tscompile_value* out = nullptr;
  size_t i = 0;
  try {
    v->toDict().forEach([&](const IValue& k, const IValue& x) {
      if (i++ == index) out = made(key ? k : x);
    });
  } catch (...) {
  }
  return out;
}

}  // namespace

tscompile_status tscompile_value_tensor(const tscompile_tensor* tensor, tscompile_release release, void* context,
                                        tscompile_value** out, tscompile_error** error) {
  return guarded(error, [&] {
    clear(out, "out");
    // The handle first, so that nothing fails after the memory is taken over.
    auto handle = std::make_unique<tscompile_value>();
    handle->value = borrowed(tensor, release, context);
    *out = handle.release();
  });
}

tscompile_status tscompile_value_tensor_copy(const tscompile_tensor* tensor, tscompile_value** out,
                                             tscompile_error** error) {
  return guarded(error, [&] {
    clear(out, "out");
    const Tensor from = borrowed(tensor, nullptr, nullptr);
    Tensor to = Tensor::empty(from.dtype(), from.sizes());
    copyTensor(to, from);
    *out = made(to);
  });
}

tscompile_value* tscompile_value_none(void) { return new (std::nothrow) tscompile_value{}; }
tscompile_value* tscompile_value_bool(int value) { return madeOrNull(value != 0); }
tscompile_value* tscompile_value_int(int64_t value) { return madeOrNull(value); }
tscompile_value* tscompile_value_float(double value) { return madeOrNull(value); }
tscompile_value* tscompile_value_complex(double real, double imaginary) {
  return madeOrNull(std::complex<double>(real, imaginary));
}
tscompile_value* tscompile_value_string(const char* bytes, size_t count) {
  try {
    return made(IValue(std::string(bytes ? bytes : "", bytes ? count : 0)));
  } catch (...) {
    return nullptr;
  }
}

tscompile_status tscompile_value_list(tscompile_value* const* items, size_t count, tscompile_value** out,
                                      tscompile_error** error) {
  return guarded(error, [&] {
    clear(out, "out");
    *out = made(listOf(valuesOf(items, count)));
  });
}

tscompile_status tscompile_value_tuple(tscompile_value* const* items, size_t count, tscompile_value** out,
                                       tscompile_error** error) {
  return guarded(error, [&] {
    clear(out, "out");
    *out = made(tuple(valuesOf(items, count)));
  });
}

tscompile_status tscompile_value_dict(tscompile_value* const* keys, tscompile_value* const* values, size_t count,
                                      tscompile_value** out, tscompile_error** error) {
  return guarded(error, [&] {
    clear(out, "out");
    std::vector<IValue> k = valuesOf(keys, count), v = valuesOf(values, count);
    std::vector<std::pair<IValue, IValue>> entries;
    for (size_t i = 0; i < count; ++i) entries.emplace_back(std::move(k[i]), std::move(v[i]));
    *out = made(dictOf(std::move(entries)));
  });
}

tscompile_status tscompile_value_parse(const char* text, tscompile_value** out, tscompile_error** error) {
  return guarded(error, [&] {
    clear(out, "out");
    given(text, "text");
    Diagnostics diagnostics;
    Result<IValue> value = parseValueText(text, "the value", diagnostics);
    if (!value) fail(diagnostics);
    *out = made(std::move(*value));
  });
}

tscompile_value* tscompile_value_share(const tscompile_value* value) {
  return value ? madeOrNull(value->value) : nullptr;
}
void tscompile_value_free(tscompile_value* value) { delete value; }

tscompile_kind tscompile_value_kind(const tscompile_value* value) {
  const IValue* v = valueOf(value);
  if (!v) return TSCOMPILE_NONE;
  switch (v->tag()) {
    case IValue::Tag::None:
      return TSCOMPILE_NONE;
    case IValue::Tag::Bool:
      return TSCOMPILE_BOOL;
    case IValue::Tag::Int:
      return TSCOMPILE_INT;
    case IValue::Tag::Float:
      return TSCOMPILE_FLOAT;
    case IValue::Tag::Complex:
      return TSCOMPILE_COMPLEX;
    case IValue::Tag::String:
      return TSCOMPILE_STRING;
    case IValue::Tag::Tensor:
      return TSCOMPILE_TENSOR;
    case IValue::Tag::List:
      return TSCOMPILE_LIST;
    case IValue::Tag::Tuple:
      return TSCOMPILE_TUPLE;
    case IValue::Tag::Dict:
      return TSCOMPILE_DICT;
    default:
      return TSCOMPILE_OTHER;
  }
}

int tscompile_value_get_bool(const tscompile_value* value, int* out) {
  const IValue* v = valueOf(value);
  if (!v || !v->isBool() || !out) return 0;
  *out = v->toBool();
  return 1;
}
int tscompile_value_get_int(const tscompile_value* value, int64_t* out) {
  const IValue* v = valueOf(value);
  if (!v || !v->isInt() || !out) return 0;
  *out = v->toInt();
  return 1;
}
int tscompile_value_get_float(const tscompile_value* value, double* out) {
  const IValue* v = valueOf(value);
  if (!v || !(v->isFloat() || v->isInt()) || !out) return 0;
  *out = v->toDouble();
  return 1;
}
int tscompile_value_get_complex(const tscompile_value* value, double* real, double* imaginary) {
  const IValue* v = valueOf(value);
  if (!v || !v->isComplex() || !real || !imaginary) return 0;
  *real = v->toComplex().real(), *imaginary = v->toComplex().imag();
  return 1;
}
int tscompile_value_get_string(const tscompile_value* value, const char** bytes, size_t* count) {
  const IValue* v = valueOf(value);
  if (!v || !v->isString() || !bytes) return 0;
  *bytes = v->toString().c_str();
  if (count) *count = v->toString().size();
  return 1;
}
int tscompile_value_get_tensor(const tscompile_value* value, tscompile_tensor* out) {
  const TensorImpl* t = tensorOf(value);
  if (!t) return 0;
  tscompile_tensor from{};
  from.dtype = static_cast<tscompile_dtype>(t->dtype());
  from.rank = t->rank();
  from.sizes = t->sizes().data(), from.strides = t->strides().data();
  from.data = t->data();
  from.read_only = t->storage()->readOnly();
  return fill(out, from);
}

tscompile_status tscompile_value_copy_elements(const tscompile_value* value, void* to, size_t bytes,
                                               tscompile_error** error) {
  return guarded(error, [&] {
    if (!tensorOf(value)) failUsage("the value is no tensor");
    const Tensor from = value->value.toTensor();
    const size_t wanted = static_cast<size_t>(from.numel()) * itemSize(from.dtype());
    if (bytes < wanted)
      failUsage("the elements take " + std::to_string(wanted) + " bytes, and there is room for " +
                std::to_string(bytes));
    if (wanted == 0) return;
    if (!to) failUsage("to is NULL");
    copyTensor(Tensor::borrow(from.dtype(), from.sizes(), to), from);
  });
}

size_t tscompile_value_count(const tscompile_value* value) {
  const IValue* v = valueOf(value);
  const std::vector<IValue>* items = itemsOf(v);
  return items ? items->size() : v && v->isDict() ? v->toDict().size() : 0;
}
tscompile_value* tscompile_value_item(const tscompile_value* value, size_t index) {
  const std::vector<IValue>* items = itemsOf(valueOf(value));
  if (!items) return entry(value, index, false);
  return index < items->size() ? madeOrNull((*items)[index]) : nullptr;
}
tscompile_value* tscompile_value_key(const tscompile_value* value, size_t index) { return entry(value, index, true); }
const char* tscompile_value_item_name(const tscompile_value* value, size_t index) {
  const IValue* v = valueOf(value);
  TypePtr type = v && v->isTuple() ? v->toTuple().type : nullptr;
  return type && index < type->fields().size() ? type->fields()[index].c_str() : nullptr;
}

tscompile_status tscompile_value_text(const tscompile_value* value, char** out, tscompile_error** error) {
  return guarded(error, [&] {
    clear(out, "out");
    *out = copied(valueToText(given(value, "value").value));
  });
}
