// A value, or the fact that making it failed; what went wrong is in the Diagnostics sink.
#pragma once

#include "ir/support/check.h"

#include <optional>
#include <utility>

namespace tscompile {

// Converts to any failed Result: `return Failed{};` after reporting a diagnostic.
struct Failed {};

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}  // NOLINT: implicit by design
  Result(Failed) {}                              // NOLINT: implicit by design

  bool ok() const { return value_.has_value(); }
  explicit operator bool() const { return ok(); }

  T& value() & {
    TS_CHECK(ok());
    return *value_;
  }
  const T& value() const& {
    TS_CHECK(ok());
    return *value_;
  }
  T&& value() && {
    TS_CHECK(ok());
    return std::move(*value_);
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
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
