// Storages and tensors of pickles.
#include "frontend/pickle/pickle_reader.h"
#include "ir/support/text.h"
#include "ir/values/carried_types.h"
#include "ir/values/error.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>

namespace tscompile {
namespace {

// "torch.FloatStorage", and "torch.cuda.FloatStorage" of old checkpoints. Undefined: bytes without a type.
std::optional<DType> dtypeOfStorage(std::string_view name) {
  if (name == "torch.storage.UntypedStorage" || name == "torch.storage._UntypedStorage") return DType::Undefined;
  if (!endsWith(name, "Storage")) return std::nullopt;
  name.remove_suffix(7);
  return dtypeFromGraphName(name.substr(std::min(name.size(), name.rfind('.') + 1)));
}

bool isBoolByte(std::byte b) { return b <= std::byte{1}; }

// Flips the highest bit of every `step` bytes, beginning in the ones that end at `end`.
void flipSigns(Storage& storage, size_t end, size_t step) {
  for (size_t at = end; at <= storage.bytes(); at += step) storage.data()[at - 1] ^= std::byte{0x80};
}

template <class T>
void negateIntegers(Storage& storage) {
  T* elements = reinterpret_cast<T*>(storage.data());
  for (size_t i = 0; i < storage.bytes() / sizeof(T); ++i) elements[i] = static_cast<T>(T{0} - elements[i]);
}

// Whether there are negatives of this dtype.
bool negate(DType dtype, Storage& storage) {
  size_t item = isComplex(dtype) ? itemSize(dtype) / 2 : itemSize(dtype);
  if (isComplex(dtype) || (isFloating(dtype) && !isCarried(dtype)))
    flipSigns(storage, item, item);
  else if (dtype == DType::UInt8 || dtype == DType::Int8)
    negateIntegers<uint8_t>(storage);
  else if (dtype == DType::Int16)
    negateIntegers<uint16_t>(storage);
  else if (dtype == DType::Int32)
    negateIntegers<uint32_t>(storage);
  else if (dtype == DType::Int64)
    negateIntegers<uint64_t>(storage);
  else
    return false;
  return true;
}

}  // namespace

// ("storage", type, key, device, count), in old files with the place of a view: (key, first element, count).
PickleValue* PickleReader::storageOf(const std::vector<PickleRef>& id) {
  bool isStorage = id.size() >= 5 && id[1]->is(Kind::Name) && id[2]->is(Kind::String) && id[4]->is(Kind::Int);
  std::optional<DType> dtype = isStorage ? dtypeOfStorage(id[1]->text()) : std::nullopt;
  if (!dtype) return failed("a storage is ('storage', type, key, device, count)");
  if (!options_.storages) return failed("this pickle may not have tensors");
  if (id[4]->toInt() < 0 || id[4]->toInt() > kMaxElements)
    return failed(fmt::format("a storage cannot have {} elements", id[4]->toInt()));
  auto out = std::make_unique<PickleStorage>();
  out->dtype = *dtype;
  out->key = id[2]->text();
  out->count = static_cast<uint64_t>(id[4]->toInt());
  const bool isBytes = *dtype == DType::Undefined || *dtype == DType::QUInt4x2;
  DType stored = isBytes ? DType::UInt8 : storedAs(*dtype);
  if (isSupported(stored)) {
    out->storage = options_.storages->find(out->key, stored, out->count);
    if (!out->storage) return nullptr;
  }
  if (id.size() > 5 && id[5]->is(Kind::Tuple)) {
    const std::vector<PickleRef>& view = id[5]->items();
    if (view.size() != 3 || !view[1]->is(Kind::Int) || view[1]->toInt() < 0 || view[1]->toInt() > id[4]->toInt())
      return failed("the view of a storage is not inside of it");
    out->begin = static_cast<uint64_t>(view[1]->toInt());
  }
  return make(Kind::Storage, std::move(out));
}

// (what torch.save wrote of a storage), in pickles that pickle.dump() wrote.
PickleValue* PickleReader::storageOfBytes(const std::vector<PickleRef>& arguments) {
  const size_t errors = diagnostics_.errorCount();
  const bool hasBytes = arguments[0]->is(Kind::Bytes);
  const PickleStorage* known =
      hasBytes && options_.storages ? options_.storages->ofBytes(arguments[0]->text()) : nullptr;
  if (known) return make(Kind::Storage, std::make_unique<PickleStorage>(*known));
  if (diagnostics_.errorCount() != errors) return nullptr;
  PickleValue* tuple = makeItems(Kind::Tuple, arguments);
  return tuple ? object(kBytesOfStorage, tuple) : nullptr;
}

bool PickleReader::readDims(PickleRef value, std::string_view what, bool mayBeNegative, Dims& out) {
  bool isRun = value->is(Kind::Tuple) || value->is(Kind::List);
  if (!isRun || value->items().size() > kMaxRank)
    return fail(fmt::format("the {} of a tensor are a tuple of at most {} integers", what, kMaxRank));
  for (PickleRef item : value->items()) {
    if (!item->is(Kind::Int) || (item->toInt() < 0 && !mayBeNegative))
      return fail(fmt::format("one of the {} of a tensor is not an integer, or negative", what));
    out.push_back(item->toInt());
  }
  return true;
}

// {'conj': True, 'neg': True}, or not there.
bool PickleReader::readSignBits(const std::vector<PickleRef>& arguments, size_t index, DType dtype, SignBits& out) {
  if (index >= arguments.size() || !arguments[index]->is(Kind::Dict)) return true;
  for (const PickleValue::Entry& e : arguments[index]->entries()) {
    bool isOn = e.value->is(Kind::Bool) && e.value->toBool();
    out.conjugate |= isOn && e.key->isString("conj");
    out.negative |= isOn && e.key->isString("neg");
  }
  return !out.conjugate || isComplex(dtype) || fail(fmt::format("{} has no conjugates", pythonName(dtype)));
}

Ref<Storage> PickleReader::withSigns(const Ref<Storage>& memory, DType dtype, SignBits signs) {
  Ref<Storage>& out = withSigns_[{memory.get(), dtype, signs.conjugate, signs.negative}];
  if (out) return out;
  out = Storage::allocate(memory->bytes());
  std::copy_n(memory->data(), memory->bytes(), out->data());
  if (signs.conjugate) flipSigns(*out, itemSize(dtype), itemSize(dtype));
  if (signs.negative && !negate(dtype, *out))
    throw ExecutionError(ErrorKind::Unsupported, fmt::format("negatives of {} are not supported", pythonName(dtype)));
  out->makeReadOnly();
  return out;
}

bool PickleReader::viewStorage(const PickleStorage& storage, SignBits signs, DimSpan strides, int64_t offset,
                               PickleTensor& out) {
  DType stored = storedAs(out.dtype);
  if (!storage.storage || !isSupported(stored)) return true;
  const Ref<Storage>& memory = storage.storage;
  if (!fitsStorage(stored, out.sizes, strides, offset, memory->bytes()))
    return fail(fmt::format("the tensor {} is not inside its storage '{}' of {}", dimsText(out.sizes),
                            abbreviate(storage.key, 200), counted(memory->bytes(), "byte")));
  if (stored == DType::Bool && !memory->isSymbolic() &&
      !std::all_of(memory->data(), memory->data() + memory->bytes(), isBoolByte))
    return fail(fmt::format("storage '{}' has bools that are neither 0 nor 1", abbreviate(storage.key, 200)));
  bool isOtherwise = (signs.conjugate || signs.negative) && !memory->isSymbolic();
  try {
    out.tensor =
        Tensor::view(stored, isOtherwise ? withSigns(memory, stored, signs) : memory, out.sizes, strides, offset);
  } catch (const ExecutionError& e) {
    return fail(e.message(), e.kind());
  }
  return true;
}

// (storage, offset, sizes, strides, ...)
PickleValue* PickleReader::makeTensor(const std::vector<PickleRef>& arguments, DType dtype, size_t signs) {
  if (!arguments[0]->is(Kind::Storage))
    return failed(fmt::format("a tensor is made of a storage, not of {}", describe(arguments[0]->kind())));
  if (!arguments[1]->is(Kind::Int) || arguments[1]->toInt() < 0)
    return failed("the offset of a tensor is not an integer, or negative");
  const PickleStorage& storage = arguments[0]->storage();
  auto out = std::make_unique<PickleTensor>();
  out->dtype = dtype == DType::Undefined ? storage.dtype : dtype;
  out->storage = storage.key;
  Dims strides;
  if (!readDims(arguments[2], "sizes", false, out->sizes) || !readDims(arguments[3], "strides", true, strides))
    return nullptr;
  if (strides.size() != out->sizes.size())
    return failed(
        fmt::format("a tensor has {} and {}", counted(out->sizes.size(), "size"), counted(strides.size(), "stride")));
  if (!checkedNumel(out->sizes))
    return failed(fmt::format("{} has more than 2^48 elements", dimsText(out->sizes)), ErrorKind::Limit);
  int64_t offset;
  if (__builtin_add_overflow(arguments[1]->toInt(), static_cast<int64_t>(storage.begin), &offset))
    return failed("the offset of a tensor is not inside its storage");
  SignBits bits;
  if (!readSignBits(arguments, signs, out->dtype, bits) || !viewStorage(storage, bits, strides, offset, *out))
    return nullptr;
  out->requiresGrad = arguments.size() > 4 && arguments[4]->is(Kind::Bool) && arguments[4]->toBool();
  return make(Kind::Tensor, std::move(out));
}

// (storage, offset, sizes, strides, requires_grad, hooks, bits)
PickleValue* PickleReader::tensor(const std::vector<PickleRef>& arguments) {
  constexpr size_t kBits = 6;
  if (arguments[0]->is(Kind::Storage) && arguments[0]->storage().dtype == DType::Undefined)
    return failed("the storage of a tensor has no dtype");
  return makeTensor(arguments, DType::Undefined, kBits);
}

// (storage, offset, sizes, strides, requires_grad, hooks, dtype, bits), for dtypes that have no storage class.
PickleValue* PickleReader::tensorOfDType(const std::vector<PickleRef>& arguments) {
  constexpr size_t kBits = 7;
  constexpr std::string_view kTorch = "torch.";
  const PickleValue& name = *arguments[6];
  std::optional<DType> dtype;
  if (name.is(Kind::Name) && startsWith(name.text(), kTorch)) dtype = dtypeFromName(name.text().substr(kTorch.size()));
  if (!dtype) return failed("the dtype of a tensor is not known", ErrorKind::Unsupported);
  return makeTensor(arguments, *dtype, kBits);
}

// (storage, offset, sizes, strides, quantisation, requires_grad, hooks)
PickleValue* PickleReader::quantizedTensor(const std::vector<PickleRef>& arguments) {
  std::vector<PickleRef> plain(arguments.begin(), arguments.begin() + 4);
  plain.push_back(arguments[5]);
  PickleValue* value = tensor(plain);
  if (!value) return nullptr;
  PickleTensor& out = *std::get<std::unique_ptr<PickleTensor>>(value->payload_);
  constexpr DType kQuantized[] = {DType::QInt8, DType::QUInt8, DType::QInt32, DType::QUInt4x2, DType::QUInt2x4};
  if (std::find(std::begin(kQuantized), std::end(kQuantized), out.dtype) == std::end(kQuantized))
    return failed(fmt::format("a quantised tensor cannot have the dtype {}", pythonName(out.dtype)));
  out.quantization = Ref<Quantization>::make();
  if (!readQuantization(arguments[4], out, *out.quantization)) return nullptr;
  if (out.dtype == DType::QUInt4x2) out.tensor = tableOfHalfBytes(arguments[0]->storage(), out);
  return value;
}

// Bytes as embedding_bag_4bit_rowwise_offsets takes them: behind the elements of a row, two in a byte, stand its scale
// and its bias. Undefined for what is no such table.
Tensor PickleReader::tableOfHalfBytes(const PickleStorage& from, const PickleTensor& t) {
  const Quantization& q = *t.quantization;
  const Ref<Storage>& memory = from.storage;
  const bool isTable = q.scheme == Quantization::Scheme::PerChannelAffineFloatParams && q.axis == 0 &&
                       t.sizes.size() == 2 && q.scales.dtype() == DType::Float32 &&
                       q.zeroPoints.dtype() == DType::Float32;
  if (!isTable || !memory || memory->isSymbolic()) return {};
  const int64_t rows = t.sizes[0], bytes = (t.sizes[1] + 1) / 2;
  if (memory->bytes() != static_cast<uint64_t>(rows * bytes)) return {};
  Tensor out = Tensor::empty(DType::UInt8, Dims{rows, bytes + int64_t{2 * sizeof(Half)}});
  for (int64_t row = 0; row < rows; ++row) {
    const float scale = q.scales.data<float>()[row * q.scales.strides()[0]];
    const float zero = q.zeroPoints.data<float>()[row * q.zeroPoints.strides()[0]];
    const Half numbers[] = {Half(scale), Half(-scale * zero)};
    uint8_t* to = out.data<uint8_t>() + row * out.sizes()[1];
    std::memcpy(to, memory->data() + row * bytes, static_cast<size_t>(bytes));
    std::memcpy(to + bytes, numbers, sizeof numbers);
  }
  return out;
}

// (scheme, scale, zero point) or (scheme, scales, zero points, axis)
bool PickleReader::readQuantization(PickleRef value, const PickleTensor& tensor, Quantization& out) {
  using Scheme = Quantization::Scheme;
  static const std::vector<PickleRef> kNothing;
  const std::vector<PickleRef>& items = value->is(Kind::Tuple) ? value->items() : kNothing;
  std::string_view scheme = !items.empty() && items[0]->is(Kind::Name) ? items[0]->text() : "";
  if (scheme == "torch.per_tensor_affine") {
    if (items.size() != 3 || !items[1]->is(Kind::Float) || !items[2]->is(Kind::Int))
      return fail("quantisation per tensor is (scheme, scale, zero point)");
    out.scale = items[1]->toFloat();
    out.zeroPoint = items[2]->toInt();
    return true;
  }
  bool isFloat = scheme == "torch.per_channel_affine_float_qparams";
  if (!isFloat && scheme != "torch.per_channel_affine")
    return fail("the scheme of a quantised tensor is not known", ErrorKind::Unsupported);
  if (items.size() != 4 || !items[3]->is(Kind::Int))
    return fail("quantisation per channel is (scheme, scales, zero points, axis)");
  out.scheme = isFloat ? Scheme::PerChannelAffineFloatParams : Scheme::PerChannelAffine;
  out.axis = items[3]->toInt();
  if (out.axis < 0 || out.axis >= static_cast<int64_t>(tensor.sizes.size()))
    return fail(fmt::format("the axis of quantisation is {}, the tensor {}", out.axis, dimsText(tensor.sizes)));
  int64_t count = tensor.sizes[static_cast<size_t>(out.axis)];
  return readChannelValues(items[1], "scales", isFloat ? DType::Float32 : DType::Float64, count, out.scales) &&
         readChannelValues(items[2], "zero points", isFloat ? DType::Float32 : DType::Int64, count, out.zeroPoints);
}

// A tensor, in old files a list.
bool PickleReader::readChannelValues(PickleRef value, std::string_view what, DType listDType, int64_t count,
                                     Tensor& out) {
  auto wrong = [&] { return fail(fmt::format("the {} of a quantised tensor are not {} numbers", what, count)); };
  if (value->is(Kind::Tensor)) {
    out = value->tensor().tensor;
    return (out.defined() && out.rank() == 1 && out.numel() == count) || wrong();
  }
  if (!value->is(Kind::List) || static_cast<int64_t>(value->items().size()) != count) return wrong();
  out = Tensor::empty(listDType, Dims{count});
  for (int64_t i = 0; i < count; ++i) {
    const PickleValue& item = *value->items()[static_cast<size_t>(i)];
    if (!item.is(Kind::Int) && !item.is(Kind::Float)) return wrong();
    double number = item.is(Kind::Int) ? static_cast<double>(item.toInt()) : item.toFloat();
    if (listDType == DType::Int64 && !item.is(Kind::Int)) return wrong();
    if (listDType == DType::Int64) out.data<int64_t>()[i] = item.toInt();
    if (listDType == DType::Float64) out.data<double>()[i] = number;
    if (listDType == DType::Float32) out.data<float>()[i] = static_cast<float>(number);
  }
  return true;
}

// (data, requires_grad, hooks[, state]). Of objects that we do not know, parameters are such objects.
PickleValue* PickleReader::parameter(const std::vector<PickleRef>& arguments) {
  if (arguments[0]->is(Kind::Object) && options_.foreignNames) return const_cast<PickleValue*>(arguments[0]);
  if (!arguments[0]->is(Kind::Tensor))
    return failed(fmt::format("a parameter is a tensor, not {}", describe(arguments[0]->kind())));
  auto out = std::make_unique<PickleTensor>(arguments[0]->tensor());
  out->isParameter = true;
  out->requiresGrad = arguments[1]->is(Kind::Bool) && arguments[1]->toBool();
  return make(Kind::Tensor, std::move(out));
}

// (function, type, arguments, state): a tensor of a class of its own, or with attributes.
PickleValue* PickleReader::tensorOfType(const std::vector<PickleRef>& arguments) {
  auto* function = const_cast<PickleValue*>(arguments[0]);
  auto* inner = const_cast<PickleValue*>(arguments[2]);
  const NamedCall* known = function->is(Kind::Name) ? findCall(function->text()) : nullptr;
  if (known && known->call == &PickleReader::tensorOfType) return failed("a tensor cannot have two classes");
  // What only wraps other tensors is told by its attributes.
  constexpr std::string_view kWrapping = "torch._utils._rebuild_wrapper_subclass";
  if (function->is(Kind::Name) && function->text() == kWrapping && arguments[3]->is(Kind::Dict))
    return const_cast<PickleValue*>(arguments[3]);
  return call(function, inner);
}

}  // namespace tscompile
