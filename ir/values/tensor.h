// Strided dense tensors over shared storage. No arithmetic: kernels live in runtime/.
#pragma once

#include "ir/support/limits.h"
#include "ir/support/small_vector.h"
#include "ir/values/dtype.h"
#include "ir/values/memory.h"
#include "ir/values/refcount.h"

#include <complex>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <span>
#include <type_traits>

namespace tscompile {

// Sizes, strides, paddings, dimension lists.
using Dims = SmallVector<int64_t, 6>;
using DimSpan = std::span<const int64_t>;

// The product of the sizes, or nothing if it does not fit or is above kMaxElements. Sizes must not be negative.
std::optional<int64_t> checkedNumel(DimSpan sizes);
// Row-major strides; a size of 0 counts as 1, as PyTorch has it.
Dims contiguousStrides(DimSpan sizes);

class EncodedElements;
struct Quantization;

// A run of bytes that tensors share.
class Storage : public RefCounted {
 public:
  using Release = void (*)(void* context);

  // Throws ExecutionError (Limit) if the current budget or the machine has not enough.
  static Ref<Storage> allocate(size_t bytes);
  // Memory of somebody else; `release(context)` is called when the last tensor is gone.
  static Ref<Storage> borrow(void* data, size_t bytes, Release release, void* context, bool readOnly);

  // Stands for memory that will be there when a plan runs: geometry can be computed, elements cannot be read.
  static Ref<Storage> symbolic(size_t bytes);
  // Read-only elements of float32 that are stored smaller, and decoded when somebody first asks where they are.
  static Ref<Storage> encoded(const EncodedElements& elements);

  std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  bool isSymbolic() const { return symbolic_; }
  bool isBorrowed() const { return blockBytes_ == 0; }
  // Null if the elements are stored as they are.
  const EncodedElements* encoding() const { return encoding_.get(); }
  // Weights and constants: in-place writes are refused.
  bool readOnly() const { return readOnly_; }
  void makeReadOnly() { readOnly_ = true; }
  // What the elements of quantised tensors stand for (ir/values/quantization.h); null if they have no such meaning.
  const Quantization* quantization() const { return quantization_.get(); }
  void setQuantization(const Quantization& q);

 private:
  Storage() = default;
  void destroy() const override;

  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
  size_t blockBytes_ = 0;  // of the block that holds this object and the bytes; 0: borrowed
  bool readOnly_ = false;
  bool symbolic_ = false;
  Release release_ = nullptr;
  void* context_ = nullptr;
  MemoryBudget* budget_ = nullptr;  // one reference
  Ref<const Quantization> quantization_;
  Ref<const EncodedElements> encoding_;
};

class Tensor;

class TensorImpl : public RefCounted {
 public:
  DType dtype() const { return dtype_; }
  int rank() const { return rank_; }
  DimSpan sizes() const { return {dims_, static_cast<size_t>(rank_)}; }
  DimSpan strides() const { return {dims_ + rank_, static_cast<size_t>(rank_)}; }
  int64_t numel() const { return numel_; }
  int64_t offset() const { return offset_; }
  const Ref<Storage>& storage() const { return storage_; }
  bool isContiguous() const { return contiguous_; }
  std::byte* data() const { return data_ ? data_ : decodedData(); }

  // Gives this very tensor other sizes and strides (resize_, t_, squeeze_): every holder sees them.
  void setGeometry(DimSpan sizes, DimSpan strides, int64_t offset);
  void setStorage(Ref<Storage> storage, DimSpan sizes, DimSpan strides, int64_t offset);
  // Gives this very tensor another element type and memory (`x.data = y`).
  void become(const TensorImpl& other);

 private:
  friend class Tensor;
  TensorImpl(DType dtype, Ref<Storage> storage, DimSpan sizes, DimSpan strides, int64_t offset);
  ~TensorImpl() override;
  void destroy() const override;
  void reserveRank(int rank);
  std::byte* decodedData() const;

  std::byte* data_ = nullptr;  // of the element with index 0; null of encoded ones
  int64_t* dims_ = inline_;    // sizes, then strides
  int64_t numel_ = 0;
  int64_t offset_ = 0;  // in elements
  Ref<Storage> storage_;
  uint16_t rank_ = 0;
  uint16_t capacity_ = 6;
  DType dtype_;
  bool contiguous_ = true;
  int64_t inline_[12];
};

// A handle; copies share the tensor, its memory goes with the last of them. A default-constructed one is undefined
// (PyTorch's absent optional tensor): of it, only defined() may be asked. Sizes are not negative; strides and offsets
// count elements, and strides may be 0 or negative. Handles may be copied by several threads at once, but what one
// thread writes to elements or geometry is not ordered against what others do.
class Tensor {
 public:
  Tensor() = default;

  // Uninitialized and contiguous. Throws ExecutionError (Limit, Model) for sizes that cannot be.
  static Tensor empty(DType dtype, DimSpan sizes);
  static Tensor empty(DType dtype, std::initializer_list<int64_t> sizes) { return empty(dtype, span(sizes)); }
  // The strides must be those of a dense tensor (a permutation of the contiguous ones).
  static Tensor emptyStrided(DType dtype, DimSpan sizes, DimSpan strides);
  static Tensor zeros(DType dtype, DimSpan sizes);
  static Tensor zeros(DType dtype, std::initializer_list<int64_t> sizes) { return zeros(dtype, span(sizes)); }
  // Any view of a storage; the caller has checked that it lies inside (see `fitsStorage`). Throws ExecutionError for
  // sizes that cannot be.
  static Tensor view(DType dtype, Ref<Storage> storage, DimSpan sizes, DimSpan strides, int64_t offset);
  // Memory of the caller, row-major, not copied; it must outlive the tensor unless `release` says otherwise. What is
  // const is never written: graphs that would are refused, as for weights.
  static Tensor borrow(DType dtype, DimSpan sizes, void* data, Storage::Release release = nullptr,
                       void* context = nullptr);
  static Tensor borrow(DType dtype, DimSpan sizes, const void* data, Storage::Release release = nullptr,
                       void* context = nullptr);
  template <class Data>
  static Tensor borrow(DType dtype, std::initializer_list<int64_t> sizes, Data* data,
                       Storage::Release release = nullptr, void* context = nullptr) {
    return borrow(dtype, span(sizes), data, release, context);
  }
  // A copy of row-major values; the dtype is that of T. Throws ExecutionError if they are not as many as the sizes say.
  template <class T>
  static Tensor of(std::initializer_list<int64_t> sizes, std::span<const T> values) {
    return of(span(sizes), values);
  }
  template <class T>
  static Tensor of(DimSpan sizes, std::span<const T> values) {
    Tensor t = empty(kDTypeOf<T>, sizes);
    t.requireCount(values.size());
    if (!values.empty()) std::memcpy(t.raw(), values.data(), values.size_bytes());
    return t;
  }
  // The same of vectors, arrays and what else has its elements in a row.
  template <class Values, class T = std::remove_cvref_t<decltype(*std::data(std::declval<const Values&>()))>>
  requires(kDTypeOf<T> != DType::Undefined) static Tensor
      of(std::initializer_list<int64_t> sizes, const Values& values) {
    return of(span(sizes), std::span<const T>(values));
  }
  template <class Values, class T = std::remove_cvref_t<decltype(*std::data(std::declval<const Values&>()))>>
  requires(kDTypeOf<T> != DType::Undefined) static Tensor of(DimSpan sizes, const Values& values) {
    return of(sizes, std::span<const T>(values));
  }
  static Tensor share(TensorImpl* impl) {
    Tensor t;
    t.impl_ = Ref<TensorImpl>::share(impl);
    return t;
  }

  bool defined() const { return static_cast<bool>(impl_); }
  DType dtype() const { return impl_->dtype(); }
  int rank() const { return impl_->rank(); }
  DimSpan sizes() const { return impl_->sizes(); }
  DimSpan strides() const { return impl_->strides(); }
  int64_t size(int dim) const { return impl_->sizes()[dim]; }
  int64_t stride(int dim) const { return impl_->strides()[dim]; }
  int64_t numel() const { return impl_->numel(); }
  int64_t offset() const { return impl_->offset(); }
  bool isContiguous() const { return impl_->isContiguous(); }
  const Ref<Storage>& storage() const { return impl_->storage(); }
  TensorImpl* impl() const { return impl_.get(); }
  TensorImpl* detach() { return impl_.detach(); }

  // The element whose indices are all 0. T is the type that stores the dtype (see visitDType); of tensors that are
  // contiguous, it is an array in row-major order. Throws ExecutionError for another T: floats are not read as integers
  // nor the other way round. Unsigned types of the same size read bits; single bytes are not checked.
  std::byte* raw() const { return impl_->data(); }
  template <class T>
  T* data() const {
    constexpr DType kAsked = kDTypeOf<std::remove_cv_t<T>>;
    if (sizeof(T) > 1 && impl_->dtype() != kAsked) [[unlikely]]
      requireItems(kAsked, sizeof(T));
    return reinterpret_cast<T*>(impl_->data());
  }

  // The same memory seen otherwise.
  Tensor withGeometry(DimSpan sizes, DimSpan strides, int64_t offset) const {
    return view(dtype(), storage(), sizes, strides, offset);
  }
  Tensor permuted(DimSpan order) const;  // order[d]: the old dimension that becomes dimension d

  // The element with this row-major index, as a number. Slow: for printing and tests.
  double real(int64_t index) const;
  int64_t integer(int64_t index) const;
  std::complex<double> complex(int64_t index) const;

  friend bool operator==(const Tensor& a, const Tensor& b) { return a.impl_ == b.impl_; }

 private:
  static Tensor make(DType dtype, Ref<Storage> storage, DimSpan sizes, DimSpan strides, int64_t offset);
  static DimSpan span(std::initializer_list<int64_t> sizes) { return {sizes.begin(), sizes.size()}; }
  void requireItems(DType asked, size_t bytes) const;
  void requireCount(size_t values) const;
  std::byte* elementAt(int64_t index) const;
  Ref<TensorImpl> impl_;
};

// Throws ExecutionError if the tensor has symbolic storage: whoever asks for elements then is too early.
void requireElements(const Tensor& t);
// Whether every element of such a view lies inside `bytes` of storage; exact for all 64-bit arguments.
bool fitsStorage(DType dtype, DimSpan sizes, DimSpan strides, int64_t offset, size_t bytes);
// Whether a stride of 0 makes one element stand for several: such tensors cannot be written to. Other overlaps are not
// looked for, as in PyTorch.
bool repeatsElements(DimSpan sizes, DimSpan strides);
// Dense: the elements fill a run of memory without holes or overlap, in some order of the dimensions.
bool isNonOverlappingAndDense(DimSpan sizes, DimSpan strides);
// "[2, 3]"
std::string dimsText(DimSpan dims);

// Whether two tensors are the same elements.
bool sameElements(const Tensor& a, const Tensor& b);
// Whether the bytes between which the elements of two tensors lie have some in common.
bool boundsOverlap(const Tensor& a, const Tensor& b);
// Whether two tensors refer to the same bytes, as far as PyTorch finds out: it lets pass all that are not dense.
bool memoryOverlaps(const Tensor& a, const Tensor& b);

}  // namespace tscompile
