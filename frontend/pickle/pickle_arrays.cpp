// Arrays of numpy in pickles, as tensors, and its scalars, as numbers. Those of other dtypes stay objects.
#include "frontend/pickle/array_dtypes.h"
#include "frontend/pickle/pickle_reader.h"
#include "ir/support/text.h"
#include "ir/values/error.h"

#include <fmt/core.h>

#include <algorithm>

namespace tscompile {
namespace {

struct ArrayDType {
  DType dtype;
  bool isReversed;  // the highest byte comes first
};

// numpy.dtype(code, …), built from (version, byte order, …)
std::optional<ArrayDType> dtypeOfArray(const PickleValue& value) {
  using Kind = PickleValue::Kind;
  if (!value.is(Kind::Object) || value.object().name != PickleReader::kArrayDType) return std::nullopt;
  const auto& [name, arguments, state] = value.object();
  // Whoever takes what others wrote takes objects of any arguments.
  if (!arguments || !arguments->is(Kind::Tuple) || arguments->items().empty() ||
      !arguments->items()[0]->is(Kind::String))
    return std::nullopt;
  const bool hasOrder = state && state->is(Kind::Tuple) && state->items().size() > 1;
  const std::optional<DType> dtype = dtypeFromArrayCode(arguments->items()[0]->text());
  if (!dtype) return std::nullopt;
  return ArrayDType{*dtype, hasOrder && state->items()[1]->isString(">")};
}

}  // namespace

PickleValue* PickleReader::arrayDType(const std::vector<PickleRef>& arguments) {
  PickleValue* tuple = makeItems(Kind::Tuple, arguments);
  return tuple ? object(kArrayDType, tuple) : nullptr;
}

// What is to be built from (version, sizes, dtype, whether columns come first, bytes).
PickleValue* PickleReader::array(const std::vector<PickleRef>& arguments) {
  PickleValue* tuple = makeItems(Kind::Tuple, arguments);
  return tuple ? object(kArray, tuple) : nullptr;
}

// (bytes, dtype, sizes, order)
PickleValue* PickleReader::arrayOfBytes(const std::vector<PickleRef>& arguments) {
  PickleValue* out = array(arguments);
  return out && fillArray(*out, arguments[2], arguments[1], arguments[3]->isString("F"), arguments[0]) ? out : nullptr;
}

// (dtype, bytes)
PickleValue* PickleReader::arrayScalar(const std::vector<PickleRef>& arguments) {
  PickleValue *out = array(arguments), *sizes = makeItems(Kind::Tuple);
  if (!out || !sizes || !fillArray(*out, sizes, arguments[0], false, arguments[1])) return nullptr;
  if (!out->is(Kind::Tensor)) return out;
  const Tensor number = out->tensor().tensor;
  switch (const DType dtype = number.dtype()) {
    case DType::Bool:
      return make(Kind::Bool, number.integer(0) != 0);
    case DType::Complex64:
    case DType::Complex128:
      return make(Kind::Complex, number.complex(0));
    case DType::UInt64:
      return number.integer(0) < 0 ? out : make(Kind::Int, number.integer(0));  // above 2^63 it stays a tensor
    default:
      return isFloating(dtype) ? make(Kind::Float, number.real(0)) : make(Kind::Int, number.integer(0));
  }
}

bool PickleReader::buildArray(PickleValue& array, const PickleValue& state) {
  constexpr size_t kParts = 5;
  if (!state.is(Kind::Tuple) || state.items().size() != kParts) return true;
  const std::vector<PickleRef>& parts = state.items();
  return fillArray(array, parts[1], parts[2], parts[3]->is(Kind::Bool) && parts[3]->toBool(), parts[4]);
}

bool PickleReader::fillArray(PickleValue& array, PickleRef sizes, PickleRef type, bool columnsFirst, PickleRef bytes) {
  const std::optional<ArrayDType> known = dtypeOfArray(*type);
  if (!known || (!bytes->is(Kind::Bytes) && !bytes->is(Kind::String))) return true;
  if (!options_.storages) return fail("this pickle may not have tensors");
  const DType dtype = known->dtype;
  auto out = std::make_unique<PickleTensor>();
  out->dtype = dtype;
  if (!readDims(sizes, "sizes", false, out->sizes)) return false;
  const std::optional<int64_t> count = checkedNumel(out->sizes);
  const std::string_view data = bytes->text();
  if (!count || static_cast<uint64_t>(*count) * itemSize(dtype) != data.size())
    return fail(fmt::format("the array {} of {} has {}", dimsText(out->sizes), pythonName(dtype),
                            counted(data.size(), "byte")));
  auto isBool = [](char c) { return static_cast<unsigned char>(c) <= 1; };
  if (dtype == DType::Bool && !std::all_of(data.begin(), data.end(), isBool))
    return fail("the array has bools that are neither 0 nor 1");
  try {
    Ref<Storage> storage = Storage::allocate(data.size());
    std::copy_n(reinterpret_cast<const std::byte*>(data.data()), data.size(), storage->data());
    if (known->isReversed) reverseBytes(storage->data(), data.size(), dtype);
    storage->makeReadOnly();
    const Dims strides = columnsFirst ? columnMajorStrides(out->sizes) : contiguousStrides(out->sizes);
    out->tensor = Tensor::view(dtype, std::move(storage), out->sizes, strides, 0);
  } catch (const ExecutionError& e) {
    return fail(e.message(), e.kind());
  }
  array.kind_ = Kind::Tensor;
  array.payload_ = std::move(out);
  return true;
}

}  // namespace tscompile
