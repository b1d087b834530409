// What functions of plugins work on, for plugin_sdk.h: the host, errors, tensors, sizes, a run.
#pragma once

#include "runtime/plugin/tscompile_plugin.h"

#include <atomic>
#include <cstddef>
#include <exception>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// Hidden: two libraries with plugins must not share what belongs to one of them.
#ifndef TSC_VISIBILITY
#define TSC_VISIBILITY [[gnu::visibility("hidden")]]
#endif
namespace TSC_VISIBILITY tsc {

inline std::string_view view(tsc_str s) { return {s.data, s.size}; }
inline tsc_str text(std::string_view s) { return {s.data(), s.size()}; }

// The host of this library; set when it is opened.
inline const tsc_host*& host() {
  static const tsc_host* theHost = nullptr;
  return theHost;
}

struct Error : std::exception {
  Error(tsc_status status, std::string message) : status(status), message(std::move(message)) {}
  const char* what() const noexcept override { return message.c_str(); }
  tsc_status status;
  std::string message;
};
[[noreturn]] inline void invalid(std::string message) { throw Error(TSC_INVALID, std::move(message)); }
[[noreturn]] inline void unsupported(std::string message) { throw Error(TSC_UNSUPPORTED, std::move(message)); }
inline void require(bool condition, const char* message) {
  if (!condition) invalid(message);
}

// Levels: 0 trace, 1 debug, 2 info, 3 warning, 4 error.
inline void log(int level, std::string_view message) { host()->log(level, text(message)); }

// ---- element types ----

inline constexpr uint32_t kF32 = TSC_DTYPE_BIT(TSC_F32), kF64 = TSC_DTYPE_BIT(TSC_F64), kF16 = TSC_DTYPE_BIT(TSC_F16),
                          kBF16 = TSC_DTYPE_BIT(TSC_BF16), kI8 = TSC_DTYPE_BIT(TSC_I8), kU8 = TSC_DTYPE_BIT(TSC_U8),
                          kI32 = TSC_DTYPE_BIT(TSC_I32), kI64 = TSC_DTYPE_BIT(TSC_I64),
                          kBool = TSC_DTYPE_BIT(TSC_BOOLEAN), kFloats = kF32 | kF64 | kF16 | kBF16,
                          kIntegers = kU8 | kI8 | TSC_DTYPE_BIT(TSC_I16) | kI32 | kI64,
                          kAll = kFloats | kIntegers | kBool;

// ---- tensors ----

class Tensor {
 public:
  explicit Tensor(const tsc_tensor& t) : t_(t) {}
  bool present() const { return t_.dtype != TSC_NONE; }
  tsc_dtype dtype() const { return static_cast<tsc_dtype>(t_.dtype); }
  size_t rank() const { return t_.rank; }
  std::span<const int64_t> sizes() const { return {t_.dims, t_.rank}; }
  // From the back if it is negative.
  int64_t size(int dim) const { return t_.dims[dim < 0 ? dim + static_cast<int>(t_.rank) : dim]; }
  int64_t numel() const {
    int64_t n = 1;
    for (int64_t s : sizes()) n *= s;
    return present() ? n : 0;
  }
  template <class T>
  T* data() const {
    return static_cast<T*>(t_.data);
  }
  template <class T>
  std::span<T> values() const {
    return {data<T>(), static_cast<size_t>(numel())};
  }

 private:
  const tsc_tensor& t_;
};

// Inputs, then outputs.
class Tensors {
 public:
  Tensors(const tsc_tensor* tensors, size_t inputs, size_t outputs)
      : tensors_(tensors), inputs_(inputs), outputs_(outputs) {}
  Tensor input(size_t i) const { return Tensor(tensors_[i]); }
  Tensor output(size_t i) const { return Tensor(tensors_[inputs_ + i]); }
  Tensor operator[](size_t i) const { return Tensor(tensors_[i]); }
  bool has(size_t input) const { return this->input(input).present(); }
  size_t inputs() const { return inputs_; }
  size_t outputs() const { return outputs_; }

 private:
  const tsc_tensor* tensors_;
  size_t inputs_, outputs_;
};

// ---- sizes that may not be known yet ----

class Dim {
 public:
  Dim(void* build, const tsc_dim* dim) : build_(build), dim_(dim) {}
  // Whether it is known, and then equal.
  bool known(int64_t* value = nullptr) const {
    int64_t ignored;
    return host()->dim_value(dim_, value ? value : &ignored);
  }
  const tsc_dim* raw() const { return dim_; }
  Dim apply(tsc_dim_op op, const Dim& other) const { return {build_, host()->dim_apply(build_, op, dim_, other.dim_)}; }
  Dim apply(tsc_dim_op op, int64_t other) const { return apply(op, Dim(build_, host()->dim_constant(build_, other))); }
  template <class T>
  friend Dim operator+(const Dim& a, const T& b) {
    return a.apply(TSC_DIM_ADD, b);
  }
  template <class T>
  friend Dim operator-(const Dim& a, const T& b) {
    return a.apply(TSC_DIM_SUB, b);
  }
  template <class T>
  friend Dim operator*(const Dim& a, const T& b) {
    return a.apply(TSC_DIM_MUL, b);
  }
  template <class T>
  friend Dim operator/(const Dim& a, const T& b) {
    return a.apply(TSC_DIM_FLOOR_DIV, b);
  }

 private:
  void* build_;
  const tsc_dim* dim_;
};

struct Shape {
  tsc_dtype dtype = TSC_NONE;
  std::vector<Dim> dims;
  std::span<const int64_t> values = {};  // of inputs declared with `host` whose elements are known
  bool present() const { return dtype != TSC_NONE; }
  size_t rank() const { return dims.size(); }
};

// What `shapes` works on.
class Shapes {
 public:
  Shapes(void* build, const tsc_shape* inputs, size_t count) : build_(build), inputs_(inputs), count_(count) {}
  size_t inputs() const { return count_; }
  bool has(size_t i) const { return inputs_[i].dtype != TSC_NONE; }
  Shape input(size_t i) const {
    const tsc_shape& s = inputs_[i];
    Shape shape{static_cast<tsc_dtype>(s.dtype), {}, {}};
    int64_t numel = 1, size = 0;
    for (uint32_t d = 0; d < s.rank; ++d) {
      shape.dims.emplace_back(build_, s.dims[d]);
      if (shape.dims.back().known(&size)) numel *= size;
    }
    if (s.values) shape.values = {s.values, static_cast<size_t>(numel)};
    return shape;
  }
  Dim constant(int64_t value) const { return {build_, host()->dim_constant(build_, value)}; }
  void output(size_t i, tsc_dtype dtype, const std::vector<Dim>& dims) {
    std::vector<const tsc_dim*> raw;
    for (const Dim& d : dims) raw.push_back(d.raw());
    host()->set_shape(build_, i, dtype, raw.data(), static_cast<uint32_t>(raw.size()));
  }
  void output(size_t i, const Shape& like) { output(i, like.dtype, like.dims); }
  // Fails if a size is known and another.
  void expect(const Dim& dim, int64_t size, const std::string& what) const {
    int64_t known;
    if (dim.known(&known) && known != size)
      invalid(what + " is " + std::to_string(known) + ", expected " + std::to_string(size));
  }
  // Fails if both are known and differ.
  void expect(const Dim& dim, const Dim& other, const std::string& what) const {
    int64_t size;
    if (other.known(&size)) expect(dim, size, what);
  }

 private:
  void* build_;
  const tsc_shape* inputs_;
  size_t count_;
};

// What `run` works on.
class Run {
 public:
  Run(void* run, Tensors inputs, Tensors outputs, std::span<std::byte> workspace, int32_t tactic)
      : run_(run), inputs_(inputs), outputs_(outputs), workspace_(workspace), tactic_(tactic) {}
  bool has(size_t input) const { return this->input(input).present(); }
  Tensor input(size_t i) const { return inputs_[i]; }
  Tensor output(size_t i) const { return outputs_[i]; }
  std::span<std::byte> workspace() const { return workspace_; }
  int32_t tactic() const { return tactic_; }
  bool cancelled() const { return host()->cancelled(run_); }
  // What the host's functions take as `run`.
  void* handle() const { return run_; }
  void setRows(size_t output, int64_t rows) { host()->set_rows(run_, output, rows); }
  // body(begin, end) for parts of [0, n) of `grain` items; they do not depend on the number of threads.
  template <class F>
  void parallelFor(size_t n, size_t grain, F&& body) const {
    struct Call {
      F& body;
      std::exception_ptr failure = nullptr;
    } call{body};
    host()->parallel_for(
        run_, n, grain,
        [](void* user, size_t begin, size_t end) {
          auto* c = static_cast<Call*>(user);
          try {
            c->body(begin, end);
          } catch (...) {
            std::exception_ptr mine = std::current_exception();
            static std::atomic_flag busy;
            while (busy.test_and_set()) {
            }
            if (!c->failure) c->failure = mine;
            busy.clear();
          }
        },
        &call);
    if (call.failure) std::rethrow_exception(call.failure);
  }

 private:
  void* run_;
  Tensors inputs_, outputs_;
  std::span<std::byte> workspace_;
  int32_t tactic_;
};

}  // namespace tsc
