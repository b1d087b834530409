#include "ir/values/tensor.h"

#include "ir/values/carried_types.h"
#include "ir/values/encoded.h"
#include "ir/values/error.h"
#include "ir/values/quantization.h"

#include <new>
#include <numeric>
#include <string>

namespace tscompile {
namespace {

using Wide = __int128;

// The number of elements of a tensor with these sizes, or a failure that says why there cannot be one.
int64_t possibleNumel(DimSpan sizes) {
  if (sizes.size() > kMaxRank)
    throw ExecutionError(ErrorKind::Limit, "a tensor has at most " + std::to_string(kMaxRank) + " dimensions, not " +
                                               std::to_string(sizes.size()));
  if (std::optional<int64_t> count = checkedNumel(sizes)) [[likely]]
    return *count;
  for (int64_t s : sizes)
    if (s < 0) throw ExecutionError(ErrorKind::Model, "a tensor cannot have the negative size in " + dimsText(sizes));
  throw ExecutionError(ErrorKind::Limit, "a tensor of size " + dimsText(sizes) + " has more than 2^48 elements");
}

size_t bytesFor(DType dtype, DimSpan sizes) {
  size_t item = itemSize(dtype);
  if (item == 0)
    throw ExecutionError(ErrorKind::Unsupported,
                         "tensors of dtype " + std::string(pythonName(dtype)) + " are not supported");
  return static_cast<size_t>(possibleNumel(sizes)) * item;
}

}  // namespace

std::optional<int64_t> checkedNumel(DimSpan sizes) {
  int64_t count = 1;
  bool zero = false;
  for (int64_t s : sizes) {
    if (s < 0) return std::nullopt;
    if (s == 0) zero = true;
  }
  if (zero) return 0;
  for (int64_t s : sizes)
    if (__builtin_mul_overflow(count, s, &count) || count > kMaxElements) return std::nullopt;
  return count;
}

Dims contiguousStrides(DimSpan sizes) {
  Dims strides(sizes.size());
  int64_t step = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    strides[i] = step;
    // Empty tensors may have sizes whose product does not fit.
    if (__builtin_mul_overflow(step, std::max<int64_t>(sizes[i], 1), &step)) step = 1;
  }
  return strides;
}

std::string dimsText(DimSpan dims) {
  std::string out = "[";
  for (size_t i = 0; i < dims.size(); ++i) {
    if (i) out += ", ";
    out += std::to_string(dims[i]);
  }
  return out + "]";
}

bool fitsStorage(DType dtype, DimSpan sizes, DimSpan strides, int64_t offset, size_t bytes) {
  size_t item = itemSize(dtype);
  if (item == 0 || offset < 0) return false;
  Wide lowest = offset, highest = offset;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] < 0) return false;
    if (sizes[i] == 0) return true;
    Wide reach = Wide{sizes[i] - 1} * strides[i];
    (reach < 0 ? lowest : highest) += reach;
    // Each term is below 2^126; stop before a sum of 64 of them could leave 128 bits.
    if (highest > (Wide{1} << 100) || lowest < -(Wide{1} << 100)) return false;
  }
  return lowest >= 0 && (highest + 1) * static_cast<Wide>(item) <= static_cast<Wide>(bytes);
}

bool isNonOverlappingAndDense(DimSpan sizes, DimSpan strides) {
  if (std::find(sizes.begin(), sizes.end(), 0) != sizes.end()) return true;
  Dims order(sizes.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    if (sizes[a] < 2) return false;
    if (sizes[b] < 2) return true;
    return strides[a] < strides[b];
  });
  int64_t expected = 1;
  for (int64_t d : order) {
    if (sizes[d] < 2) break;
    if (strides[d] != expected) return false;
    expected *= sizes[d];
  }
  return true;
}

bool repeatsElements(DimSpan sizes, DimSpan strides) {
  for (size_t i = 0; i < sizes.size(); ++i)
    if (strides[i] == 0 && sizes[i] > 1) return !isNonOverlappingAndDense(sizes, strides);
  return false;
}

// ---- Storage ----

Ref<Storage> Storage::allocate(size_t bytes) {
  static_assert(sizeof(Storage) <= 64 + 32);
  constexpr size_t kHeader = (sizeof(Storage) + 63) / 64 * 64;
  MemoryBudget* budget = BudgetScope::current();
  chargeBudget(budget, bytes);
  size_t blockBytes = bytes + kHeader;
  void* block = allocateBlock(blockBytes);
  if (!block) {
    if (budget) budget->refund(bytes);
    throw ExecutionError(ErrorKind::Limit, "out of memory: a tensor of " + bytesText(bytes) + " cannot be allocated");
  }
  auto* s = new (block) Storage;
  s->data_ = static_cast<std::byte*>(block) + kHeader;
  s->bytes_ = bytes;
  s->blockBytes_ = blockBytes;
  if (budget) {
    budget->retain();
    s->budget_ = budget;
  }
  return Ref<Storage>::adopt(s);
}

Ref<Storage> Storage::borrow(void* data, size_t bytes, Release release, void* context, bool readOnly) {
  auto* s = new Storage;
  s->data_ = static_cast<std::byte*>(data);
  s->bytes_ = bytes;
  s->release_ = release;
  s->context_ = context;
  s->readOnly_ = readOnly;
  return Ref<Storage>::adopt(s);
}

Ref<Storage> Storage::symbolic(size_t bytes) {
  auto* s = new Storage;
  s->bytes_ = bytes;
  s->symbolic_ = true;
  return Ref<Storage>::adopt(s);
}

Ref<Storage> Storage::encoded(const EncodedElements& elements) {
  auto* s = new Storage;
  s->bytes_ = static_cast<size_t>(elements.values().numel()) * sizeof(float);
  s->readOnly_ = true;
  s->encoding_ = Ref<const EncodedElements>::share(&elements);
  return Ref<Storage>::adopt(s);
}

void Storage::setQuantization(const Quantization& q) { quantization_ = Ref<const Quantization>::share(&q); }

void Storage::destroy() const {
  if (budget_) {
    budget_->refund(bytes_);
    budget_->release();
  }
  if (release_) release_(context_);
  if (blockBytes_) {
    size_t bytes = blockBytes_;
    auto* self = const_cast<Storage*>(this);
    self->~Storage();
    freeBlock(self, bytes);
  } else {
    delete this;
  }
}

// ---- TensorImpl ----

TensorImpl::TensorImpl(DType dtype, Ref<Storage> storage, DimSpan sizes, DimSpan strides, int64_t offset)
    : dtype_(dtype) {
  setStorage(std::move(storage), sizes, strides, offset);
}

TensorImpl::~TensorImpl() {
  if (dims_ != inline_) delete[] dims_;
}

void TensorImpl::destroy() const {
  auto* self = const_cast<TensorImpl*>(this);
  self->~TensorImpl();
  freeBlock(self, (sizeof(TensorImpl) + 63) / 64 * 64);
}

void TensorImpl::reserveRank(int rank) {
  if (rank <= capacity_) return;
  if (dims_ != inline_) delete[] dims_;
  dims_ = new int64_t[2 * static_cast<size_t>(rank)];
  capacity_ = static_cast<uint16_t>(rank);
}

void TensorImpl::setStorage(Ref<Storage> storage, DimSpan sizes, DimSpan strides, int64_t offset) {
  storage_ = std::move(storage);
  setGeometry(sizes, strides, offset);
}

void TensorImpl::become(const TensorImpl& other) {
  dtype_ = other.dtype_;
  setStorage(other.storage_, other.sizes(), other.strides(), other.offset_);
}

void TensorImpl::setGeometry(DimSpan sizes, DimSpan strides, int64_t offset) {
  Dims newSizes(sizes), newStrides(strides);  // the spans may be our own
  int rank = static_cast<int>(newSizes.size());
  reserveRank(rank);
  rank_ = static_cast<uint16_t>(rank);
  int64_t step = 1;
  bool contiguous = true, empty = false;
  for (int i = rank; i-- > 0;) {
    dims_[i] = newSizes[i];
    dims_[rank + i] = newStrides[i];
    if (newSizes[i] == 0) empty = true;
    if (newSizes[i] != 1) {
      if (newStrides[i] != step) contiguous = false;
      // The product of the sizes fits unless one of them is 0.
      if (__builtin_mul_overflow(step, newSizes[i], &step)) step = 0;
    }
  }
  numel_ = empty ? 0 : step;
  contiguous_ = contiguous || empty;
  offset_ = offset;
  // Empty tensors may have any offset.
  const bool isElsewhere = storage_->encoding() || storage_->isSymbolic();
  data_ = isElsewhere ? nullptr : storage_->data() + (empty ? 0 : offset * static_cast<int64_t>(itemSize(dtype_)));
}

namespace {
void requireElements(const Storage& storage) {
  if (storage.isSymbolic()) [[unlikely]]
    throw ExecutionError(ErrorKind::Unsupported, "the elements of a tensor are not known yet");
}
}  // namespace

std::byte* TensorImpl::decodedData() const {
  requireElements(*storage_);
  const EncodedElements* encoding = storage_->encoding();
  if (!encoding) return nullptr;
  return encoding->all().raw() + (numel_ == 0 ? 0 : offset_ * static_cast<int64_t>(itemSize(dtype_)));
}

// ---- Tensor ----

Tensor Tensor::view(DType dtype, Ref<Storage> storage, DimSpan sizes, DimSpan strides, int64_t offset) {
  possibleNumel(sizes);
  return make(dtype, std::move(storage), sizes, strides, offset);
}

Tensor Tensor::make(DType dtype, Ref<Storage> storage, DimSpan sizes, DimSpan strides, int64_t offset) {
  size_t bytes = (sizeof(TensorImpl) + 63) / 64 * 64;
  void* block = allocateBlock(bytes);
  if (!block) throw ExecutionError(ErrorKind::Limit, "out of memory");
  Tensor t;
  t.impl_ = Ref<TensorImpl>::adopt(new (block) TensorImpl(dtype, std::move(storage), sizes, strides, offset));
  return t;
}

Tensor Tensor::empty(DType dtype, DimSpan sizes) {
  size_t bytes = bytesFor(dtype, sizes);
  return make(dtype, Storage::allocate(bytes), sizes, contiguousStrides(sizes), 0);
}

Tensor Tensor::emptyStrided(DType dtype, DimSpan sizes, DimSpan strides) {
  size_t bytes = bytesFor(dtype, sizes);
  return make(dtype, Storage::allocate(bytes), sizes, strides, 0);
}

Tensor Tensor::zeros(DType dtype, DimSpan sizes) {
  Tensor t = empty(dtype, sizes);
  if (size_t bytes = t.storage()->bytes()) std::memset(t.raw(), 0, bytes);
  return t;
}

Tensor Tensor::borrow(DType dtype, DimSpan sizes, void* data, Storage::Release release, void* context) {
  size_t bytes = bytesFor(dtype, sizes);
  return view(dtype, Storage::borrow(data, bytes, release, context, false), sizes, contiguousStrides(sizes), 0);
}

Tensor Tensor::borrow(DType dtype, DimSpan sizes, const void* data, Storage::Release release, void* context) {
  size_t bytes = bytesFor(dtype, sizes);
  return view(dtype, Storage::borrow(const_cast<void*>(data), bytes, release, context, true), sizes,
              contiguousStrides(sizes), 0);
}

void Tensor::requireItems(DType asked, size_t bytes) const {
  // Complex numbers are read by their parts, too.
  const bool isComponent = isComplex(dtype()) && itemSize(dtype()) == 2 * bytes;
  if (itemSize(dtype()) != bytes && !isComponent)
    throw ExecutionError(ErrorKind::Model, "elements of " + std::string(pythonName(dtype())) + ", which have " +
                                               std::to_string(itemSize(dtype())) + " bytes, were read as if they had " +
                                               std::to_string(bytes));
  auto isInteger = [](DType d) { return !isFloating(d) && !isComplex(d); };
  const bool isKindOf = isComponent ? isFloating(asked) : isInteger(asked) && isInteger(dtype());
  if (asked != DType::Undefined && !isKindOf)
    throw ExecutionError(ErrorKind::Model, "elements of " + std::string(pythonName(dtype())) + " were read as " +
                                               std::string(pythonName(asked)));
}

void Tensor::requireCount(size_t values) const {
  if (static_cast<int64_t>(values) != numel())
    throw ExecutionError(ErrorKind::Model, "a tensor of size " + dimsText(sizes()) + " has " + std::to_string(numel()) +
                                               " elements, and " + std::to_string(values) + " were given");
}

Tensor Tensor::permuted(DimSpan order) const {
  Dims newSizes, newStrides;
  for (int64_t d : order) {
    newSizes.push_back(size(static_cast<int>(d)));
    newStrides.push_back(stride(static_cast<int>(d)));
  }
  return withGeometry(newSizes, newStrides, offset());
}

void requireElements(const Tensor& t) { requireElements(*t.storage()); }

std::byte* Tensor::elementAt(int64_t index) const {
  requireElements(*this);
  int64_t at = 0;
  for (int d = rank(); d-- > 0;) {
    at += index % size(d) * stride(d);
    index /= size(d);
  }
  return raw() + at * static_cast<int64_t>(itemSize(dtype()));
}

namespace {

// The number that the integer at this row-major index stands for; where that was never said, the integer.
double numberOf(const Tensor& t, int64_t index) {
  const double q = integersOf(t).real(index);
  const Quantization* how = t.storage()->quantization();
  if (!how) return q;
  int64_t channel = index;
  for (int d = t.rank(); d-- > how->axis + 1;) channel /= t.size(d);
  if (!how->isPerTensor()) channel %= t.size(static_cast<int>(how->axis));
  const double zero = how->isPerTensor() ? static_cast<double>(how->zeroPoint) : how->zeroPoints.real(channel);
  const double scale = how->isPerTensor() ? how->scale : how->scales.real(channel);
  return static_cast<double>(static_cast<float>(q - zero) * static_cast<float>(scale));
}

}  // namespace

std::complex<double> Tensor::complex(int64_t index) const {
  if (isQuantized(dtype())) return numberOf(*this, index);
  std::byte* p = elementAt(index);
  std::complex<double> result;
  visitStoredDType(dtype(), [&](auto sample) {
    using T = decltype(sample);
    T v;
    std::memcpy(static_cast<void*>(&v), p, sizeof v);
    if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16> || kIsSmallFloat<T>)
      result = static_cast<double>(static_cast<float>(v));
    else if constexpr (std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>)
      result = {static_cast<double>(v.real()), static_cast<double>(v.imag())};
    else
      result = static_cast<double>(v);
  });
  return result;
}

double Tensor::real(int64_t index) const { return complex(index).real(); }

int64_t Tensor::integer(int64_t index) const {
  if (dtype() == DType::Int64 || dtype() == DType::UInt64) {
    int64_t v;
    std::memcpy(&v, elementAt(index), sizeof v);
    return v;
  }
  // As the x86 instruction converts: NaN and what does not fit become the smallest integer.
  double v = real(index);
  return v >= -0x1p63 && v < 0x1p63 ? static_cast<int64_t>(v) : INT64_MIN;
}

namespace {

// The bytes between which the elements of a tensor that is not empty lie.
std::pair<intptr_t, intptr_t> bounds(const Tensor& t) {
  int64_t low = 0, high = 0;
  for (int d = 0; d < t.rank(); ++d) {
    if (t.size(d) == 1) continue;
    int64_t reach = (t.size(d) - 1) * t.stride(d);
    (reach < 0 ? low : high) += reach;
  }
  auto item = static_cast<int64_t>(itemSize(t.dtype()));
  const auto start = reinterpret_cast<intptr_t>(t.raw());
  return {start + low * item, start + (high + 1) * item};
}

}  // namespace

bool sameElements(const Tensor& a, const Tensor& b) {
  return a.raw() == b.raw() && a.dtype() == b.dtype() && std::ranges::equal(a.sizes(), b.sizes()) &&
         std::ranges::equal(a.strides(), b.strides());
}

bool boundsOverlap(const Tensor& a, const Tensor& b) {
  if (a.numel() == 0 || b.numel() == 0) return false;
  auto [a0, a1] = bounds(a);
  auto [b0, b1] = bounds(b);
  return a0 < b1 && b0 < a1;
}

bool memoryOverlaps(const Tensor& a, const Tensor& b) {
  // Interleaved columns of one matrix do not meet; PyTorch answers "too hard" for them and lets them pass.
  return boundsOverlap(a, b) && isNonOverlappingAndDense(a.sizes(), a.strides()) &&
         isNonOverlappingAndDense(b.sizes(), b.strides());
}

}  // namespace tscompile
