// A value, or the fact that making it failed; what went wrong is in the Diagnostics sink.
#pragma once

#include <optional>
#include <string_view>
#include <utility>

namespace tscompile {

// Converts to any failed Result: `return Failed{};` after reporting a diagnostic.
struct Failed {};

// Ends the process: somebody used the value of a failed Result without having asked whether there is one. Tells the
// last error that this thread has reported.
[[noreturn]] void usedFailedResult();
void rememberError(std::string_view message);

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}  // NOLINT: implicit by design
  Result(Failed) {}                              // NOLINT: implicit by design

  bool ok() const { return value_.has_value(); }
  explicit operator bool() const { return ok(); }

  T& value() & {
    requireSuccess();
    return *value_;
  }
  const T& value() const& {
    requireSuccess();
    return *value_;
  }
  T&& value() && {
    requireSuccess();
    return std::move(*value_);
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  void requireSuccess() const {
    if (!ok()) [[unlikely]]
      usedFailedResult();
  }

  std::optional<T> value_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Failed) : ok_(false) {}  // NOLINT: implicit by design
  bool ok() const { return ok_; }
  explicit operator bool() const { return ok_; }

 private:
  bool ok_ = true;
};

}  // namespace tscompile
